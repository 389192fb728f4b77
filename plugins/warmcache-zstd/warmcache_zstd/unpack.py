"""Decompression that trusts nothing: exactly one frame, block by block, into a sink that caps what comes out."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from zstandard import FRAME_HEADER, ZstdDecompressor, ZstdError

from warmcache_zstd.frame import MAX_HEADER, MAX_WINDOW, Blocks, Damage, is_skippable, read_header
from warmcore import Reject, Sink

# Of bytes that are read past, for the version that stands behind them.
MAX_PASSED = 64 << 20


@contextmanager
def unpacking(sink: Sink, idle: deque[ZstdDecompressor]) -> Iterator["Unpacker"]:
    """Lend an unpacker with a context from `idle`, and put that back.

    A thread-local one would never be found again: the core runs each call on a thread of its own. A deque needs no
    lock, so a fork can't leave one behind.
    """
    try:
        decompressor = idle.pop()
    except IndexError:
        decompressor = ZstdDecompressor(max_window_size=MAX_WINDOW)
    try:
        yield Unpacker(decompressor, sink)
    finally:
        idle.append(decompressor)


class Unpacker:
    """What the inner store writes into.

    Damage is kept until `finish`: so the inner store comes to its end, and tells the version that may be replaced.
    """

    def __init__(self, decompressor: ZstdDecompressor, sink: Sink) -> None:
        self._decoder = decompressor.decompressobj()
        self._blocks = Blocks()
        self._sink = sink
        self._begun = False
        self._kept = b""
        self._promised: int | None = None
        self._taken = self._given = self._passed = 0
        self._behind = b""
        self._damage: str | None = None

    def write(self, chunk: bytes) -> None:
        """Take the next compressed bytes; raises what the sink raises, and Reject after too many useless bytes."""
        self._taken += len(chunk)
        chunk, self._kept = self._kept + chunk, b""
        try:
            if self._damage is not None:
                self._pass_over(chunk)
            elif self._begun:
                self._decode(chunk)
            elif len(chunk) < MAX_HEADER:
                self._kept = chunk
            else:
                self._begin(chunk)
        except Damage as damage:
            self._damage = str(damage)
        if self._passed > MAX_PASSED:
            raise Reject(self._damage or self._what_follows())

    def finish(self, version: str) -> None:
        """Raise Reject, with the version, unless all that was written is one whole frame."""
        try:
            if self._damage is None and not self._begun:
                self._begin(self._kept)
        except Damage as damage:
            self._damage = str(damage)
        if problem := self._damage or self._unfinished():
            raise Reject(problem, version=version)

    def _begin(self, chunk: bytes) -> None:
        header = read_header(chunk)
        self._begun = True
        self._promised = header.promised
        self._step(header.stand_in)
        self._decode(chunk[header.size :])

    def _decode(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            if self._decoder.eof:
                self._pass_over(chunk[position:])
                return
            end = self._blocks.end(chunk, position)
            if end == position:
                self._kept = chunk[position:]
                return
            self._give(self._step(chunk[position:end]))
            position = end - len(self._decoder.unused_data)

    def _step(self, piece: bytes) -> bytes:
        try:
            return self._decoder.decompress(piece)
        except ZstdError as error:
            raise Damage(f"damaged: {error}") from None

    def _give(self, plain: bytes) -> None:
        self._given += len(plain)
        if self._promised is not None and self._given > self._promised:
            raise Damage(f"its header promises {self._promised} bytes, it holds more")
        # Also without a byte: a frame of empty blocks would never meet the deadline.
        self._sink.write(plain)

    def _pass_over(self, chunk: bytes) -> None:
        self._behind = (self._behind + chunk[:4])[:4]
        self._passed += len(chunk)
        self._sink.write(b"")

    def _unfinished(self) -> str | None:
        if not self._decoder.eof:
            return f"cut short: {self._taken} bytes, and the frame goes on"
        if self._promised not in (None, self._given):
            return f"its header promises {self._promised} bytes, it holds {self._given}"
        return self._what_follows() if self._passed else None

    def _what_follows(self) -> str:
        if self._behind == FRAME_HEADER or is_skippable(self._behind):
            return "a second frame follows the first: expected one"
        return f"{self._passed} bytes follow the frame: expected none"
