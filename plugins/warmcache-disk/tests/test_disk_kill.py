"""Whole or absent: under kill -9 at any moment, and under any failing system call."""

import errno
import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from disk_parts import KEY, drafts, forked, get, put, status_of

from warmcache_disk import DiskStore
from warmcore import StoreError

OLD, NEW = b"old" * 20_000, b"new" * 30_000
KILLS = 250


def test_a_killed_writer_leaves_old_or_new_or_nothing_and_one_sweep_clears_its_orphans(root: Path) -> None:
    store = DiskStore(path=root)

    def write_for_ever() -> None:
        for number in count():
            put(store, (OLD, NEW)[number % 2], key=key)

    orphans = 0
    for number in range(KILLS):
        key = f"{KEY}{number % 7}"
        pid = forked(write_for_ever)
        time.sleep(random.uniform(0, 0.008))
        os.kill(pid, signal.SIGKILL)
        assert status_of(pid) == -signal.SIGKILL
        found = get(store, key)
        assert found is None or found[0] in (OLD, NEW)
        orphans = max(orphans, len(drafts(root)))
    assert orphans > 0, "no kill hit a put: the test proves nothing"
    store.sweep()
    assert drafts(root) == []
    assert {key for key, _, _ in store.store_list("")} <= {f"{KEY}{number}" for number in range(7)}


CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink", "fstat", "pread", "stat", "listdir")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("name", [*CALLS, "flock"])
def test_any_failing_call_leaves_old_or_new_and_no_open_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    for nth in count():
        assert nth < 50
        fresh, used = (DiskStore(path=tmp_path / f"{side}{nth}", durable=name == "fsync") for side in "ab")
        put(used, OLD)
        before = os.listdir("/proc/self/fd")
        with monkeypatch.context() as patch:
            fails = _fail(patch, name, nth, number)
            outcomes = [_attempt(fresh), _attempt(used)]
        assert os.listdir("/proc/self/fd") == before
        contents = [found and found[0] for found in (get(fresh), get(used))]
        assert contents[0] == NEW or (contents[0] is None and not outcomes[0])
        assert contents[1] == NEW or (contents[1] == OLD and not outcomes[1])
        if not fails():
            assert outcomes == [True, True]
            break


def _attempt(store: DiskStore) -> bool:
    try:
        return put(store, NEW)
    except StoreError:
        return False


def _fail(patch: pytest.MonkeyPatch, name: str, nth: int, number: int) -> Callable[[], bool]:
    module: Any = fcntl if name == "flock" else os
    real, calls = getattr(module, name), count()

    def call(*args: Any, **named: Any) -> Any:
        if next(calls) == nth:
            raise OSError(number, os.strerror(number))
        return real(*args, **named)

    patch.setattr(module, name, call)
    return lambda: next(calls) > nth
