"""CacheTests: what every cache must do, as tests that a cache's own test class inherits."""

from warmcore.testing.cache_given import Side as Side
from warmcore.testing.cache_install import InstallRules, RelocationRules, WarmUpRules
from warmcore.testing.cache_payload import PayloadRules
from warmcore.testing.cache_request import RequestRules


class CacheTests(RequestRules, PayloadRules, InstallRules, WarmUpRules, RelocationRules):
    """Subclass this and give a fixture `engine_in`: it maps a folder to a `Side`, the plugin and a context.

    Optional fixtures try more: `foreign`, `variant`; `snapshot` and `check_warm` may be overridden for a kind that does
    not live in files (see CacheGiven). `cannot = {"test_...": "why"}` lets a cache off one rule.
    """
