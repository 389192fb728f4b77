"""The metadata file of a compiled kernel."""

import keyword
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from warmcache_jit.layout import MAX_JSON
from warmcache_jit.strictjson import strict_json
from warmcore import Blob, Reject

BINARIES = {"cuda": "cubin", "hip": "hsaco"}

_TEXTS, _NUMBERS = ("hash", "name", "triton_version"), ("num_warps", "num_ctas", "shared")
_FIELDS = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_NUMBERS, int), "target": dict}
_TARGET = {"backend": (str,), "arch": (int, str), "warp_size": (int,)}


@dataclass(frozen=True)
class Metadata:
    """What is read of it: `target` as the identity's factor has it, `binary` the suffix of what the GPU runs."""

    hash: str
    target: str
    name: str
    num_warps: int
    shared: int
    triton_version: str
    binary: str


def read_metadata(blob: Blob) -> Metadata:
    """Parse a kernel's metadata; Reject unless Triton itself could load it."""
    raw = strict_json(blob.read(MAX_JSON), "metadata")
    # Triton makes a named tuple of it: a key that can't be a field would raise in the engine.
    if not isinstance(raw, dict) or not all(map(_is_field, raw)):
        raise Reject("metadata is not an object whose keys are names")
    for field, kind in _FIELDS.items():
        if type(raw.get(field)) is not kind:
            raise Reject(f"metadata {field!r} is {raw.get(field)!r:.60}, expected a {kind.__name__}")
    if not raw["name"].isprintable():
        raise Reject(f"metadata name {raw['name']!r:.80} is not printable")
    if raw.get("ir_override") is not None:
        raise Reject("metadata names an ir_override: the kernel was not made from its own source")
    _check_target(raw["target"])
    return _metadata(raw, raw["target"])


def _check_target(target: dict[str, Any]) -> None:
    if target.keys() != _TARGET.keys() or any(type(target[part]) not in kinds for part, kinds in _TARGET.items()):
        raise Reject(f"metadata target is {target!r:.120}, expected backend, arch and warp_size")
    if target["backend"] not in BINARIES or not str(target["arch"]).isprintable():
        raise Reject(f"metadata target is {target!r:.120}, expected one of the backends {', '.join(BINARIES)}")


def _metadata(raw: dict[str, Any], target: dict[str, Any]) -> Metadata:
    return Metadata(
        hash=raw["hash"],
        target=f"{target['backend']}:{target['arch']}:{target['warp_size']}",
        name=raw["name"],
        num_warps=raw["num_warps"],
        shared=raw["shared"],
        triton_version=raw["triton_version"],
        binary=BINARIES[target["backend"]],
    )


@lru_cache(maxsize=256)  # all kernels of one Triton have the same
def _is_field(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
