"""A granted lease of this host: it keeps its record fresh until it is released, or loses it."""

import logging
import os
import threading

import msgspec

from warmcache_disk.place import LEASES, Place, open_place
from warmcache_disk.record import Record, clock, is_held, write_record
from warmcache_disk.root import Root
from warmcore import Fence, StoreError

_log = logging.getLogger(__name__)


class DiskLease:
    """A granted lease; a daemon thread refreshes it each ttl/6 until `release`. In a forked child it only runs out."""

    def __init__(self, root: Root, store: str, key: str, record: Record) -> None:
        self.fence: Fence = {"store": store, "lock": key, "token": record.token}
        self._root = root
        self._record = record
        self._process = os.getpid()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to refresh; StoreError, the lease given back, if the system allows no thread."""
        try:
            threading.Thread(target=self._keep, name="warmcache-disk-lease", daemon=True).start()
        except RuntimeError as error:
            self.release()
            raise StoreError(f"a lease needs a thread to refresh it: {error}: raise the limit (`ulimit -u`)") from error

    def alive(self) -> bool:
        """Whether the lease stands as far as this process knows; reads no file."""
        return not self._stopped.is_set() and self._record.living()

    def release(self) -> None:
        """Give the lease back. Does not raise: a record that can't be removed runs out by itself."""
        self.stop()
        if os.getpid() != self._process:
            return
        try:
            with open_place(self._root, LEASES, self.fence["lock"]) as place:
                if place is not None:
                    self._remove(place)
        except StoreError as error:
            _log.info("lease left to run out: %s", error)

    def stop(self) -> None:
        """Stop refreshing, at once and without waiting for the thread."""
        if os.getpid() == self._process:
            self._stopped.set()

    def _remove(self, place: Place) -> None:
        with place.locked():
            if is_held(place, self.fence["token"]):
                place.remove()

    def _keep(self) -> None:
        while not self._stopped.wait(self._record.ttl / 6) and self._record.living():
            try:
                if not self._refresh():
                    break
            except StoreError as error:
                _log.info("lease not refreshed, trying again: %s", error)
        self._stopped.set()

    def _refresh(self) -> bool:
        # Taken before the check: a process stopped between the two writes a record that has run out.
        renewed = msgspec.structs.replace(self._record, expires=clock() + self._record.ttl)
        with open_place(self._root, LEASES, self.fence["lock"]) as place:
            if place is None:
                return False
            with place.locked():
                if not is_held(place, self.fence["token"]):
                    return False
                write_record(place, self.fence["lock"], renewed)
        self._record = renewed
        return True
