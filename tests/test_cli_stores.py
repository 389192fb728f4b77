"""`ls`, `inspect` and `verify` on a real disk store: what is stored, what it says of itself, what is wrong with it."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cli_support import ROOT, Cli, put, run_inside, seal
from tests.support import Site, from_the_future
from warmcore import Place, Store, load_config
from warmcore.assembly import assemble
from warmcore.identity import Scalar

CONFIG = """
[stores.near]
plugin = "disk"
path = "near"
durable = false

[stores.far]
plugin = "disk"
path = "far"
durable = false
"""
FACTORS: dict[str, Scalar] = {"gpu": "NVIDIA H200", "tp_size": 8, "alpha": 1.0, "graphs": True, "note": None}

HANGS = """
import logging, threading
from tests.support import MemoryStore
from warmcore import hookimpl
class Hangs(MemoryStore):
    @hookimpl
    def store_get(self, key, sink, fresh):
        threading.Event().wait()
class HangsAtOnce(Hangs):
    @hookimpl
    def store_list(self, prefix):
        logging.getLogger("hangs").info("hangs now")
        threading.Event().wait()
class Raises(MemoryStore):
    @hookimpl
    def store_list(self, prefix):
        raise OSError("the network is down")
class Lies(MemoryStore):
    @hookimpl
    def store_list(self, prefix):
        return [1, "two"]
class CannotList:
    @hookimpl
    def store_get(self, key, sink, fresh): ...
    @hookimpl
    def store_put(self, key, source, expect, fence): ...
"""


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path / "site", monkeypatch)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Store]:
    monkeypatch.chdir(tmp_path)
    Path("warmcore.toml").write_text(CONFIG)
    return {store.name: store for store in assemble(load_config()).stores}


def use(site: Site, plugin: str) -> None:
    """Put a store with a fault behind the near one."""
    site.install(
        "faults",
        HANGS,
        stores={name.lower(): f":{name}" for name in ("Hangs", "HangsAtOnce", "Raises", "Lies", "CannotList")},
    )
    Path("warmcore.toml").write_text(
        CONFIG.replace(
            '[stores.far]\nplugin = "disk"\npath = "far"\ndurable = false', f'[stores.far]\nplugin = "{plugin}"'
        )
    )


def states(cli: Cli, *args: str) -> dict[tuple[str, str], str]:
    return {(each["store"], each["key"]): each["state"] for each in cli("verify", "--json", *args).json["objects"]}


def test_an_empty_store_is_listed_and_verified_in_words(cli: Cli, stores: dict[str, Store]) -> None:
    assert cli("ls") == cli("ls", "--config", "warmcore.toml")
    assert (cli("ls").code, cli("ls").out) == (0, "nothing is stored in near, far\n")
    assert (cli("verify").code, cli("verify").out) == (0, "0 objects in 2 stores\n")
    assert sorted(path.name for path in Path().iterdir()) == ["warmcore.toml"]


def test_ls_tells_two_artifacts_under_one_key_apart(cli: Cli, stores: dict[str, Store]) -> None:
    key, near = seal(FACTORS, {"table.json": b"tactic 1"})
    _, far = seal(FACTORS, {"table.json": b"tactic 2"})
    put(stores["near"], key, near)
    put(stores["far"], key, far)
    entries = cli("ls", "--json").json["entries"]
    assert [(each["key"], each["store"], each["size"]) for each in entries] == [
        (key, "near", len(near)),
        (key, "far", len(far)),
    ]
    assert len({each["digest"] for each in entries}) == 2
    assert all(
        abs(each["created"] - time.time()) < 60 and each["expires"] - each["created"] == 86400 for each in entries
    )
    text = cli("ls").out
    assert text.count(key) == 2 and entries[0]["digest"][:12] in text and entries[1]["digest"][:12] in text


@pytest.mark.parametrize(
    ("prefix", "count"), [("", 3), ("v1/", 3), ("v1/demo/", 2), ("demo", 2), ("other", 1), ("v1/x", 0)]
)
def test_ls_takes_the_start_of_a_key(cli: Cli, stores: dict[str, Store], prefix: str, count: int) -> None:
    for kind, tp_size in (("demo", 1), ("demo", 2), ("other", 1)):
        put(stores["near"], *seal({"tp_size": tp_size}, {"a": b"a"}, kind=kind))
    assert len(cli("ls", prefix, "--json").json["entries"]) == count


def test_ls_shows_only_its_own_namespace(cli: Cli, stores: dict[str, Store]) -> None:
    put(stores["near"], *seal(FACTORS, {"a": b"a"}, namespace="team"), namespace="team")
    assert cli("ls", "--json").json["entries"] == []
    Path("warmcore.toml").write_text(CONFIG + '[policy]\nnamespace = "team"\n')
    assert len(cli("ls", "--json").json["entries"]) == 1


def test_ls_lists_what_has_no_readable_head(cli: Cli, stores: dict[str, Store]) -> None:
    key, _ = seal(FACTORS, {"a": b"a"})
    put(stores["near"], key, b"no seal")
    assert "no readable head" in cli("ls").out
    assert cli("ls", "--json").json["entries"][0]["digest"] is None


def test_inspect_shows_the_header_and_that_all_digests_are_right(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = seal(FACTORS, {"sub/a.json": b"{}", "b": b"bytes"})
    put(stores["far"], key, data)
    ran = cli("inspect", key)
    assert ran.code == 0
    for text in (
        key,
        "far",
        "sound",
        "default",
        '"NVIDIA H200"',
        "alpha    1.0",
        "true",
        "null",
        "sub/a.json",
        "7.05 s",
        "9" * 32,
    ):
        assert text in ran.out, text
    header = cli("inspect", key, "--json").json["header"]
    assert header["identity"] == FACTORS and [file["name"] for file in header["files"]] == ["b", "sub/a.json"]


def test_inspect_asks_the_plugin_of_the_kind(cli: Cli, stores: dict[str, Store], site: Site) -> None:
    site.install(
        "demo",
        "from tests.support import FaultyCache\n"
        "class Demo(FaultyCache):\n    def __init__(self): super().__init__(None)\n"
        "class Broken(FaultyCache):\n    def __init__(self): super().__init__(None, describe=lambda payload: 1 / 0)\n",
        caches={"demo": ":Demo", "broken": ":Broken"},
    )
    for kind in ("demo", "broken", "unknown"):
        put(stores["near"], *seal(FACTORS, {"gemm": b"12345"}, kind=kind))
    rows = [{"operation": "gemm", "bytes": "5"}]
    assert [cli("inspect", f"v1/{kind}", "--json").json["content"] for kind in ("demo", "broken", "unknown")] == [
        rows,
        [],
        [],
    ]
    assert "content     1 rows" in cli("inspect", "demo").out
    assert "ZeroDivisionError" in cli("inspect", "broken").err and cli("inspect", "broken").code == 0
    assert "no cache plugin 'unknown' is installed" in cli("inspect", "unknown").err


def test_inspect_takes_the_start_of_a_hash_if_only_one_key_is_meant(cli: Cli, stores: dict[str, Store]) -> None:
    keys = [seal({"tp_size": size}, {"a": b"a"})[0] for size in range(20)]
    for size, key in enumerate(keys):
        put(stores["near"], key, seal({"tp_size": size}, {"a": b"a"})[1])
    digest = keys[0].split("/")[2]
    assert cli("inspect", digest, "--json").json["key"] == keys[0]
    assert cli("inspect", f"demo/{digest[:12]}", "--json").json["key"] == keys[0]
    several = cli("inspect", "v1/demo/")
    assert several.code == 2 and "20 stored keys start so" in several.err


def test_inspect_reads_the_store_that_is_named(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = seal(FACTORS, {"a": b"near"})
    put(stores["near"], key, data)
    put(stores["far"], key, data[:-1])
    assert cli("inspect", key, "--json").json["state"] == "sound"
    ran = cli("inspect", key, "--store", "far")
    assert ran.code == 1 and "damaged: " in ran.out and '"NVIDIA H200"' in ran.out
    gone = cli("inspect", key.replace("/all", "/other"))
    assert (gone.code, gone.out) == (1, "") and "in none of the stores" in gone.err


def test_verify_says_what_is_wrong_with_each_object_in_one_line(cli: Cli, stores: dict[str, Store]) -> None:
    near, far = stores["near"], stores["far"]
    sealed = [seal({"tp_size": size}, {"a": b"content of a file", "b": b"b"}) for size in range(12)]
    wrong = {
        "flipped": sealed[0][1][:-1] + b"X",
        "cut": sealed[1][1][:-1],
        "longer": sealed[2][1] + b"X",
        "empty": b"",
        "random": bytes(range(256)) * 40,
        "header": sealed[5][1].replace(b'"tp_size": 5', b'"tp_size": 6'),
        "another key's": sealed[0][1],
        "another namespace's": seal({"tp_size": 7}, {"a": b"a"}, namespace="team")[1],
    }
    for (key, _), data in zip(sealed, wrong.values(), strict=False):
        put(near, key, data)
    put(near, sealed[8][0], seal({"tp_size": 8}, {"a": b"a"}, keep=0)[1])
    put(near, sealed[9][0], from_the_future(sealed[9][1]))
    put(near, *sealed[10])
    put(far, *sealed[11])
    put(far, "no/key of ours", b"")
    expected = [*["damaged"] * len(wrong), "expired", "newer"]
    found = states(cli)
    assert [found[("near", key)] for key, _ in sealed[:10]] == expected
    assert found[("far", "no/key of ours")] == "foreign" and len(found) == 11
    ran = cli("verify")
    assert ran.code == 1 and ran.err == ""
    assert "13 objects in 2 stores: 8 damaged, 2 sound, 1 expired, 1 foreign, 1 newer" in ran.out
    assert len(ran.out.splitlines()) == 12 and "sealed for namespace 'team'" in ran.out


def test_verify_checks_the_bytes_of_an_expired_object_too(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = seal(FACTORS, {"a": b"a"}, keep=0)
    put(stores["near"], key, data)
    assert cli("verify").code == 0 and states(cli) == {("near", key): "expired"}
    put(stores["near"], key, data[:-1] + b"X")
    assert cli("verify").code == 1 and states(cli) == {("near", key): "damaged"}


def test_verify_of_sound_objects_is_one_line_and_exit_code_0(cli: Cli, stores: dict[str, Store]) -> None:
    put(stores["near"], *seal(FACTORS, {"a": b"a"}, place=Place(tp=1, rank=1)))
    put(stores["near"], *seal(FACTORS, {"a": b"a"}, kind="other"))
    assert cli("verify") == cli("verify", "")
    assert (cli("verify").code, cli("verify").out) == (0, "2 objects in 2 stores: 2 sound\n")
    assert cli("verify", "other").out == "1 objects in 2 stores: 1 sound\n"


def test_verify_changes_nothing(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = seal(FACTORS, {"a": b"a"})
    put(stores["near"], key, data[:-1])
    before = {path: path.stat().st_mtime_ns for path in Path("near").rglob("*")}
    assert cli("verify").code == 1
    assert {path: path.stat().st_mtime_ns for path in Path("near").rglob("*")} == before


@pytest.mark.parametrize(
    ("plugin", "said"),
    [("raises", "the network is down"), ("lies", "can't be listed"), ("hangsatonce", "no answer within 0.3 s")],
)
def test_a_store_that_cannot_be_listed_is_named_and_the_others_are_read(
    cli: Cli, stores: dict[str, Store], site: Site, plugin: str, said: str
) -> None:
    put(stores["near"], *seal(FACTORS, {"a": b"a"}))
    use(site, plugin)
    for name in ("ls", "verify"):
        ran = cli(name, "--deadline", "0.3")
        assert ran.code == 1 and ran.err.count("\n") == 1
        assert "store 'far'" in ran.err and said in ran.err
    assert len(cli("ls", "--json", "--deadline", "0.3").json["entries"]) == 1


def test_a_store_that_hangs_costs_its_deadline_once(cli: Cli, stores: dict[str, Store], site: Site) -> None:
    use(site, "hangs")
    code = Path("warmcore.toml").read_text().replace('plugin = "hangs"', 'plugin = "hangs"\nshelf = "held"')
    Path("warmcore.toml").write_text(code)
    far = next(store for store in assemble(load_config()).stores if store.name == "far")
    for size in range(30):
        put(far, *seal({"tp_size": size}, {"a": b"a"}))
    started = time.monotonic()
    ran = cli("verify", "--deadline", "0.5")
    assert time.monotonic() - started < 2 and ran.code == 1
    assert "30 timeout" in ran.out and "raise --deadline" in ran.out
    assert "heads unread: raise --deadline" in cli("ls", "--deadline", "0.5").err


def test_ctrl_c_ends_a_command_at_once_and_without_a_traceback(stores: dict[str, Store], site: Site) -> None:
    use(site, "hangsatonce")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site.folder, ROOT)))}
    args = [sys.executable, "-m", "warmcore", "-v", "verify"]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as child:
        try:
            assert child.stderr is not None
            assert any("hangs now" in line for line in child.stderr)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=10)
            assert (child.returncode, out, err.strip()) == (130, "", "")
        finally:
            child.kill()


def test_a_store_that_cannot_list_is_passed_over_in_one_line(cli: Cli, stores: dict[str, Store], site: Site) -> None:
    use(site, "cannotlist")
    for name in ("ls", "verify"):
        ran = cli(name)
        assert ran.code == 0 and ran.err == "warmcore: store 'far' can't list what it holds: passed over\n"
    Path("warmcore.toml").write_text('[stores.far]\nplugin = "cannotlist"\n')
    ran = cli("verify")
    assert ran.code == 1 and "nothing was verified" in ran.err


def test_a_store_that_cannot_be_opened_is_named_and_the_others_are_read(
    cli: Cli, stores: dict[str, Store], site: Site
) -> None:
    put(stores["near"], *seal(FACTORS, {"a": b"a"}))
    site.install("broken", "raise ImportError('libacme is missing')", stores={"broken": ":Broken"})
    Path("warmcore.toml").write_text(CONFIG + '[stores.broken]\nplugin = "broken"\n')
    for name in ("ls", "verify"):
        ran = cli(name)
        assert ran.code == 1 and "libacme is missing" in ran.err and ran.err.count("\n") == 1
    assert "1 objects in 2 stores: 1 sound" in cli("verify").out
