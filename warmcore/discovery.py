"""What is installed: plugins as their entry points say, read without importing any, loaded one at a time when named."""

import importlib.metadata
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import warmcore
from warmcore.errors import PluginError, reason_of
from warmcore.threads import run_within

T = TypeVar("T")

GROUPS = {
    "store": "warmcore.stores",
    "cache": "warmcore.caches",
    "extension": "warmcore.extensions",
    "command": "warmcore.commands",
}
LOAD_SECONDS = 5.0

_PIN = (">=0.1", "<0.2")
"""What plugins for this release of the core ask for."""

# packaging.requirements would read it too, and takes a fifth of `warmcore list-plugins` to import.
_CORE = re.compile(r"(?i:warmcore)\s*(\[[^\]]*\])?(?P<versions>[^;a-z0-9_.-][^;]*|)(;\s*(?P<marker>.*))?")


@dataclass(frozen=True)
class Found:
    """One entry point; `role` is a key of GROUPS. `problem` says why it can't be used, as far as metadata tells."""

    role: str
    name: str
    target: str
    distribution: str
    version: str
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.role} {self.name!r} ({self.distribution} {self.version})"


def find_plugins(role: str | None = None) -> list[Found]:
    """Return all installed plugins, sorted by role and name; a distribution with broken metadata is passed over."""
    found = sorted(
        {item for item in _entry_points() if role in (None, item.role)},
        key=lambda item: (item.role, item.name, item.distribution),
    )
    offers = Counter((item.role, item.name) for item in found)
    return [replace(item, problem=_twice(item, found)) if offers[item.role, item.name] > 1 else item for item in found]


def load(found: Found) -> type:
    """Import a plugin and return its class, within 5 s; PluginError with the cause."""
    return load_as(found, type, "a class")


def load_as(found: Found, kind: type[T], expected: str) -> T:
    """Import what an entry point names, within 5 s; PluginError with the cause, or if it is something else."""
    if found.problem:
        raise PluginError(f"{found}: {found.problem}")
    entry = importlib.metadata.EntryPoint(found.name, found.target, GROUPS[found.role])
    try:
        loaded = run_within(LOAD_SECONDS, entry.load)
    except Exception as error:
        raise PluginError(f"{found}: import failed: {reason_of(error)}") from error
    if not isinstance(loaded, kind):
        raise PluginError(f"{found}: {found.target} is a {type(loaded).__name__}, expected {expected}")
    return loaded


def _entry_points() -> Iterator[Found]:
    roles = {group: role for role, group in GROUPS.items()}
    seen: set[str] = set()
    for distribution in _distributions():
        try:
            ours = [entry for entry in distribution.entry_points if entry.group in roles]
            name = str(distribution.metadata["Name"]) if ours else ""
            # The first on the path is the one that imports; an editable install may be listed twice.
            if not ours or name in seen:
                continue
            seen.add(name)
            problem = _other_core(distribution)
            for entry in ours:
                yield Found(roles[entry.group], entry.name, entry.value, name, str(distribution.version), problem)
        except Exception:  # noqa: BLE001, S112  # someone else's broken metadata is not ours to report
            continue


def _distributions() -> Iterator[importlib.metadata.Distribution]:
    try:
        yield from importlib.metadata.distributions()
    except Exception:  # noqa: BLE001  # someone else's finder
        return


def _other_core(distribution: importlib.metadata.Distribution) -> str | None:
    for requirement in distribution.requires or ():
        asked = _versions_of_core(requirement)
        if {part.strip() for part in asked.split(",")} <= {"", *_PIN}:
            continue
        # Slow to import, and no plugin with the usual pin needs it.
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            versions = SpecifierSet(asked)
        except InvalidSpecifier:
            return f"its requirement {requirement!r} can't be read"
        if not versions.contains(warmcore.__version__, prereleases=True):
            return f"made for warmcore {versions}, this is {warmcore.__version__}: install its match"
    return None


def _versions_of_core(requirement: str) -> str:
    """Return the versions of the core that a requirement asks for; empty, so any, if it asks for something else."""
    found = _CORE.fullmatch(requirement)
    if found is None or (found["marker"] and ("extra" in found["marker"] or not _applies(found["marker"]))):
        return ""
    return found["versions"].strip("() ")


def _applies(marker: str) -> bool:
    # Slow to import, and hardly a plugin needs it here.
    from packaging.markers import InvalidMarker, Marker

    try:
        return Marker(marker).evaluate()
    except InvalidMarker:
        return True


def _twice(item: Found, found: list[Found]) -> str:
    others = [
        other.distribution for other in found if (other.role, other.name) == (item.role, item.name) and other != item
    ]
    return f"its name is also taken by {', '.join(others)}: uninstall one"
