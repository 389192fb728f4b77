"""The shapes that cross a hook: what the core hands to stores and caches, and what they hand back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypedDict

from warmcore import names
from warmcore.errors import IdentityError
from warmcore.identity import Place, Scalar, canonical

Undo = Callable[[], None]
"""Restores exactly what stood before an install and takes away only what it added; calling it twice is harmless."""

WarmUp = Callable[[], object]
"""An engine's own warm-up for one kind."""


class Sink(Protocol):
    """Where a get writes to. `write` raises once the cap or the deadline is passed: let that pass through."""

    def write(self, chunk: bytes) -> None: ...


class Source(Protocol):
    """Where a put reads from. `sha256` is that of all bytes; `rewind` starts again for a retry."""

    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    def read(self, size: int) -> bytes: ...
    def rewind(self) -> None: ...


class Expect(Enum):
    """What a put or delete may expect besides a version: anything, or nothing, at the key."""

    ANY = "any"
    ABSENT = "absent"


class Entry(NamedTuple):
    """One line of a listing; `size` is in bytes as the store keeps them, compressed if it compresses."""

    key: str
    version: str
    size: int


class Fence(TypedDict):
    """Plain data that proves a lease; survives JSON, any rank may carry it; only the store that issued it reads it."""

    store: str
    lock: str
    token: str


class Lease(Protocol):
    """The right to be the one replica that warms a config hash; the plugin refreshes it until `release`."""

    @property
    def fence(self) -> Fence: ...
    def alive(self) -> bool: ...
    def release(self) -> None: ...


@dataclass(frozen=True)
class NotApplicable:
    """A kind has no part in this start: switched off, its library absent, its GPU too old."""

    reason: str


@dataclass(frozen=True)
class Held:
    """A lease that was not granted: `since` in Unix seconds, the holder's last known warm-up, or the entry changed."""

    since: float | None = None
    last_seconds: float | None = None
    changed: bool = False


@dataclass(frozen=True)
class Usage:
    """What of the installed was really used, by file or key name; `unknown` is the reason where it can't be told."""

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    unknown: str | None = None


@dataclass(frozen=True)
class Fingerprint:
    """The digests of a ballot: of an artifact's environment, of what it has entries for, and of what it selects."""

    environment: str
    entries: str
    selections: str


class Group(Protocol):
    """The ranks that must decide together, over a write-once register; no call blocks. Values are at most 64 KiB."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def epoch(self) -> str: ...
    def put_once(self, name: str, value: bytes) -> bytes: ...
    def get(self, name: str) -> bytes | None: ...


_LOCATION = frozenset(
    {"cwd", "home", "host", "hostname", "node", "node_name", "pid", "pod", "pod_name", "port", "user", "username"}
)
_SECRET_NAMES = (
    "api_key",
    "apikey",
    "credential",
    "credentials",
    "passwd",
    "password",
    "private_key",
    "secret",
    "token",
)
_SECRET_VALUES = (
    "-----BEGIN ",
    "AKIA",
    "eyJ",
    "ghp_",
    "github_pat_",
    "glpat-",
    "hf_",
    "nvapi-",
    "sk-",
    "xoxb-",
    "xoxp-",
)


@dataclass(frozen=True)
class Context:
    """What the engine hands over for one start.

    `config_hash` is the hash of its own config (see `config_hash`), `factors` the scalars it adds to every identity,
    `capability` the device's compute capability, `warm_ups` its warm-up callables by kind.
    """

    config_hash: str
    factors: Mapping[str, Scalar] = field(default_factory=dict)
    place: Place = Place()
    capability: tuple[int, int] | None = None
    warm_ups: Mapping[str, WarmUp] = field(default_factory=dict)
    group: Group | None = None
    progress: bool = False

    def check(self) -> None:
        """Raise IdentityError for what may not stand in an identity; called by the session, so no engine fails here."""
        names.check(names.HASH, "context config_hash", self.config_hash)
        _ = self.place.name
        capability = self.capability
        if capability is not None and not (isinstance(capability, tuple) and [*map(type, capability)] == [int, int]):
            raise IdentityError(f"context capability is {capability!r:.40}: expected (major, minor), such as (9, 0)")
        for name, value in self.factors.items():
            _check_engine_factor(names.check(names.ENGINE_FACTOR, "factor name", name), value)


def _check_engine_factor(name: str, value: Scalar) -> None:
    canonical(value)
    if name in _LOCATION:
        raise IdentityError(
            f"factor {name!r} is a location: it would keep every other replica from this artifact; leave it out"
        )
    if not isinstance(value, str):
        return
    if value.startswith(("/", "~", "./", "../", "file:")) or value[1:3] in (":\\", ":/"):
        raise IdentityError(f"factor {name!r} looks like a path, which differs between machines: use a name or a hash")
    if name.endswith(_SECRET_NAMES) or value.startswith(_SECRET_VALUES):
        raise IdentityError(
            f"factor {name!r} looks like a secret, and identities are stored in the clear: leave it out"
        )
