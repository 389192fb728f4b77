"""One start of one engine process, in three phases over all kinds: adopt all, warm up all, publish all."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from warmcore.artifact import new_generation
from warmcore.chain import Chain, Wanted
from warmcore.config import Policy
from warmcore.contracts import Context, WarmUp
from warmcore.kind import Kind
from warmcore.plugins import Cache
from warmcore.report import KindReport, Report, Step
from warmcore.warmups import distinct, same

EXPLAIN_SECONDS = 1.0

log = logging.getLogger("warmcore")


@dataclass
class Start:
    """Carries one start. Nothing but what the engine's own warm-up raises, and signals, leaves `run`."""

    chain: Chain
    caches: Sequence[Cache]
    policy: Policy
    context: Context
    report: Report
    kinds: list[Kind] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def run(self) -> Report:
        """Run the three phases; the report is as far as they came also when the engine's warm-up raises."""
        self.kinds = [Kind(cache, self.chain, self.context, KindReport(cache.name)) for cache in self.caches]
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
            self._contained(kind, "look-up", kind.ask)
        deadline = time.monotonic() + self.policy.budget
        for kind, wanted in self._asked():
            self._contained(kind, "look-up", partial(kind.look_up, wanted, deadline))
        for kind, wanted in self._asked():
            self._contained(kind, "install", partial(self._install, kind, wanted))

    def warm_up_all(self) -> None:
        """Run each of the engine's callables once, inside the tuning contexts of all kinds it stands for."""
        for call in distinct(self.context.warm_ups.values()):
            kinds = [kind for kind, _ in self._asked() if self._stands_for(call, kind)]
            started = time.monotonic()
            nested = call
            for kind in reversed(kinds):
                nested = partial(kind.warm_up, nested)
            try:
                nested()
            finally:
                for kind in kinds:
                    kind.report.warm_up_seconds = time.monotonic() - started
        passed = ", ".join(sorted(self.context.warm_ups)) or "none"
        for kind, _ in self._asked():
            if kind.cache.name not in self.context.warm_ups:
                kind.emit("warm-up", "not applicable", f"the engine passes no warm-up for it (passed: {passed})")

    def publish_all(self) -> None:
        """Collect every kind, publish what is new under one generation, and say what was used and what it saved."""
        generation = new_generation()
        for kind, wanted in self._asked():
            self._contained(kind, "publish", partial(kind.publish, wanted, generation, self.policy))
        self.report.failed = self._failed()
        for failed in self.report.failed:
            log.error("%s", failed)
        for kind, _ in self._asked():
            self._contained(kind, "collect", kind.conclude)
        explained = time.monotonic() + EXPLAIN_SECONDS
        for kind, wanted in self._asked():
            self._contained(kind, "collect", partial(kind.explain, wanted, explained))
        for thread in self.threads:
            thread.join(timeout=max((store.timeout for store in self.chain.stores), default=0.0))

    def _asked(self) -> list[tuple[Kind, Wanted]]:
        return [(kind, kind.wanted) for kind in self.kinds if kind.wanted is not None]

    def _install(self, kind: Kind, wanted: Wanted) -> None:
        if thread := kind.install(wanted):
            self.threads.append(thread)

    def _stands_for(self, call: WarmUp, kind: Kind) -> bool:
        return any(name == kind.cache.name and same(own, call) for name, own in self.context.warm_ups.items())

    def _failed(self) -> list[str]:
        """Return the failed publishes that `on_write_error` counts, in words."""
        writable = [store.name for store in self.chain.stores if store.mode == "read-write"]
        counted = {"ignore": [], "first": writable[:1], "all": writable}[self.policy.on_write_error]
        published = [event for event in self.chain.events.seen if event.name == "publish" and event.store in counted]
        failures = [event for event in published if event.outcome in ("error", "timeout", "refused")]
        return [f"publishing {event.kind} to store {event.store!r} failed: {event.reason}" for event in failures]

    def _contained(self, kind: Kind, step: Step, action: Callable[[], object]) -> None:
        started = time.monotonic()
        with _timed(kind if kind.wanted else None):
            try:
                action()
            except Exception as error:  # noqa: BLE001  # promise P1: whatever went wrong, the engine starts
                kind.fail(step, error, started)


@contextmanager
def _timed(kind: Kind | None) -> Iterator[None]:
    """Add the time inside to a kind's own seconds; building the request is the library's time, not ours."""
    started = time.monotonic()
    try:
        yield
    finally:
        if kind is not None:
            kind.report.seconds += time.monotonic() - started
