"""A baked folder, compiled once by the real compiler, and replicas with folders of their own."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import warmcore
from warmcache_jit import CompileCounter, TritonKernels, offline_driver

# Triton 3.9 warns until this is set, and warnings are errors here.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

TESTS = Path(__file__).parent

Replica = Callable[..., TritonKernels]


@pytest.fixture(scope="session")
def kernels() -> ModuleType:
    """Load the module of test kernels by its path: tests are imported without a package."""
    spec = importlib.util.spec_from_file_location("jit_kernels", TESTS / "jit_kernels.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["jit_kernels"] = module  # Triton looks a kernel's module up by its name
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _triton_as_found(kernels: ModuleType) -> Iterator[None]:
    from triton import knobs

    kernels.forget()
    with knobs.cache.scope(), knobs.compilation.scope():
        yield


@pytest.fixture(scope="session")
def context(kernels: ModuleType) -> warmcore.Context:
    def warm() -> None:
        with offline_driver("cuda:90"):
            kernels.warm()

    return warmcore.Context(
        config_hash=warmcore.config_hash({"layers": 2}),
        factors={"model": "tiny"},
        capability=(9, 0),
        warm_ups={"triton_kernels": warm},
    )


@pytest.fixture(scope="session")
def baked(tmp_path_factory: pytest.TempPathFactory, kernels: ModuleType) -> Path:
    """Compile all kernels once, for all tests; they copy the folder or what was packed from it."""
    folder = tmp_path_factory.mktemp("baked")
    with pytest.MonkeyPatch.context() as patch, CompileCounter() as counter, offline_driver("cuda:90"):
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        kernels.forget()
        kernels.warm()
    assert counter.compiled == kernels.COUNT
    return folder


@pytest.fixture(scope="session")
def asked(context: warmcore.Context) -> warmcore.Request:
    """Build the request that every replica of this context makes."""
    request = TritonKernels().request_params(context)
    assert isinstance(request, warmcore.Request)
    return request


@pytest.fixture(scope="session")
def payload(baked: Path, context: warmcore.Context, asked: warmcore.Request, kernels: ModuleType) -> warmcore.Payload:
    """Pack what was baked, hold it in memory, and mark it as sealed once."""
    cache = TritonKernels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(baked))
        kernels.forget()
        cache.request_params(context)
        cache.warmup(context)
        collected = cache.collect(context)
    assert collected is not None
    files = {name: warmcore.Blob.of(blob.read(1 << 30)) for name, blob in collected.items()}
    return warmcore.Payload(files, warmcore.Origin("default", asked.key("group"), "one"))


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch, context: warmcore.Context, kernels: ModuleType) -> Replica:
    """Make a replica: a cache whose start has begun, with Triton's folder where it is told."""

    def make(folder: Path, this: warmcore.Context = context) -> TritonKernels:
        monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
        kernels.forget()
        cache = TritonKernels()
        assert isinstance(cache.request_params(this), warmcore.Request)
        return cache

    return make


@pytest.fixture
def baker(tmp_path: Path, baked: Path, replica: Replica, context: warmcore.Context) -> TritonKernels:
    """Make a replica that has warmed all kernels in `tmp_path / "first"`, and found them compiled there."""
    first = tmp_path / "first"
    shutil.copytree(baked, first)
    for group in first.glob("*/__grp__*"):
        group.write_text(group.read_text().replace(str(baked), str(first)))
    cache = replica(first)
    cache.warmup(context)
    return cache
