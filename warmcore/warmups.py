"""The engine's own warm-ups: each runs exactly once, whatever the plugins around it make of that."""

from collections.abc import Iterable
from types import MethodType

from warmcore.contracts import WarmUp


class Once:
    """A warm-up as a plugin gets it: runs once, and remembers what it raised."""

    def __init__(self, call: WarmUp) -> None:
        self._call = call
        self.ran = False
        self.error: BaseException | None = None

    def __call__(self) -> None:
        if self.ran:
            return
        self.ran = True
        try:
            self._call()
        except BaseException as error:
            self.error = error
            raise


def distinct(calls: Iterable[WarmUp]) -> list[WarmUp]:
    """Return each callable once, in order: by identity, since one need be neither hashable nor comparable."""
    found: list[WarmUp] = []
    for call in calls:
        if not any(same(call, other) for other in found):
            found.append(call)
    return found


def same(one: WarmUp, other: WarmUp) -> bool:
    """Tell whether two names mean one callable; a bound method is a new object each time it is named."""
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other
