"""What starting costs: whole processes, from their start to their exit."""

import subprocess
import sys
from functools import partial

from bench_rounds import repeated, side_by_side

ROUNDS = 20
HEAVY = ("grpc", "google", "numpy", "torch", "triton", "zstandard")


def measure() -> dict[str, object]:
    """Return seconds by program, and which of the heavy libraries each one imported."""
    python = [sys.executable, "-c"]
    programs = {
        "python": [*python, "pass"],
        "import warmcore": [*python, "import warmcore"],
        "list-plugins": [sys.executable, "-m", "warmcore", "list-plugins"],
    }
    seconds = side_by_side({name: repeated(partial(_run, call), 1) for name, call in programs.items()}, ROUNDS)
    imported = {name: _imported(program) for name, program in programs.items() if name != "python"}
    plugins = len(_run(programs["list-plugins"]).splitlines()) - 1
    return {"seconds": seconds, "imported": imported, "looked for": list(HEAVY), "plugins": plugins}


def _imported(program: list[str]) -> list[str]:
    # Told by the interpreter: a command may have stdout to itself.
    told = subprocess.run([program[0], "-X", "importtime", *program[1:]], capture_output=True, check=True, text=True)
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.stderr.splitlines()}
    return sorted(modules.intersection(HEAVY))


def _run(program: list[str]) -> str:
    return subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True).stdout
