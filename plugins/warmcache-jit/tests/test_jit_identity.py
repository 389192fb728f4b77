"""What decides whether kernels fit, and when this kind has no part in a start."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

import warmcore
from warmcache_jit import TritonKernels, offline_driver


def request(context: warmcore.Context, folder: Path | None = None) -> warmcore.Request:
    made = TritonKernels(folder).request_params(context)
    assert isinstance(made, warmcore.Request)
    return made


def reason(context: warmcore.Context) -> str:
    made = TritonKernels().request_params(context)
    assert isinstance(made, warmcore.NotApplicable)
    return made.reason


def test_the_factors_are_engine_toolchain_target_and_environment(
    context: warmcore.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton

    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION", raising=False)
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    made = request(context)
    assert made.identity
    factors = dict(made.identity.factors)
    assert factors.pop("triton_key").startswith("sha256:")  # type: ignore[union-attr]  # over 256 bytes
    assert "ptxas" in factors.pop("backend")  # type: ignore[operator]  # a str
    assert {name for name in factors if name.startswith("env.")} == {"env.triton_disable_line_info"}
    assert factors.pop("env.triton_disable_line_info")
    assert factors == {
        "engine.model": "tiny",
        "engine_config": context.config_hash,
        "python": f"cp{sys.version_info.major}{sys.version_info.minor}",
        "target": "cuda:90:32",
        "triton_version": triton.__version__,
    }
    assert made.agree == "environment"
    assert not made.local_only


class Version(NamedTuple):
    major: int
    minor: int


def with_variable(context: warmcore.Context, patch: pytest.MonkeyPatch, name: str) -> warmcore.Context:
    patch.setenv(name, "1")
    return context


def with_value(context: warmcore.Context, patch: pytest.MonkeyPatch, name: str, value: object) -> warmcore.Context:
    patch.setattr(name, value)
    return context


CHANGES: dict[str, Callable[[warmcore.Context, pytest.MonkeyPatch], warmcore.Context]] = {
    "engine_config": lambda context, _: replace(context, config_hash="0" * 64),
    "engine.model": lambda context, _: replace(context, factors={"model": "other"}),
    "target": lambda context, _: replace(context, capability=(10, 0)),
    "triton_version": lambda context, patch: with_value(context, patch, "triton.__version__", "3.9.9"),
    "triton_key": lambda context, patch: with_value(context, patch, "triton.runtime.cache.triton_key", lambda: "x"),
    "backend": lambda context, patch: with_variable(context, patch, "TRITON_MOCK_PTX_VERSION"),
    "python": lambda context, patch: with_value(context, patch, "sys.version_info", Version(3, 99)),
    "env.disable_llvm_opt": lambda context, patch: with_variable(context, patch, "DISABLE_LLVM_OPT"),
}


@pytest.mark.parametrize("factor", CHANGES)
def test_each_factor_alone_changes_the_key(
    factor: str, context: warmcore.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.backends.nvidia import compiler

    before = request(context)
    compiler.get_ptxas_version.cache_clear()
    after = request(CHANGES[factor](context, monkeypatch))
    monkeypatch.undo()
    compiler.get_ptxas_version.cache_clear()
    assert before.identity
    assert after.identity
    changed = [item.factor for item in warmcore.diff(before.identity, after.identity)]
    assert factor in changed
    assert set(changed) <= {factor, "backend"}  # ptxas is chosen by the target
    assert before.key("group") != after.key("group")


def test_place_folder_home_and_working_folder_do_not_change_the_key(
    context: warmcore.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = request(context)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOSTNAME", "other")
    monkeypatch.chdir(tmp_path)
    after = request(replace(context, place=warmcore.Place(tp=3, rank=3)), tmp_path / "elsewhere")
    assert before.key("group") == after.key("group")
    assert before.key("group").endswith("/all")


def test_an_engine_factor_cannot_stand_for_one_of_ours(context: warmcore.Context) -> None:
    made = request(replace(context, factors={"target": "cuda:10:32", "triton_version": "0"}))
    assert made.identity
    assert made.identity.factors["target"] == "cuda:90:32"
    assert made.identity.factors["engine.target"] == "cuda:10:32"


def test_a_factor_that_cannot_be_determined_keeps_the_artifact_local(
    context: warmcore.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise OSError("libtriton.so is gone")

    monkeypatch.setattr("triton.runtime.cache.triton_key", fail)
    made = request(context)
    assert made.local_only == ("triton_key",)
    assert made.identity
    assert made.identity.factors["triton_key"] is None


def test_without_a_capability_the_active_driver_is_asked(context: warmcore.Context) -> None:
    with offline_driver("hip:gfx942"):
        made = request(replace(context, capability=None))
    assert made.identity
    assert made.identity.factors["target"] == "hip:gfx942:64"


NOT_APPLICABLE: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "Triton can't be imported": lambda patch: patch.setitem(sys.modules, "triton", None),
    "Triton 3.5.1 is installed": lambda patch: patch.setattr("triton.__version__", "3.5.1"),
    "Triton 4.0.0 is installed": lambda patch: patch.setattr("triton.__version__", "4.0.0"),
    "Triton nightly is installed": lambda patch: patch.setattr("triton.__version__", "nightly"),
    "TRITON_INTERPRET is set": lambda patch: patch.setenv("TRITON_INTERPRET", "1"),
    "TRITON_ALWAYS_COMPILE is set": lambda patch: patch.setenv("TRITON_ALWAYS_COMPILE", "1"),
    "TRITON_KERNEL_OVERRIDE is set": lambda patch: patch.setenv("TRITON_KERNEL_OVERRIDE", "1"),
    "cache manager is RemoteCacheManager": lambda patch: patch.setenv(
        "TRITON_CACHE_MANAGER", "triton.runtime.cache:RemoteCacheManager"
    ),
    "Unable to read TRITON_CACHE_MANAGER": lambda patch: patch.setenv("TRITON_CACHE_MANAGER", "nonsense"),
    "set TRITON_CACHE_DIR": lambda patch: patch.setenv("TRITON_CACHE_DIR", "~nobody-of-this-name/cache"),
}


@pytest.mark.parametrize("expected", NOT_APPLICABLE)
def test_not_applicable_says_why(expected: str, context: warmcore.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    NOT_APPLICABLE[expected](monkeypatch)
    assert expected in reason(context)


def test_no_capability_and_no_device_is_not_applicable(
    context: warmcore.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "none")
    monkeypatch.setattr("triton.runtime.driver._default", None)
    monkeypatch.setattr("triton.runtime.driver._active", None)
    assert "finds no device" in reason(replace(context, capability=None))


# TR-10: an empty or blank name means the default, `~` expands, relative becomes absolute once.
FOLDERS = {"": "home/.triton/cache", "  ": "home/.triton/cache", "~/kernels": "home/kernels", "kernels": "work/kernels"}


@pytest.mark.parametrize("stated", FOLDERS)
def test_triton_and_the_plugin_look_into_one_absolute_folder(
    stated: str, context: warmcore.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton import knobs

    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TRITON_CACHE_DIR", stated)
    monkeypatch.setenv("TRITON_HOME", str(home))
    request(context)
    monkeypatch.chdir("/")
    request(context)
    assert knobs.cache.dir == str(tmp_path / FOLDERS[stated])
    assert os.listdir(work) == []


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_triton_home_is_the_users_home(
    blank: str, context: warmcore.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton import knobs

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    monkeypatch.setenv("TRITON_HOME", blank)
    request(context)
    assert knobs.cache.dir == str(tmp_path / ".triton/cache")


def test_a_configured_folder_wins_and_an_empty_one_is_the_default(
    context: warmcore.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton import knobs

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "stated"))
    request(context, Path())
    assert knobs.cache.dir == str(tmp_path / "stated")
    request(context, tmp_path / "configured")
    assert knobs.cache.dir == str(tmp_path / "configured")
