"""Parts that the tests of this plugin share."""

import hashlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warmcache_disk import DiskStore
from warmcore import Blob, BlobSource, Expect, Fence

LEASE = "default/v1/triton_kernels/" + "a" * 64
KEY = f"{LEASE}/all"


class Bytes:
    """A sink that keeps all."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, chunk: bytes) -> None:
        self.data += chunk


def get(store: DiskStore, key: str = KEY) -> tuple[bytes, str] | None:
    sink = Bytes()
    version = store.store_get(key, sink, False)
    return None if version is None else (sink.data, version)


def put(
    store: DiskStore, data: bytes, *, expect: Expect | str = Expect.ANY, fence: Fence | None = None, key: str = KEY
) -> bool:
    return store.store_put(key, BlobSource(Blob.of(data)), expect, fence)


def content_of(store: DiskStore, key: str = KEY) -> bytes | None:
    found = get(store, key)
    return None if found is None else found[0]


def version_of(store: DiskStore, key: str = KEY) -> str:
    found = get(store, key)
    assert found is not None
    return found[1]


def file_of(root: Path, key: str = KEY, area: str = "objects") -> Path:
    name = hashlib.sha256(key.encode()).hexdigest()
    return root / area / name[:2] / name


def drafts(root: Path) -> list[Path]:
    return list(root.rglob(".draft-*"))


def forked(action: Callable[[], object]) -> int:
    """Run an action in a child and return its pid; the child's exit status is what the action returns, as an int."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        status = int(action() or 0)  # type: ignore[call-overload]  # an int, a bool or None
    except BaseException:  # noqa: BLE001  # the child ends here, whatever it was
        traceback.print_exc()
    finally:
        os._exit(status)


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


_IN_MOUNT = """
import json, subprocess, sys
from pathlib import Path
from disk_parts import *
from warmcore import StoreError
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + sys.argv[2], "tmpfs", folder], check=True)
def failure(action):
    try:
        action()
    except StoreError as error:
        return str(error)
"""


def in_mount(folder: Path, size: str, program: str) -> Any:
    """Run a program with a small file system of its own at `folder`; returns what it leaves in `answer`."""
    folder.mkdir()
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    code = f"{_IN_MOUNT}\n{program}\nprint(json.dumps(answer))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path[1:]])}
    command = [*unshare, sys.executable, "-c", code, str(folder), size]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
