"""One start of one engine process, in three phases over all kinds: adopt all, warm up all, publish all."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MethodType

from warmcore.artifact import new_generation
from warmcore.blob import Payload
from warmcore.chain import Chain, Standing, Wanted
from warmcore.config import Policy
from warmcore.contracts import Context, NotApplicable, WarmUp
from warmcore.errors import CacheError, IdentityError, Reject, reason_of
from warmcore.explain import nearest
from warmcore.identity import parse_key
from warmcore.plugins import Cache, Store
from warmcore.publish import Offer, back_fill, lacking, publish
from warmcore.report import Event, KindReport, Outcome, Report, Step
from warmcore.threads import start_daemon

ENGINE_FOLDER = "engine folder"
LOCAL = "local"
EXPLAIN_SECONDS = 1.0

_SEVERITY: tuple[Outcome, ...] = ("error", "timeout", "reject", "miss", "not applicable")

log = logging.getLogger("warmcore")


@dataclass
class _Kind:
    """One kind on its way through a start: what it asked for, what a store gave, what the engine's folder holds."""

    cache: Cache
    report: KindReport
    wanted: Wanted | None = None
    found: tuple[Store, Standing] | None = None
    adopted: Payload | None = None

    @property
    def cost(self) -> float | None:
        header = self.found[1].header if self.found else None
        return header.cost_seconds if header else None


@dataclass
class Start:
    """Carries one start. Nothing but what the engine's own warm-up raises, and signals, leaves `run`."""

    chain: Chain
    caches: Sequence[Cache]
    policy: Policy
    context: Context
    report: Report
    kinds: list[_Kind] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def run(self) -> Report:
        """Run the three phases; the report is as far as they came also when the engine's warm-up raises."""
        self.kinds = [_Kind(cache, KindReport(cache.name)) for cache in self.caches]
        self.report.kinds = [kind.report for kind in self.kinds]
        self.report.events = self.chain.events.seen
        self.adopt_all()
        try:
            self.warm_up_all()
        except Exception:
            self.publish_all()  # what did compile need not be compiled again by the engine's next try
            raise
        self.publish_all()
        return self.report

    def adopt_all(self) -> None:
        """Look up, verify and stage every kind within the budget, then install what was found."""
        for kind in self.kinds:
            self._contained(kind, "look-up", partial(self._request, kind))
        deadline = time.monotonic() + self.policy.budget
        for kind in self.kinds:
            if kind.wanted is not None:
                self._contained(kind, "look-up", partial(self._look_up, kind, kind.wanted, deadline))
        for kind in self.kinds:
            if kind.wanted is not None and kind.found is not None:
                self._contained(kind, "install", partial(self._install, kind, kind.wanted, *kind.found))

    def warm_up_all(self) -> None:
        """Run each of the engine's callables once, inside the tuning contexts of all kinds it stands for."""
        for call in distinct(self.context.warm_ups.values()):
            kinds = [kind for kind in self.kinds if kind.wanted and self._stands_for(call, kind)]
            started = time.monotonic()
            try:
                nested: WarmUp = call
                for kind in reversed(kinds):
                    nested = partial(self._warm_up, kind, nested)
                nested()
            finally:
                for kind in kinds:
                    kind.report.warm_up_seconds = time.monotonic() - started

        for kind in self.kinds:
            if kind.wanted and kind.cache.name not in self.context.warm_ups:
                passed = ", ".join(sorted(self.context.warm_ups)) or "none"
                self._emit(kind, "warm-up", "not applicable", f"the engine passes no warm-up for it (passed: {passed})")

    def publish_all(self) -> None:
        """Collect every kind, publish what is new under one generation, and say what was used and what it saved."""
        generation = new_generation()
        asked = [(kind, kind.wanted) for kind in self.kinds if kind.wanted is not None]
        for kind, wanted in asked:
            self._contained(kind, "publish", partial(self._publish, kind, wanted, generation))
        self.report.failed = self._failed()
        for failed in self.report.failed:
            log.error("%s", failed)
        for kind, _ in asked:
            self._contained(kind, "collect", partial(self._conclude, kind))
        explained = time.monotonic() + EXPLAIN_SECONDS
        for kind, wanted in asked:
            self._contained(kind, "collect", partial(self._explain, kind, wanted, explained))
        for thread in self.threads:
            thread.join(timeout=max((store.timeout for store in self.chain.stores), default=0.0))

    def _request(self, kind: _Kind) -> None:
        try:
            self.context.check()
            request = kind.cache.request(self.context)
        except IdentityError as error:
            log.warning("%s is not applicable: %s", kind.cache.name, error)
            request = NotApplicable(reason_of(error))
        if isinstance(request, NotApplicable):
            kind.report.reason = request.reason
            self._emit(kind, "look-up", "not applicable", request.reason)
            return
        key = kind.cache.resolve(request)
        if parse_key(key)[:2] != (kind.cache.name, request.config_hash):
            raise CacheError(f"resolve returned {key!r:.200}, which is not of kind and config hash of the request")
        if request.identity is not None and request.identity.config_hash != request.config_hash:
            raise CacheError("request_params returned a config hash that is not its identity's")
        kind.report.identity = dict(request.identity.factors) if request.identity else {}
        kind.wanted, kind.report.key = Wanted(kind.cache, request, key), key

    def _look_up(self, kind: _Kind, wanted: Wanted, deadline: float) -> None:
        local = self._from_engine_folder(kind, wanted)
        if local is not None and local.origin is not None:
            self._adopt(kind, local, ENGINE_FOLDER, local.origin.generation)
            return
        kind.found = self.chain.look_up(wanted, deadline)
        if kind.found is not None:
            store, standing = kind.found
            self._adopt(kind, standing.payload, store.name, standing.header.generation if standing.header else None)
        elif local is not None:
            self._adopt(kind, local, ENGINE_FOLDER, LOCAL)
        else:
            kind.report.outcome, kind.report.reason = self._why_not(wanted)

    def _from_engine_folder(self, kind: _Kind, wanted: Wanted) -> Payload | None:
        started = time.monotonic()
        try:
            payload = kind.cache.collect(self.context)
            payload = payload and kind.cache.validate(wanted.request, payload)
        except Exception as error:  # noqa: BLE001  # whatever stands there, the stores are asked next
            outcome: Outcome = "reject" if isinstance(error, Reject) else "error"
            self._emit(kind, "look-up", outcome, reason_of(error), started, store=ENGINE_FOLDER)
            return None
        size = payload.size if payload else 0
        self._emit(kind, "look-up", "hit" if payload else "miss", "", started, size, ENGINE_FOLDER)
        of_this_key = payload and payload.origin and payload.origin.of(self.chain.namespace, wanted.key)
        return payload if of_this_key or not payload else Payload(payload)

    def _adopt(self, kind: _Kind, payload: Payload | None, store: str, generation: str | None) -> None:
        kind.adopted = payload
        kind.report.outcome, kind.report.store, kind.report.generation = "hit", store, generation
        kind.report.bytes = payload.size if payload else 0

    def _why_not(self, wanted: Wanted) -> tuple[Outcome, str]:
        answers = [standing for (_, key), standing in self.chain.seen.items() if key == wanted.key]
        if not answers:
            return "not applicable", "no store of the chain can be used"
        worst = min(answers, key=lambda standing: _SEVERITY.index(standing.outcome))
        return worst.outcome, worst.reason

    def _install(self, kind: _Kind, wanted: Wanted, store: Store, standing: Standing) -> None:
        started = time.monotonic()
        if standing.payload is None or standing.sealed is None:
            return
        try:
            kind.cache.install(self.context, standing.payload)
        except Exception:
            kind.found = kind.adopted = kind.report.generation = None
            kind.report.store, kind.report.bytes = "", 0
            raise
        self._emit(kind, "install", "done", "", started, standing.payload.size)
        if thread := back_fill(self.chain, wanted, store, standing.sealed):
            self.threads.append(thread)

    def _stands_for(self, call: WarmUp, kind: _Kind) -> bool:
        return any(name == kind.cache.name and _same(own, call) for name, own in self.context.warm_ups.items())

    def _warm_up(self, kind: _Kind, call: WarmUp) -> None:
        once, started = _Once(call), time.monotonic()
        try:
            kind.cache.warm_up(replace(self.context, warm_ups={**self.context.warm_ups, kind.cache.name: once}))
            if once.error is None:
                self._emit(kind, "warm-up", "done", "", started)
        except BaseException as error:  # the plugin's own failure; the engine's is raised below
            if once.error is None:
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    raise
                self._fail(kind, "warm-up", error, started)
        if not once.ran:
            once()
        if once.error is not None:
            self._emit(kind, "warm-up", "error", f"the engine's own: {reason_of(once.error)}", started)
            raise once.error

    def _publish(self, kind: _Kind, wanted: Wanted, generation: str) -> None:
        started = time.monotonic()
        ours = kind.cache.collect(self.context)
        if ours is None:
            self._emit(kind, "publish", "not applicable", "empty: the warm-up left nothing to publish", started)
            return
        deadline = time.monotonic() + self.policy.budget
        adopted = kind.report.generation not in (None, LOCAL)
        if kind.adopted is not None and adopted and _holds(kind.adopted, ours):
            self._emit(kind, "publish", "unchanged", "nothing new since it was adopted", started)
            # A store that was added, or lost its entries, is filled by those that start warm, too.
            offer = Offer(kind.adopted, kind.report.generation or generation, kind.cost, self.policy.keep)
            # Not waited for: what hangs there must not hold up a warm start.
            start_daemon(lambda: publish(self.chain, wanted, offer, deadline, lacking(self.chain, wanted, deadline)))
            return
        spent = kind.report.warm_up_seconds
        cost = None if spent is None else spent + (kind.cost or 0.0)
        offer = Offer(ours, generation, cost, self.policy.keep, changed=adopted)
        stored = publish(self.chain, wanted, offer, deadline)
        if stored is not None:
            kind.cache.install(self.context, stored)

    def _failed(self) -> list[str]:
        """Return the failed publishes that `on_write_error` counts, in words."""
        writable = [store.name for store in self.chain.stores if store.mode == "read-write"]
        counted = {"ignore": [], "first": writable[:1], "all": writable}[self.policy.on_write_error]
        published = [event for event in self.chain.events.seen if event.name == "publish" and event.store in counted]
        failures = [event for event in published if event.outcome in ("error", "timeout", "refused")]
        return [f"publishing {event.kind} to store {event.store!r} failed: {event.reason}" for event in failures]

    def _conclude(self, kind: _Kind) -> None:
        if kind.cost is not None:
            kind.report.seconds_saved = kind.cost - kind.report.seconds - (kind.report.warm_up_seconds or 0.0)
        kind.report.usage = kind.cache.usage(self.context)

    def _explain(self, kind: _Kind, wanted: Wanted, deadline: float) -> None:
        if kind.report.outcome != "miss" or wanted.request.identity is None:
            return
        missed = [store for store in self.chain.stores if self.chain.seen[store.name, wanted.key].outcome == "miss"]
        for found in nearest(self.chain, missed, kind.cache.name, wanted.request.identity, deadline):
            kind.report.nearest, kind.report.differs = found.key, list(found.differences)

    def _contained(self, kind: _Kind, step: Step, action: Callable[[], None]) -> None:
        started = time.monotonic()
        with _timed(kind if kind.wanted else None):
            try:
                action()
            except Exception as error:  # noqa: BLE001  # promise P1: whatever went wrong, the engine starts
                self._fail(kind, step, error, started)

    def _fail(self, kind: _Kind, step: Step, error: BaseException, started: float) -> None:
        if kind.adopted is None and step in ("look-up", "install"):
            kind.report.outcome, kind.report.reason = "error", reason_of(error)
        self._emit(kind, step, "error", reason_of(error), started)

    def _emit(
        self,
        kind: _Kind,
        step: Step,
        outcome: Outcome,
        reason: str,
        started: float | None = None,
        size: int = 0,
        store: str = "",
    ) -> None:
        seconds = 0.0 if started is None else time.monotonic() - started
        self.chain.events.emit(
            Event(time.time(), step, kind.cache.name, kind.report.key, store, outcome, reason, seconds, size)
        )


class _Once:
    """A warm-up as a plugin gets it: runs once, and remembers what it raised, whatever the plugin makes of that."""

    def __init__(self, call: WarmUp) -> None:
        self._call = call
        self.ran = False
        self.error: BaseException | None = None

    def __call__(self) -> None:
        if self.ran:
            return
        self.ran = True
        try:
            self._call()
        except BaseException as error:
            self.error = error
            raise


@contextmanager
def _timed(kind: _Kind | None) -> Iterator[None]:
    """Add the time inside to a kind's own seconds; building the request is the library's time, not ours."""
    started = time.monotonic()
    try:
        yield
    finally:
        if kind is not None:
            kind.report.seconds += time.monotonic() - started


def distinct(calls: Iterable[WarmUp]) -> list[WarmUp]:
    """Return each callable once, in order: by identity, since one need be neither hashable nor comparable."""
    found: list[WarmUp] = []
    for call in calls:
        if not any(_same(call, other) for other in found):
            found.append(call)
    return found


def _same(one: WarmUp, other: WarmUp) -> bool:
    # A bound method is a new object each time it is named.
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


def _holds(adopted: Payload, ours: Payload) -> bool:
    """Tell whether all of ours was adopted, byte for byte."""
    return all(name in adopted and adopted[name].sha256 == blob.sha256 for name, blob in ours.items())
