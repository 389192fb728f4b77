"""The counter and the driver that is not there, by the real compiler."""

from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warmcache_jit import CompileCounter, offline_driver


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def one(kernels: ModuleType) -> None:
    with offline_driver("cuda:90"):
        kernels.warm(blocks=(64,))


def test_counts_a_compile_then_a_hit_and_names_the_entry(kernels: ModuleType, tmp_path: Path) -> None:
    with CompileCounter() as first:
        one(kernels)
    kernels.forget()
    with CompileCounter() as second:
        one(kernels)
    assert (first.compiled, first.hits) == (2, 0)
    assert (second.compiled, second.hits) == (0, 2)
    assert sorted(first.keys) == sorted(second.hit_keys) == sorted(path.name for path in tmp_path.iterdir())


def test_a_listener_that_stood_before_is_still_called_and_stands_again(kernels: ModuleType) -> None:
    from triton import knobs

    heard: list[Any] = []

    def listener(**event: Any) -> None:
        heard.append(event["cache_hit"])

    knobs.compilation.listener = listener
    with CompileCounter() as counter:
        one(kernels)
    assert heard == [False, False]
    assert counter.compiled == 2
    assert knobs.compilation.listener is listener


def test_a_listener_put_over_ours_stays_and_ours_stops_counting(kernels: ModuleType) -> None:
    from triton import knobs

    counter = CompileCounter()
    with counter:
        inner = knobs.compilation.listener
        outer = partial(inner)
        knobs.compilation.listener = outer
    one(kernels)
    assert knobs.compilation.listener is outer
    assert counter.compiled == 0


def test_a_kernel_that_does_not_compile_is_not_counted_and_its_error_passes(kernels: ModuleType) -> None:
    with CompileCounter() as counter, offline_driver("cuda:90"), pytest.raises(Exception, match="power of 2"):
        kernels.warm(blocks=(64, 63))
    assert counter.compiled == 2


def test_offline_driver_restores_the_driver_before(kernels: ModuleType) -> None:
    from triton.runtime import driver

    with offline_driver("cuda:80"):
        outer = driver.active
        with offline_driver("cuda:90"):
            assert driver.active.get_current_target().arch == 90
            assert driver.active.get_device_capability() == (9, 0)
        with pytest.raises(ZeroDivisionError), offline_driver("cuda:90"):
            _ = 1 / 0
        assert driver.active is outer


def test_two_targets_in_one_process_are_compiled_apart(kernels: ModuleType) -> None:
    with CompileCounter() as counter:
        one(kernels)
        with offline_driver("cuda:80"):
            kernels.warm(blocks=(64,))
    assert counter.compiled == 4
    assert len(counter.compiled_keys) == 4


@pytest.mark.parametrize("target", ["", "cuda", "cuda:", "tpu:4", "cuda:90:x", "90"])
def test_a_target_of_another_form_is_refused_with_an_example(target: str) -> None:
    with pytest.raises(ValueError, match='such as "cuda:90"'), offline_driver(target):
        pass
