"""Publishing to every store that may be written, and back-filling nearer ones; a put replaces only what was judged."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmcore import artifact
from warmcore.blob import Blob, Payload
from warmcore.chain import Chain, Standing, Wanted, barred, untrusted
from warmcore.contracts import Expect, Fence
from warmcore.errors import DeadlineExceeded, Reject, reason_of
from warmcore.explain import read_head
from warmcore.plugins import Store
from warmcore.report import Outcome
from warmcore.streams import BlobSource
from warmcore.threads import start_daemon

ROUNDS = 3


@dataclass(frozen=True)
class Offer:
    """What one warm-up made. `changed`: not as it was adopted, so it wins over a store's equal file names."""

    payload: Payload
    generation: str
    cost: float | None
    keep: float
    changed: bool = False
    fence: Fence | None = None


@dataclass(frozen=True)
class _Result:
    outcome: Outcome
    reason: str = ""
    bytes: int = 0
    payload: Payload | None = None


def publish(
    chain: Chain, wanted: Wanted, offer: Offer, deadline: float, stores: Sequence[Store] | None = None
) -> Payload | None:
    """Publish to each writable store, nearest first, one event each; returns what was stored first, with its origin."""
    stored = None
    for store in chain.stores if stores is None else stores:
        started = time.monotonic()
        result = _publish_to(chain, store, wanted, offer, deadline)
        chain.emit("publish", store, wanted, result.outcome, result.reason, started, result.bytes)
        stored = stored or result.payload
    return stored


def back_fill(chain: Chain, wanted: Wanted, found: Store, sealed: Blob) -> threading.Thread | None:
    """Copy a verified artifact to the nearer stores that lacked it, on a daemon thread, over rejected bytes only."""
    nearer = chain.stores[: chain.stores.index(found)]
    lacking = [(store, chain.seen[store.name, wanted.key]) for store in nearer if _may_write(store, wanted) is None]
    # Without the version of what was rejected there is nothing to expect: the next publish judges it anew.
    lacking = [(store, standing) for store, standing in lacking if standing.expect not in (None, Expect.ANY)]

    def copy() -> None:
        for store, standing in lacking:
            started = time.monotonic()
            result = _attempt(chain, store, wanted, (sealed,), standing.expect, None, started + store.timeout)
            chain.emit("back-fill", store, wanted, result.outcome, result.reason, started, result.bytes)

    return start_daemon(copy) if lacking else None


def lacking(chain: Chain, wanted: Wanted, deadline: float) -> list[Store]:
    """Return the writable stores that this start did not ask and that have no head under the key."""
    unasked = [store for store in chain.stores if (store.name, wanted.key) not in chain.seen]
    writable = [store for store in unasked if _may_write(store, wanted) is None]
    key = chain.stored_key(wanted.key)
    return [store for store in writable if read_head(chain, store, key, deadline) is None]


def _publish_to(chain: Chain, store: Store, wanted: Wanted, offer: Offer, deadline: float) -> _Result:
    if reason := _may_write(store, wanted):
        return _Result("not applicable", reason)
    if store.name in chain.silent:
        return _Result("timeout", "it did not answer while adopting, and is not asked again in this start")
    result = _Result("refused")
    for _ in range(ROUNDS):
        standing = chain.read(store, wanted, min(deadline, time.monotonic() + store.timeout), fresh=True)
        if standing.expect is None:
            return _left_alone(standing)
        result = _publish_over(chain, store, wanted, offer, standing, deadline)
        if result.outcome != "refused" or offer.fence is not None:
            return result
    return result


def _publish_over(
    chain: Chain, store: Store, wanted: Wanted, offer: Offer, standing: Standing, deadline: float
) -> _Result:
    if standing.payload is not None and (reason := untrusted(store, wanted)):
        return _Result("not applicable", f"what stands there is not merged: {reason}")
    try:
        merged = _merged(wanted, offer, standing)
        if standing.payload is not None and _adds_nothing(standing.payload, merged, offer.changed):
            return _Result("unchanged", "what stands there holds it all")
        header, blobs = artifact.seal(
            merged,
            wanted.request,
            wanted.key,
            namespace=chain.namespace,
            keep=offer.keep,
            generation=offer.generation,
            cost=_cost(offer, standing),
        )
    except Exception as error:  # noqa: BLE001  # a cache that breaks over one store's artifact stops no other
        return _Result("error", reason_of(error))
    result = _attempt(chain, store, wanted, blobs, standing.expect, offer.fence, deadline)
    return replace(result, payload=Payload(merged, artifact.origin(header)) if result.outcome == "stored" else None)


def _merged(wanted: Wanted, offer: Offer, standing: Standing) -> Payload:
    """Return the union to publish, judged as if it had been read. What changed wins; else what stands there does."""
    merged = offer.payload
    if standing.payload is not None:
        stored, ours = (standing.payload, merged) if offer.changed else (merged, standing.payload)
        merged = wanted.cache.merge(wanted.request, stored, ours)
        if lost := (standing.payload.keys() | offer.payload.keys()) - merged.keys():
            raise Reject(f"the merge lost {len(lost)} files, {min(lost)!r:.80} among them: publishing never shrinks")
    merged = wanted.cache.validate(wanted.request, merged)
    if merged.size > wanted.cache.max_bytes:
        raise Reject(f"{merged.size} bytes, the cap for this kind is {wanted.cache.max_bytes}: no reader would take it")
    return merged


def _cost(offer: Offer, standing: Standing) -> float | None:
    stored = standing.header.cost_seconds if standing.header else None
    return max((cost for cost in (offer.cost, stored) if cost is not None), default=None)


def _attempt(
    chain: Chain,
    store: Store,
    wanted: Wanted,
    blobs: tuple[Blob, ...],
    expect: Expect | str | None,
    fence: Fence | None,
    deadline: float,
) -> _Result:
    source, expected = BlobSource(*blobs), Expect.ANY if expect is None else expect
    try:
        stored = chain.call(store, deadline, lambda: store.put(chain.stored_key(wanted.key), source, expected, fence))
    except DeadlineExceeded as error:
        return _Result("timeout", reason_of(error))
    except Exception as error:  # noqa: BLE001  # whatever a store does, the next one is published to
        return _Result("error", reason_of(error))
    if chain.missed:
        chain.missed.pop((store.name, wanted.key), None)
    return _Result("stored", bytes=source.size) if stored else _Result("refused", "another writer was faster")


def _adds_nothing(stored: Payload, merged: Payload, changed: bool) -> bool:
    # The first publish of equal names stands: two replicas that measured one thing do not overwrite in turns.
    return stored.digest == merged.digest or (not changed and merged.keys() <= stored.keys())


def _left_alone(standing: Standing) -> _Result:
    if standing.outcome in ("timeout", "error"):
        return _Result(standing.outcome, standing.reason)
    return _Result("refused", f"what stands there is left alone: {standing.reason}")


def _may_write(store: Store, wanted: Wanted) -> str | None:
    return f"its mode is {store.mode}" if store.mode != "read-write" else barred(store, wanted)
