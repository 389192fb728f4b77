"""Many readers and writers at once, in threads and processes."""

import fcntl
import hashlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from disk_parts import KEY, content_of, drafts, file_of, forked, get, put, status_of

from warmcache_disk import DiskStore
from warmcore import Blob, BlobSource, Expect, StoreError

SECONDS = 3.0


def _with_digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


def test_four_processes_of_eight_threads_never_see_torn_bytes_or_an_exception(root: Path) -> None:
    store = DiskStore(path=root, durable=False)
    end = time.monotonic() + SECONDS

    def work(seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < end:
            key, action = f"{KEY}{dice.randrange(4)}", dice.random()
            if action < 0.5:
                found = get(store, key)
                assert found is None or found[0][:32] == hashlib.sha256(found[0][32:]).digest()
            elif action < 0.95:
                assert put(store, _with_digest(dice.randbytes(dice.randrange(100_000))), key=key)
            else:
                store.store_delete(key, Expect.ANY)
            store.store_list("")

    pids = [forked(partial(_in_threads, work, number, 8)) for number in range(4)]
    assert [status_of(pid) for pid in pids] == [0] * 4
    assert drafts(root) == []


def _in_threads(work: Callable[[int], None], process: int, count: int) -> int:
    failed: list[threading.ExceptHookArgs] = []
    threading.excepthook = failed.append
    threads = [threading.Thread(target=work, args=(process * count + number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*(repr(args.exc_value) for args in failed), file=sys.stderr)
    return len(failed)


def test_no_increment_is_lost_when_each_expects_what_it_read(root: Path) -> None:
    store = DiskStore(path=root, durable=False)
    put(store, b"0")

    def increment(_: int) -> None:
        for _ in range(25):
            while True:
                found = get(store)
                assert found is not None
                if put(store, b"%d" % (int(found[0]) + 1), expect=found[1]):
                    break

    pids = [forked(partial(_in_threads, increment, number, 2)) for number in range(3)]
    assert [status_of(pid) for pid in pids] == [0] * 3
    assert content_of(store) == b"150"


def test_of_four_that_publish_where_nothing_stands_one_is_told_yes_and_the_rest_quietly_no(root: Path) -> None:
    store = DiskStore(path=root)
    for turn in range(10):
        start = time.monotonic() + 0.03

        def publish(number: int, key: str = f"{KEY}{turn}", start: float = start) -> bool:
            time.sleep(max(0.0, start - time.monotonic()))
            return put(store, b"%d" % number * 50_000, expect=Expect.ABSENT, key=key)

        pids = [forked(partial(publish, number)) for number in range(4)]
        told = [status_of(pid) for pid in pids]
        assert sorted(told) == [0, 0, 0, 1]
        assert content_of(store, f"{KEY}{turn}") == b"%d" % told.index(1) * 50_000
    assert drafts(root) == []


def test_a_put_that_another_overtakes_while_it_writes_is_refused(store: DiskStore) -> None:
    class Overtaken(BlobSource):
        def read(self, size: int) -> bytes:
            put(store, b"faster")
            return super().read(size)

    assert not store.store_put(KEY, Overtaken(Blob.of(b"slow")), Expect.ABSENT, None)
    assert content_of(store) == b"faster"


def test_a_reader_keeps_the_bytes_it_began_with_while_they_are_replaced(store: DiskStore) -> None:
    old = b"o" * (3 << 20)

    class Replacing:
        data = b""

        def write(self, chunk: bytes) -> None:
            put(store, b"new")
            self.data += chunk

    put(store, old)
    sink = Replacing()
    assert store.store_get(KEY, sink, False)
    assert sink.data == old


def test_a_lock_that_is_never_let_go_is_an_error_after_a_second_and_reads_go_on(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    with (file_of(root).parent / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = time.monotonic()
        with pytest.raises(StoreError, match=r"held for 1 s: look for a stopped process"):
            put(store, b"two")
        assert 0.9 < time.monotonic() - started < 1.5
        assert get(store) is not None
    assert put(store, b"two")


def test_a_lock_file_that_was_removed_while_waited_for_excludes_nobody(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    path = file_of(root).parent / ".lock"
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.2, path.unlink).start()
        assert status_of(forked(lambda: put(store, b"two"))) == 1
        assert path.stat().st_ino != os.fstat(lock.fileno()).st_ino


def test_a_lock_on_a_file_that_was_removed_before_it_was_had_is_taken_anew(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"one")
    path = file_of(root).parent / ".lock"
    real, removals = fcntl.flock, iter([path.unlink])

    def late(descriptor: int, operation: int) -> None:
        next(removals, lambda: None)()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert put(store, b"two")
    assert path.exists()


def test_a_hundred_forks_use_a_store_that_was_used_before(root: Path) -> None:
    store = DiskStore(path=root, durable=False)
    put(store, b"one")
    for _ in range(10):
        pids = [forked(lambda: get(store) is not None and put(store, b"two")) for _ in range(10)]
        assert {status_of(pid) for pid in pids} == {1}
