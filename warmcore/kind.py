"""One kind on its way through a start: asked for, looked up, installed, warmed up, published, explained."""

import logging
import threading
import time
from dataclasses import dataclass, replace

from warmcore.blob import Payload
from warmcore.chain import Chain, Standing, Wanted
from warmcore.config import Policy
from warmcore.contracts import Context, NotApplicable, WarmUp
from warmcore.errors import CacheError, IdentityError, Reject, reason_of
from warmcore.explain import nearest
from warmcore.identity import parse_key
from warmcore.plugins import Cache, Store
from warmcore.publish import Offer, back_fill, lacking, publish
from warmcore.report import Event, KindReport, Outcome, Step
from warmcore.threads import start_daemon
from warmcore.warmups import Once

ENGINE_FOLDER = "engine folder"
LOCAL = "local"

_SEVERITY: tuple[Outcome, ...] = ("error", "timeout", "reject", "miss", "not applicable")

log = logging.getLogger("warmcore")


@dataclass
class Kind:
    """What a kind asked for (`wanted`), what a store gave (`found`), and what it starts from (`adopted`)."""

    cache: Cache
    chain: Chain
    context: Context
    report: KindReport
    wanted: Wanted | None = None
    found: tuple[Store, Standing] | None = None
    adopted: Payload | None = None

    def ask(self) -> None:
        """Build the request, once; a kind without one has no part in this start, and says why."""
        try:
            self.context.check()
            request = self.cache.request(self.context)
        except IdentityError as error:
            log.warning("%s is not applicable: %s", self.cache.name, error)
            request = NotApplicable(reason_of(error))
        if isinstance(request, NotApplicable):
            self.report.reason = request.reason
            self.emit("look-up", "not applicable", request.reason)
            return
        key = self.cache.resolve(request)
        if parse_key(key)[:2] != (self.cache.name, request.config_hash):
            raise CacheError(f"resolve returned {key!r:.200}, which is not of kind and config hash of the request")
        if request.identity is not None and request.identity.config_hash != request.config_hash:
            raise CacheError("request_params returned a config hash that is not its identity's")
        self.report.identity = dict(request.identity.factors) if request.identity else {}
        self.wanted, self.report.key = Wanted(self.cache, request, key), key

    def look_up(self, wanted: Wanted, deadline: float) -> None:
        """Find what to start from: the engine's folder under a note, else the nearest fit store, else that folder."""
        local = self._from_engine_folder(wanted)
        if local is not None and local.origin is not None:
            self._adopt(local, ENGINE_FOLDER, local.origin.generation)
            return
        self.found = self.chain.look_up(wanted, deadline)
        if self.found is not None:
            store, standing = self.found
            self._adopt(standing.payload, store.name, standing.header.generation if standing.header else None)
        elif local is not None:
            self._adopt(local, ENGINE_FOLDER, LOCAL)
        else:
            self.report.outcome, self.report.reason = self._why_not(wanted)

    def install(self, wanted: Wanted) -> threading.Thread | None:
        """Install what a store gave, then back-fill nearer stores; returns the thread that does."""
        if self.found is None:
            return None
        started, (store, standing) = time.monotonic(), self.found
        if standing.payload is None or standing.sealed is None:
            return None
        try:
            self.cache.install(self.context, standing.payload)
        except Exception:
            self.found = self.adopted = self.report.generation = None
            self.report.store, self.report.bytes = "", 0
            raise
        self.emit("install", "done", "", started, standing.payload.size)
        return back_fill(self.chain, wanted, store, standing.sealed)

    def warm_up(self, call: WarmUp) -> None:
        """Run a callable once, inside the tuning context; raises what it raises, contains what the cache does."""
        once, started = Once(call), time.monotonic()
        try:
            self.cache.warm_up(replace(self.context, warm_ups={**self.context.warm_ups, self.cache.name: once}))
            if once.error is None:
                self.emit("warm-up", "done", "", started)
        except BaseException as error:  # the cache's own failure; the engine's is raised below
            if once.error is None:
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    raise
                self.fail("warm-up", error, started)
        if not once.ran:
            once()
        if once.error is not None:
            self.emit("warm-up", "error", f"the engine's own: {reason_of(once.error)}", started)
            raise once.error

    def publish(self, wanted: Wanted, generation: str, policy: Policy) -> None:
        """Collect, and publish what was not adopted; install what was stored, which leaves the note."""
        started = time.monotonic()
        ours = self.cache.collect(self.context)
        if ours is None:
            self.emit("publish", "not applicable", "empty: the warm-up left nothing to publish", started)
            return
        deadline = time.monotonic() + policy.budget
        adopted = self.report.generation not in (None, LOCAL)
        if self.adopted is not None and adopted and _holds(self.adopted, ours):
            self.emit("publish", "unchanged", "nothing new since it was adopted", started)
            # A store that was added, or lost its entries, is filled by those that start warm, too.
            offer = Offer(self.adopted, self.report.generation or generation, self._cost, policy.keep)
            # Not waited for: what hangs there must not hold up a warm start.
            start_daemon(lambda: publish(self.chain, wanted, offer, deadline, lacking(self.chain, wanted, deadline)))
            return
        spent = self.report.warm_up_seconds
        cost = None if spent is None else spent + (self._cost or 0.0)
        stored = publish(self.chain, wanted, Offer(ours, generation, cost, policy.keep, changed=adopted), deadline)
        if stored is not None:
            self.cache.install(self.context, stored)

    def conclude(self) -> None:
        """Say what was saved, and what of the installed was used."""
        if self._cost is not None:
            self.report.seconds_saved = self._cost - self.report.seconds - (self.report.warm_up_seconds or 0.0)
        self.report.usage = self.cache.usage(self.context)

    def explain(self, wanted: Wanted, deadline: float) -> None:
        """Name the factors in which the nearest stored entry differs, after a miss."""
        if self.report.outcome != "miss" or wanted.request.identity is None:
            return
        missed = [store for store in self.chain.stores if self.chain.seen[store.name, wanted.key].outcome == "miss"]
        for found in nearest(self.chain, missed, self.cache.name, wanted.request.identity, deadline):
            self.report.nearest, self.report.differs = found.key, list(found.differences)

    def fail(self, step: Step, error: BaseException, started: float) -> None:
        """Record a failure that is contained here."""
        if self.adopted is None and step in ("look-up", "install"):
            self.report.outcome, self.report.reason = "error", reason_of(error)
        self.emit(step, "error", reason_of(error), started)

    def emit(
        self, step: Step, outcome: Outcome, reason: str, started: float | None = None, size: int = 0, store: str = ""
    ) -> None:
        seconds = 0.0 if started is None else time.monotonic() - started
        event = Event(time.time(), step, self.cache.name, self.report.key, store, outcome, reason, seconds, size)
        self.chain.events.emit(event)

    @property
    def _cost(self) -> float | None:
        header = self.found[1].header if self.found else None
        return header.cost_seconds if header else None

    def _from_engine_folder(self, wanted: Wanted) -> Payload | None:
        started = time.monotonic()
        try:
            payload = self.cache.collect(self.context)
            payload = payload and self.cache.validate(wanted.request, payload)
        except Exception as error:  # noqa: BLE001  # whatever stands there, the stores are asked next
            outcome: Outcome = "reject" if isinstance(error, Reject) else "error"
            self.emit("look-up", outcome, reason_of(error), started, store=ENGINE_FOLDER)
            return None
        size = payload.size if payload else 0
        self.emit("look-up", "hit" if payload else "miss", "", started, size, ENGINE_FOLDER)
        of_this_key = payload and payload.origin and payload.origin.of(self.chain.namespace, wanted.key)
        return payload if of_this_key or not payload else Payload(payload)

    def _adopt(self, payload: Payload | None, store: str, generation: str | None) -> None:
        self.adopted = payload
        self.report.outcome, self.report.store, self.report.generation = "hit", store, generation
        self.report.bytes = payload.size if payload else 0

    def _why_not(self, wanted: Wanted) -> tuple[Outcome, str]:
        answers = [standing for (_, key), standing in self.chain.seen.items() if key == wanted.key]
        if not answers:
            return "not applicable", "no store of the chain can be used"
        worst = min(answers, key=lambda standing: _SEVERITY.index(standing.outcome))
        return worst.outcome, worst.reason


def _holds(adopted: Payload, ours: Payload) -> bool:
    """Tell whether all of ours was adopted, byte for byte."""
    return all(name in adopted and adopted[name].sha256 == blob.sha256 for name, blob in ours.items())
