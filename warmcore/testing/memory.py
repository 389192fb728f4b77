"""A store in this process: the model of what a store is, and something to wrap."""

import itertools
import os
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakSet

from warmcore.contracts import Entry, Expect, Fence, Held, Lease, Sink, Source
from warmcore.hookspecs import hookimpl
from warmcore.testing.access import PIECE, pieces


class Kept(NamedTuple):
    """What stands at one key."""

    data: bytes
    version: str


@dataclass(eq=False)
class Shelf:
    """What stores of one name share: entries by key, and the token of each standing lease."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    entries: dict[str, Kept] = field(default_factory=dict)
    leases: dict[str, "MemoryLease"] = field(default_factory=dict)
    versions: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        _live.add(self)


_live: "WeakSet[Shelf]" = WeakSet()
_named: dict[str, Shelf] = {}


def _unlock() -> None:
    # The thread that held one in the parent is not there to let go of it in the child.
    for shelf in _live:
        shelf.lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


class MemoryStore:
    """Keep sealed artifacts in memory; stores with the same `shelf` share them, one without a name has its own."""

    shared = False

    def __init__(self, shelf: str = "") -> None:
        self.shelf = _named.setdefault(shelf, Shelf()) if shelf else Shelf()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:  # noqa: ARG002  # every read is the strongest
        with self.shelf.lock:
            kept = self.shelf.entries.get(key)
        if kept is None:
            return None
        for piece in pieces(kept.data):
            sink.write(piece)
        return kept.version

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        data = self._read(source)
        with self.shelf.lock:
            if not (self._stands(fence) and self._is_as(expect, key)):
                return False
            self.shelf.entries[key] = Kept(data, self._next_version(key))
        return True

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        with self.shelf.lock:
            found = sorted(self.shelf.entries.items())
        return [Entry(key, kept.version, len(kept.data)) for key, kept in found if key.startswith(prefix)]

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        with self.shelf.lock:
            if key not in self.shelf.entries or not self._is_as(expect, key):
                return False
            del self.shelf.entries[key]
        return True

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:  # noqa: ARG002  # holder and waiters are one process: it stands until it is released
        with self.shelf.lock:
            changed = not self._is_as(expect, entry)
            if held := self.shelf.leases.get(key):
                return Held(held.since, held.note, changed)
            if changed:
                return Held(changed=True)
            lease = self.shelf.leases[key] = MemoryLease(self.shelf, key, note)
        return lease

    @hookimpl
    def store_close(self) -> None:
        """Hold nothing that would have to be let go."""

    def lose_leases(self) -> None:
        """Let every lease run out, as if its holder were dead or stopped."""
        with self.shelf.lock:
            self.shelf.leases.clear()

    def _read(self, source: Source) -> bytes:
        return b"".join(iter(lambda: source.read(PIECE), b""))

    def _next_version(self, key: str) -> str:  # noqa: ARG002  # what a store may go by
        return str(next(self.shelf.versions))

    def _is_as(self, expect: Expect | str, key: str) -> bool:
        kept = self.shelf.entries.get(key)
        if isinstance(expect, Expect):
            return expect is Expect.ANY or kept is None
        return kept is not None and kept.version == expect

    def _stands(self, fence: Fence | None) -> bool:
        if fence is None or fence["store"] != self.shelf.id:
            return True
        lease = self.shelf.leases.get(fence["lock"])
        return lease is not None and lease.fence == fence


class MemoryLease:
    """A granted lease; it stands until it is released, or lost by `MemoryStore.lose_leases`."""

    def __init__(self, shelf: Shelf, key: str, note: float | None) -> None:
        self.fence: Fence = {"store": shelf.id, "lock": key, "token": uuid.uuid4().hex}
        self.since = time.time()
        self.note = note
        self._shelf = shelf

    def alive(self) -> bool:
        return self._shelf.leases.get(self.fence["lock"]) is self

    def release(self) -> None:
        with self._shelf.lock:
            if self.alive():
                del self._shelf.leases[self.fence["lock"]]
