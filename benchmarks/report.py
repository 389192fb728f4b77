"""Make RESULTS.md of results.json; with --check only say whether it is up to date."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

INTRO = """# Measurements

Made by `make bench` from [results.json](results.json), which holds every repeat. Competitors take turns, round by
round, so that what else the machine does hits all alike.

- *p50* is the median over the rounds, *best* the shortest round: other work can only add to it.
- *x* is the median of the ratios within a round, *x best* the ratio of the best rounds.
- *holds*: "yes" by the p50, "best only" where just the best rounds keep the target, "no" otherwise.
"""


@dataclass(frozen=True)
class Line:
    """One line of a table: a series of seconds, what it is, and what it must keep.

    `times` is the most that it may take of what `against` takes, `seconds` the most at all.
    """

    series: str
    words: str
    against: str = ""
    times: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Fact:
    """One figure that is no time: what it is, the value, and the most that it may be."""

    words: str
    value: float
    unit: str
    most: float | None = None


TABLE = (
    Line("plain", "`open().read()` and SHA-256 of the same bytes"),
    Line("directed", "disk store, unseal", "plain", 2.5),
    Line("chain", "disk store through the chain: thread, deadline, verdict", "plain", 10, 0.0005),
    Line("zstd", "zstd over disk, unseal", "directed", 2),
    Line("zstd chain", "zstd over disk through the chain", "plain"),
    Line("diskcache", "`diskcache` get and SHA-256", "plain"),
)
BUNDLE = (
    Line("plain", "plain loop: read one file, hash every byte once, write the files"),
    Line("directed", "disk store, unseal, write the files", "plain", 1.3),
    Line("chain", "the same through the chain", "plain", 1.3),
    Line("zstd chain", "zstd over disk through the chain", "plain"),
    Line("cp -r", "`cp -r`: no check", "plain"),
    Line("zipfile", "`zipfile`, stored: CRC-32", "plain"),
    Line("tarfile", "`tarfile`: no check", "plain"),
)
STARTUP = (
    Line("python", "`python -c pass`"),
    Line("import warmcore", '`python -c "import warmcore"`', "python", seconds=0.1),
    Line("list-plugins", "`python -m warmcore list-plugins`", "python", seconds=0.25),
)
KERNELS = (
    Line("plain", "plain loop: write the same files, nothing checked"),
    Line("own", "warmcore's own time in a warm start", "plain", seconds=0.05),
    Line("look-up", "of it: get, unseal, validate"),
    Line("install", "of it: install"),
    Line("publish", "of it: read back and compare"),
    Line("warm warm-up", "warm-up of a warm start: Triton loads"),
    Line("cold warm-up", "warm-up of a cold start: Triton compiles"),
    Line("warm process", "process of a warm start, imports included"),
    Line("cold process", "process of a cold start"),
)


def render(found: dict[str, Any]) -> str:
    """Return the whole page."""
    sections = found["sections"]
    parts = [INTRO, _setting(found)]
    for name, section in SECTIONS.items():
        if name in sections:
            parts.append(section(sections[name]["raw"]) + "\n" + _when(sections[name]))
    return "\n".join(parts)


def _table(raw: dict[str, Any]) -> str:
    size = raw["bytes"]
    facts = [
        Fact("the table as FlashInfer writes it", size["table"], "bytes"),
        Fact("sealed", size["sealed"], "bytes"),
        Fact("the table compressed, level 3", size["compressed table"], "bytes", 1000),
        Fact("sealed and compressed, as stored: with identity and digests", size["compressed"], "bytes"),
    ]
    return _section("A FlashInfer table of 18 KB", TABLE, raw["seconds"], facts)


def _bundle(raw: dict[str, Any]) -> str:
    growth = Fact("memory that adopting adds to a process (peak)", max(raw["growth"]) / 2**20, "MiB", 32)
    facts = [Fact("files", raw["files"], ""), Fact("sealed", raw["bytes"]["sealed"], "bytes"), growth]
    return _section("A bundle of 509 files, 42 MB", BUNDLE, raw["seconds"], facts)


def _startup(raw: dict[str, Any]) -> str:
    imported = [
        f"`{program}` imports of {', '.join(raw['looked for'])}: {', '.join(names) or 'none'}."
        for program, names in raw["imported"].items()
    ]
    facts = [Fact("plugins installed", raw["plugins"], "")]
    return _section("Start-up", STARTUP, raw["seconds"], facts) + "\n" + "\n\n".join(imported) + "\n"


def _kernels(raw: dict[str, Any]) -> str:
    cold, warm = raw["cold"], raw["warm"]
    seconds = {name: [start[name] for start in warm] for name in ("plain", "own")}
    seconds |= {
        step: [sum(took for name, took in start["steps"].items() if name.startswith(step)) for start in warm]
        for step in ("look-up", "install", "publish")
    }
    for name, starts in (("warm", warm), ("cold", cold)):
        seconds[f"{name} warm-up"] = [start["warm_up"] for start in starts]
        seconds[f"{name} process"] = [start["seconds"] for start in starts]
    facts = [
        Fact("warm starts that adopted", sum(start["outcome"] == "hit" for start in warm), f"of {len(warm)}"),
        Fact("bytes adopted", warm[0]["bytes"], "bytes"),
    ]
    return _section("24 Triton kernels", KERNELS, seconds, facts)


SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "table": _table,
    "bundle": _bundle,
    "startup": _startup,
    "kernels": _kernels,
}


def _setting(found: dict[str, Any]) -> str:
    machine, versions = found["machine"], found["versions"]
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{machine['cores']} cores, {machine['cpu']}, Linux {machine['kernel']}; {libraries}.\n"


def _when(section: dict[str, Any]) -> str:
    day = datetime.fromtimestamp(section["at"], UTC).date()
    return f"Commit {section['commit']}, {day}, load of the machine before it {section['load']}.\n"


def _section(heading: str, lines: Sequence[Line], seconds: dict[str, list[float]], facts: Sequence[Fact]) -> str:
    rows = [_row(line, seconds) for line in lines]
    table = _markdown(("", "p50", "best", "x", "x best", "target", "holds"), rows)
    return f"## {heading}\n\n{table}\n\n" + "\n".join(map(_fact, facts)) + "\n"


def _row(line: Line, seconds: dict[str, list[float]]) -> tuple[str, ...]:
    ours = seconds[line.series]
    middle, best = statistics.median(ours), min(ours)
    cells = [line.words, _time(middle), _time(best), "", "", _target(line)]
    figures = [(middle, best, line.seconds)]
    if line.against:
        theirs = seconds[line.against]
        paired = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
        cells[3:5] = f"{paired:.2f}", f"{best / min(theirs):.2f}"
        figures.append((paired, best / min(theirs), line.times))
    return (*cells, _holds([(usual, least, most) for usual, least, most in figures if most is not None]))


def _holds(figures: list[tuple[float, float, float]]) -> str:
    if not figures:
        return ""
    if all(usual <= most for usual, _, most in figures):
        return "yes"
    return "best only" if all(least <= most for _, least, most in figures) else "no"


def _target(line: Line) -> str:
    times = "" if line.times is None else f"{line.times:g} x {line.against}"
    return ", ".join(filter(None, (times, "" if line.seconds is None else _time(line.seconds))))


def _fact(fact: Fact) -> str:
    value = f"{fact.value:,.1f}" if fact.value % 1 else f"{fact.value:,.0f}"
    said = f"- {fact.words}: {value} {fact.unit}".rstrip()
    if fact.most is None:
        return said
    return f"{said} (target {fact.most:,.0f}: {'holds' if fact.value <= fact.most else 'missed'})"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.0f} us"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if RESULTS.md is out of date"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    page, path = render(json.loads(options.results.read_text())), options.results.with_name("RESULTS.md")
    if options.check:
        fresh = path.exists() and path.read_text() == page
        print(f"{path.name} is {'up to date' if fresh else 'not what results.json says: run benchmarks/report.py'}")
        return 0 if fresh else 1
    path.write_text(page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
