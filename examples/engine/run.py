"""Start three replicas, one after another, over one store: cold, warm, and with another identity.

The first one's working folder is deleted before the second starts. Exits 1 unless they compile 24, 0 and 24 kernels.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT = Path(".warm")
COUNT = 24


@dataclass(frozen=True)
class Replica:
    """One start: what it is, its arguments, and how many kernels it should compile."""

    name: str
    heading: str
    arguments: tuple[str, ...]
    compiles: int


REPLICAS = (
    Replica("cold", "nothing is stored yet", (), COUNT),
    Replica("warm", "adopts what replica 1 published; replica 1's folder is deleted", (), 0),
    Replica("changed", "another identity: tensor_parallel is 2", ("--tensor-parallel", "2"), COUNT),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to keep it all, empty (default: .warm, emptied first)")
    chosen: Path | None = parser.parse_args().folder
    base = (chosen or DEFAULT).absolute()
    if chosen is None:
        shutil.rmtree(base, ignore_errors=True)
    elif base.is_dir() and any(base.iterdir()):
        parser.error(f"{base} is not empty, so the first replica might not start cold: name another folder")
    return run(base)


def run(base: Path) -> int:
    """Start all replicas in `base`; return the exit status."""
    found, lines = [], []
    for number, replica in enumerate(REPLICAS, 1):
        folder = base / f"replica-{number}"
        folder.mkdir(parents=True)
        print(f"== replica {number}, {replica.name}: {replica.heading}", flush=True)
        started = time.monotonic()
        found.append(start(replica, folder))
        seconds = time.monotonic() - started
        print(f"{seconds:.1f} s\n", flush=True)
        lines.append(f"replica {number}  {replica.name:<7}  {found[-1]!s:>4} compiles  {seconds:5.1f} s")
        if number == 1:
            shutil.rmtree(folder)
    expected = [replica.compiles for replica in REPLICAS]
    if found != expected:
        print(f"failed: compiled {listed(found)}, expected {listed(expected)}: see the tables above", file=sys.stderr)
        return 1
    print(*lines, f"the second replica started warm; store and reports: {base}", sep="\n")
    return 0


def start(replica: Replica, folder: Path) -> int | None:
    """Start one replica with a working folder of its own, show what it prints; return how many kernels it compiled."""
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(folder),
        "TRITON_DEFAULT_FP_FUSION": "1",  # Triton 3.9 wants it said
        "WARMCORE_CONFIG": str(HERE / "warmcore.toml"),
    }
    command = [sys.executable, str(HERE / "engine.py"), *replica.arguments]
    child = subprocess.run(  # noqa: S603  # this very example
        command, cwd=folder.parent, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    print(child.stdout, end="", flush=True)
    said = re.search(r"^compiled (\d+), ", child.stdout, re.MULTILINE)
    return int(said[1]) if child.returncode == 0 and said else None


def listed(counts: list[int] | list[int | None]) -> str:
    """Join counts for people; one that is None had no count."""
    return ", ".join("unknown" if count is None else str(count) for count in counts)


if __name__ == "__main__":
    sys.exit(main())
