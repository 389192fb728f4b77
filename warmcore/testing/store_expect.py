"""Rules for stores: versions, and what a put may expect to replace."""

from warmcore.contracts import Expect, Fence
from warmcore.plugins import Store
from warmcore.testing.access import Got, get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail
from warmcore.testing.store_given import StoreGiven, needs

KEY = stored_key()


class ExpectRules(StoreGiven):
    """Compare and swap: of those who judged the same bytes, one replaces them."""

    def test_a_version_is_not_empty(self, handle: Store) -> None:
        check(_put(handle, b"one").version, "a get returned the version '', expected text that a put can expect")

    def test_other_bytes_have_another_version(self, handle: Store) -> None:
        # Of one size and within one instant: neither a length nor a time tells them apart.
        versions = [_put(handle, data).version for data in (b"one", b"two", b"too", b"ten")]
        equal(len(set(versions)), 4, f"versions of four contents put one after another ({versions})")

    def test_the_same_bytes_keep_their_version(self, handle: Store) -> None:
        first = _put(handle, b"one")
        again = [_get(handle) for _ in range(3)]
        equal(again, [first] * 3, "bytes and version of three more gets")

    def test_any_replaces_whatever_stands(self, handle: Store) -> None:
        for data in (b"one", b"two", b"two"):
            check(put_bytes(handle, KEY, data, Expect.ANY), f"a put of {data!r} with Expect.ANY was refused")
        equal(_get(handle).data, b"two", "what stands after three puts with Expect.ANY")

    def test_absent_stores_where_nothing_stands(self, handle: Store) -> None:
        check(put_bytes(handle, KEY, b"one", Expect.ABSENT), "a put with Expect.ABSENT at an absent key was refused")
        equal(_get(handle).data, b"one", "what stands after a put with Expect.ABSENT")

    def test_absent_is_refused_where_something_stands(self, handle: Store) -> None:
        _put(handle, b"one")
        equal(put_bytes(handle, KEY, b"two", Expect.ABSENT), False, "a put with Expect.ABSENT over something")

    def test_a_version_is_replaced_by_who_expects_it(self, handle: Store) -> None:
        for data in (b"two", b"three"):
            version = (_get(handle) if data == b"three" else _put(handle, b"one")).version
            check(put_bytes(handle, KEY, data, version), "a put that expects the version that stands was refused")
            equal(_get(handle).data, data, "what stands after it")

    def test_a_version_that_was_replaced_is_refused(self, handle: Store) -> None:
        old = _put(handle, b"one").version
        _put(handle, b"two")
        equal(put_bytes(handle, KEY, b"three", old), False, "a put that expects a version that was replaced")

    def test_a_version_is_refused_where_nothing_stands(self, handle: Store) -> None:
        version = _put(handle, b"one").version
        found = put_bytes(handle, stored_key("other"), b"two", version)
        equal(found, False, "a put that expects a version at an absent key")

    def test_a_version_that_no_store_gave_is_refused(self, handle: Store) -> None:
        _put(handle, b"one")
        for version in ("no such version", "0", "-1", "\N{SNOWMAN}"):
            equal(put_bytes(handle, KEY, b"two", version), False, f"a put that expects the version {version!r}")

    def test_a_version_from_before_a_delete_is_refused(self, handle: Store) -> None:
        needs(handle, "store_delete")
        old = _put(handle, b"one").version
        handle.delete(KEY, Expect.ANY)
        _put(handle, b"two")
        found = put_bytes(handle, KEY, b"three", old)
        equal(found, False, "a put that expects the version of bytes that were deleted since")

    def test_a_refused_put_changes_nothing(self, handle: Store) -> None:
        old = _put(handle, b"one").version
        before = _put(handle, b"two")
        for expect in (Expect.ABSENT, old):
            if not put_bytes(handle, KEY, b"three", expect):
                equal(_get(handle), before, f"bytes and version after a refused put that expects {expect}")
            before = _get(handle)

    def test_a_put_at_one_key_leaves_the_others(self, handle: Store) -> None:
        before = _put(handle, b"one")
        put_bytes(handle, stored_key("other"), b"two")
        equal(_get(handle), before, "bytes and version at a key while another was put at")

    def test_a_fence_of_another_store_is_ignored(self, handle: Store) -> None:
        fence: Fence = {"store": "someone-else", "lock": "default/v1/demo/" + "0" * 64, "token": "7"}
        check(put_bytes(handle, KEY, b"one", Expect.ANY, fence), "a put with another store's fence was refused")
        equal(_get(handle).data, b"one", "what stands after a put with another store's fence")


def _put(handle: Store, data: bytes) -> Got:
    put_bytes(handle, KEY, data)
    return _get(handle)


def _get(handle: Store) -> Got:
    return get_bytes(handle, KEY) or fail(f"nothing stands at {KEY}, which was put at")
