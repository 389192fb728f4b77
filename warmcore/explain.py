"""Why did it miss: the nearest stored entries of a kind, and exactly the factors in which they differ."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from warmcore import artifact
from warmcore.artifact import Head
from warmcore.chain import Chain
from warmcore.contracts import Entry
from warmcore.errors import WarmcoreError
from warmcore.identity import Difference, Identity, diff
from warmcore.plugins import Store

MAX_READ = 200


@dataclass(frozen=True)
class Nearest:
    """One stored entry, and the factors in which an identity differs from it (left: asked for, right: stored)."""

    key: str
    store: str
    differences: tuple[Difference, ...]


class _Enough(Exception):
    """Ends a get once the head is there."""


class HeadSink:
    """Takes only the head of a sealed artifact, and then ends the get."""

    def __init__(self) -> None:
        self._start = bytearray()
        self.head: Head | None = None

    def write(self, chunk: bytes) -> None:
        self._start += chunk
        size = artifact.head_size(bytes(self._start[: artifact.MAX_LINE]))
        if size is not None and (size > artifact.MAX_HEADER + artifact.MAX_LINE or len(self._start) >= size):
            self.head = artifact.parse_head(bytes(self._start))
            raise _Enough


def read_head(chain: Chain, store: Store, key: str, deadline: float) -> Head | None:
    """Return the head of what stands at a stored key, moving little more than that; None if there is none to read."""
    sink = HeadSink()

    def get() -> None:
        try:
            store.get(key, sink)
        except Exception:
            if sink.head is None:  # else it was ended by the sink, whatever the store made of that
                raise

    try:
        chain.call(store, deadline, get)
    except Exception:  # noqa: BLE001, S110  # unreadable: there is no head
        pass
    return sink.head


def nearest(
    chain: Chain, stores: Sequence[Store], kind: str, identity: Identity, deadline: float, *, most: int = 1
) -> list[Nearest]:
    """Return the stored entries of a kind that differ in the fewest factors, but in one; some stores can't list."""
    found: dict[str, Nearest] = {}
    for store in stores:
        for entry in _entries(chain, store, kind, deadline):
            head = read_head(chain, store, entry.key, deadline) if time.monotonic() < deadline else None
            if head is None or chain.stored_key(head.header.key) != entry.key:
                continue
            if differences := _differences(identity, head):
                found.setdefault(head.header.key, Nearest(head.header.key, store.name, tuple(differences)))
    return sorted(found.values(), key=lambda item: (len(item.differences), item.key))[:most]


def _differences(identity: Identity, head: Head) -> list[Difference]:
    try:
        return diff(identity, Identity(head.header.identity))
    except WarmcoreError:
        return []


def _entries(chain: Chain, store: Store, kind: str, deadline: float) -> list[Entry]:
    if "store_list" not in store.can:
        return []
    try:
        return chain.call(store, deadline, lambda: store.list(chain.stored_key(f"v1/{kind}/")))[:MAX_READ]
    except Exception:  # noqa: BLE001  # a store in trouble hides no other
        return []
