"""Identity, place and request: what an artifact is asked for by, and the key that follows from it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Literal, NamedTuple

from warmcore import names
from warmcore.errors import IdentityError

Scalar = str | int | float | bool | None
Scope = Literal["rank", "group"]
Agree = Literal["environment", "entries", "selections"]

KEY_VERSION = "v1"
MAX_TEXT_BYTES = 256


class Absent(Enum):
    """Stands for a factor that one side of a difference does not have (None is a value)."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "(absent)"


class Difference(NamedTuple):
    """One factor in which two identities differ."""

    factor: str
    left: Scalar | Absent
    right: Scalar | Absent


class Key(NamedTuple):
    """A parsed key: `v1/kind/config-hash/name`."""

    kind: str
    config_hash: str
    name: str

    def __str__(self) -> str:
        return "/".join((KEY_VERSION, *self))


def canonical(value: object) -> bytes:
    """Encode plain data so that equal content gives equal bytes in every process.

    Plain data: str, int (64 bit), float, bool, None, and lists, tuples and string-keyed mappings of them. JSON with
    sorted keys and no spaces, in UTF-8; 1, 1.0 and true differ. Anything else, NaN and infinities included, raises
    IdentityError with its place.
    """
    try:
        plain = _plain(value, "value")
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise IdentityError("value is nested too deep, or holds itself: expected plain data") from None


def config_hash(config: object) -> str:
    """Return the hex SHA-256 of an engine's own plain config, for `Context.config_hash`."""
    return hashlib.sha256(canonical(config)).hexdigest()


@dataclass(frozen=True, eq=False)
class Identity:
    """The named factors, equal on all ranks, that decide whether an artifact fits.

    A string over 256 bytes enters as `sha256:<hex>`. Two identities are equal when their canonical forms are: 1 is not
    True.
    """

    factors: Mapping[str, Scalar]
    config_hash: str = field(init=False)

    def __post_init__(self) -> None:
        for name in self.factors:
            names.check(names.FACTOR, "factor name", name)
        factors = {name: _scalar(name, self.factors[name]) for name in sorted(self.factors)}
        if not factors:
            raise IdentityError("an identity needs at least one factor")
        object.__setattr__(self, "factors", MappingProxyType(factors))
        object.__setattr__(self, "config_hash", hashlib.sha256(canonical(factors)).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.config_hash == other.config_hash

    def __hash__(self) -> int:
        return hash(self.config_hash)


def diff(left: Identity, right: Identity) -> list[Difference]:
    """Return the factors in which two identities differ, by name, with both values."""
    if left == right:
        return []
    found = []
    for name in sorted({*left.factors, *right.factors}):
        ours, theirs = (side.factors.get(name, Absent.ABSENT) for side in (left, right))
        if isinstance(ours, Absent) or isinstance(theirs, Absent) or canonical(ours) != canonical(theirs):
            found.append(Difference(name, ours, theirs))
    return found


@dataclass(frozen=True)
class Place:
    """Where in the group this rank stands; it makes the artifact's name, never its identity."""

    dp: int = 0
    pp: int = 0
    tp: int = 0
    ep: int = 0
    rank: int = 0
    local_rank: int = 0

    @property
    def name(self) -> str:
        """The artifact's name for scope rank; IdentityError if an axis is no rank."""
        for axis, value in vars(self).items():
            if type(value) is not int or not 0 <= value < 1_000_000:
                raise IdentityError(f"place {axis} is {value!r}: expected a rank from 0")
        return f"dp{self.dp}-pp{self.pp}-tp{self.tp}-ep{self.ep}-rank{self.rank}"


@dataclass(frozen=True)
class Request:
    """Identity and place together: what a session, or a peer, asks for.

    `identity` is None in a peer's request: its `config_hash` is taken as asked, never recomputed. `agree` says what
    ranks must agree on in this start; `local_only` names the factors that could not be determined, which keep the
    artifact out of shared stores.
    """

    kind: str
    config_hash: str
    place: Place = Place()
    identity: Identity | None = None
    agree: Agree = "environment"
    local_only: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        identity: Identity,
        place: Place,
        *,
        agree: Agree = "environment",
        local_only: tuple[str, ...] = (),
    ) -> "Request":
        return cls(kind, identity.config_hash, place, identity, agree, local_only)

    def key(self, scope: Scope) -> str:
        """Name what is asked for; IdentityError (a ValueError) on a bad kind or hash."""
        return make_key(self.kind, self.config_hash, "all" if scope == "group" else self.place.name)


def make_key(kind: str, config_hash: str, name: str) -> str:
    """Return `v1/kind/config-hash/name`, each part judged."""
    names.check(names.KIND, "kind", kind)
    names.check(names.HASH, "config hash", config_hash)
    return str(Key(kind, config_hash, names.check(names.ARTIFACT, "artifact name", name)))


def parse_key(text: str) -> Key:
    """Take a key apart; IdentityError unless every part is a name that `make_key` would give."""
    version, _, rest = text.partition("/")
    parts = rest.split("/")
    if version != KEY_VERSION or len(parts) != 3:
        raise IdentityError(f"key {text!r:.200}: expected {KEY_VERSION}/kind/config-hash/name (see `warmcore ls`)")
    make_key(*parts)
    return Key(*parts)


def _scalar(name: str, value: object) -> Scalar:
    if isinstance(value, (Mapping, list, tuple)):
        raise IdentityError(
            f"factor {name!r} is a {type(value).__name__}: factors are scalars; pass config_hash(...) of a big config"
        )
    plain = _plain(value, f"factor {name!r}")
    if isinstance(plain, str) and len(plain.encode()) > MAX_TEXT_BYTES:
        return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"
    return plain  # type: ignore[return-value]  # not a container: a scalar


def _plain(value: object, where: str) -> object:
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return _text(value, where)
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {
            _text(name, f"a key of {where}"): _plain(item, f"{where}[{name!r:.40}]") for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise IdentityError(
        f"{where} is {value!r:.60} ({type(value).__name__}): expected a str, 64-bit int, finite float, bool or None"
    )


def _text(value: object, where: str) -> str:
    if type(value) is not str:
        raise IdentityError(f"{where} is {value!r:.60}: expected a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise IdentityError(f"{where} is not valid Unicode") from None
    return value
