"""What stands at a place, open: is it an object, of which version, and is it whole."""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warmcache_disk import frame
from warmcache_disk.root import Root
from warmcache_disk.trouble import trouble
from warmcore import StoreError

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotAnObject(StoreError):
    """Something stands at a place that no put of ours left there: it is never read, and the next put replaces it."""


@dataclass(frozen=True)
class Found:
    """An open file of the store.

    `key` is None where the line before the bytes is unreadable or another key's; `whole` is False for any damage.
    """

    descriptor: int
    path: Path
    key: str | None
    version: str
    start: int
    size: int
    whole: bool

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes behind the line, of this one file, whatever replaces it meanwhile."""
        position, end = self.start, self.start + self.size
        # What is small goes to its sink in one piece, which is not put together again there.
        step = self.size if self.size <= frame.AT_ONCE else frame.CHUNK
        while position < end:
            with trouble("read", self.path):
                chunk = os.pread(self.descriptor, min(step, end - position), position)
            if not chunk:
                return  # cut while we read: the core's digests tell
            position += len(chunk)
            yield chunk


def open_file(folder: int, path: Path) -> int | None:
    """Open the file of `path` in `folder`, following no link and waiting at no pipe; None if there is none."""
    with trouble("opened", path):
        for last in (False, False, True):
            try:
                return os.open(path.name, _READ, dir_fd=folder)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    raise NotAnObject(f"{path} is a link or a socket, expected a file: remove it") from None
                if error.errno != errno.ESTALE or last:
                    raise
    return None


def examine(root: Root, descriptor: int, path: Path) -> Found:
    """Judge an open file by its owner and its line; NotAnObject unless it is a plain file that this user may trust."""
    with trouble("read", path):
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise NotAnObject(f"{path} is a {_kind(info.st_mode)}, expected a file: remove it")
        if not root.trusted(info.st_uid):
            raise NotAnObject(f'{path} belongs to uid {info.st_uid}: remove it, or set `permissions = "umask"`')
        start = os.pread(descriptor, frame.MAX_LINE, 0)
    line = frame.parse(start)
    if line is None:
        return Found(descriptor, path, None, frame.damaged_version(info, start), 0, info.st_size, False)
    key = line.key if frame.file_name(line.key) == path.name else None
    whole = key is not None and line.start + line.size == info.st_size
    version = line.version if whole else frame.damaged_version(info, start)
    return Found(descriptor, path, key, version, line.start, info.st_size - line.start, whole)


def _kind(mode: int) -> str:
    return {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}.get(stat.S_IFMT(mode), "device")
