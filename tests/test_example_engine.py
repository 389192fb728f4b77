"""The main job: three replicas share one store and compile 24, 0 and 24; the count can fail."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ENGINE = Path(__file__).parent.parent / "examples" / "engine"

UNREWRITTEN = """
import json, sys
from warmcache_jit import install
there = sys.argv.pop(1)
install.render_group = lambda children, folder: json.dumps(
    {"child_paths": {name: f"{there}/{folder.name}/{name}" for name in children}}
).encode()
sys.path.insert(0, sys.argv.pop(1))
import engine
engine.main()
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run it once; return what it left behind and what it said."""
    folder = tmp_path_factory.mktemp("engine") / "warm"
    child = python(str(ENGINE / "run.py"), "--folder", str(folder))
    assert child.returncode == 0, child.stdout + child.stderr
    return folder, child.stdout


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("WARMCORE_", "TRITON_"))}
    return subprocess.run([sys.executable, *arguments], env=ours | environment, capture_output=True, text=True)


def reports(folder: Path) -> list[dict[str, object]]:
    kinds = [json.loads(path.read_text())["kinds"] for path in sorted((folder / "reports").iterdir())]
    return [found[0] for found in kinds]


def test_replicas_compile_24_then_0_then_24(started: tuple[Path, str]) -> None:
    counts = [
        (int(compiled), int(loaded)) for compiled, loaded in re.findall(r"compiled (\d+), loaded (\d+)", started[1])
    ]
    assert counts == [(24, 0), (0, 24), (24, 0)]


def test_the_first_replicas_folder_is_gone_before_the_second_starts(started: tuple[Path, str]) -> None:
    assert not (started[0] / "replica-1").exists()


def test_each_start_leaves_a_report_that_says_what_happened(started: tuple[Path, str]) -> None:
    cold, warm, other = reports(started[0])
    assert [kind["outcome"] for kind in (cold, warm, other)] == ["miss", "hit", "miss"]
    assert isinstance(warm["usage"], dict) and len(warm["usage"]["used"]) == 24
    assert isinstance(warm["seconds_saved"], float)


def test_the_third_report_names_the_factor_that_changed(started: tuple[Path, str]) -> None:
    differs = reports(started[0])[2]["differs"]
    assert differs == [{"factor": "engine.tensor_parallel", "left": 2, "right": 1}]


def test_with_the_group_files_old_paths_left_unrewritten_the_second_replica_compiles_24(
    started: tuple[Path, str], tmp_path: Path
) -> None:  # proves that the count can fail
    folder, _ = started
    child = python(
        "-c",
        UNREWRITTEN,
        str(folder / "replica-1"),
        str(ENGINE),
        WARMCORE_CONFIG=str(ENGINE / "warmcore.toml"),
        WARMCORE_STORES__FLEET__PATH=str(folder / "store"),
        WARMCORE_POLICY__REPORTS=str(tmp_path / "reports"),
        TRITON_CACHE_DIR=str(tmp_path / "triton"),
        TRITON_DEFAULT_FP_FUSION="1",
    )
    assert "compiled 24, loaded 0" in child.stdout, child.stdout + child.stderr


def test_a_count_that_is_off_ends_with_status_1_and_one_line(tmp_path: Path) -> None:
    child = python(str(ENGINE / "run.py"), "--folder", str(tmp_path / "warm"), WARMCORE_DISABLE="1")
    assert child.returncode == 1
    assert child.stderr.splitlines() == ["failed: compiled 24, 24, 24, expected 24, 0, 24: see the tables above"]
