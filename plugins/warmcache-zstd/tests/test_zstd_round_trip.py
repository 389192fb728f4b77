"""What is put comes back: all sizes, levels and ways of reading, through a store that holds less than that."""

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from zstd_parts import (
    FENCE,
    KEY,
    Bytes,
    Least,
    Memory,
    block,
    frame,
    get,
    handle,
    promising,
    put,
    sealed_table,
    streamed,
    wrapped,
)

from warmcache_zstd import pack
from warmcache_zstd.frame import Blocks
from warmcore import Blob, BlobSource, ConfigError, Entry, Expect, Fence, Held, Source, Store, StoreError, hookimpl

SPILLS = 9 << 20


class Odd:
    """A source that promises one size and has another; counts how often it is rewound."""

    sha256 = ""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size
        self.rest, self.rewound = b"", 0

    def read(self, size: int) -> bytes:
        chunk, self.rest = self.rest[:size], self.rest[size:]
        return chunk

    def rewind(self) -> None:
        self.rest, self.rewound = self.data, self.rewound + 1


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 17, 1023, 1024, 1025, 18_000])
def test_what_was_put_is_what_is_read_however_the_inner_store_cuts_it(size: int, piece: int) -> None:
    store = wrapped(handle("inner", Least(piece)))
    for data in (b"x" * size, noise(size)):
        assert put(store, data)
        assert get(store) == data


@pytest.mark.parametrize("size", [(1 << 17) - 1, 1 << 17, (1 << 20) + 1, SPILLS])
def test_large_artifacts_come_back_as_they_were(store: Store, size: int) -> None:
    for data in (noise(size), b"abc" * (size // 3)):
        put(store, data)
        assert get(store) == data


@pytest.mark.parametrize("level", [1, 3, 9, 19])
def test_what_one_level_wrote_any_other_reads(inner: Memory, table: bytes, level: int) -> None:
    put(wrapped(handle("inner", inner), level), table)
    assert len(inner.held[KEY][1]) <= 1000
    assert get(wrapped(handle("inner", inner))) == table


def test_the_highest_level_needs_no_larger_window_than_a_get_allows(inner: Memory) -> None:
    data = noise(1 << 20) * 9
    store = wrapped(handle("inner", inner), 19)
    put(store, data)
    assert len(inner.held[KEY][1]) < len(data) // 8
    assert get(store) == data


@pytest.mark.parametrize("level", [-1, 0, 20, 23])
def test_a_level_that_a_get_would_refuse_is_a_config_error(level: int, inner: Memory) -> None:
    with pytest.raises(ConfigError, match=rf"^level is {level}: expected 1 \(fast\) to 19 \(small\)$"):
        wrapped(handle("inner", inner), level)


def test_the_sealed_table_is_compressed_to_a_twelfth(store: Store, inner: Memory, table: bytes) -> None:
    sealed, _, _ = sealed_table(table)
    put(store, sealed)
    assert len(inner.held[KEY][1]) * 12 < len(sealed)


def test_a_frame_has_a_checksum_and_the_size_of_what_it_holds(store: Store, inner: Memory, table: bytes) -> None:
    put(store, table)
    found = zstandard.get_frame_parameters(inner.held[KEY][1])
    assert (found.has_checksum, found.content_size) == (True, len(table))


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("size", [0, 18_000, 3 << 20])
def test_a_frame_of_another_writer_without_a_size_is_read(
    store: Store, inner: Memory, size: int, checksum: bool
) -> None:
    data = noise(size // 2) * 2
    inner.set(streamed(data, checksum=checksum))
    assert get(store) == data


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1 << 20])
def test_a_frame_of_many_blocks_is_read_wherever_they_are_cut(piece: int) -> None:
    inner = Least(piece)
    parts = [noise(size) for size in range(1, 60)] + [b"\0" * 5000]
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    blocks = [stream.compress(part) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts]
    inner.set(b"".join(blocks) + stream.flush())
    assert get(wrapped(handle("inner", inner))) == b"".join(parts)


def test_what_follows_the_last_block_is_not_taken_for_blocks() -> None:
    # A checksum may look like one, which would be waited for in vain.
    rest = block(0, 5, b"bytes", last=True) + bytes(4)
    assert Blocks().end(rest, 0) == len(rest)


def test_a_true_promise_is_read(store: Store, inner: Memory, table: bytes) -> None:
    inner.set(promising(len(table), table))
    assert get(store) == table


@pytest.mark.parametrize("level", [1, 3, 19])
def test_what_is_a_frame_already_is_wrapped_and_not_compressed_again(inner: Memory, table: bytes, level: int) -> None:
    middle = wrapped(handle("inner", inner), 19)
    outer = wrapped(middle, level)
    put(outer, table)
    assert len(inner.held[KEY][1]) <= len(frame(table, level)) + 32
    assert get(outer) == table
    assert get(middle) == frame(table, level)


def test_no_effort_goes_into_what_is_a_frame_already(
    store: Store, table: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []

    def make(level: int, write_checksum: bool) -> zstandard.ZstdCompressor:
        levels.append(level)
        return zstandard.ZstdCompressor(level=level, write_checksum=write_checksum)

    monkeypatch.setattr(pack, "ZstdCompressor", make)
    put(store, table)
    put(store, frame(table))
    assert levels == [3, pack.STORED]


@pytest.mark.parametrize("data", [zstandard.FRAME_HEADER, zstandard.FRAME_HEADER + b"no frame" * 9, frame(b"") * 2])
def test_what_only_starts_as_a_frame_comes_back_too(store: Store, data: bytes) -> None:
    put(store, data)
    assert get(store) == data


def test_the_inner_store_is_told_what_the_compressed_bytes_are_and_may_read_them_twice(table: bytes) -> None:
    class Twice(Least):
        @hookimpl
        def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
            first = source.read(1 << 20)
            assert (source.size, source.sha256) == (len(first), Blob.of(first).sha256)
            source.rewind()
            assert source.read(1 << 20) == first == frame(table)
            return True

    assert put(wrapped(handle("inner", Twice())), table)


def test_a_source_that_was_read_before_is_rewound(store: Store) -> None:
    source = BlobSource(Blob.of(b"warm"))
    source.read(2)
    store.put(KEY, source, Expect.ANY)
    assert get(store) == b"warm"


@pytest.mark.parametrize(("size", "said"), [(5, "less"), (3, "more"), (0, "more"), (1 << 21, "less")])
def test_a_source_that_breaks_its_promise_is_not_stored(store: Store, inner: Memory, size: int, said: str) -> None:
    with pytest.raises(StoreError, match=f"the source gave {said} than the {size} bytes it promised"):
        store.put(KEY, Odd(b"warm", size), Expect.ANY)
    assert not inner.held


@pytest.mark.parametrize(("size", "spills"), [(1 << 20, False), (SPILLS, True)])
def test_only_many_compressed_bytes_go_to_a_file_and_it_has_no_name(
    size: int, spills: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Looking(Least):
        def stands(self, key: str, expect: Expect | str) -> bool:
            assert not list(tmp_path.iterdir())
            assert any(file.startswith(str(tmp_path)) for file in open_files()) is spills
            return True

    put(wrapped(handle("inner", Looking())), noise(size))
    assert not any(file.startswith(str(tmp_path)) for file in open_files())


def open_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def test_without_room_for_the_compressed_bytes_the_remedy_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StoreError, match="no room for the compressed bytes: No such file or directory: set TMPDIR"):
        put(store, noise(SPILLS))


def test_a_miss_is_none(store: Store) -> None:
    assert get(store) is None


def test_what_the_inner_store_reports_is_what_the_wrapper_reports(store: Store, inner: Memory) -> None:
    assert put(store, b"a", Expect.ABSENT)
    assert not put(store, b"b", Expect.ABSENT)
    assert not put(store, b"b", "v9")
    assert put(store, b"b", "v1")
    assert store.get(KEY, Bytes(), fresh=True) == "v2"
    assert inner.seen[-1] is True
    assert store.list("default/") == [Entry(KEY, "v2", len(frame(b"b")))]
    assert not store.delete(KEY, "v1")
    assert store.delete(KEY, "v2")
    assert get(store) is None


def test_leases_and_fences_are_those_of_the_inner_store(store: Store, inner: Memory) -> None:
    lease = store.lease("lock", KEY, Expect.ABSENT, 30.0, 221.0)
    assert inner.seen.pop() == ("lock", KEY, Expect.ABSENT, 30.0, 221.0)
    assert not isinstance(lease, Held)
    store.put(KEY, BlobSource(Blob.of(b"a")), Expect.ABSENT, lease.fence)
    assert inner.seen.pop() == (Expect.ABSENT, FENCE)
    assert store.lease("lock", KEY, Expect.ABSENT, 30.0, None) == Held(changed=True)


def test_closing_closes_the_inner_store(store: Store, inner: Memory) -> None:
    store.close()
    assert inner.closed


def test_a_wrapper_can_do_what_its_inner_store_can_and_no_more(store: Store) -> None:
    assert store.can == {f"store_{what}" for what in ("get", "put", "list", "delete", "lease")}
    least = wrapped(handle("inner", Least()))
    assert least.can == {"store_get", "store_put"}
    with pytest.raises(StoreError, match="can't do store_list"):
        least.list("")
    with pytest.raises(StoreError, match="can't do store_delete"):
        least.delete(KEY, Expect.ANY)
    with pytest.raises(StoreError, match="can't do store_lease"):
        least.lease("lock", KEY, Expect.ANY, 30.0, None)
    least.close()
