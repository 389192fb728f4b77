"""The configured stores as the commands that look into them see them: opened once, listed, and searched for a key."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from warmcore.assembly import assemble
from warmcore.chain import Chain
from warmcore.cli.common import say
from warmcore.config import Config, load_config, near
from warmcore.errors import ConfigError, IdentityError, WarmcoreError, reason_of
from warmcore.identity import parse_key
from warmcore.plugins import Store
from warmcore.report import Events
from warmcore.threads import run_within

CLOSE_SECONDS = 1.0


@dataclass(frozen=True)
class Stored:
    """One line of a store's listing; `key` is without the namespace."""

    store: Store
    key: str
    version: str
    size: int


@dataclass
class Stores:
    """The stores of a config. `problems` were told on stderr: what could not be opened or listed."""

    config: Config
    chain: Chain
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        self.problems.append(text)
        say(text)

    @property
    def listable(self) -> list[Store]:
        return [store for store in self.chain.stores if "store_list" in store.can]

    def named(self, name: str | None) -> list[Store]:
        """Return one store of the chain, or all; ConfigError if there is no such store."""
        found = [store for store in self.chain.stores if name in (None, store.name)]
        if name is not None and not found:
            raise ConfigError(
                f"no store {name!r} in the chain; {near(name, [each.name for each in self.chain.stores])}"
            )
        return found

    def listing(self, prefix: str, seconds: float) -> list[Stored]:
        """List all stores that can, nearest first, each within `seconds`."""
        for store in self.chain.stores:
            if store not in self.listable:
                say(f"store {store.name!r} can't list what it holds: passed over")
        return [stored for store in self.listable for stored in self._list(store, full_prefix(prefix), seconds)]

    def find(self, text: str, seconds: float) -> str:
        """Return the key that a person means: a whole one, or the one stored key that starts so, or whose hash does."""
        with suppress(IdentityError):
            parse_key(text)
            return text
        found = sorted({stored.key for stored in self.listing("", seconds) if _meant(stored.key, text)})
        if len(found) == 1:
            return found[0]
        several = f"{len(found)} stored keys start so, as {found[0]} and {found[1]} do" if found else ""
        raise ConfigError(
            f"{text!r:.200}: {several or 'no stored key starts so'}; "
            "expected v1/kind/config-hash/name or the start of one (see `warmcore ls`)"
        )

    def _list(self, store: Store, prefix: str, seconds: float) -> list[Stored]:
        start = f"{self.chain.namespace}/"

        def entries() -> list[Stored]:
            found = store.list(start + prefix)
            return [
                Stored(store, str(key).removeprefix(start), str(version), int(size)) for key, version, size in found
            ]

        try:
            return run_within(seconds, entries)
        except (WarmcoreError, TypeError, ValueError) as error:
            self.problem(f"store {store.name!r} can't be listed: {reason_of(error)}")
            return []


@contextmanager
def open_stores(path: Path | None) -> Iterator[Stores]:
    """Open the stores of a config, and no cache; ConfigError for a mistake in it, or while warmcore is switched off."""
    config = load_config(path)
    if config.disabled:
        raise ConfigError("WARMCORE_DISABLE is set: no store is touched; unset it to use this command")
    made = assemble(replace(config, caches={}, extensions={}))
    stores = Stores(config, Chain(made.stores, Events(), config.policy.namespace))
    for text in made.problems:
        stores.problem(text)
    try:
        yield stores
    finally:
        for store in made.stores:
            with suppress(Exception):  # closing is a courtesy
                run_within(CLOSE_SECONDS, store.close)


def full_prefix(text: str) -> str:
    """Return the key prefix that a person means: the version may be left out."""
    return text if "v1/".startswith(text[:3]) else f"v1/{text}"


def _meant(key: str, text: str) -> bool:
    return key.startswith(full_prefix(text)) or any(part.startswith(text) for part in key.split("/")[2:3])
