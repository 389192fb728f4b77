"""Bytes in motion: read-only, capped, timed, and never whole in memory unless asked."""

import gc
import hashlib
import os
import resource
import tempfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcore import Blob, BlobSource, Origin, Payload, Reject, StoreError, streams
from warmcore.errors import DeadlineExceeded

MIB = 1 << 20


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def in_time() -> float:
    return time.monotonic() + 60


def sink_of(*chunks: bytes, cap: int = 512 * MIB, spill_folder: Path | None = None) -> streams.SpillSink:
    sink = streams.SpillSink(cap, in_time(), spill_folder)
    for chunk in chunks:
        sink.write(chunk)
    return sink


def open_files() -> set[str]:
    gc.collect()
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if os.path.lexists(link)}


class TestBlob:
    @pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
    def test_of_bytes_and_of_a_file_are_the_same(self, tmp_path: Path, size: int) -> None:
        data = os.urandom(size)
        (tmp_path / "f").write_bytes(data)
        for view in (Blob.of(data), Blob.of(tmp_path / "f")):
            assert (view.size, view.sha256, view.read(size)) == (size, digest(data), data)
            assert all(0 < len(chunk) <= MIB for chunk in view.chunks())
            assert repr(view) == f"Blob({size} bytes)"

    def test_over_the_cap_is_refused_before_it_is_read(self) -> None:
        def read_at(start: int, size: int) -> bytes:
            raise AssertionError("read")

        with pytest.raises(Reject, match="1000 bytes, the cap is 999"):
            Blob(1000, read_at).read(999)

    @given(st.binary(max_size=200), st.data())
    def test_a_part_is_a_slice_and_so_is_its_part(self, data: bytes, draw: st.DataObject) -> None:
        start = draw.draw(st.integers(0, len(data)))
        size = draw.draw(st.integers(0, len(data) - start))
        part = Blob.of(data).part(start, size)
        assert part.read(size) == data[start : start + size]
        inner = draw.draw(st.integers(0, size))
        assert part.part(inner, size - inner).read(size) == data[start + inner : start + size]

    def test_a_part_past_the_end_is_an_error_not_short_bytes(self) -> None:
        with pytest.raises(StoreError, match="byte 2 of 5"):
            Blob.of(b"abcd").part(2, 5).read(5)

    @pytest.mark.parametrize("after", [b"", b"12345", b"1234567890"], ids=["emptied", "cut", "same size"])
    def test_a_file_that_changes_after_it_was_viewed_fails_when_read(self, tmp_path: Path, after: bytes) -> None:
        # EN-02: else a publish would seal bytes that no reader accepts
        path = tmp_path / "f"
        path.write_bytes(b"0123456789")
        view = Blob.of(path)
        path.write_bytes(after)
        with pytest.raises(StoreError, match="changed"):
            view.read(100)
        with pytest.raises(StoreError, match="changed"):
            list(view.chunks())
        source = BlobSource(view)
        with pytest.raises(StoreError, match="changed"):
            while source.read(3):
                pass

    def test_a_large_file_that_changed_is_not_given_out_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(bytes(2 * MIB))
        source = BlobSource(Blob.of(path))
        with path.open("r+b") as file:
            file.write(b"x")
        given = 0
        with pytest.raises(StoreError, match="changed"):
            while chunk := source.read(MIB):
                given += len(chunk)
        assert given < source.size, "a store that counts bytes must not take it for complete"

    def test_a_file_that_is_gone_is_an_os_error_that_names_it(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"x")
        view = Blob.of(tmp_path / "f")
        (tmp_path / "f").unlink()
        with pytest.raises(FileNotFoundError, match="/f"):
            view.read(1)

    def test_of_a_file_keeps_nothing_open(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"x" * 100)
        before = open_files()
        views = [Blob.of(tmp_path / "f") for _ in range(20)]
        assert [view.read(100) for view in views] and open_files() == before

    def test_of_a_large_file_is_never_whole_in_memory(self, tmp_path: Path) -> None:
        with (tmp_path / "f").open("wb") as file:
            file.truncate(64 * MIB)
        tracemalloc.start()
        try:
            assert sum(map(len, Blob.of(tmp_path / "f").chunks())) == 64 * MIB
            assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        finally:
            tracemalloc.stop()


class TestPayload:
    def test_lists_its_files_by_name_whatever_their_order(self) -> None:
        payload = Payload({"b": Blob.of(b"2"), "a": Blob.of(b"111")})
        assert list(payload) == ["a", "b"] and len(payload) == 2 and "a" in payload
        assert payload["a"].read(9) == b"111"
        assert (payload.size, payload.origin, repr(payload)) == (4, None, "Payload(2 files, 4 bytes)")

    def test_digest_commits_to_names_sizes_and_bytes(self) -> None:
        def of(**files: bytes) -> str:
            return Payload({name: Blob.of(data) for name, data in files.items()}).digest

        assert of(a=b"1", b=b"2") == of(b=b"2", a=b"1")
        others = [
            of(),
            of(a=b"1"),
            of(a=b"1", b=b"3"),
            of(a=b"2", b=b"1"),
            of(a=b"12"),
            of(a=b"1", c=b"2"),
            of(a=b"1", b=b""),
        ]
        assert len({of(a=b"1", b=b"2"), *others}) == len(others) + 1

    def test_digest_is_that_of_the_documented_lines(self) -> None:
        lines = f"{digest(b'1')} 1 a\n{digest(b'')} 0 b\n"
        assert Payload({"b": Blob.of(b""), "a": Blob.of(b"1")}).digest == digest(lines.encode())

    def test_knows_where_it_came_from(self) -> None:
        origin = Origin("default", "v1/k/h/all", "g")
        assert Payload({}, origin).origin == origin


class TestSink:
    @given(st.lists(st.binary(max_size=50), max_size=8))
    def test_gives_back_what_was_written(self, chunks: list[bytes]) -> None:
        view = sink_of(*chunks).blob()
        assert (view.size, view.read(1000), view.sha256) == (
            len(b"".join(chunks)),
            b"".join(chunks),
            digest(b"".join(chunks)),
        )

    @pytest.mark.parametrize(
        "size", [streams.SPILL_AT - 1, streams.SPILL_AT, streams.SPILL_AT + 1, streams.SPILL_AT + MIB]
    )
    def test_gives_back_what_was_written_on_both_sides_of_the_spill(self, size: int) -> None:
        data = os.urandom(size)
        view = sink_of(data[:1000], data[1000:-5], data[-5:]).blob()
        assert view.read(size) == data and view.sha256 == digest(data)

    def test_one_byte_over_the_cap_is_refused_and_the_refusal_lasts(self) -> None:
        sink = sink_of(b"12345", cap=5)
        for chunk in (b"6", b"", b"7"):
            with pytest.raises(Reject, match="over 5 bytes") as caught:
                sink.write(chunk)
            assert sink.fault is caught.value and caught.value.replaceable

    def test_a_chunk_over_the_cap_is_not_kept(self) -> None:
        sink = sink_of(cap=MIB)
        with pytest.raises(Reject):
            sink.write(bytes(32 * MIB))
        assert sink.blob().size == 0

    def test_past_the_deadline_every_write_is_refused(self) -> None:
        sink = streams.SpillSink(100, time.monotonic() - 0.001)
        with pytest.raises(DeadlineExceeded):
            sink.write(b"x")
        assert isinstance(sink.fault, DeadlineExceeded)

    def test_a_deadline_that_passes_between_two_writes_stops_the_second(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = time.monotonic()
        sink = streams.SpillSink(100, now + 2)
        sink.write(b"x")
        monkeypatch.setattr(time, "monotonic", lambda: now + 2.1)
        with pytest.raises(DeadlineExceeded):
            sink.write(b"y")

    def test_spills_to_a_file_without_a_name_and_closes_it_with_the_last_view(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        before = open_files()
        sink = sink_of(*[bytes(MIB)] * 8)
        assert open_files() == before, "8 MiB still fit in memory"
        sink.write(b"x")
        assert len(open_files() - before) == 1
        assert list(tmp_path.iterdir()) == [], "nobody else can open it, and a kill leaves nothing"
        view = sink.blob().part(8 * MIB, 1)
        del sink
        gc.collect()
        assert view.read(1) == b"x", "a part keeps its file open"
        del view
        assert open_files() == before

    def test_memory_growth_does_not_follow_the_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # P9
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        chunk = os.urandom(MIB)
        tracemalloc.start()
        try:
            view = sink_of(*[chunk] * 96).blob()
            assert len(view.sha256) == 64
            assert tracemalloc.get_traced_memory()[1] < 20 * MIB
        finally:
            tracemalloc.stop()

    def test_spills_to_the_given_folder_where_there_is_no_temporary_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        view = sink_of(bytes(streams.SPILL_AT), b"x", spill_folder=tmp_path).blob()
        assert view.size == streams.SPILL_AT + 1 and view.part(streams.SPILL_AT, 1).read(1) == b"x"
        assert list(tmp_path.iterdir()) == []

    def test_a_spill_that_finds_no_room_is_trouble_of_the_store_and_lasts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        sink, limits = sink_of(bytes(streams.SPILL_AT)), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (streams.SPILL_AT + 10, limits[1]))
        try:
            with pytest.raises(StoreError, match="TMPDIR"):
                sink.write(bytes(MIB))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with pytest.raises(StoreError):
            sink.write(b"x")

    @pytest.mark.parametrize("folder", [None, "missing"])
    def test_without_any_folder_to_spill_to_the_error_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        sink = sink_of(bytes(streams.SPILL_AT), spill_folder=tmp_path / folder if folder else None)
        with pytest.raises(StoreError, match="TMPDIR"):
            sink.write(b"x")


class TestSource:
    @given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 50), min_size=1, max_size=30))
    def test_gives_all_bytes_in_order_whatever_is_asked_at_once(self, parts: list[bytes], sizes: list[int]) -> None:
        source, whole = BlobSource(*map(Blob.of, parts)), b"".join(parts)
        assert (source.size, source.sha256) == (len(whole), digest(whole))
        for _ in range(2):
            found, turn = b"", 0
            while chunk := source.read(sizes[turn % len(sizes)]):
                assert len(chunk) <= sizes[turn % len(sizes)]
                found, turn = found + chunk, turn + 1
            assert found == whole and source.read(10) == b""
            source.rewind()

    def test_can_be_rewound_in_the_middle(self) -> None:
        source = BlobSource(Blob.of(b"abc"), Blob.of(b"def"))
        assert source.read(2) == b"ab"
        source.rewind()
        assert source.read(3) + source.read(9) == b"abcdef"

    def test_taking_its_digest_moves_nothing(self) -> None:
        source = BlobSource(Blob.of(b"abcdef"))
        assert source.read(2) == b"ab" and source.sha256 == digest(b"abcdef") and source.read(9) == b"cdef"
