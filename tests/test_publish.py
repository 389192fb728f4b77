"""A publish goes to every store that may be written, never shrinks what stands there, and says what came of each."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import (
    KIND,
    BrokenText,
    DemoCache,
    DemoEngine,
    FaultyCache,
    FaultyStore,
    MemoryStore,
    answers,
    chain_of,
    from_the_future,
    hangs,
    payload_of,
    put,
    raises,
    sealed,
    store_of,
    table,
    wanted_of,
)
from warmcore import Blob, Expect, Fence, Identity, Payload, Reject, Request, Sink, StoreError, artifact, hookimpl
from warmcore.chain import Chain, Wanted
from warmcore.publish import Offer, publish

ONE, TWO = table(1), table(2)


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return wanted_of(DemoCache(tmp_path / "tables"), DemoEngine(tmp_path / "tables").context())


def offer_of(payload: Payload, *, changed: bool = False, cost: float | None = 3.0, fence: Fence | None = None) -> Offer:
    return Offer(payload, artifact.new_generation(), cost, 60.0, changed, fence)


def offered(chain: Chain, wanted: Wanted, payload: Payload, **changes: Any) -> Payload | None:
    return publish(chain, wanted, offer_of(payload, **changes), time.monotonic() + 5)


def outcome(plugin: object, wanted: Wanted, payload: Payload, *, store: Any = None, **changes: Any) -> tuple[str, str]:
    """Publish to one store; return what came of it and why."""
    chain = chain_of(store_of(plugin, **(store or {})))
    offered(chain, wanted, payload, **changes)
    (event,) = chain.events.seen
    return event.outcome, event.reason


def stored(plugin: MemoryStore, wanted: Wanted) -> dict[str, bytes] | None:
    """Return the tables that a reader would get."""
    standing = chain_of(store_of(plugin)).read(store_of(plugin), wanted, time.monotonic() + 5)
    return None if standing.payload is None else {name[:-5]: blob.read(999) for name, blob in standing.payload.items()}


def header(plugin: MemoryStore) -> artifact.Header:
    (data,) = plugin.data().values()
    return artifact.parse_head(data).header


def test_an_absent_artifact_is_stored_whole(wanted: Wanted) -> None:
    plugin = MemoryStore()
    assert outcome(plugin, wanted, payload_of(a=ONE)) == ("stored", "")
    assert stored(plugin, wanted) == {"a": ONE}
    assert (header(plugin).cost_seconds, header(plugin).key) == (3.0, wanted.key)
    assert header(plugin).expires - header(plugin).created == 60


def test_every_writable_store_is_published_to_nearest_first(wanted: Wanted) -> None:
    plugins = [MemoryStore() for _ in range(3)]
    chain = chain_of(
        *(
            store_of(plugin, str(n), mode=mode)
            for n, (plugin, mode) in enumerate(zip(plugins, ["read-write", "read", "read-write"], strict=True))
        )
    )
    offered(chain, wanted, payload_of(a=ONE))
    assert [(event.store, event.outcome) for event in chain.events.seen] == [
        ("0", "stored"),
        ("1", "not applicable"),
        ("2", "stored"),
    ]
    assert plugins[0].data() == plugins[2].data()
    assert plugins[1].calls == []


def test_what_was_stored_comes_back_with_its_origin(wanted: Wanted) -> None:
    plugin = MemoryStore()
    payload = offered(chain_of(store_of(plugin)), wanted, payload_of(a=ONE))
    assert payload is not None
    assert payload.origin == artifact.origin(header(plugin))


def test_an_equal_artifact_is_not_stored_again(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE))
    before = dict(plugin.objects)
    assert outcome(plugin, wanted, payload_of(a=ONE))[0] == "unchanged"
    assert outcome(plugin, wanted, payload_of(a=ONE), changed=True)[0] == "unchanged"
    assert plugin.objects == before


def test_a_publish_adds_to_what_stands(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE, b=ONE))
    assert outcome(plugin, wanted, payload_of(b=ONE, c=ONE)) == ("stored", "")
    assert stored(plugin, wanted) == {"a": ONE, "b": ONE, "c": ONE}


def test_a_smaller_publish_takes_nothing_away(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE, b=ONE))
    for changed in (False, True):
        assert outcome(plugin, wanted, payload_of(a=ONE), changed=changed)[0] == "unchanged"
    assert stored(plugin, wanted) == {"a": ONE, "b": ONE}


def test_the_first_of_two_measurements_stands(wanted: Wanted) -> None:  # FI-12
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE))
    before = dict(plugin.objects)
    for _ in range(3):
        assert outcome(plugin, wanted, payload_of(a=TWO))[0] == "unchanged"
    assert plugin.objects == before


def test_the_first_measurement_stands_also_when_the_second_brings_more(wanted: Wanted) -> None:  # FI-12
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE))
    outcome(plugin, wanted, payload_of(a=TWO, b=TWO))
    assert stored(plugin, wanted) == {"a": ONE, "b": TWO}


def test_what_was_changed_since_it_was_adopted_wins(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE, b=ONE))
    assert outcome(plugin, wanted, payload_of(a=TWO), changed=True) == ("stored", "")
    assert stored(plugin, wanted) == {"a": TWO, "b": ONE}


def test_a_merge_that_loses_a_file_is_refused(tmp_path: Path, wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE, b=ONE))
    before = dict(plugin.objects)
    for merged in (payload_of(c=ONE), payload_of(a=TWO)):
        shrinking = wanted_of(FaultyCache(tmp_path, merge=answers(merged)), DemoEngine(tmp_path).context())
        result, reason = outcome(plugin, shrinking, payload_of(c=ONE), changed=True)
        assert (result, bool(reason)) == ("error", True)
    assert plugin.objects == before


def test_the_cost_of_what_stands_is_not_forgotten(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE), cost=221.0)
    outcome(plugin, wanted, payload_of(b=ONE), cost=0.3)
    assert header(plugin).cost_seconds == 221.0


def test_an_unknown_cost_is_published_as_unknown(wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE), cost=None)
    assert header(plugin).cost_seconds is None


def test_nothing_is_overwritten_by_an_empty_payload(wanted: Wanted) -> None:  # IN-12
    plugin = MemoryStore()
    assert outcome(plugin, wanted, Payload({})) == ("error", "empty: no files to publish")
    assert plugin.objects == {}
    outcome(plugin, wanted, payload_of(a=ONE))
    for changed in (False, True):
        outcome(plugin, wanted, Payload({}), changed=changed)
    assert stored(plugin, wanted) == {"a": ONE}


def test_an_artifact_that_every_reader_would_refuse_for_its_size_is_not_published(tmp_path: Path) -> None:
    tolerant = FaultyCache(tmp_path, validate_payload=lambda request, payload: payload)
    wanted = wanted_of(tolerant, DemoEngine(tmp_path).context())
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE))
    before = dict(plugin.objects)
    result, reason = outcome(plugin, wanted, payload_of(b=bytes(5 << 20)))
    assert (result, "cap" in reason) == ("error", True)
    assert plugin.objects == before


def test_what_cannot_be_sealed_is_an_error_of_that_publish(tmp_path: Path, wanted: Wanted) -> None:
    anything = wanted_of(
        FaultyCache(tmp_path, validate_payload=lambda request, payload: payload), DemoEngine(tmp_path).context()
    )
    plugin = MemoryStore()
    assert outcome(plugin, anything, Payload({"../a": Blob.of(ONE)}))[0] == "error"
    assert plugin.objects == {}


def test_a_payload_that_its_own_kind_would_reject_is_not_published(wanted: Wanted) -> None:
    plugin = MemoryStore()
    assert outcome(plugin, wanted, payload_of(a=b"junk")) == ("error", "a.json is no table")
    assert plugin.objects == {}


@pytest.mark.parametrize("hook", ["merge", "validate_payload"])
@pytest.mark.parametrize("error", [ZeroDivisionError(), BrokenText(), Reject(""), StoreError()])
def test_a_cache_that_breaks_over_a_publish_is_an_error_with_a_reason(
    tmp_path: Path, wanted: Wanted, hook: str, error: Exception
) -> None:
    near, far = MemoryStore(), MemoryStore()
    put(near, wanted, sealed(payload_of(b=ONE), wanted))
    put(far, wanted, sealed(payload_of(b=ONE), wanted))
    broken = wanted_of(FaultyCache(tmp_path, **{hook: raises(error)}), DemoEngine(tmp_path).context())
    chain = chain_of(store_of(near, "near"), store_of(far, "far"))
    offered(chain, broken, payload_of(a=ONE))
    assert [(event.store, event.outcome, bool(event.reason)) for event in chain.events.seen] == [
        ("near", "error", True),
        ("far", "error", True),
    ]


SPOILT: dict[str, Callable[[Wanted], bytes]] = {
    "empty": lambda wanted: b"",
    "random": lambda wanted: random.Random(3).randbytes(500),
    "cut": lambda wanted: sealed(payload_of(a=ONE), wanted)[:-3],
    "another key's": lambda wanted: sealed(payload_of(a=ONE), wanted, key=wanted.key.replace("rank0", "rank7")),
    "expired": lambda wanted: sealed(payload_of(a=ONE), wanted, keep=-1),
    "over the cap": lambda wanted: bytes((8 << 20) + DemoCache.max_bytes),
}


@pytest.mark.parametrize("name", SPOILT)
def test_the_next_publish_heals_what_was_spoilt(wanted: Wanted, name: str) -> None:
    plugin = MemoryStore()
    put(plugin, wanted, SPOILT[name](wanted))
    assert outcome(plugin, wanted, payload_of(b=ONE)) == ("stored", "")
    assert stored(plugin, wanted) == {"b": ONE}


@pytest.mark.parametrize("changed", [False, True])
def test_what_is_good_for_somebody_else_is_never_replaced(wanted: Wanted, changed: bool) -> None:
    for data in (
        from_the_future(sealed(payload_of(a=ONE), wanted)),
        sealed(payload_of(a=table(1, "2.0")), wanted),
    ):
        plugin = MemoryStore()
        put(plugin, wanted, data)
        result, reason = outcome(plugin, wanted, payload_of(b=ONE), changed=changed)
        assert (result, "left alone" in reason) == ("refused", True)
        assert list(plugin.data().values()) == [data]


class Raced(MemoryStore):
    """A store where another writer is faster, `times` times."""

    def __init__(self, theirs: bytes, times: int = 1) -> None:
        super().__init__()
        self.theirs, self.times = theirs, times

    @hookimpl
    def store_put(self, key: str, source: Any, expect: Expect | str, fence: Fence | None) -> bool:
        if self.times > 0:
            self.times -= 1
            self.objects[key] = (f"theirs-{self.times}", self.theirs)
        return super().store_put(key, source, expect, fence)


def test_a_refused_put_is_decided_again_over_what_stands_now(wanted: Wanted) -> None:
    plugin = Raced(sealed(payload_of(a=ONE), wanted))
    assert outcome(plugin, wanted, payload_of(b=ONE)) == ("stored", "")
    assert stored(plugin, wanted) == {"a": ONE, "b": ONE}


def test_a_writer_that_is_always_late_gives_up(wanted: Wanted) -> None:
    plugin = Raced(sealed(payload_of(a=ONE), wanted), times=99)
    result, reason = outcome(plugin, wanted, payload_of(b=ONE))
    assert (result, bool(reason)) == ("refused", True)
    assert stored(plugin, wanted) == {"a": ONE}
    assert plugin.calls.count("store_put") < 10


def test_an_artifact_for_another_environment_that_came_meanwhile_survives(wanted: Wanted) -> None:  # FI-21
    theirs = sealed(payload_of(a=table(1, "2.0")), wanted)
    plugin = Raced(theirs)
    put(plugin, wanted, sealed(payload_of(a=ONE), wanted))
    result, reason = outcome(plugin, wanted, payload_of(b=ONE), changed=True)
    assert (result, "library 2.0" in reason) == ("refused", True)
    assert list(plugin.data().values()) == [theirs]


def test_a_fenced_publish_that_is_refused_is_not_tried_again(wanted: Wanted) -> None:
    plugin = FaultyStore(store_put=answers(False))
    fence: Fence = {"store": "near", "lock": "x", "token": "1"}
    assert outcome(plugin, wanted, payload_of(a=ONE), fence=fence)[0] == "refused"
    assert plugin.calls.count("store_put") == 1


class Recording(MemoryStore):
    """A store that remembers what its puts were to expect, and their fences."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[tuple[Expect | str, Fence | None]] = []

    @hookimpl
    def store_put(self, key: str, source: Any, expect: Expect | str, fence: Fence | None) -> bool:
        self.puts.append((expect, fence))
        return super().store_put(key, source, expect, fence)


def test_a_fence_reaches_the_store(wanted: Wanted) -> None:
    plugin = Recording()
    fence: Fence = {"store": "near", "lock": "x", "token": "1"}
    outcome(plugin, wanted, payload_of(a=ONE), fence=fence)
    assert plugin.puts == [(Expect.ABSENT, fence)]


def test_an_empty_version_is_expected_like_any_other(wanted: Wanted) -> None:
    plugin = Recording()
    plugin.objects[f"default/{wanted.key}"] = ("", b"junk")
    outcome(plugin, wanted, payload_of(a=ONE))
    assert plugin.puts == [("", None)]


RAISED = [OSError("no space left"), StoreError(), BrokenText(), SystemExit(1), KeyboardInterrupt()]


@pytest.mark.parametrize(
    ("hook", "fault"),
    [(hook, raises(error)) for hook in ("store_get", "store_put") for error in RAISED]
    + [("store_put", answers(None)), ("store_put", answers("yes")), ("store_get", answers(7))],
)
def test_errors_are_counted_for_each_store_and_stop_no_other(
    wanted: Wanted, hook: str, fault: Callable[..., object]
) -> None:
    far = MemoryStore()
    chain = chain_of(store_of(FaultyStore(**{hook: fault}), "near"), store_of(far, "far"))
    assert offered(chain, wanted, payload_of(a=ONE))
    assert [(event.store, event.outcome) for event in chain.events.seen] == [("near", "error"), ("far", "stored")]
    assert chain.events.seen[0].reason
    assert stored(far, wanted) == {"a": ONE}


@pytest.mark.parametrize("hook", ["store_get", "store_put"])
def test_a_hanging_store_is_a_timeout_and_keeps_no_other_waiting(wanted: Wanted, hook: str) -> None:
    far = MemoryStore()
    chain = chain_of(store_of(FaultyStore(**{hook: hangs}), "near", timeout=0.05), store_of(far, "far"))
    assert offered(chain, wanted, payload_of(a=ONE))
    assert [event.outcome for event in chain.events.seen] == ["timeout", "stored"]


def test_a_store_that_hung_while_adopting_is_not_asked_again(wanted: Wanted) -> None:
    plugin = FaultyStore(store_get=hangs)
    chain = chain_of(store_of(plugin, timeout=0.05))
    chain.look_up(wanted, time.monotonic() + 5)
    offered(chain, wanted, payload_of(a=ONE))
    assert plugin.calls == ["store_get"]
    assert chain.events.seen[-1].outcome == "timeout"


def test_a_store_that_was_never_asked_is_published_to(wanted: Wanted) -> None:
    hung, far = FaultyStore(store_get=hangs), MemoryStore()
    chain = chain_of(store_of(hung, "near"), store_of(far, "far"))
    chain.look_up(wanted, time.monotonic() + 0.05)
    assert chain.events.seen[-1].outcome == "timeout"
    offered(chain, wanted, payload_of(a=ONE))
    assert stored(far, wanted) == {"a": ONE}


def test_a_store_that_had_no_time_to_answer_is_published_to(wanted: Wanted) -> None:
    class Slow(MemoryStore):
        @hookimpl
        def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
            time.sleep(0.3)
            return super().store_get(key, sink, fresh)

    far = Slow()
    chain = chain_of(store_of(far, "far"))
    chain.look_up(wanted, time.monotonic() + 0.05)
    assert chain.events.seen[-1].outcome == "timeout"
    offered(chain, wanted, payload_of(a=ONE))
    assert stored(far, wanted) == {"a": ONE}


def test_a_publish_after_the_deadline_is_a_timeout(wanted: Wanted) -> None:
    chain = chain_of(store_of(MemoryStore()))
    publish(chain, wanted, offer_of(payload_of(a=ONE)), time.monotonic() - 1)
    assert [event.outcome for event in chain.events.seen] == ["timeout"]


def test_what_could_not_be_determined_keeps_an_artifact_from_shared_stores(wanted: Wanted) -> None:
    request = Request.of(KIND, Identity({"x": 1}), wanted.request.place, local_only=("driver",))
    local = Wanted(wanted.cache, request, wanted.cache.resolve(request))
    shared, private = MemoryStore(), MemoryStore()
    chain = chain_of(store_of(shared, "shared", shared=True, trusted=True), store_of(private, "private"))
    offered(chain, local, payload_of(a=ONE))
    assert shared.calls == []
    assert stored(private, local) == {"a": ONE}
    assert "driver" in chain.events.seen[0].reason


def test_a_request_without_an_identity_is_not_published(wanted: Wanted) -> None:
    peers = Request(KIND, wanted.request.config_hash, wanted.request.place)
    plugin = MemoryStore()
    assert outcome(plugin, Wanted(wanted.cache, peers, wanted.key), payload_of(a=ONE))[0] == "error"
    assert plugin.objects == {}


@pytest.mark.parametrize("theirs", [{"b": TWO}, {"a": TWO, "b": TWO}])
def test_code_in_a_store_that_is_not_trusted_is_neither_merged_nor_handed_back(
    tmp_path: Path, theirs: dict[str, bytes]
) -> None:
    plugin: Any = type("CodeCache", (DemoCache,), {"carries_code": True})(tmp_path)
    wanted = wanted_of(plugin, DemoEngine(tmp_path).context())
    store = MemoryStore()
    put(store, wanted, sealed(payload_of(**theirs), wanted))
    chain = chain_of(store_of(store, shared=True))
    payload = offered(chain, wanted, payload_of(a=ONE))
    assert payload is None or {name: blob.read(99) for name, blob in payload.items()} == {"a.json": ONE}


def test_code_is_published_to_a_store_that_is_not_trusted_where_nothing_stands(tmp_path: Path) -> None:
    plugin: Any = type("CodeCache", (DemoCache,), {"carries_code": True})(tmp_path)
    wanted = wanted_of(plugin, DemoEngine(tmp_path).context())
    assert outcome(MemoryStore(), wanted, payload_of(a=ONE), store={"shared": True}) == ("stored", "")


def test_files_that_change_under_a_publish_replace_nothing(tmp_path: Path, wanted: Wanted) -> None:
    plugin = MemoryStore()
    outcome(plugin, wanted, payload_of(a=ONE))
    before = dict(plugin.objects)
    (tmp_path / "b.json").write_bytes(ONE)

    class Late(MemoryStore):
        @hookimpl
        def store_put(self, key: str, source: Any, expect: Expect | str, fence: Fence | None) -> bool:
            (tmp_path / "b.json").write_bytes(TWO)
            return super().store_put(key, source, expect, fence)

    late = Late()
    late.objects = plugin.objects
    result, reason = outcome(late, wanted, Payload({"b.json": Blob.of(tmp_path / "b.json")}))
    assert (result, "changed" in reason) == ("error", True)
    assert late.objects == before


@pytest.mark.parametrize("failing", range(8))
def test_any_subset_of_stores_may_fail_and_each_holds_the_old_or_the_new(wanted: Wanted, failing: int) -> None:
    old = sealed(payload_of(a=ONE), wanted)
    plugins = [FaultyStore(**({"store_put": raises(OSError("full"))} if failing >> n & 1 else {})) for n in range(3)]
    for plugin in plugins:
        put(plugin, wanted, old)
    offered(chain_of(*(store_of(plugin, str(n)) for n, plugin in enumerate(plugins))), wanted, payload_of(b=ONE))
    for n, plugin in enumerate(plugins):
        assert stored(plugin, wanted) == ({"a": ONE} if failing >> n & 1 else {"a": ONE, "b": ONE})


tables = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2).map(table), min_size=1)


@settings(max_examples=40)
@given(steps=st.lists(st.tuples(tables, st.booleans()), min_size=1, max_size=6))
def test_whatever_is_published_in_whatever_order_nothing_shrinks_and_the_first_stands(
    steps: list[tuple[dict[str, bytes], bool]],
) -> None:
    wanted = wanted_of(DemoCache(Path("nowhere")), DemoEngine(Path("nowhere")).context())
    plugin = MemoryStore()
    expected: dict[str, bytes] = {}
    for files, changed in steps:
        outcome(plugin, wanted, payload_of(**files), changed=changed)
        expected = {**expected, **files} if changed else {**files, **expected}
        assert stored(plugin, wanted) == expected
