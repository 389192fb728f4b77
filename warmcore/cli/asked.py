"""What was asked for: by a stored key, or by the JSON report of a start."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from warmcore.cli.stores import Stores
from warmcore.errors import ConfigError, WarmcoreError
from warmcore.explain import read_head
from warmcore.identity import Identity, Scalar, parse_key
from warmcore.session import report_folder

MAX_REPORT = 64 << 20


class LookUp(msgspec.Struct):
    """One event of a report, as far as look-ups go."""

    name: str
    kind: str
    store: str
    outcome: str
    reason: str = ""


class KindAsked(msgspec.Struct):
    """One kind of a report, as far as its request goes."""

    kind: str
    key: str = ""
    outcome: str = ""
    reason: str = ""
    identity: dict[str, Scalar] = {}


class StartReport(msgspec.Struct):
    """The parts of a start's JSON report that are read here."""

    kinds: list[KindAsked]
    events: list[LookUp] = []
    off: str | None = None


@dataclass(frozen=True)
class Asked:
    """One look-up to explain. `identity` is None where the kind had none."""

    kind: str
    key: str
    origin: str
    identity: Identity | None
    outcome: str = ""
    reason: str = ""
    look_ups: list[LookUp] = field(default_factory=list)


def by_key(stores: Stores, key: str, seconds: float) -> Asked:
    """Take the identity from what is stored at a key, or from the newest report that asked for it; else ConfigError."""
    end = time.monotonic() + seconds
    kind = parse_key(key).kind
    for store in stores.chain.stores:
        head = read_head(stores.chain, store, stores.chain.stored_key(key), end)
        if head is not None:
            return Asked(kind, key, f"stored in {store.name}", Identity(head.header.identity))
    for path in _reports(stores):
        with suppress(WarmcoreError):
            for asked in by_report(path):
                if asked.key == key and asked.identity is not None:
                    return asked
    raise ConfigError(
        f"key {key}: neither stored nor asked for in a report here, and a hash tells no factors: "
        "pass the JSON report of the start that missed"
    )


def by_report(path: Path) -> list[Asked]:
    """Return what a start asked for; ConfigError if this is no report."""
    report = _read(path)
    if report.off is not None:
        raise ConfigError(f"{path}: warmcore was off in this start: {report.off}")
    try:
        return [_asked(kind, report, path) for kind in report.kinds]
    except WarmcoreError as error:
        raise ConfigError(f"{path}: {error}") from None


def _asked(kind: KindAsked, report: StartReport, path: Path) -> Asked:
    identity = Identity(kind.identity) if kind.identity else None
    look_ups = [event for event in report.events if (event.name, event.kind) == ("look-up", kind.kind)]
    return Asked(kind.kind, kind.key, f"report {path}", identity, kind.outcome, kind.reason, look_ups)


def _read(path: Path) -> StartReport:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_REPORT), type=StartReport)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not the JSON report of a start: {error}") from None


def _reports(stores: Stores) -> Iterator[Path]:
    """Yield the reports of this host, newest first."""
    with suppress(WarmcoreError, OSError):
        folder = stores.config.policy.reports or report_folder()
        yield from sorted(folder.glob("[0-9]*-[0-9a-f]*.json"), reverse=True)
