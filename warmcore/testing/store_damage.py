"""Rules for stores whose tests give raw access: what lies at rest, and what if it is damaged there."""

from collections.abc import Callable

import pytest

from warmcore.contracts import Expect
from warmcore.errors import Reject, StoreError
from warmcore.plugins import Store
from warmcore.testing.access import get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail
from warmcore.testing.store_given import Raw, StoreGiven, needs

KEY = stored_key()
OTHER = stored_key("other")
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "cut in half": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "something else": lambda _: b"\xff" * 100,
}


class RestRules(StoreGiven):
    """What a put leaves at rest, and how damage there heals."""

    def test_a_put_lies_at_rest_when_it_returns(self, handle: Store, behind: Raw) -> None:
        equal(behind.read(KEY), None, "what lies at rest before a put")
        put_bytes(handle, KEY, b"one")
        check(behind.read(KEY) is not None, "nothing lies at rest after a put returned")

    def test_a_refused_put_leaves_what_lies_at_rest(self, handle: Store, behind: Raw) -> None:
        put_bytes(handle, KEY, b"one")
        old = (get_bytes(handle, KEY) or fail("what was put is gone")).version
        put_bytes(handle, KEY, b"two")
        before = behind.read(KEY)
        if not put_bytes(handle, KEY, b"three", old):
            equal(behind.read(KEY), before, "what lies at rest after a refused put")

    def test_what_is_deleted_does_not_lie_at_rest(self, handle: Store, behind: Raw) -> None:
        needs(handle, "store_delete")
        put_bytes(handle, KEY, b"one")
        handle.delete(KEY, Expect.ANY)
        equal(behind.read(KEY), None, "what lies at rest after a delete")

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_damage_is_healed_by_who_rejected_it(self, handle: Store, behind: Raw, damage: str) -> None:
        """What a get says of damage, a put must go by: a version, nothing, or an error that Expect.ANY overrides."""
        put_bytes(handle, KEY, b"old" * 100)
        get_bytes(handle, KEY)
        behind.write(KEY, DAMAGES[damage](behind.read(KEY) or fail("nothing lies at rest after a put")))
        expect = _expected_over(handle)
        check(put_bytes(handle, KEY, b"new" * 200, expect), f"a put over damage that expects {expect} was refused")
        healed = get_bytes(handle, KEY)
        equal(healed and healed.data, b"new" * 200, "the bytes of a get after damage was replaced")

    def test_damage_at_one_key_leaves_the_others(self, handle: Store, behind: Raw) -> None:
        for key in (KEY, OTHER):
            put_bytes(handle, key, key.encode())
        behind.write(KEY, b"\xff" * 100)
        got = get_bytes(handle, OTHER)
        equal(got and got.data, OTHER.encode(), "the bytes of a get beside a damaged entry")
        if "store_list" in handle.can:
            check(OTHER in [entry.key for entry in handle.list("")], "the list has lost an entry beside a damaged one")


def _expected_over(handle: Store) -> Expect | str:
    """Return what the core expects to replace, after what a get said of a damaged entry."""
    try:
        got = get_bytes(handle, KEY)
    except Reject as error:
        return error.version or Expect.ANY
    except StoreError:
        return Expect.ANY
    return Expect.ABSENT if got is None else got.version
