"""What is not exactly one whole frame is refused, each with its own reason, and never read as other bytes."""

import random

import pytest
import zstandard
from zstd_parts import (
    KEY,
    Bytes,
    Least,
    Memory,
    block,
    frame,
    frame_of_blocks,
    get,
    handle,
    promising,
    put,
    sealed_table,
    streamed,
    wrapped,
)

from warmcache_zstd.unpack import MAX_PASSED
from warmcore import Blob, Reject, Sink, Store, StoreError, hookimpl
from warmcore.artifact import unseal

DATA = b"warm " * 1000
FRAME = frame(DATA)
SKIPPABLE = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"note"
NEEDS_DICTIONARY = zstandard.FRAME_HEADER + bytes([0b100001, 7, 1]) + block(0, 1, b"x", last=True)
RESERVED_BIT = zstandard.FRAME_HEADER + bytes([0b1000, 0]) + block(0, 1, b"x", last=True)

REFUSED = {
    "empty": (b"", "empty: 0 bytes, expected a zstd frame"),
    "cut in the magic number": (FRAME[:3], "cut short: 3 bytes, less than a frame header"),
    "cut in the header": (promising(5000, DATA)[:9], "cut short: 9 bytes, less than a frame header"),
    "cut in a block": (FRAME[:20], "cut short: 20 bytes, and the frame goes on"),
    "cut in the checksum": (FRAME[:-1], f"cut short: {len(FRAME) - 1} bytes, and the frame goes on"),
    "text": (b'{"no": "frame"}', "not zstd: starts with 7b226e6f, expected 28b52ffd"),
    "one byte": (b"\x00", "not zstd: starts with 00, expected 28b52ffd"),
    "an artifact as it is": (b"warmcore-sealed/1 2 ab", "not compressed: it was stored by a config that does not wrap"),
    "a skippable frame": (SKIPPABLE, "a skippable frame: expected one frame with content"),
    "a skippable frame before": (SKIPPABLE + FRAME, "a skippable frame: expected one frame with content"),
    "a skippable frame behind": (FRAME + SKIPPABLE, "a second frame follows the first: expected one"),
    "two frames": (FRAME + FRAME, "a second frame follows the first: expected one"),
    "an empty frame behind": (FRAME + frame(b""), "a second frame follows the first: expected one"),
    "junk behind": (FRAME + b"junk!", "5 bytes follow the frame: expected none"),
    "much junk behind": (FRAME + b"junk!" * 1000, "5000 bytes follow the frame: expected none"),
    "one byte behind": (FRAME + b"\x28", "1 bytes follow the frame: expected none"),
    "more than promised": (promising(4999, DATA), "its header promises 4999 bytes, it holds more"),
    "less than promised": (promising(5001, DATA), "its header promises 5001 bytes, it holds 5000"),
    "nothing promised": (promising(0, DATA), "its header promises 0 bytes, it holds more"),
    "a flipped checksum": (FRAME[:-1] + bytes([FRAME[-1] ^ 1]), "damaged: .*doesn't match checksum"),
    "a reserved block": (frame_of_blocks(block(3, 1, b"x", last=True)), "damaged: .*corruption"),
    "a dictionary": (NEEDS_DICTIONARY, "needs dictionary 7: expected a frame without one"),
    "a large window": (frame_of_blocks(block(0, 0, last=True), window_log=24), "needs a window of 16777216 bytes"),
    "a huge window": (frame_of_blocks(block(0, 0, last=True), window_log=41), "frame header can't be used: .*memory"),
    "a reserved header bit": (RESERVED_BIT, "frame header can't be used: .*[Uu]nsupported"),
}


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
@pytest.mark.parametrize("case", REFUSED)
def test_each_kind_of_damage_is_a_reject_that_names_it(case: str, piece: int) -> None:
    data, reason = REFUSED[case]
    inner = Least(piece)
    version = inner.set(data)
    with pytest.raises(Reject, match=f"^{reason}") as caught:
        get(wrapped(handle("inner", inner)))
    assert caught.value.version == version


def test_reasons_differ_between_kinds_of_damage() -> None:
    kinds = [
        "empty",
        "cut in a block",
        "text",
        "an artifact as it is",
        "a skippable frame",
        "two frames",
        "junk behind",
        "more than promised",
        "less than promised",
        "a flipped checksum",
        "a dictionary",
        "a large window",
    ]
    assert len({REFUSED[kind][1] for kind in kinds}) == len(kinds)


def test_after_damage_the_same_store_reads_a_good_frame(store: Store, inner: Memory) -> None:
    for data, _ in REFUSED.values():
        inner.set(data)
        with pytest.raises(Reject):
            get(store)
        inner.set(FRAME)
        assert get(store) == DATA


def test_a_put_replaces_exactly_the_damaged_bytes(store: Store, inner: Memory) -> None:
    inner.set(b"damaged")
    with pytest.raises(Reject) as caught:
        get(store)
    assert caught.value.version is not None
    assert put(store, DATA, caught.value.version)
    assert not put(store, b"late", caught.value.version)
    assert get(store) == DATA


def test_what_the_sink_raises_passes(store: Store, inner: Memory) -> None:
    class Full(Bytes):
        def write(self, chunk: bytes) -> None:
            super().write(chunk)
            if len(self.data) > 1000:
                raise Reject("over 1000 bytes, the cap for this kind")

    inner.set(FRAME)
    with pytest.raises(Reject, match=r"^over 1000 bytes") as caught:
        store.get(KEY, Full())
    assert caught.value.version is None


USELESS = {
    "junk": b"junk" * 9,
    "junk behind a frame": FRAME + b"junk" * 9,
    "empty blocks": frame_of_blocks(block(0, 0) * 9),
}


@pytest.mark.parametrize("what", USELESS)
def test_bytes_that_give_nothing_meet_the_deadline_too(what: str) -> None:
    class Late(Bytes):
        def write(self, chunk: bytes) -> None:
            super().write(chunk)
            if not chunk:
                raise StoreError("out of time")

    inner = Least(piece=10)
    inner.set(USELESS[what])
    with pytest.raises(StoreError, match=r"^out of time"):
        wrapped(handle("inner", inner)).get(KEY, Late())


@pytest.mark.parametrize(("start", "reason"), [(b"junk", "^not zstd"), (FRAME, r"^\d+ bytes follow the frame")])
def test_useless_bytes_without_end_are_not_read_to_their_end(start: bytes, reason: str) -> None:
    class Endless(Least):
        given = 0

        @hookimpl
        def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
            sink.write(start)
            while True:
                sink.write(bytes(1 << 20))
                self.given += 1 << 20

    inner = Endless()
    with pytest.raises(Reject, match=reason) as caught:
        get(wrapped(handle("inner", inner)))
    assert caught.value.version is None
    assert inner.given <= MAX_PASSED + (1 << 20)


class Judge:
    """Reads each changed frame and unseals it; counts what is accepted, and fails if it is other bytes."""

    def __init__(self, table: bytes) -> None:
        self.sealed, self.request, self.key = sealed_table(table)
        self.inner = Least()
        self.store = wrapped(handle("inner", self.inner))
        self.accepted = self.refused = 0

    def see(self, data: bytes) -> None:
        self.inner.held[KEY] = ("v", data)
        sink = Bytes()
        try:
            assert self.store.get(KEY, sink) == "v"
            unseal(Blob.of(bytes(sink.data)), self.request, self.key, namespace="default")
        except Reject:
            self.refused += 1
        else:
            assert bytes(sink.data) == self.sealed
            self.accepted += 1


def frames(sealed: bytes) -> dict[str, bytes]:
    return {"small": frame(sealed, 19), "without a checksum": streamed(sealed)}


@pytest.mark.parametrize("form", ["small", "without a checksum"])
def test_no_flipped_bit_gives_other_bytes(table: bytes, form: str) -> None:
    judge = Judge(table)
    good = bytearray(frames(judge.sealed)[form])
    for bit in range(len(good) * 8):
        good[bit >> 3] ^= 1 << (bit & 7)
        judge.see(bytes(good))
        good[bit >> 3] ^= 1 << (bit & 7)
    judge.see(bytes(good))
    assert judge.refused + judge.accepted == len(good) * 8 + 1
    # A few bits of a frame mean nothing, or the same: unused header bits, a larger window.
    assert 1 <= judge.accepted <= 40


@pytest.mark.parametrize("form", ["small", "without a checksum"])
def test_no_cut_and_no_added_byte_is_accepted(table: bytes, form: str) -> None:
    judge, random_bytes = Judge(table), random.Random(7)
    good = frames(judge.sealed)[form]
    for position in range(len(good)):
        judge.see(good[:position])
        judge.see(good[:position] + random_bytes.randbytes(1) + good[position:])
    judge.see(good + b"\0")
    assert judge.accepted == 0


def test_what_zstd_refuses_is_refused_and_what_it_reads_is_read_alike(inner: Memory, store: Store) -> None:
    decoder, chance = zstandard.ZstdDecompressor(max_window_size=8 << 20), random.Random(3)
    read = 0
    for _ in range(3000):
        level, checksum = chance.randrange(1, 9), chance.random() < 0.3
        data = bytearray(frame(chance.randbytes(50) + DATA[: chance.randrange(200)], level, checksum=checksum))
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        inner.set(bytes(data))
        try:
            expected: bytes | None = _alone(decoder, bytes(data))
        except zstandard.ZstdError:
            expected = None
        try:
            assert get(store) == expected
            read += 1
        except Reject:
            assert expected is None
    assert 1000 < read < 2900


def _alone(decoder: zstandard.ZstdDecompressor, data: bytes) -> bytes | None:
    stream = decoder.decompressobj()
    plain = stream.decompress(data)
    return plain if stream.eof and not stream.unused_data else None
