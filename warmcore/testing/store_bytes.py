"""Rules for stores: bytes come back as they went in, and a source or a sink that fails does no harm."""

from collections.abc import Callable
from functools import partial

import pytest

from warmcore.contracts import Expect
from warmcore.errors import Reject
from warmcore.plugins import Store
from warmcore.testing.access import BytesSink, BytesSource, get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail, raised_by
from warmcore.testing.store_given import StoreGiven, handle_of, needs

KEY = stored_key()
EVERY_BYTE = bytes(range(256)) * 4
TEXT = b"0123456789abcdef" * 64
LARGE = b"".join(bytes([number]) * (1 << 20) for number in range(1, 10))
"""9 MiB, over the size at which the core's sink leaves memory; no two of its mebibytes are equal."""

BIG = LARGE[: 3 << 20]


class ByteRules(StoreGiven):
    """What a get hands out, what a put takes in."""

    def test_an_absent_key_is_a_miss(self, handle: Store) -> None:
        equal(get_bytes(handle, KEY), None, "a get of a key that nothing was put at")
        equal(get_bytes(handle, KEY, fresh=True), None, "a fresh get of a key that nothing was put at")

    def test_a_get_of_an_absent_key_leaves_nothing_behind(self, handle: Store) -> None:
        needs(handle, "store_list")
        put_bytes(handle, stored_key("other"), b"one")
        get_bytes(handle, KEY)
        found = [entry.key for entry in handle.list("")]
        equal(found, [stored_key("other")], "the keys of the list after a get of an absent one")

    @pytest.mark.parametrize("data", [b"\n", EVERY_BYTE, LARGE], ids=["1 byte", "1 KiB", "9 MiB"])
    def test_bytes_come_back_as_they_went_in(self, handle: Store, data: bytes) -> None:
        check(put_bytes(handle, KEY, data), "a put with Expect.ANY was refused")
        equal(_data(handle), data, "the bytes of a get")

    def test_a_shorter_put_leaves_no_tail(self, handle: Store) -> None:
        put_bytes(handle, KEY, TEXT)
        put_bytes(handle, KEY, b"short")
        equal(_data(handle), b"short", "the bytes of a get after a shorter put")

    def test_a_short_read_of_a_source_is_not_its_end(self, handle: Store) -> None:
        handle.put(KEY, BytesSource(TEXT, piece=7), Expect.ANY)
        equal(_data(handle), TEXT, "the bytes of a get after a put whose source gave 7 bytes at a time")

    def test_a_put_is_done_with_its_source_when_it_returns(self, handle: Store) -> None:
        source = BytesSource(TEXT)
        handle.put(KEY, source, Expect.ANY)
        source.read = _gone  # type: ignore[method-assign]  # whoever reads it now is found out
        equal(_data(handle), TEXT, "the bytes of a get once the source of the put is gone")

    def test_a_source_that_is_rewound_serves_another_put(self, handle: Store) -> None:
        source = BytesSource(TEXT)
        handle.put(KEY, source, Expect.ANY)
        source.rewind()
        handle.put(stored_key("other"), source, Expect.ANY)
        equal(_data(handle, stored_key("other")), TEXT, "the bytes at the second key, from the same source")
        equal(_data(handle), TEXT, "the bytes at the first key")

    def test_a_source_that_fails_leaves_what_stood(self, handle: Store) -> None:
        put_bytes(handle, KEY, b"old")
        before = get_bytes(handle, KEY)
        self._put_that_fails(handle, KEY)
        equal(get_bytes(handle, KEY), before, "what stands after a put over it whose source failed halfway")

    def test_a_source_that_fails_where_nothing_stood_leaves_nothing(self, handle: Store) -> None:
        self._put_that_fails(handle, KEY)
        equal(get_bytes(handle, KEY), None, "what stands after a first put whose source failed halfway")

    def test_what_a_sink_raises_ends_the_get(self, handle: Store) -> None:
        put_bytes(handle, KEY, BIG)
        raised = raised_by(lambda: handle.get(KEY, BytesSink(Reject("over the cap"), after=0)))
        # A transport may have wrapped it: the core asks its own sink for the reason.
        check(raised is not None, "a get whose sink raised returned as if nothing had happened")

    def test_a_sink_that_raised_leaves_the_store_usable(self, handle: Store) -> None:
        put_bytes(handle, KEY, BIG)
        for after in (0, 1 << 20):
            raised_by(partial(handle.get, KEY, BytesSink(Reject("over the cap"), after)))
            equal(_data(handle), BIG, "the bytes of a get after one whose sink raised")
        check(put_bytes(handle, KEY, b"new"), "a put after a get whose sink raised was refused")

    def test_what_a_store_needs_to_close_it_may_close_twice(self, handle: Store) -> None:
        needs(handle, "store_close")
        put_bytes(handle, KEY, b"old")
        handle.close()
        handle.close()

    def test_a_server_that_is_not_there_is_an_error_and_no_miss(self, unreachable: object | None) -> None:
        if unreachable is None:
            pytest.skip("not tried: no fixture `unreachable` gives this store without its server")
        handle = handle_of(unreachable)
        calls: dict[str, Callable[[], object]] = {
            "get": lambda: get_bytes(handle, KEY),
            "put": lambda: put_bytes(handle, KEY, b"new"),
            "list": lambda: handle.list(""),
            "delete": lambda: handle.delete(KEY, Expect.ANY),
        }
        for what, call in calls.items():
            check(raised_by(call) is not None, f"{what} with no server there answered, expected a StoreError")

    def _put_that_fails(self, handle: Store, key: str) -> None:
        source = BytesSource(TEXT, error=OSError("read error"), after=len(TEXT) // 2)
        raised = raised_by(lambda: handle.put(key, source, Expect.ANY))
        check(raised is not None, "a put whose source failed halfway returned, expected an error")


def _data(handle: Store, key: str = KEY) -> bytes | None:
    got = get_bytes(handle, key)
    return None if got is None else got.data


def _gone(size: int) -> bytes:
    return fail(f"the source was asked for {size} bytes after its put had returned")
