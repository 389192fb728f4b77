"""What all tests of this plugin start from."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import warmcore

sys.path.insert(0, os.path.dirname(__file__))

from zstd_parts import Memory, handle, wrapped


@pytest.fixture(autouse=True)
def _no_settings_of_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WARMCORE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def inner() -> Memory:
    return Memory()


@pytest.fixture
def store(inner: Memory) -> Iterator[warmcore.Store]:
    store = wrapped(handle("inner", inner))
    yield store
    store.close()


@pytest.fixture
def table() -> bytes:
    data = Path(__file__).parents[3] / "tests" / "data" / "flashinfer" / "h200-fp8-gemm-flashinfer-0.6.18.json"
    return data.read_bytes()
