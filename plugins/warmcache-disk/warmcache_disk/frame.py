"""The line that stands before the bytes in each file: `warmcore-disk/1 <version> <size> <key>`.

The version is drawn anew for each put; the key is percent-encoded. A later layout will use folders of its own beside
these, so an unreadable line is damage, not the future.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from warmcore import Source, StoreError

MAX_LINE = 4096
CHUNK = 1 << 20
AT_ONCE = 4 << 20
UNREADABLE = ("damaged-", "planted-")

_LINE = re.compile(rb"warmcore-disk/1 ([0-9a-f]{32}) (0|[1-9][0-9]{0,17}) ([!-~]*)\n")


class Frame(NamedTuple):
    """A parsed line: `start` is where the bytes begin."""

    version: str
    size: int
    key: str
    start: int


def file_name(key: str) -> str:
    """Return the file name of a key: of one length, in one case, whatever the key holds."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def encode(version: str, size: int, key: str) -> bytes:
    """Return the line for a file; StoreError if the key is too long to be read back."""
    line = f"warmcore-disk/1 {version} {size} {quote(key, errors='surrogatepass')}\n".encode()
    if len(line) > MAX_LINE:
        raise StoreError(f"key {key!r:.80} is too long: its line takes {len(line)} bytes, the cap is {MAX_LINE}")
    return line


def with_line(line: bytes, source: Source) -> Iterator[bytes]:
    """Yield the line and all bytes of the source; StoreError if they are not as many as it says."""
    yield line
    # Another store may have read it before.
    source.rewind()
    left = source.size
    while left and (chunk := source.read(min(CHUNK, left))):
        left -= len(chunk)
        yield chunk
    if left or source.read(1):
        amount = "less" if left else "more"
        raise StoreError(f"the source gave {amount} than the {source.size} bytes it promised: nothing was stored")


def parse(start: bytes) -> Frame | None:
    """Read the line from the first bytes of a file; None if they are no such line."""
    line = _LINE.match(start[:MAX_LINE])
    if line is None:
        return None
    version, size, key = (part.decode() for part in line.groups())
    try:
        return Frame(version, int(size), unquote(key, errors="surrogatepass"), line.end())
    except UnicodeDecodeError:
        return None


def planted_version(info: os.stat_result) -> str:
    """Name what is no object, a link say, by its inode and owner."""
    seen = f"{info.st_ino} {info.st_mode} {info.st_uid}".encode()
    return f"planted-{hashlib.sha256(seen).hexdigest()[:32]}"


def damaged_version(info: os.stat_result, start: bytes) -> str:
    """Name a damaged file by what stands, so that exactly it can be replaced; times are no part of it."""
    seen = f"{info.st_ino} {info.st_size} ".encode() + start
    return f"damaged-{hashlib.sha256(seen).hexdigest()[:32]}"
