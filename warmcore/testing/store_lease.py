"""Rules for stores that can lease: one replica warms, and a put that comes too late is refused."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from warmcore.contracts import Expect, Fence, Held, Lease
from warmcore.plugins import Store
from warmcore.testing.access import get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail
from warmcore.testing.store_given import StoreGiven, needs

ENTRY = stored_key()
LOCK = ENTRY.rpartition("/")[0]
OTHER_LOCK = LOCK[:-1] + "1"
TTL = 30.0


class LeaseRules(StoreGiven):
    """Granted once, for what was judged; its fence opens no door once it is gone."""

    def test_a_lease_is_granted_once(self, handle: Store) -> None:
        with _granted(handle):
            check(isinstance(_ask(handle), Held), "a second lease was granted while the first one stands")

    def test_a_lease_of_another_key_is_free(self, handle: Store) -> None:
        with _granted(handle), _granted(handle, OTHER_LOCK):
            pass

    def test_a_released_lease_is_granted_again(self, handle: Store) -> None:
        for _ in range(3):
            with _granted(handle):
                pass

    def test_a_lease_is_alive_until_it_is_released(self, handle: Store) -> None:
        with _granted(handle) as lease:
            check(lease.alive(), "a lease that was just granted is not alive")
            lease.release()
            check(not lease.alive(), "a lease that was released is alive")

    def test_a_lease_may_be_released_twice(self, handle: Store) -> None:
        with _granted(handle) as lease:
            lease.release()
        with _granted(handle) as taken:
            lease.release()
            check(taken.alive(), "the second release of a lease took the next holder's")

    def test_who_waits_learns_what_the_holder_knew(self, handle: Store) -> None:
        with _granted(handle, note=221.5):
            held = _ask(handle)
            equal(held.last_seconds if isinstance(held, Held) else None, 221.5, "the holder's last known warm-up")

    def test_a_lease_that_expects_absent_is_refused_where_an_entry_stands(self, handle: Store) -> None:
        needs(handle, "store_lease")
        put_bytes(handle, ENTRY, b"one")
        equal(_ask(handle, Expect.ABSENT), Held(changed=True), "a lease that expects no entry where one stands")

    def test_a_lease_that_expects_a_version_is_granted_where_it_stands(self, handle: Store) -> None:
        needs(handle, "store_lease")
        put_bytes(handle, ENTRY, b"rejected")
        got = get_bytes(handle, ENTRY) or fail("what was put is gone")
        with _granted(handle, expect=got.version):
            pass

    def test_a_lease_that_expects_a_version_is_refused_where_another_stands(self, handle: Store) -> None:
        needs(handle, "store_lease")
        put_bytes(handle, ENTRY, b"rejected")
        got = get_bytes(handle, ENTRY) or fail("what was put is gone")
        put_bytes(handle, ENTRY, b"healed")
        equal(_ask(handle, got.version), Held(changed=True), "a lease that expects a version that was replaced")

    def test_a_fence_survives_json(self, handle: Store) -> None:
        with _granted(handle) as lease:
            carried = cast(Fence, json.loads(json.dumps(lease.fence)))
            equal(carried, lease.fence, "a fence that went through JSON")
            check(put_bytes(handle, ENTRY, b"one", Expect.ANY, carried), "a put with a standing fence was refused")

    def test_the_fence_of_a_released_lease_is_refused(self, handle: Store) -> None:
        with _granted(handle) as lease:
            put_bytes(handle, ENTRY, b"one")
        equal(put_bytes(handle, ENTRY, b"two", Expect.ANY, lease.fence), False, "a put with a released lease's fence")
        got = get_bytes(handle, ENTRY)
        equal(got and got.data, b"one", "what stands after a put that its fence forbids")

    def test_the_fence_of_the_holder_before_is_refused(self, handle: Store) -> None:
        with _granted(handle) as before:
            pass
        with _granted(handle):
            found = put_bytes(handle, ENTRY, b"late", Expect.ANY, before.fence)
            equal(found, False, "a put with the fence of the holder before, while the next one warms")


def _ask(handle: Store, expect: Expect | str = Expect.ABSENT, lock: str = LOCK, note: float | None = None) -> object:
    return handle.lease(lock, ENTRY, expect, TTL, note)


@contextmanager
def _granted(
    handle: Store, lock: str = LOCK, expect: Expect | str = Expect.ABSENT, note: float | None = None
) -> Iterator[Lease]:
    needs(handle, "store_lease")
    lease = _ask(handle, expect, lock, note)
    if isinstance(lease, Held):
        fail(f"a lease was refused, expected it to be granted: {lease}")
    lease = cast(Lease, lease)
    try:
        yield lease
    finally:
        lease.release()
