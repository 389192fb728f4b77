"""Rules for caches: an install is whole or not at all, can be taken back, and works in whatever folder it lands."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from warmcore.blob import Payload
from warmcore.contracts import WarmUp
from warmcore.errors import WarmcoreError
from warmcore.testing.cache_given import MOST_FILES, CacheGiven, Engine, Made, torn
from warmcore.testing.checks import check, equal, raised_by


class InstallRules(CacheGiven):
    """Install, undo, and the note."""

    def test_what_is_installed_is_collected_with_its_origin(self, engine: Engine, artifact: Payload) -> None:
        _install(engine, artifact)
        found = engine.collect()
        equal(found.digest, artifact.digest, "the digest of what is collected after an install")
        equal(found.origin, artifact.origin, "the origin of what is collected after an install")

    def test_usage_tells_what_was_used(self, engine: Engine, artifact: Payload) -> None:
        _install(engine, artifact)
        engine.warm_up()
        usage = engine.cache.usage(engine.context)
        if usage.unknown is not None:
            pytest.skip(f"not tried: {usage.unknown}")
        check(usage.used, "the warm-up used nothing of what was installed")

    def test_a_second_install_changes_nothing(self, engine: Engine, artifact: Payload) -> None:
        _install(engine, artifact)
        before = self.snapshot(engine.folder)
        _install(engine, artifact)
        equal(self.snapshot(engine.folder), before, "the engine's side after the same install again")

    def test_undo_restores_an_empty_side(self, engine: Engine, artifact: Payload) -> None:
        before = self.snapshot(engine.folder)
        engine.cache.install(engine.context, artifact)()
        equal(self.snapshot(engine.folder), before, "the engine's side after install and undo")

    def test_undo_restores_what_stood_before(self, engine: Engine, artifact: Payload, variant: Payload | None) -> None:
        earlier = replace(artifact.origin, generation="earlier") if artifact.origin else None
        _install(engine, Payload(variant or artifact, earlier))
        before = self.snapshot(engine.folder)
        engine.cache.install(engine.context, artifact)()
        equal(self.snapshot(engine.folder), before, "the engine's side after an install over another one, and undo")

    def test_undo_takes_away_only_what_the_install_added(self, engine: Engine, artifact: Payload) -> None:
        undo = engine.cache.install(engine.context, artifact)
        (engine.folder / "someone-elses").write_bytes(b"theirs")
        undo()
        left = (engine.folder / "someone-elses").exists()
        check(left, "undo took away a file that was put beside what it had installed")

    def test_the_second_call_of_an_undo_does_nothing(self, engine: Engine, artifact: Payload) -> None:
        undo = engine.cache.install(engine.context, artifact)
        undo()
        _install(engine, artifact)
        before = self.snapshot(engine.folder)
        undo()
        equal(self.snapshot(engine.folder), before, "the engine's side after an undo was called again, too late")

    def test_an_install_that_fails_leaves_nothing(self, engine: Engine, artifact: Payload) -> None:
        before = self.snapshot(engine.folder)
        failed = 0
        for name in list(artifact)[:MOST_FILES]:
            failed += _fails(engine, torn(artifact, name))
            equal(self.snapshot(engine.folder), before, f"the engine's side after an install that failed at {name}")
        check(failed, "installs succeeded whichever file could not be read to its end")

    def test_an_install_that_fails_leaves_what_stood_before(self, engine: Engine, artifact: Payload) -> None:
        engine.warm_up()
        before = self.snapshot(engine.folder)
        # What stands already need not be read: then there is nothing that could fail.
        if _fails(engine, torn(artifact, max(artifact))):
            equal(self.snapshot(engine.folder), before, "the engine's side after an install over it that failed")

    def test_damage_on_the_engines_side_is_no_longer_what_was_installed(
        self, engine: Engine, artifact: Payload
    ) -> None:
        _install(engine, artifact)
        _damage(engine.folder, artifact)
        found = engine.cache.collect(engine.context)
        if found is not None:
            equal(found.origin, None, "the origin of what is collected after one file was damaged")

    def test_half_a_file_on_the_engines_side_is_not_collected(self, engine: Engine, artifact: Payload) -> None:
        _install(engine, artifact)
        _damage(engine.folder, artifact)
        found = engine.cache.collect(engine.context)
        if found is not None:
            engine.cache.validate(engine.request, found)


class WarmUpRules(CacheGiven):
    """The engine's callable, inside the library's own tuning context."""

    def test_a_warm_up_calls_the_engine_once(self, engine: Engine) -> None:
        calls: list[int] = []
        engine.cache.warm_up(_calling(engine, partial(calls.append, 1)).context)
        equal(len(calls), 1, "how often the engine's callable ran")

    def test_what_the_engine_raises_passes(self, engine: Engine) -> None:
        class EngineError(Exception):
            pass

        def fails() -> None:
            raise EngineError

        raised = raised_by(partial(engine.cache.warm_up, _calling(engine, fails).context))
        check(isinstance(raised, EngineError), f"the engine's own error became {raised!r}")

    def test_a_warm_up_without_a_callable_does_nothing(self, engine: Engine) -> None:
        before = self.snapshot(engine.folder)
        raised = raised_by(partial(engine.cache.warm_up, replace(engine.context, warm_ups={})))
        equal(raised, None, "what a warm-up without a callable of this kind raised")
        equal(self.snapshot(engine.folder), before, "the engine's side after it")


class RelocationRules(CacheGiven):
    """Absolute paths are poison: an artifact works where it lands, whatever became of where it was made."""

    def test_it_works_elsewhere_while_the_old_place_holds_something_else(self, engine: Engine, made: Made) -> None:
        _install(engine, made.artifact)
        with _overwritten(made.folder):
            self.check_warm(engine)

    def test_it_works_elsewhere_after_the_old_place_is_gone(self, engine: Engine, made: Made) -> None:
        _install(engine, made.artifact)
        with _gone(made.folder):
            self.check_warm(engine)


def _install(engine: Engine, payload: Payload) -> None:
    engine.cache.install(engine.context, payload)


def _fails(engine: Engine, payload: Payload) -> bool:
    """Tell whether an install fails; take back one that does not."""
    try:
        engine.cache.install(engine.context, payload)()
    except WarmcoreError:
        return True
    return False


def _calling(engine: Engine, call: WarmUp) -> Engine:
    return replace(engine, context=replace(engine.context, warm_ups=dict.fromkeys(engine.context.warm_ups, call)))


def _damage(folder: Path, payload: Payload) -> None:
    """Cut one installed file in half."""
    digests = {blob.sha256 for blob in payload.values() if blob.size > 1}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() in digests:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            return
    pytest.skip("not tried: the engine's side holds none of the payload's files as such")


@contextmanager
def _overwritten(folder: Path) -> Iterator[None]:
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    try:
        for path in kept:
            path.write_bytes(b"something else")
        yield
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


@contextmanager
def _gone(folder: Path) -> Iterator[None]:
    away = folder.with_name(folder.name + "-moved-away")
    os.rename(folder, away)
    try:
        yield
    finally:
        os.rename(away, folder)
