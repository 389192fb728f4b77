"""The note that install and publish leave beside an engine's folder, which has no seal.

It says what stands there, and from which publish.
"""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from warmcore.blob import Origin, Payload
from warmcore.errors import CacheError

MAX_NOTE = 8 << 20


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Namespace, key and generation of what was installed, with each file's SHA-256."""

    namespace: str
    key: str
    generation: str
    files: dict[str, str]

    def origin_of(self, payload: Payload) -> Origin | None:
        """Return the noted origin if the payload is exactly what the note names, else None."""
        same = {name: blob.sha256 for name, blob in payload.items()} == self.files
        return Origin(self.namespace, self.key, self.generation) if same else None


def write_note(path: Path, payload: Payload) -> None:
    """Write the note of an installed payload, whole or not at all; a payload that was never sealed leaves none."""
    if payload.origin is None:
        return
    files = {name: blob.sha256 for name, blob in payload.items()}
    note = Note(payload.origin.namespace, payload.origin.key, payload.origin.generation, files)
    write_whole(path, msgspec.json.encode(note))


def read_note(path: Path) -> Note | None:
    """Return the note at `path`; None if there is none, or it is not one."""
    try:
        # Whatever stands there must not be waited for, as a pipe would be.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return msgspec.json.decode(file.read(MAX_NOTE), type=Note)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace a file so that readers see the old or the new one; the umask cuts `mode`. CacheError if it can't."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.parent / f".warmcore-{uuid.uuid4().hex}"
        try:
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(data)
            os.replace(name, path)
        except BaseException:
            _quietly(lambda: os.unlink(name))
            raise
    except OSError as error:
        raise CacheError(f"{path} can't be written: {error.strerror or error}") from error


def _quietly(action: Callable[[], object]) -> None:
    try:
        action()
    except OSError:
        pass  # the first error is the one to report
