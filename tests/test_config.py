"""Every mistake in a config names its place and its remedy; a secret is never shown; the off switch is one switch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from warmcore import Config, ConfigError, load_config
from warmcore.config import Policy, is_disabled

CANARY = "canary-hunter2"

STORE = '[stores.local]\nplugin = "disk"\n'


def mistake(source: Mapping[str, Any] | Path | None, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source, environ or {})
    return str(caught.value)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "warmcore.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ('cachs = ["demo"]', "cachs: unknown key", "did you mean 'caches'?"),
        ("qqq = 1", "qqq: unknown key", "known: caches, chain, extensions, policy, stores, strict"),
        ('[policy]\nbugdet = "1s"', "[policy] bugdet: unknown key", "did you mean 'budget'?"),
        (f'chain = ["locl"]\n{STORE}', "chain: no [stores.locl]", "did you mean 'local'?"),
        ('chain = ["a"]', "chain: no [stores.a]", "known: none"),
        ('[stores.a]\npath = "/x"', "[stores.a]", "warmcore list-plugins"),
        ("[stores.a]", "[stores.a]", 'plugin = "disk"'),
    ],
)
def test_a_name_that_is_not_known_gets_its_place_and_a_near_match(
    write: Any, text: str, place: str, remedy: str
) -> None:
    message = mistake(write(text))
    assert message.startswith(place)
    assert remedy in message


@pytest.mark.parametrize(
    ("text", "place", "found", "expected"),
    [
        ("[policy]\nnamespace = 5", "[policy] namespace", "5 (int)", "a string"),
        ('[policy]\nbudget = "soon"', "[policy] budget", "'soon' (str)", "a duration"),
        ("[policy]\nbudget = -1", "[policy] budget", "-1 (int)", "a duration"),
        ("[policy]\nbudget = nan", "[policy] budget", "nan (float)", "a duration"),
        ("[policy]\nbudget = inf", "[policy] budget", "inf (float)", "a duration"),
        ("[policy]\nkeep = true", "[policy] keep", "True (bool)", "a duration"),
        ("[policy]\nreports = 5", "[policy] reports", "5 (int)", "a path"),
        ("policy = 5", "[policy]", "5 (int)", "a table"),
        ('strict = "yes"', "strict", "'yes' (str)", "true or false"),
        ("strict = 1", "strict", "1 (int)", "true or false"),
        ('chain = "local"', "chain", "'local' (str)", "a list of strings"),
        ("chain = [1]", "chain", "a list", "a list of strings"),
        ('stores = ["a"]', "stores", "a list", "a table"),
        ("[stores]\na = 5", "[stores.a]", "5 (int)", "a table"),
        ("[stores.a]\nplugin = 5", "[stores.a] plugin", "5 (int)", "a string"),
        (f'{STORE}mode = "write"', "[stores.local] mode", "'write' (str)", "'read' or 'lease' or 'read-write'"),
        (f"{STORE}mode = []", "[stores.local] mode", "a list", "'read' or 'lease' or 'read-write'"),
        (f'{STORE}timeout = "2 parsecs"', "[stores.local] timeout", "'2 parsecs' (str)", "a duration"),
        (f'{STORE}shared = "yes"', "[stores.local] shared", "'yes' (str)", "true or false"),
        (f"{STORE}trusted = 1", "[stores.local] trusted", "1 (int)", "true or false"),
        ("caches = 5", "caches", "5 (int)", "a list of names, or tables [caches.<name>]"),
        ("caches = [1]", "caches", "a list", "a list of strings"),
        ("[caches]\ndemo = 5", "[caches.demo]", "5 (int)", "a table"),
        ("extensions = true", "extensions", "True (bool)", "a list of names"),
    ],
)
def test_a_value_of_the_wrong_type_is_shown_with_what_was_expected(
    write: Any, text: str, place: str, found: str, expected: str
) -> None:
    message = mistake(write(text))
    assert message.startswith(f"{place}: found {found}")
    assert expected in message


@pytest.mark.parametrize("namespace", ["", ".", "..", "a/b", "UPPER", "a" * 65, "a b", "ä", "a\n"])
def test_a_namespace_that_could_leave_its_place_is_refused(namespace: str) -> None:
    message = mistake({"policy": {"namespace": namespace}})
    assert message.startswith("[policy] namespace")


@pytest.mark.parametrize(
    "text", ["[stores", 'a = "', "a = 1\na = 2", "\ufeffstrict = true", "a = " + "[" * 5000, "a = " + "9" * 5000]
)
def test_a_file_that_is_not_toml_is_named(write: Any, text: str) -> None:
    path = write(text)
    assert mistake(path).startswith(f"{path}: not valid TOML")


def test_a_file_that_is_not_utf_8_is_named(write: Any) -> None:
    path = write(b'namespace = "\xff\xfe"')
    assert mistake(path).startswith(f"{path}: not valid TOML")


def test_tables_nested_out_of_reach_are_a_mistake_like_any_other(write: Any) -> None:
    assert mistake(write("policy." + "a." * 3000 + "a = 1"))


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    named = tmp_path / "none.toml"
    assert (
        mistake(None, {"WARMCORE_CONFIG": str(named)})
        == f"{named}: no such file: create it, or name another (in WARMCORE_CONFIG, say)"
    )


def test_a_folder_in_place_of_a_file_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path) == f"{tmp_path}: can't be read: Is a directory: name a file that this user may read"


def test_a_config_under_the_home_of_nobody_is_a_mistake_and_no_crash() -> None:
    assert "~nobody-at-all" in mistake(None, {"WARMCORE_CONFIG": "~nobody-at-all/warmcore.toml"})


def test_a_path_with_a_zero_byte_is_a_mistake() -> None:
    mistake(Path("a\0b"))


def test_without_a_file_there_is_one_private_disk_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert (config.chain, config.stores["local"].keys.plugin) == (("local",), "disk")
    assert (dict(config.caches), config.policy, config.path) == ({}, Policy(), None)


def test_the_file_in_the_working_folder_is_read(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write('caches = ["demo"]')
    monkeypatch.chdir(tmp_path)
    assert list(load_config(None, {}).caches) == ["demo"]


def test_caches_are_a_list_or_tables_and_keep_their_order(write: Any) -> None:
    as_list = load_config(write('caches = ["b", "a"]'), {})
    as_tables = load_config(write("[caches.b]\nx = 1\n[caches.a]"), {})
    assert list(as_list.caches.items()) == [("b", {}), ("a", {})]
    assert list(as_tables.caches.items()) == [("b", {"x": 1}), ("a", {})]


def test_an_override_reaches_a_nested_key_whose_name_has_dashes(write: Any) -> None:
    path = write('chain = ["fleet-etcd"]\n[stores.fleet-etcd]\nplugin = "etcd"\nkey-file = "x"')
    environ = {"WARMCORE_STORES__FLEET_ETCD__TIMEOUT": "3s", "WARMCORE_STORES__FLEET_ETCD__KEY_FILE": "y"}
    store = load_config(path, environ).stores["fleet-etcd"]
    assert (store.keys.timeout, store.options) == (3.0, {"key-file": "y"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("true", True), ('["a"]', ["a"]), ('"5"', "5"), ("/a/b", "/a/b"), ("", ""), ("1\nx = 2", "1\nx = 2")],
)
def test_an_override_is_a_toml_value_or_else_a_string(text: str, value: object) -> None:
    config = load_config({"caches": {"demo": {}}}, {"WARMCORE_CACHES__DEMO__X": text})
    assert config.caches["demo"] == {"x": value}


def test_an_override_of_a_list_of_names_is_comma_separated() -> None:
    source = {"stores": {"a": {"plugin": "disk"}, "b": {"plugin": "disk"}}}
    assert load_config(source, {"WARMCORE_CHAIN": " b, a,"}).chain == ("b", "a")


def test_chosen_caches_keep_the_keys_that_the_file_gives_them() -> None:
    config = load_config({"caches": {"a": {"x": 1}, "b": {"y": 2}}}, {"WARMCORE_CACHES": "b,c"})
    assert config.caches == {"b": {"y": 2}, "c": {}}


def test_a_key_of_a_cache_can_be_overridden_where_the_caches_are_a_list() -> None:
    config = load_config({"caches": ["demo"]}, {"WARMCORE_CACHES__DEMO__X": "1"})
    assert config.caches == {"demo": {"x": 1}}


def test_overrides_leave_the_callers_own_mapping_alone() -> None:
    mine = {"stores": {"a": {"plugin": "disk"}}}
    load_config(mine, {"WARMCORE_STORES__A__TIMEOUT": "3s"})
    assert mine == {"stores": {"a": {"plugin": "disk"}}}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WARMCORE_POLICY__BUDGET", "soon"),
        ("WARMCORE_POLICY__BUGDET", "1s"),
        ("WARMCORE_POLICY__BUDGET__X", "1s"),
        ("WARMCORE_CHAIN", "nowhere"),
        ("WARMCORE_NAMESPACE", "x"),
        ("WARMCORE_STORES__LOCAL__MODE", "write"),
        ("WARMCORE_STORES__LOCAL", "disk"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(write: Any, variable: str, value: str) -> None:
    path = write(f'{STORE}[policy]\nbudget = "1s"')
    assert variable in mistake(path, {variable: value})


def test_origins_tell_file_environment_and_python_apart(write: Any) -> None:
    path = write('caches = ["demo"]\n[stores.fleet-etcd]\nplugin = "etcd"\ntimeout = "1s"')
    origins = load_config(path, {"WARMCORE_STORES__FLEET_ETCD__TIMEOUT": "3s"}).origins
    assert origins["stores.fleet-etcd.plugin"] == str(path)
    assert origins["stores.fleet-etcd.timeout"] == "WARMCORE_STORES__FLEET_ETCD__TIMEOUT"
    assert load_config({"strict": True}, {}).origins == {"strict": "Python"}


def test_a_store_inside_another_is_no_link_of_the_default_chain() -> None:
    inside = {"fleet": {"plugin": "zstd", "inner": "fleet-etcd"}, "fleet-etcd": {"plugin": "etcd"}}
    assert load_config({"stores": inside}, {}).chain == ("fleet",)


def test_an_inner_store_that_is_no_name_is_left_to_its_plugin_to_refuse() -> None:
    stores = {"a": {"plugin": "zstd", "inner": ["b"]}, "b": {"plugin": "disk"}}
    assert load_config({"stores": stores}, {}).chain == ("a", "b")


def test_a_store_stands_once_in_the_chain() -> None:
    assert "chain" in mistake({"chain": ["a", "a"], "stores": {"a": {"plugin": "disk"}}})


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_the_off_switch_reads_no_file(value: str, write: Any) -> None:
    config = load_config(write("not = [toml"), {"WARMCORE_DISABLE": value})
    assert config == Config(disabled=True)


@pytest.mark.parametrize("value", ["", "0", "false", "No", "off"])
def test_the_off_switch_can_be_left_on_the_on_side(value: str) -> None:
    assert not is_disabled({"WARMCORE_DISABLE": value})
    assert not is_disabled({})


def test_an_off_switch_that_says_neither_is_a_mistake() -> None:
    assert mistake({}, {"WARMCORE_DISABLE": "maybe"}) == "WARMCORE_DISABLE: found 'maybe', expected 1 or 0"


@pytest.mark.parametrize(
    ("source", "environ"),
    [
        ({"strict": True, "cachs": []}, {}),
        ({"strict": True, "policy": {"budget": "soon"}}, {}),
        ({"cachs": []}, {"WARMCORE_STRICT": "true"}),
        ({"strict": True}, {"WARMCORE_POLICY__BUDGET": "soon"}),
        ({"strict": True}, {"WARMCORE_DISABLE": "maybe"}),
    ],
)
def test_the_error_says_whether_the_config_is_strict(source: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(source, environ)
    assert caught.value.strict


def test_the_error_of_a_config_that_is_not_strict_says_so() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"strict": "yes", "cachs": []}, {})
    assert not caught.value.strict


WITH_A_SECRET: list[tuple[Mapping[str, Any], Mapping[str, str]]] = [
    ({"stores": {"a": {"plugin": "x", "password": CANARY}}}, {}),
    ({"stores": {"a": {"plugin": "x", "endpoints": [f"https://me:{CANARY}@host"]}}}, {}),
    ({"caches": {"demo": {"token": CANARY}}}, {}),
    ({"extensions": {"metrics": {"url": f"https://me:{CANARY}@host"}}}, {}),
    ({"stores": {"a": {"plugin": "x"}}}, {"WARMCORE_STORES__A__PASSWORD": CANARY}),
]


@pytest.mark.parametrize(("source", "environ"), WITH_A_SECRET)
def test_the_repr_of_a_config_shows_no_option(source: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    config = load_config(source, environ)
    assert CANARY not in f"{config!r} {config} {config.stores!r} {config.origins}"


@pytest.mark.parametrize(
    ("source", "environ"),
    [
        ({"password": CANARY}, {}),
        ({"policy": {"token": CANARY}}, {}),
        ({"policy": {"budget": f"https://me:{CANARY}@host"}}, {}),
        ({"policy": {"budget": f"https://me:a/{CANARY}@host"}}, {}),
        ({"policy": {"budget": f"https://me:a@{CANARY}@host"}}, {}),
        ({"policy": {"namespace": f"https://me:{CANARY}@host"}}, {}),
        ({"policy": {"budget": {"value": CANARY}}}, {}),
        ({"chain": [f"https://me:{CANARY}@host"]}, {}),
        ({"stores": f"https://me:{CANARY}@host"}, {}),
        ({"stores": {"a": f"https://me:{CANARY}@host"}}, {}),
        ({}, {"WARMCORE_PASSWORD": CANARY}),
        ({}, {"WARMCORE_POLICY__PASSWORD": CANARY}),
        ({}, {"WARMCORE_CHAIN": f"https://me:{CANARY}@host"}),
        ({}, {"WARMCORE_DISABLE": f"https://me:{CANARY}@host"}),
    ],
)
def test_no_message_shows_a_secret(source: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    assert CANARY not in mistake(source, environ)


def test_the_variables_that_kubernetes_sets_for_a_service_of_our_name_are_no_mistake() -> None:
    environ = {
        "WARMCORE_SERVICE_HOST": "10.0.0.1",
        "WARMCORE_SERVICE_PORT": "80",
        "WARMCORE_SERVICE_PORT_HTTP": "80",
        "WARMCORE_PORT": "tcp://10.0.0.1:80",
        "WARMCORE_PORT_80_TCP": "tcp://10.0.0.1:80",
        "WARMCORE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert load_config({}, environ).policy == Policy()
