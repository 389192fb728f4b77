"""Measure warmcore beside plain loops and common libraries, and write results.json; report.py makes a page of it."""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bench_bundle
import bench_kernels
import bench_startup
import bench_table

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
LIBRARIES = ("warmcore", "msgspec", "pluggy", "zstandard", "triton", "diskcache")

SECTIONS: dict[str, Callable[[Path], object]] = {
    "table": lambda scratch: bench_table.measure(REPOSITORY, scratch),
    "bundle": bench_bundle.measure,
    "startup": lambda _: bench_startup.measure(),
    "kernels": lambda scratch: bench_kernels.measure(REPOSITORY, scratch),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="one section; the others' figures stay")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.only and options.out.exists() else {"sections": {}}
    for name in options.only or SECTIONS:
        print(f"measuring {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="warmcore-bench-") as scratch:
            load = os.getloadavg()[0]
            measured = SECTIONS[name](Path(scratch))
        found["sections"][name] = {"commit": commit(), "at": int(time.time()), "load": round(load, 2), "raw": measured}
    found |= {"versions": versions(), "machine": machine()}
    options.out.write_text(_lines(found))


def commit() -> str:
    """Return the commit that is measured, with "+" if files of the code differ from it."""
    code = ("warmcore", "plugins", "examples", "benchmarks/*.py")
    head = _git("rev-parse", "--short=12", "HEAD").strip()
    return f"{head}+" if _git("status", "--porcelain", "--", *code) else head


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in LIBRARIES}


def machine() -> dict[str, object]:
    """Describe the machine by words that name no host."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, text=True).stdout


def _lines(found: object) -> str:
    text = json.dumps(found, indent=1)
    # A list of figures on one line: a diff shows which measurement changed.
    return re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
