"""Rules for stores: two keys are two entries, whatever they look like."""

import pytest

from warmcore.plugins import Store
from warmcore.testing.access import get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal
from warmcore.testing.store_given import StoreGiven

# As long as the core's name rules allow: 64 for the namespace, 64 for the kind, 512 for the name.
LONG = stored_key("n" * 511 + "1", namespace="m" * 64, kind="k" * 64)

TWINS = {
    "prefixes": [stored_key(name) for name in ("rank10", "rank1-", "rank1")],
    "digits": [stored_key(config_hash="0" * 63 + digit) for digit in "01af"],
    "long": [LONG, LONG[:-1] + "2", LONG[:-2] + "1"],
    "case": [stored_key(name) for name in ("Rank", "rank", "RANK")],
    "wildcards": [stored_key(name) for name in ("axb", "a-b", "a.b", "a_b")],
    "odd": [stored_key(name) for name in ("_", "-", "--help", "a..b", "a.", "a", "nul.txt", "con")],
    "namespaces": [stored_key(namespace=name) for name in ("default", "other", "...", ".hidden", "-rf", "con", "a.")],
    "kinds": [stored_key(kind=kind) for kind in ("demo", "demo_2", "dem")],
}
"""Keys that the core may ask for, in groups of near equals."""


class KeyRules(StoreGiven):
    """Keys are compared whole."""

    @pytest.mark.parametrize("keys", TWINS.values(), ids=TWINS.keys())
    def test_near_equal_keys_are_kept_apart(self, handle: Store, keys: list[str]) -> None:
        for key in keys[:-1]:
            put_bytes(handle, key, key.encode())
        equal(get_bytes(handle, keys[-1]), None, f"a get of {keys[-1]}, while its near equals stand")
        check(put_bytes(handle, keys[-1], keys[-1].encode()), f"a put at {keys[-1]} was refused")
        for key in keys:
            got = get_bytes(handle, key)
            equal(got and got.data, key.encode(), f"the bytes at {key}")
