"""Entries put into Triton's folder, whole or not at all, and taken away again."""

import errno
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from warmcache_jit.folder import open_folder, stands
from warmcache_jit.keepsakes import Keepsakes, remove_ours, write_new
from warmcache_jit.layout import Files, entries_of, group_name, render_group
from warmcore import Blob, CacheError, Payload, Reject, StoreError, Undo, read_note, write_note

STAGE = ".warmcore-stage-"
STALE_SECONDS = 3600
WRITERS = 4


def install(root: Path, payload: Payload, note: str) -> Undo:
    """Put a judged payload's entries into `root` and leave the note last.

    CacheError with path and cause if it can't: then nothing of it is left.
    """
    job = _Install(root)
    try:
        job.run(entries_of(payload))
        job.leave_note(note, payload)
    except BaseException as error:
        with suppress(CacheError):
            job.undo()
        if isinstance(error, OSError):
            raise _cannot(root, error) from error
        if isinstance(error, (Reject, StoreError)):
            raise CacheError(f"Triton's cache folder {root}: nothing installed: {error}") from error
        raise
    return job.undo


def sweep(root: Path) -> None:
    """Remove what an install that was killed left in `root`: stages whose name says that they are over an hour old."""
    for name in os.listdir(root):
        started = name.removeprefix(STAGE).partition("-")[0]
        with suppress(ValueError):
            if name.startswith(STAGE) and int(started, 16) < time.time() - STALE_SECONDS:
                shutil.rmtree(root / name, ignore_errors=True)


class _Install:
    """One install. What takes each step back is kept on a stack; undoing twice finds it empty."""

    def __init__(self, root: Path) -> None:
        self._named = root
        self._root = Path(os.path.realpath(root))
        self._back = ExitStack()
        self._kept = Keepsakes(self._root)

    def undo(self) -> None:
        try:
            self._back.close()
        except OSError as error:
            raise _cannot(self._root, error) from error

    def run(self, entries: Mapping[str, Files]) -> None:
        self._make_root()
        sweep(self._root)
        stage = self._root / f"{STAGE}{int(time.time()):x}-{uuid.uuid4().hex}"
        wanted = {entry: files for entry, files in entries.items() if not stands(self._root, entry, files)}
        try:
            # All of it is written before any of it is live: a full disk shows here.
            stage.mkdir()
            # Most of the time goes into making files, where the system lets others work meanwhile.
            with ThreadPoolExecutor(WRITERS) as writers:
                staged = writers.map(lambda entry: self._stage(stage / entry, entry, wanted[entry]), wanted)
                inodes = dict(zip(wanted, staged, strict=True))
            for entry, files in wanted.items():
                self._place(stage / entry, entry, group_name(files), inodes[entry])
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def leave_note(self, name: str, payload: Payload) -> None:
        note = read_note(self._root / name)
        if payload.origin is None or (note and note.origin_of(payload) == payload.origin):
            return
        with open_folder(self._root) as folder:
            self._back.callback(self._kept.restore, self._root, name, self._kept.keep(folder, name))
        write_note(self._root / name, payload)
        self._back.callback(remove_ours, self._root, name, os.lstat(self._root / name).st_ino)

    def _make_root(self) -> None:
        for folder in [path for path in (self._root, *self._root.parents) if not path.exists()][::-1]:
            self._back.callback(_remove_empty, folder)
            folder.mkdir(exist_ok=True)

    def _stage(self, stage: Path, entry: str, files: Files) -> dict[str, int]:
        """Write an entry as it will stand, with the paths of its final place; return the inodes, the group's last."""
        stage.mkdir()
        group = group_name(files)
        children = sorted(files.keys() - {group})
        ready = {name: files[name] for name in children}
        ready[group] = Blob.of(render_group(children, self._named / entry))
        with open_folder(stage) as folder:
            return {name: write_new(folder, name, blob.chunks()) for name, blob in ready.items()}

    def _place(self, staged: Path, entry: str, group: str, inodes: Mapping[str, int]) -> None:
        target = self._root / entry
        if not target.is_dir() or target.is_symlink():
            self._clear(entry)
            self._back.callback(_remove_empty, target)
        try:
            os.rename(staged, target)  # takes the place of an empty folder too
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._replace(staged, target, group, inodes)
        else:
            self._take_back(target, inodes)

    def _clear(self, entry: str) -> None:
        """Take away the file or link that stands where an entry's folder should be."""
        with open_folder(self._root) as folder:
            if kept := self._kept.keep(folder, entry):
                self._back.callback(self._kept.restore, self._root, entry, kept)
                os.unlink(entry, dir_fd=folder)

    def _replace(self, staged: Path, target: Path, group: str, inodes: Mapping[str, int]) -> None:
        """Replace an entry that another process may be reading: file by file, the group file last."""
        with open_folder(target) as folder:
            for name in sorted(inodes, key=lambda name: name != group):
                self._back.callback(self._kept.restore, target, name, self._kept.keep(folder, name))
            self._take_back(target, inodes)
            for name in inodes:
                os.replace(staged / name, name, dst_dir_fd=folder)

    def _take_back(self, target: Path, inodes: Mapping[str, int]) -> None:
        for name, inode in inodes.items():
            self._back.callback(remove_ours, target, name, inode)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _cannot(root: Path, error: OSError) -> CacheError:
    return CacheError(f"Triton's cache folder {root}: {error.filename}: {error.strerror} (errno {error.errno})")
