"""Roots that are missing, wrong, full, read-only or somebody else's: one line each, and nothing good is lost."""

import os
import pwd
import resource
import shutil
from pathlib import Path

import pytest
from disk_parts import KEY, content_of, drafts, file_of, forked, get, in_mount, put, status_of

from warmcache_disk import DiskStore
from warmcore import Expect, Reject, StoreError


def _complaint(store: DiskStore) -> str:
    """Return the one line that a put ends with; a get must not do worse."""
    with pytest.raises(StoreError) as caught:
        put(store, b"one")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, 54321, 54321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


def test_a_root_that_is_a_file_is_named_by_get_and_put(store: DiskStore, root: Path) -> None:
    root.write_text("mine")
    assert f"{root} can't be opened: Not a directory: " in _complaint(store)
    with pytest.raises(StoreError, match="set another `path`"):
        get(store)
    assert root.read_text() == "mine"


def test_a_root_that_is_a_dangling_link_is_named_by_get_and_put(store: DiskStore, root: Path) -> None:
    root.symlink_to(root.parent / "nowhere")
    assert f"{root} is a link to nothing: make the folder" in _complaint(store)
    with pytest.raises(StoreError, match="link to nothing"):
        get(store)


def test_a_root_that_is_a_link_to_ones_own_folder_is_used(store: DiskStore, root: Path) -> None:
    (root.parent / "real").mkdir()
    root.symlink_to(root.parent / "real")
    assert put(store, b"one")
    assert file_of(root.parent / "real").exists()


@pytest.mark.parametrize("linked", [False, True])
def test_another_users_root_is_refused_unless_shared_by_umask(
    root: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    real = root.parent / "real" if linked else root
    real.mkdir()
    if linked:
        root.symlink_to(real)
    _give_away(real, monkeypatch)
    complaint = _complaint(DiskStore(path=root))
    assert f"{root} belongs to uid" in complaint
    assert 'permissions = "umask"' in complaint
    assert list(real.iterdir()) == []
    assert put(DiskStore(path=root, permissions="umask"), b"one")


def test_another_users_file_in_ones_own_root_is_never_read(
    store: DiskStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"one")
    _give_away(file_of(root), monkeypatch)
    if os.geteuid() == 0:
        with pytest.raises(Reject, match=f"{file_of(root).name} belongs to uid 54321: remove it") as caught:
            get(store)
        assert put(store, b"two", expect=caught.value.version or "")
    assert get(DiskStore(path=root, permissions="umask")) is not None


def test_modes_are_private_or_the_umasks(tmp_path: Path) -> None:
    old = os.umask(0o002)
    try:
        for permissions, folder_mode, file_mode in (("private", 0o700, 0o600), ("umask", 0o775, 0o664)):
            root = tmp_path / permissions
            put(DiskStore(path=root, permissions=permissions), b"one")
            folders, files = (
                (root, root / "objects", file_of(root).parent),
                (file_of(root), file_of(root).parent / ".lock"),
            )
            assert {path.stat().st_mode & 0o777 for path in folders} == {folder_mode}
            assert {path.stat().st_mode & 0o777 for path in files} == {file_mode}
    finally:
        os.umask(old)


def test_a_read_only_store_is_read_and_each_write_ends_in_one_line(tmp_path: Path) -> None:
    program = """
store = DiskStore(path=folder / "store")
put(store, b"one")
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
missing = DiskStore(path=folder / "missing" / "store")
answer = [get(store)[0].decode(), len(store.store_list("")), get(missing), missing.store_list(""),
          failure(lambda: put(store, b"two")), failure(lambda: put(missing, b"two")),
          failure(lambda: store.store_delete(KEY, Expect.ANY)),
          failure(lambda: store.store_lease(LEASE, KEY, Expect.ABSENT, 30, None))]
"""
    content, listed, *nothing = in_mount(tmp_path / "mount", "1m", program)
    assert (content, listed) == ("one", 1)
    assert nothing[:2] == [None, []]
    for line in nothing[2:]:
        assert "Read-only file system: mount it writable" in line
        assert str(tmp_path / "mount") in line
        assert "\n" not in line


def test_a_full_disk_fails_the_put_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    program = """
store = DiskStore(path=folder / "store")
put(store, b"one")
lines = [failure(lambda: put(store, b"x" * 100_000)) for _ in range(3)]
answer = [lines, get(store)[0].decode(), len(drafts(folder)), put(store, b"two")]
"""
    lines, content, left, stored = in_mount(tmp_path / "mount", "64k", program)
    assert all("No space left on device: free some space" in line for line in lines)
    assert (content, left, stored) == ("one", 0, True)


def test_a_store_is_not_moved_by_tmpdir_on_another_file_system(tmp_path: Path) -> None:
    program = """
import os, tempfile
os.environ["TMPDIR"] = tempfile.tempdir = "/"
answer = put(DiskStore(path=folder / "store"), b"one")
"""
    assert in_mount(tmp_path / "mount", "1m", program) is True


def test_a_file_size_limit_fails_the_put_and_keeps_the_old_bytes(store: DiskStore, root: Path) -> None:
    put(store, b"one")

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return 7 if "File too large: raise the limit" in _complaint_of(store, b"x" * 100_000) else 1

    assert status_of(forked(limited)) == 7
    assert content_of(store) == b"one"
    assert drafts(root) == []


def test_too_many_open_files_is_an_error_that_names_the_limit_and_leaks_nothing(store: DiskStore) -> None:
    put(store, b"one")

    def limited() -> int:
        free = os.open("/dev/null", os.O_RDONLY)
        os.close(free)
        before = os.listdir("/proc/self/fd")
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
        complaint = _complaint_of(store, b"two")
        return 7 if "ulimit -n" in complaint and os.listdir("/proc/self/fd") == before else 1

    assert status_of(forked(limited)) == 7


def _complaint_of(store: DiskStore, data: bytes) -> str:
    try:
        put(store, data)
    except StoreError as error:
        return str(error)
    return ""


def test_the_default_folder_follows_xdg_then_home_then_the_user_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(home))
    put(DiskStore(), b"one")
    for blank in ("", " ", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", blank)
        put(DiskStore(path=Path()), b"two", expect=Expect.ABSENT)
        shutil.rmtree(home)
    monkeypatch.delenv("HOME")
    user = pwd.struct_passwd(("u", "x", 1, 1, "", str(tmp_path / "database"), ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    put(DiskStore(), b"three")
    where = [tmp_path / "xdg", tmp_path / "database" / ".cache"]
    assert [file_of(folder / "warmcore" / "store").exists() for folder in where] == [True, True]


def test_without_any_home_the_first_use_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert "set `path` of this store, XDG_CACHE_HOME or HOME" in _complaint(DiskStore())


def test_a_random_user_without_a_home_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def stranger() -> int:
        if os.geteuid() == 0:
            os.setuid(54321)
            return 7 if "no home folder is known for uid 54321" in _complaint_of(DiskStore(), b"one") else 1
        return 7

    assert status_of(forked(stranger)) == 7


def test_a_relative_path_is_made_absolute_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = DiskStore(path=Path("here"))
    monkeypatch.chdir("/")
    put(store, b"one")
    assert file_of(tmp_path / "here").exists()


def test_a_store_that_was_removed_meanwhile_is_made_again(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    shutil.rmtree(root)
    assert get(store) is None
    assert put(store, b"two", expect=Expect.ABSENT)
    assert [entry.key for entry in store.store_list("")] == [KEY]
