"""`rm` and `gc` on a real disk store: what goes, what stays, and that nothing goes that was not seen."""

import hashlib
from functools import partial
from pathlib import Path

import pytest

from tests.cli_support import Cli, put, run_inside, seal
from tests.support import from_the_future
from warmcore import Store, load_config
from warmcore.assembly import assemble
from warmcore.cli import gc as gc_module

CONFIG = """
chain = ["near", "far"]

[stores.near]
plugin = "disk"
path = "near"
durable = false

[stores.far]
plugin = "disk"
path = "far"
durable = false
"""


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Store]:
    monkeypatch.chdir(tmp_path)
    Path("warmcore.toml").write_text(CONFIG)
    return {store.name: store for store in assemble(load_config()).stores}


def artifact(tp_size: int, keep: float = 86400) -> tuple[str, bytes]:
    return seal({"tp_size": tp_size}, {"table": b"tactic"}, keep=keep)


def held(store: Store) -> set[str]:
    return {entry.key.removeprefix("default/") for entry in store.list("default/")}


def test_rm_removes_one_artifact_from_all_stores(cli: Cli, stores: dict[str, Store]) -> None:
    (key, data), (other, kept) = artifact(1), artifact(2)
    for store in stores.values():
        put(store, key, data)
        put(store, other, kept)
    ran = cli("rm", key.split("/")[2][:10], "--yes", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [(each["store"], each["key"], each["fate"]) for each in ran.json["removals"]] == [
        ("near", key, "removed"),
        ("far", key, "removed"),
    ]
    assert held(stores["near"]) == held(stores["far"]) == {other}


def test_rm_from_one_store_leaves_the_others(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = artifact(1)
    for store in stores.values():
        put(store, key, data)
    assert cli("rm", key, "--store", "far", "--yes").code == 0
    assert (held(stores["near"]), held(stores["far"])) == ({key}, set())
    assert cli("rm", key, "--store", "nowhere", "--yes").code == 2


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_rm_asks_first_and_no_answer_is_no(
    cli: Cli, stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    import io

    key, data = artifact(1)
    put(stores["near"], key, data)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    ran = cli("rm", key)
    assert ran.code == code and "Remove it?" in ran.err and f"near {key}" in ran.err
    assert held(stores["near"]) == (set() if code == 0 else {key})


def test_rm_of_what_is_not_there_is_one_line(cli: Cli, stores: dict[str, Store]) -> None:
    key, _ = artifact(1)
    ran = cli("rm", key, "--yes")
    assert (ran.code, ran.out) == (1, "") and "in none of the stores" in ran.err
    assert cli("rm", "abc", "--yes").code == 2


def test_nothing_is_removed_where_the_config_only_reads(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = artifact(1)
    put(stores["near"], key, data)
    Path("warmcore.toml").write_text(CONFIG.replace('path = "near"', 'path = "near"\nmode = "read"'))
    assert 'has mode = "read"' in cli("rm", key, "--yes").err
    assert cli("rm", key, "--yes", "--store", "near").code == 2
    assert held(stores["near"]) == {key}


def _fill(store: Store) -> dict[str, str]:
    """Put one object of each state and return their keys."""
    made = {"sound": artifact(1), "expired": artifact(2, keep=-1), "damaged": artifact(3), "newer": artifact(4)}
    made["damaged"] = (made["damaged"][0], made["damaged"][1][:-1] + b"?")
    made["newer"] = (made["newer"][0], from_the_future(made["newer"][1]))
    made["foreign"] = ("v2/another/form", b"of another warmcore")
    for key, data in made.values():
        put(store, key, data)
    return {state: key for state, (key, _) in made.items()}


def test_gc_removes_the_expired_and_the_damaged_alone(cli: Cli, stores: dict[str, Store]) -> None:
    keys = _fill(stores["near"])
    dry = cli("gc", "--dry-run", "--json")
    assert dry.code == 0 and held(stores["near"]) == set(keys.values())
    assert {(each["key"], each["fate"]) for each in dry.json["removals"]} == {
        (keys["expired"], "kept"),
        (keys["damaged"], "kept"),
    }
    ran = cli("gc")
    assert ran.code == 0 and "removed: 2 objects, " in ran.out
    assert held(stores["near"]) == {keys["sound"], keys["newer"], keys["foreign"]}
    assert cli("gc").out == "removed: 0 objects, 0 B\n"


def test_gc_removes_a_file_whose_key_cant_be_read(cli: Cli, stores: dict[str, Store]) -> None:
    key, data = artifact(1)
    put(stores["near"], key, data)
    name = hashlib.sha256(f"default/{key}".encode()).hexdigest()
    Path("near", "objects", name[:2], name).write_bytes(b"damaged")
    ran = cli("gc", "--json")
    assert (ran.code, ran.json["removed_bytes"]) == (0, 7)
    assert held(stores["near"]) == set()


def test_gc_keeps_what_was_replaced_meanwhile(
    cli: Cli, stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, data = artifact(1)
    put(stores["near"], key, data[:-1] + b"?")
    removal = gc_module._removal

    def slow(*given: object) -> object:
        put(stores["near"], key, data)
        return removal(*given)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(gc_module, "_removal", slow)
    ran = cli("gc", "--json")
    assert [each["fate"] for each in ran.json["removals"]] == ["changed"]
    assert held(stores["near"]) == {key} and cli("verify").code == 0
