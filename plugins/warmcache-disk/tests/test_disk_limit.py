"""Limits on size: who goes, who stays, and that no trouble with it fails a put."""

import os
import time
from pathlib import Path

import pytest
from disk_parts import KEY, LEASE, content_of, file_of, forked, get, in_mount, put, status_of, version_of

from warmcache_disk import DiskStore, limit, used
from warmcache_disk.limit import evict
from warmcache_disk.root import Root
from warmcore import Expect, Held, Size, StoreError

BODY = b"x" * 10_000


@pytest.fixture
def bounded(root: Path) -> DiskStore:
    """Make a store that holds three objects and not four."""
    return DiskStore(path=root, durable=False, max_bytes=Size(35_000))


def key(name: str) -> str:
    return f"default/v1/demo/{name * 64}/all"


def fill(store: DiskStore, names: str) -> None:
    for name in names:
        put(store, BODY, key=key(name))
        time.sleep(0.002)


def standing(store: DiskStore, names: str = "abcdef") -> str:
    return "".join(name for name in names if content_of(DiskStore(path=store._root.path), key(name)))


def test_above_its_limit_a_store_loses_the_least_recently_used(bounded: DiskStore) -> None:
    fill(bounded, "abc")
    get(bounded, key("a"))
    fill(bounded, "d")
    assert standing(bounded) == "acd"


def test_a_use_by_another_process_counts(bounded: DiskStore, root: Path) -> None:
    fill(bounded, "abc")
    status_of(forked(lambda: get(DiskStore(path=root, max_bytes=Size(35_000)), key("a")) and 0))
    fill(bounded, "d")
    assert standing(bounded) == "acd"


def test_file_times_play_no_part_in_who_goes(bounded: DiskStore, root: Path) -> None:
    fill(bounded, "abc")
    os.utime(file_of(root, key("a")), (2**32, 2**32))
    os.utime(file_of(root, key("c")), (0, 0))
    fill(bounded, "d")
    assert standing(bounded) == "bcd"


def test_what_was_just_put_stays_even_alone_above_the_limit(root: Path) -> None:
    store = DiskStore(path=root, durable=False, max_bytes=Size(100))
    fill(store, "ab")
    assert standing(store) == "b"


def test_an_entry_whose_lease_stands_stays_and_goes_after_it(bounded: DiskStore) -> None:
    put(bounded, BODY)
    lease = bounded.store_lease(LEASE, KEY, version_of(bounded), 30, None)
    assert not isinstance(lease, Held)
    time.sleep(0.002)
    fill(bounded, "abc")
    assert content_of(bounded) is not None and standing(bounded) == "bc"
    lease.release()
    fill(bounded, "d")
    assert content_of(bounded) is None and standing(bounded) == "bcd"


@pytest.mark.parametrize("damage", [b"no line", None])
def test_a_damaged_file_counts_and_goes_first(bounded: DiskStore, root: Path, damage: bytes | None) -> None:
    fill(bounded, "abc")
    with file_of(root, key("c")).open("r+b") as file:
        file.write(damage) if damage else file.truncate(9_000)
    fill(bounded, "d")
    assert standing(bounded) == "abd"


def test_a_get_records_its_use_once_an_hour(bounded: DiskStore, root: Path) -> None:
    fill(bounded, "a")
    records = []
    for _ in range(3):
        get(bounded, key("a"))
        records.append(sorted(path.name for path in (root / "used").rglob("*-*")))
        time.sleep(0.002)
    assert records[0] == records[1] == records[2] and len(records[0]) == 1


def test_without_a_limit_nothing_is_recorded(store: DiskStore, root: Path) -> None:
    fill(store, "a")
    get(store, key("a"))
    assert not (root / "used").exists()


def test_a_use_dated_into_the_future_keeps_nothing_for_ever(bounded: DiskStore, root: Path) -> None:
    fill(bounded, "abc")
    (mark,) = (root / "used").rglob(f"{file_of(root, key('a')).name}-*")
    mark.rename(mark.with_name(f"{mark.name[:64]}-99999999999999"))
    fill(bounded, "d")
    assert standing(bounded) == "bcd"


def test_old_records_of_what_is_gone_are_removed(bounded: DiskStore, root: Path) -> None:
    fill(bounded, "abc")
    old = root / "used" / "ab"
    old.mkdir(exist_ok=True)
    (old / f"{'ab' * 32}-1000").touch()
    (old / "mine").touch()
    fill(bounded, "d")
    assert [path.name for path in old.iterdir() if path.name.endswith(("-1000", "mine"))] == ["mine"]


def test_what_was_replaced_meanwhile_is_not_evicted(
    bounded: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bounded, "abc")
    ordered = limit._ordered

    def slow(*given: object) -> list[limit._File]:
        found = ordered(*given)  # type: ignore[arg-type]  # passed on
        put(DiskStore(path=root, durable=False), BODY, key=key("a"))
        return found

    monkeypatch.setattr(limit, "_ordered", slow)
    fill(bounded, "d")
    assert standing(bounded) == "acd"


def test_an_eviction_that_fails_fails_no_put(bounded: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, int]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(limit, "last_uses", broken)
    fill(bounded, "abcd")
    assert standing(bounded) == "abcd"


def test_an_eviction_stops_when_its_time_is_over(store: DiskStore, root: Path) -> None:
    fill(store, "abcd")
    at = Root(root, True, False)
    assert evict(at, 0, "", {}, seconds=0) == 0
    assert evict(at, 0, "", {}) == 4


def test_folders_that_time_did_not_allow_to_look_into_count_as_seen_last(store: DiskStore, root: Path) -> None:
    fill(store, "abcd")
    at, totals = Root(root, True, False), dict[str, int]()
    assert evict(at, 50_000, "", totals) == 0
    assert list(limit._found(at, totals, end=0)) != list(limit._found(at, totals, end=float("inf")))
    assert sum(totals.values()) > 4 * len(BODY)


def test_a_read_only_store_with_a_limit_is_read(tmp_path: Path) -> None:
    program = """
from warmcore import Size
store = DiskStore(path=folder / "store", max_bytes=Size(1000))
put(store, b"one")
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
answer = [get(store)[0].decode() for _ in range(2)]
"""
    assert in_mount(tmp_path / "mount", "1m", program) == ["one", "one"]


def test_a_put_over_the_quota_of_its_namespace_is_refused_with_both_numbers(root: Path) -> None:
    store = DiskStore(path=root, durable=False, quota=Size(25_000))
    fill(store, "ab")
    with pytest.raises(StoreError, match="'default' would hold 30000, its quota is 25000: remove some"):
        put(store, BODY, key=key("c"))
    assert standing(store) == "ab"
    assert put(store, BODY[:-1], key=key("b")), "what it replaces does not count"
    assert put(store, BODY, key="other" + key("c")), "another namespace has its own"


def test_a_file_without_a_key_counts_for_no_namespace(root: Path) -> None:
    store = DiskStore(path=root, durable=False, quota=Size(25_000))
    fill(store, "ab")
    file_of(root, key("a")).write_bytes(BODY)
    assert put(store, BODY, key=key("c"))


def test_a_file_listed_by_its_name_is_deleted_by_exactly_its_version(store: DiskStore, root: Path) -> None:
    fill(store, "ab")
    file_of(root, key("a")).write_bytes(b"damaged")
    (entry,) = (entry for entry in store.store_list("default/") if "?" in entry.key)
    assert not store.store_delete(entry.key, Expect.ANY)
    file_of(root, key("a")).write_bytes(b"other damage")
    assert not store.store_delete(entry.key, entry.version)
    (entry,) = (entry for entry in store.store_list("default/") if "?" in entry.key)
    assert store.store_delete(entry.key, entry.version)
    assert [entry.key for entry in store.store_list("")] == [key("b")]


def test_an_hour_later_a_get_is_recorded_again(bounded: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(bounded, "a")
    get(bounded, key("a"))
    monkeypatch.setattr(used, "HOUR", 0)
    before = list((root / "used").rglob("*-*"))
    time.sleep(0.002)
    get(bounded, key("a"))
    assert before != list((root / "used").rglob("*-*"))
