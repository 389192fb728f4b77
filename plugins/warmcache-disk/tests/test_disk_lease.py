"""The same-host lease: one holder at a time, and the late are refused."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from disk_parts import KEY, LEASE, file_of, forked, get, put, status_of, version_of

from warmcache_disk import DiskStore
from warmcache_disk.lease import DiskLease
from warmcore import Blob, BlobSource, Expect, Fence, Held, StoreError

TTL = 0.6


@pytest.fixture
def other(root: Path) -> Iterator[DiskStore]:
    """Another replica's view of the store."""
    other = DiskStore(path=root)
    yield other
    other.store_close()


@pytest.fixture
def store(root: Path) -> Iterator[DiskStore]:
    store = DiskStore(path=root)
    yield store
    store.store_close()


def _ask(store: DiskStore, ttl: float = TTL, note: float | None = None, expect: Expect | str = Expect.ABSENT) -> object:
    return store.store_lease(LEASE, KEY, expect, ttl, note)


def _lease(store: DiskStore, ttl: float = TTL, note: float | None = None) -> DiskLease:
    lease = _ask(store, ttl, note)
    assert isinstance(lease, DiskLease), lease
    return lease


def _record(root: Path) -> Path:
    return file_of(root, LEASE, "leases")


def test_one_holds_it_and_the_rest_learn_since_when_and_how_long_it_took_last_time(
    store: DiskStore, other: DiskStore
) -> None:
    assert _lease(store, note=41.5).alive()
    held = _ask(other)
    assert isinstance(held, Held)
    assert held.last_seconds == 41.5
    assert not held.changed
    assert abs(time.time() - (held.since or 0)) < 2
    assert isinstance(_ask(store), Held)


def test_of_many_that_ask_at_one_moment_one_is_granted(root: Path) -> None:
    store = DiskStore(path=root)
    pids = [forked(lambda: isinstance(_ask(store, 30), DiskLease)) for _ in range(12)]
    assert sorted(status_of(pid) for pid in pids) == [0] * 11 + [1]


def test_it_is_not_granted_when_the_entry_is_no_longer_as_expected(store: DiskStore, other: DiskStore) -> None:
    put(store, b"published meanwhile")
    assert _ask(store) == Held(changed=True)
    assert _ask(store, expect="0" * 32) == Held(changed=True)
    assert isinstance(_ask(store, expect=version_of(store)), DiskLease)
    put(store, b"again")
    held = _ask(other, expect=Expect.ABSENT)
    assert isinstance(held, Held)
    assert held.changed
    assert held.since is not None


def test_a_corrupt_entry_is_leased_by_the_version_that_was_rejected(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    file_of(root).write_bytes(b"garbage")
    assert isinstance(_ask(store, expect=version_of(store)), DiskLease)


def test_a_living_holder_keeps_it_past_its_ttl(store: DiskStore, other: DiskStore) -> None:
    lease = _lease(store)
    time.sleep(2.5 * TTL)
    assert lease.alive()
    assert isinstance(_ask(other), Held)
    assert put(store, b"one", fence=lease.fence)


def test_a_released_lease_is_free_at_once_and_its_fence_is_refused(store: DiskStore, other: DiskStore) -> None:
    lease = _lease(store)
    assert put(store, b"one", fence=lease.fence)
    lease.release()
    lease.release()
    assert not lease.alive()
    assert not put(store, b"two", fence=lease.fence)
    taken = _ask(other, expect=Expect.ANY)
    assert isinstance(taken, DiskLease)
    lease.release()
    assert taken.alive()
    assert not put(store, b"two", fence=lease.fence)
    assert put(store, b"two", fence=taken.fence)


def test_any_rank_may_carry_the_fence_through_json(store: DiskStore, root: Path) -> None:
    fence: Fence = json.loads(json.dumps(_lease(store).fence))
    assert status_of(forked(lambda: put(DiskStore(path=root), b"one", fence=fence))) == 1


def test_a_fence_of_another_store_is_ignored(store: DiskStore, tmp_path: Path) -> None:
    elsewhere = DiskStore(path=tmp_path / "elsewhere")
    lease = _lease(elsewhere)
    lease.release()
    assert put(store, b"one", fence=lease.fence)


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_paused_holders_late_put_is_refused_whether_or_not_another_took_over(
    store: DiskStore, other: DiskStore, taken_over: bool
) -> None:
    told, tell = os.pipe()
    go_on, say = os.pipe()

    def hold() -> int:
        lease = _lease(store)
        os.write(tell, b"x")
        os.read(go_on, 1)
        return 10 + put(store, b"late", fence=lease.fence) + 2 * lease.alive()

    pid = forked(hold)
    os.read(told, 1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(TTL + 0.1)
    if taken_over:
        assert put(other, b"good", fence=_lease(other).fence)
    os.write(say, b"x")
    os.kill(pid, signal.SIGCONT)
    assert status_of(pid) == 10
    found = get(store)
    assert (found and found[0]) == (b"good" if taken_over else None)
    for descriptor in (told, tell, go_on, say):
        os.close(descriptor)


def test_a_lease_that_ends_while_its_put_is_still_writing_refuses_that_put(store: DiskStore) -> None:
    lease = _lease(store)

    class Slow(BlobSource):
        def read(self, size: int) -> bytes:
            store.store_close()
            time.sleep(TTL)
            return super().read(size)

    assert not store.store_put(KEY, Slow(Blob.of(b"late")), Expect.ANY, lease.fence)
    assert get(store) is None


def test_a_killed_holder_is_followed_within_its_ttl_and_a_half(store: DiskStore, other: DiskStore) -> None:
    told, tell = os.pipe()

    def hold() -> None:
        _lease(store)
        os.write(tell, b"x")
        time.sleep(60)

    pid = forked(hold)
    os.read(told, 1)
    os.kill(pid, signal.SIGKILL)
    status_of(pid)
    killed = time.monotonic()
    while isinstance(_ask(other), Held):
        time.sleep(0.02)
    assert 0.5 * TTL < time.monotonic() - killed < TTL + 1.5
    os.close(told)
    os.close(tell)


@pytest.mark.parametrize("change", ["boot", "clock", "garbage", "empty", "link"])
def test_a_record_of_another_boot_or_clock_or_no_record_at_all_holds_nothing(
    store: DiskStore, other: DiskStore, root: Path, change: str
) -> None:
    fence = _lease(store, 30).fence
    record = _record(root)
    line, _, body = record.read_bytes().partition(b"\n")
    fields = json.loads(body)
    if change == "boot":
        fields["boot"] = fields["boot"][::-1]
    if change == "clock":
        fields["expires"] += 5000
    record.unlink()
    if change == "link":
        record.symlink_to(root / "nowhere")
    else:
        text = json.dumps(fields, separators=(",", ":")).encode()
        size = line.replace(b" %d " % len(body), b" %d " % len(text)) + b"\n"
        record.write_bytes({"garbage": b"\xff" * 300, "empty": b""}.get(change, size + text))
    assert not put(store, b"late", fence=fence)
    assert isinstance(_ask(other), DiskLease)


def test_the_rewritten_record_of_that_test_holds_as_long_as_nothing_is_changed(store: DiskStore, root: Path) -> None:
    lease = _lease(store, 30)
    _record(root).write_bytes(_record(root).read_bytes())
    assert put(store, b"one", fence=lease.fence)


def test_a_forked_childs_copy_neither_refreshes_nor_releases(store: DiskStore, other: DiskStore) -> None:
    lease = _lease(store)

    def child() -> int:
        lease.release()
        store.store_close()
        return threading.active_count()

    assert status_of(forked(child)) == 1
    assert lease.alive()
    assert isinstance(_ask(other), Held)


def test_closing_the_store_stops_the_refresh_at_once_and_the_lease_runs_out(store: DiskStore, other: DiskStore) -> None:
    lease = _lease(store)
    started = time.monotonic()
    store.store_close()
    assert time.monotonic() - started < 0.1
    assert not lease.alive()
    time.sleep(TTL + 0.1)
    assert isinstance(_ask(other), DiskLease)
    assert not put(store, b"late", fence=lease.fence)


def test_a_lease_that_lost_its_record_stops_refreshing(store: DiskStore, root: Path) -> None:
    lease = _lease(store)
    _record(root).unlink()
    time.sleep(TTL)
    assert not lease.alive()
    assert not _record(root).exists()


def test_a_refresh_that_fails_once_is_tried_again(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = _lease(store)
    real, failures = os.replace, iter([True, True])

    def flaky(*args: object, **named: object) -> None:
        if next(failures, False):
            raise OSError(28, "No space left on device")
        real(*args, **named)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(os, "replace", flaky)
    time.sleep(1.5 * TTL)
    assert lease.alive()


def test_without_a_thread_there_is_no_lease(store: DiskStore, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StoreError, match="needs a thread to refresh it"):
        _ask(store)
    assert not _record(root).exists()
