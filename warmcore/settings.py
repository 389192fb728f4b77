"""The value types of a plugin's config keys, and how TOML values become them.

The annotations of `__init__` are the schema.
"""

import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warmcore.errors import ConfigError

_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")
_CREDENTIALS = re.compile(r"://.*@")
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Size(int):
    """A number of bytes: `"10GiB"` in config."""


class Duration(float):
    """A number of seconds: `"10s"`, `"5min"`, `"30d"` or a plain number of seconds in config."""


class Secret:
    """A value that is never shown: `{ file = "..." }` or `{ env = "NAME" }` in config, read when asked for."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read

    def reveal(self) -> str:
        """Return the secret; ConfigError if its file or variable is gone."""
        return self._read()

    def __repr__(self) -> str:
        return "***"


def parameters(plugin: type) -> dict[str, tuple[object, object]]:
    """Return a plugin class's config keys: name -> (annotation, default or `inspect.Parameter.empty`)."""
    init = inspect.getattr_static(plugin, "__init__")
    if init is object.__init__:
        return {}
    hints = typing.get_type_hints(init)
    found = list(inspect.signature(init).parameters.values())[1:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {item.name: (hints.get(item.name, Any), item.default) for item in found if item.kind in named}


def convert(value: object, annotation: object, place: str) -> Any:
    """Turn a TOML value into what the annotation says; ConfigError with place, what was found, what was expected."""
    annotation = bare(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        expected, parse = _choice(typing.get_args(annotation))
    elif annotation in _PARSERS:
        expected, parse = _PARSERS[annotation]
    else:
        raise ConfigError(f"{place}: its plugin declares a type that config can't give: {annotation}")
    try:
        return parse(value)
    except (TypeError, ValueError):
        found = f"a {type(value).__name__}" if annotation is Secret else shown(value)
        raise ConfigError(f"{place}: found {found}, expected {expected}") from None


def bare(annotation: object) -> object:
    """Return `X` for `X | None`, anything else as it is."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    options = [item for item in typing.get_args(annotation) if item is not type(None)]
    return options[0] if len(options) == 1 else annotation


def shown(value: object) -> str:
    """Show a found value in a message, without what a table or a URL may hide in it."""
    if isinstance(value, (Mapping, list)):
        return f"a {type(value).__name__}"
    return f"{masked(repr(value)):.60} ({type(value).__name__})"


def masked(text: str) -> str:
    """Return a text without the credentials of a URL."""
    return _CREDENTIALS.sub("://***@", text)


def parse_size(value: object) -> Size:
    if type(value) is int and value >= 0:
        return Size(value)
    match = _SIZE.fullmatch(_exact(value, str))
    if not match:
        raise ValueError
    return Size(int(match[1]) * _BYTES[match[2]])


def parse_duration(value: object) -> Duration:
    if type(value) in (int, float) and 0 <= typing.cast(float, value) < 1e10:
        return Duration(typing.cast(float, value))
    match = _DURATION.fullmatch(_exact(value, str))
    if not match:
        raise ValueError
    return parse_duration(float(match[1]) * _SECONDS[match[2]])


def parse_path(value: object) -> Path | None:
    """Expand `~` and make absolute; empty or blank is None, for the default."""
    text = _exact(value, str).strip()
    if not text:
        return None
    if "\0" in text:
        raise ValueError
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        raise ValueError  # no home folder: "~" would become a folder of that name here
    return Path(os.path.abspath(expanded))


def parse_secret(value: object) -> Secret:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError
    source, name = next(iter(value.items()))
    if type(name) is not str or source not in ("file", "env"):
        raise ValueError
    return Secret(lambda: _read_secret(source, name))


def _read_secret(source: str, name: str) -> str:
    try:
        return Path(os.path.expanduser(name)).read_text().rstrip("\r\n") if source == "file" else os.environ[name]
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(
            f"secret {source} {name!r} can't be read ({type(error).__name__}): create it, or name another"
        ) from None


def _exact(value: object, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _texts(value: object) -> list[str]:
    return [_exact(item, str) for item in _exact(value, list)]


def _choice(options: tuple[object, ...]) -> tuple[str, Callable[[object], object]]:
    def parse(value: object) -> object:
        if value not in options or type(value) is not str:
            raise ValueError
        return value

    return " or ".join(map(repr, options)), parse


_PARSERS: Mapping[object, tuple[str, Callable[[object], object]]] = {
    str: ("a string", lambda value: _exact(value, str)),
    bool: ("true or false", lambda value: _exact(value, bool)),
    int: ("an integer", lambda value: _exact(value, int)),
    list[str]: ("a list of strings", _texts),
    Path: ("a path; one that starts with ~ needs HOME", parse_path),
    Size: ('a size such as "10GiB"', parse_size),
    Duration: ('a duration such as "10s"', parse_duration),
    Secret: ('{ file = "path" } or { env = "NAME" }, never the secret itself', parse_secret),
}
