"""Installing into Triton's folder: whole or not at all, never through a link, and taken back to the byte."""

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import warmcore
from warmcache_jit import TritonKernels, install

Replica = Callable[..., TritonKernels]


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return tmp_path / "second"


@pytest.fixture
def cache(replica: Replica, second: Path, payload: warmcore.Payload) -> TritonKernels:
    """Make a replica with a folder of its own, which isn't there yet."""
    return replica(second)


def tree(folder: Path) -> dict[str, object]:
    """Return all that stands in a folder: bytes, modes and link targets."""
    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


def content(path: Path) -> object:
    if path.is_symlink():
        return os.readlink(path)
    return (stat.S_IMODE(path.stat().st_mode), path.read_bytes() if path.is_file() else None)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def test_entries_stand_whole_with_the_paths_of_this_folder_and_the_note(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, asked: warmcore.Request, second: Path
) -> None:
    cache.install(context, payload)
    for name, blob in payload.items():
        if "/__grp__" not in name:
            assert (second / name).read_bytes() == blob.read(1 << 30)
            continue
        paths = json.loads((second / name).read_text())["child_paths"]
        assert paths == {child: str((second / name).parent / child) for child in paths}
    note = warmcore.read_note(second / f".warmcore-triton_kernels-{asked.config_hash}.json")
    assert note is not None
    assert note.origin_of(payload) == payload.origin
    assert {path.name for path in second.iterdir() if path.name.startswith(".")} == {
        f".warmcore-triton_kernels-{asked.config_hash}.json"
    }


def test_what_was_installed_is_collected_with_its_origin(
    cache: TritonKernels, replica: Replica, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    cache.install(context, payload)
    found = replica(second).collect(context)
    assert found is not None
    assert found.digest == payload.digest
    assert found.origin == payload.origin


def test_installing_what_stands_changes_nothing_and_undoes_nothing(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    cache.install(context, payload)
    inodes = {path: path.lstat().st_ino for path in second.rglob("*")}
    cache.install(context, payload)()
    assert {path: path.lstat().st_ino for path in second.rglob("*")} == inodes


def test_undo_takes_all_away_and_again_nothing(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    undo = cache.install(context, payload)
    assert tree(tmp_path) != before
    undo()
    assert tree(tmp_path) == before
    cache.install(context, payload)
    after = tree(tmp_path)
    undo()
    assert tree(tmp_path) == after


def spoil(folder: Path, outside: Path) -> None:
    """Leave each kind of obstacle in its own entry, and strangers beside them."""
    empty, cut, holed, linked, filed, foldered = entries(folder)
    for path in empty.iterdir():
        path.unlink()
    os.truncate(next(cut.glob("*.cubin")), 100)
    next(cut.glob("*.cubin")).chmod(0o600)
    next(holed.glob("__grp__*")).unlink()
    (holed / "tmp.pid_1_x").mkdir()
    shutil.move(linked, outside)
    linked.symlink_to(outside)
    shutil.rmtree(filed)
    filed.write_text("a file")
    cubin = next(foldered.glob("*.cubin"))
    cubin.unlink()
    cubin.mkdir()
    ptx = next(foldered.glob("*.ptx"))
    ptx.unlink()
    ptx.symlink_to(outside / "nothing")
    (folder / ("A" * 52)).mkdir()
    (folder / ("A" * 52) / "other.cubin").write_bytes(b"another model's")


def test_damaged_entries_are_replaced_whole_and_undo_restores_them_to_the_byte(
    cache: TritonKernels,
    replica: Replica,
    context: warmcore.Context,
    payload: warmcore.Payload,
    second: Path,
    tmp_path: Path,
) -> None:
    cache.install(context, payload)
    spoil(second, tmp_path / "outside")
    before = tree(tmp_path)
    outside = tree(tmp_path / "outside")
    cache = replica(second)
    undo = cache.install(context, payload)
    found = replica(second).collect(context)
    assert found is not None
    assert found.digest == payload.digest
    assert tree(tmp_path / "outside") == outside
    assert (second / ("A" * 52) / "other.cubin").read_bytes() == b"another model's"
    undo()
    assert tree(tmp_path) == before


def test_undo_leaves_what_triton_has_written_since(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    undo = cache.install(context, payload)
    entry = entries(second)[0]
    fresh = entry / "fresh"
    fresh.write_text("compiled since")
    os.replace(fresh, next(entry.glob("*.cubin")))
    undo()
    assert [path.name for path in entries(second)] == [entry.name]
    assert [path.read_text() for path in entry.iterdir()] == ["compiled since"]


def test_a_folder_with_files_in_a_files_place_is_named_and_nothing_is_live(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    last = max(payload).split("/")[0]
    blocked = second / next(name for name in payload if name.startswith(last) and name.endswith(".cubin"))
    (blocked / "x").mkdir(parents=True)
    before = tree(second)
    with pytest.raises(warmcore.CacheError, match=f"{blocked.name}: Directory not empty"):
        cache.install(context, payload)
    assert tree(second) == before


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room_leaves_nothing_and_names_path_and_errno(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    with files_up_to(5_000), pytest.raises(warmcore.CacheError, match=r"second.*File too large \(errno 27\)"):
        cache.install(context, payload)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("at", range(1, 12))
def test_a_fault_at_any_rename_leaves_what_stood(
    at: int,
    cache: TritonKernels,
    context: warmcore.Context,
    payload: warmcore.Payload,
    second: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache.install(context, payload)
    spoil(second, tmp_path / "outside")
    before = tree(tmp_path)
    calls = 0

    def failing(real: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **kwargs: object) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise OSError(28, "No space left on device", str(args[1]))
            real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing(os.rename))
        patch.setattr(os, "replace", failing(os.replace))
        with pytest.raises(warmcore.CacheError, match="errno 28"):
            cache.install(context, payload)
    assert tree(tmp_path) == before


def test_ctrl_c_midway_passes_and_leaves_nothing(
    cache: TritonKernels,
    context: warmcore.Context,
    payload: warmcore.Payload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tree(tmp_path)
    rename, calls = os.rename, iter(range(9))

    def interrupted(*args: object, **kwargs: object) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        rename(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.install(context, payload)
    assert tree(tmp_path) == before


# TR-05: a folder that can't be written is one line with path and errno.
@pytest.mark.parametrize("obstacle", ["a file", "a dangling link to a file's inside"])
def test_a_folder_that_cannot_be_written_is_named(
    obstacle: str, cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    if obstacle == "a file":
        second.write_text("in the way")
    else:
        second.symlink_to("/dev/null/inside")
    with pytest.raises(warmcore.CacheError, match=rf"{second}.*\(errno \d+\)"):
        cache.install(context, payload)


def as_nobody(action: Callable[[], None]) -> str:
    """Run in a child that is another user; return what CacheError said."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            action()
        except warmcore.CacheError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as said:
        return said.read()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_folder_of_another_user_is_read_and_an_install_fails_in_one_line(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload
) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        cache = replica(Path(name))
        cache.install(context, payload)
        os.truncate(next(entries(Path(name))[0].glob("*.cubin")), 100)

        def action() -> None:
            if (found := cache.collect(context)) is None or len(found) != len(payload) - 8:
                raise warmcore.CacheError("not read")
            cache.install(context, payload)

        said = as_nobody(action)
    assert said.startswith(f"Triton's cache folder {name}: {name}/{install.STAGE}")
    assert said.endswith(": Permission denied (errno 13)")
    assert "\n" not in said


def test_modes_follow_the_umask(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    before = os.umask(0o027)
    try:
        cache.install(context, payload)
    finally:
        os.umask(before)
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in second.rglob("*")}
    assert modes == {(True, 0o750), (False, 0o640)}


def test_the_root_itself_may_be_a_link(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "scratch")
    replica(tmp_path / "linked").install(context, payload)
    found = replica(tmp_path / "linked").collect(context)
    assert found is not None
    assert found.origin == payload.origin


def test_an_unsealed_payload_leaves_no_note(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    cache.install(context, warmcore.Payload(payload))
    assert not list(second.glob(".*"))


def test_stages_of_the_killed_are_swept_after_an_hour_and_younger_ones_are_not(
    cache: TritonKernels, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    old = second / f"{install.STAGE}{int(time.time()) - 4000:x}-dead"
    young = second / f"{install.STAGE}{int(time.time()) - 60:x}-alive"
    for stage in (old, young, second / f"{install.STAGE}nonsense"):
        (stage / "entry").mkdir(parents=True)
    cache.install(context, payload)
    assert not old.exists()
    assert young.exists()
    assert (second / f"{install.STAGE}nonsense").exists()


INSTALL = """
import sys, pathlib, time, warmcore
from warmcache_jit.install import install
source, folder, go = map(pathlib.Path, sys.argv[1:])
files = {str(path.relative_to(source)): warmcore.Blob.of(path) for path in source.rglob("*") if path.is_file()}
payload = warmcore.Payload(files, warmcore.Origin("default", "v1/triton_kernels/" + "0" * 64 + "/all", "one"))
while not go.exists():
    time.sleep(0.001)
for _ in range(5):
    install(folder, payload, ".note.json")
"""


def test_processes_that_install_one_payload_at_once_all_succeed(
    payload: warmcore.Payload, second: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    for name, blob in payload.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(blob.read(1 << 30))
    command = [sys.executable, "-c", INSTALL, str(source), str(second), str(tmp_path / "go")]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    time.sleep(0.5)
    (tmp_path / "go").touch()
    assert [(child.wait(30), child.communicate()[1]) for child in children] == [(0, b"")] * 4
    assert [path.name for path in second.iterdir() if path.name.startswith(".")] == [".note.json"]
    assert {path.name for path in entries(second)} == {name.split("/")[0] for name in payload}


def test_a_reader_never_meets_an_entry_that_is_not_whole(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload, second: Path
) -> None:
    done, torn = threading.Event(), list[str]()
    second.mkdir()

    def read() -> None:
        while not done.is_set():
            for group in second.glob("?/" + "[A-Z2-7]" * 52 + "/__grp__*"):
                torn.extend(path for path in json.loads(group.read_text())["child_paths"].values() if missing(path))

    def missing(path: str) -> bool:
        return not os.path.exists(path)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for at in range(5):
            replica(second / str(at)).install(context, payload)
    finally:
        done.set()
        reader.join()
    assert not torn
