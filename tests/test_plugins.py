"""A handle is what the core relies on: each hook is judged when it is loaded, and each answer when it comes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import (
    KIND,
    DemoCache,
    DemoEngine,
    FaultyCache,
    FaultyStore,
    MemoryStore,
    WrapperStore,
    answers,
    payload_of,
    raises,
    store_of,
    wanted_of,
)
from warmcore import (
    Blob,
    BlobSource,
    CacheError,
    Context,
    Entry,
    Expect,
    Fence,
    NotApplicable,
    Payload,
    PluginError,
    Reject,
    Request,
    Sink,
    Source,
    StoreError,
    Undo,
    Usage,
    hookimpl,
    hookspecs,
)
from warmcore.hookspecs import CacheSpec, ExtensionSpec, StoreSpec
from warmcore.plugins import REQUIRED, Cache, check_plugin
from warmcore.streams import SpillSink

HASH = "0" * 64


def sink() -> SpillSink:
    return SpillSink(1 << 20, float("inf"))


def source(data: bytes = b"data") -> BlobSource:
    return BlobSource(Blob.of(data))


def refusal(plugin: type, spec: type = StoreSpec) -> str:
    with pytest.raises(PluginError) as caught:
        check_plugin(plugin, spec)
    return str(caught.value)


def test_the_hooks_of_a_plugin_are_those_it_marks() -> None:
    assert check_plugin(MemoryStore, StoreSpec) == {
        "store_get",
        "store_put",
        "store_list",
        "store_delete",
        "store_close",
    }


def test_a_dropped_argument_is_refused() -> None:
    class Short(MemoryStore):
        @hookimpl
        def store_get(self, key: str, sink: Sink) -> str | None:  # type: ignore[override]
            return None

    assert refusal(Short) == "hook store_get takes (key, sink), expected (key, sink, fresh)"


def test_an_extra_argument_is_refused() -> None:
    class Long(MemoryStore):
        @hookimpl
        def store_get(self, key: str, sink: Sink, fresh: bool, retries: int) -> str | None:  # type: ignore[override]
            return None

    assert refusal(Long) == "hook store_get takes (key, sink, fresh, retries), expected (key, sink, fresh)"


def test_a_renamed_argument_is_refused() -> None:
    class Renamed(MemoryStore):
        @hookimpl
        def store_get(self, name: str, sink: Sink, fresh: bool) -> str | None:
            return None

    assert "takes (name, sink, fresh)" in refusal(Renamed)


def test_arguments_by_another_order_are_fine() -> None:
    class Turned(MemoryStore):
        @hookimpl
        def store_get(self, fresh: bool, sink: Sink, key: str) -> str | None:  # type: ignore[override]
            return super().store_get(key, sink, fresh)

    plugin = Turned()
    plugin.objects["k"] = ("1", b"data")
    assert store_of(plugin).get("k", sink()) == "1"


def test_a_default_is_refused_because_pluggy_would_never_pass_the_argument() -> None:
    class Defaulted(MemoryStore):
        @hookimpl
        def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None = None) -> bool:
            return super().store_put(key, source, expect, fence)

    assert "fence" in refusal(Defaulted)


def test_a_keyword_only_argument_is_refused_because_pluggy_would_never_pass_it() -> None:
    class Keyword(MemoryStore):
        @hookimpl
        def store_get(self, key: str, sink: Sink, *, fresh: bool) -> str | None:  # type: ignore[override]
            return None

    assert "fresh" in refusal(Keyword)


def test_arguments_by_star_are_refused() -> None:
    class Starred(MemoryStore):
        @hookimpl
        def store_get(self, *args: Any, **kwargs: Any) -> str | None:
            return None

    assert "takes (args, kwargs)" in refusal(Starred)


def test_a_misspelt_hook_gets_its_near_match() -> None:
    class Misspelt(MemoryStore):
        @hookimpl
        def store_lits(self, prefix: str) -> list[Entry]:
            return []

    assert refusal(Misspelt) == "store_lits is no hook of StoreSpec; did you mean store_list?"


def test_an_unmarked_hook_is_refused() -> None:
    class Unmarked(MemoryStore):
        def store_lease(self, key: str, entry: str, expect: str, ttl: float, note: float | None) -> None: ...

    assert refusal(Unmarked) == "store_lease is not marked: put @hookimpl above it"


@pytest.mark.parametrize(
    ("spec", "hook"), [(spec, hook) for spec, hooks in REQUIRED.items() for hook in hooks], ids=str
)
def test_a_required_hook_that_is_missing_is_named(spec: type, hook: str) -> None:
    others = {name: hookimpl(vars(spec)[name]) for name in REQUIRED[spec] if name != hook}
    assert refusal(type("Partial", (), others), spec).startswith(f"hook {hook} is missing")


def test_the_optional_hooks_are_as_documented() -> None:
    def optional(spec: type) -> set[str]:
        return {name for name in vars(spec) if name[0] != "_"} - set(REQUIRED[spec])

    assert optional(StoreSpec) == {"store_list", "store_delete", "store_lease", "store_close"}
    assert optional(CacheSpec) == {"merge", "usage", "describe"}
    assert optional(ExtensionSpec) == set()
    assert set(REQUIRED) == {value for name, value in vars(hookspecs).items() if name.endswith("Spec")}


def test_one_class_may_play_two_roles() -> None:  # PL-08
    class Both(MemoryStore):
        @hookimpl
        def on_event(self, event: object) -> None: ...

    assert "on_event" not in check_plugin(Both, StoreSpec)
    assert check_plugin(Both, ExtensionSpec) == {"on_event"}
    assert store_of(Both()).get("k", sink()) is None


def test_a_dataclass_with_equality_is_a_plugin_like_any_other() -> None:
    @dataclass
    class Plain:
        calls: int = 0

        @hookimpl
        def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
            self.calls += 1
            return None

        @hookimpl
        def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
            return True

    first, second = Plain(), Plain()
    assert first == second
    assert store_of(first, "a").get("k", sink()) is None
    assert store_of(second, "b").put("k", source(), Expect.ANY)
    assert (first.calls, second.calls) == (1, 0)


def test_a_plugin_whose_property_raises_is_still_a_plugin() -> None:
    class Lazy(MemoryStore):
        @property
        def client(self) -> object:
            raise RuntimeError("not connected yet")

    assert store_of(Lazy()).get("k", sink()) is None


def test_a_plugin_with_no_length_is_still_a_plugin() -> None:
    class Empty(MemoryStore):
        def __len__(self) -> int:
            return 0

    assert store_of(Empty()).get("k", sink()) is None


@pytest.mark.parametrize(
    ("hook", "answer", "call"),
    [
        ("store_get", 1, lambda store: store.get("k", sink())),
        ("store_get", True, lambda store: store.get("k", sink())),
        ("store_get", b"1", lambda store: store.get("k", sink())),
        ("store_put", None, lambda store: store.put("k", source(), Expect.ANY)),
        ("store_put", 1, lambda store: store.put("k", source(), Expect.ANY)),
        ("store_put", "yes", lambda store: store.put("k", source(), Expect.ANY)),
        ("store_list", None, lambda store: store.list("")),
        ("store_list", (), lambda store: store.list("")),
        ("store_list", ["k"], lambda store: store.list("")),
        ("store_list", [("k", "1", 1)], lambda store: store.list("")),
    ],
)
def test_a_store_that_answers_with_the_wrong_type_is_in_error(
    hook: str, answer: object, call: Callable[[Any], object]
) -> None:
    with pytest.raises(StoreError, match=f"{hook} returned"):
        call(store_of(FaultyStore(**{hook: answers(answer)})))


def test_what_a_store_raises_becomes_a_store_error_on_one_line() -> None:
    with pytest.raises(StoreError, match=r"^ValueError: two lines$"):
        store_of(FaultyStore(store_list=raises(ValueError("two\n  lines")))).list("")


def test_a_store_error_passes_as_it_is() -> None:
    error = StoreError("the disk is full: free some")
    with pytest.raises(StoreError) as caught:
        store_of(FaultyStore(store_list=raises(error))).list("")
    assert caught.value is error


def test_a_hook_that_a_store_lacks_is_an_error_that_names_the_store() -> None:
    with pytest.raises(StoreError, match="store 'near' can't do store_lease"):
        store_of(MemoryStore()).lease("v1/k/h", "v1/k/h/all", Expect.ABSENT, 30, None)


def test_a_wrapper_can_do_what_it_and_its_inner_store_both_can() -> None:
    class GetAndPut:
        store_get = MemoryStore.store_get
        store_put = MemoryStore.store_put

    inner = store_of(MemoryStore(), "inner")
    outer = store_of(WrapperStore(inner), "outer", inner)
    assert outer.can == {"store_get", "store_put", "store_list"}
    poor = store_of(GetAndPut(), "poor")
    assert store_of(WrapperStore(poor), "outer", poor).can == {"store_get", "store_put"}


@pytest.mark.parametrize(("mode", "shared", "trusted"), [("read", True, True), ("lease", False, False)])
def test_a_wrapper_takes_mode_shared_and_trusted_from_its_inner_store(mode: str, shared: bool, trusted: bool) -> None:
    inner = store_of(MemoryStore(), "inner", mode=mode, shared=shared, trusted=trusted)
    outer = store_of(WrapperStore(inner), "outer", inner)
    assert (outer.mode, outer.shared, outer.trusted) == (mode, shared, trusted)


def test_a_store_is_shared_unless_its_plugin_or_its_config_says_no() -> None:
    class Silent:
        store_get = MemoryStore.store_get
        store_put = MemoryStore.store_put

    assert store_of(Silent()).shared
    assert not store_of(MemoryStore()).shared
    assert store_of(MemoryStore(), shared=True).shared
    assert not store_of(Silent(), shared=False).shared


def test_closing_a_wrapper_closes_the_store_inside() -> None:
    plugin = MemoryStore()
    inner = store_of(plugin, "inner")
    store_of(WrapperStore(inner), "outer", inner).close()
    assert plugin.calls == ["store_close"]


def test_the_repr_of_a_handle_shows_its_name_alone() -> None:
    assert repr(store_of(MemoryStore("canary-hunter2"))) == "Store('near')"


WRONG: Mapping[str, tuple[object, Callable[[Cache, Context, Request, Payload], object]]] = {
    "request_params": (None, lambda cache, context, request, payload: cache.request(context)),
    "resolve": (b"key", lambda cache, context, request, payload: cache.resolve(request)),
    "validate_payload": ({}, lambda cache, context, request, payload: cache.validate(request, payload)),
    "install": (None, lambda cache, context, request, payload: cache.install(context, payload)),
    "collect": ({}, lambda cache, context, request, payload: cache.collect(context)),
    "merge": ({}, lambda cache, context, request, payload: cache.merge(request, payload, payload)),
    "fingerprint": ("", lambda cache, context, request, payload: cache.fingerprint(request, payload)),
    "usage": ("", lambda cache, context, request, payload: cache.usage(context)),
    "describe": (5, lambda cache, context, request, payload: cache.describe(payload)),
}


@pytest.mark.parametrize("hook", WRONG)
def test_a_cache_that_answers_with_the_wrong_type_is_in_error(tmp_path: Path, hook: str) -> None:
    answer, call = WRONG[hook]
    context = DemoEngine(tmp_path).context()
    request = wanted_of(DemoCache(tmp_path), context).request
    with pytest.raises(CacheError, match=f"{hook} returned {type(answer).__name__}"):
        call(Cache(KIND, FaultyCache(tmp_path, **{hook: answers(answer)})), context, request, payload_of(a=b"1"))


@pytest.mark.parametrize("hook", WRONG)
def test_what_a_cache_raises_becomes_a_cache_error_that_names_the_hook(tmp_path: Path, hook: str) -> None:
    _, call = WRONG[hook]
    context = DemoEngine(tmp_path).context()
    request = wanted_of(DemoCache(tmp_path), context).request
    with pytest.raises(CacheError, match=f"{hook} failed: ZeroDivisionError: "):
        call(Cache(KIND, FaultyCache(tmp_path, **{hook: lambda *_: 1 // 0})), context, request, payload_of(a=b"1"))


def test_a_reject_passes_as_it_is(tmp_path: Path) -> None:
    context = DemoEngine(tmp_path).context()
    cache = Cache(KIND, DemoCache(tmp_path))
    with pytest.raises(Reject, match="is no table"):
        cache.validate(wanted_of(DemoCache(tmp_path), context).request, payload_of(a=b"no"))


def test_an_install_must_return_something_to_undo_it_with(tmp_path: Path) -> None:
    context = DemoEngine(tmp_path).context()
    with pytest.raises(CacheError, match="install returned str"):
        Cache(KIND, FaultyCache(tmp_path, install=answers("done"))).install(context, payload_of(a=b"1"))


def test_an_empty_payload_is_collected_as_nothing(tmp_path: Path) -> None:
    assert Cache(KIND, DemoCache(tmp_path)).collect(DemoEngine(tmp_path).context()) is None


def test_without_merge_ours_wins_by_file_name(tmp_path: Path) -> None:
    request = wanted_of(DemoCache(tmp_path), DemoEngine(tmp_path).context()).request
    merged = Cache(KIND, DemoCache(tmp_path)).merge(request, payload_of(a=b"1", b=b"1"), payload_of(b=b"2", c=b"2"))
    assert {name: blob.read(9) for name, blob in merged.items()} == {"a.json": b"1", "b.json": b"2", "c.json": b"2"}


def test_a_cache_without_usage_and_describe_says_so(tmp_path: Path) -> None:
    class Bare:
        scope = "rank"
        for hook in REQUIRED[CacheSpec]:
            locals()[hook] = vars(DemoCache)[hook]

    cache = Cache(KIND, Bare())
    assert cache.usage(DemoEngine(tmp_path).context()) == Usage(unknown="this kind can't tell")
    assert list(cache.describe(payload_of(a=b"1"))) == []


@pytest.mark.parametrize("scope", ["host", None, 1])
def test_a_scope_must_be_rank_or_group(tmp_path: Path, scope: object) -> None:
    plugin = type("Scoped", (DemoCache,), {"scope": scope})
    with pytest.raises(PluginError, match="class attribute scope is"):
        Cache(KIND, plugin(tmp_path))


@pytest.mark.parametrize("size", ["4MiB", None, -1, [1]])
def test_a_cap_must_be_a_number_of_bytes(tmp_path: Path, size: object) -> None:
    plugin = type("Capped", (DemoCache,), {"max_bytes": size})
    with pytest.raises(PluginError, match="class attribute max_bytes is"):
        Cache(KIND, plugin(tmp_path))


def test_a_kind_carries_code_unless_it_says_no() -> None:
    class Silent:
        scope = "group"
        for hook in REQUIRED[CacheSpec]:
            locals()[hook] = vars(DemoCache)[hook]

    assert Cache(KIND, Silent()).carries_code


def test_a_kind_that_has_no_part_says_why(tmp_path: Path) -> None:
    plugin = FaultyCache(tmp_path, request_params=answers(NotApplicable("no GPU")))
    assert Cache(KIND, plugin).request(DemoEngine(tmp_path).context()) == NotApplicable("no GPU")


def test_an_undo_restores_what_stood_and_may_be_called_twice(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    DemoEngine(folder, ["old"]).warm_up()
    before = (folder / "old.json").read_bytes()
    undo: Undo = Cache(KIND, DemoCache(folder)).install(DemoEngine(folder).context(), payload_of(new=b"{}"))
    assert (folder / "new.json").exists()
    undo()
    undo()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"old.json": before}
