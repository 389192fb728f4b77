"""One config, from a TOML file, environment overrides or Python; every mistake names its place and its remedy."""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from warmcore import names
from warmcore.environment import PREFIX, override, overrides_in
from warmcore.errors import ConfigError, IdentityError
from warmcore.settings import Duration, convert, masked, parameters, shown

FILE_NAME = "warmcore.toml"
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")

Mode = Literal["read", "lease", "read-write"]
Source = Path | Mapping[str, Any] | None


@dataclass(frozen=True)
class Policy:
    """`budget`: for all looking, verifying and deciding of one start. `keep`: until a published entry expires.

    `on_write_error` says which store's failed publish makes the start's report a failed one: none, the nearest's, any.
    """

    namespace: str = "default"
    budget: Duration = Duration(10)
    keep: Duration = Duration(30 * 86400)
    on_write_error: Literal["ignore", "first", "all"] = "ignore"
    reports: Path | None = None


@dataclass(frozen=True)
class StoreKeys:
    """The keys that every store's config has.

    `shared` None is as its plugin says; `trusted` means that whoever can write the store may run code here.
    """

    plugin: str
    mode: Mode = "read-write"
    timeout: Duration = Duration(2)
    shared: bool | None = None
    trusted: bool = False


@dataclass(frozen=True)
class StoreConfig:
    """One `[stores.<name>]` table: the keys that all have, and those of its plugin, still as TOML gave them."""

    name: str
    keys: StoreKeys
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Config:
    """A checked config. `caches` and `extensions` map a plugin's name to its own keys, as TOML gave them, in its order.

    `origins` says for each key that was set where it came from.
    """

    caches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    chain: tuple[str, ...] = ()
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    stores: Mapping[str, StoreConfig] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    strict: bool = False
    disabled: bool = False
    path: Path | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


def load_config(source: Source = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read a config: a path, a mapping, or None for WARMCORE_CONFIG, then ./warmcore.toml, then the defaults.

    The default chain is one private disk store. Raises ConfigError, which says whether the config is `strict`.
    """
    if _switch(environ) in TRUE:
        return Config(disabled=True)
    table: dict[str, Any] = {}
    try:
        path = _read(source, environ, table)
        is_disabled(environ)
        return _with_overrides(table, environ, path)
    except RecursionError:
        raise ConfigError("nested too deep to be a config: expected tables in tables at most") from None
    except ConfigError as error:
        error.strict = table.get("strict") is True
        raise


def is_disabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether WARMCORE_DISABLE is set: no read, no write, no folder, no plugin loaded."""
    if _switch(environ) not in TRUE + FALSE:
        found = masked(repr(environ[PREFIX + "DISABLE"]))
        raise ConfigError(f"WARMCORE_DISABLE: found {found:.60}, expected 1 or 0")
    return _switch(environ) in TRUE


def _switch(environ: Mapping[str, str]) -> str:
    return environ.get(PREFIX + "DISABLE", "").strip().lower()


def near(word: str, known: Iterable[str]) -> str:
    """Return the remedy for a word that is not known: the near match, or all there are."""
    known = sorted(known)
    match = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {match[0]!r}?" if match else f"known: {', '.join(known) or 'none'}"


def fill(cls: type, table: Mapping[str, Any], place: str) -> Any:
    """Build a dataclass from a TOML table by its annotations; an unknown key is an error."""
    known = parameters(cls)
    for key in table:
        if key not in known:
            raise ConfigError(f"{place} {key}: unknown key; {near(key, known)}")
    return cls(**{key: convert(value, known[key][0], f"{place} {key}") for key, value in table.items()})


def _read(source: Source, environ: Mapping[str, str], table: dict[str, Any]) -> Path | None:
    """Read the source into `table`; returns the file it came from."""
    if isinstance(source, Mapping):
        table.update(_copy(source))
        return None
    named = source or os.path.expanduser(environ.get(PREFIX + "CONFIG", "").strip())
    path = Path(named or FILE_NAME)
    try:
        table.update(tomllib.loads(path.read_text(encoding="utf-8")))
        return path
    except FileNotFoundError:
        if not named:
            return None
        raise ConfigError(f"{path}: no such file: create it, or name another (in WARMCORE_CONFIG, say)") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}: name a file that this user may read") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}".replace("\0", "?")) from None


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _with_overrides(table: dict[str, Any], environ: Mapping[str, str], path: Path | None) -> Config:
    """Check the table under all overrides; a mistake that one of them alone makes is named after it."""
    plain, origins = _copy(table), dict.fromkeys(_leaves(table), str(path) if path else "Python")
    variables = overrides_in(environ)
    try:
        for variable in variables:
            override(table, variable, environ[variable], origins)
        return _check(table, path, origins)
    except ConfigError as error:
        for variable in variables:
            if _is_mistaken(_copy(plain)) < _is_mistaken(_copy(plain), variable, environ[variable]):
                raise ConfigError(f"{variable}: {error}") from None
        raise


def _is_mistaken(table: dict[str, Any], variable: str = "", text: str = "") -> bool:
    try:
        if variable:
            override(table, variable, text, {})
        _check(table, None, {})
    except ConfigError:
        return True
    return False


def _check(table: Mapping[str, Any], path: Path | None, origins: Mapping[str, str]) -> Config:
    for key in table:
        if key not in _TOP:
            raise ConfigError(f"{key}: unknown key; {near(key, _TOP)}")
    stores = {name: _store(name, each) for name, each in _tables(table, "stores").items()}
    if not stores and not table.get("chain"):
        stores = {"local": StoreConfig("local", StoreKeys("disk"))}
    chain, policy = _chain(table, stores), _policy(table)
    strict = convert(table.get("strict", False), bool, "strict")
    return Config(
        _tables(table, "caches"), chain, _tables(table, "extensions"), stores, policy, strict, False, path, origins
    )


def _chain(table: Mapping[str, Any], stores: Mapping[str, StoreConfig]) -> tuple[str, ...]:
    wrapped = {inner for store in stores.values() if isinstance(inner := store.options.get("inner"), str)}
    outermost = [name for name in stores if name not in wrapped]
    chain: list[str] = convert(table.get("chain") or outermost, list[str], "chain")
    for name in chain:
        if name not in stores:
            raise ConfigError(f"chain: no [stores.{masked(name)}]; {near(name, stores)}")
        if chain.count(name) > 1:
            raise ConfigError(f"chain: {name!r} stands in it twice: a store is asked once")
    return tuple(chain)


def _policy(table: Mapping[str, Any]) -> Policy:
    policy: Policy = fill(Policy, _table(table.get("policy", {}), "[policy]"), "[policy]")
    try:
        names.check_namespace(policy.namespace)
    except IdentityError:
        expected = "1 to 64 of a-z 0-9 . _ -, not . or .."
        raise ConfigError(f"[policy] namespace: found {shown(policy.namespace)}, expected {expected}") from None
    _more_than_0("[policy] budget", policy.budget)
    _more_than_0("[policy] keep", policy.keep)
    return policy


def _more_than_0(place: str, seconds: float) -> None:
    if seconds <= 0:
        raise ConfigError(f"{place}: found {seconds:g} s, expected more than 0")


def _tables(table: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Read `[key.<name>]` tables; a plain list of names stands for tables without keys (TOML can't have both)."""
    value = table.get(key, {})
    if key != "stores" and not isinstance(value, (list, Mapping)):
        raise ConfigError(f"{key}: found {shown(value)}, expected a list of names, or tables [{key}.<name>]")
    if isinstance(value, list) and key != "stores":
        value = {name: {} for name in convert(value, list[str], key)}
    return {name: _table(each, f"[{key}.{name}]") for name, each in _table(value, key).items()}


def _table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: found {shown(value)}, expected a table")
    return dict(value)


def _store(name: str, table: dict[str, Any]) -> StoreConfig:
    place = f"[stores.{name}]"
    if "plugin" not in table:
        raise ConfigError(f'{place}: no plugin named: add plugin = "disk" (see `warmcore list-plugins`)')
    common = parameters(StoreKeys)
    keys = fill(StoreKeys, {key: value for key, value in table.items() if key in common}, place)
    _more_than_0(f"{place} timeout", keys.timeout)
    return StoreConfig(name, keys, {key: value for key, value in table.items() if key not in common})


def _leaves(table: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in table.items():
        found += _leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else [prefix + key]
    return found


_TOP = ("caches", "chain", "extensions", "stores", "policy", "strict")
