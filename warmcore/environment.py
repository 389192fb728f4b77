"""Environment overrides: `WARMCORE_STORES__LOCAL__TIMEOUT=1s` is `timeout` in `[stores.local]`."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from warmcore.errors import ConfigError

PREFIX = "WARMCORE_"
LISTS = ("caches", "chain", "extensions")

# No keys: the two that config reads itself, and those that Kubernetes sets for a service called warmcore.
_OTHERS = re.compile(
    r"WARMCORE_(CONFIG|DISABLE|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)"
)


def overrides_in(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that override a key, sorted; a misspelt one among them is found when its key is checked."""
    return [name for name in sorted(environ) if name.startswith(PREFIX) and not _OTHERS.fullmatch(name)]


def override(table: dict[str, Any], variable: str, text: str, origins: dict[str, str]) -> None:
    """Put one variable's value into the table, and itself into `origins`; ConfigError if it leads through a value."""
    *parents, key = variable.removeprefix(PREFIX).lower().split("__")
    target, place = table, []
    for parent in parents:
        place.append(_spelt(parent, target))
        below = target.setdefault(place[-1], {})
        if isinstance(below, list) and parent in LISTS:
            below = target[place[-1]] = _named(below, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(place)} is a value, not a table")
        target = below
    key = _spelt(key, target)
    names_only = not parents and key in LISTS
    target[key] = _named(text.split(","), target.get(key)) if names_only else _toml_value(text)
    origins[".".join((*place, key))] = variable


def _named(chosen: list[str], before: object) -> Any:
    """Return the chosen names, each with the keys that the file gives it."""
    chosen = [name.strip() for name in chosen if name.strip()]
    return {name: before.get(name, {}) for name in chosen} if isinstance(before, dict) else chosen


def _spelt(name: str, table: Mapping[str, Any]) -> str:
    """Return the table's own spelling of a lower-case name whose dashes became underscores."""
    return next((key for key in table if key.lower().replace("-", "_") == name), name)


def _toml_value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text
