"""What the rules for stores are given: the fixtures that a subclass defines, and those made from them."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Protocol

import pytest

from warmcore.plugins import Store
from warmcore.testing.access import open_store
from warmcore.testing.checks import fail


class Raw(Protocol):
    """What lies behind a store, in the store's own form, reached past it."""

    def read(self, key: str) -> bytes | None:
        """Return what lies at `key`, None if nothing does."""

    def write(self, key: str, data: bytes) -> None:
        """Put other bytes in the place of what lies at `key`."""


Reopen = Callable[[], object]


class StoreGiven:
    """The fixtures of a store's tests: `store`, and those that try more.

    `cannot` maps the name of a test to the reason why this store is let off.
    """

    cannot: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def store(self) -> object:
        """Return a new plugin over an empty place, or its handle (`open_store`), as a wrapper needs. Required."""
        return fail(f"{type(self).__name__} needs a fixture `store` that returns a plugin, or a handle of one")

    @pytest.fixture
    def reopen(self) -> Reopen | None:
        """Return a callable that opens the same place again, as another process would."""
        return None

    @pytest.fixture
    def raw(self) -> Raw | None:
        """Return a way past the store to what it keeps."""
        return None

    @pytest.fixture
    def unreachable(self) -> object | None:
        """Return a plugin whose server is not there."""
        return None

    @pytest.fixture
    def handle(self, store: object) -> Iterator[Store]:
        """Yield the store as the core calls it, and close it."""
        handle = handle_of(store)
        yield handle
        handle.close()

    @pytest.fixture
    def reopened(self, reopen: Reopen | None, handle: Store) -> Iterator[Store]:  # noqa: ARG002  # the first is there
        """Yield a second instance over the same place."""
        if reopen is None:
            pytest.skip("not tried: no fixture `reopen` opens this store a second time")
        again = handle_of(reopen())
        yield again
        again.close()

    @pytest.fixture
    def behind(self, raw: Raw | None) -> Raw:
        """Return what lies behind the store."""
        if raw is None:
            pytest.skip("not tried: no fixture `raw` reaches past this store")
        return raw

    @pytest.fixture(autouse=True)
    def _let_off(self, request: pytest.FixtureRequest) -> None:
        if reason := self.cannot.get(request.function.__name__):
            pytest.skip(reason)


def needs(handle: Store, hook: str) -> None:
    """Skip what a store can't do, with the reason."""
    if hook not in handle.can:
        pytest.skip(f"{type(handle.plugin).__name__} can't do this: it, or its inner store, has no {hook}")


def handle_of(store: object) -> Store:
    """Return a fixture's plugin or handle as a handle."""
    return store if isinstance(store, Store) else open_store(store)
