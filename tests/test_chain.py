"""Stores are asked nearest first until one has an artifact that is fit; each answer is counted for what it was."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import (
    KIND,
    BrokenText,
    DemoCache,
    DemoEngine,
    FaultyCache,
    FaultyStore,
    MemoryStore,
    SwallowsFaults,
    WrapsFaults,
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
from warmcore import Blob, Expect, Identity, Payload, Place, Reject, Request, Store, StoreError
from warmcore.chain import Chain, Standing, Wanted
from warmcore.publish import back_fill
from warmcore.report import Event
from warmcore.streams import BlobSource

GOOD = payload_of(gemm=table(1))


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return wanted_of(DemoCache(tmp_path / "tables"), DemoEngine(tmp_path / "tables").context())


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def look_up(chain: Chain, wanted: Wanted, deadline: float | None = None) -> tuple[str, Standing] | None:
    found = chain.look_up(wanted, soon() if deadline is None else deadline)
    return (found[0].name, found[1]) if found else None


def outcomes(chain: Chain) -> list[tuple[str, str]]:
    return [(event.store, event.outcome) for event in chain.events.seen]


def standing(plugin: object, wanted: Wanted, **keys: Any) -> Standing:
    """Return what one store's answer came to."""
    chain = chain_of(store_of(plugin, **keys))
    look_up(chain, wanted)
    return chain.seen["near", wanted.key]


def holding(plugin: MemoryStore, wanted: Wanted, data: bytes) -> MemoryStore:
    put(plugin, wanted, data)
    return plugin


def test_the_nearest_fit_copy_is_taken_and_farther_stores_are_not_asked(wanted: Wanted) -> None:
    plugins = [MemoryStore(), holding(MemoryStore(), wanted, sealed(GOOD, wanted)), MemoryStore()]
    chain = chain_of(*(store_of(plugin, name) for plugin, name in zip(plugins, "abc", strict=True)))
    found = look_up(chain, wanted)
    assert found is not None
    assert (found[0], found[1].payload and found[1].payload["gemm.json"].read(99)) == ("b", table(1))
    assert outcomes(chain) == [("a", "miss"), ("b", "hit")]
    assert plugins[2].calls == []


def test_the_order_is_that_of_the_chain_and_not_of_the_clock(wanted: Wanted) -> None:
    first, second = (holding(MemoryStore(), wanted, sealed(payload_of(gemm=table(n)), wanted)) for n in (1, 2))
    for plugins, tactic in (((first, second), 1), ((second, first), 2)):
        found = look_up(chain_of(*(store_of(plugin, str(n)) for n, plugin in enumerate(plugins))), wanted)
        assert found is not None
        assert found[1].payload is not None
        assert found[1].payload["gemm.json"].read(99) == table(tactic)


def other_key(wanted: Wanted) -> bytes:
    return sealed(GOOD, wanted, key=wanted.key.replace("rank0", "rank1"))


def other_identity(wanted: Wanted) -> bytes:
    request = Request.of(KIND, Identity({"engine": "another"}), wanted.request.place)
    return sealed(GOOD, Wanted(wanted.cache, request, wanted.key))


BAD: dict[str, Callable[[Wanted], bytes]] = {
    "empty": lambda wanted: b"",
    "random": lambda wanted: random.Random(7).randbytes(2000),
    "cut in the body": lambda wanted: sealed(GOOD, wanted)[:-1],
    "cut in the header": lambda wanted: sealed(GOOD, wanted)[:300],
    "cut in the first line": lambda wanted: sealed(GOOD, wanted)[:20],
    "with bytes behind": lambda wanted: sealed(GOOD, wanted) + b"x",
    "one bit flipped": lambda wanted: sealed(GOOD, wanted)[:-2] + b"2}",
    "twice": lambda wanted: sealed(GOOD, wanted) * 2,
    "another key's": other_key,
    "another identity's": other_identity,
    "another namespace's": lambda wanted: sealed(GOOD, wanted, namespace="other"),
    "expired": lambda wanted: sealed(GOOD, wanted, keep=-1),
    "sealed, but no table": lambda wanted: sealed(payload_of(gemm=b"junk"), wanted),
    "with a hostile name": lambda wanted: sealed(GOOD, wanted).replace(b"gemm.json", b"../g.json"),
    "over the cap": lambda wanted: bytes((8 << 20) + DemoCache.max_bytes),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_near_copy_never_hides_a_good_far_one(wanted: Wanted, name: str) -> None:
    near = holding(MemoryStore(), wanted, BAD[name](wanted))
    far = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    chain = chain_of(store_of(near, "near"), store_of(far, "far"))
    found = look_up(chain, wanted)
    assert found is not None
    assert found[0] == "far"
    assert outcomes(chain) == [("near", "reject"), ("far", "hit")]


@pytest.mark.parametrize("name", BAD)
def test_a_reject_has_a_reason_and_may_be_replaced(wanted: Wanted, name: str) -> None:
    plugin = holding(MemoryStore(), wanted, BAD[name](wanted))
    answer = standing(plugin, wanted)
    assert (answer.outcome, bool(answer.reason), answer.payload) == ("reject", True, None)
    assert answer.expect in (Expect.ANY, next(iter(plugin.objects.values()))[0])


FAULTS: dict[str, FaultyStore] = {
    "raises": FaultyStore(store_get=raises(ValueError("broken"))),
    "raises without a word": FaultyStore(store_get=raises(ValueError())),
    "raises a StoreError without a word": FaultyStore(store_get=raises(StoreError())),
    "raises what can't be shown": FaultyStore(store_get=raises(BrokenText())),
    "raises out of memory": FaultyStore(store_get=raises(MemoryError())),
    "exits": FaultyStore(store_get=raises(SystemExit(3))),
    "interrupts": FaultyStore(store_get=raises(KeyboardInterrupt())),
    "answers with a number": FaultyStore(store_get=answers(1)),
    "answers with bytes": FaultyStore(store_get=answers(b"1")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_store_is_an_error_with_a_reason_and_hides_nothing(wanted: Wanted, name: str) -> None:
    far = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    chain = chain_of(store_of(FAULTS[name], "near"), store_of(far, "far"))
    found = look_up(chain, wanted)
    assert found is not None
    assert outcomes(chain) == [("near", "error"), ("far", "hit")]
    assert chain.events.seen[0].reason


def test_a_reject_without_a_word_still_has_a_reason(wanted: Wanted) -> None:
    assert standing(FaultyStore(store_get=raises(Reject(""))), wanted).reason


def test_a_reason_stays_on_one_line_of_bounded_length(wanted: Wanted) -> None:
    reason = standing(FaultyStore(store_get=raises(StoreError("two\nlines " * 9999))), wanted).reason
    assert "\n" not in reason
    assert len(reason) < 1000


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), BrokenText(), KeyError("x"), RecursionError()])
def test_a_cache_that_breaks_over_a_payload_does_not_end_the_look_up(
    tmp_path: Path, wanted: Wanted, error: Exception
) -> None:
    cache = FaultyCache(tmp_path, validate_payload=raises(error))
    broken = wanted_of(cache, DemoEngine(tmp_path).context())
    plugins = [holding(MemoryStore(), wanted, sealed(GOOD, wanted)) for _ in range(2)]
    chain = chain_of(*(store_of(plugin, str(n)) for n, plugin in enumerate(plugins)))
    assert look_up(chain, broken) is None
    assert outcomes(chain) == [("0", "error"), ("1", "error")]


def test_a_reject_of_a_plugins_own_making_does_not_end_the_look_up(tmp_path: Path, wanted: Wanted) -> None:
    class Bare(Reject):
        def __init__(self) -> None:
            pass

    broken = wanted_of(FaultyCache(tmp_path, validate_payload=raises(Bare())), DemoEngine(tmp_path).context())
    answer = standing(holding(MemoryStore(), wanted, sealed(GOOD, wanted)), broken)
    assert (answer.outcome, bool(answer.reason)) == ("reject", True)


def test_what_a_store_wrote_before_it_said_miss_is_dropped(wanted: Wanted) -> None:
    plugin = FaultyStore(store_get=lambda key, sink, fresh: sink.write(sealed(GOOD, wanted)))
    assert standing(plugin, wanted).outcome == "miss"


def test_an_empty_version_is_a_version(wanted: Wanted) -> None:
    plugin = MemoryStore()
    plugin.objects[f"default/{wanted.key}"] = ("", b"junk")
    answer = standing(plugin, wanted)
    assert (answer.outcome, answer.expect) == ("reject", "")


@pytest.mark.parametrize("sink", [WrapsFaults, SwallowsFaults, lambda sink: sink])
def test_an_artifact_over_the_cap_is_a_reject_whatever_the_store_makes_of_it(
    wanted: Wanted, sink: Callable[[Any], Any]
) -> None:
    plugin = holding(FaultyStore(sink=sink), wanted, bytes((8 << 20) + DemoCache.max_bytes))
    answer = standing(plugin, wanted)
    assert (answer.outcome, "cap" in answer.reason) == ("reject", True)


@pytest.mark.parametrize("sink", [WrapsFaults, SwallowsFaults, lambda sink: sink])
def test_a_read_past_its_deadline_is_a_timeout_whatever_the_store_makes_of_it(
    wanted: Wanted, sink: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmcore.chain.run_within", lambda seconds, call: call())

    def late(key: str, data: bytes) -> bytes:
        time.sleep(0.03)
        return data

    plugin = holding(FaultyStore(sink=sink, spoil=late), wanted, b"junk")
    answer = standing(plugin, wanted, timeout=0.01)
    assert (answer.outcome, answer.expect) == ("timeout", None)


def test_no_room_to_spill_is_an_error_and_nothing_to_replace(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(DemoCache, "max_bytes", 9 << 20)
    big = Wanted(wanted_of(DemoCache(tmp_path), DemoEngine(tmp_path).context()).cache, wanted.request, wanted.key)
    for sink in (WrapsFaults, SwallowsFaults):
        answer = standing(holding(FaultyStore(sink=sink), wanted, bytes(9 << 20)), big)
        assert (answer.outcome, answer.expect) == ("error", None)


def test_a_sealed_form_from_the_future_is_a_miss_that_is_never_replaced(wanted: Wanted) -> None:
    answer = standing(holding(MemoryStore(), wanted, from_the_future(sealed(GOOD, wanted))), wanted)
    assert (answer.outcome, answer.expect) == ("miss", None)
    assert "update warmcore" in answer.reason


def test_what_is_good_for_somebody_else_is_left_alone(wanted: Wanted) -> None:
    theirs = payload_of(gemm=table(1, library="2.0"))
    answer = standing(holding(MemoryStore(), wanted, sealed(theirs, wanted)), wanted)
    assert (answer.outcome, answer.expect) == ("reject", None)
    assert "library 2.0" in answer.reason


def test_a_wrapper_can_say_that_what_it_rejects_is_left_alone(wanted: Wanted) -> None:
    answer = standing(FaultyStore(store_get=raises(Reject("a newer frame", replaceable=False))), wanted)
    assert (answer.outcome, answer.expect) == ("reject", None)


def test_a_wrapper_can_say_which_bytes_it_rejects(wanted: Wanted) -> None:
    answer = standing(FaultyStore(store_get=raises(Reject("a cut frame", version="v7"))), wanted)
    assert (answer.outcome, answer.expect) == ("reject", "v7")


def test_a_hanging_store_is_a_timeout_and_hides_nothing(wanted: Wanted) -> None:
    far = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    chain = chain_of(store_of(FaultyStore(store_get=hangs), "near", timeout=0.05), store_of(far, "far"))
    assert look_up(chain, wanted)
    assert outcomes(chain) == [("near", "timeout"), ("far", "hit")]


@pytest.mark.parametrize("fault", [hangs, raises(OSError("connection refused"))])
def test_a_store_that_failed_three_times_is_not_asked_again(wanted: Wanted, fault: Callable[..., object]) -> None:
    near, far = FaultyStore(store_get=fault), MemoryStore()
    chain = chain_of(store_of(near, "near", timeout=0.2), store_of(far, "far"))
    for _ in range(6):
        look_up(chain, wanted)
    assert (near.calls, len(far.calls)) == (["store_get"] * 3, 6)
    assert [outcome for store, outcome in outcomes(chain) if store == "near"] == [chain.events.seen[0].outcome] * 6


def test_a_store_that_works_now_and_then_is_asked_on(wanted: Wanted) -> None:
    plugin = FaultyStore()
    chain = chain_of(store_of(plugin))
    for n in range(9):
        plugin.faults = {"store_get": raises(OSError("reset"))} if n % 3 else {}
        look_up(chain, wanted)
    assert len(plugin.calls) == 9


def test_a_store_that_was_left_alone_for_a_while_gets_one_call(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = FaultyStore(store_get=raises(OSError("reset")))
    chain = chain_of(store_of(plugin))
    for _ in range(5):
        look_up(chain, wanted)
    assert len(plugin.calls) == 3
    later = time.monotonic() + 31
    monkeypatch.setattr("warmcore.breaker.time.monotonic", lambda: later)
    for _ in range(5):
        look_up(chain, wanted, later + 5)
    assert len(plugin.calls) == 4
    plugin.faults = {}
    later += 31
    for _ in range(5):
        look_up(chain, wanted, later + 5)
    assert (len(plugin.calls), outcomes(chain)[-1]) == (9, ("near", "miss"))


@pytest.mark.parametrize("sink", [WrapsFaults, lambda sink: sink])
def test_bytes_that_are_not_taken_are_no_failure_of_their_store(wanted: Wanted, sink: Callable[[Any], Any]) -> None:
    plugin = holding(FaultyStore(sink=sink), wanted, bytes((8 << 20) + DemoCache.max_bytes))
    chain = chain_of(store_of(plugin))
    for _ in range(5):
        look_up(chain, wanted)
    assert outcomes(chain) == [("near", "reject")] * 5
    assert len(plugin.calls) == 5


@pytest.mark.parametrize("count", [5, 95])
def test_the_budget_holds_for_any_number_of_hanging_stores(wanted: Wanted, count: int) -> None:
    plugins = [FaultyStore(store_get=hangs) for _ in range(count)]
    chain = chain_of(*(store_of(plugin, str(n), timeout=0.1) for n, plugin in enumerate(plugins)))
    started = time.monotonic()
    assert look_up(chain, wanted, soon(0.25)) is None
    assert time.monotonic() - started < 3.0
    assert [outcome for _, outcome in outcomes(chain)] == ["timeout"] * count


def test_a_store_with_no_bound_worth_the_name_is_still_bounded_by_the_budget(wanted: Wanted) -> None:
    chain = chain_of(store_of(FaultyStore(store_get=hangs), timeout=float("inf")))
    assert look_up(chain, wanted, soon(0.05)) is None
    assert outcomes(chain) == [("near", "timeout")]


@pytest.mark.parametrize("deadline", [float("inf"), 9e9])
def test_a_budget_beyond_what_a_clock_can_wait_for_is_no_error(wanted: Wanted, deadline: float) -> None:
    chain = chain_of(store_of(MemoryStore(), timeout=deadline))
    look_up(chain, wanted, time.monotonic() + deadline)
    assert outcomes(chain) == [("near", "miss")]


def code_kind(tmp_path: Path) -> Wanted:
    plugin: Any = type("CodeCache", (DemoCache,), {"carries_code": True})(tmp_path / "tables")
    return wanted_of(plugin, DemoEngine(tmp_path / "tables").context())


@pytest.mark.parametrize(
    ("shared", "trusted", "outcome"),
    [(False, False, "hit"), (False, True, "hit"), (True, True, "hit"), (True, False, "not applicable")],
)
def test_code_is_adopted_from_a_shared_store_only_if_it_is_trusted(
    tmp_path: Path, shared: bool, trusted: bool, outcome: str
) -> None:
    wanted = code_kind(tmp_path)
    plugin = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    answer = standing(plugin, wanted, shared=shared, trusted=trusted)
    assert answer.outcome == outcome
    assert ("trusted = true" in answer.reason, plugin.calls == []) == (outcome != "hit",) * 2


def test_tables_are_adopted_from_any_store(wanted: Wanted) -> None:
    assert standing(holding(MemoryStore(), wanted, sealed(GOOD, wanted)), wanted, shared=True).outcome == "hit"


def test_what_could_not_be_determined_keeps_a_request_from_shared_stores(wanted: Wanted) -> None:
    request = Request.of(
        KIND,
        Identity(wanted.request.identity.factors if wanted.request.identity else {}),
        wanted.request.place,
        local_only=("driver", "gpu"),
    )
    local = Wanted(wanted.cache, request, wanted.key)
    shared, private = (holding(MemoryStore(), wanted, sealed(GOOD, wanted)) for _ in range(2))
    chain = chain_of(store_of(shared, "shared", shared=True, trusted=True), store_of(private, "private"))
    assert look_up(chain, local)
    assert outcomes(chain) == [("shared", "not applicable"), ("private", "hit")]
    assert "driver, gpu" in chain.events.seen[0].reason
    assert shared.calls == []


@pytest.mark.parametrize("mode", ["read", "lease", "read-write"])
def test_every_mode_may_be_read(wanted: Wanted, mode: str) -> None:
    assert standing(holding(MemoryStore(), wanted, sealed(GOOD, wanted)), wanted, mode=mode).outcome == "hit"


def test_a_namespace_is_part_of_what_stores_are_asked_for(wanted: Wanted) -> None:
    plugin = MemoryStore()
    put(plugin, wanted, sealed(GOOD, wanted, namespace="tenant"), namespace="tenant")
    assert look_up(chain_of(store_of(plugin)), wanted) is None
    assert look_up(chain_of(store_of(plugin), namespace="tenant"), wanted)


def test_every_store_asked_is_one_event_with_one_of_six_outcomes(wanted: Wanted, tmp_path: Path) -> None:
    plugins: Sequence[object] = [
        FaultyStore(store_get=hangs),
        FaultyStore(store_get=raises(OSError("gone"))),
        holding(MemoryStore(), wanted, b"junk"),
        holding(MemoryStore(), code_kind(tmp_path), b"unread"),
        MemoryStore(),
        holding(MemoryStore(), wanted, sealed(GOOD, wanted)),
    ]
    names = ["timeout", "error", "reject", "not applicable", "miss", "hit"]
    stores = [
        store_of(plugin, name, timeout=0.05 if name == "timeout" else 2.0)
        for plugin, name in zip(plugins, names, strict=True)
    ]
    stores[3].shared = True
    chain = chain_of(*stores)
    look_up(chain, code_kind(tmp_path))
    assert outcomes(chain) == [(name, name) for name in names]
    assert set(names) == {"hit", "miss", "reject", "error", "timeout", "not applicable"}
    assert [bool(event.reason) for event in chain.events.seen] == [True, True, True, True, False, False]


def test_events_carry_sizes_and_never_a_factors_value(wanted: Wanted) -> None:
    told: list[Event] = []
    plugin = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    chain = chain_of(store_of(plugin), tell=told.append)
    look_up(chain, wanted)
    assert told == chain.events.seen
    assert told[0].bytes == len(sealed(GOOD, wanted))
    assert wanted.request.identity is not None
    assert str(wanted.request.identity.factors["engine"]) not in repr(told)


def fill(nearer: Sequence[tuple[str, MemoryStore]], wanted: Wanted, data: bytes, **keys: Any) -> Chain:
    """Look up through nearer stores, fill them from the far one that has it, and wait for that."""
    far = holding(MemoryStore(), wanted, data)
    stores: list[Store] = [store_of(plugin, name, **keys) for name, plugin in nearer]
    chain = chain_of(*stores, store_of(far, "far"))
    found = chain.look_up(wanted, soon())
    assert found is not None
    assert found[1].sealed is not None
    thread = back_fill(chain, wanted, found[0], found[1].sealed)
    if thread:
        assert thread.daemon
        thread.join(5)
    return chain


def test_nearer_stores_that_lacked_it_get_the_very_bytes(wanted: Wanted) -> None:
    data = sealed(GOOD, wanted)
    empty, spoilt = MemoryStore(), holding(MemoryStore(), wanted, b"junk")
    chain = fill([("empty", empty), ("spoilt", spoilt)], wanted, data)
    assert list(empty.data().values()) == list(spoilt.data().values()) == [data]
    assert outcomes(chain)[-2:] == [("empty", "stored"), ("spoilt", "stored")]


@pytest.mark.parametrize("before", [b"junk", bytes((8 << 20) + DemoCache.max_bytes)], ids=["junk", "over the cap"])
def test_a_back_fill_replaces_exactly_what_was_rejected(wanted: Wanted, before: bytes) -> None:
    plugin = FaultyStore()

    def replaced_meanwhile(key: str, data: bytes) -> bytes:
        plugin.objects[key] = ("newer", b"written meanwhile")
        return data

    plugin.spoil = replaced_meanwhile
    fill([("near", holding(plugin, wanted, before))], wanted, sealed(GOOD, wanted))
    assert list(plugin.data().values()) == [b"written meanwhile"]


@pytest.mark.parametrize(
    "data",
    [
        lambda wanted: from_the_future(sealed(GOOD, wanted)),
        lambda wanted: sealed(payload_of(gemm=table(1, "2")), wanted),
    ],
)
def test_a_back_fill_leaves_what_is_good_for_others(wanted: Wanted, data: Callable[[Wanted], bytes]) -> None:
    stands = data(wanted)  # once: it holds the second in which it was sealed
    plugin = holding(MemoryStore(), wanted, stands)
    fill([("near", plugin)], wanted, sealed(GOOD, wanted))
    assert list(plugin.data().values()) == [stands]


@pytest.mark.parametrize("mode", ["read", "lease"])
def test_a_back_fill_keeps_to_the_mode_of_a_store(wanted: Wanted, mode: str) -> None:
    plugin = MemoryStore()
    fill([("near", plugin)], wanted, sealed(GOOD, wanted), mode=mode)
    assert plugin.calls == ["store_get"]


@pytest.mark.parametrize("fault", [raises(OSError("gone")), raises(SystemExit(1)), raises(BrokenText()), answers(None)])
def test_a_back_fill_that_fails_is_one_event(wanted: Wanted, fault: Callable[..., object]) -> None:
    chain = fill([("near", FaultyStore(store_put=fault))], wanted, sealed(GOOD, wanted))
    assert outcomes(chain)[-1] == ("near", "error")
    assert chain.events.seen[-1].reason


def test_a_back_fill_that_hangs_keeps_nobody(wanted: Wanted) -> None:
    chain = fill([("near", FaultyStore(store_put=hangs))], wanted, sealed(GOOD, wanted), timeout=0.5)
    assert outcomes(chain)[-1] == ("near", "timeout")


def test_a_store_that_was_in_trouble_is_not_filled(wanted: Wanted) -> None:
    plugins = [("hangs", FaultyStore(store_get=hangs)), ("raises", FaultyStore(store_get=raises(OSError())))]
    fill(plugins, wanted, sealed(GOOD, wanted), timeout=0.05)
    assert [plugin.calls for _, plugin in plugins] == [["store_get"], ["store_get"]]


GARBAGE: dict[str, Callable[[random.Random, bytes, list[bytes]], bytes]] = {
    "random": lambda chance, data, others: chance.randbytes(chance.randrange(len(data) * 2)),
    "empty": lambda chance, data, others: b"",
    "cut": lambda chance, data, others: data[: chance.randrange(len(data))],
    "another key's": lambda chance, data, others: chance.choice(others),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_garbage_store_never_serves_a_byte(tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    cache = wanted_of(DemoCache(tmp_path), DemoEngine(tmp_path).context()).cache
    requests = [Request.of(KIND, Identity({"seed": n}), Place()) for n in range(500)]
    wanteds = [Wanted(cache, request, cache.resolve(request)) for request in requests]
    good = [sealed(payload_of(gemm=table(n)), wanted) for n, wanted in enumerate(wanteds)]
    plugin = MemoryStore()
    for n, wanted in enumerate(wanteds):
        put(plugin, wanted, GARBAGE[name](chance, good[n], [*good[:n], *good[n + 1 :]]))
    chain = chain_of(store_of(plugin))
    for wanted in wanteds:
        assert chain.read(chain.stores[0], wanted, soon()).outcome in ("reject", "miss")


def test_payloads_read_are_views_of_verified_bytes(wanted: Wanted) -> None:
    plugin = holding(MemoryStore(), wanted, sealed(GOOD, wanted))
    payload = standing(plugin, wanted).payload
    assert payload is not None
    plugin.objects.clear()
    assert (dict.fromkeys(payload), payload.digest) == ({"gemm.json": None}, GOOD.digest)
    assert payload.origin is not None
    assert (payload.origin.namespace, payload.origin.key) == ("default", wanted.key)
    assert BlobSource(*payload.values()).size == Payload({"x": Blob.of(table(1))}).size


def test_a_miss_is_remembered_for_a_moment_and_asked_again_after_it(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:  # EN-06
    plugin = MemoryStore()
    missed: dict[tuple[str, str], float] = {}
    for _ in range(2):
        chain = chain_of(store_of(plugin))
        chain.missed = missed
        assert look_up(chain, wanted) is None
    assert plugin.calls == ["store_get"]
    put(plugin, wanted, sealed(GOOD, wanted))
    monkeypatch.setattr("warmcore.chain.MISS_SECONDS", 0.0)
    chain = chain_of(store_of(plugin))
    chain.missed = missed
    assert look_up(chain, wanted) is not None
