"""The store's root: where it is, whom it may belong to, and how folders in it are opened and made to last."""

import errno
import hashlib
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from warmcache_disk.trouble import trouble
from warmcache_disk.writer import boot_id
from warmcore import StoreError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def default_path() -> Path:
    """Return the folder for a store without `path`; a blank or relative variable counts as unset, as XDG says."""
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        value = os.environ.get(variable, "")
        if os.path.isabs(value):
            return Path(value, below, "warmcore", "store")
    with suppress(KeyError):
        home = pwd.getpwuid(os.getuid()).pw_dir
        if os.path.isabs(home):
            return Path(home, ".cache", "warmcore", "store")
    raise StoreError(f"no home folder is known for uid {os.getuid()}: set `path` of this store, XDG_CACHE_HOME or HOME")


@dataclass(frozen=True)
class Root:
    """The root folder and how it is treated. Nothing is kept open: each use starts from the path, after a fork too."""

    path: Path
    private: bool
    durable: bool

    @property
    def file_mode(self) -> int:
        return 0o600 if self.private else 0o666

    @property
    def folder_mode(self) -> int:
        return 0o700 if self.private else 0o777

    @contextmanager
    def folder(self, *names: str, make: bool = False) -> Iterator[int | None]:
        """Open the folder at `names` below the root, through no link; None if it is missing and not to be made."""
        descriptor = self._descend(names, make)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextmanager
    def below(self, folder: int, path: Path) -> Iterator[int | None]:
        """Open the folder at `path`, which stands in the open `folder`, through no link; None if it is missing."""
        descriptor = self._enter(folder, os.fspath(path), make=False)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def identity(self) -> str | None:
        """Name this root for fences: the same in all processes and containers of a host, another on other hosts."""
        with self.folder() as descriptor:
            if descriptor is None:
                return None
            info = os.fstat(descriptor)
        return hashlib.sha256(f"{boot_id()} {info.st_dev} {info.st_ino}".encode()).hexdigest()[:32]

    def trusted(self, owner: int) -> bool:
        return not self.private or owner in (os.geteuid(), 0)

    def sync_folder(self, descriptor: int, path: os.PathLike[str] | str) -> None:
        """Make what was created, renamed or removed in a folder outlive a power cut."""
        if not self.durable:
            return
        with trouble("synced", path):
            try:
                os.fsync(descriptor)
            except OSError as error:
                # Some network file systems can't sync a folder at all, and say so by EINVAL.
                if error.errno != errno.EINVAL:
                    raise

    def _descend(self, names: tuple[str, ...], make: bool) -> int | None:
        if make:
            self._make_root()
        here, path = self._open_root(), os.fspath(self.path)
        for name in names:
            if here is None:
                break
            path = os.path.join(path, name)
            try:
                below = self._enter(here, path, make)
            finally:
                os.close(here)
            here = below
        return here

    def _make_root(self) -> None:
        missing = takewhile(lambda folder: not os.path.lexists(folder), (self.path, *self.path.parents))
        for folder in reversed(list(missing)):
            with trouble("made", folder):
                with suppress(FileExistsError):
                    os.mkdir(folder, self.folder_mode)
                above = os.open(folder.parent, _FOLDER)
            try:
                self.sync_folder(above, folder.parent)
            finally:
                os.close(above)

    def _open_root(self) -> int | None:
        with trouble("opened", self.path):
            try:
                return self._owned(os.open(self.path, _FOLDER), self.path)
            except FileNotFoundError:
                if not self.path.is_symlink():
                    return None
        raise StoreError(f"{self.path} is a link to nothing: make the folder it points to, or set another `path`")

    def _enter(self, above: int, path: str, make: bool) -> int | None:
        name = os.path.basename(path)
        with trouble("opened", path):
            try:
                return self._owned(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above), path)
            except FileNotFoundError:
                if not make:
                    return None
        with trouble("made", path), suppress(FileExistsError):
            os.mkdir(name, self.folder_mode, dir_fd=above)
        # Also after another process made it first: it may not have come to its sync yet.
        self.sync_folder(above, os.path.dirname(path))
        with trouble("opened", path):
            return self._owned(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above), path)

    def _owned(self, descriptor: int, path: os.PathLike[str] | str) -> int:
        try:
            owner = os.fstat(descriptor).st_uid
            if self.trusted(owner):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        remedy = 'set another `path`, or `permissions = "umask"` if all who can write there may run code here'
        raise StoreError(f"{path} belongs to uid {owner}, expected {os.geteuid()} (this process) or 0: {remedy}")
