"""The sweep: only our own files, only of the dead or the old."""

import os
import time
from pathlib import Path

import pytest
from disk_parts import drafts, file_of, forked, put, status_of

from warmcache_disk import DiskStore
from warmcache_disk.writer import Writer


@pytest.fixture
def folder(store: DiskStore, root: Path) -> Path:
    put(store, b"one")
    return file_of(root).parent


def _draft(folder: Path, writer: Writer) -> Path:
    path = folder / writer.new_name()
    path.write_bytes(b"half")
    return path


def _dead() -> Writer:
    """Return a writer that has ended."""
    reading, writing = os.pipe()
    status_of(forked(lambda: os.write(writing, Writer.me().new_name().encode()) and 0))
    writer = Writer.of(os.read(reading, 500).decode())
    os.close(reading)
    os.close(writing)
    assert writer is not None
    return writer


def test_a_dead_writers_file_goes_and_a_living_writers_stays(store: DiskStore, folder: Path) -> None:
    living, dead = _draft(folder, Writer.me()), _draft(folder, _dead())
    assert store.sweep() == 1
    assert living.exists()
    assert not dead.exists()


def test_a_living_process_that_only_has_a_dead_writers_pid_protects_nothing(store: DiskStore, folder: Path) -> None:
    reused = _draft(folder, Writer.me()._replace(started=1))
    assert store.sweep() == 1
    assert not reused.exists()


def test_a_killed_writer_that_nobody_waited_for_counts_as_dead(store: DiskStore, folder: Path) -> None:
    reading, writing = os.pipe()
    pid = forked(lambda: os.write(writing, Writer.me().new_name().encode()) and 0)
    writer = Writer.of(os.read(reading, 500).decode())
    assert writer is not None
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    _draft(folder, writer)
    assert store.sweep() == 1
    status_of(pid)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("change", [{"boot": "0" * 32}, {"boot": "unknown"}, {"space": 1}, {"space": 0}])
def test_a_writer_that_cant_be_judged_from_here_keeps_its_file_for_an_hour(
    store: DiskStore, folder: Path, change: dict[str, str | int]
) -> None:
    now = int(time.time())
    elsewhere = _dead()._replace(**change)  # type: ignore[arg-type]  # a field each
    young = _draft(folder, elsewhere._replace(created=now - 3500))
    old = _draft(folder, elsewhere._replace(created=now - 3700))
    assert store.sweep() == 1
    assert young.exists()
    assert not old.exists()


def test_file_times_play_no_part(store: DiskStore, folder: Path) -> None:
    living, dead = _draft(folder, Writer.me()), _draft(folder, _dead())
    os.utime(living, (0, 0))
    os.utime(dead, (2**33, 2**33))
    store.sweep()
    assert living.exists()
    assert not dead.exists()


def test_files_that_only_look_a_little_like_ours_are_never_touched(store: DiskStore, root: Path, folder: Path) -> None:
    ours = _dead().new_name()
    names = [
        ours[1:],
        f"{ours}x",
        ours.upper(),
        ours[:-1],
        ".draft-",
        "notes.txt",
        f"{ours}.tmp",
        ours.replace("-", "_"),
    ]
    for name in names:
        (folder / name).write_bytes(b"mine")
    (root / ours).write_bytes(b"mine")
    (root / "objects" / ours).write_bytes(b"mine")
    (folder / _dead().new_name()).mkdir()
    assert store.sweep() == 0
    assert all((folder / name).exists() for name in names)


def test_the_first_put_of_a_process_sweeps_and_only_the_first(root: Path, folder: Path) -> None:
    store = DiskStore(path=root)
    _draft(folder, _dead())
    put(store, b"two")
    assert drafts(root) == []
    _draft(folder, _dead())
    put(store, b"three")
    assert len(drafts(root)) == 1
    status_of(forked(lambda: put(store, b"four")))
    assert drafts(root) == []


def test_a_sweep_that_fails_fails_no_put(root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise OSError(5, "Input/output error")

    dead = _draft(folder, _dead())
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", broken)
        assert put(DiskStore(path=root), b"two")
    assert dead.exists()
