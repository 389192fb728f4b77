"""An explained look-up, as lines for people and as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmcore.cli.asked import Asked
from warmcore.cli.common import table, value
from warmcore.explain import Nearest
from warmcore.identity import Absent, Difference, Identity

NEVER = "Never a factor, so never why: host, user, pod, pid, port, HOME, any path, and the rank's place."


@dataclass(frozen=True)
class Explained:
    """One look-up, the stored entries nearest to it, and the other keys that hold its very identity."""

    asked: Asked
    near: Sequence[Nearest] = ()
    same: Sequence[str] = ()

    def lines(self) -> list[str]:
        asked = self.asked
        reason = f": {asked.reason}" if asked.reason else ""
        rows = [(each.store, each.outcome, each.reason) for each in asked.look_ups]
        return [
            f"{asked.kind} {asked.key}".rstrip(),
            f"{asked.outcome}{reason} ({asked.origin})" if asked.outcome else asked.origin,
            *table(("store", "outcome", "reason"), rows, "  "),
            *_identity(asked.identity),
            *(f"The same identity is stored as {key}" for key in self.same),
            *(line for each in self.near for line in _differing(each)),
            *(["No other identity of this kind is stored."] if asked.identity and not self.near else []),
        ]

    def plain(self) -> dict[str, object]:
        asked = self.asked
        return {
            "kind": asked.kind,
            "key": asked.key,
            "origin": asked.origin,
            "outcome": asked.outcome,
            "reason": asked.reason,
            "look_ups": [
                {"store": each.store, "outcome": each.outcome, "reason": each.reason} for each in asked.look_ups
            ],
            "identity": dict(asked.identity.factors) if asked.identity else None,
            "same": list(self.same),
            "nearest": [
                {"key": each.key, "store": each.store, "differs": list(map(_sides, each.differences))}
                for each in self.near
            ],
        }


def _identity(identity: Identity | None) -> list[str]:
    if identity is None:
        return ["It had no identity in this start."]
    factors = [(name, value(each)) for name, each in identity.factors.items()]
    head = f"Identity: another value of any of these {len(factors)} factors is another artifact."
    return [head, *table(("factor", "value"), factors, "  "), NEVER]


def _differing(near: Nearest) -> list[str]:
    count = len(near.differences)
    rows = [(each.factor, _side(each.left), _side(each.right)) for each in near.differences]
    head = f"Nearest: {near.key} in {near.store} differs in {count} factor{'s' if count > 1 else ''}:"
    return [head, *table(("factor", "asked for", "stored"), rows, "  ")]


def _side(side: object) -> str:
    return repr(side) if isinstance(side, Absent) else value(side)


def _sides(difference: Difference) -> dict[str, object]:
    """Return a difference as plain data; a side that lacks the factor is left out."""
    sides = {"factor": difference.factor, "asked": difference.left, "stored": difference.right}
    return {name: side for name, side in sides.items() if not isinstance(side, Absent)}
