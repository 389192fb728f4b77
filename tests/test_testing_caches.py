"""The kit for caches: each rule has a bad cache that breaks it alone, and the demo cache breaks none."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_caches import BAD
from warmcore import Blob, Payload
from warmcore.testing import CacheTests, DemoCache, FakeEngine
from warmcore.testing.cache_given import Made, engine_at, through_a_store
from warmcore.testing.caches import Side
from warmcore.testing.engine import SHAPES, plan

RULES = {name: test for name, test in inspect.getmembers(CacheTests, callable) if name.startswith("test_")}

FOREIGN = Payload({f"{shape}.plan": Blob.of(plan(shape, "sm_90", driver="driver-470")) for shape in SHAPES})
# One plan chosen otherwise, and one more.
VARIANT = Payload({f"{shape}.plan": Blob.of(plan(shape, "sm_90", tactic=99)) for shape in (SHAPES[0], "512x512")})


def side(plugin: type[DemoCache], folder: Path) -> Side:
    return Side(plugin(folder), FakeEngine(folder).context())


class TestDemoCache(CacheTests):
    @pytest.fixture
    def engine_in(self) -> Callable[[Path], Side]:
        return lambda folder: side(DemoCache, folder)

    @pytest.fixture
    def foreign(self) -> Payload:
        return FOREIGN

    @pytest.fixture
    def variant(self) -> Payload:
        return VARIANT


def broken(plugin: type[DemoCache], folder: Path) -> set[str]:
    """Return the names of the rules that a cache breaks."""
    made_in = engine_at(lambda folder: side(plugin, folder), folder / "origin")
    made_in.warm_up()
    made = Made(made_in.folder, through_a_store(made_in))
    found = set()
    for name, test in RULES.items():
        try:
            run(test, plugin, made, folder / name)
        except (Exception, pytest.skip.Exception):  # noqa: BLE001  # a rule is broken by whatever it raises
            found.add(name)
    return found


def run(test: Callable[..., object], plugin: type[DemoCache], made: Made, folder: Path) -> None:
    """Run one rule as pytest would, with what its fixtures give."""
    fixtures: dict[str, Callable[[], object]] = {
        "engine_in": lambda: lambda folder: side(plugin, folder),
        "engine": lambda: engine_at(lambda folder: side(plugin, folder), folder / "engine"),
        "made": lambda: made,
        "artifact": lambda: made.artifact,
        "foreign": lambda: FOREIGN,
        "variant": lambda: VARIANT,
        "tmp_path": lambda: folder,
    }
    test(CacheTests(), **{name: fixtures[name]() for name in inspect.signature(test).parameters if name != "self"})


@pytest.mark.parametrize(("plugin", "test"), BAD, ids=[plugin.__name__ for plugin, _ in BAD])
def test_a_bad_cache_breaks_its_own_rule_and_no_other(plugin: type[DemoCache], test: str, tmp_path: Path) -> None:
    assert broken(plugin, tmp_path) == {test}


def test_every_rule_has_a_bad_cache() -> None:
    assert {test for _, test in BAD} == set(RULES)


def test_no_rule_is_skipped_in_the_proof(tmp_path: Path) -> None:
    assert broken(DemoCache, tmp_path) == set()
