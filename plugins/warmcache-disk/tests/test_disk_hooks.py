"""What each hook promises, on a good day."""

import errno
import inspect
import os
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from disk_parts import KEY, LEASE, Bytes, content_of, drafts, get, put, version_of

from warmcache_disk import DiskStore
from warmcore import Blob, BlobSource, ConfigError, Entry, Expect, StoreError
from warmcore.hookspecs import StoreSpec


def test_the_entry_point_is_the_store_and_it_takes_all_arguments_of_every_hook() -> None:
    (found,) = entry_points(group="warmcore.stores", name="disk")
    assert found.load() is DiskStore
    for name, spec in vars(StoreSpec).items():
        if name.startswith("store_"):
            assert inspect.signature(getattr(DiskStore, name)) == inspect.signature(spec)


def test_what_was_put_is_got_and_every_put_has_a_new_version(store: DiskStore) -> None:
    assert put(store, b"one")
    first = get(store)
    assert put(store, b"one")
    second = get(store)
    assert first is not None
    assert second is not None
    assert first[0] == second[0] == b"one"
    assert first[1] != second[1]


def test_a_get_or_list_or_delete_of_nothing_is_a_miss_and_makes_no_folder(store: DiskStore, root: Path) -> None:
    assert get(store) is None
    assert store.store_list("") == []
    assert not store.store_delete(KEY, Expect.ANY)
    store.store_close()
    assert not root.exists()


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 7, (9 << 20) + 7])
def test_bytes_of_any_length_travel_in_pieces_of_a_few_mebibytes(store: DiskStore, size: int) -> None:
    class Counting(Bytes):
        def write(self, chunk: bytes) -> None:
            assert 0 < len(chunk) <= 4 << 20
            super().write(chunk)

    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert put(store, data)
    sink = Counting()
    assert store.store_get(KEY, sink, True)
    assert sink.data == data


def test_a_put_goes_through_only_if_what_stands_is_as_expected(store: DiskStore) -> None:
    assert not put(store, b"one", expect="0" * 32)
    assert put(store, b"one", expect=Expect.ABSENT)
    assert not put(store, b"two", expect=Expect.ABSENT)
    old = version_of(store)
    assert put(store, b"two", expect=old)
    assert not put(store, b"three", expect=old)
    assert content_of(store) == b"two"


def test_a_delete_removes_only_what_is_expected(store: DiskStore) -> None:
    put(store, b"one")
    assert not store.store_delete(KEY, Expect.ABSENT)
    assert not store.store_delete(KEY, "0" * 32)
    assert store.store_delete(KEY, version_of(store))
    assert get(store) is None
    assert not store.store_delete(KEY, Expect.ANY)


def test_a_listing_gives_key_version_and_sealed_size_sorted_by_key(store: DiskStore) -> None:
    keys = [f"{namespace}/v1/kind/{digit * 64}/all" for namespace in ("b", "a") for digit in "210"]
    for size, key in enumerate(keys):
        put(store, b"x" * size, key=key)
    assert store.store_list("") == [
        Entry(key, version_of(store, key), size) for key, size in sorted(zip(keys, range(6), strict=True))
    ]
    assert [entry.key for entry in store.store_list("a/v1/kind/1")] == [keys[4]]


def test_keys_of_300_characters_case_twins_and_odd_letters_are_kept_apart(store: DiskStore) -> None:
    start = f"{LEASE}/" + "k" * 499
    keys = [start + "a", start + "b", start + "A", "../../../etc/passwd", "/", "", "a\nb\0c %2F", "é" * 300, "\ud800"]
    for number, key in enumerate(keys):
        assert put(store, b"%d" % number, key=key)
    found = [get(store, key) for key in keys]
    assert [one and one[0] for one in found] == [b"%d" % number for number in range(len(keys))]
    assert [entry.key for entry in store.store_list("")] == sorted(keys)


def test_a_key_that_could_not_be_read_back_is_refused(store: DiskStore, root: Path) -> None:
    with pytest.raises(StoreError, match="too long"):
        put(store, b"one", key="k" * 5000)
    assert not root.exists()


def test_what_the_sink_raises_passes_unchanged(store: DiskStore) -> None:
    class Full(Bytes):
        def write(self, chunk: bytes) -> None:
            raise OSError(28, "the sink's own disk")

    put(store, b"one")
    with pytest.raises(OSError, match="the sink's own disk"):
        store.store_get(KEY, Full(), False)


@pytest.mark.parametrize("gives", [b"", b"shor", b"longer"])
def test_a_source_of_another_length_than_it_says_leaves_the_old_bytes_and_nothing_else(
    store: DiskStore, root: Path, gives: bytes
) -> None:
    put(store, b"old")
    source = BlobSource(Blob.of(gives))
    source.size = 5
    with pytest.raises(StoreError, match="than the 5 bytes it promised"):
        store.store_put(KEY, source, Expect.ANY, None)
    assert content_of(store) == b"old"
    assert drafts(root) == []


def test_a_source_that_another_store_has_read_is_read_again(store: DiskStore) -> None:
    source = BlobSource(Blob.of(b"one"))
    source.read(2)
    assert store.store_put(KEY, source, Expect.ANY, None)
    assert content_of(store) == b"one"


def test_a_file_that_its_server_lost_sight_of_is_opened_again(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"one")
    real, stale = os.open, iter([True])

    def lost(path: str, flags: int, *args: int, **named: int) -> int:
        if flags & os.O_NONBLOCK and next(stale, False):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, flags, *args, **named)

    monkeypatch.setattr(os, "open", lost)
    assert content_of(store) == b"one"
    assert next(stale, None) is None


def test_an_unknown_permission_setting_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match='expected "private" or "umask"'):
        DiskStore(permissions="public")
