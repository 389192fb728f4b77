"""Bytes in and out of a store as the core would carry them, and a handle without a config."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from warmcore.config import Mode, StoreKeys
from warmcore.contracts import Expect, Fence
from warmcore.plugins import Store
from warmcore.settings import Duration

PIECE = 1 << 16


class Got(NamedTuple):
    """What a get returned: all bytes that it wrote, and their version."""

    data: bytes
    version: str


class BytesSink:
    """Keep what a store writes; with `error`, raise it at the first chunk that goes past `after` bytes."""

    def __init__(self, error: Exception | None = None, after: int = 0) -> None:
        self._chunks: list[bytes] = []
        self._error = error
        self._after = after
        self.size = 0

    @property
    def data(self) -> bytes:
        return b"".join(self._chunks)

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self._error is not None and self.size > self._after:
            raise self._error
        # As it came: a store that hands out a buffer and fills it again is found out.
        self._chunks.append(chunk)


class BytesSource:
    """Give `data` in pieces of at most `piece` bytes; with `error`, raise it once `after` bytes were given."""

    def __init__(self, data: bytes, *, piece: int = PIECE, error: Exception | None = None, after: int = 0) -> None:
        self._data = data
        self._piece = piece
        self._error = error
        self._after = after
        self._at = 0
        self.size = len(data)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, often fewer, and b"" only at the end."""
        if self._error is not None and self._at >= self._after:
            raise self._error
        end = self._at + min(size, self._piece)
        if self._error is not None:
            end = min(end, self._after)
        chunk = self._data[self._at : end]
        self._at += len(chunk)
        return chunk

    def rewind(self) -> None:
        self._at = 0


def open_store(
    plugin: object,
    *,
    name: str = "tested",
    inner: Store | None = None,
    mode: Mode = "read-write",
    timeout: float = 2.0,
    shared: bool | None = None,
    trusted: bool = False,
) -> Store:
    """Return a plugin's handle as a config would make it; a wrapper's needs the handle of its inner store too."""
    return Store(name, plugin, StoreKeys(name, mode, Duration(timeout), shared, trusted), inner)


def put_bytes(
    store: Store, key: str, data: bytes, expect: Expect | str = Expect.ANY, fence: Fence | None = None
) -> bool:
    return store.put(key, BytesSource(data), expect, fence)


def get_bytes(store: Store, key: str, *, fresh: bool = False) -> Got | None:
    """Return bytes and version, None on a miss; what was written before a miss is dropped, as the core does."""
    sink = BytesSink()
    version = store.get(key, sink, fresh=fresh)
    return None if version is None else Got(sink.data, version)


def stored_key(
    name: str = "all", *, namespace: str = "default", kind: str = "demo", config_hash: str = "0" * 64
) -> str:
    """Return a key as stores see it: `namespace/v1/kind/config-hash/name`."""
    return f"{namespace}/v1/{kind}/{config_hash}/{name}"


def pieces(data: bytes, size: int = 1 << 20) -> Iterator[bytes]:
    """Yield `data` in pieces."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
