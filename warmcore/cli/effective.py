"""The values of a config that are in effect, each with its origin; secrets are masked."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from inspect import Parameter
from typing import Any

from warmcore.assembly import Assembly, plugin_class
from warmcore.cli.masking import masked
from warmcore.config import Config, Policy, StoreKeys
from warmcore.discovery import Found, find_plugins
from warmcore.errors import StoreError
from warmcore.session import report_folder
from warmcore.settings import Secret, parameters

DEFAULT = "default"
DISABLE = "WARMCORE_DISABLE"

Known = Mapping[str, tuple[object, object]]


@dataclass(frozen=True)
class Setting:
    """One value in effect; `origin` is a file, a variable, `default`, or who decides where the config does not."""

    key: str
    value: object
    origin: str


def settings(config: Config, made: Assembly) -> Iterator[Setting]:
    """Yield all values in effect, in the order of the reference; of a disabled config only that it is."""
    yield Setting("disabled", config.disabled, DISABLE if os.environ.get(DISABLE) else DEFAULT)
    if config.disabled:
        return
    installed = find_plugins()
    for key in ("caches", "chain", "extensions"):
        yield Setting(key, list(getattr(config, key)), _origin(config, key))
    yield Setting("strict", config.strict, _origin(config, "strict"))
    for name in config.stores:
        yield from _store(config, made, name)
        known = _known(installed, "store", config.stores[name].keys.plugin)
        yield from _options(config, f"stores.{name}", known, config.stores[name].options)
    yield from _policy(config)
    for role, tables in (("cache", config.caches), ("extension", config.extensions)):
        for name, options in tables.items():
            yield from _options(config, f"{role}s.{name}", _known(installed, role, name), options)


def _policy(config: Config) -> Iterator[Setting]:
    for field in fields(Policy):
        value = getattr(config.policy, field.name)
        if field.name == "reports" and value is None:
            with suppress(StoreError):  # no home folder: no reports are written
                value = report_folder()
        yield Setting(f"policy.{field.name}", value, _origin(config, f"policy.{field.name}"))


def _store(config: Config, made: Assembly, name: str) -> Iterator[Setting]:
    handle = next((store for store in made.stores if store.name == name), None)
    for field in fields(StoreKeys):
        key, value = f"stores.{name}.{field.name}", getattr(config.stores[name].keys, field.name)
        origin = _origin(config, key)
        decided = getattr(handle, field.name, value) if field.name in ("mode", "shared", "trusted") else value
        yield Setting(key, decided, "its plugin or inner store" if decided != value else origin)


def _options(config: Config, place: str, known: Known, options: Mapping[str, Any]) -> Iterator[Setting]:
    for name in dict.fromkeys((*known, *options)):
        # A key that its plugin does not know may be a secret's, misspelt.
        annotation, default = known.get(name, (Secret if known else str, Parameter.empty))
        if name in options or default is not Parameter.empty:
            value = masked(name, options.get(name, default), annotation)
            yield Setting(f"{place}.{name}", value, _origin(config, f"{place}.{name}"))


def _known(installed: Sequence[Found], role: str, name: str) -> Known:
    """Return a plugin's own keys; none where it can't be loaded, which the assembly tells where it matters."""
    with suppress(Exception):
        return parameters(plugin_class(installed, role, name, ""))
    return {}


def _origin(config: Config, key: str) -> str:
    """Find where a key was set; one that is a table was set where its first own key was."""
    exact = config.origins.get(key)
    return exact or next((origin for each, origin in config.origins.items() if each.startswith(f"{key}.")), DEFAULT)
