"""The kit for stores: each rule has a bad store that breaks it alone, and the good ones break none."""

import copy
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.bad_stores import BAD, INCOHERENT, Plain
from warmcore import StoreError, WarmcoreError
from warmcore.config import StoreKeys
from warmcore.plugins import Store
from warmcore.testing import MemoryStore, StoreMachine, StoreTests, Wrapper, open_store
from warmcore.testing.stores import StoreRules

Rule = Callable[[Plain], None]


class Direct(Store):
    """A handle that calls its plugin's methods: a plugin manager takes longer to set up than most rules to run."""

    def on(self, plugin: Plain) -> "Direct":
        """Return the same handle of another instance."""
        handle = copy.copy(self)
        handle.plugin = plugin
        return handle

    def _call(self, hook: str, **arguments: object) -> Any:
        try:
            return getattr(self.plugin, hook)(**arguments)
        except WarmcoreError:
            raise
        except Exception as error:
            raise StoreError(str(error)) from error


ANY = Direct("bad", Plain(), StoreKeys("bad"))


def rules() -> dict[str, Rule]:
    """Return every rule by the name that pytest would give it."""
    return dict(named for name, test in vars_of(StoreRules) for named in cases(name, test))


def vars_of(tests: type) -> Iterator[tuple[str, Callable[..., object]]]:
    return ((name, test) for name, test in inspect.getmembers(tests, callable) if name.startswith("test_"))


def cases(name: str, test: Callable[..., object]) -> Iterator[tuple[str, Rule]]:
    """Yield a test, or one for each of its parameters."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        yield name, partial(run, test, {})
    for mark in marks:
        argument, values = mark.args
        for label, value in zip(mark.kwargs.get("ids", values), values, strict=True):
            yield f"{name}[{label}]", partial(run, test, {argument: value})


def run(test: Callable[..., object], given: dict[str, object], plugin: Plain) -> None:
    """Run one rule as pytest would, with what its fixtures give."""
    handle = ANY.on(plugin)
    fixtures: dict[str, Callable[[], object]] = {
        "handle": lambda: handle,
        "reopened": lambda: ANY.on(plugin.reopen()),
        "behind": lambda: plugin,
        "unreachable": plugin.unreachable,
    }
    wanted = [name for name in inspect.signature(test).parameters if name not in ("self", *given)]
    test(StoreRules(), **given, **{name: fixtures[name]() for name in wanted})
    handle.close()


RULES = rules()


def broken(plugin: type[Plain]) -> set[str]:
    """Return the names of the rules that a store breaks."""
    found = set()
    for name, rule in RULES.items():
        try:
            rule(plugin())
        except (Exception, pytest.skip.Exception):  # noqa: BLE001  # a rule is broken by whatever it raises
            found.add(name)
    return found


def agrees_with_a_dict(plugin: type[Plain]) -> bool:
    settings: dict[str, Any] = {"phases": [hypothesis.Phase.generate], "derandomize": True, "database": None}
    machine = type("Machine", (StoreMachine,), {"store": open_store(plugin())})
    try:
        hypothesis.stateful.run_state_machine_as_test(machine, settings=hypothesis.settings(**settings))
    except AssertionError:
        return False
    return True


class TestMemoryStore(StoreTests):
    @pytest.fixture
    def store(self) -> Plain:
        return Plain()

    @pytest.fixture
    def reopen(self, store: Plain) -> Callable[[], object]:
        return store.reopen

    @pytest.fixture
    def raw(self, store: Plain) -> Plain:
        return store

    @pytest.fixture
    def unreachable(self, store: Plain) -> object:
        return store.unreachable()


class TestWrapper(StoreTests):
    """All that a wrapper's own test class needs."""

    @pytest.fixture
    def store(self) -> Store:
        inner = open_store(MemoryStore())
        return open_store(Wrapper(inner), inner=inner)


@pytest.mark.parametrize(("plugin", "tests"), BAD, ids=[plugin.__name__ for plugin, _ in BAD])
def test_a_bad_store_breaks_its_own_rule_and_no_other(plugin: type[Plain], tests: tuple[str, ...]) -> None:
    assert broken(plugin) == set(tests)


def test_every_rule_has_a_bad_store() -> None:
    assert {test for _, tests in BAD for test in tests} == set(RULES)


def test_no_rule_is_skipped_in_the_proof() -> None:
    assert broken(Plain) == set()


@pytest.mark.parametrize("plugin", INCOHERENT)
def test_the_machine_finds_what_keeps_every_rule(plugin: type[Plain]) -> None:
    assert broken(plugin) == set()
    assert not agrees_with_a_dict(plugin)


LEAST = """
import pytest
from warmcore import hookimpl
from warmcore.testing import MemoryStore, StoreTests


class LeastStore:
    def __init__(self):
        self.inner = MemoryStore()

    @hookimpl
    def store_get(self, key, sink, fresh):
        return self.inner.store_get(key, sink, fresh)

    @hookimpl
    def store_put(self, key, source, expect, fence):
        return self.inner.store_put(key, source, expect, fence)


class TestLeast(StoreTests):
    cannot = {"test_a_shorter_put_leaves_no_tail": "it grows only"}

    @pytest.fixture
    def store(self):
        return LeastStore()


class TestNothing(StoreTests):
    pass
"""


def test_what_a_store_can_not_do_is_skipped_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "test_least.py").write_text(LEAST)
    command = [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", "-p", "no:randomly", "-k"]
    names = (
        "TestLeast and (empty_store or of_nothing or granted_once or another_instance or lies_at_rest or not_there"
        " or shorter) or TestNothing and shorter"
    )
    done = subprocess.run([*command, names, tmp_path], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    for reason in (
        "LeastStore can't do this: it, or its inner store, has no store_list",
        "LeastStore can't do this: it, or its inner store, has no store_delete",
        "LeastStore can't do this: it, or its inner store, has no store_lease",
        "not tried: no fixture `reopen`",
        "not tried: no fixture `raw`",
        "not tried: no fixture `unreachable`",
        "it grows only",
        "TestNothing needs a fixture `store`",
    ):
        assert reason in done.stdout
    assert "8 skipped" in done.stdout and "1 error" in done.stdout and " failed" not in done.stdout
