"""The record of a lease: a random token, this boot's id and a monotonic expiry, changed under a short lock.

Only that moment rests on the lock: a holder that was paused finds its record run out or another's, and is refused.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from warmcache_disk import frame
from warmcache_disk.found import NotAnObject
from warmcache_disk.place import LEASES, Place, open_place
from warmcache_disk.root import Root
from warmcache_disk.writer import boot_id
from warmcore import Fence

MAX_RECORD = 4096
# A float may gain its last digit in a subtraction; a clock of another time namespace is off by far more.
_SLACK = 1.0


def clock() -> float:
    """Return seconds since boot, time asleep included: a host that slept past the expiry must find its lease gone."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands at a leased key.

    `expires` counts by `clock`, `since` in Unix seconds; `note` is the holder's last known warm-up in seconds.
    """

    token: str
    boot: str
    expires: float
    ttl: float
    since: float
    note: float | None

    @classmethod
    def new(cls, ttl: float, note: float | None) -> "Record":
        return cls(secrets.token_hex(16), boot_id(), clock() + ttl, ttl, time.time(), note)

    def living(self) -> bool:
        return self.boot == boot_id() and 0 < self.expires - clock() <= self.ttl + _SLACK


def read_record(place: Place) -> Record | None:
    """Return the living record at a place; None if there is none, or it can't be read: then nobody holds the lease."""
    try:
        with place.reading() as found:
            if found is None or not found.whole or found.size > MAX_RECORD:
                return None
            record = msgspec.json.decode(b"".join(found.chunks()), type=Record)
    except (NotAnObject, msgspec.MsgspecError):
        return None
    return record if record.living() else None


def write_record(place: Place, key: str, record: Record) -> None:
    """Put a record in its place; the caller holds the lock. Unsynced: a power cut ends the boot, and so the lease."""
    body = msgspec.json.encode(record)
    line = frame.encode(secrets.token_hex(16), len(body), key)
    with place.draft([line, body], lasting=False) as draft:
        place.publish(draft)


@contextmanager
def standing(root: Root, fence: Fence | None) -> Iterator[bool]:
    """Hold still, while a put decides, whether the fence's lease stands; True for no fence and for another store's."""
    if fence is None or fence.get("store") != root.identity():
        yield True
        return
    with open_place(root, LEASES, fence["lock"]) as place:
        if place is None:
            yield False
            return
        with place.locked():
            yield is_held(place, fence["token"])


def is_held(place: Place, token: str) -> bool:
    record = read_record(place)
    return record is not None and record.token == token
