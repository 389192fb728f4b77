"""What is packed, and what is left out: half-made entries, strangers, links, and what changes under our hands."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import warmcore
from warmcache_jit import TritonKernels, offline_driver

Damage = Callable[[Path], object]


def entry_of(folder: Path) -> Path:
    """Return the first entry; what is done to it is done to one of six."""
    return min(folder.glob("*/__grp__*")).parent


def file_of(entry: Path, suffix: str) -> Path:
    return next(path for path in entry.glob(f"*.{suffix}") if not path.name.startswith("__grp__"))


def group_of(entry: Path) -> Path:
    return next(entry.glob("__grp__*"))


def test_a_payload_is_whole_entries_and_its_bytes_do_not_tell_the_folder(
    baker: TritonKernels, context: warmcore.Context, kernels: ModuleType, tmp_path: Path
) -> None:
    payload = baker.collect(context)
    assert payload is not None
    assert baker.left_out == []
    assert len({name.split("/")[0] for name in payload}) == kernels.COUNT
    groups = [name for name in payload if "/__grp__" in name]
    assert len(groups) == kernels.COUNT
    for name in groups:
        entry = name.split("/")[0]
        paths = json.loads(payload[name].read(1 << 20))["child_paths"]
        assert paths == {child: child for child in paths}
        assert {f"{entry}/{child}" for child in paths} == {
            other for other in payload if other.startswith(f"{entry}/") and other != name
        }
        assert str(tmp_path).encode() not in payload[name].read(1 << 20)


def test_before_anything_is_warmed_nothing_of_a_folder_is_ours(
    baker: TritonKernels, replica: Callable[..., TritonKernels], context: warmcore.Context, tmp_path: Path
) -> None:
    assert replica(tmp_path / "first").collect(context) is None
    assert replica(tmp_path / "absent").collect(context) is None


def test_other_models_entries_stay_where_they_are(
    replica: Callable[..., TritonKernels], context: warmcore.Context, kernels: ModuleType, baker: TritonKernels
) -> None:
    with offline_driver("cuda:90"):
        kernels.warm(blocks=(32,))  # not by this start's warm-up
    payload = baker.collect(context)
    assert payload is not None
    assert len({name.split("/")[0] for name in payload}) == kernels.COUNT


# TR-01: what lies around in a live folder.
def litter(folder: Path) -> None:
    entry = entry_of(folder)
    stem = group_of(entry).name.removeprefix("__grp__").removesuffix(".json")
    for name in (f"tmp.pid_12_ab/{stem}.ttir", ".staging/x", "locks/a.lock", f"{stem}.cubin.tmp.pid_3", "lock"):
        for root in (folder, entry):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("half")
    shutil.copytree(entry, folder / "tmp.pid_9_cd")
    launcher = folder / ("B" * 52)
    launcher.mkdir()
    (launcher / "__triton_launcher.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\x7fELF")


def test_temporary_files_locks_and_launchers_are_not_packed(
    baker: TritonKernels, context: warmcore.Context, tmp_path: Path
) -> None:
    clean = baker.collect(context)
    litter(tmp_path / "first")
    littered = baker.collect(context)
    assert clean is not None
    assert littered is not None
    assert littered.digest == clean.digest
    assert baker.left_out == []


def unlink(entry: Path, suffix: str) -> None:
    file_of(entry, suffix).unlink()


def list_form(entry: Path) -> None:
    group = json.loads(group_of(entry).read_text())
    group_of(entry).write_text(json.dumps({"child_paths": sorted(group["child_paths"])}))


def other_arch(entry: Path) -> None:
    file = file_of(entry, "json")
    file.write_text(file.read_text().replace('"arch": 90', '"arch": 80'))


def folder_for_file(entry: Path) -> None:
    file = file_of(entry, "cubin")
    file.unlink()
    file.mkdir()


def linked(entry: Path) -> None:
    file = file_of(entry, "cubin")
    outside = entry.parent.parent / "outside.cubin"
    file.rename(outside)
    file.symlink_to(outside)


def linked_entry(entry: Path) -> None:
    outside = entry.parent.parent / "outside"
    entry.rename(outside)
    entry.symlink_to(outside)


def pipe(entry: Path) -> None:
    file_of(entry, "ptx").unlink()
    os.mkfifo(entry / f"{group_of(entry).name.removeprefix('__grp__').removesuffix('.json')}.ptx")


def renamed(entry: Path) -> None:
    other = max(entry.parent.glob("*/__grp__*")).parent
    shutil.rmtree(entry)
    shutil.copytree(other, entry)
    group_of(entry).write_text(group_of(entry).read_text().replace(other.name, entry.name))


def outside_path(entry: Path) -> None:
    group_of(entry).write_text(group_of(entry).read_text().replace(str(entry), "/etc"))


# TR-02, TR-04, CD-01, CD-03: each leaves one entry of six out, with the reason.
DAMAGE: dict[str, tuple[Damage, str]] = {
    "a missing cubin": (lambda entry: unlink(entry, "cubin"), "is gone"),
    "a missing stage": (lambda entry: unlink(entry, "ttir"), "is gone"),
    "an empty cubin": (lambda entry: file_of(entry, "cubin").write_bytes(b""), "is empty"),
    "a cut cubin": (lambda entry: os.truncate(file_of(entry, "cubin"), 5000), "cut short"),
    "a cubin that is none": (lambda entry: file_of(entry, "cubin").write_bytes(b"x" * 9000), "not a 64-bit ELF"),
    "a folder for a file": (folder_for_file, "not a regular file"),
    "no group file": (lambda entry: group_of(entry).unlink(), "0 group files"),
    "an empty group file": (lambda entry: group_of(entry).write_bytes(b""), "group file is not strict JSON"),
    "half a group file": (lambda entry: os.truncate(group_of(entry), 100), "group file is not strict JSON"),
    "a group in list form": (list_form, "the form of Triton 2.x and of remote cache managers"),
    "a group without children": (lambda entry: group_of(entry).write_text("{}"), "no child_paths"),
    "a group that leads elsewhere": (outside_path, "copied from there"),
    "metadata of another chip": (other_arch, "compiled for 'cuda:80:32', asked for 'cuda:90:32'"),
    "a renamed entry": (renamed, "renamed or tampered with"),
    "a linked file": (linked, "symbolic links"),
    "a linked entry": (linked_entry, "can't be read"),
    "a pipe for a file": (pipe, "not a regular file"),
    "no entry at all": (shutil.rmtree, "is gone"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_left_out_with_its_reason(
    name: str, baker: TritonKernels, context: warmcore.Context, kernels: ModuleType, tmp_path: Path
) -> None:
    damage, reason = DAMAGE[name]
    entry = entry_of(tmp_path / "first")
    damage(entry)
    payload = baker.collect(context)
    assert payload is not None
    assert len({file.split("/")[0] for file in payload}) == kernels.COUNT - 1
    assert [left for left, _ in baker.left_out] == [entry.name]
    assert reason in baker.left_out[0][1]


def test_a_file_that_vanishes_while_packing_leaves_its_entry_out(
    baker: TritonKernels,
    context: warmcore.Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from warmcache_jit import folder

    entry, children = entry_of(tmp_path / "first"), folder._children

    def vanish(path: Path, group: bytes) -> list[str]:
        names = children(path, group)
        if path == entry:
            file_of(path, "cubin").unlink()
        return names

    monkeypatch.setattr(folder, "_children", vanish)
    payload = baker.collect(context)
    assert payload is not None
    assert [left for left, _ in baker.left_out] == [entry.name]


def test_nothing_whole_is_no_payload(baker: TritonKernels, context: warmcore.Context, tmp_path: Path) -> None:
    for group in (tmp_path / "first").glob("*/__grp__*"):
        group.unlink()
    assert baker.collect(context) is None


def test_a_warm_up_that_raises_still_leaves_what_it_compiled(
    baker: TritonKernels,
    replica: Callable[..., TritonKernels],
    context: warmcore.Context,
    kernels: ModuleType,
    tmp_path: Path,
) -> None:
    def warm() -> None:
        with offline_driver("cuda:90"):
            kernels.warm(blocks=(64, 63))

    this = warmcore.Context(context.config_hash, context.factors, capability=(9, 0), warm_ups={"triton_kernels": warm})
    cache = replica(tmp_path / "first", this)
    with pytest.raises(Exception, match="power of 2"):
        cache.warmup(this)
    payload = cache.collect(this)
    assert payload is not None
    assert len({name.split("/")[0] for name in payload}) == 2
