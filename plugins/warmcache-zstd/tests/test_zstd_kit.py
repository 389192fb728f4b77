"""The conformance kit over wrappers: what they can do is what their inner store can."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from zstd_parts import handle, wrapped

from warmcore import Expect, Fence, Sink, Source, Store, hookimpl
from warmcore.testing import MemoryStore, StoreTests
from warmcore.testing.memory import Kept


class Beneath:
    """What lies in a memory store."""

    def __init__(self, plugin: MemoryStore) -> None:
        self.shelf = plugin.shelf

    def read(self, key: str) -> bytes | None:
        kept = self.shelf.entries.get(key)
        return kept and kept.data

    def write(self, key: str, data: bytes) -> None:
        self.shelf.entries[key] = Kept(data, str(next(self.shelf.versions)))


class Listless:
    """A memory store that can neither list nor lease."""

    def __init__(self) -> None:
        self.all = MemoryStore()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        return self.all.store_get(key, sink, fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        return self.all.store_put(key, source, expect, fence)

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return self.all.store_delete(key, expect)


class TestOverAStoreWithAllHooks(StoreTests):
    cannot: ClassVar[dict[str, str]] = {
        "test_a_listed_size_is_that_of_the_bytes_as_read": "listed sizes are compressed: others would move the values",
        "test_a_store_agrees_with_a_dict": "it compares listed sizes: tried over a store without a list",
    }

    @pytest.fixture
    def memory(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def store(self, memory: MemoryStore) -> Store:
        return wrapped(handle("inner", memory))

    @pytest.fixture
    def reopen(self, memory: MemoryStore) -> Callable[[], Store]:
        def again() -> Store:
            plugin = MemoryStore()
            plugin.shelf = memory.shelf
            return wrapped(handle("inner", plugin), level=9)

        return again

    @pytest.fixture
    def raw(self, memory: MemoryStore) -> Beneath:
        return Beneath(memory)


class TestOverAStoreWithFewHooks(StoreTests):
    @pytest.fixture
    def store(self) -> Store:
        return wrapped(handle("inner", Listless()))
