"""What stood in the way of an install, so that an undo can put it back."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from warmcache_jit.folder import open_folder

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Kept:
    """A file (mode, and where its bytes are held), a link (its target), or an empty folder."""

    mode: int
    start: int = 0
    size: int = 0
    link: str = ""


class Keepsakes:
    """Holds the bytes in a file without a name: whoever forgets an undo leaves nothing behind."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file: IO[bytes] | None = None

    def keep(self, folder: int, name: str) -> Kept | None:
        """Remember what stands at a name, None if nothing does; an empty folder goes, since no file can replace it."""
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(mode):
            return Kept(mode, link=os.readlink(name, dir_fd=folder))
        if stat.S_ISDIR(mode):
            os.rmdir(name, dir_fd=folder)
            return Kept(mode)
        if not stat.S_ISREG(mode):
            raise FileExistsError(errno.EEXIST, "neither a file, a link nor a folder stands there: remove it", name)
        return self._store(mode, _read(folder, name))

    def restore(self, path: Path, name: str, kept: Kept | None) -> None:
        """Put back what was kept, unless somebody else's file stands there by now."""
        if kept is None:
            return
        with suppress(FileExistsError), open_folder(path) as folder:
            if stat.S_ISLNK(kept.mode):
                os.symlink(kept.link, name, dir_fd=folder)
            elif stat.S_ISDIR(kept.mode):
                os.mkdir(name, dir_fd=folder)
            else:
                write_new(folder, name, self._chunks(kept), stat.S_IMODE(kept.mode))

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def _store(self, mode: int, chunks: Iterable[bytes]) -> Kept:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._root)  # noqa: SIM115  # lives as long as the undo
        start = self._file.seek(0, os.SEEK_END)
        for chunk in chunks:
            self._file.write(chunk)
        return Kept(mode, start, self._file.tell() - start)

    def _chunks(self, kept: Kept) -> Iterator[bytes]:
        if self._file is None:
            return
        self._file.seek(kept.start)
        left = kept.size
        while left:
            chunk = self._file.read(min(_CHUNK, left))
            left -= len(chunk)
            yield chunk


def remove_ours(path: Path, name: str, inode: int) -> None:
    """Remove a file that we put there, and no other that replaced it."""
    with suppress(FileNotFoundError, NotADirectoryError), open_folder(path) as folder:
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino == inode:
            os.unlink(name, dir_fd=folder)


def write_new(folder: int, name: str, chunks: Iterable[bytes], mode: int | None = None) -> int:
    """Write a file that must not exist, by `mode` or the umask; return its inode."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        for chunk in chunks:
            _write(file, chunk)
        if mode is not None:
            os.fchmod(file, mode)
        return os.fstat(file).st_ino
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])


def _read(folder: int, name: str) -> Iterator[bytes]:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        while chunk := os.read(file, _CHUNK):
            yield chunk
    finally:
        os.close(file)
