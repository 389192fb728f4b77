"""When each object was last used: an empty file `used/<first 2 hex>/<file name>-<milliseconds>` each, none ever read.

Our own record, since file times are unset, copied or coarse on many systems. Best effort: what is lost makes an object
look older than it is, and it goes earlier.
"""

import os
import re
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace

from warmcache_disk.place import listed, shards
from warmcache_disk.root import Root
from warmcore import StoreError

USED = "used"
HOUR = 3600

_MARK = re.compile(r"([0-9a-f]{64})-(\d{1,15})")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Uses:
    """Records uses of one process: each put, and of gets one an hour for each object."""

    def __init__(self) -> None:
        self._got: dict[str, float] = {}

    def got(self, root: Root, name: str) -> None:
        now = time.monotonic()
        if now - self._got.get(name, float("-inf")) >= HOUR:
            # Noted before it is tried: where nothing can be written, it is not tried at each get.
            self._got[name] = now
            record_use(root, name)


def record_use(root: Root, name: str) -> None:
    """Record that the object in a file is used now. Never raises: a read-only store records nothing."""
    unsynced = replace(root, durable=False)
    with suppress(StoreError, OSError), unsynced.folder(USED, name[:2], make=True) as folder:
        if folder is None:
            return
        older = [mark for mark in os.listdir(folder) if mark.startswith(f"{name}-")]
        mark = f"{name}-{time.time_ns() // 1_000_000}"
        with suppress(FileExistsError):
            os.close(os.open(mark, _CREATE, root.file_mode, dir_fd=folder))
        for each in older:
            if each != mark:
                with suppress(OSError):
                    os.unlink(each, dir_fd=folder)


def last_uses(root: Root, standing: Container[str]) -> dict[str, int]:
    """Return the recorded milliseconds by file name, and remove old records of what no longer stands."""
    now, found = time.time_ns() // 1_000_000, dict[str, int]()
    for folder, path in shards(root, USED):
        for mark in map(_MARK.fullmatch, listed(folder, path)):
            if mark is None:
                continue
            name, at = mark[1], int(mark[2])
            if name not in standing and at < now - HOUR * 1000:
                with suppress(OSError):
                    os.unlink(mark[0], dir_fd=folder)
            elif at <= now + HOUR * 1000:  # what a wrong clock dated into the future would never go
                found[name] = max(at, found.get(name, 0))
    return found
