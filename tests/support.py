"""Doubles for both sides of the core: an honest store and spoiled ones, an engine that tunes, the cache of its kind."""

import functools
import hashlib
import importlib
import inspect
import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from warmcore import (
    Blob,
    CacheError,
    Context,
    Entry,
    Expect,
    Fence,
    Fingerprint,
    Identity,
    NotApplicable,
    Payload,
    Reject,
    Request,
    Sink,
    Source,
    Store,
    Undo,
    Usage,
    artifact,
    config_hash,
    hookimpl,
    read_note,
    write_note,
    write_whole,
)
from warmcore.chain import Chain, Wanted
from warmcore.config import StoreKeys
from warmcore.plugins import Cache
from warmcore.report import Event, Events

if TYPE_CHECKING:
    import pytest

KIND = "demo"
ENGINE_CONFIG = config_hash({"model": "tiny", "layers": 2})

Fault = Callable[..., Any]


class MemoryStore:
    """An honest store in memory; those opened on one `shelf` share it, as processes share a folder."""

    shared = False
    _shelves: ClassVar[dict[str, dict[str, tuple[str, bytes]]]] = {}

    def __init__(self, shelf: str = "") -> None:
        self.objects = self._shelves.setdefault(shelf, {}) if shelf else {}
        self.calls: list[str] = []
        self._lock = threading.Lock()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        self.calls.append("store_get")
        if key not in self.objects:
            return None
        version, data = self.objects[key]
        sink.write(data)
        return version

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self.calls.append("store_put")
        data = b"".join(iter(lambda: source.read(1 << 16), b""))
        with self._lock:
            if not self._stands_as(key, expect):
                return False
            self.objects[key] = (uuid.uuid4().hex, data)
        return True

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        self.calls.append("store_list")
        found = sorted(self.objects.items())
        return [Entry(key, version, len(data)) for key, (version, data) in found if key.startswith(prefix)]

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        self.calls.append("store_delete")
        with self._lock:
            if key not in self.objects or not self._stands_as(key, expect):
                return False
            del self.objects[key]
        return True

    @hookimpl
    def store_close(self) -> None:
        self.calls.append("store_close")

    def data(self) -> dict[str, bytes]:
        """Return all stored bytes by key, without their versions."""
        return {key: data for key, (_, data) in self.objects.items()}

    def _stands_as(self, key: str, expect: Expect | str) -> bool:
        version = self.objects[key][0] if key in self.objects else Expect.ABSENT
        return expect is Expect.ANY or expect == version


def _faulty(plugin: type[Any]) -> type[Any]:
    """Let each hook of a class be replaced by what its instance's `faults` name for it."""

    def wrap(name: str, hook: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(hook)
        def wrapped(self: Any, *arguments: object) -> object:
            self.calls.append(name)
            return self.faults[name](*arguments) if name in self.faults else hook(self, *arguments)

        return wrapped

    for name, hook in inspect.getmembers(plugin, inspect.isfunction):
        if hasattr(hook, "warmcore_impl"):
            setattr(plugin, name, wrap(name, hook))
    return plugin


@_faulty
class FaultyStore(MemoryStore):
    """A MemoryStore with faults: `faults` are called in place of hooks, `spoil` changes what is read.

    `sink` wraps what is written into.
    """

    # Any, so that a test may name the faults by a mapping.
    def __init__(self, *, spoil: Any = None, sink: Any = None, **faults: Fault) -> None:
        super().__init__()
        self.spoil: Callable[[str, bytes], bytes] = spoil or (lambda key, data: data)
        self._sink: Callable[[Sink], Sink] = sink or (lambda sink: sink)
        self.faults = faults

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if key not in self.objects:
            return None
        version, data = self.objects[key]
        self._sink(sink).write(self.spoil(key, data))
        return version


class WrapperStore:
    """A store around another, which can do all that a plain wrapper needs: get, put and list."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        return self.inner.get(key, sink, fresh=fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        return self.inner.put(key, source, expect, fence)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return self.inner.list(prefix)


class WrapsFaults:
    """A sink as a transport library hands it on: what it raises comes back as something else."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, chunk: bytes) -> None:
        try:
            self._sink.write(chunk)
        except Exception as error:
            raise RuntimeError("the stream was reset") from error


class SwallowsFaults(WrapsFaults):
    """A sink whose faults its store never notices."""

    def write(self, chunk: bytes) -> None:
        try:
            self._sink.write(chunk)
        except Exception:  # noqa: BLE001  # the fault that this double is for
            pass


def hangs(*_: object) -> None:
    """Never return."""
    threading.Event().wait()


def raises(error: BaseException) -> Fault:
    """Return a fault that raises `error`."""

    def fault(*_: object) -> None:
        raise error

    return fault


def answers(value: object) -> Fault:
    """Return a fault that answers with `value`."""
    return lambda *_: value


class BrokenText(Exception):
    """An exception that can't even be shown."""

    def __str__(self) -> str:
        raise BrokenText


class DemoEngine:
    """An engine whose warm-up tunes each of `ops` that has no table yet; `tuned` names them, `runs` counts warm-ups."""

    def __init__(self, folder: Path, ops: Sequence[str] = ("gemm", "norm"), *, tactic: int = 1) -> None:
        self.folder = folder
        self.ops = ops
        self.tactic = tactic
        self.tuned: list[str] = []
        self.runs = 0

    def warm_up(self) -> None:
        self.runs += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        for op in self.ops:
            if not (self.folder / f"{op}.json").exists():
                (self.folder / f"{op}.json").write_bytes(table(self.tactic))
                self.tuned.append(op)

    def context(self, **changes: Any) -> Context:
        return Context(**{"config_hash": ENGINE_CONFIG, "warm_ups": {KIND: self.warm_up}} | changes)


class DemoCache:
    """The engine's tables, one JSON file for each operation, in a folder of its own with a note in it."""

    scope = "rank"
    carries_code = False
    max_bytes = 64 << 10

    def __init__(self, folder: Path, library: str = "1.0") -> None:
        self.folder = folder
        self.library = library
        self.warming = 0

    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        factors = {"engine": context.config_hash, "library": self.library, **context.factors}
        return Request.of(KIND, Identity(factors), context.place)

    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("group" if self.scope == "group" else "rank")

    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        for name, blob in payload.items():
            library = _library_of(name, blob)
            if library != self.library:
                raise Reject(f"{name} was tuned with library {library}, this is {self.library}", replaceable=False)
        return payload

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        before = {path: path.read_bytes() for path in self.folder.glob("*") if path.is_file()}

        def undo() -> None:
            for path in self.folder.glob("*"):
                path.unlink()
            for path, data in before.items():
                write_whole(path, data)

        try:
            for name, blob in payload.items():
                write_whole(self.folder / name, blob.read(self.max_bytes))
            write_note(self.folder / "note", payload)
        except Exception:
            undo()
            raise
        return undo

    @hookimpl
    def warmup(self, context: Context) -> None:
        self.warming += 1
        try:
            context.warm_ups[KIND]()
        finally:
            self.warming -= 1

    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        payload = Payload({path.name: Blob.of(path) for path in self.folder.glob("*.json")})
        note = read_note(self.folder / "note")
        return Payload(payload, note.origin_of(payload)) if note else payload

    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        return Fingerprint(self.library, hashlib.sha256("\n".join(payload).encode()).hexdigest(), payload.digest)

    @hookimpl
    def usage(self, context: Context) -> Usage:
        return Usage(used=tuple(sorted(path.name for path in self.folder.glob("*.json"))))


@_faulty
class FaultyCache(DemoCache):
    """A DemoCache with all hooks that there are; `faults` are called in place of hooks."""

    def __init__(self, folder: Path, **faults: Fault) -> None:
        super().__init__(folder)
        self.faults = faults
        self.calls: list[str] = []

    @hookimpl
    def merge(self, request: Request, stored: Payload, ours: Payload) -> Payload:
        return Payload({**stored, **ours})

    @hookimpl
    def describe(self, payload: Payload) -> Sequence[dict[str, str]]:
        return [{"operation": name, "bytes": str(blob.size)} for name, blob in payload.items()]


def _library_of(name: str, blob: Blob) -> str:
    try:
        return str(json.loads(blob.read(DemoCache.max_bytes))["library"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Reject(f"{name} is no table") from None


def table(tactic: int, library: str = "1.0") -> bytes:
    """Return the bytes of one operation's table."""
    return json.dumps({"library": library, "tactic": tactic}).encode()


def payload_of(**files: bytes) -> Payload:
    """Return a payload of tables; the names get their `.json`."""
    return Payload({f"{name}.json": Blob.of(data) for name, data in files.items()})


def store_of(plugin: object, name: str = "near", inner: Store | None = None, **keys: Any) -> Store:
    """Return a store's handle; `keys` are those that all stores have."""
    return Store(name, plugin, StoreKeys("memory", **keys), inner)


def chain_of(*stores: Store, namespace: str = "default", tell: Callable[[Event], None] | None = None) -> Chain:
    """Return a chain of stores, nearest first."""
    return Chain(list(stores), Events([tell] if tell else []), namespace)


def wanted_of(plugin: Any, context: Context) -> Wanted:
    """Return the look-up of a cache's own request."""
    cache = Cache(KIND, plugin)
    request = cache.request(context)
    if isinstance(request, NotApplicable):
        raise CacheError(request.reason)
    return Wanted(cache, request, cache.resolve(request))


def sealed(
    payload: Payload,
    wanted: Wanted,
    *,
    key: str = "",
    namespace: str = "default",
    keep: float = 60,
    cost: float | None = 100.0,
) -> bytes:
    """Return the sealed bytes of a payload, as another replica would have published them."""
    _, blobs = artifact.seal(
        payload, wanted.request, key or wanted.key, namespace=namespace, keep=keep, generation="a" * 32, cost=cost
    )
    return b"".join(blob.read(1 << 30) for blob in blobs)


def from_the_future(data: bytes) -> bytes:
    """Return sealed bytes as a newer core with another form would have written them."""
    line, rest = data.split(b"\n", 1)
    promise = line.rsplit(b" ", 1)[0].replace(b"sealed/1 ", b"sealed/2 ")
    text = rest[: int(promise.split()[1])]
    return promise + b" " + hashlib.sha256(promise + b"\n" + text).hexdigest().encode() + b"\n" + rest


def put(plugin: MemoryStore, wanted: Wanted, data: bytes, *, namespace: str = "default") -> None:
    """Put bytes where a look-up will find them."""
    plugin.objects[f"{namespace}/{wanted.key}"] = (uuid.uuid4().hex, data)


class Site:
    """A folder on `sys.path` where a test installs distributions made up for it."""

    def __init__(self, folder: Path, monkeypatch: "pytest.MonkeyPatch") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.syspath_prepend(folder)

    def install(
        self,
        name: str,
        code: str = "",
        *,
        version: str = "1.0",
        requires: Sequence[str] = (),
        metadata: str | None = None,
        **groups: Mapping[str, str],
    ) -> str:
        """Install a distribution; `groups` maps `stores`, `caches`, ... to name and target, `:X` being X in `code`."""
        module = f"fake_{uuid.uuid4().hex}"
        (self.folder / f"{module}.py").write_text(code)
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
        plain = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        (info / "METADATA").write_text(plain if metadata is None else metadata)
        (info / "RECORD").write_text("")
        lines = []
        for group, entries in groups.items():
            lines.append(f"[warmcore.{group}]")
            lines += [f"{key} = {module if target[0] == ':' else ''}{target}" for key, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        importlib.invalidate_caches()
        return module

    def install_doubles(self) -> None:
        """Install the honest store, the faulty one, a wrapper and the demo cache of this module."""
        here = "tests.support"
        self.install(
            "doubles",
            stores={
                "memory": f"{here}:MemoryStore",
                "wrapper": f"{here}:WrapperStore",
            },
            caches={KIND: f"{here}:DemoCache"},
        )
