"""Timing side by side: in each round every competitor has its turn, so what else the machine does hits all alike."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Turn = Callable[[], float]
"""One turn of a competitor: returns its seconds."""


def side_by_side(turns: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Return each competitor's seconds, a figure a round; the first round warms up and is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for number in range(rounds + 1):
        # Whoever comes first finds the caches as the last one left them: nobody always does.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken = turns[name]()
            if number:
                seconds[name].append(float(f"{taken:.4g}"))
    return seconds


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def repeated(call: Callable[[], object], times: int) -> Turn:
    """Make a turn of something short: the median of a few calls in a row."""
    return lambda: statistics.median(seconds_of(call) for _ in range(times))


def into_new_folder(call: Callable[[Path], object], base: Path) -> Turn:
    """Make a turn of something that fills a folder; making and emptying the folder is not timed."""

    def turn() -> float:
        folder = Path(tempfile.mkdtemp(dir=base))
        try:
            return seconds_of(lambda: call(folder))
        finally:
            shutil.rmtree(folder)

    return turn
