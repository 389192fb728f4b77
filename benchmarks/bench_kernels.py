"""Adopting 24 Triton kernels: the example's engine, started cold once a round and then warm, each in a new folder."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench_rounds import seconds_of

ROUNDS = 3
WARM = 3


def measure(repository: Path, scratch: Path) -> Mapping[str, object]:
    """Return what each start's report says, and the seconds of its whole process."""
    starts: dict[str, list[dict[str, object]]] = {"cold": [], "warm": []}
    for _ in range(ROUNDS):
        base = Path(tempfile.mkdtemp(dir=scratch))
        starts["cold"].append(_start(repository, base, "cold"))
        starts["warm"] += [_start(repository, base, f"warm-{number}") for number in range(WARM)]
    return starts


def _start(repository: Path, base: Path, name: str) -> dict[str, object]:
    engine, folder = repository / "examples" / "engine", base / name
    folder.mkdir()
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(folder),
        "TRITON_DEFAULT_FP_FUSION": "1",
        "WARMCORE_CONFIG": str(engine / "warmcore.toml"),
    }
    program = [sys.executable, str(engine / "engine.py")]
    before = set(base.glob("reports/*.json"))
    seconds = seconds_of(
        lambda: subprocess.run(program, cwd=base, env=environment, stdout=subprocess.DEVNULL, check=True)
    )
    (path,) = set(base.glob("reports/*.json")) - before
    plain = seconds_of(partial(_write, _files(folder), base / f"{name}-plain"))
    return {"seconds": round(seconds, 3), "plain": round(plain, 5), **_read(path)}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files as a plain loop would, to show what the file system takes of it."""
    for parent in {name.rpartition("/")[0] for name in files}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        with open(f"{folder}/{name}", "wb", buffering=0) as file:
            file.write(data)


def _read(path: Path) -> dict[str, object]:
    report = json.loads(path.read_text())
    (kind,) = report["kinds"]
    steps: dict[str, float] = {}
    for event in report["events"]:
        name = " ".join(filter(None, (event["name"], event["store"])))
        steps[name] = steps.get(name, 0.0) + round(event["seconds"], 5)
    return {
        "outcome": kind["outcome"],
        "own": round(kind["seconds"], 5),
        "warm_up": round(kind["warm_up_seconds"], 4),
        "bytes": kind["bytes"],
        "steps": steps,
    }
