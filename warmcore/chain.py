"""The configured stores, nearest first: an artifact is looked up in each until one is fit to install."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from warmcore import artifact
from warmcore.artifact import Header
from warmcore.blob import Blob, Payload
from warmcore.contracts import Expect
from warmcore.errors import DeadlineExceeded, FutureVersion, Reject, StoreError, reason_of
from warmcore.identity import Request
from warmcore.plugins import Cache, Store
from warmcore.report import Event, Events, Outcome, Step
from warmcore.streams import SpillSink
from warmcore.threads import run_within

T = TypeVar("T")

MISS_SECONDS = 2.0
"""How long a session remembers a miss: starts that follow each other do not ask again, and a publish clears it."""


@dataclass(frozen=True)
class Wanted:
    """One look-up: the cache that judges it, the request, and the key."""

    cache: Cache
    request: Request
    key: str


@dataclass(frozen=True)
class Standing:
    """What one store answered for a key. `expect` is what a replacing put must find; None: leave it alone."""

    outcome: Outcome
    reason: str = ""
    expect: Expect | str | None = None
    bytes: int = 0
    header: Header | None = None
    payload: Payload | None = None
    sealed: Blob | None = None


@dataclass
class Chain:
    """The stores in the config's order.

    `seen` keeps this start's answers by store and key, `silent` who gave none. `missed` is when a store last had
    nothing, and is shared by the starts of one session.
    """

    stores: list[Store]
    events: Events
    namespace: str = "default"
    spill_folder: Path | None = None
    seen: dict[tuple[str, str], Standing] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    missed: dict[tuple[str, str], float] | None = None

    def look_up(self, wanted: Wanted, deadline: float) -> tuple[Store, Standing] | None:
        """Return the nearest fit artifact and its store; one event per store asked; `deadline` is monotonic."""
        for store in self.stores:
            started = time.monotonic()
            standing = self._answer(store, wanted, deadline)
            self.seen[store.name, wanted.key] = standing
            self.emit("look-up", store, wanted, standing.outcome, standing.reason, started, standing.bytes)
            if standing.payload is not None:
                return store, standing
        return None

    def read(self, store: Store, wanted: Wanted, deadline: float, *, fresh: bool = False) -> Standing:
        """Read, unseal and validate what stands in one store; the outcome is in the answer, never raised."""
        sink = SpillSink(artifact.MAX_LINE + artifact.MAX_HEADER + wanted.cache.max_bytes, deadline, self.spill_folder)
        try:
            version = self._get(store, wanted.key, sink, deadline, fresh)
            if version is None:
                return Standing("miss", expect=Expect.ABSENT)
        except DeadlineExceeded as error:
            return Standing("timeout", reason_of(error))
        except Reject as error:
            # Without a version it is larger than any artifact of this kind: nobody's good entry.
            expect = Expect.ANY if error.version is None else error.version
            return Standing("reject", reason_of(error), expect=expect if error.replaceable else None)
        except Exception as error:  # noqa: BLE001  # whatever a store does, the next one is asked
            return Standing("error", reason_of(error))
        return self._judge(wanted, sink.blob(), version)

    def call(self, store: Store, deadline: float, call: Callable[[], T]) -> T:
        """Run one store call in a daemon thread, within the store's timeout and the deadline, under its breaker."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded("no time was left to ask")
        store.breaker.check()
        try:
            answer = run_within(min(store.timeout, left), call)
        except StoreError as error:
            if not isinstance(error, DeadlineExceeded):
                store.breaker.failed(error)
            elif left > store.timeout / 2:  # else it was the budget that cut it short
                store.breaker.failed(error)
                self.silent.add(store.name)
            raise
        store.breaker.worked()
        return answer

    def stored_key(self, key: str) -> str:
        """Return the key as stores know it: behind the namespace."""
        return f"{self.namespace}/{key}"

    def emit(
        self,
        step: Step,
        store: Store,
        wanted: Wanted,
        outcome: Outcome,
        reason: str = "",
        started: float | None = None,
        size: int = 0,
    ) -> None:
        seconds = 0.0 if started is None else time.monotonic() - started
        self.events.emit(
            Event(time.time(), step, wanted.cache.name, wanted.key, store.name, outcome, reason, seconds, size)
        )

    def _answer(self, store: Store, wanted: Wanted, deadline: float) -> Standing:
        if reason := barred(store, wanted) or untrusted(store, wanted):
            return Standing("not applicable", reason)
        if time.monotonic() >= deadline:
            return Standing("timeout", "the budget was spent before this store was asked")
        missed = {} if self.missed is None else self.missed
        if time.monotonic() < missed.get((store.name, wanted.key), 0.0) + MISS_SECONDS:
            return Standing("miss", "it was absent a moment ago", expect=Expect.ABSENT)
        standing = self.read(store, wanted, min(deadline, time.monotonic() + store.timeout))
        if standing.outcome == "miss":
            missed[store.name, wanted.key] = time.monotonic()
        return standing

    def _get(self, store: Store, key: str, sink: SpillSink, deadline: float, fresh: bool) -> str | None:
        def get() -> str | None:
            version = None
            try:
                version = store.get(self.stored_key(key), sink, fresh=fresh)
            except Exception:
                if sink.fault is None:
                    raise
            # What the sink refused is no failure of the store, whatever the store made of it.
            if sink.fault is not None:
                raise sink.fault
            return version

        return self.call(store, deadline, get)

    def _judge(self, wanted: Wanted, sealed: Blob, version: str) -> Standing:
        try:
            header, payload = artifact.unseal(sealed, wanted.request, wanted.key, namespace=self.namespace)
            payload = wanted.cache.validate(wanted.request, payload)
        except FutureVersion as error:
            return Standing("miss", reason_of(error), bytes=sealed.size)
        except Reject as error:
            expect = version if error.replaceable else None
            return Standing("reject", reason_of(error), expect=expect, bytes=sealed.size)
        except Exception as error:  # noqa: BLE001  # a cache that breaks over a payload ends no look-up
            return Standing("error", reason_of(error), bytes=sealed.size)
        return Standing("hit", "", version, sealed.size, header, payload, sealed)


def barred(store: Store, wanted: Wanted) -> str | None:
    """Say why this request may neither be read from nor written to a store; None if it may."""
    if wanted.request.local_only and store.shared:
        factors = ", ".join(wanted.request.local_only)
        return f"could not determine {factors}: such an artifact never comes from or goes to a shared store"
    return None


def untrusted(store: Store, wanted: Wanted) -> str | None:
    """Say why this store's bytes may not be adopted; None if they may."""
    if wanted.cache.carries_code and store.shared and not store.trusted:
        return "this kind is code and the store is shared: set trusted = true if all who can write it may run code here"
    return None
