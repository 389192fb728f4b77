"""What happened in a start: events as they come, one report at the end, as a table for people and JSON for scripts."""

import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Literal

from warmcore.contracts import Usage
from warmcore.errors import reason_of
from warmcore.identity import Difference
from warmcore.tables import render

log = logging.getLogger("warmcore")

Outcome = Literal[
    "hit", "miss", "reject", "error", "timeout", "not applicable", "done", "stored", "unchanged", "refused"
]
Step = Literal["look-up", "install", "warm-up", "collect", "publish", "back-fill"]


@dataclass(frozen=True)
class Event:
    """One thing that happened, in plain scalars and never with a factor's value. `at` is Unix seconds."""

    at: float
    name: Step
    kind: str
    key: str
    store: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    bytes: int = 0


@dataclass
class KindReport:
    """How one kind fared. `seconds` is warmcore's own time; `seconds_saved` is None where no cost was recorded."""

    kind: str
    key: str = ""
    outcome: Outcome = "not applicable"
    store: str = ""
    reason: str = ""
    generation: str | None = None
    bytes: int = 0
    seconds: float = 0.0
    warm_up_seconds: float | None = None
    seconds_saved: float | None = None
    usage: Usage | None = None
    identity: dict[str, object] = field(default_factory=dict)
    nearest: str | None = None
    differs: list[Difference] = field(default_factory=list)


@dataclass
class Report:
    """One start of one engine process. `problems`: what could not be used, and why; `off`: why nothing was done.

    `failed`: the publishes that failed, of those that `[policy] on_write_error` counts.
    """

    namespace: str
    off: str | None = None
    problems: list[str] = field(default_factory=list)
    kinds: list[KindReport] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    path: Path | None = None

    def look_ups(self) -> Counter[tuple[str, Outcome]]:
        """Count look-ups by store and outcome; the sum is the number of look-ups."""
        return Counter((event.store, event.outcome) for event in self.events if event.name == "look-up")

    def stores(self) -> dict[str, dict[str, float]]:
        """Return figures by store: how often each outcome came, seconds spent, and bytes read and written."""
        found: dict[str, dict[str, float]] = {}
        for event in self.events:
            figures = found.setdefault(event.store, {}) if event.store else {}
            direction = "bytes_read" if event.name == "look-up" else "bytes_written"
            for name, amount in ((event.outcome, 1), ("seconds", event.seconds), (direction, event.bytes)):
                figures[name] = figures.get(name, 0) + amount
        return found

    def to_json(self) -> str:
        """Return everything as JSON; what is no plain data (a cache may say anything was used) as its repr."""
        plain = {"stores": self.stores()} | {item.name: getattr(self, item.name) for item in fields(self)}
        return json.dumps(_plain(plain), indent=1)

    def table(self) -> str:
        """Return the start as text: a line per event, then problems, and what differs from the nearest stored entry."""
        if self.off:
            return f"warmcore is off: {self.off}"
        lines = render(
            ("kind", "step", "store", "outcome", "seconds", "bytes", "saved", "used", "reason"),
            list(map(self._row, self.events)),
        )
        lines += [f"problem: {problem}" for problem in self.problems] + [f"failed: {each}" for each in self.failed]
        return "\n".join([*lines, *filter(None, map(_differs, self.kinds))])

    def _row(self, event: Event) -> tuple[str, ...]:
        kind = next((kind for kind in self.kinds if kind.kind == event.kind), KindReport(event.kind))
        adopted = event.name == "look-up" and event.outcome == "hit" and event.store == kind.store
        saved = ("unknown" if kind.seconds_saved is None else f"{kind.seconds_saved:.2f} s") if adopted else ""
        used = _used(kind.usage) if adopted else ""
        size, reason = f"{event.bytes:,}" if event.bytes else "", " ".join(event.reason.split())
        return (
            event.kind,
            event.name,
            event.store,
            event.outcome,
            f"{event.seconds:.3f}",
            size,
            saved,
            used,
            reason,
        )


class Events:
    """Collects a start's events and tells each listener, one by one, in its own try."""

    def __init__(self, listeners: Sequence[Callable[[Event], None]] = ()) -> None:
        self._listeners = listeners
        self.seen: list[Event] = []

    def emit(self, event: Event) -> None:
        self.seen.append(event)
        log.log(
            logging.WARNING if event.outcome in ("reject", "error", "timeout") else logging.DEBUG, "%s", _line(event)
        )
        for listener in self._listeners:
            try:
                listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001  # a listener's bug is not the engine's
                log.warning("listener failed: %s", reason_of(error))


def _plain(value: object) -> object:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, Difference):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        # A list in a list is nothing of ours, and may hold itself.
        return [_shown(item) if type(item) in (list, tuple) else _plain(item) for item in value]
    return _shown(value)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # a plugin's own class
        return f"a {type(value).__name__}"


def _line(event: Event) -> str:
    reason = f": {event.reason}" if event.reason else ""
    return f"{event.kind} {event.name} {event.store or '-'}: {event.outcome}{reason} ({event.seconds:.3f} s)"


def _used(usage: Usage | None) -> str:
    if usage is None or usage.unknown is not None:
        return "unknown"
    return f"{len(usage.used)} of {len(usage.used) + len(usage.unused)}"


def _differs(kind: KindReport) -> str:
    if not kind.differs:
        return ""
    factors = "; ".join(f"{item.factor} is {item.left!r} here, {item.right!r} there" for item in kind.differs)
    return f"{kind.kind}: nearest stored entry {kind.nearest} differs in {factors}"
