"""Stores that fail in one way each, around any inner store: through a config as well, since they are plugins."""

import hashlib
import threading
import time
from typing import Literal

from warmcore.contracts import Entry, Expect, Fence, Held, Lease, Sink, Source
from warmcore.errors import StoreError
from warmcore.hookspecs import hookimpl
from warmcore.plugins import Store
from warmcore.settings import Duration, Size
from warmcore.testing.access import BytesSink, BytesSource, pieces

Damage = Literal["flipped", "cut", "empty", "random", "other"]


class Wrapper:
    """Pass every call on to the inner store; `strike` runs before each of `hooks` (all, unless given)."""

    def __init__(self, inner: Store, hooks: list[str] | None = None) -> None:
        self.inner = inner
        self._hooks = hooks

    def strike(self) -> None:
        """Do what this store does wrong; raise, wait, or nothing."""

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        self._before("store_get")
        return self.inner.get(key, sink, fresh=fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self._before("store_put")
        return self.inner.put(key, source, expect, fence)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        self._before("store_list")
        return self.inner.list(prefix)

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        self._before("store_delete")
        return self.inner.delete(key, expect)

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        self._before("store_lease")
        return self.inner.lease(key, entry, expect, ttl, note)

    @hookimpl
    def store_close(self) -> None:
        self._before("store_close")

    def _before(self, hook: str) -> None:
        if self._hooks is None or hook in self._hooks:
            self.strike()


class SlowStore(Wrapper):
    """Take `delay` before each call."""

    def __init__(self, inner: Store, delay: Duration = Duration(0.05), hooks: list[str] | None = None) -> None:
        super().__init__(inner, hooks)
        self._delay = delay

    def strike(self) -> None:
        time.sleep(self._delay)


class HangingStore(Wrapper):
    """Never answer, until `release` is called."""

    def __init__(self, inner: Store, hooks: list[str] | None = None) -> None:
        super().__init__(inner, hooks)
        self._released = threading.Event()

    def release(self) -> None:
        """Let all calls go on, those that hang and those to come."""
        self._released.set()

    def strike(self) -> None:
        self._released.wait()


class FlappingStore(Wrapper):
    """Answer `up` calls, refuse the next `down`, and so on; with `up = 0` it is always down."""

    def __init__(self, inner: Store, up: int = 1, down: int = 1, hooks: list[str] | None = None) -> None:
        super().__init__(inner, hooks)
        self._up = up
        self._turn = up + down
        self._calls = 0
        self._lock = threading.Lock()

    def strike(self) -> None:
        with self._lock:
            turn, self._calls = self._calls % self._turn, self._calls + 1
        if turn >= self._up:
            raise StoreError("connection refused: found nobody there, expected a server (this store flaps on purpose)")


class FullStore(Wrapper):
    """Have room for `room` bytes in all, and fail in the middle of the put that passes it."""

    def __init__(self, inner: Store, room: Size = Size(0)) -> None:
        super().__init__(inner)
        self._left = int(room)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = self.inner.put(key, _Limited(source, self._left), expect, fence)
        self._left -= source.size if stored else 0
        return stored


class CorruptingStore(Wrapper):
    """Hand out damaged bytes: one bit flipped, cut in half, none, random ones, or what was last put at another key."""

    def __init__(self, inner: Store, damage: Damage = "flipped") -> None:
        super().__init__(inner)
        self._damage = damage
        self._put: dict[str, bytes] = {}

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if self._damage != "other":
            return self.inner.put(key, source, expect, fence)
        data = b"".join(iter(lambda: source.read(1 << 16), b""))
        stored = self.inner.put(key, BytesSource(data), expect, fence)
        if stored:
            self._put[key] = data
        return stored

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        honest = BytesSink()
        version = self.inner.get(key, honest, fresh=fresh)
        if version is not None:
            for piece in pieces(self._spoil(key, honest.data)):
                sink.write(piece)
        return version

    def _spoil(self, key: str, data: bytes) -> bytes:
        if self._damage == "flipped":
            middle = len(data) // 2
            return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        if self._damage == "cut":
            return data[: len(data) // 2]
        if self._damage == "random":
            return hashlib.shake_256(key.encode()).digest(len(data))
        others = [other for name, other in self._put.items() if name != key]
        return others[-1] if self._damage == "other" and others else b""


class _Limited:
    """A source that ends in "no space left" after so many bytes."""

    def __init__(self, source: Source, room: int) -> None:
        self._source = source
        self._room = room
        self._left = room
        self.size = source.size

    @property
    def sha256(self) -> str:
        return self._source.sha256

    def read(self, size: int) -> bytes:
        chunk = self._source.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise StoreError(
                f"no space left: found room for {self._room} bytes, expected {self.size}: delete something"
            )
        return chunk

    def rewind(self) -> None:
        self._left = self._room
        self._source.rewind()
