"""StoreTests: what every store must do, as tests that a store's own test class inherits."""

from warmcore.testing.machine import ModelRules
from warmcore.testing.store_bytes import ByteRules
from warmcore.testing.store_damage import RestRules
from warmcore.testing.store_expect import ExpectRules
from warmcore.testing.store_given import Raw as Raw
from warmcore.testing.store_keys import KeyRules
from warmcore.testing.store_lease import LeaseRules
from warmcore.testing.store_list import DeleteRules, ListRules
from warmcore.testing.store_threads import InstanceRules, ThreadRules


class StoreRules(
    ByteRules, ExpectRules, KeyRules, ListRules, DeleteRules, ThreadRules, InstanceRules, RestRules, LeaseRules
):
    """The rules, each about one thing."""


class StoreTests(StoreRules, ModelRules):
    """Subclass this and give a fixture `store`: an instance of the plugin over an empty place, or a handle of one.

    Optional fixtures try more: `reopen`, `raw`, `unreachable` (see StoreGiven). What a store has no hook for, or no
    fixture gives, is skipped with its reason; `cannot = {"test_...": "why"}` lets a store off one rule.
    """
