"""The place of one key, `<area>/<first 2 hex>/<sha256 of the key>`: how its file is read, replaced and removed."""

import os
import random
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from warmcache_disk import frame, lock
from warmcache_disk.found import Found, NotAnObject, examine, open_file
from warmcache_disk.root import Root
from warmcache_disk.trouble import trouble
from warmcache_disk.writer import Writer
from warmcore import Entry, Expect, StoreError

OBJECTS = "objects"
LEASES = "leases"

_SHARD = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"[0-9a-f]{64}")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Place:
    """A place whose folder is open as `folder`: all goes through that descriptor, so no planted link leads away."""

    root: Root
    folder: int
    path: Path

    @contextmanager
    def reading(self) -> Iterator[Found | None]:
        """Open what stands here; None if nothing does, NotAnObject for a link, a pipe, or another user's file."""
        descriptor = open_file(self.folder, self.path)
        if descriptor is None:
            yield None
            return
        try:
            yield examine(self.root, descriptor, self.path)
        finally:
            os.close(descriptor)

    def version(self) -> str | None:
        """Return the version of what stands here; None if nothing does."""
        try:
            with self.reading() as found:
                return found.version if found else None
        except NotAnObject:
            return self.planted_version()

    def planted_version(self) -> str | None:
        """Name what stands here and is no object, so that exactly it can be replaced."""
        with trouble("opened", self.path), suppress(FileNotFoundError):
            return frame.planted_version(os.stat(self.path.name, dir_fd=self.folder, follow_symlinks=False))
        return None

    def locked(self, wait: float = lock.LOCK_WAIT) -> AbstractContextManager[None]:
        return lock.locked(self.folder, self.path.parent, self.root.file_mode, wait)

    @contextmanager
    def draft(self, chunks: Iterable[bytes], *, lasting: bool = True) -> Iterator[str]:
        """Write a temporary file beside the place, synced; yields its name for `publish`, and removes it otherwise.

        Not `lasting`: never synced.
        """
        name = Writer.me().new_name()
        try:
            self._write(name, chunks, lasting and self.root.durable)
            yield name
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.folder)

    def publish(self, draft: str) -> None:
        """Put a draft in the place of what stands here, never through it: hard links to the old keep their bytes."""
        with trouble("replaced", self.path):
            os.replace(draft, self.path.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove(self) -> None:
        with trouble("removed", self.path):
            os.unlink(self.path.name, dir_fd=self.folder)

    def sync(self) -> None:
        self.root.sync_folder(self.folder, self.path.parent)

    def _write(self, name: str, chunks: Iterable[bytes], lasting: bool) -> None:
        with trouble("written", self.path):
            descriptor = os.open(name, _CREATE, self.root.file_mode, dir_fd=self.folder)
        try:
            for chunk in chunks:
                with trouble("written", self.path):
                    _write_all(descriptor, chunk)
            with trouble("synced", self.path):
                if lasting:
                    os.fsync(descriptor)
        finally:
            with trouble("written", self.path):
                os.close(descriptor)


@contextmanager
def open_place(root: Root, area: str, key: str) -> Iterator[Place | None]:
    """Open the place of a key; None if its folder was never made."""
    with open_file_place(root, area, frame.file_name(key)) as place:
        yield place


@contextmanager
def open_file_place(root: Root, area: str, name: str) -> Iterator[Place | None]:
    """Open the place of a file by its name; None if its folder was never made."""
    with root.folder(area, name[:2]) as folder:
        yield None if folder is None else Place(root, folder, root.path.joinpath(area, name[:2], name))


@contextmanager
def make_place(root: Root, area: str, key: str) -> Iterator[Place]:
    """Open the place of a key, making the folders that it needs."""
    name = frame.file_name(key)
    with root.folder(area, name[:2], make=True) as folder:
        if folder is None:
            raise StoreError(f"{root.path} was removed meanwhile: try again")
        yield Place(root, folder, root.path.joinpath(area, name[:2], name))


def shards(root: Root, area: str, *, shuffled: bool = False) -> Iterator[tuple[int, Path]]:
    """Yield descriptor and path of each folder of an area that can be opened; it closes when the next is asked for.

    `shuffled`: for who may have to stop early, and would else see the same ones each time.
    """
    with root.folder(area) as folder:
        if folder is None:
            return
        found = sorted(filter(_SHARD.fullmatch, listed(folder, root.path / area)))
        for name in random.sample(found, len(found)) if shuffled else found:
            path = root.path / area / name
            with suppress(StoreError), root.below(folder, path) as shard:
                if shard is not None:
                    yield shard, path


def listed(folder: int, path: Path) -> list[str]:
    with trouble("listed", path):
        return os.listdir(folder)


def files(folder: int, path: Path) -> list[str]:
    """List what in an open shard has the name of an object."""
    return [name for name in listed(folder, path) if _FILE.fullmatch(name)]


def unknown_name(key: str) -> str | None:
    """Return the file name in a key under which a listing shows a file without a readable key."""
    name = key.rpartition("?")[2]
    return name if "?" in key and _FILE.fullmatch(name) else None


def matches(version: str | None, expect: Expect | str) -> bool:
    """Whether what stands is as expected."""
    if expect is Expect.ANY:
        return True
    return version is None if expect is Expect.ABSENT else version == expect


def entries(root: Root, prefix: str) -> Iterator[Entry]:
    """Yield an entry for each file of the store; one whose key is damaged may be any, and stands in every listing."""
    for folder, path in shards(root, OBJECTS):
        for name in files(folder, path):
            with suppress(StoreError):
                entry = _entry(Place(root, folder, path / name), prefix)
                if entry is not None:
                    yield entry


def _entry(place: Place, prefix: str) -> Entry | None:
    unknown = f"{prefix}?{place.path.name}"
    try:
        with place.reading() as found:
            if found is None:
                return None
            entry = Entry(unknown if found.key is None else found.key, found.version, found.size)
            return entry if entry.key.startswith(prefix) else None
    except NotAnObject:
        version = place.planted_version()
        return None if version is None else Entry(unknown, version, 0)


def _write_all(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]
