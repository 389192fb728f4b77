"""Running the command line: in this process, or in one of its own where what reaches its stdout matters."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from warmcore import Blob, BlobSource, Expect, Identity, Payload, Place, Request, artifact
from warmcore.cli import main
from warmcore.identity import Scalar
from warmcore.plugins import Store

ROOT = Path(__file__).parent.parent
KIND = "demo"


@dataclass(frozen=True)
class Ran:
    """What a command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]


def run_inside(capfd: pytest.CaptureFixture[str], *args: str) -> Ran:
    """Run a command in this process, and give it its stdout back."""
    kept = os.dup(1)
    try:
        code = main(args)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    return Ran(code, *capfd.readouterr())


def run_outside(*args: str, path: Path | None = None, **env: str) -> Ran:
    """Run a command in a process of its own; `path` is a folder with distributions made up for a test."""
    paths = os.pathsep.join(map(str, filter(None, (path, ROOT))))
    done = subprocess.run(
        [sys.executable, "-m", "warmcore", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": paths, **env},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def seal(
    factors: Mapping[str, Scalar],
    files: Mapping[str, bytes],
    *,
    kind: str = KIND,
    place: Place | None = None,
    namespace: str = "default",
    keep: float = 86400,
) -> tuple[str, bytes]:
    """Return the key and the sealed bytes of an artifact."""
    request = Request.of(kind, Identity(factors), place or Place())
    key = request.key("rank" if place else "group")
    payload = Payload({name: Blob.of(data) for name, data in files.items()})
    _, blobs = artifact.seal(payload, request, key, namespace=namespace, keep=keep, generation="9" * 32, cost=7.05)
    return key, b"".join(blob.read(1 << 30) for blob in blobs)


def put(store: Store, key: str, data: bytes, *, namespace: str = "default") -> None:
    """Put bytes at a key, whatever they are."""
    if not store.put(f"{namespace}/{key}", BlobSource(Blob.of(data)), Expect.ANY):
        raise AssertionError(key)
