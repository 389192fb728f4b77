"""How a rule fails, and how it runs several things at once.

A plain `assert` would be skipped under `python -O` outside of test modules.
"""

import hashlib
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

# Not a measure of speed: whatever is not back by then hangs.
HANGS_SECONDS = 60.0


def check(holds: object, message: str) -> None:
    """Fail with a message unless something holds."""
    __tracebackhide__ = True
    if not holds:
        fail(message)


def equal(found: object, expected: object, what: str) -> None:
    """Fail unless two values are equal; long bytes are shown by size, digest and start."""
    __tracebackhide__ = True
    if found != expected:
        fail(f"{what}: found {shown(found)}, expected {shown(expected)}")


def fail(message: str) -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError(message)


def shown(value: object) -> str:
    if isinstance(value, bytes) and len(value) > 40:
        return f"{len(value)} bytes {value[:16]!r}... (sha256 {hashlib.sha256(value).hexdigest()[:12]})"
    return f"{value!r:.400}"


def raised_by(call: Callable[[], object]) -> Exception | None:
    """Return what a call raises, None if it returns."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # what it raises is the question
        return error
    return None


def together(*calls: Callable[[], T]) -> list[T]:
    """Run calls at once, each on a thread of its own, and return their answers in order; the first error is raised."""
    answers: dict[int, T] = {}
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def work(index: int, call: Callable[[], T]) -> None:
        try:
            barrier.wait(HANGS_SECONDS)
            answers[index] = call()
        except BaseException as error:  # noqa: BLE001  # raised again below, on the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_SECONDS)
    if errors:
        raise errors[0]
    check(len(answers) == len(calls), f"{len(calls) - len(answers)} of {len(calls)} calls at once never came back")
    return [answers[index] for index in range(len(calls))]
