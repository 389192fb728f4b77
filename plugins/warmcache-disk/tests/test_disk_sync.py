"""Kills can't see a missing fsync: these tests record the calls."""

import os
from pathlib import Path
from typing import Any

import pytest
from disk_parts import KEY, LEASE, get, put

from warmcache_disk import DiskStore
from warmcore import Expect

Call = tuple[str, str, str]


def _recorded(monkeypatch: pytest.MonkeyPatch, store: DiskStore, leased: bool = False) -> list[Call]:
    """Return the calls of a first put, after a lease or not, as (what, path, target)."""
    calls: list[Call] = []
    fsync, replace, mkdir = os.fsync, os.replace, os.mkdir

    def path_of(descriptor: int | None, name: Any = "") -> str:
        return os.path.join(os.readlink(f"/proc/self/fd/{descriptor}") if descriptor else "", name).rstrip("/")

    def on_fsync(descriptor: int) -> None:
        calls.append(("sync", path_of(descriptor), ""))
        fsync(descriptor)

    def on_replace(source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        calls.append(("replace", path_of(src_dir_fd, source), path_of(dst_dir_fd, target)))
        replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def on_mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        calls.append(("mkdir", path_of(dir_fd, path), ""))
        mkdir(path, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", on_fsync)
        patch.setattr(os, "replace", on_replace)
        patch.setattr(os, "mkdir", on_mkdir)
        if leased:
            store.store_lease(LEASE, KEY, Expect.ABSENT, 30, None)
        assert put(store, b"one")
    store.store_close()
    return calls


def _is_durable(calls: list[Call]) -> bool:
    """Whether file, then folder, are synced about the rename, and the parent of each new folder after it was made."""
    (renamed,) = (index for index, call in enumerate(calls) if call[0] == "replace" and "/objects/" in call[2])
    _, draft, target = calls[renamed]
    made = [(index, os.path.dirname(path)) for index, (what, path, _) in enumerate(calls) if what == "mkdir"]
    return (
        ("sync", draft, "") in calls[:renamed]
        and ("sync", os.path.dirname(target), "") in calls[renamed:]
        and all(("sync", parent, "") in calls[index:] for index, parent in made)
    )


def test_file_folder_and_new_parents_are_synced_in_order_and_no_sync_is_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _recorded(monkeypatch, DiskStore(path=tmp_path / "deep" / "store"))
    assert [what for what, _, _ in calls].count("mkdir") == 4
    assert _is_durable(calls)
    syncs = [index for index, (what, _, _) in enumerate(calls) if what == "sync"]
    for index in syncs:
        assert not _is_durable(calls[:index] + calls[index + 1 :])


def test_folders_that_a_lease_made_first_are_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _recorded(monkeypatch, DiskStore(path=tmp_path / "deep" / "store"), leased=True)
    assert [what for what, _, _ in calls].count("mkdir") == 6
    assert _is_durable(calls)


def test_a_delete_is_synced_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(path=root)
    put(store, b"one")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert store.store_delete(KEY, Expect.ANY)
    assert len(synced) == 1


def test_the_fast_mode_syncs_nothing_and_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        store = DiskStore(path=root, durable=False)
    assert "not synced" in caplog.text
    assert "sync" not in {what for what, _, _ in _recorded(monkeypatch, store)}
    assert get(store) is not None
