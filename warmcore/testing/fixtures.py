"""The pytest plugin: fixtures that import the kit when they are used, so that other test runs pay nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from warmcore.testing.engine import FakeEngine


@pytest.fixture
def warmcore_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the kit's stores (memory, slow, ...) and its cache `demo` for this test alone.

    Returns the folder for a child's PYTHONPATH.
    """
    from warmcore.testing.site import install_plugins

    folder = install_plugins(tmp_path / "warmcore-plugins")
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def warmcore_engine(tmp_path: Path, warmcore_plugins: Path) -> "FakeEngine":  # noqa: ARG001  # that they are installed
    """Return a fake engine in a folder of its own, whose config can name the kit's plugins."""
    from warmcore.testing.engine import FakeEngine

    return FakeEngine(tmp_path / "warmcore-engine")
