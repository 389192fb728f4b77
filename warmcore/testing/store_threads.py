"""Rules for stores: several threads, several instances, and a fork. Nothing here is timed."""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from warmcore.contracts import Expect
from warmcore.plugins import Store
from warmcore.testing.access import get_bytes, put_bytes, stored_key
from warmcore.testing.checks import HANGS_SECONDS, check, equal, fail, together
from warmcore.testing.store_given import StoreGiven

KEY = stored_key()
SIZE = 100_000
OVERWRITES = 16


class ThreadRules(StoreGiven):
    """What one caller sees while others are at work."""

    def test_a_reader_sees_old_or_new_and_never_a_mix(self, handle: Store) -> None:
        torn = [seen for seen in _read_while_overwriting(handle) if not seen.whole]
        equal(torn, [], "gets during a put that returned a mix, or a part")

    def test_bytes_and_version_belong_together(self, handle: Store) -> None:
        seen = [each for each in _read_while_overwriting(handle) if each.whole]
        versions, contents = ({each.version for each in seen}, {each.content for each in seen})
        equal((len(versions), len(contents)), (len(seen), len(seen)), "versions and contents that were read together")

    def test_one_of_many_who_expect_absent_is_first(self, handle: Store) -> None:
        put_bytes(handle, KEY, b"old")
        for name in ("one", "two", "three"):
            _race(handle, stored_key(name), Expect.ABSENT, name)

    def test_one_of_many_who_expect_a_version_replaces_it(self, handle: Store) -> None:
        for name in ("one", "two", "three"):
            put_bytes(handle, KEY, name.encode())
            got = get_bytes(handle, KEY) or fail("what was put is gone")
            _race(handle, KEY, got.version, name)

    def test_threads_do_not_disturb_each_other(self, handle: Store) -> None:
        def work(name: str) -> None:
            key = stored_key(name)
            for number in range(10):
                data = f"{name} {number}".encode() * 1000
                put_bytes(handle, key, data)
                got = get_bytes(handle, key)
                equal(got and got.data, data, f"what thread {name} read at its own key")

        together(*(partial(work, f"thread{number}") for number in range(6)))


class InstanceRules(StoreGiven):
    """What another instance or another process sees."""

    def test_another_instance_sees_what_was_put(self, handle: Store, reopened: Store) -> None:
        put_bytes(handle, KEY, b"one")
        got = get_bytes(reopened, KEY, fresh=True)
        equal(got and got.data, b"one", "what a second instance reads")

    def test_a_version_counts_for_all_instances(self, handle: Store, reopened: Store) -> None:
        put_bytes(handle, KEY, b"one")
        version = (get_bytes(handle, KEY) or fail("what was put is gone")).version
        check(
            put_bytes(reopened, KEY, b"two", version), "a second instance refused the version that the first one read"
        )
        equal(put_bytes(handle, KEY, b"three", version), False, "a put that expects what a second instance replaced")

    def test_a_fresh_get_sees_the_latest(self, handle: Store, reopened: Store) -> None:
        put_bytes(handle, KEY, b"one")
        get_bytes(handle, KEY)
        put_bytes(reopened, KEY, b"two")
        get_bytes(reopened, KEY)
        got = get_bytes(handle, KEY, fresh=True)
        equal(got and got.data, b"two", "a fresh get after a put by a second instance")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="not tried: no fork on this system")
    def test_a_store_that_was_used_works_on_both_sides_of_a_fork(self, handle: Store) -> None:
        put_bytes(handle, KEY, b"one")
        equal(get_bytes(handle, KEY) is None, False, "a miss before the fork")
        _in_child(partial(_use, handle, "child"))
        _use(handle, "parent")


def _use(handle: Store, name: str) -> None:
    got = get_bytes(handle, KEY)
    equal(got and got.data, b"one", f"what the {name} reads after a fork")
    check(put_bytes(handle, stored_key(name), b"two", Expect.ABSENT), f"a put by the {name} after a fork was refused")
    got = get_bytes(handle, stored_key(name))
    equal(got and got.data, b"two", f"what the {name} reads after its own put")


class Seen(NamedTuple):
    """What one get saw of bytes that are all of one number."""

    content: int
    version: str
    whole: bool


def _read_while_overwriting(handle: Store) -> set[Seen]:
    """Return all that three readers saw while one writer replaced, and what stands at the end."""
    put_bytes(handle, KEY, bytes(SIZE))
    done: list[bool] = []

    def write() -> set[Seen]:
        try:
            # Letters, neither white space nor odd text: those who spoil such bytes have rules of their own.
            for number in range(ord("A"), ord("A") + OVERWRITES - 1):
                put_bytes(handle, KEY, bytes([number]) * SIZE)
        finally:
            done.append(True)
        return {_see(handle)}

    def read() -> set[Seen]:
        seen = {_see(handle)}
        while not done:
            seen.add(_see(handle))
        return seen

    return set().union(*together(write, read, read, read))


def _see(handle: Store) -> Seen:
    got = get_bytes(handle, KEY) or fail("a get during a put found nothing, expected the old bytes or the new")
    first = got.data[0] if got.data else -1
    return Seen(first, got.version, got.data == bytes([max(first, 0)]) * SIZE)


def _race(handle: Store, key: str, expect: Expect | str, name: str) -> None:
    offers = [f"{name} {number}".encode() for number in range(8)]
    taken = together(*(partial(put_bytes, handle, key, offer, expect) for offer in offers))
    equal(taken.count(True), 1, f"how many of 8 puts at once that expect {expect} were taken")
    got = get_bytes(handle, key)
    equal(got and got.data, offers[taken.index(True)], "what stands: the bytes of the one that was taken")


def _in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child; fail with the child's trace, or if it hangs."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forks with threads about, which is the very case that is tried.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # no exception may leave a forked child of a test run
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(writer)
    hangs = not _ended(child)
    if hangs:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with open(reader, "rb") as report:
        trace = report.read().decode(errors="replace")
    check(not hangs, "the store hangs in a forked child")
    check(not trace, f"in a forked child:\n{trace}")


def _ended(child: int) -> bool:
    deadline = time.monotonic() + HANGS_SECONDS / 2
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    return False
