"""Why did it miss: the nearest stored entry, and exactly the factors in which it differs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import (
    KIND,
    BrokenText,
    DemoCache,
    DemoEngine,
    FaultyStore,
    MemoryStore,
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
from warmcore import Difference, Entry, Identity, Place, Request, artifact
from warmcore.chain import Wanted
from warmcore.explain import HeadSink, Nearest, nearest, read_head
from warmcore.identity import Absent, Scalar

FACTORS: dict[str, Scalar] = {
    "gpu": "NVIDIA H200",
    "capability": "9.0",
    "library": "0.6.18",
    "tp_size": 8,
    "alpha": 1.5,
    "graphs": True,
    "note": None,
    "rounds": 1,
}
OTHER: dict[str, Scalar] = {
    "gpu": "NVIDIA H100",
    "capability": "10.0",
    "library": "0.6.19",
    "tp_size": 4,
    "alpha": 2,
    "graphs": False,
    "note": "x",
    "rounds": True,
}


@pytest.fixture
def template(tmp_path: Path) -> Wanted:
    return wanted_of(DemoCache(tmp_path), DemoEngine(tmp_path).context())


def hold(store: MemoryStore, template: Wanted, factors: dict[str, Scalar], **changes: Any) -> str:
    """Store one entry of these factors and return its key."""
    request = Request.of(KIND, Identity(factors), Place())
    wanted = Wanted(template.cache, request, request.key("rank"))
    put(store, wanted, sealed(payload_of(gemm=table(1)), wanted, **changes))
    return wanted.key


def ask(
    *stores: MemoryStore,
    factors: dict[str, Scalar] = FACTORS,
    seconds: float = 5.0,
    timeout: float = 2.0,
    most: int = 1,
) -> list[Nearest]:
    handles = [store_of(store, f"store-{n}", timeout=timeout) for n, store in enumerate(stores)]
    chain = chain_of(*handles)
    return nearest(chain, handles, KIND, Identity(factors), time.monotonic() + seconds, most=most)


@pytest.mark.parametrize("factor", FACTORS)
def test_each_factor_changed_in_turn_is_the_one_named(template: Wanted, factor: str) -> None:
    store = MemoryStore()
    for n in range(20):
        hold(store, template, {**OTHER, "seed": n})
    key = hold(store, template, FACTORS)
    (found,) = ask(store, factors={**FACTORS, factor: OTHER[factor]})
    assert (found.key, found.store) == (key, "store-0")
    assert found.differences == (Difference(factor, OTHER[factor], FACTORS[factor]),)


def test_a_factor_that_only_one_side_has_is_named(template: Wanted) -> None:
    store = MemoryStore()
    hold(store, template, FACTORS)
    (more,) = ask(store, factors={**FACTORS, "extra": 1})
    (less,) = ask(store, factors={name: value for name, value in FACTORS.items() if name != "note"})
    assert more.differences == (Difference("extra", 1, Absent.ABSENT),)
    assert less.differences == (Difference("note", Absent.ABSENT, None),)


def test_the_nearest_come_first_and_no_more_than_asked_for(template: Wanted) -> None:
    store = MemoryStore()
    keys = [hold(store, template, {**FACTORS, **dict(list(OTHER.items())[:n])}) for n in (3, 1, 2)]
    assert [item.key for item in ask(store, most=9)] == [keys[1], keys[2], keys[0]]
    assert [item.key for item in ask(store, most=2)] == [keys[1], keys[2]]


def test_what_does_not_differ_is_no_answer(template: Wanted) -> None:
    store = MemoryStore()
    hold(store, template, FACTORS)
    assert ask(store) == []


def test_entries_of_other_kinds_and_namespaces_are_no_answer(template: Wanted) -> None:
    store = MemoryStore()
    hold(store, template, OTHER)
    ((key, value),) = store.objects.items()
    store.objects = {key.replace("v1/demo/", "v1/demo2/"): value, key.replace("default/", "other/"): value}
    assert ask(store) == []


def test_one_entry_in_two_stores_is_named_once(template: Wanted) -> None:
    near, far = MemoryStore(), MemoryStore()
    hold(near, template, OTHER)
    hold(far, template, OTHER)
    assert [item.store for item in ask(near, far, most=9)] == ["store-0"]


def spoil(data: Callable[[bytes], bytes], template: Wanted) -> MemoryStore:
    store = MemoryStore()
    hold(store, template, OTHER)
    store.objects = {key: (version, data(sealed)) for key, (version, sealed) in store.objects.items()}
    return store


@pytest.mark.parametrize(
    "data",
    [
        lambda data: b"",
        lambda data: b"junk" * 1000,
        lambda data: b"junk\n",
        lambda data: data[:200],
        lambda data: data[: data.index(b"\n") + 1],
        lambda data: data.replace(b'"gpu"', b'"GPU"', 1),
        lambda data: b"warmcore-sealed/1 99999999 " + b"0" * 64 + b"\n" + b"x" * 99,
        from_the_future,
    ],
)
def test_what_cannot_be_read_is_passed_over(template: Wanted, data: Callable[[bytes], bytes]) -> None:
    good = MemoryStore()
    key = hold(good, template, OTHER)
    assert [item.key for item in ask(spoil(data, template), good)] == [key]


@pytest.mark.parametrize(
    "fault",
    [
        hangs,
        raises(ValueError("bug")),
        raises(BrokenText()),
        raises(SystemExit(1)),
        answers(None),
        answers(["not an entry"]),
        answers([("k", "1")]),
        answers([Entry(5, "1", 1)]),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("hook", ["store_list", "store_get"])
def test_a_store_in_trouble_hides_no_other(template: Wanted, hook: str, fault: Callable[..., object]) -> None:
    bad, good = FaultyStore(**{hook: fault}), MemoryStore()
    hold(bad, template, {**OTHER, "seed": 1})
    key = hold(good, template, OTHER)
    assert [item.key for item in ask(bad, good, timeout=0.3 if fault is hangs else 2.0)] == [key]


def test_a_store_that_cannot_list_is_not_asked(template: Wanted) -> None:
    class Silent:
        store_get = MemoryStore.store_get
        store_put = MemoryStore.store_put

    handle = store_of(Silent())
    assert nearest(chain_of(handle), [handle], KIND, Identity(FACTORS), time.monotonic() + 5) == []


def test_a_deadline_ends_the_search(template: Wanted) -> None:
    store = FaultyStore(store_get=hangs)
    for n in range(50):
        hold(store, template, {**OTHER, "seed": n})
    started = time.monotonic()
    assert ask(store, seconds=0.1) == []
    assert time.monotonic() - started < 3.0


def test_a_head_is_read_without_the_body(template: Wanted) -> None:
    store = FaultyStore()
    key = f"default/{hold(store, template, OTHER)}"
    (data,) = store.data().values()
    written: list[int] = []

    def stream(key: str, sink: Any, fresh: bool) -> str:
        for start in range(0, len(data) + (1 << 20), 64):
            written.append(64)
            sink.write(data[start : start + 64] or bytes(64))
        return "1"

    store.faults = {"store_get": stream}
    handle = store_of(store)
    head = read_head(chain_of(handle), handle, key, time.monotonic() + 5)
    assert head is not None
    assert head.header.identity == OTHER
    assert sum(written) <= head.body_start + 64


@pytest.mark.parametrize("sink", [WrapsFaults, lambda sink: sink])
def test_reading_heads_counts_against_no_store(template: Wanted, sink: Callable[[Any], Any]) -> None:
    store = FaultyStore(sink=sink)
    for n in range(9):
        hold(store, template, {**OTHER, "seed": n})
    handle = store_of(store)
    chain = chain_of(handle)
    assert len(nearest(chain, [handle], KIND, Identity(FACTORS), time.monotonic() + 5, most=99)) == 9
    assert chain.read(handle, template, time.monotonic() + 5).outcome == "miss"


def test_a_head_in_pieces_of_any_size_is_the_same_head(template: Wanted) -> None:
    store = MemoryStore()
    hold(store, template, OTHER)
    (data,) = store.data().values()
    for size in (1, 7, 127, 128, 129, len(data)):
        sink = HeadSink()
        with pytest.raises(Exception, match=r"^$"):
            for start in range(0, len(data), size):
                sink.write(data[start : start + size])
        assert sink.head == artifact.parse_head(data)


def test_a_head_over_the_cap_is_never_gathered() -> None:
    sink = HeadSink()
    with pytest.raises(Exception, match="cap"):
        sink.write(b"warmcore-sealed/1 99999999 " + b"0" * 64 + b"\n")
    assert sink.head is None
