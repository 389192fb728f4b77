"""Trying plugins out, each in a child process of its own: what one does reaches neither the others nor our output."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import IO

from warmcore.discovery import LOAD_SECONDS, Found

AT_ONCE = 4


@dataclass(frozen=True)
class Tried:
    """How one plugin fared: the hooks it implements, or why it can't be used."""

    hooks: list[str] = field(default_factory=list)
    problem: str | None = None


def try_all(found: list[Found]) -> list[Tried]:
    """Load each plugin in a child process, a few at once, in the given order."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_try, found))


def _try(found: Found) -> Tried:
    if found.problem:
        return Tried(problem=found.problem)
    # A file, not a pipe: a grandchild that keeps it open holds nobody up.
    with tempfile.TemporaryFile() as answer:
        status = _run(found, answer)
        if status is None:
            return Tried(problem=f"import failed: no answer within {LOAD_SECONDS:g} s")
        answer.seek(0)
        try:
            return Tried(**json.loads(answer.read()))
        except (TypeError, ValueError):
            return Tried(problem=f"import failed: {_end(status)} before it answered")


def _run(found: Found, answer: IO[bytes]) -> int | None:
    """Run the child and return its exit status, None once it is out of time; nothing that it started stays behind."""
    child = subprocess.Popen(  # noqa: S603  # our own module
        [sys.executable, "-P", "-m", "warmcore.cli.probe", json.dumps(asdict(found))],
        stdin=subprocess.DEVNULL,
        stdout=answer,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    try:
        return child.wait(LOAD_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _end(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended its process with status {status}"
