"""One stored object, read whole and unsealed, judged against its own key."""

import time
from dataclasses import dataclass
from typing import Literal

from warmcore import artifact
from warmcore.artifact import MAX_HEADER, MAX_LINE, Header
from warmcore.blob import Blob, Payload
from warmcore.chain import Chain
from warmcore.cli.common import when
from warmcore.errors import DeadlineExceeded, FutureVersion, IdentityError, Reject, WarmcoreError, reason_of
from warmcore.identity import Key, Request, parse_key
from warmcore.plugins import Store
from warmcore.streams import SpillSink
from warmcore.threads import run_within

State = Literal["sound", "expired", "newer", "absent", "damaged", "foreign", "timeout", "error"]

WRONG = ("damaged", "foreign", "timeout", "error")
"""States that are a problem; `newer` is a sealed form that only a later warmcore reads."""

# The largest bundle a kind may have; none of its caches need be configured here.
MAX_BODY = 512 << 20


@dataclass(frozen=True)
class Examined:
    """What an object turned out to be. A damaged one has a header as far as that can be read."""

    state: State
    reason: str = ""
    size: int = 0
    header: Header | None = None
    payload: Payload | None = None


def examine(chain: Chain, store: Store, key: str, seconds: float) -> Examined:
    """Read what stands at a key within `seconds` and check every digest; the outcome is in the answer, never raised."""
    try:
        parsed = parse_key(key)
        sealed = _read(chain, store, key, seconds)
    except IdentityError:
        return Examined("foreign", "its key is no v1/kind/config-hash/name, or damaged")
    except DeadlineExceeded as error:
        return Examined("timeout", reason_of(error))
    except Reject as error:
        return Examined("damaged", reason_of(error))
    except WarmcoreError as error:
        return Examined("error", reason_of(error))
    return _judge(chain, sealed, parsed) if sealed else Examined("absent")


def _read(chain: Chain, store: Store, key: str, seconds: float) -> Blob | None:
    sink = SpillSink(MAX_LINE + MAX_HEADER + MAX_BODY, time.monotonic() + seconds)
    try:
        version = run_within(seconds, lambda: store.get(chain.stored_key(key), sink))
    except WarmcoreError as error:
        raise sink.fault or error from None
    if sink.fault is not None:
        raise sink.fault  # the store made nothing of it
    return None if version is None else sink.blob()


def _judge(chain: Chain, sealed: Blob, key: Key) -> Examined:
    header = None
    try:
        start = sealed.part(0, min(sealed.size, MAX_LINE + MAX_HEADER)).read(MAX_LINE + MAX_HEADER)
        header = artifact.parse_head(start).header
        request = Request(key.kind, key.config_hash)
        # Expired bytes are checked like any: their state is told below.
        _, payload = artifact.unseal(sealed, request, str(key), namespace=chain.namespace, now=float("-inf"))
    except FutureVersion as error:
        return Examined("newer", reason_of(error), sealed.size)
    except Reject as error:
        return Examined("damaged", reason_of(error), sealed.size, header)
    except (WarmcoreError, OSError) as error:
        return Examined("error", reason_of(error), sealed.size, header)
    if header.expires <= time.time():
        return Examined("expired", f"since {when(header.expires)}", sealed.size, header, payload)
    return Examined("sound", "", sealed.size, header, payload)
