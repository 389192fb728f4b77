"""Contexts are kept from get to get, shared by no two at a time, and survive threads and forks."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

import pytest
import zstandard
from zstd_parts import KEY, Bytes, Least, Memory, frame, get, handle, put, wrapped

from warmcache_zstd import unpack
from warmcache_zstd.store import KEPT
from warmcache_zstd.unpack import unpacking
from warmcore import Sink, Store, hookimpl

Idle = deque[zstandard.ZstdDecompressor]
OTHER = KEY + "-other"


def test_one_context_serves_gets_on_many_threads(store: Store, inner: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[zstandard.ZstdDecompressor] = []

    def make(max_window_size: int) -> zstandard.ZstdDecompressor:
        made.append(zstandard.ZstdDecompressor(max_window_size=max_window_size))
        return made[-1]

    monkeypatch.setattr(unpack, "ZstdDecompressor", make)
    inner.set(frame(b"warm"))
    read: list[bytes | None] = []
    for _ in range(5):
        thread = threading.Thread(target=lambda: read.append(get(store)))
        thread.start()
        thread.join()
    assert read == [b"warm"] * 5
    assert len(made) == 1


def test_a_get_that_failed_gives_its_context_back() -> None:
    idle: Idle = deque(maxlen=KEPT)
    with pytest.raises(KeyError), unpacking(Bytes(), idle):
        raise KeyError
    assert len(idle) == 1


def test_only_a_few_contexts_are_kept() -> None:
    idle: Idle = deque(maxlen=KEPT)
    lent = [unpacking(Bytes(), idle) for _ in range(KEPT + 3)]
    for each in lent:
        each.__enter__()
    for each in lent:
        each.__exit__(None, None, None)
    assert len(idle) == KEPT


def test_a_get_inside_a_get_has_a_context_of_its_own(inner: Memory) -> None:
    data = os.urandom(5000)
    inner.set(frame(frame(frame(data))))
    assert get(wrapped(wrapped(wrapped(handle("inner", inner))))) == data


def test_gets_at_one_time_do_not_mix() -> None:
    inner = Least(piece=97)
    store = wrapped(handle("inner", inner))
    contents = {f"{KEY}{number}": os.urandom(100) * (number * 90 + 1) for number in range(8)}
    for key, data in contents.items():
        inner.set(frame(data), key)
    wrong: list[str] = []

    def read(key: str) -> None:
        wrong.extend(key for _ in range(40) if get(store, key) != contents[key])

    threads = [threading.Thread(target=read, args=(key,)) for key in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_child(action: Callable[[], bool]) -> int:
    """Return a child's exit status: 0 if what it did was true."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        status = 0 if action() else 2
    finally:
        os._exit(status)


def works(store: Store, data: bytes, key: str = KEY) -> bool:
    return put(store, data, key=key) and get(store, key) == data


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_process_in_the_middle_of_a_get_has_a_working_store(table: bytes) -> None:
    statuses: list[int] = []

    class Forking(Least):
        @hookimpl
        def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
            version, data = self.held[key]
            sink.write(data[:500])
            if key == KEY:
                statuses.append(in_child(lambda: works(store, table, OTHER)))
            sink.write(data[500:])
            return version

    store = wrapped(handle("inner", Forking()))
    assert works(store, table)
    assert statuses == [0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_of_a_process_whose_threads_are_busy_have_a_working_store(store: Store, table: bytes) -> None:
    done = threading.Event()

    def busy(key: str) -> None:
        while not done.is_set():
            works(store, table, key)

    threads = [threading.Thread(target=busy, args=(f"{KEY}{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert {in_child(lambda: works(store, table)) for _ in range(40)} == {0}
    finally:
        done.set()
        for thread in threads:
            thread.join()


PROGRAM = """
import sys
import warmcache_zstd, warmcore
from warmcore.discovery import find_plugins, load
found, = [each for each in find_plugins("store") if each.name == "zstd"]
load(found)(inner=None)
assert "zstandard" not in sys.modules
"""


def test_listing_loading_and_making_the_store_does_not_import_zstandard() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
