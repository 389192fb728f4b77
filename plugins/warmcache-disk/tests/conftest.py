"""What all tests of this plugin start from."""

import os
import sys
from pathlib import Path

import pytest

from warmcache_disk import DiskStore

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> DiskStore:
    """Make a store in the fast mode: what does not need the syncs need not wait for the disk."""
    return DiskStore(path=root, durable=False)
