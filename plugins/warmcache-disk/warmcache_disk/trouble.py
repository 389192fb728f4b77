"""What an error of the operating system means here: one line with the path, what the system said, and what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from warmcore import StoreError

_ACCESS = "give this user access, or set another `path`"
_FILES = "raise the limit of open files (`ulimit -n`)"
_FOLDER = "a file or a link stands where a folder is expected: remove it, or set another `path`"
_LOCKS = "this file system can't lock files: set a `path` on another one"

_REMEDIES = {
    errno.EACCES: _ACCESS,
    errno.EDQUOT: "free some of the quota, or set another `path`",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)",
    errno.EIO: "check the disk and the system's log",
    errno.EISDIR: "a folder stands where a file is expected: remove it",
    errno.ELOOP: "a link stands where none is expected: remove it",
    errno.EMFILE: _FILES,
    errno.ENAMETOOLONG: "set a shorter `path`",
    errno.ENFILE: _FILES,
    errno.ENOENT: "it, or a folder above it, was removed meanwhile: try again",
    errno.ENOLCK: _LOCKS,
    errno.ENOSPC: "free some space, or set another `path`",
    errno.ENOSYS: _LOCKS,
    errno.ENOTDIR: _FOLDER,
    errno.EOPNOTSUPP: _LOCKS,
    errno.EPERM: _ACCESS,
    errno.EROFS: 'mount it writable, set another `path`, or set `mode = "read"`',
    errno.ESTALE: "another host replaced it meanwhile: try again",
}


@contextmanager
def trouble(done: str, path: os.PathLike[str] | str) -> Iterator[None]:
    """Turn an OSError into a StoreError that says what could not be done to `path`. Keep sinks and sources outside."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "check the folder, or set another `path`")
        raise StoreError(f"{os.fspath(path)} can't be {done}: {error.strerror or error}: {remedy}") from error
