"""Publishing to every store that may be written, and back-filling nearer ones; a put replaces only what was judged."""

import threading
import time
from dataclasses import dataclass

from warmcore import artifact
from warmcore.blob import Blob, BlobSource, Payload
from warmcore.chain import Chain, Standing, Wanted, barred
from warmcore.contracts import Expect, Fence
from warmcore.errors import DeadlineExceeded, WarmcoreError
from warmcore.plugins import Store
from warmcore.report import Outcome
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


def publish(chain: Chain, wanted: Wanted, offer: Offer, deadline: float) -> Payload | None:
    """Publish to each writable store, nearest first, one event each; returns what was stored first, with its origin."""
    stored = None
    for store in chain.stores:
        started = time.monotonic()
        result = _publish_to(chain, store, wanted, offer, deadline)
        chain.emit("publish", store, wanted, result.outcome, result.reason, started, result.bytes)
        stored = stored or result.payload
    return stored


def back_fill(chain: Chain, wanted: Wanted, found: Store, sealed: Blob) -> threading.Thread | None:
    """Copy a verified artifact to the nearer stores that lacked it, on a daemon thread, over rejected bytes only."""
    nearer = chain.stores[: chain.stores.index(found)]
    lacking = [(store, chain.seen[store.name, wanted.key]) for store in nearer if _may_write(store, wanted) is None]
    lacking = [
        (store, standing)
        for store, standing in lacking
        if standing.outcome in ("miss", "reject") and standing.expect is not None
    ]

    def copy() -> None:
        for store, standing in lacking:
            started = time.monotonic()
            result = _attempt(chain, store, wanted, (sealed,), standing.expect, None, started + store.timeout)
            chain.emit("back-fill", store, wanted, result.outcome, result.reason, started, result.bytes)

    return start_daemon(copy) if lacking else None


def _publish_to(chain: Chain, store: Store, wanted: Wanted, offer: Offer, deadline: float) -> _Result:
    if reason := _may_write(store, wanted):
        return _Result("not applicable", reason)
    before = chain.seen.get((store.name, wanted.key))
    if before is not None and before.outcome == "timeout":
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
    try:
        merged = (
            offer.payload
            if standing.payload is None
            else wanted.cache.merge(wanted.request, standing.payload, offer.payload)
        )
        merged = wanted.cache.validate(wanted.request, merged)
        if standing.payload is not None and _adds_nothing(standing.payload, merged, offer.changed):
            return _Result("unchanged", "what stands there holds it all", payload=None)
        header, blobs = artifact.seal(
            merged,
            wanted.request,
            wanted.key,
            namespace=chain.namespace,
            keep=offer.keep,
            generation=offer.generation,
            cost=offer.cost,
        )
    except (WarmcoreError, OSError) as error:
        return _Result("error", str(error))
    result = _attempt(chain, store, wanted, blobs, standing.expect, offer.fence, deadline)
    sealed = Payload(merged, artifact.origin(header))
    return _Result(result.outcome, result.reason, result.bytes, sealed if result.outcome == "stored" else None)


def _attempt(
    chain: Chain,
    store: Store,
    wanted: Wanted,
    blobs: tuple[Blob, ...],
    expect: Expect | str | None,
    fence: Fence | None,
    deadline: float,
) -> _Result:
    source = BlobSource(*blobs)
    try:
        stored = chain.call(
            store, deadline, lambda: store.put(chain.stored_key(wanted.key), source, expect or Expect.ANY, fence)
        )
    except DeadlineExceeded as error:
        return _Result("timeout", str(error))
    except (WarmcoreError, OSError) as error:
        return _Result("error", str(error))
    return (
        _Result("stored", bytes=source.size)
        if stored
        else _Result("refused", "another writer was faster, or the lease was lost")
    )


def _adds_nothing(stored: Payload, merged: Payload, changed: bool) -> bool:
    # The first publish of equal names stands: two replicas that measured one thing do not overwrite in turns.
    return stored.digest == merged.digest or (not changed and merged.keys() <= stored.keys())


def _left_alone(standing: Standing) -> _Result:
    if standing.outcome in ("timeout", "error"):
        return _Result(standing.outcome, standing.reason)
    return _Result("refused", f"what stands there is left alone: {standing.reason}")


def _may_write(store: Store, wanted: Wanted) -> str | None:
    return f"its mode is {store.mode}" if store.mode != "read-write" else barred(store, wanted)
