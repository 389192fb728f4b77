"""A fake engine, and the fake library that it tunes with: one plan per shape, read from a folder or made there."""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warmcore

DRIVER = "driver-550"
SHAPES = ("128x256", "256x512", "4096x4096")
PLAN = re.compile(
    rb"demo-plan (?P<driver>\S+) (?P<device>\S+)\nshape (?P<shape>\d+x\d+)\ntactic (?P<tactic>\d+)\nend\n"
)

_counting: "list[Counts]" = []


@dataclass
class Counts:
    """The names of the plans that the library loaded, and of those that it had to make."""

    loaded: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what the library does inside."""
    counts = Counts()
    _counting.append(counts)
    try:
        yield counts
    finally:
        _counting.remove(counts)


def plan(shape: str, device: str, *, tactic: int | None = None, driver: str = DRIVER) -> bytes:
    """Return a plan's text; the tactic that is best for a shape follows from it."""
    best = zlib.crc32(shape.encode()) % 16 if tactic is None else tactic
    return f"demo-plan {driver} {device}\nshape {shape}\ntactic {best}\nend\n".encode()


def load_or_tune(folder: Path, shape: str, device: str) -> None:
    """Load the plan for a shape, or tune and keep it: what the library does at each first launch."""
    path = folder / f"{shape}.plan"
    found = PLAN.fullmatch(path.read_bytes()) if path.exists() else None
    fits = found is not None and (found["driver"], found["device"]) == (DRIVER.encode(), device.encode())
    if not fits:
        warmcore.write_whole(path, plan(shape, device))
    for counts in _counting:
        (counts.loaded if fits else counts.made).append(path.name)


class FakeEngine:
    """An engine whose plans lie in `folder`. `loaded` and `made` name the plans of its warm-ups so far."""

    def __init__(
        self,
        folder: Path,
        *,
        shapes: Sequence[str] = SHAPES,
        capability: tuple[int, int] | None = (9, 0),
        model: str = "demo-1",
    ) -> None:
        self.folder = folder
        self.shapes = shapes
        self.capability = capability
        self.model = model
        self.loaded: list[str] = []
        self.made: list[str] = []

    def warm_up(self) -> None:
        """Use every shape once."""
        with counting() as counts:
            for shape in self.shapes:
                load_or_tune(self.folder, shape, device_of(self.context()))
        self.loaded += counts.loaded
        self.made += counts.made

    def context(self, **changes: Any) -> warmcore.Context:
        """Return what it hands to a session; `changes` replace fields."""
        fields: dict[str, Any] = {
            "config_hash": warmcore.config_hash({"model": self.model}),
            "factors": {"model": self.model},
            "capability": self.capability,
            "warm_ups": {"demo": self.warm_up},
        }
        return warmcore.Context(**fields | changes)

    def start(self, stores: Mapping[str, Mapping[str, Any]], **config: Any) -> warmcore.Report:
        """Start once with these `[stores.*]` and whatever else a config holds; close the session, return its report."""
        made = {
            "caches": {"demo": {"folder": str(self.folder)}},
            "stores": stores,
            "policy": {"reports": str(self.folder / "reports")},
        }
        with warmcore.Session(made | config) as session:
            return session.start(self.context())


def device_of(context: warmcore.Context) -> str:
    """Return what the library calls the engine's device."""
    major, minor = context.capability or (0, 0)
    return f"sm_{major}{minor}"
