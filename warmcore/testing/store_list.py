"""Rules for stores that can list, and for those that can delete."""

from typing import ClassVar

from warmcore.contracts import Entry, Expect
from warmcore.plugins import Store
from warmcore.testing.access import Got, get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail
from warmcore.testing.store_given import StoreGiven, needs

KEY = stored_key()
OTHER = stored_key("other")


class ListRules(StoreGiven):
    """A list says what a get would find. `many` is how many entries a long one has: more than one page of a server."""

    many: ClassVar[int] = 250

    def test_the_list_of_an_empty_store_is_empty(self, handle: Store) -> None:
        needs(handle, "store_list")
        equal(handle.list(""), [], "the list of a store that nothing was put into")

    def test_a_list_has_what_was_put_in_the_order_of_keys(self, handle: Store) -> None:
        keys = [stored_key(name) for name in ("c", "a", "d", "b")]
        equal(_keys(_filled(handle, keys)), sorted(keys), "the keys of a list")

    def test_a_long_list_is_complete(self, handle: Store) -> None:
        keys = [stored_key(f"rank{number}") for number in range(self.many)]
        found = _keys(_filled(handle, keys))
        equal(len(found), len(set(found)), "how many keys a long list has, some of them twice")
        equal(set(keys) - set(found), set(), "what is missing from a long list")

    def test_a_list_is_of_one_prefix(self, handle: Store) -> None:
        inside = [stored_key(kind="demo"), stored_key(kind="demo2")]
        _filled(handle, [*inside, stored_key(kind="other"), stored_key("else", namespace="other")])
        # Not at a slash: a prefix of characters, not of parts.
        equal(_keys(handle, "default/v1/demo"), inside, "the keys of the list of default/v1/demo")
        equal(_keys(handle, inside[0]), inside[:1], "the keys of the list of one whole key")
        for prefix in ("nothing", "v1/demo", "demo"):
            equal(_keys(handle, prefix), [], f"the keys of the list of {prefix}, with which no key starts")

    def test_a_prefix_holds_no_wildcards(self, handle: Store) -> None:
        keys = [stored_key(kind="a_b"), stored_key(kind="axb")]
        _filled(handle, keys)
        equal(_keys(handle, "default/v1/a_"), keys[:1], "the keys of the list of default/v1/a_")
        for prefix in ("def*", "defaul?", "defaul[t]", "defaul%", "defau.t", "default/v1/*"):
            equal(_keys(handle, prefix), [], f"the keys of the list of {prefix}")

    def test_a_listed_size_is_that_of_the_bytes_as_read(self, handle: Store) -> None:
        needs(handle, "store_list")
        sizes = [1, 1000, 100_000]
        for size in sizes:
            # Compressible and not: a wrapper knows what its inner store has, and must tell what it would read.
            put_bytes(handle, stored_key(f"size{size}"), b"x" * size)
        found = {entry.key: entry.size for entry in handle.list("")}
        equal(found, {stored_key(f"size{size}"): size for size in sizes}, "the listed sizes")

    def test_a_listed_version_is_that_of_a_get(self, handle: Store) -> None:
        needs(handle, "store_list")
        put_bytes(handle, KEY, b"one")
        equal(_only(handle).version, _got(handle).version, "the listed version")
        put_bytes(handle, KEY, b"two")
        listed = _only(handle).version
        equal(listed, _got(handle).version, "the listed version after another put")
        check(put_bytes(handle, KEY, b"three", listed), "a put that expects the listed version was refused")


class DeleteRules(StoreGiven):
    """A delete removes what was judged, and nothing else."""

    def test_what_is_deleted_is_gone(self, handle: Store) -> None:
        needs(handle, "store_delete")
        put_bytes(handle, KEY, b"one")
        equal(handle.delete(KEY, Expect.ANY), True, "a delete of what stands")
        equal(get_bytes(handle, KEY), None, "a get after the delete")

    def test_what_is_deleted_is_not_listed(self, handle: Store) -> None:
        needs(handle, "store_delete")
        _filled(handle, [KEY, OTHER])
        handle.delete(KEY, Expect.ANY)
        equal(_keys(handle), [OTHER], "the keys of a list after a delete")

    def test_what_is_deleted_can_be_put_again(self, handle: Store) -> None:
        needs(handle, "store_delete")
        put_bytes(handle, KEY, b"one")
        handle.delete(KEY, Expect.ANY)
        check(put_bytes(handle, KEY, b"two", Expect.ABSENT), "a put with Expect.ABSENT after a delete was refused")
        equal(_got(handle).data, b"two", "the bytes of a get after delete and put")

    def test_a_delete_of_nothing_is_refused(self, handle: Store) -> None:
        needs(handle, "store_delete")
        for expect in (Expect.ANY, Expect.ABSENT, "1"):
            equal(handle.delete(KEY, expect), False, f"a delete of an absent key that expects {expect}")

    def test_a_delete_that_expects_the_version_that_stands_is_done(self, handle: Store) -> None:
        needs(handle, "store_delete")
        put_bytes(handle, KEY, b"one")
        equal(handle.delete(KEY, _got(handle).version), True, "a delete that expects the version that stands")

    def test_a_delete_that_expects_another_version_is_refused(self, handle: Store) -> None:
        needs(handle, "store_delete")
        put_bytes(handle, KEY, b"one")
        old = _got(handle).version
        put_bytes(handle, KEY, b"two")
        for expect in (old, "no such version", Expect.ABSENT):
            equal(handle.delete(KEY, expect), False, f"a delete that expects {expect} while another version stands")
            equal(_got(handle).data, b"two", "the bytes of a get after a refused delete")

    def test_a_delete_leaves_all_other_keys(self, handle: Store) -> None:
        needs(handle, "store_delete")
        others = [stored_key(name) for name in ("a", "all-1", "al", "all2")]
        for key in [KEY, *others]:
            put_bytes(handle, key, key.encode())
        handle.delete(KEY, Expect.ANY)
        for key in others:
            got = get_bytes(handle, key)
            equal(got and got.data, key.encode(), f"the bytes at {key} after a delete of {KEY}")


def _filled(handle: Store, keys: list[str]) -> Store:
    needs(handle, "store_list")
    for key in keys:
        put_bytes(handle, key, key.encode())
    return handle


def _keys(handle: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in handle.list(prefix)]


def _only(handle: Store) -> Entry:
    entries = handle.list("")
    equal(len(entries), 1, "how many entries a list has after puts at one key")
    return entries[0]


def _got(handle: Store) -> Got:
    return get_bytes(handle, KEY) or fail(f"nothing stands at {KEY}, which was put at")
