"""What the file system below the root means: too little space, another host, several users."""

import logging
import os
from pathlib import Path

import pytest
from disk_parts import file_of, get, in_mount, put

from warmcache_disk import DiskStore, space


def test_a_large_object_that_cant_fit_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    program = """
from warmcache_disk import writer
store = DiskStore(path=folder / "store")
put(store, b"one")
writer.Writer.new_name = None  # any draft would fail
answer = [failure(lambda: put(store, bytes(8 << 20))), get(store)[0].decode()]
"""
    line, content = in_mount(tmp_path / "mount", "1m", program)
    assert "it takes 8388608 bytes and 10" in line and "are free: free some space, or set another `path`" in line
    assert content == "one"


def _mount_table(root: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = root.parent.stat().st_dev
    table = root.parent / "mountinfo"
    table.write_text(
        f"21 1 0:999 / /elsewhere rw - nfs4 x:/ rw\n"
        f"22 1 {os.major(device)}:{os.minor(device)} / / rw,noatime master:1 - {kind} server:/data rw\n"
    )
    monkeypatch.setattr(space, "MOUNTS", table)


@pytest.mark.parametrize(("kind", "times"), [("nfs4", 1), ("fuse.sshfs", 1), ("ext4", 0), ("tmpfs", 0)])
def test_a_network_file_system_is_named_once(
    store: DiskStore,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    times: int,
) -> None:
    _mount_table(root, kind, monkeypatch)
    with caplog.at_level(logging.WARNING):
        put(store, b"one")
        put(store, b"two")
    assert [f"network file system ({kind})" in text for text in caplog.messages] == [True] * times


def test_a_missing_mount_table_says_nothing(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "MOUNTS", Path("/nowhere"))
    assert put(store, b"one") and get(store)


def test_folders_below_a_set_group_id_root_keep_it_in_umask_mode(root: Path) -> None:
    old = os.umask(0o002)
    try:
        root.mkdir()
        root.chmod(0o2775)
        put(DiskStore(path=root, permissions="umask"), b"one")
    finally:
        os.umask(old)
    folders = (root / "objects", file_of(root).parent)
    assert {path.stat().st_mode & 0o7777 for path in folders} == {0o2775}
    assert file_of(root).stat().st_mode & 0o777 == 0o664
    assert {path.stat().st_gid for path in (*folders, file_of(root))} == {root.stat().st_gid}
