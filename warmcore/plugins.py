"""Typed handles over one plugin each: a store or a cache as the rest of the core calls it, whatever the plugin does."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pluggy

from warmcore.blob import Payload
from warmcore.breaker import Breaker
from warmcore.config import Mode, StoreKeys
from warmcore.contracts import (
    Context,
    Entry,
    Expect,
    Fence,
    Fingerprint,
    Held,
    Lease,
    NotApplicable,
    Sink,
    Source,
    Undo,
    Usage,
)
from warmcore.errors import CacheError, PluginError, StoreError, WarmcoreError, reason_of
from warmcore.hookspecs import PROJECT, CacheSpec, ExtensionSpec, StoreSpec
from warmcore.identity import Request, Scope

T = TypeVar("T")

REQUIRED: Mapping[type, tuple[str, ...]] = {
    StoreSpec: ("store_get", "store_put"),
    CacheSpec: ("request_params", "resolve", "validate_payload", "install", "warmup", "collect", "fingerprint"),
    ExtensionSpec: ("on_event",),
}


def check_plugin(plugin: type, spec: type) -> frozenset[str]:
    """Return the hooks a plugin class implements; PluginError for a misspelt, unmarked, missing or short hook."""
    hooks = _hooks_of(spec)
    marked = {
        name: member for name, member in inspect.getmembers(plugin, callable) if hasattr(member, f"{PROJECT}_impl")
    }
    for name, member in marked.items():
        if any(name in _hooks_of(other) for other in REQUIRED if other is not spec):
            continue  # a class may play two roles
        if name not in hooks:
            close = difflib.get_close_matches(name, hooks, n=1)
            raise PluginError(f"{name} is no hook of {spec.__name__}{f'; did you mean {close[0]}?' if close else ''}")
        _check_arguments(name, member, getattr(spec, name))
    for name in sorted(hooks - marked.keys()):
        if hasattr(plugin, name):
            raise PluginError(f"{name} is not marked: put @hookimpl above it")
        if name in REQUIRED[spec]:
            raise PluginError(
                f"hook {name} is missing: a {spec.__name__.removesuffix('Spec').lower()} must implement it"
            )
    return frozenset(marked.keys() & hooks)


def _hooks_of(spec: type) -> set[str]:
    return {name for name in vars(spec) if not name.startswith("_")}


def _check_arguments(name: str, member: Callable[..., object], hook: Callable[..., object]) -> None:
    wanted, found = map(_passed, (hook, member))
    if sorted(wanted) != sorted(found):
        raise PluginError(f"hook {name} takes ({', '.join(found)}), expected ({', '.join(wanted)})")


def _passed(function: Callable[..., object]) -> list[str]:
    """Return the arguments that pluggy would pass: none that is keyword-only or has a default."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [each.name for each in parameters if each.default is each.empty and each.kind is not each.KEYWORD_ONLY]


class _Handle:
    """One plugin instance in a PluginManager of its own."""

    def __init__(self, name: str, plugin: object, spec: type) -> None:
        self.name = name
        self.plugin = plugin
        self.hooks = check_plugin(type(plugin), spec)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(spec)
        manager.register(plugin, name=name)
        self._hook = manager.hook

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Store(_Handle):
    """A store as the core, and a wrapper around it, calls it: direct, without thread or deadline.

    Raises StoreError, or what the sink raises.

    `can` holds the hooks that work: a wrapper's own that its inner store has too.
    """

    def __init__(self, name: str, plugin: object, keys: StoreKeys, inner: "Store | None" = None) -> None:
        super().__init__(name, plugin, StoreSpec)
        own = bool(getattr(plugin, "shared", True)) if keys.shared is None else keys.shared
        self._inner = inner
        self.breaker = Breaker()
        self.timeout: float = keys.timeout
        self.can: frozenset[str] = self.hooks if inner is None else self.hooks & (inner.can | {"store_close"})
        self.mode: Mode = keys.mode if inner is None else inner.mode
        self.shared: bool = own if inner is None else inner.shared
        self.trusted: bool = keys.trusted if inner is None else inner.trusted

    def get(self, key: str, sink: Sink, *, fresh: bool = False) -> str | None:
        version = self._call("store_get", key=key, sink=sink, fresh=fresh)
        return self._typed("store_get", version, (str, type(None)))

    def put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None = None) -> bool:
        return self._typed(
            "store_put", self._call("store_put", key=key, source=source, expect=expect, fence=fence), bool
        )

    def list(self, prefix: str) -> list[Entry]:
        entries = self._typed("store_list", self._call("store_list", prefix=prefix), list)
        return [self._typed("store_list", entry, Entry) for entry in entries]

    def delete(self, key: str, expect: Expect | str) -> bool:
        return self._typed("store_delete", self._call("store_delete", key=key, expect=expect), bool)

    def lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        granted = self._call("store_lease", key=key, entry=entry, expect=expect, ttl=ttl, note=note)
        if isinstance(granted, Held) or all(hasattr(granted, name) for name in ("fence", "alive", "release")):
            return granted
        raise StoreError(f"store_lease returned {type(granted).__name__}, expected a Lease or Held")

    def close(self) -> None:
        try:
            if "store_close" in self.hooks:
                self._call("store_close")
        finally:
            if self._inner is not None:
                self._inner.close()

    def _call(self, hook: str, **arguments: object) -> Any:
        if hook not in self.can:
            raise StoreError(f"store {self.name!r} can't do {hook}: it, or its inner store, has no such hook")
        try:
            return getattr(self._hook, hook)(**arguments)
        except WarmcoreError:
            raise
        except Exception as error:
            raise StoreError(reason_of(error)) from error

    def _typed(self, hook: str, value: Any, kind: Any) -> Any:
        if not isinstance(value, kind):
            raise StoreError(f"{hook} returned {type(value).__name__}, which its specification does not allow")
        return value


class Cache(_Handle):
    """A cache as the session calls it: a plugin's unexpected Exception becomes CacheError, except around a warm-up."""

    def __init__(self, kind: str, plugin: object) -> None:
        super().__init__(kind, plugin, CacheSpec)
        self.scope: Scope = _attribute(plugin, "scope", ("rank", "group"))
        self.max_bytes: int = getattr(plugin, "max_bytes", 4 << 20)
        if not isinstance(self.max_bytes, int) or self.max_bytes <= 0:
            raise PluginError(f"class attribute max_bytes is {self.max_bytes!r}, expected a number of bytes")
        self.carries_code = bool(getattr(plugin, "carries_code", True))

    def request(self, context: Context) -> Request | NotApplicable:
        return self._ask("request_params", (Request, NotApplicable), context=context)

    def resolve(self, request: Request) -> str:
        return self._ask("resolve", str, request=request)

    def validate(self, request: Request, payload: Payload) -> Payload:
        return self._ask("validate_payload", Payload, request=request, payload=payload)

    def install(self, context: Context, payload: Payload) -> Undo:
        return self._ask("install", Callable, context=context, payload=payload)

    def warm_up(self, context: Context) -> None:
        self._hook.warmup(context=context)

    def collect(self, context: Context) -> Payload | None:
        return self._ask("collect", (Payload, type(None)), context=context) or None

    def merge(self, request: Request, stored: Payload, ours: Payload) -> Payload:
        if "merge" not in self.hooks:
            return Payload({**stored, **ours})
        return self._ask("merge", Payload, request=request, stored=stored, ours=ours)

    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        return self._ask("fingerprint", Fingerprint, request=request, payload=payload)

    def usage(self, context: Context) -> Usage:
        if "usage" not in self.hooks:
            return Usage(unknown="this kind can't tell")
        usage = self._ask("usage", Usage, context=context)
        for names in (usage.used, usage.unused, usage.missed):
            if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
                raise CacheError("usage returned names that are no tuple of strings")
        return usage

    def describe(self, payload: Payload) -> Sequence[dict[str, str]]:
        return self._ask("describe", Sequence, payload=payload) if "describe" in self.hooks else []

    def _ask(self, hook: str, kind: Any, **arguments: object) -> Any:
        try:
            value = getattr(self._hook, hook)(**arguments)
        except (WarmcoreError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of compiled code is no Exception
            raise CacheError(f"{hook} failed: {reason_of(error)}") from error
        if not isinstance(value, kind):
            raise CacheError(f"{hook} returned {type(value).__name__}, which its specification does not allow")
        return value


def _attribute(plugin: object, name: str, allowed: tuple[T, ...]) -> T:
    value = getattr(plugin, name, None)
    if value not in allowed:
        raise PluginError(f"class attribute {name} is {value!r}, expected one of {allowed}")
    return value
