"""From a config to live handles: only what it names is loaded, each in its own try."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter
from typing import Any, TypeVar

from warmcore.config import Config, near
from warmcore.discovery import LOAD_SECONDS, Found, find_plugins, load
from warmcore.errors import ConfigError, PluginError, reason_of
from warmcore.hookspecs import CacheSpec, ExtensionSpec, StoreSpec
from warmcore.plugins import Cache, Store, check_plugin
from warmcore.report import Event
from warmcore.settings import bare, convert, masked, parameters, shown
from warmcore.threads import run_within

T = TypeVar("T")
Give = Callable[[object, object, str], object]
"""Turns a TOML value into what an annotation says; the last argument is the key's place."""

SPECS = {"store": StoreSpec, "cache": CacheSpec, "extension": ExtensionSpec}


@dataclass
class Assembly:
    """What a config switched on: stores and caches in its order, the listeners, and what could not be used."""

    stores: list[Store] = field(default_factory=list)
    caches: list[Cache] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def assemble(config: Config) -> Assembly:
    """Load and construct what the config names: a mistake in it is a ConfigError, a broken plugin one of `problems`."""
    made = Assembly()
    if config.disabled:
        return made
    builder = _Builder(config, find_plugins())
    for name in config.chain:
        _try(made.problems, made.stores, f"store {name!r}", partial(builder.store, name))
    for kind in config.caches:
        _try(made.problems, made.caches, f"cache {kind!r}", partial(builder.cache, kind))
    for name in config.extensions:
        _try(made.problems, made.listeners, f"extension {name!r}", partial(builder.listener, name))
    return made


def plugin_class(installed: Sequence[Found], role: str, name: str, place: str) -> type:
    """Load a plugin's class and check its hooks; ConfigError if none is installed, PluginError if it can't be used."""
    offered = {found.name: found for found in installed if found.role == role}
    if name not in offered:
        found = masked(repr(name))
        raise ConfigError(f"{place}: no {role} plugin {found} is installed: pip install it ({near(name, offered)})")
    plugin = load(offered[name])
    check_plugin(plugin, SPECS[role])
    return plugin


@dataclass
class _Builder:
    """Makes handles from one config and what is installed."""

    config: Config
    installed: Sequence[Found]

    def store(self, name: str, above: tuple[str, ...] = ()) -> Store:
        place = f"[stores.{name}]"
        if name in above:
            raise ConfigError(f"{place}: stores stand inside each other in a circle: {' -> '.join((*above, name))}")
        store = self.config.stores[name]
        inner: list[Store] = []

        def give(value: object, annotation: object, where: str) -> object:
            if bare(annotation) is not Store:
                return convert(value, annotation, where)
            if not isinstance(value, str):
                raise ConfigError(f"{where}: found {shown(value)}, expected the name of another store")
            if value not in self.config.stores:
                raise ConfigError(f"{where}: no [stores.{masked(value)}]; {near(value, self.config.stores)}")
            inner.append(self.store(value, (*above, name)))
            return inner[-1]

        plugin = self._construct("store", store.keys.plugin, store.options, place, give)
        for key in ("mode", "shared", "trusted"):
            if inner and f"stores.{name}.{key}" in self.config.origins:
                raise ConfigError(f"{place} {key}: it wraps another store and takes this from [stores.{inner[0].name}]")
        return _within(place, lambda: Store(name, plugin, store.keys, next(iter(inner), None)))

    def cache(self, kind: str) -> Cache:
        place = f"[caches.{kind}]"
        plugin = self._construct("cache", kind, self.config.caches[kind], place, convert)
        return _within(place, lambda: Cache(kind, plugin))

    def listener(self, name: str) -> Callable[[Event], None]:
        plugin = self._construct("extension", name, self.config.extensions[name], f"[extensions.{name}]", convert)
        return lambda event: plugin.on_event(event=event)

    def _construct(self, role: str, name: str, options: Mapping[str, Any], place: str, give: Give) -> Any:
        plugin = plugin_class(self.installed, role, name, place)
        try:
            known = parameters(plugin)
        except Exception as error:
            raise PluginError(f"{place} can't be set up: {reason_of(error)}") from error
        for key in options:
            if key not in known:
                raise ConfigError(f"{place} {key}: unknown key; {near(key, known)}")
        for key, (_, default) in known.items():
            if default is Parameter.empty and key not in options:
                raise ConfigError(f"{place} {key}: missing; its plugin needs it")
        arguments = {key: give(value, known[key][0], f"{place} {key}") for key, value in options.items()}
        return _within(place, lambda: plugin(**arguments))


def _within(place: str, make: Callable[[], T]) -> T:
    """Run a plugin's code in a daemon thread; what it raises becomes PluginError, but for a mistake in the config."""
    try:
        return run_within(LOAD_SECONDS, make)
    except ConfigError as error:
        raise ConfigError(f"{place} {error}") from None
    except Exception as error:
        raise PluginError(f"{place} can't be set up: {reason_of(error)}") from error


def _try(problems: list[str], made: list[T], what: str, make: Callable[[], T]) -> None:
    try:
        made.append(make())
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a broken plugin does, it is one problem
        problems.append(f"{what}: {reason_of(error)}")
