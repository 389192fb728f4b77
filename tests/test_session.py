"""One start of an engine: cold it warms up and publishes, warm it adopts, and it starts whatever goes wrong."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
    Site,
    answers,
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
from warmcore import (
    Config,
    ConfigError,
    Context,
    Entry,
    Identity,
    IdentityError,
    NotApplicable,
    Payload,
    PluginError,
    Reject,
    Report,
    Request,
    Session,
    Usage,
    hookimpl,
    load_config,
)
from warmcore.assembly import Assembly
from warmcore.chain import Wanted
from warmcore.config import Policy
from warmcore.plugins import Cache, Store
from warmcore.report import Event, KindReport
from warmcore.settings import Duration

Open = Callable[..., Session]


@pytest.fixture
def open_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Return what opens a session over handles, as its config would have named them."""

    def opened(
        stores: Sequence[Store],
        caches: Sequence[Cache] | Cache,
        listeners: Sequence[Callable[[Event], None]] = (),
        **policy: Any,
    ) -> Session:
        made = Assembly(list(stores), [caches] if isinstance(caches, Cache) else list(caches), list(listeners))
        monkeypatch.setattr("warmcore.session.assemble", lambda config: made)
        settings = Policy(reports=tmp_path / "reports", **policy)
        return Session(Config(caches={cache.name: {} for cache in made.caches}, policy=settings))

    return opened


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def cache_of(plugin: Any, kind: str = KIND) -> Cache:
    return Cache(kind, plugin)


def only(report: Report) -> KindReport:
    (kind,) = report.kinds
    return kind


def steps(report: Report, *names: str) -> list[tuple[str, str, str]]:
    return [(item.name, item.store, item.outcome) for item in report.events if not names or item.name in names]


def cold_start(open_session: Open, store: MemoryStore, folder: Path, **context: Any) -> Report:
    engine = DemoEngine(folder)
    return open_session([store_of(store)], cache_of(DemoCache(folder))).start(engine.context(**context))


def test_a_cold_engine_warms_up_and_publishes(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path / "a")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context())
    assert (engine.runs, engine.tuned) == (1, ["gemm", "norm"])
    assert (only(report).outcome, only(report).kind, report.off, report.problems) == ("miss", KIND, None, [])
    assert steps(report) == [
        ("look-up", "engine folder", "miss"),
        ("look-up", "near", "miss"),
        ("warm-up", "", "done"),
        ("publish", "near", "stored"),
    ]
    assert list(store.objects) == [f"default/{only(report).key}"]


def test_a_second_replica_adopts_and_has_nothing_to_tune(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    before = dict(store.objects)
    engine = DemoEngine(tmp_path / "b")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    assert (engine.runs, engine.tuned) == (1, [])
    assert (only(report).outcome, only(report).store) == ("hit", "near")
    assert steps(report) == [
        ("look-up", "engine folder", "miss"),
        ("look-up", "near", "hit"),
        ("install", "", "done"),
        ("warm-up", "", "done"),
        ("publish", "", "unchanged"),
    ]
    assert store.objects == before
    assert only(report).usage == Usage(used=("gemm.json", "norm.json"))
    assert only(report).bytes == 2 * len(table(1))


def test_a_restart_in_its_own_folder_asks_a_store_only_whether_it_has_a_head(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold = cold_start(open_session, store, tmp_path / "a")
    asked = len(store.calls)
    engine = DemoEngine(tmp_path / "a")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context())
    assert (only(report).outcome, only(report).store, engine.tuned) == ("hit", "engine folder", [])
    end = time.monotonic() + 5
    while len(store.calls) == asked and time.monotonic() < end:
        time.sleep(0.01)
    assert store.calls[asked:] == ["store_get"]
    assert only(report).generation not in (None, "local", only(cold).generation)


@pytest.mark.parametrize("adopts_from", ["engine folder", "near"])
def test_a_start_that_adopts_fills_a_farther_store_that_has_nothing(
    open_session: Open, store: MemoryStore, tmp_path: Path, adopts_from: str
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    added, engine = MemoryStore(), DemoEngine(tmp_path / ("a" if adopts_from == "engine folder" else "b"))
    stores = [store_of(store, "near"), store_of(added, "far")]
    report = open_session(stores, cache_of(DemoCache(engine.folder))).start(engine.context())
    assert (only(report).outcome, only(report).store) == ("hit", adopts_from)
    end = time.monotonic() + 5
    while not added.objects and time.monotonic() < end:
        time.sleep(0.01)
    far = tmp_path / "c"
    warm = open_session([store_of(added)], cache_of(DemoCache(far))).start(DemoEngine(far).context())
    assert (only(warm).outcome, only(warm).generation) == ("hit", only(report).generation)


def test_a_note_of_another_key_counts_for_nothing(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    cold_start(open_session, store, tmp_path / "a", factors={"tp_size": 1})
    engine = DemoEngine(tmp_path / "a")
    report = open_session([], cache_of(DemoCache(tmp_path / "a"))).start(engine.context(factors={"tp_size": 2}))
    assert only(report).generation == "local"


def test_an_engine_folder_of_unknown_origin_serves_when_no_store_can(open_session: Open, tmp_path: Path) -> None:
    DemoEngine(tmp_path / "a").warm_up()
    engine = DemoEngine(tmp_path / "a")
    store = MemoryStore()
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context())
    assert (only(report).outcome, only(report).store, only(report).generation) == ("hit", "engine folder", "local")
    assert engine.tuned == []
    assert len(store.objects) == 1


def test_a_store_goes_before_an_engine_folder_of_unknown_origin(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    DemoEngine(tmp_path / "b", ["gemm"], tactic=9).warm_up()
    engine = DemoEngine(tmp_path / "b")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    assert (only(report).store, engine.tuned) == ("near", [])
    assert (tmp_path / "b" / "gemm.json").read_bytes() == table(1)


def test_a_spoilt_engine_folder_is_a_reject_and_the_store_is_asked(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    (tmp_path / "a" / "gemm.json").write_bytes(b"junk")
    engine = DemoEngine(tmp_path / "a")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context())
    assert steps(report, "look-up") == [("look-up", "engine folder", "reject"), ("look-up", "near", "hit")]
    assert (tmp_path / "a" / "gemm.json").read_bytes() == table(1)


def test_a_filled_gap_is_published_and_keeps_the_rest(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    cold_start(open_session, store, tmp_path / "a")
    engine = DemoEngine(tmp_path / "b", ["gemm", "norm", "rope"])
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    assert engine.tuned == ["rope"]
    assert steps(report, "publish") == [("publish", "near", "stored")]
    third = DemoEngine(tmp_path / "c", ["gemm", "norm", "rope"])
    open_session([store_of(store)], cache_of(DemoCache(tmp_path / "c"))).start(third.context())
    assert third.tuned == []


def test_one_changed_factor_is_a_miss_that_names_it(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    cold_start(open_session, store, tmp_path / "a", factors={"tp_size": 1, "gpu": "H200"})
    engine = DemoEngine(tmp_path / "b")
    context = engine.context(factors={"tp_size": 2, "gpu": "H200"})
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(context)
    assert (only(report).outcome, len(engine.tuned)) == ("miss", 2)
    assert [tuple(item) for item in only(report).differs] == [("tp_size", 2, 1)]
    assert only(report).nearest in {key.partition("/")[2] for key in store.objects}
    assert "tp_size is 2 here, 1 there" in report.table()


def test_what_it_saved_is_the_publishers_cost_less_ours(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path / "b")
    wanted = wanted_of(DemoCache(tmp_path / "b"), engine.context())
    put(store, wanted, sealed(payload_of(gemm=table(1), norm=table(1)), wanted, cost=100.0))
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    kind = only(report)
    assert kind.warm_up_seconds is not None
    assert kind.seconds_saved == pytest.approx(100.0 - kind.seconds - kind.warm_up_seconds, abs=0.1)
    assert 90 < (kind.seconds_saved or 0) <= 100


def test_what_it_saved_is_unknown_where_no_cost_was_recorded(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    engine = DemoEngine(tmp_path / "b")
    wanted = wanted_of(DemoCache(tmp_path / "b"), engine.context())
    put(store, wanted, sealed(payload_of(gemm=table(1)), wanted, cost=None))
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    assert (only(report).outcome, only(report).seconds_saved) == ("hit", None)


def test_nothing_was_saved_by_an_install_that_failed(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    cold_start(open_session, store, tmp_path / "a")
    engine = DemoEngine(tmp_path / "b")
    plugin = FaultyCache(tmp_path / "b", install=raises(OSError("disk full")))
    kind = only(open_session([store_of(store)], cache_of(plugin)).start(engine.context()))
    assert (kind.outcome, "disk full" in kind.reason, engine.tuned) == ("error", True, ["gemm", "norm"])
    assert (kind.seconds_saved, kind.generation, kind.bytes, kind.store) == (None, None, 0, "")


def test_an_install_that_failed_leaves_the_published_cost_alone(open_session: Open, tmp_path: Path) -> None:
    near, far = MemoryStore(), MemoryStore()
    engine = DemoEngine(tmp_path / "b")
    wanted = wanted_of(DemoCache(tmp_path / "b"), engine.context())
    put(near, wanted, sealed(payload_of(gemm=table(1)), wanted, cost=1000.0))
    plugin = FaultyCache(tmp_path / "b", install=raises(OSError("disk full")))
    stores = [store_of(near, "near", mode="read"), store_of(far, "far")]
    open_session(stores, cache_of(plugin)).start(engine.context())
    (data,) = far.data().values()
    assert json.loads(data.split(b"\n", 1)[1].split(b"\n}\n")[0] + b"}")["cost_seconds"] < 100


class Shy:
    """An object that can't be shown."""

    def __repr__(self) -> str:
        raise BrokenText


RAISED = [
    ValueError("bug"),
    OSError("gone"),
    Reject(""),
    IdentityError("factor 'x' is a set"),
    ExceptionGroup("several", [ValueError()]),
    BrokenText(),
    StopIteration(),
]
HOOKS = [
    "request_params",
    "resolve",
    "validate_payload",
    "install",
    "warmup",
    "collect",
    "merge",
    "fingerprint",
    "usage",
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_no_hook_of_a_cache_can_keep_the_engine_from_its_warm_up(
    open_session: Open, store: MemoryStore, tmp_path: Path, hook: str, error: Exception
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    engine = DemoEngine(tmp_path / "b", ["gemm", "norm", "rope"])
    plugin = FaultyCache(tmp_path / "b", **{hook: raises(error)})
    report = open_session([store_of(store)], cache_of(plugin)).start(engine.context())
    assert engine.runs == 1
    if hook in plugin.calls:
        assert (
            any(event.reason for event in report.events if event.outcome in ("error", "reject")) or only(report).reason
        )
    assert report.path is not None


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        *((hook, answer) for hook in HOOKS for answer in (None, 5)),
        ("resolve", "../../../etc/passwd"),
        ("resolve", "v1/demo/short/all"),
        ("resolve", "v1/other/" + "0" * 64 + "/all"),
        ("collect", Payload({})),
        ("usage", Usage(used=(threading.Lock(),))),  # type: ignore[arg-type]
        ("usage", Usage(used=(n for n in "ab"))),  # type: ignore[arg-type]
        ("usage", Usage(used=(Shy(),))),  # type: ignore[arg-type]
    ],
)
def test_no_answer_of_a_cache_can_keep_the_engine_from_its_warm_up(
    open_session: Open, store: MemoryStore, tmp_path: Path, hook: str, answer: object
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    engine = DemoEngine(tmp_path / "b", ["gemm", "norm", "rope"])
    report = open_session([store_of(store)], cache_of(FaultyCache(tmp_path / "b", **{hook: answers(answer)}))).start(
        engine.context()
    )
    assert engine.runs == 1
    assert report.table()
    assert json.loads(report.to_json())["kinds"]


@pytest.mark.parametrize("key", ["../../../etc/passwd", "v1/demo/short/all", "v1/other/" + "0" * 64 + "/all"])
def test_no_store_is_asked_for_a_key_that_is_not_the_requests(
    open_session: Open, store: MemoryStore, tmp_path: Path, key: str
) -> None:
    engine = DemoEngine(tmp_path / "b")
    plugin = FaultyCache(tmp_path / "b", resolve=answers(key))
    report = open_session([store_of(store)], cache_of(plugin)).start(engine.context())
    assert store.calls == []
    assert (only(report).outcome, bool(only(report).reason), engine.runs) == ("error", True, 1)


def test_an_identity_that_is_not_the_requests_is_an_error_and_not_published(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    engine = DemoEngine(tmp_path / "b")
    request = wanted_of(DemoCache(tmp_path / "b"), engine.context()).request
    plugin = FaultyCache(tmp_path / "b", request_params=answers(replace(request, identity=Identity({"x": 1}))))
    report = open_session([store_of(store)], cache_of(plugin)).start(engine.context())
    assert (only(report).outcome, bool(only(report).reason), engine.runs) == ("error", True, 1)
    assert store.objects == {}


def test_an_engine_on_a_host_that_has_no_thread_left_starts_and_ends(
    open_session: Open, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DemoEngine(tmp_path / "b")
    session = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "b")))
    monkeypatch.setattr("threading.Thread.start", raises(RuntimeError("can't start new thread")))
    with session:
        report = session.start(engine.context())
    assert (only(report).outcome, engine.runs, store.calls) == ("error", 1, [])


class EngineFault(Exception):
    """What the engine's own warm-up raises."""


class Meddling(DemoCache):
    """A cache that does with its warm-up what `way` says."""

    def __init__(self, folder: Path, way: str) -> None:
        super().__init__(folder)
        self.way = way

    @hookimpl
    def warmup(self, context: Context) -> None:
        try:
            if self.way != "never runs":
                context.warm_ups[KIND]()
            if self.way == "runs twice":
                context.warm_ups[KIND]()
        except BaseException as error:
            if self.way == "wraps":
                raise RuntimeError("tuning failed") from error
            if self.way == "exits":
                raise SystemExit(1) from error
            if self.way != "swallows":
                raise
        if self.way == "raises afterwards":
            raise RuntimeError("tuning context broken")


WAYS = ["passes", "swallows", "wraps", "runs twice", "never runs", "raises afterwards"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [EngineFault("out of memory"), SystemExit(3), KeyboardInterrupt()])
def test_what_the_engines_warm_up_raises_passes_whatever_a_cache_makes_of_it(
    open_session: Open, tmp_path: Path, way: str, error: BaseException
) -> None:
    def warm_up() -> None:
        raise error

    session = open_session([store_of(MemoryStore())], cache_of(Meddling(tmp_path / "a", way)))
    with pytest.raises(type(error)) as caught:
        session.start(DemoEngine(tmp_path / "a").context(warm_ups={KIND: warm_up}))
    assert caught.value is error
    assert len(list((tmp_path / "reports").glob("*.json"))) == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_warm_up_runs_exactly_once_whatever_a_cache_makes_of_it(
    open_session: Open, tmp_path: Path, way: str
) -> None:
    engine = DemoEngine(tmp_path / "a")
    session = open_session([store_of(MemoryStore())], cache_of(Meddling(tmp_path / "a", way)))
    session.start(engine.context())
    assert engine.runs == 1


def test_the_tuning_context_of_a_cache_sees_what_the_engine_raises(open_session: Open, tmp_path: Path) -> None:
    seen: list[BaseException] = []

    def warmup(context: Context) -> None:
        try:
            context.warm_ups[KIND]()
        except EngineFault as error:
            seen.append(error)
            raise

    error = EngineFault("out of memory")
    session = open_session([], cache_of(FaultyCache(tmp_path, warmup=warmup)))
    with pytest.raises(EngineFault):
        session.start(DemoEngine(tmp_path).context(warm_ups={KIND: raises(error)}))
    assert seen == [error]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("hook", HOOKS[:6])
def test_a_signal_in_a_hook_of_a_cache_passes(
    open_session: Open, store: MemoryStore, tmp_path: Path, hook: str, error: BaseException
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    session = open_session([store_of(store)], cache_of(FaultyCache(tmp_path / "b", **{hook: raises(error)})))
    with pytest.raises(type(error)):
        session.start(DemoEngine(tmp_path / "b").context())


def other_kind(name: str, folder: Path) -> DemoCache:
    """Return the plugin of another kind that does what `demo` does."""

    class Other(DemoCache):
        @hookimpl
        def request_params(self, context: Context) -> Request | NotApplicable:
            request = super().request_params(context)
            assert isinstance(request, Request)
            return replace(request, kind=name)

        @hookimpl
        def warmup(self, context: Context) -> None:
            self.warming += 1
            try:
                context.warm_ups[name]()
            finally:
                self.warming -= 1

    return Other(folder)


def two_kinds(folder: Path) -> tuple[DemoCache, DemoCache, list[Cache]]:
    """Return two plugins, for the kinds `demo` and `other`, with a folder each."""
    first, second = DemoCache(folder / "first"), other_kind("other", folder / "second")
    return first, second, [Cache(KIND, first), Cache("other", second)]


def many_kinds(folder: Path, count: int) -> list[Cache]:
    names = [f"kind_{n}" for n in range(count)]
    return [Cache(name, other_kind(name, folder / name)) for name in names]


def test_a_callable_named_under_two_kinds_runs_once_inside_both(open_session: Open, tmp_path: Path) -> None:
    first, second, caches = two_kinds(tmp_path)
    inside = []

    def warm_up() -> None:
        inside.append((first.warming, second.warming))

    open_session([], caches).start(DemoEngine(tmp_path).context(warm_ups={KIND: warm_up, "other": warm_up}))
    assert inside == [(1, 1)]


def test_a_method_named_under_two_kinds_runs_once(open_session: Open, tmp_path: Path) -> None:
    _, _, caches = two_kinds(tmp_path)
    engine = DemoEngine(tmp_path / "first")
    open_session([], caches).start(engine.context(warm_ups={KIND: engine.warm_up, "other": engine.warm_up}))
    assert engine.runs == 1


def test_a_method_named_under_two_kinds_runs_once_when_warmcore_is_off(tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path)
    Session({}).start(engine.context(warm_ups={KIND: engine.warm_up, "other": engine.warm_up}))
    assert engine.runs == 1


def test_equal_methods_of_two_engines_are_two_warm_ups(open_session: Open, tmp_path: Path) -> None:
    _, _, caches = two_kinds(tmp_path)
    engines = [DemoEngine(tmp_path / "first"), DemoEngine(tmp_path / "second")]
    warm_ups = {KIND: engines[0].warm_up, "other": engines[1].warm_up}
    open_session([], caches).start(engines[0].context(warm_ups=warm_ups))
    assert [engine.runs for engine in engines] == [1, 1]


def test_a_warm_up_that_is_not_hashable_runs_once(open_session: Open, tmp_path: Path) -> None:
    class Call:
        __hash__ = None  # type: ignore[assignment]
        runs = 0

        def __eq__(self, other: object) -> bool:
            raise AssertionError("callables are told apart by identity")

        def __call__(self) -> None:
            self.runs += 1

    _, _, caches = two_kinds(tmp_path)
    call = Call()
    open_session([], caches).start(DemoEngine(tmp_path).context(warm_ups={KIND: call, "other": call}))
    assert call.runs == 1


def test_a_warm_up_of_a_kind_that_is_not_configured_runs_too(open_session: Open, tmp_path: Path) -> None:
    ran = []
    context = DemoEngine(tmp_path).context(warm_ups={"unknown": lambda: ran.append(1)})
    open_session([], cache_of(DemoCache(tmp_path))).start(context)
    assert ran == [1]


def test_a_kind_that_fails_in_its_warm_up_leaves_the_other_kinds_context_in_place(
    open_session: Open, tmp_path: Path
) -> None:
    _, second, caches = two_kinds(tmp_path)
    caches[0] = Cache(KIND, FaultyCache(tmp_path / "first", warmup=raises(RuntimeError("broken"))))
    inside = []

    def warm_up() -> None:
        inside.append(second.warming)

    open_session([], caches).start(DemoEngine(tmp_path).context(warm_ups={KIND: warm_up, "other": warm_up}))
    assert inside == [1]


def test_a_kind_whose_warm_up_failed_is_the_only_one_blamed(open_session: Open, tmp_path: Path) -> None:
    _, _, caches = two_kinds(tmp_path)
    caches[0] = Cache(KIND, FaultyCache(tmp_path / "first", warmup=raises(RuntimeError("broken"))))
    engine = DemoEngine(tmp_path)
    warm_up = engine.warm_up
    report = open_session([], caches).start(engine.context(warm_ups={KIND: warm_up, "other": warm_up}))
    assert {event.kind for event in report.events if event.outcome == "error"} == {KIND}


def test_one_kind_that_fails_ends_no_other(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:  # JW-01
    _, _, caches = two_kinds(tmp_path)
    caches[0] = Cache(KIND, FaultyCache(tmp_path / "first", request_params=raises(AssertionError("no .ndim"))))
    engine = DemoEngine(tmp_path / "second")
    report = open_session([store_of(store)], caches).start(engine.context(warm_ups={"other": engine.warm_up}))
    assert [(kind.kind, kind.outcome) for kind in report.kinds] == [(KIND, "error"), ("other", "miss")]
    assert "no .ndim" in report.kinds[0].reason
    assert len(store.objects) == 1


def test_a_kind_without_an_identity_is_not_applicable_with_the_factor_named(
    open_session: Open, store: MemoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # IN-11
    _, _, caches = two_kinds(tmp_path)
    caches[0] = Cache(
        KIND, FaultyCache(tmp_path / "first", request_params=raises(IdentityError("factor 'shape' is a set")))
    )
    engine = DemoEngine(tmp_path / "second")
    report = open_session([store_of(store)], caches).start(engine.context(warm_ups={"other": engine.warm_up}))
    assert [(kind.kind, kind.outcome) for kind in report.kinds] == [(KIND, "not applicable"), ("other", "miss")]
    assert "factor 'shape'" in report.kinds[0].reason
    assert "factor 'shape'" in report.table()
    assert (
        sum("factor 'shape'" in record.message for record in caplog.records if record.levelno >= logging.WARNING) == 1
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"factors": {"model": "/mnt/models/x"}}, "'model'"),
        ({"factors": {"hostname": "node-7"}}, "'hostname'"),
        ({"factors": {"api_key": "x"}}, "'api_key'"),
        ({"factors": {"shape": {1, 2}}}, "'value'"),
        ({"factors": {"Bad Name": 1}}, "'Bad Name'"),
        ({"factors": None}, ""),
        ({"factors": {1: 1}}, ""),
        ({"config_hash": "short"}, "'short'"),
        ({"config_hash": None}, ""),
        ({"place": None}, ""),
    ],
)
def test_a_context_that_cannot_be_an_identity_costs_the_artifact_and_not_the_engine(
    open_session: Open, store: MemoryStore, tmp_path: Path, changes: Mapping[str, Any], named: str
) -> None:
    engine = DemoEngine(tmp_path / "a")
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context(**changes))
    assert (engine.runs, store.calls) == (1, [])
    assert only(report).outcome in ("not applicable", "error")
    assert only(report).reason


def test_a_kind_that_has_no_part_says_why(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    plugin = FaultyCache(tmp_path / "a", request_params=answers(NotApplicable("GPU too old")))
    engine = DemoEngine(tmp_path / "a")
    report = open_session([store_of(store)], cache_of(plugin)).start(engine.context())
    assert (only(report).outcome, only(report).reason, engine.runs) == ("not applicable", "GPU too old", 1)
    assert "GPU too old" in report.table()
    assert (plugin.calls, store.calls) == (["request_params"], [])


class Ranks:
    """A group of `size`, for which there is nothing to decide with yet."""

    def __init__(self, size: Any) -> None:
        self._size = size

    @property
    def size(self) -> int:
        if isinstance(self._size, Exception):
            raise self._size
        return int(self._size)


def test_more_than_one_rank_is_off_with_the_reason(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path / "a")
    session = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a")))
    report = session.start(engine.context(group=Ranks(8)))
    assert (report.off is not None and "8 ranks" in report.off, engine.runs, store.calls) == (True, 1, [])
    assert session.start(engine.context(group=Ranks(1))).off is None


def test_a_group_that_cannot_be_asked_is_off_with_the_reason(open_session: Open, tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path / "a")
    session = open_session([], cache_of(DemoCache(tmp_path / "a")))
    report = session.start(engine.context(group=Ranks(OSError("connection reset"))))
    assert (report.off is not None and "connection reset" in report.off, engine.runs) == (True, 1)


def test_nothing_to_publish_overwrites_nothing_and_says_empty(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:  # IN-12
    engine = DemoEngine(tmp_path / "a", [])
    report = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a"))).start(engine.context())
    assert steps(report, "publish") == [("publish", "", "not applicable")]
    assert "empty" in report.events[-1].reason
    assert store.objects == {}


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[:-5], lambda data: b"junk"])
def test_a_start_heals_what_was_spoilt_in_the_store(
    open_session: Open, store: MemoryStore, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    store.objects = {key: ("spoilt", spoil(data)) for key, (_, data) in store.objects.items()}
    report = cold_start(open_session, store, tmp_path / "b")
    assert (only(report).outcome, bool(only(report).reason)) == ("reject", True)
    assert only(cold_start(open_session, store, tmp_path / "c")).outcome == "hit"


def test_an_artifact_of_a_newer_core_is_a_miss_that_stands(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    store.objects = {key: ("1", from_the_future(data)) for key, (_, data) in store.objects.items()}
    before = dict(store.objects)
    report = cold_start(open_session, store, tmp_path / "b")
    assert (only(report).outcome, store.objects) == ("miss", before)


def test_code_in_a_store_that_is_not_trusted_never_reaches_the_engines_folder(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    code: Any = type("CodeCache", (DemoCache,), {"carries_code": True})
    engine = DemoEngine(tmp_path / "a")
    wanted = wanted_of(code(tmp_path / "a"), engine.context())
    put(store, wanted, sealed(payload_of(evil=table(666)), wanted))
    report = open_session([store_of(store, shared=True)], cache_of(code(tmp_path / "a"))).start(engine.context())
    assert only(report).outcome == "not applicable"
    assert sorted(path.name for path in (tmp_path / "a").glob("*.json")) == ["gemm.json", "norm.json"]


def test_every_look_up_is_counted_and_the_sum_is_the_number_of_calls(open_session: Open, tmp_path: Path) -> None:
    plugins = [FaultyStore(store_get=hangs), FaultyStore(store_get=raises(OSError())), MemoryStore()]
    stores = [
        store_of(plugin, name, timeout=0.05 if name == "a" else 2.0)
        for plugin, name in zip(plugins, "abc", strict=True)
    ]
    engine = DemoEngine(tmp_path / "x")
    report = open_session(stores, cache_of(DemoCache(tmp_path / "x"))).start(engine.context())
    assert report.look_ups() == {
        ("engine folder", "miss"): 1,
        ("a", "timeout"): 1,
        ("b", "error"): 1,
        ("c", "miss"): 1,
    }


def test_with_every_store_hanging_the_start_takes_the_budget_and_no_more(open_session: Open, tmp_path: Path) -> None:
    stores = [store_of(FaultyStore(store_get=hangs, store_put=hangs), str(n), timeout=0.1) for n in range(20)]
    engine = DemoEngine(tmp_path / "x")
    session = open_session(stores, cache_of(DemoCache(tmp_path / "x")), budget=Duration(0.3))
    started = time.monotonic()
    report = session.start(engine.context())
    assert time.monotonic() - started < 1.5
    assert (only(report).outcome, engine.runs) == ("timeout", 1)


def publish_many(tmp_path: Path, caches: Sequence[Cache], store: MemoryStore) -> None:
    """Put an artifact of each kind into a store, as another replica would have."""
    context = DemoEngine(tmp_path).context()
    for cache in caches:
        request = cache.request(context)
        assert isinstance(request, Request)
        wanted = Wanted(cache, request, cache.resolve(request))
        put(store, wanted, sealed(payload_of(gemm=table(1), norm=table(1)), wanted))


def test_a_hanging_near_store_keeps_no_kind_from_the_far_one(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    caches = many_kinds(tmp_path, 12)
    publish_many(tmp_path, caches, store)
    near = FaultyStore(store_get=hangs)
    stores = [store_of(near, "near", timeout=0.3), store_of(store, "far")]
    report = open_session(stores, caches, budget=Duration(2.5)).start(DemoEngine(tmp_path).context())
    assert [kind.outcome for kind in report.kinds] == ["hit"] * 12
    assert near.calls.count("store_get") == 3


def test_back_fills_that_hang_are_waited_for_once_and_not_once_for_each_kind(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    caches = many_kinds(tmp_path, 8)
    publish_many(tmp_path, caches, store)
    stores = [store_of(FaultyStore(store_put=hangs), "near", timeout=0.3), store_of(store, "far")]
    session = open_session(stores, caches)
    started = time.monotonic()
    report = session.start(DemoEngine(tmp_path).context())
    assert [kind.outcome for kind in report.kinds] == ["hit"] * 8
    assert time.monotonic() - started < 2.0


def test_explaining_misses_takes_its_second_once_and_not_once_for_each_kind(
    open_session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(prefix: str) -> list[Entry]:
        time.sleep(0.25)
        return []

    monkeypatch.setattr("warmcore.start.EXPLAIN_SECONDS", 0.3)
    slow = FaultyStore(store_list=late)
    session = open_session([store_of(slow, timeout=1.0)], many_kinds(tmp_path, 8))
    started = time.monotonic()
    session.start(DemoEngine(tmp_path).context())
    assert time.monotonic() - started < 1.5


def test_a_nearer_store_is_filled_for_the_next_start(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    cold_start(open_session, store, tmp_path / "a")
    near = MemoryStore()
    engine = DemoEngine(tmp_path / "b")
    stores = [store_of(near, "near"), store_of(store, "far")]
    report = open_session(stores, cache_of(DemoCache(tmp_path / "b"))).start(engine.context())
    assert ("back-fill", "near", "stored") in steps(report)
    assert near.data() == store.data()


def test_what_could_not_be_installed_is_not_filled_into_nearer_stores(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    near = MemoryStore()
    plugin = FaultyCache(tmp_path / "b", install=raises(OSError("bad")), collect=answers(None))
    stores = [store_of(near, "near"), store_of(store, "far")]
    open_session(stores, cache_of(plugin)).start(DemoEngine(tmp_path / "b").context())
    assert near.objects == {}


def test_a_listener_is_told_each_event_and_its_fault_is_its_own(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    told: list[Event] = []
    listeners = [raises(ValueError("bug")), raises(BrokenText()), raises(SystemExit(1)), told.append]
    engine = DemoEngine(tmp_path / "a")
    session = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a")), listeners)
    report = session.start(engine.context())
    assert told == report.events
    assert engine.runs == 1


def test_two_sessions_in_one_process_are_independent(open_session: Open, tmp_path: Path) -> None:
    engines = [DemoEngine(tmp_path / name) for name in "ab"]
    stores = [MemoryStore(), MemoryStore()]
    sessions = [
        open_session([store_of(store)], cache_of(DemoCache(engine.folder)))
        for store, engine in zip(stores, engines, strict=True)
    ]
    reports = [session.start(engine.context()) for session, engine in zip(sessions, engines, strict=True)]
    assert [only(report).outcome for report in reports] == ["miss", "miss"]
    assert [len(report.events) for report in reports] == [4, 4]
    assert [len(store.objects) for store in stores] == [1, 1]


def test_a_session_may_start_twice(open_session: Open, store: MemoryStore, tmp_path: Path) -> None:
    session = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a")))
    engine = DemoEngine(tmp_path / "a")
    outcomes = [only(session.start(engine.context())).outcome for _ in range(2)]
    assert (outcomes, engine.runs) == (["miss", "hit"], 2)


def test_closing_lets_every_store_go_and_waits_for_none(
    open_session: Open, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmcore.session.CLOSE_SECONDS", 0.3)
    plugins = [FaultyStore(store_close=hangs), FaultyStore(store_close=raises(SystemExit(1))), store]
    with open_session([store_of(plugin) for plugin in plugins], cache_of(DemoCache(tmp_path))):
        pass
    assert store.calls == ["store_close"]


def test_a_session_that_is_closed_twice_closes_its_stores_once(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    with open_session([store_of(store)], cache_of(DemoCache(tmp_path))) as session:
        session.close()
    assert store.calls == ["store_close"]


def configured(tmp_path: Path, shelf: str, folder: str, **more: Any) -> dict[str, Any]:
    return {
        "caches": {KIND: {"folder": str(tmp_path / folder)}},
        "stores": {"near": {"plugin": "memory", "shelf": shelf}},
        "policy": {"reports": str(tmp_path / "reports")},
        **more,
    }


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path / "site", monkeypatch)
    site.install_doubles()
    return site


def test_plugins_named_in_a_config_do_the_whole_of_it(site: Site, tmp_path: Path) -> None:
    engines = [DemoEngine(tmp_path / name) for name in "ab"]
    outcomes = []
    for engine in engines:
        with Session(configured(tmp_path, str(tmp_path), engine.folder.name)) as session:
            outcomes.append(only(session.start(engine.context())).outcome)
    assert [engine.tuned for engine in engines] == [["gemm", "norm"], []]
    assert outcomes == ["miss", "hit"]


@pytest.mark.parametrize("variable", ["1", "true"])
def test_the_off_switch_reads_nothing_writes_nothing_and_loads_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:  # JW-04
    monkeypatch.setenv("WARMCORE_DISABLE", variable)
    monkeypatch.setattr("warmcore.session.assemble", raises(AssertionError("a plugin was loaded")))
    engine = DemoEngine(tmp_path / "a")
    config = configured(tmp_path, str(tmp_path), "a")
    (tmp_path / "warmcore.toml").write_text("not toml")
    ready = load_config(config, {})
    for source in (config, tmp_path / "warmcore.toml", str(tmp_path / "warmcore.toml"), ready, None):
        with Session(source) as session:
            report = session.start(engine.context(warm_ups={KIND: engine.warm_up, "other": engine.warm_up}))
        assert report.off == "WARMCORE_DISABLE is set"
    assert engine.runs == 5
    assert not (tmp_path / "reports").exists()
    assert sorted(os.listdir(tmp_path)) == ["a", "site", "warmcore.toml"]


def test_an_off_switch_that_says_neither_is_off_with_one_error(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WARMCORE_DISABLE", "maybe")
    session = Session(configured(tmp_path, "", "a"))
    assert session.off == "WARMCORE_DISABLE: found 'maybe', expected 1 or 0"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


BAD_CONFIGS: Mapping[str, Any] = {
    "unknown key": {"cachs": []},
    "unknown store": {"caches": [KIND], "chain": ["nowhere"]},
    "unknown plugin": {"caches": [KIND], "stores": {"a": {"plugin": "nowhere"}}},
    "unknown kind": {"caches": ["nowhere"], "stores": {"a": {"plugin": "memory"}}},
    "bad inner": {"caches": [KIND], "chain": ["a"], "stores": {"a": {"plugin": "wrapper", "inner": ["b"]}}},
    "missing file": Path("/nowhere/warmcore.toml"),
    "not a config": 5,
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_bad_config_is_off_with_one_error_line_and_the_engine_starts(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    engine = DemoEngine(tmp_path / "a")
    session = Session(BAD_CONFIGS[name])
    report = session.start(engine.context())
    assert (engine.runs, report.off, report.table()) == (1, session.off, f"warmcore is off: {session.off}")
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelname, record.getMessage()) == ("ERROR", f"warmcore is off: {session.off}")
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize("name", [name for name, config in BAD_CONFIGS.items() if isinstance(config, dict)])
def test_a_bad_config_raises_where_it_says_strict(site: Site, name: str) -> None:
    with pytest.raises(ConfigError):
        Session({**BAD_CONFIGS[name], "strict": True})


def test_a_broken_plugin_is_a_problem_of_the_report_and_raises_where_the_config_says_strict(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # PL-01
    site.install("broken", "raise OSError('gone')\n", stores={"broken": ":X"})
    config = configured(tmp_path, "", "a")
    config["stores"]["bad"] = {"plugin": "broken"}
    engine = DemoEngine(tmp_path / "a")
    report = Session(config).start(engine.context())
    assert only(report).outcome == "miss"
    assert len(report.problems) == 1
    assert "OSError: gone" in report.problems[0]
    assert "OSError: gone" in report.table()
    assert [record.levelname for record in caplog.records if "gone" in record.message] == ["ERROR"]
    with pytest.raises(PluginError, match="OSError: gone"):
        Session({**config, "strict": True})


def test_without_a_cache_there_is_nothing_to_do_and_no_store_is_opened(site: Site, tmp_path: Path) -> None:
    site.install("broken", "raise OSError('gone')\n", stores={"broken": ":X"})
    session = Session({"stores": {"a": {"plugin": "broken"}}})
    assert session.off is not None
    assert "no cache is switched on" in session.off


def test_a_chain_that_can_publish_nowhere_shared_says_so(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "warmcore")
    Session(configured(tmp_path, "", "a"))
    assert sum("no shared store may be written" in record.message for record in caplog.records) == 1


CANARY = "canary-hunter2"


def test_a_secret_shows_nowhere_in_a_start(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    code = (
        "from tests.support import MemoryStore\nfrom warmcore import Secret\n"
        "class Guarded(MemoryStore):\n"
        "    def __init__(self, password: Secret):\n"
        "        super().__init__()\n        self.password = password\n        password.reveal()\n"
    )
    site.install("guarded", code, stores={"guarded": ":Guarded"})
    monkeypatch.setenv("PASSWORD", CANARY)
    config = configured(tmp_path, "", "a")
    for password in ({"env": "PASSWORD"}, CANARY, {"value": CANARY}):
        config["stores"]["near"] = {"plugin": "guarded", "password": password}
        session = Session(config)
        report = session.start(DemoEngine(tmp_path / "a").context())
        shown = [repr(session.config), repr(session.off), repr(vars(session)), report.to_json(), report.table()]
        assert CANARY not in "".join(shown)
        assert (session.off is None) == (password == {"env": "PASSWORD"})
    written = "".join(path.read_text() for path in (tmp_path / "reports").iterdir())
    assert CANARY not in written + caplog.text


def test_a_warm_start_does_not_wait_for_farther_stores_that_hang(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    cold_start(open_session, store, tmp_path / "a")
    hung = [store_of(FaultyStore(store_get=hangs), f"far-{number}") for number in range(5)]
    engine = DemoEngine(tmp_path / "b")
    started = time.monotonic()
    report = open_session([store_of(store, "near"), *hung], cache_of(DemoCache(engine.folder))).start(engine.context())
    assert (only(report).outcome, time.monotonic() - started < 1.5) == ("hit", True)


def test_a_warm_up_that_fails_half_way_publishes_what_it_made_and_is_in_the_report(
    open_session: Open, store: MemoryStore, tmp_path: Path
) -> None:
    engine = DemoEngine(tmp_path / "a")

    def warm_up() -> None:
        engine.warm_up()
        raise EngineFault("one kernel does not compile")

    session = open_session([store_of(store)], cache_of(DemoCache(tmp_path / "a")))
    with pytest.raises(EngineFault):
        session.start(engine.context(warm_ups={KIND: warm_up}))
    (path,) = (tmp_path / "reports").glob("*.json")
    events = {(event["name"], event["outcome"]): event["reason"] for event in json.loads(path.read_text())["events"]}
    assert "one kernel does not compile" in events["warm-up", "error"]
    assert ("publish", "stored") in events


class Panic(BaseException):
    """What a panic of compiled code is."""


@pytest.mark.parametrize("hook", HOOKS)
def test_a_panic_in_a_hook_is_contained(open_session: Open, store: MemoryStore, tmp_path: Path, hook: str) -> None:
    cold_start(open_session, store, tmp_path / "a")
    engine = DemoEngine(tmp_path / "b")
    plugin = FaultyCache(tmp_path / "b", **{hook: raises(Panic("oops"))})
    open_session([store_of(store)], cache_of(plugin)).start(engine.context())
    assert engine.runs == 1
