"""The guides quote real code: every block of theirs stands in a file that is run."""

import re
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = [ROOT / "docs" / "write-a-store.md", ROOT / "docs" / "write-a-cache.md"]
QUOTED = [
    *ROOT.glob("examples/warmcache-redis/**/*.py"),
    ROOT / "warmcore" / "testing" / "demo.py",
    *ROOT.glob("tests/test_testing_*.py"),
]


def blocks(language: str) -> list[object]:
    found = ((guide, re.findall(rf"```{language}\n(.*?)```", guide.read_text(), re.DOTALL)) for guide in GUIDES)
    return [pytest.param(text, id=f"{guide.stem}-{at}") for guide, texts in found for at, text in enumerate(texts)]


@pytest.mark.parametrize("block", blocks("python"))
def test_a_block_of_python_stands_in_a_file_that_is_run(block: str) -> None:
    assert [path.name for path in QUOTED if textwrap.dedent(block) in dedented(path, block)] != []


def dedented(path: Path, block: str) -> str:
    """Return a file as it reads at the depth of a block, whose own lines all lie that deep."""
    depth = len(block) - len(block.lstrip(" "))
    return re.sub(rf"(?m)^ {{{depth}}}", "", path.read_text())


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_block_of_toml_says_what_the_example_says(block: str) -> None:
    real = tomllib.loads((ROOT / "examples" / "warmcache-redis" / "pyproject.toml").read_text())
    quoted = tomllib.loads(block)["project"]
    assert {key: real["project"][key] for key in quoted} == quoted
