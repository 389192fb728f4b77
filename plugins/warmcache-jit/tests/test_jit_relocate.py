"""A warm start at another place, by real processes and Triton's own word, and a proof that the check can fail."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import warmcore
from warmcache_jit import TritonKernels, install, layout

REPLICA = Path(__file__).with_name("jit_replica.py")
Replica = Callable[..., TritonKernels]


def start(folder: Path) -> tuple[int, int]:
    """Run a replica with this folder; return how many it compiled and how many it loaded."""
    child = subprocess.run([sys.executable, str(REPLICA), str(folder)], stdout=subprocess.PIPE, check=True, text=True)
    compiled, hits = map(int, child.stdout.split())
    return compiled, hits


@pytest.fixture
def carried(
    baker: TritonKernels, context: warmcore.Context, asked: warmcore.Request, tmp_path: Path
) -> warmcore.Payload:
    """Pack what the first replica has, as a store would hold it; then its folder is gone."""
    collected = baker.collect(context)
    assert collected is not None
    files = {name: warmcore.Blob.of(blob.read(1 << 30)) for name, blob in collected.items()}
    shutil.rmtree(tmp_path / "first")
    return warmcore.Payload(files, warmcore.Origin("default", asked.key("group"), "one"))


def test_a_replica_elsewhere_compiles_nothing_once_the_first_folder_is_gone(
    replica: Replica, context: warmcore.Context, carried: warmcore.Payload, kernels: ModuleType, tmp_path: Path
) -> None:
    replica(tmp_path / "second").install(context, carried)
    assert start(tmp_path / "second") == (0, kernels.COUNT)


def test_with_the_old_paths_left_in_the_group_files_it_compiles_all(
    replica: Replica,
    context: warmcore.Context,
    carried: warmcore.Payload,
    kernels: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unrewritten(children: list[str], folder: Path) -> bytes:
        return layout.render_group(children, tmp_path / "first" / folder.name)

    monkeypatch.setattr(install, "render_group", unrewritten)
    replica(tmp_path / "second").install(context, carried)
    assert start(tmp_path / "second") == (kernels.COUNT, 0)


# IN-01: a copied tree still opens the old place.
def test_a_copied_folder_is_not_taken_for_one_of_its_own(
    baker: TritonKernels, replica: Replica, context: warmcore.Context, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    cache = replica(tmp_path / "copy")
    cache.warmup(context)
    assert cache.collect(context) is None
    assert all("copied from there" in reason for _, reason in cache.left_out)


def test_installing_over_a_copied_folder_makes_it_its_own(
    baker: TritonKernels, replica: Replica, context: warmcore.Context, payload: warmcore.Payload, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    replica(tmp_path / "copy").install(context, payload)
    shutil.rmtree(tmp_path / "first")
    cache = replica(tmp_path / "copy")
    cache.warmup(context)
    found = cache.collect(context)
    assert found is not None
    assert found.origin == payload.origin


def test_the_same_payload_at_two_places_is_equal_byte_for_byte(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload, tmp_path: Path
) -> None:
    digests = set()
    for name in ("one", "deeper/two"):
        replica(tmp_path / name).install(context, payload)
        found = replica(tmp_path / name).collect(context)
        assert found is not None
        digests.add(found.digest)
    assert digests == {payload.digest}


# CD-03: what was installed and then changed is rejected, left in place, and replaced by the next install.
@pytest.mark.parametrize("damage", ["flip", "cut", "note"])
def test_a_changed_entry_is_not_seeded_and_the_next_install_heals_it(
    damage: str,
    replica: Replica,
    context: warmcore.Context,
    asked: warmcore.Request,
    payload: warmcore.Payload,
    kernels: ModuleType,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "second"
    replica(folder).install(context, payload)
    cubin = min(folder.glob("*/*.cubin"))
    if damage == "flip":
        data = bytearray(cubin.read_bytes())
        data[-1] ^= 1
        cubin.write_bytes(data)
    elif damage == "cut":
        os.truncate(cubin, cubin.stat().st_size - 1)
    else:
        (folder / f".warmcore-triton_kernels-{asked.config_hash}.json").unlink()
    cache = replica(folder)
    found = cache.collect(context)
    if damage == "note":
        assert found is None  # nothing says whose these are
    else:
        assert found is not None
        assert found.origin is None
        assert len({name.split("/")[0] for name in found}) == kernels.COUNT - 1
        assert "damaged or replaced" in cache.left_out[0][1]
        assert cubin.exists()
    cache.install(context, payload)
    healed = replica(folder).collect(context)
    assert healed is not None
    assert healed.origin == payload.origin
