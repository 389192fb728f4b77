"""What the rules for caches are given: the fixtures that a subclass defines, and what is made from them."""

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest

from warmcore import artifact as form
from warmcore.blob import Blob, Payload
from warmcore.contracts import Context, NotApplicable
from warmcore.errors import StoreError
from warmcore.identity import Request
from warmcore.plugins import Cache
from warmcore.testing.checks import equal, fail

MOST_FILES = 24


class Side(NamedTuple):
    """An engine's side of one kind: the plugin, and a context whose warm-up fills what the plugin looks after."""

    plugin: object
    context: Context


EngineIn = Callable[[Path], Side]


class Made(NamedTuple):
    """An artifact, and the folder of the engine that made it."""

    folder: Path
    artifact: Payload


@dataclass(frozen=True)
class Engine:
    """A side whose start has begun: its request was made, first and once, as the core does."""

    folder: Path
    cache: Cache
    context: Context
    request: Request

    def warm_up(self) -> None:
        self.cache.warm_up(self.context)

    def collect(self) -> Payload:
        return self.cache.collect(self.context) or fail("nothing was collected, expected an artifact")


class CacheGiven:
    """The fixtures of a cache's tests: `engine_in`, and those that try more.

    `cannot` maps the name of a test to the reason why this cache is let off. `inert` has patterns of the files that the
    library never reads, such as a compiler's own listings: to damage those is no harm.
    """

    cannot: ClassVar[Mapping[str, str]] = {}
    inert: ClassVar[tuple[str, ...]] = ()
    _made: ClassVar[dict[type, Made]] = {}

    @pytest.fixture
    def engine_in(self) -> EngineIn:
        """Return a callable that makes an engine's side in a folder, empty or not. Required."""
        return fail(f"{type(self).__name__} needs a fixture `engine_in` that maps a folder to a Side(plugin, context)")

    @pytest.fixture
    def foreign(self) -> Payload | None:
        """Return a whole artifact of another environment, under the very request that `engine_in` makes."""
        return None

    @pytest.fixture
    def variant(self) -> Payload | None:
        """Return another good artifact for that request, as a replica that measured otherwise would make."""
        return None

    def live(self, artifact: Payload) -> list[str]:
        """Return the names of files that the library reads, as many as are tried."""
        names = [name for name in artifact if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.inert)]
        return names[:MOST_FILES]

    def snapshot(self, folder: Path) -> object:
        """Return all of the engine's side that an install may change: by default every file in its folder."""
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def check_warm(self, engine: Engine) -> None:
        """Fail unless a warm-up makes nothing new."""
        before = engine.collect().digest
        engine.warm_up()
        equal(engine.cache.usage(engine.context).missed, (), "what the warm-up missed after an install")
        equal(engine.collect().digest, before, "the digest of what is collected after a warm-up that found all")

    @pytest.fixture
    def engine(self, engine_in: EngineIn, tmp_path: Path) -> Engine:
        """Return an engine's side where nothing stands yet."""
        return engine_at(engine_in, tmp_path / "engine")

    @pytest.fixture
    def made(self, engine_in: EngineIn, tmp_path_factory: pytest.TempPathFactory) -> Made:
        """Return what a warm-up in another folder made, and that folder; made once for all tests of a class."""
        if type(self) not in self._made:
            maker = engine_at(engine_in, tmp_path_factory.mktemp("origin") / "engine")
            maker.warm_up()
            self._made[type(self)] = Made(maker.folder, through_a_store(maker))
        return self._made[type(self)]

    @pytest.fixture
    def artifact(self, made: Made) -> Payload:
        """Return what another engine made, as this one gets it from a store."""
        return made.artifact

    @pytest.fixture(autouse=True)
    def _let_off(self, request: pytest.FixtureRequest) -> None:
        if reason := self.cannot.get(request.function.__name__):
            pytest.skip(reason)


def engine_at(engine_in: EngineIn, folder: Path) -> Engine:
    """Begin a start of an engine's side in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    plugin, context = engine_in(folder)
    cache = Cache("tested", plugin)
    return Engine(folder, cache, context, request_of(cache, context))


def request_of(cache: Cache, context: Context) -> Request:
    """Make a request; skip a kind that has no part in this environment."""
    request = cache.request(context)
    if isinstance(request, NotApplicable):
        pytest.skip(f"not applicable here: {request.reason}")
    return request


def through_a_store(maker: Engine) -> Payload:
    """Return what stands at the maker's as another process would get it: no byte still lies in the maker's folder."""
    request, key = maker.request, maker.cache.resolve(maker.request)
    _, blobs = form.seal(
        maker.collect(), request, key, namespace="default", keep=3600, generation=form.new_generation(), cost=None
    )
    sealed = b"".join(piece for blob in blobs for piece in blob.chunks())
    return form.unseal(Blob.of(sealed), request, key, namespace="default")[1]


def cut(payload: Payload, name: str, size: int) -> Payload:
    """Return a payload one of whose files ends early."""
    data = payload[name].read(payload[name].size)
    return Payload({**payload, name: Blob.of(data[:size])}, payload.origin)


def torn(payload: Payload, name: str) -> Payload:
    """Return a payload one of whose files can be read to its middle and no further."""
    data = payload[name].read(payload[name].size)
    middle = len(data) // 2

    def read_at(start: int, size: int) -> bytes:
        if start >= middle:
            raise StoreError(f"content ended at byte {middle} of {len(data)}")
        return data[start : min(start + size, middle)]

    return Payload({**payload, name: Blob(len(data), read_at, promised=payload[name].sha256)}, payload.origin)
