"""The limits on size: eviction of the least recently used for the whole store, refusal for one namespace."""

import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from warmcache_disk import frame
from warmcache_disk.place import LEASES, OBJECTS, Place, entries, files, open_file_place, open_place, shards
from warmcache_disk.record import read_record
from warmcache_disk.root import Root
from warmcache_disk.used import last_uses
from warmcore import StoreError

EVICT_SECONDS = 0.25
_LOCK_SECONDS = 0.02

_log = logging.getLogger(__name__)


class _File(NamedTuple):
    name: str
    size: int
    inode: int
    version: str | None = None


def check_quota(root: Root, key: str, size: int, quota: int) -> None:
    """Raise StoreError if a put would take the namespace of `key` over its quota; nothing is evicted for it."""
    namespace = key.partition("/")[0]
    prefix = f"{namespace}/"
    others = sum(
        entry.size for entry in entries(root, prefix) if entry.key != key and entry.key[len(prefix) :][:1] != "?"
    )
    if others + size > quota:
        raise StoreError(
            f"{root.path}: with these {size} bytes namespace {namespace!r} would hold {others + size}, its quota is "
            f"{quota}: remove some (`warmcore gc`, `warmcore rm`), or raise `quota`"
        )


def evict(root: Root, limit: int, kept: str, totals: dict[str, int], seconds: float = EVICT_SECONDS) -> int:
    """Remove objects, damaged before the least recently used, until `limit` bytes are left; return how many.

    Stays: the file called `kept`, what was replaced meanwhile, and what a standing lease is about. Never raises, and
    stops once `seconds` have passed; the next put goes on. `totals` remembers, for folders that time did not allow to
    look into, the bytes seen there last.
    """
    end, removed = time.monotonic() + seconds, 0
    try:
        found = list(_found(root, totals, end - seconds / 2))  # the other half is for removing
        excess = sum(totals.values()) - limit
        if excess <= 0:
            return 0
        for file in _ordered(root, [file for file in found if file.name != kept], end):
            if excess <= 0 or time.monotonic() > end:
                break
            if _removed(root, file):
                excess -= file.size
                removed += 1
    except (StoreError, OSError) as error:
        _log.info("eviction in %s stopped: %s", root.path, error)
    return removed


def _found(root: Root, totals: dict[str, int], end: float) -> Iterator[_File]:
    for folder, path in shards(root, OBJECTS, shuffled=True):
        totals[path.name] = 0
        for name in files(folder, path):
            try:
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue  # removed meanwhile
            if stat.S_ISREG(info.st_mode):
                totals[path.name] += info.st_size
                yield _File(name, info.st_size, info.st_ino)
        if time.monotonic() > end:
            return


def _ordered(root: Root, found: list[_File], end: float) -> list[_File]:
    # Half of the time that is left is for removing.
    seen = _looked_at(root, (time.monotonic() + end) / 2)
    # After the look, so that what was put before it has its record.
    used = last_uses(root, {file.name for file in found})
    known = [file._replace(version=seen.get(file.name)) for file in found]
    return sorted(known, key=lambda file: (not _is_damaged(file), used.get(file.name, 0), file.name))


def _is_damaged(file: _File) -> bool:
    return file.version is not None and file.version.startswith(frame.UNREADABLE)


def _looked_at(root: Root, end: float) -> dict[str, str]:
    """Return the version of each file, as far as time allows to look."""
    seen: dict[str, str] = {}
    for folder, path in shards(root, OBJECTS, shuffled=True):
        for name in files(folder, path):
            if time.monotonic() > end:
                return seen
            with suppress(StoreError):
                version = Place(root, folder, path / name).version()
                if version is not None:
                    seen[name] = version
    return seen


def _removed(root: Root, file: _File) -> bool:
    """Remove a file if it is still the one that was found; False if it stays."""
    try:
        with open_file_place(root, OBJECTS, file.name) as place:
            if place is None:
                return True
            with place.locked(_LOCK_SECONDS):
                if not _is_still(place, file) or _leased(place):
                    return False
                place.remove()
    except FileNotFoundError:
        return True
    except (StoreError, OSError) as error:
        _log.debug("not evicted: %s", error)
        return False
    return True


def _is_still(place: Place, file: _File) -> bool:
    info = os.stat(file.name, dir_fd=place.folder, follow_symlinks=False)
    return info.st_ino == file.inode and (file.version is None or place.version() == file.version)


def _leased(place: Place) -> bool:
    # A lease stands at what its entries have in common: the key without the name.
    try:
        with place.reading() as found:
            key = found.key if found else None
    except StoreError:
        return False
    if key is None:
        return False
    with open_place(place.root, LEASES, key.rpartition("/")[0]) as lease:
        return lease is not None and read_record(lease) is not None
