"""What decides whether compiled kernels fit: the factors of the identity, and when this kind has no part in a start."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warmcache_jit.folder import cache_folder
from warmcache_jit.metadata import BINARIES
from warmcache_jit.offline import parse_target, target_text
from warmcore import CacheError, Context, Identity, NotApplicable, Request

KIND = "triton_kernels"
OLDEST = (3, 6)

# Settings under which Triton's folder is not what this kind carries: group of knobs, knob, reason.
_UNFIT = (
    ("runtime", "interpret", "TRITON_INTERPRET is set: nothing is compiled"),
    ("compilation", "always_compile", "TRITON_ALWAYS_COMPILE is set: Triton would not look at what is installed"),
    ("compilation", "override", "TRITON_KERNEL_OVERRIDE is set: kernels are not made from their own source"),
)


def make_request(context: Context, folder: Path | None) -> Request | NotApplicable:
    """Return this start's request, or the reason why there is none; points Triton at its cache folder."""
    try:
        import triton
    except ImportError as error:
        return NotApplicable(f"Triton can't be imported: {error}")
    if reason := _unfit(triton, folder):
        return NotApplicable(reason)
    try:
        target = _target(context)
    except Exception as error:  # noqa: BLE001  # whatever a driver raises where there is no device
        return NotApplicable(f"the engine states no capability and Triton finds no device ({error!s:.200})")
    if target.backend not in BINARIES:
        return NotApplicable(f"Triton's backend is {target.backend!r}, this plugin knows {', '.join(BINARIES)}")
    return _request(context, triton, target)


def _unfit(triton: Any, folder: Path | None) -> str | None:
    version = re.match(r"(\d+)\.(\d+)", triton.__version__)
    if not version or not OLDEST <= (int(version[1]), int(version[2])) < (4, 0):
        return f"Triton {triton.__version__} is installed, its cache layout is known from 3.6 to below 4"
    for group, knob, reason in _UNFIT:
        if getattr(getattr(triton.knobs, group), knob):
            return reason
    try:
        cache_folder(folder)
        return _other_manager(triton)
    except (CacheError, RuntimeError, ImportError, AttributeError) as error:
        return str(error)


def _other_manager(triton: Any) -> str | None:
    manager = triton.knobs.cache.manager_class
    if manager in (None, triton.runtime.cache.FileCacheManager):
        return None
    return f"Triton's cache manager is {manager.__name__}: only its own folder is carried (unset TRITON_CACHE_MANAGER)"


def _target(context: Context) -> Any:
    if context.capability:
        major, minor = context.capability
        return parse_target(f"cuda:{major * 10 + minor}")
    from triton.runtime import driver

    return driver.active.get_current_target()


def _request(context: Context, triton: Any, target: Any) -> Request:
    determined = {
        "triton_key": _determine(triton.runtime.cache.triton_key),
        "backend": _determine(triton.compiler.compiler.make_backend(target).hash),
    }
    factors: dict[str, Any] = {
        "engine_config": context.config_hash,
        **{f"engine.{name}": value for name, value in context.factors.items()},
        "python": f"cp{sys.version_info.major}{sys.version_info.minor}",
        "target": target_text(target),
        "triton_version": triton.__version__,
        **determined,
        **_environment(),
    }
    unknown = tuple(name for name, value in determined.items() if value is None)
    return Request.of(KIND, Identity(factors), context.place, agree="environment", local_only=unknown)


def _determine(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except Exception:  # noqa: BLE001  # a library that can't say: the artifact stays local
        return None


def _environment() -> Mapping[str, str]:
    """Return the variables that Triton itself puts into each kernel's hash."""
    from triton._C.libtriton import get_cache_invalidating_env_vars

    return {f"env.{name.lower()}": value for name, value in get_cache_invalidating_env_vars().items()}
