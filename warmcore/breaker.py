"""A breaker for one store: after three failures in a row it is not asked for a while."""

import threading
import time

from warmcore.errors import DeadlineExceeded, StoreError, reason_of

FAILURES = 3
REST_SECONDS = 30.0


class Breaker:
    """Opens after 3 failures, lets one call through after 30 s, and closes when that one works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._last: StoreError | None = None
        self._opened = 0.0

    def check(self) -> None:
        """Raise what the last failure was, a timeout or an error, while the store rests."""
        with self._lock:
            if self._failures < FAILURES or self._last is None:
                return
            left = self._opened + REST_SECONDS - time.monotonic()
            if left <= 0:
                self._opened = time.monotonic()  # this one call tries; the others go on resting
                return
            reason = f"not asked, it failed {self._failures} times ({reason_of(self._last)}); next try in {left:.0f} s"
            raise (DeadlineExceeded if isinstance(self._last, DeadlineExceeded) else StoreError)(reason)

    def failed(self, error: StoreError) -> None:
        with self._lock:
            self._failures += 1
            self._last, self._opened = error, time.monotonic()

    def worked(self) -> None:
        with self._lock:
            self._failures, self._last = 0, None
