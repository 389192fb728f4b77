"""The shape of a zstd frame (RFC 8878, 3.1.1): its header, judged before anything is decompressed, and its blocks."""

import sys
from typing import NamedTuple

from zstandard import CONTENTSIZE_UNKNOWN, FRAME_HEADER, ZstdError, frame_header_size, get_frame_parameters

MAX_HEADER = 18
"""In bytes, with the magic number."""

MAX_WINDOW = 8 << 20
"""What a decoder must hold of the past, in bytes: what RFC 8878 asks all to support, and levels up to 19 need."""

_SEALED = b"warmcore-sealed/"
_SMALLEST_WINDOW_LOG = 10
_BLOCK_HEADER = 3
_BLOCKS_AT_ONCE = 8


class Damage(Exception):
    """Why bytes are not one zstd frame that may be read."""


class Header(NamedTuple):
    """A header that was judged good: its size in bytes, what it promises as the content's size, and its stand-in."""

    size: int
    promised: int | None
    stand_in: bytes


def read_header(start: bytes) -> Header:
    """Judge a frame by its first 18 bytes, or by all there are; raise Damage if it is none or asks for too much."""
    if problem := magic_problem(start):
        raise Damage(problem)
    if len(start) <= len(FRAME_HEADER) or len(start) < frame_header_size(start):
        raise Damage(f"cut short: {len(start)} bytes, less than a frame header")
    try:
        found = get_frame_parameters(start)
    except ZstdError as error:
        raise Damage(f"frame header can't be used: {error}") from None
    if found.dict_id:
        raise Damage(f"needs dictionary {found.dict_id}: expected a frame without one")
    if found.window_size > MAX_WINDOW:
        raise Damage(f"needs a window of {found.window_size} bytes, the cap is {MAX_WINDOW}")
    promised = None if found.content_size == CONTENTSIZE_UNKNOWN else found.content_size
    return Header(frame_header_size(start), promised, _stand_in(found.window_size, found.has_checksum))


def magic_problem(start: bytes) -> str | None:
    """Say why bytes can't be the start of a zstd frame; None if they may be."""
    if not start:
        return "empty: 0 bytes, expected a zstd frame"
    if FRAME_HEADER.startswith(start[:4]):
        return None
    if is_skippable(start):
        return "a skippable frame: expected one frame with content"
    if start.startswith(_SEALED):
        return "not compressed: it was stored by a config that does not wrap this store"
    return f"not zstd: starts with {start[:4].hex()}, expected {FRAME_HEADER.hex()}"


def is_skippable(start: bytes) -> bool:
    return start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5


def _stand_in(window: int, checksum: bool) -> bytes:
    # A header without a promise: the decoder would call a wrong one "corrupt". We count, and say what was promised.
    log = max(_SMALLEST_WINDOW_LOG, (window - 1).bit_length())
    return FRAME_HEADER + bytes((checksum << 2, (log - _SMALLEST_WINDOW_LOG) << 3))


class Blocks:
    """Finds where blocks end: four bytes can stand for a block of 128 KiB, so steps in bytes would bound nothing."""

    def __init__(self) -> None:
        self._left = 0

    def end(self, chunk: bytes, start: int) -> int:
        """Return up to where `chunk` may be decoded at once, from `start` on, to give at most 1 MiB.

        That is `start` itself if less is there than the header of the next block.
        """
        position, size = start + self._left, len(chunk)
        for _ in range(_BLOCKS_AT_ONCE):
            if position + _BLOCK_HEADER > size:
                break
            number = chunk[position] | chunk[position + 1] << 8 | chunk[position + 2] << 16
            position += _BLOCK_HEADER + _content_size(number)
        end = min(position, size)
        self._left = position - end
        return end


def _content_size(number: int) -> int:
    if number & 0b001:
        return sys.maxsize  # the last block: the decoder stops where the frame does
    return 1 if number & 0b110 == 0b010 else number >> 3
