"""Calls that may hang, each in a daemon thread: an executor would be joined at exit and keep a process alive."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from warmcore.errors import DeadlineExceeded, StoreError, reason_of

T = TypeVar("T")

MAX_SECONDS = 1e6  # more overflows the clock that waits


def run_within(seconds: float, call: Callable[[], T]) -> T:
    """Return what `call` returns or raise what it raises; after `seconds` DeadlineExceeded, and its thread is left.

    SystemExit and KeyboardInterrupt raised in the thread are contained there and become StoreError.
    """
    if seconds <= 0:
        raise DeadlineExceeded("no time was left to ask")
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001  # handed over to the caller's thread
            answers.put((None, error))

    start_daemon(work)
    try:
        value, error = answers.get(timeout=min(seconds, MAX_SECONDS))
    except queue.Empty:
        raise DeadlineExceeded(f"no answer within {seconds:.3g} s") from None
    if error is None:
        return value  # type: ignore[return-value]  # None only if T is
    if isinstance(error, Exception):
        raise error
    raise StoreError(f"tried to end the process with {reason_of(error)}")


def start_daemon(work: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread; StoreError if the system has none left."""
    try:
        thread = threading.Thread(target=work, name="warmcore", daemon=True)
        thread.start()
    except RuntimeError as error:
        raise StoreError(f"no thread to be had: {error}") from None
    return thread
