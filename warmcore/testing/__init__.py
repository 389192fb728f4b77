"""The conformance kit: subclass StoreTests or CacheTests, give a fixture or two, run pytest.

Everything public is named here and loaded when first touched. Needs pytest and hypothesis: `pip install
warmcore[testing]`. Nothing in warmcore imports it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmcore.testing.access import BytesSink as BytesSink
    from warmcore.testing.access import BytesSource as BytesSource
    from warmcore.testing.access import get_bytes as get_bytes
    from warmcore.testing.access import open_store as open_store
    from warmcore.testing.access import put_bytes as put_bytes
    from warmcore.testing.access import stored_key as stored_key
    from warmcore.testing.caches import CacheTests as CacheTests
    from warmcore.testing.caches import Side as Side
    from warmcore.testing.demo import DemoCache as DemoCache
    from warmcore.testing.engine import FakeEngine as FakeEngine
    from warmcore.testing.faults import CorruptingStore as CorruptingStore
    from warmcore.testing.faults import FlappingStore as FlappingStore
    from warmcore.testing.faults import FullStore as FullStore
    from warmcore.testing.faults import HangingStore as HangingStore
    from warmcore.testing.faults import SlowStore as SlowStore
    from warmcore.testing.faults import Wrapper as Wrapper
    from warmcore.testing.machine import StoreMachine as StoreMachine
    from warmcore.testing.memory import MemoryStore as MemoryStore
    from warmcore.testing.site import install_plugins as install_plugins
    from warmcore.testing.stores import Raw as Raw
    from warmcore.testing.stores import StoreTests as StoreTests

_HOMES = {
    "access": ("BytesSink", "BytesSource", "get_bytes", "open_store", "put_bytes", "stored_key"),
    "caches": ("CacheTests", "Side"),
    "demo": ("DemoCache",),
    "engine": ("FakeEngine",),
    "faults": ("CorruptingStore", "FlappingStore", "FullStore", "HangingStore", "SlowStore", "Wrapper"),
    "machine": ("StoreMachine",),
    "memory": ("MemoryStore",),
    "site": ("install_plugins",),
    "stores": ("Raw", "StoreTests"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605  # a list


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'warmcore.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"warmcore.testing.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
