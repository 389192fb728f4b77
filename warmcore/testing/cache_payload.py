"""Rules for caches: what is collected is fit to travel, and what is not fit is refused before any of it is live."""

from collections.abc import Iterator
from functools import partial

import pytest

from warmcore import names
from warmcore.blob import Blob, Payload
from warmcore.errors import Reject
from warmcore.testing.cache_given import CacheGiven, Engine, Made, cut
from warmcore.testing.checks import check, equal, raised_by

GARBAGE = b"\xffgarbage\x00" * 20


class PayloadRules(CacheGiven):
    """Collect and validate."""

    def test_nothing_is_collected_where_nothing_stands(self, engine: Engine) -> None:
        equal(engine.cache.collect(engine.context), None, "what is collected before any warm-up")

    def test_a_warm_up_leaves_an_artifact(self, engine: Engine) -> None:
        engine.warm_up()
        payload = engine.collect()
        names.check_file_names(payload)
        check(0 < payload.size <= engine.cache.max_bytes, f"{payload}: expected 1 to {engine.cache.max_bytes} bytes")

    def test_what_was_never_sealed_has_no_origin(self, engine: Engine) -> None:
        engine.warm_up()
        equal(engine.collect().origin, None, "the origin of what a warm-up left")

    def test_a_good_artifact_is_valid_and_keeps_its_origin(self, engine: Engine, artifact: Payload) -> None:
        judged = engine.cache.validate(engine.request, artifact)
        equal((judged.digest, judged.origin), (artifact.digest, artifact.origin), "digest and origin after validation")

    def test_an_artifact_names_no_path_of_where_it_was_made(self, made: Made) -> None:
        for name, blob in made.artifact.items():
            found = str(made.folder).encode() in blob.read(blob.size)
            check(not found, f"{name} holds the path of the engine's folder, which is another one elsewhere")

    def test_a_cut_file_is_refused(self, engine: Engine, artifact: Payload) -> None:
        for what, payload in self._cuts(artifact):
            _refused(engine, payload, what)

    def test_a_file_of_garbage_is_refused(self, engine: Engine, artifact: Payload) -> None:
        for name in self.live(artifact):
            garbled = Payload({**artifact, name: Blob.of(GARBAGE)}, artifact.origin)
            _refused(engine, garbled, f"a payload with garbage for {name}")

    def test_a_file_of_an_unknown_name_is_refused(self, engine: Engine, artifact: Payload) -> None:
        for name in ("unknown", "unknown.json", "sub/unknown"):
            more = Payload({**artifact, name: artifact[min(artifact)]}, artifact.origin)
            _refused(engine, more, f"a payload with a file {name!r} beside the others")

    def test_another_environment_is_refused(self, engine: Engine, foreign: Payload | None) -> None:
        _refused(engine, _given(foreign), "an artifact of another environment")

    def test_another_environment_is_left_alone(self, engine: Engine, foreign: Payload | None) -> None:
        raised = raised_by(partial(engine.cache.validate, engine.request, _given(foreign)))
        replaceable = isinstance(raised, Reject) and raised.replaceable
        check(not replaceable, "an artifact that is good elsewhere may be replaced, expected replaceable=False")

    def test_damage_may_be_replaced(self, engine: Engine, artifact: Payload) -> None:
        for what, payload in self._cuts(artifact):
            raised = raised_by(partial(engine.cache.validate, engine.request, payload))
            left_alone = isinstance(raised, Reject) and not raised.replaceable
            check(not left_alone, f"{what} is left alone, expected a Reject that may be replaced")

    def test_a_refusal_leaves_nothing_live(self, engine: Engine, artifact: Payload) -> None:
        before = self.snapshot(engine.folder)
        for _, payload in self._cuts(artifact):
            raised_by(partial(engine.cache.validate, engine.request, payload))
        equal(self.snapshot(engine.folder), before, "the engine's side after payloads were refused")

    def test_validation_leaves_nothing_live(self, engine: Engine, artifact: Payload) -> None:
        before = self.snapshot(engine.folder)
        engine.cache.validate(engine.request, artifact)
        equal(self.snapshot(engine.folder), before, "the engine's side after a good payload was judged")

    def test_a_fingerprint_depends_on_the_artifact_alone(self, engine: Engine, artifact: Payload) -> None:
        first = engine.cache.fingerprint(engine.request, artifact)
        again = Payload({name: Blob.of(blob.read(blob.size)) for name, blob in artifact.items()})
        equal(engine.cache.fingerprint(engine.request, again), first, "the fingerprint of the same files, read again")
        check(all((first.environment, first.entries, first.selections)), f"a part of {first} is empty")

    def test_a_fingerprint_shows_another_selection(
        self, engine: Engine, artifact: Payload, variant: Payload | None
    ) -> None:
        found = [engine.cache.fingerprint(engine.request, payload) for payload in (artifact, _given(variant))]
        check(found[0] != found[1], f"two artifacts that select otherwise have one fingerprint, {found[0]}")

    def test_a_merge_with_itself_changes_nothing(self, engine: Engine, artifact: Payload) -> None:
        merged = engine.cache.merge(engine.request, artifact, artifact)
        equal(merged.digest, artifact.digest, "the digest of an artifact merged with itself")

    def test_a_merge_never_shrinks(self, engine: Engine, artifact: Payload, variant: Payload | None) -> None:
        merged = engine.cache.merge(engine.request, artifact, _given(variant))
        missing = {*artifact, *_given(variant)} - merged.keys()
        equal(missing, set(), "what a merge of two good artifacts has lost")
        engine.cache.validate(engine.request, merged)

    def test_a_description_is_rows_of_text(self, engine: Engine, artifact: Payload) -> None:
        rows = engine.cache.describe(artifact)
        if "describe" not in engine.cache.hooks:
            pytest.skip("not tried: this cache has no hook describe")
        check(rows, "no row describes an artifact that has files")
        texts = [text for row in rows for cell in row.items() for text in cell]
        equal([text for text in texts if not isinstance(text, str)], [], "cells that are no text")

    def _cuts(self, artifact: Payload) -> Iterator[tuple[str, Payload]]:
        for name in self.live(artifact):
            size = artifact[name].size
            for end in sorted({0, size // 2, size - 1}):
                yield f"{name}, cut to {end} of {size} bytes", cut(artifact, name, end)


def _given(payload: Payload | None) -> Payload:
    if payload is None:
        pytest.skip("not tried: no fixture gives such an artifact (see CacheGiven)")
    return payload


def _refused(engine: Engine, payload: Payload, what: str) -> None:
    __tracebackhide__ = True
    raised = raised_by(partial(engine.cache.validate, engine.request, payload))
    check(isinstance(raised, Reject), f"{what}: found {raised!r}, expected a Reject")
