"""Clear away temporary files whose writers were killed."""

import logging
import os
import random
import time
from contextlib import suppress
from pathlib import Path

from warmcache_disk.place import LEASES, OBJECTS, listed, shards
from warmcache_disk.root import Root
from warmcache_disk.writer import Writer
from warmcore import StoreError

_log = logging.getLogger(__name__)


def sweep(root: Root, seconds: float = float("inf")) -> int:
    """Remove our own temporary files of dead writers, and those over an hour old; return how many. Never raises.

    Stops once `seconds` have passed, so a slow file system holds nobody up; what is left waits for the next sweep.
    """
    end, removed = time.monotonic() + seconds, 0
    for area in random.sample((OBJECTS, LEASES), 2):
        try:
            for folder, path in shards(root, area):
                removed += _sweep_folder(folder, path)
                if time.monotonic() > end:
                    return removed
        except StoreError as error:
            _log.debug("sweep of %s stopped: %s", root.path / area, error)
    return removed


def _sweep_folder(folder: int, path: Path) -> int:
    removed = 0
    for name in listed(folder, path):
        writer = Writer.of(name)
        if writer is not None and writer.gone():
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
                removed += 1
    return removed
