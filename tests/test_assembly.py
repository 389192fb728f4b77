"""From a config to live handles: a mistake in it is an error with its place, a broken plugin stops nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import KIND, MemoryStore, Site
from warmcore import Config, ConfigError, load_config
from warmcore.assembly import Assembly, assemble
from warmcore.report import Event

CANARY = "canary-hunter2"

TYPED = """
from pathlib import Path
from typing import Literal
from tests.support import MemoryStore
from warmcore import Duration, Secret, Size, Store

class Typed(MemoryStore):
    seen = None

    def __init__(
        self,
        text: str = "",
        number: int = 0,
        flag: bool = False,
        names: list[str] = [],
        folder: Path | None = None,
        size: Size = Size(0),
        wait: Duration = Duration(0),
        password: Secret | None = None,
        colour: Literal["red", "blue"] = "red",
        inner: Store | None = None,
        odd: dict[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.given = locals()

class Needy(MemoryStore):
    def __init__(self, endpoints: list[str], inner: Store) -> None: ...
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path / "site", monkeypatch)
    site.install_doubles()
    return site


@pytest.fixture
def typed(site: Site) -> Site:
    site.install("typed", TYPED, stores={"typed": ":Typed", "needy": ":Needy"})
    return site


def made(source: Mapping[str, Any]) -> Assembly:
    return assemble(load_config(source, {}))


def mistake(source: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        made(source)
    return str(caught.value)


def store(plugin: str = "typed", **options: object) -> dict[str, Any]:
    return {"chain": ["a"], "stores": {"a": {"plugin": plugin, **options}, "b": {"plugin": "memory"}}}


def given(source: Mapping[str, Any]) -> dict[str, Any]:
    plugin: Any = made(source).stores[0].plugin
    return dict(plugin.given)


def test_stores_and_caches_come_in_the_order_of_the_config(site: Site, tmp_path: Path) -> None:
    site.install("more", "from tests.support import DemoCache as More\n", caches={"a_kind": ":More"})
    stores = {name: {"plugin": "memory"} for name in "abc"}
    caches = {name: {"folder": str(tmp_path)} for name in (KIND, "a_kind")}
    assembly = made({"chain": ["c", "a"], "stores": stores, "caches": caches})
    assert [handle.name for handle in assembly.stores] == ["c", "a"]
    assert [handle.name for handle in assembly.caches] == [KIND, "a_kind"]
    assert assembly.problems == []


def test_only_what_the_config_names_is_loaded(site: Site) -> None:
    site.install("idle", "raise SystemExit('imported')\n", stores={"idle": ":X"}, caches={"idle_kind": ":X"})
    stores = {"a": {"plugin": "memory"}, "unused": {"plugin": "idle"}}
    assembly = made({"chain": ["a"], "stores": stores})
    assert (len(assembly.stores), assembly.problems) == (1, [])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("text", "x", "x"),
        ("number", 5, 5),
        ("flag", True, True),
        ("names", ["x", "y"], ["x", "y"]),
        ("folder", "/a/../b", Path("/b")),
        ("folder", "", None),
        ("size", "2KiB", 2048),
        ("size", 7, 7),
        ("wait", "250ms", 0.25),
        ("colour", "blue", "blue"),
    ],
)
def test_a_value_arrives_as_the_plugin_declares_it(typed: Site, key: str, value: Any, expected: object) -> None:
    assert given(store(**{key: value}))[key] == expected


def test_a_store_arrives_as_the_handle_of_another(typed: Site) -> None:
    handle = given(store(inner="b"))["inner"]
    assert (handle.name, type(handle.plugin)) == ("b", MemoryStore)


def test_a_secret_is_read_from_its_file_or_variable_when_asked(
    typed: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text(CANARY + "\n")
    monkeypatch.setenv("PASSWORD", CANARY)
    assert given(store(password={"file": str(tmp_path / "password")}))["password"].reveal() == CANARY
    assert given(store(password={"env": "PASSWORD"}))["password"].reveal() == CANARY
    assert CANARY not in repr(given(store(password={"env": "PASSWORD"})))


@pytest.mark.parametrize(
    ("key", "value", "found", "expected"),
    [
        ("text", 5, "5 (int)", "a string"),
        ("number", "5", "'5' (str)", "an integer"),
        ("number", True, "True (bool)", "an integer"),
        ("number", 5.0, "5.0 (float)", "an integer"),
        ("flag", 1, "1 (int)", "true or false"),
        ("names", "x", "'x' (str)", "a list of strings"),
        ("names", [1], "a list", "a list of strings"),
        ("folder", 5, "5 (int)", "a path"),
        ("folder", "~nobody-at-all/x", "'~nobody-at-all/x' (str)", "a path"),
        ("size", "10GB", "'10GB' (str)", 'a size such as "10GiB"'),
        ("size", -1, "-1 (int)", "a size"),
        ("wait", "10", "'10' (str)", "a duration"),
        ("wait", "9" * 400 + "d", "'999", "a duration"),
        ("password", CANARY, "a str", "never the secret itself"),
        ("password", {"value": CANARY}, "a dict", "never the secret itself"),
        ("password", {"env": 5}, "a dict", "never the secret itself"),
        ("password", {"env": "A", "file": "b"}, "a dict", "never the secret itself"),
        ("colour", "green", "'green' (str)", "'red' or 'blue'"),
        ("inner", "c", "no [stores.c]", "known: a, b"),
        ("inner", ["b"], "a list", "the name of another store"),
        ("inner", 5, "5 (int)", "the name of another store"),
        ("odd", {"x": 1}, "its plugin declares a type that config can't give", "dict[str, int]"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_mistake_with_its_place(
    typed: Site, key: str, value: Any, found: str, expected: str
) -> None:
    message = mistake(store(**{key: value}))
    assert message.startswith(f"[stores.a] {key}: ")
    assert found in message
    assert expected in message


def test_an_unknown_key_of_a_plugin_gets_a_near_match(typed: Site) -> None:
    assert mistake(store(colur="red")) == "[stores.a] colur: unknown key; did you mean 'colour'?"


def test_an_unknown_key_of_a_cache_gets_a_near_match(site: Site) -> None:
    message = mistake({"caches": {KIND: {"foldr": "x"}}, **store("memory")})
    assert message == f"[caches.{KIND}] foldr: unknown key; did you mean 'folder'?"


def test_a_missing_key_that_the_plugin_needs_is_named(typed: Site) -> None:
    assert mistake(store("needy")).startswith("[stores.a] endpoints: missing")
    assert mistake(store("needy", endpoints=["x"])).startswith("[stores.a] inner: missing")


def test_a_plugin_that_is_not_installed_says_what_is_and_what_to_do(site: Site) -> None:
    message = mistake(store("memroy"))
    assert message.startswith("[stores.a]: no store plugin 'memroy' is installed: pip install")
    assert "did you mean 'memory'?" in message


def test_a_kind_that_is_not_installed_says_what_is_and_what_to_do(site: Site) -> None:
    message = mistake({"caches": ["qqqq"], **store("memory")})
    assert message.startswith("[caches.qqqq]: no cache plugin 'qqqq' is installed: pip install")
    assert KIND in message


def test_stores_inside_each_other_in_a_circle_are_a_mistake(typed: Site) -> None:
    circle = {"a": {"plugin": "typed", "inner": "b"}, "b": {"plugin": "typed", "inner": "a"}}
    assert "in a circle: a -> b -> a" in mistake({"chain": ["a"], "stores": circle})
    assert "in a circle: a -> a" in mistake(store(inner="a"))


@pytest.mark.parametrize(("key", "value"), [("mode", "read"), ("shared", True), ("trusted", True)])
def test_a_wrapper_may_not_say_what_its_inner_store_says(typed: Site, key: str, value: Any) -> None:
    message = mistake(store(inner="b", **{key: value}))
    assert message.startswith(f"[stores.a] {key}: ")
    assert "[stores.b]" in message


def test_a_wrapper_with_dashes_may_not_say_it_in_the_environment_either(typed: Site) -> None:
    source = {"chain": ["a-z"], "stores": {"a-z": {"plugin": "typed", "inner": "b"}, "b": {"plugin": "memory"}}}
    with pytest.raises(ConfigError, match=r"\[stores.a-z\] trusted"):
        assemble(load_config(source, {"WARMCORE_STORES__A_Z__TRUSTED": "true"}))


STORE = "from tests.support import MemoryStore\nclass X(MemoryStore):\n    "
BROKEN = {
    "import": ("import surely_not_installed", "No module named 'surely_not_installed'"),
    "import exits": ("raise SystemExit(1)", "SystemExit"),
    "import sleeps": ("import threading\nthreading.Event().wait()", "no answer within"),
    "no class": ("X = 1", "expected a class"),
    "misspelt hook": (
        f"from warmcore import hookimpl\n{STORE}@hookimpl\n    def store_gett(self, key): ...",
        "did you mean store_get?",
    ),
    "constructor raises": (f"{STORE}def __init__(self): raise OSError('no disk')", "OSError: no disk"),
    "constructor exits": (f"{STORE}def __init__(self): raise SystemExit(1)", "SystemExit"),
    "constructor sleeps": (
        f"import threading\n{STORE}def __init__(self): threading.Event().wait()",
        "no answer within",
    ),
    "annotation of a name that is not there": (
        f"from __future__ import annotations\n{STORE}def __init__(self, place: Nowhere = None): ...",
        "Nowhere",
    ),
    "attribute raises": (
        f"class Oops:\n    def __get__(self, *_): raise OSError('oops')\n{STORE}client = Oops()",
        "oops",
    ),
    "error that can't be shown": (
        f"from tests.support import BrokenText\n{STORE}def __init__(self): raise BrokenText",
        "BrokenText",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_plugin_is_named_with_its_cause_and_stops_nothing_else(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:  # PL-01, PL-06, JW-01
    monkeypatch.setattr("warmcore.discovery.LOAD_SECONDS", 0.1)
    monkeypatch.setattr("warmcore.assembly.LOAD_SECONDS", 0.1)
    code, cause = BROKEN[fault]
    site.install("broken", code, stores={"broken": ":X"})
    stores = {"a": {"plugin": "broken"}, "b": {"plugin": "memory"}}
    assembly = made({"chain": ["a", "b"], "stores": stores, "caches": {KIND: {"folder": str(tmp_path)}}})
    assert [handle.name for handle in assembly.stores] == ["b"]
    assert [handle.name for handle in assembly.caches] == [KIND]
    assert len(assembly.problems) == 1
    assert assembly.problems[0].startswith("store 'a': ")
    assert cause in assembly.problems[0]


def test_a_cache_with_a_bad_class_attribute_stops_nothing_else(site: Site, tmp_path: Path) -> None:
    code = "from tests.support import DemoCache\nclass X(DemoCache):\n    max_bytes = '4MiB'\n"
    site.install("broken", code, caches={"a_kind": ":X"})
    caches = {name: {"folder": str(tmp_path)} for name in ("a_kind", KIND)}
    assembly = made({**store("memory"), "caches": caches})
    assert [handle.name for handle in assembly.caches] == [KIND]
    assert "max_bytes" in assembly.problems[0]


def test_a_store_that_cannot_be_set_up_takes_its_wrapper_with_it(typed: Site) -> None:
    typed.install("broken", "raise OSError('gone')\n", stores={"broken": ":X"})
    stores = {"a": {"plugin": "typed", "inner": "b"}, "b": {"plugin": "broken"}, "c": {"plugin": "memory"}}
    assembly = made({"chain": ["a", "c"], "stores": stores})
    assert [handle.name for handle in assembly.stores] == ["c"]
    assert "OSError: gone" in assembly.problems[0]


def test_a_plugin_that_prints_at_import_is_used(site: Site) -> None:
    code = "print('hello')\nfrom tests.support import MemoryStore\nclass Loud(MemoryStore):\n    pass\n"
    site.install("loud", code, stores={"loud": ":Loud"})
    assert len(made(store("loud")).stores) == 1


def test_a_class_for_two_groups_plays_both_roles_and_is_imported_once(site: Site) -> None:  # PL-08
    code = (
        "from tests.support import MemoryStore\nfrom warmcore import hookimpl\nimports = []\nimports.append(1)\n"
        "class Both(MemoryStore):\n    @hookimpl\n    def on_event(self, event): self.calls.append('told')\n"
    )
    site.install("both", code, stores={"both": ":Both"}, extensions={"both": ":Both"})
    assembly = made({**store("both"), "extensions": ["both"]})
    assert (len(assembly.stores), len(assembly.listeners), assembly.problems) == (1, 1, [])


def test_a_store_plugin_in_the_wrong_group_is_named(site: Site) -> None:
    site.install("wrong", caches={"wrong_kind": "tests.support:MemoryStore"})
    assembly = made({**store("memory"), "caches": ["wrong_kind"]})
    assert "cache 'wrong_kind'" in assembly.problems[0]
    assert len(assembly.stores) == 1


def test_a_listener_gets_the_event(site: Site) -> None:
    code = (
        "from warmcore import hookimpl\nseen = []\nclass Ear:\n    @hookimpl\n"
        "    def on_event(self, event): seen.append(event.outcome)\n"
    )
    site.install("ear", code, extensions={"ear": ":Ear"})
    assembly = made({**store("memory"), "extensions": ["ear"]})
    event = Event(0.0, "look-up", KIND, "k", "a", "hit")
    assembly.listeners[0](event)
    listener: Any = assembly.listeners[0]
    assert listener.__closure__[0].cell_contents.on_event.__globals__["seen"] == ["hit"]


def test_a_disabled_config_loads_nothing(site: Site) -> None:
    site.install("exit", "raise SystemExit\n", stores={"exit": ":X"})
    assert assemble(Config(disabled=True)) == Assembly()


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (store(password=CANARY), "[stores.a] password"),
        (store(password=[CANARY]), "[stores.a] password"),
        (store(password={"value": CANARY}), "[stores.a] password"),
        (store(password={CANARY: "x"}), "[stores.a] password"),
        (store(number=f"https://me:{CANARY}@host"), "[stores.a] number"),
        (store(number=f"https://me:a/{CANARY}@host"), "[stores.a] number"),
        (store(number={"x": CANARY}), "[stores.a] number"),
        (store(colour=f"https://me:{CANARY}@host"), "[stores.a] colour"),
        (store(inner=f"https://me:{CANARY}@host"), "[stores.a] inner"),
        (store(passwrd=CANARY), "[stores.a] passwrd"),
        (store(f"https://me:{CANARY}@host"), "[stores.a]"),
    ],
)
def test_no_message_shows_a_secret(typed: Site, source: Mapping[str, Any], place: str) -> None:
    message = mistake(source)
    assert message.startswith(place)
    assert CANARY not in message


def test_a_secret_that_is_gone_is_a_mistake_that_names_where_it_was_looked_for(site: Site) -> None:
    code = (
        "from tests.support import MemoryStore\nfrom warmcore import Secret\n"
        "class Guarded(MemoryStore):\n    def __init__(self, password: Secret): password.reveal()\n"
    )
    site.install("guarded", code, stores={"guarded": ":Guarded"})
    assert mistake(store("guarded", password={"env": "NOT_SET"})).startswith("[stores.a] secret env 'NOT_SET'")
    assert "can't be read" in mistake(store("guarded", password={"file": "~nobody-at-all/x"}))
