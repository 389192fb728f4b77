"""A store against a dict, by a hypothesis state machine: what holds call by call must hold in any order."""

import itertools
from typing import ClassVar

import hypothesis
from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from warmcore.contracts import Expect
from warmcore.errors import Reject
from warmcore.plugins import Store
from warmcore.testing.access import BytesSink, BytesSource, Got, get_bytes, put_bytes, stored_key
from warmcore.testing.checks import check, equal, fail, raised_by, shown
from warmcore.testing.store_given import StoreGiven

NAMES = strategies.sampled_from(["all", "All", "rank1", "rank10"])
DATA = strategies.binary(min_size=1, max_size=64) | strategies.integers(1, 50_000).map(lambda size: b"x" * size)
EXPECTS = strategies.sampled_from(["any", "absent", "current", "current", "older"])

_fresh_namespaces = itertools.count()


class StoreMachine(RuleBasedStateMachine):
    """Compare a store with a dict, in a namespace of its own for each sequence. A subclass names the `store`."""

    store: ClassVar[Store]

    def __init__(self) -> None:
        super().__init__()
        self.namespace = f"machine{next(_fresh_namespaces)}"
        self.model: dict[str, Got] = {}
        self.older: dict[str, str] = {}

    @rule(name=NAMES, data=DATA, expecting=EXPECTS)
    def put(self, name: str, data: bytes, expecting: str) -> None:
        key = self._key(name)
        expect = self._expect(key, expecting)
        allowed = self._is_as(expect, key)
        equal(put_bytes(self.store, key, data, expect), allowed, f"put, expecting {expecting}")
        if allowed:
            self._replace(key, data)

    @rule(name=NAMES, expecting=EXPECTS)
    def delete(self, name: str, expecting: str) -> None:
        if "store_delete" not in self.store.can:
            return
        key = self._key(name)
        expect = self._expect(key, expecting)
        allowed = key in self.model and self._is_as(expect, key)
        equal(self.store.delete(key, expect), allowed, f"delete, expecting {expecting}")
        if allowed:
            self.older[key] = self.model.pop(key).version

    @rule(name=NAMES, fresh=strategies.booleans())
    def get(self, name: str, fresh: bool) -> None:
        key = self._key(name)
        equal(get_bytes(self.store, key, fresh=fresh), self.model.get(key), "get")

    @rule(name=NAMES)
    def get_into_a_full_sink(self, name: str) -> None:
        key = self._key(name)
        raised = raised_by(lambda: self.store.get(key, BytesSink(Reject("over the cap"))))
        equal(raised is not None, key in self.model, "a get raises what its sink raises")

    @rule(name=NAMES, data=DATA)
    def put_from_a_failing_source(self, name: str, data: bytes) -> None:
        source = BytesSource(data, error=OSError("read error"), after=len(data) // 2)
        raised = raised_by(lambda: self.store.put(self._key(name), source, Expect.ANY))
        equal(raised is not None, True, "a put raises what its source raises")

    @rule(part=strategies.sampled_from(["", "v1/demo/", "v1/demo/" + "0" * 64 + "/rank1"]))
    def list(self, part: str) -> None:
        if "store_list" in self.store.can:
            prefix = f"{self.namespace}/{part}"
            expected = sorted((key, got.version) for key, got in self.model.items() if key.startswith(prefix))
            found = [(entry.key, entry.version) for entry in self.store.list(prefix)]
            equal(found, expected, f"list of {part!r}")

    def teardown(self) -> None:
        found = {key: get_bytes(self.store, key) for key in map(self._key, ("all", "All", "rank1", "rank10"))}
        equal({key: got for key, got in found.items() if got}, self.model, "all that stands at the end")

    def _key(self, name: str) -> str:
        return stored_key(name, namespace=self.namespace)

    def _expect(self, key: str, expecting: str) -> Expect | str:
        current = self.model[key].version if key in self.model else "none stands"
        known: dict[str, Expect | str] = {"any": Expect.ANY, "absent": Expect.ABSENT, "current": current}
        return known.get(expecting, self.older.get(key, "never given"))

    def _is_as(self, expect: Expect | str, key: str) -> bool:
        if isinstance(expect, Expect):
            return expect is Expect.ANY or key not in self.model
        return key in self.model and self.model[key].version == expect

    def _replace(self, key: str, data: bytes) -> None:
        old, new = self.model.get(key), get_bytes(self.store, key)
        if new is None or new.data != data:
            fail(f"get after put: found {shown(new)}, expected {shown(data)}")
        if old is not None and old.data != data:
            check(old.version != new.version, f"other bytes have the same version, {new.version!r}")
            self.older[key] = old.version
        self.model[key] = new


class ModelRules(StoreGiven):
    """The machine as a rule; hypothesis' profile says how many sequences."""

    def test_a_store_agrees_with_a_dict(self, handle: Store) -> None:
        settings = hypothesis.settings(
            deadline=None, stateful_step_count=20, suppress_health_check=list(hypothesis.HealthCheck)
        )
        run_state_machine_as_test(type("Machine", (StoreMachine,), {"store": handle}), settings=settings)
