"""Removal from stores, as the commands that change them do it: only where it is allowed, and only what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from warmcore.cli.common import amount, say
from warmcore.cli.stores import Stored, Stores
from warmcore.errors import ConfigError, WarmcoreError, reason_of
from warmcore.plugins import Store
from warmcore.threads import run_within

Fate = Literal["removed", "kept", "changed", "failed"]


@dataclass(frozen=True)
class Removal:
    """What became of one object; `kept` is for a dry run, `changed` for what was replaced or removed meanwhile."""

    stored: Stored
    why: str
    fate: Fate

    @property
    def line(self) -> str:
        stored = self.stored
        return f"{stored.store.name} {stored.key} ({amount(stored.size)}): {self.why or 'asked for'}: {self.fate}"

    @property
    def row(self) -> dict[str, object]:
        stored = self.stored
        where = {"key": stored.key, "store": stored.store.name, "size": stored.size, "version": stored.version}
        return {**where, "why": self.why, "fate": self.fate}


def removable(stores: Stores, name: str | None = None) -> list[Store]:
    """Return the stores to remove from; others are told on stderr, or are a ConfigError if asked for by name."""
    found = []
    for store in stores.named(name):
        reason = _unfit(store)
        if reason is None:
            found.append(store)
        elif name is not None:
            raise ConfigError(f"store {store.name!r} {reason}")
        else:
            say(f"store {store.name!r} {reason}: passed over")
    return found


def remove(stores: Stores, stored: Stored, why: str, seconds: float) -> Removal:
    """Remove exactly the version that was listed; a failure is told on stderr."""
    key = stores.chain.stored_key(stored.key)
    try:
        gone = run_within(seconds, lambda: stored.store.delete(key, stored.version))
    except WarmcoreError as error:
        stores.problem(f"store {stored.store.name!r}: {stored.key} can't be removed: {reason_of(error)}")
        return Removal(stored, why, "failed")
    return Removal(stored, why, "removed" if gone else "changed")


def summary(removals: Sequence[Removal], fate: Fate, word: str) -> str:
    """Say how many objects met a fate, and how many bytes they are."""
    sizes = [removal.stored.size for removal in removals if removal.fate == fate]
    return f"{word}: {len(sizes)} objects, {amount(sum(sizes))}"


def _unfit(store: Store) -> str | None:
    if not {"store_list", "store_delete"} <= store.can:
        return "can't list and delete"
    return None if store.mode == "read-write" else f'has mode = "{store.mode}" in this config'
