"""Rules for caches: what a request says, and what key it resolves to."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from warmcore.errors import IdentityError
from warmcore.identity import Place, Request, config_hash
from warmcore.testing.cache_given import CacheGiven, Engine, EngineIn, engine_at, request_of
from warmcore.testing.checks import check, equal, raised_by

BAD_HASHES = ("", "0" * 63, "0" * 65, "A" * 64, "../" + "0" * 61, "0" * 63 + "\n", "0" * 63 + "/")


class RequestRules(CacheGiven):
    """The identity decides what fits; the place only names it."""

    def test_a_request_is_the_same_each_time(self, engine: Engine) -> None:
        equal(request_of(engine.cache, engine.context), engine.request, "the second request for one context")

    def test_a_request_is_the_same_in_another_folder(self, engine_in: EngineIn, engine: Engine, tmp_path: Path) -> None:
        elsewhere = engine_at(engine_in, tmp_path / "other")
        equal(elsewhere.request.config_hash, engine.request.config_hash, "the hash for an engine in another folder")

    def test_a_place_is_not_in_the_hash(self, engine: Engine) -> None:
        place = Place(tp=3, rank=3, local_rank=1)
        moved = request_of(engine.cache, replace(engine.context, place=place))
        equal(moved.config_hash, engine.request.config_hash, "the hash for another rank")
        equal(moved.place, place, "the place of the request")

    def test_each_factor_of_the_engine_is_in_the_hash(self, engine: Engine) -> None:
        hashes = {
            request_of(
                engine.cache, replace(engine.context, factors={**engine.context.factors, "kit": value})
            ).config_hash
            for value in (1, 1.0, True, "1", None)
        }
        equal(len(hashes | {engine.request.config_hash}), 6, "how many hashes six values of a factor have")

    def test_the_config_of_the_engine_is_in_the_hash(self, engine: Engine) -> None:
        other = request_of(engine.cache, replace(engine.context, config_hash=config_hash("another config")))
        check(other.config_hash != engine.request.config_hash, "another engine config has the same hash")

    def test_a_request_resolves_to_the_key_of_its_scope(self, engine: Engine) -> None:
        request = replace(engine.request, place=Place(dp=1, tp=3, rank=7))
        equal(engine.cache.resolve(request), request.key(engine.cache.scope), "the key of a request")

    def test_a_request_of_a_peer_resolves_to_the_same_key(self, engine: Engine) -> None:
        peers = replace(engine.request, identity=None)
        equal(engine.cache.resolve(peers), engine.cache.resolve(engine.request), "the key without an identity")

    def test_a_bad_hash_is_a_value_error(self, engine: Engine) -> None:
        for bad in BAD_HASHES:
            request = Request(engine.request.kind, bad)
            raised = raised_by(partial(engine.cache.resolve, request))
            check(isinstance(raised, IdentityError), f"a request with the hash {bad!r} resolved: {raised!r}")
