"""The store: each hook, told in the words of place, lease and sweep."""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmcache_disk import frame
from warmcache_disk.found import NotAnObject
from warmcache_disk.lease import DiskLease
from warmcache_disk.limit import check_quota, evict
from warmcache_disk.lock import Busy
from warmcache_disk.place import (
    LEASES,
    OBJECTS,
    Place,
    entries,
    make_place,
    matches,
    open_file_place,
    open_place,
    unknown_name,
)
from warmcache_disk.record import Record, read_record, standing, write_record
from warmcache_disk.root import Root, default_path
from warmcache_disk.space import check_space, warn_if_network
from warmcache_disk.sweep import sweep
from warmcache_disk.used import Uses, record_use
from warmcore import ConfigError, Entry, Expect, Fence, Held, Lease, Reject, Sink, Size, Source, hookimpl

SWEEP_SECONDS = 0.25

_log = logging.getLogger(__name__)


class DiskStore:
    """Keep sealed artifacts in a folder, whole or absent whatever is killed.

    `path` is the root (default: `warmcore/store` in the user's cache folder). `durable = false` skips every fsync:
    faster, and a power cut may take the latest puts. `permissions` is "private" (folders 0700, files 0600, another
    user's files never read) or "umask". `max_bytes`: above it the least recently used go. `quota`: what one
    namespace may hold; a put over it is refused.
    """

    shared = False

    def __init__(
        self,
        path: Path | None = None,
        durable: bool = True,
        permissions: str = "private",
        max_bytes: Size | None = None,
        quota: Size | None = None,
    ) -> None:
        if permissions not in ("private", "umask"):
            raise ConfigError(f'permissions is {permissions!r}: expected "private" or "umask"')
        # An empty path is Path("."), which nobody means.
        given = None if path is None or str(path).strip() in ("", ".") else path
        self._given = None if given is None else Path(os.path.abspath(os.path.expanduser(given)))
        self._private = permissions == "private"
        self._durable = durable
        self._max_bytes = max_bytes
        self._quota = quota
        self._uses = Uses()
        self._totals: dict[str, int] = {}
        self._known_root: Root | None = None
        self._leases: set[DiskLease] = set()
        self._swept_by = 0
        if not durable:
            _log.info("durable = false: puts are not synced, a power cut may take the latest")

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:  # noqa: ARG002  # one kind of read
        """Hand out what stands at `key`, damaged or not: the seal judges it, and the version lets it be replaced.

        Reject, with a version, for what is no object: a link, a pipe, another user's file.
        """
        with open_place(self._root, OBJECTS, key) as place:
            if place is None:
                return None
            try:
                with place.reading() as found:
                    if found is None:
                        return None
                    for chunk in found.chunks():
                        sink.write(chunk)
                    if self._max_bytes is not None:
                        self._uses.got(self._root, place.path.name)
                    return found.version
            except NotAnObject as error:
                raise Reject(str(error), version=place.planted_version()) from None

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        """Write beside the place, then compare and rename under the lock."""
        version = secrets.token_hex(16)
        line = frame.encode(version, source.size, key)
        with make_place(self._root, OBJECTS, key) as place:
            # Asked before a byte is written, so that those who come late are told so at little cost.
            if not matches(place.version(), expect):
                return False
            if self._quota is not None:
                check_quota(self._root, key, source.size, self._quota)
            check_space(place, source.size)
            with place.draft(frame.with_line(line, source)) as draft, self._decided(place, expect, fence) as allowed:
                if not allowed:
                    return False
                place.publish(draft)
            place.sync()
            self._bound(place)
        self._sweep_once()
        return True

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        """List by the lines before the bytes; a file without a readable line has no key to list it under."""
        return sorted(entries(self._root, prefix))

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        """Delete what stands at `key`; also, by exactly the version listed, a file that is listed as `?<its name>`."""
        with open_place(self._root, OBJECTS, key) as place:
            if place is not None and _may_go(place, expect):
                return self._delete(place, expect)
        name = unknown_name(key)
        if name is None or not isinstance(expect, str) or not expect.startswith(frame.UNREADABLE):
            return False
        with open_file_place(self._root, OBJECTS, name) as place:
            return place is not None and self._delete(place, expect)

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        with make_place(self._root, LEASES, key) as place:
            # Asked without the lock first, so that a thousand waiters do not queue for it.
            if refusal := self._refusal(place, entry, expect):
                return refusal
            try:
                with place.locked():
                    if refusal := self._refusal(place, entry, expect):
                        return refusal
                    record = Record.new(ttl, note)
                    write_record(place, key, record)
            except Busy:
                if refusal := self._refusal(place, entry, expect):
                    return refusal
                raise
        return self._start(DiskLease(self._root, self._root.identity() or "", key, record))

    @hookimpl
    def store_close(self) -> None:
        for lease in list(self._leases):
            lease.stop()

    def sweep(self) -> int:
        """Remove temporary files of dead writers or over an hour old; return how many. A first put does it too."""
        return sweep(self._root)

    @property
    def _root(self) -> Root:
        # No cached_property: Python 3.11 guards it by a lock, which a fork may leave locked.
        if self._known_root is None:
            self._known_root = Root(self._given or default_path(), self._private, self._durable)
        return self._known_root

    def _delete(self, place: Place, expect: Expect | str) -> bool:
        with place.locked():
            if not _may_go(place, expect):
                return False
            place.remove()
        place.sync()
        return True

    def _bound(self, put: Place) -> None:
        if self._max_bytes is not None:
            record_use(self._root, put.path.name)
            evict(self._root, self._max_bytes, put.path.name, self._totals)

    @contextmanager
    def _decided(self, place: Place, expect: Expect | str, fence: Fence | None) -> Iterator[bool]:
        # Always the lease's lock before the object's, so that no two puts wait for each other.
        with standing(self._root, fence) as stands, place.locked():
            yield stands and matches(place.version(), expect)

    def _refusal(self, lease: Place, entry: str, expect: Expect | str) -> Held | None:
        record = read_record(lease)
        with open_place(self._root, OBJECTS, entry) as place:
            changed = not matches(place.version() if place else None, expect)
        if record is not None:
            return Held(record.since, record.note, changed)
        return Held(changed=True) if changed else None

    def _start(self, lease: DiskLease) -> DiskLease:
        self._leases.add(lease)
        lease.start()
        return lease

    def _sweep_once(self) -> None:
        if self._swept_by != os.getpid():
            if not self._swept_by:
                warn_if_network(self._root)
            self._swept_by = os.getpid()
            sweep(self._root, SWEEP_SECONDS)


def _may_go(place: Place, expect: Expect | str) -> bool:
    version = place.version()
    return version is not None and matches(version, expect)
