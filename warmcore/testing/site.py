"""Plugins installed for a test alone, by their metadata, so that a real config finds them as it finds all others."""

import importlib
from collections.abc import Mapping
from pathlib import Path

from warmcore.discovery import GROUPS

STORES = {
    "memory": "warmcore.testing.memory:MemoryStore",
    "slow": "warmcore.testing.faults:SlowStore",
    "hanging": "warmcore.testing.faults:HangingStore",
    "flapping": "warmcore.testing.faults:FlappingStore",
    "full": "warmcore.testing.faults:FullStore",
    "corrupting": "warmcore.testing.faults:CorruptingStore",
}
CACHES = {"demo": "warmcore.testing.demo:DemoCache"}


def install_plugins(
    folder: Path,
    *,
    distribution: str = "warmcore-testing-plugins",
    stores: Mapping[str, str] = STORES,
    caches: Mapping[str, str] = CACHES,
    extensions: Mapping[str, str] | None = None,
) -> Path:
    """Write a distribution's metadata into `folder`: put that on `sys.path`, or a child's PYTHONPATH, to install it.

    Each argument maps an entry point's name to `module:class`; by default those of this kit.
    """
    offered = {"store": stores, "cache": caches, "extension": extensions or {}}
    info = folder / f"{distribution.replace('-', '_')}-0.dist-info"
    info.mkdir(parents=True)
    lines = [
        f"[{GROUPS[role]}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for role, entries in offered.items()
    ]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    importlib.invalidate_caches()
    return folder
