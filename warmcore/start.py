"""One start of one engine process, in three phases over all kinds: adopt all, warm up all, publish all."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from warmcore.artifact import new_generation
from warmcore.blob import Payload
from warmcore.chain import Chain, Wanted
from warmcore.config import Policy
from warmcore.contracts import Context, NotApplicable, WarmUp
from warmcore.discovery import one_line
from warmcore.errors import IdentityError, Reject, WarmcoreError
from warmcore.explain import nearest
from warmcore.plugins import Cache
from warmcore.publish import Offer, back_fill, publish
from warmcore.report import Event, KindReport, Outcome, Report, Step

ENGINE_FOLDER = "engine folder"
LOCAL = "local"
EXPLAIN_SECONDS = 1.0

_SEVERITY: tuple[Outcome, ...] = ("error", "timeout", "reject", "miss", "not applicable")


@dataclass
class _Kind:
    """One kind on its way through a start."""

    cache: Cache
    report: KindReport
    wanted: Wanted | None = None
    adopted: Payload | None = None
    staged: Payload | None = None
    cost: float | None = None


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
        """Run the three phases; the report is complete also when the engine's warm-up raises."""
        self.kinds = [_Kind(cache, KindReport(cache.name)) for cache in self.caches]
        self.report.kinds = [kind.report for kind in self.kinds]
        self.report.events = self.chain.events.seen
        self.adopt_all()
        self.warm_up_all()
        self.publish_all()
        return self.report

    def adopt_all(self) -> None:
        """Look up, verify and stage every kind within the budget, then install what was found."""
        deadline = time.monotonic() + self.policy.budget
        for kind in self.kinds:
            with _Timed(kind):
                self._contained(kind, "look-up", partial(self._look_up, kind, deadline))
        for kind in self.kinds:
            with _Timed(kind):
                self._contained(kind, "install", partial(self._install, kind))

    def warm_up_all(self) -> None:
        """Run each of the engine's callables once, inside the tuning contexts of all kinds it stands for."""
        for call in distinct(self.context.warm_ups.values()):
            kinds = [kind for kind in self.kinds if kind.wanted and self.context.warm_ups.get(kind.cache.name) is call]
            started = time.monotonic()
            try:
                self._warm_up(call, kinds)
            finally:
                for kind in kinds:
                    kind.report.warm_up_seconds = time.monotonic() - started

    def publish_all(self) -> None:
        """Collect every kind, publish what is new under one generation, and say what was used and what it saved."""
        generation = new_generation()
        for kind in self.kinds:
            if kind.wanted is None:
                continue
            with _Timed(kind):
                self._contained(kind, "publish", partial(self._publish, kind, kind.wanted, generation))
                self._contained(kind, "collect", partial(self._conclude, kind, kind.wanted))
        for thread in self.threads:
            thread.join(timeout=max((store.timeout for store in self.chain.stores), default=0.0))

    def _look_up(self, kind: _Kind, deadline: float) -> None:
        wanted = self._wanted(kind)
        if isinstance(wanted, NotApplicable):
            kind.report.reason = wanted.reason
            return
        kind.wanted, kind.report.key = wanted, wanted.key
        local = self._from_engine_folder(kind, wanted)
        if local is not None and local.origin is not None:
            self._adopt(kind, local, ENGINE_FOLDER, local.origin.generation)
            return
        if (answer := self.chain.look_up(wanted, deadline)) is not None and answer[1].payload is not None:
            store, standing = answer
            self._adopt(kind, standing.payload, store.name, standing.header.generation if standing.header else None)
            kind.staged, kind.cost = standing.payload, standing.header.cost_seconds if standing.header else None
            if standing.sealed and (thread := back_fill(self.chain, wanted, store, standing.sealed)):
                self.threads.append(thread)
        elif local is not None:
            self._adopt(kind, local, ENGINE_FOLDER, LOCAL)
        else:
            kind.report.outcome, kind.report.reason = self._why_not(wanted)

    def _wanted(self, kind: _Kind) -> Wanted | NotApplicable:
        try:
            self.context.check()
            request = kind.cache.request(self.context)
            if isinstance(request, NotApplicable):
                return request
            kind.report.identity = dict(request.identity.factors) if request.identity else {}
            return Wanted(kind.cache, request, kind.cache.resolve(request))
        except IdentityError as error:
            return NotApplicable(str(error))

    def _from_engine_folder(self, kind: _Kind, wanted: Wanted) -> Payload | None:
        started = time.monotonic()
        try:
            payload = kind.cache.collect(self.context)
            payload = payload and kind.cache.validate(wanted.request, payload)
        except (WarmcoreError, OSError) as error:
            self._emit(kind, "look-up", "reject" if isinstance(error, Reject) else "error", str(error), started)
            return None
        if (
            payload
            and payload.origin
            and (payload.origin.namespace, payload.origin.key) != (self.chain.namespace, wanted.key)
        ):
            payload = Payload(payload)
        self._emit(kind, "look-up", "hit" if payload else "miss", "", started, payload.size if payload else 0)
        return payload or None

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

    def _install(self, kind: _Kind) -> None:
        if kind.staged is None:
            return
        started = time.monotonic()
        try:
            kind.cache.install(self.context, kind.staged)
        except Exception:
            kind.adopted, kind.report.store = None, ""
            raise
        self._emit(kind, "install", "done", "", started, kind.staged.size)

    def _warm_up(self, call: WarmUp, kinds: Sequence[_Kind]) -> None:
        engine = _Engine(call)
        try:
            self._nested(engine, kinds)
        except Exception as error:  # noqa: BLE001  # a plugin's own failure; the engine's is raised below
            if engine.error is None:
                for kind in kinds:
                    self._fail(kind, "warm-up", error)
        if not engine.ran:
            engine()
        if engine.error is not None:
            raise engine.error

    def _nested(self, call: WarmUp, kinds: Sequence[_Kind]) -> None:
        for kind in reversed(kinds):
            context = replace(self.context, warm_ups={**self.context.warm_ups, kind.cache.name: call})
            call = partial(self._timed_warm_up, kind, context)
        call()

    def _timed_warm_up(self, kind: _Kind, context: Context) -> None:
        started = time.monotonic()
        kind.cache.warm_up(context)
        self._emit(kind, "warm-up", "done", "", started)

    def _publish(self, kind: _Kind, wanted: Wanted, generation: str) -> None:
        started = time.monotonic()
        ours = kind.cache.collect(self.context)
        if ours is None:
            self._emit(kind, "publish", "not applicable", "empty: the warm-up left nothing to publish", started)
            return
        if kind.adopted is not None and kind.report.generation != LOCAL and _holds(kind.adopted, ours):
            self._emit(kind, "publish", "unchanged", "nothing new since it was adopted", started)
            return
        cost = None if kind.report.warm_up_seconds is None else kind.report.warm_up_seconds + (kind.cost or 0.0)
        changed = kind.adopted is not None and kind.report.generation != LOCAL
        offer = Offer(ours, generation, cost, self.policy.keep, changed)
        stored = publish(self.chain, wanted, offer, time.monotonic() + self.policy.budget)
        if stored is not None:
            kind.cache.install(self.context, stored)

    def _conclude(self, kind: _Kind, wanted: Wanted) -> None:
        kind.report.usage = kind.cache.usage(self.context)
        if kind.cost is not None:
            kind.report.seconds_saved = kind.cost - kind.report.seconds - (kind.report.warm_up_seconds or 0.0)
        if kind.report.outcome == "miss" and wanted.request.identity is not None:
            answering = [
                store for store in self.chain.stores if self.chain.seen[store.name, wanted.key].outcome == "miss"
            ]
            deadline = time.monotonic() + EXPLAIN_SECONDS
            for found in nearest(self.chain, answering, kind.cache.name, wanted.request.identity, deadline):
                kind.report.nearest, kind.report.differs = found.key, list(found.differences)

    def _contained(self, kind: _Kind, step: Step, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  # promise P1: whatever went wrong, the engine starts
            self._fail(kind, step, error)

    def _fail(self, kind: _Kind, step: Step, error: Exception) -> None:
        reason = str(error) if isinstance(error, WarmcoreError) else f"{type(error).__name__}: {one_line(error)}"
        if kind.adopted is None and step in ("look-up", "install"):
            kind.report.outcome, kind.report.reason = "error", reason
        self._emit(kind, step, "error", reason, None)

    def _emit(
        self, kind: _Kind, step: Step, outcome: Outcome, reason: str, started: float | None, size: int = 0
    ) -> None:
        seconds = 0.0 if started is None else time.monotonic() - started
        store = ENGINE_FOLDER if step == "look-up" else ""
        self.chain.events.emit(
            Event(time.time(), step, kind.cache.name, kind.report.key, store, outcome, reason, seconds, size)
        )


class _Engine:
    """The engine's own warm-up: remembers whether it ran and what it raised, whatever the plugins make of that."""

    def __init__(self, call: WarmUp) -> None:
        self._call = call
        self.ran = False
        self.error: Exception | None = None

    def __call__(self) -> object:
        self.ran = True
        try:
            return self._call()
        except Exception as error:
            self.error = error
            raise


class _Timed:
    """Adds the time inside it to a kind's own seconds."""

    def __init__(self, kind: _Kind) -> None:
        self._report = kind.report

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._report.seconds += time.monotonic() - self._started


def distinct(calls: Iterable[WarmUp]) -> list[WarmUp]:
    """Return each callable once, in order; by identity, since one need not be hashable."""
    return list({id(call): call for call in calls}.values())


def _holds(adopted: Payload, ours: Payload) -> bool:
    """Tell whether all of ours was adopted, byte for byte."""
    return all(name in adopted and adopted[name].sha256 == blob.sha256 for name, blob in ours.items())
