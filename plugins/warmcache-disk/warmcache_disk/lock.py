"""The short lock of one folder: held while a version is compared and a file renamed, never while bytes are written."""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warmcache_disk.trouble import trouble
from warmcore import StoreError

NAME = ".lock"
LOCK_WAIT = 1.0

# To be written to: network file systems give no exclusive lock on what is open for reading.
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Busy(StoreError):
    """The lock could not be had in time."""


@contextmanager
def locked(folder: int, path: Path, mode: int, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Hold the folder's lock against all threads and processes of this host; StoreError after `wait` s without it."""
    with trouble("locked", path / NAME):
        descriptor = _acquire(folder, path, mode, wait)
    try:
        yield
    finally:
        # Unlocked by hand: a child that another thread forked meanwhile has a copy of the descriptor, and holds it.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _acquire(folder: int, path: Path, mode: int, wait: float) -> int:
    deadline, pause = time.monotonic() + wait, 0.001
    while (descriptor := _attempt(folder, mode)) is None:
        if time.monotonic() > deadline:
            raise Busy(f"{path / NAME} was held for {wait:g} s: look for a stopped process on this store")
        time.sleep(random.uniform(0, pause))  # noqa: S311  # so that waiters do not march in step
        pause = min(2 * pause, 0.05)
    return descriptor


def _attempt(folder: int, mode: int) -> int | None:
    # Opened anew each time: somebody may have removed the file, and a lock on what is gone excludes nobody.
    descriptor = os.open(NAME, _OPEN, mode, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(NAME, dir_fd=folder, follow_symlinks=False)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
