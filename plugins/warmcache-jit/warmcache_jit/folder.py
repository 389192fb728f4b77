"""Triton's cache folder: where it is, and how entries are read from it without following a link."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warmcache_jit.layout import MAX_JSON, Files, group_name, parse_group, render_group
from warmcore import Blob, CacheError, Reject

# Most files are smaller, and a larger buffer is fresh memory for each.
_CHUNK = 1 << 16


def cache_folder(configured: Path | None) -> Path:
    """Return the folder of Triton's entries, and point Triton at exactly that one.

    Configured, else Triton's own. An empty or blank name is the default, `~` expands, and a relative name becomes
    absolute now, so that a later change of the working folder moves neither Triton nor us. CacheError without a home.
    """
    from triton import knobs

    stated = "" if configured in (None, Path()) else str(configured)
    name = stated or knobs.cache.dir.strip() or os.path.join(knobs.cache.home_dir.strip() or "~", ".triton", "cache")
    expanded = os.path.expanduser(name)
    if expanded.startswith("~"):
        raise CacheError(f"Triton's cache folder {name!r} has no home folder to lie in: set TRITON_CACHE_DIR")
    path = os.path.abspath(expanded)
    if os.path.normpath(knobs.cache.dir) != path:
        knobs.cache.dir = path
    return Path(path)


@dataclass(frozen=True)
class Found:
    """An entry as it stands: its group file, and size and SHA-256 of each file that the group lists."""

    group: str
    files: dict[str, tuple[int, str]]


def look(root: Path, entry: str) -> Found:
    """Hash what an entry's group lists; Reject if it is not all there, or a link.

    What else lies in the folder (temporary folders, locks) is not of the entry.
    """
    path = root / entry
    with rejecting(entry), open_folder(path) as folder:
        group = group_name(os.listdir(folder))
        children = _children(path, _read(folder, group, MAX_JSON))
        return Found(group, {name: _hash(folder, name) for name in children})


def read_entry(root: Path, entry: str) -> dict[str, Blob]:
    """Return an entry's files as they travel: the group file with names alone; Reject as `look`."""
    found = look(root, entry)
    path = root / entry
    files = {name: _blob(path, name, size, digest) for name, (size, digest) in found.files.items()}
    return files | {found.group: Blob.of(render_group(found.files))}


def stands(root: Path, entry: str, files: Files) -> bool:
    """Tell whether an entry is there already, with these very bytes and a group file that leads to them."""
    try:
        found = look(root, entry)
    except Reject:
        return False
    expected = {name: (blob.size, blob.sha256) for name, blob in files.items() if name != found.group}
    return found.group in files and found.files == expected


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Open a folder, itself and no link to it, for calls that take `dir_fd`."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def rejecting(name: str) -> Iterator[None]:
    """Turn an OSError into a Reject that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise Reject(f"{error.filename or name!r:.120} is gone") from None
    except (OSError, ValueError) as error:
        file, cause = getattr(error, "filename", None) or name, getattr(error, "strerror", None) or error
        raise Reject(f"{file!r:.120} can't be read: {cause}") from None


def _children(path: Path, group: bytes) -> list[str]:
    """Return the names that a group file lists; Reject unless each path leads into this very folder."""
    paths = parse_group(group)
    for name, child in paths.items():
        if os.path.basename(child) != name:
            raise Reject(f"group file gives {name!r:.120} the path {child!r:.200}")
    for folder in {os.path.dirname(child) for child in paths.values()}:
        if not _same_folder(folder, path):
            raise Reject(f"group file leads to {folder!r:.200}: copied from there, and Triton would still read there")
    return list(paths)


def _blob(path: Path, name: str, size: int, digest: str) -> Blob:
    def read_at(start: int, count: int) -> bytes:
        with rejecting(name), open_folder(path) as folder, _open(folder, name) as file:
            return os.pread(file, count, start)

    return Blob(size, read_at, promised=digest)


def _hash(folder: int, name: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with _open(folder, name) as file:
        while chunk := os.read(file, _CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _read(folder: int, name: str, cap: int) -> bytes:
    with _open(folder, name) as file:
        return os.read(file, cap)


@contextmanager
def _open(folder: int, name: str) -> Iterator[int]:
    # Not blocking: a pipe that stands here must not hold the engine.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Reject(f"{name!r:.120} is not a regular file")
        yield file
    finally:
        os.close(file)


def _same_folder(one: str, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
