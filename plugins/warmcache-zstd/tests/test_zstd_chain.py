"""Through the real core, from a config to a healed entry, over the real disk store."""

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zstd_parts import KEY, frame, get, put, streamed

from warmcore import (
    Blob,
    BlobSource,
    ConfigError,
    Context,
    Expect,
    Fingerprint,
    Held,
    Identity,
    NotApplicable,
    Payload,
    Place,
    Request,
    Store,
    Undo,
    hookimpl,
)
from warmcore.artifact import new_generation
from warmcore.assembly import assemble
from warmcore.chain import Chain, Standing, Wanted
from warmcore.config import load_config
from warmcore.plugins import Cache
from warmcore.publish import Offer, publish
from warmcore.report import Events

pytest.importorskip("warmcache_disk", reason="the disk store isn't installed")


class Tables:
    """A kind whose artifacts are fit as they are."""

    scope = "rank"
    carries_code = False

    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        return Request.of("tables", Identity({"gpu": "NVIDIA H200"}), Place())

    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("rank")

    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        return payload

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        return lambda: None

    @hookimpl
    def warmup(self, context: Context) -> None:
        pass

    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        return None

    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        return Fingerprint("", "", "")


class Start:
    """What one start does with one store: look up, publish."""

    def __init__(self, stores: list[Store]) -> None:
        self.told: list[tuple[str, str]] = []
        cache = Cache("tables", Tables())
        request = cache.request(Context(config_hash="0" * 64))
        assert isinstance(request, Request)
        self.wanted = Wanted(cache, request, cache.resolve(request))
        self.chain = Chain(stores, Events([lambda event: self.told.append((event.outcome, event.reason))]))
        self.key = self.chain.stored_key(self.wanted.key)

    def look_up(self) -> Standing:
        self.chain.look_up(self.wanted, time.monotonic() + 10)
        return self.chain.seen[self.chain.stores[-1].name, self.wanted.key]

    def publish(self, table: bytes) -> str:
        payload = Payload({"table.json": Blob.of(table)})
        publish(self.chain, self.wanted, Offer(payload, new_generation(), None, 3600), time.monotonic() + 10)
        return self.told[-1][0]


def stores_of(root: Path, **keys: object) -> list[Store]:
    wrapper = {"plugin": "zstd", "inner": "files", **keys}
    stores = {"files": {"plugin": "disk", "path": str(root)}, "small": wrapper}
    return made({"stores": stores, "chain": ["small"]})


def made(config: dict[str, Any]) -> list[Store]:
    assembly = assemble(load_config(config, {}))
    assert not assembly.problems
    return assembly.stores


def place_of(root: Path, key: str) -> Path:
    name = hashlib.sha256(key.encode()).hexdigest()
    return root / "objects" / name[:2] / name


def test_a_config_wraps_a_store_and_what_is_published_is_adopted(tmp_path: Path, table: bytes) -> None:
    start = Start(stores_of(tmp_path))
    assert [store.name for store in start.chain.stores] == ["small"]
    assert start.look_up().outcome == "miss"
    assert start.publish(table) == "stored"
    assert place_of(tmp_path, start.key).stat().st_size * 8 < len(table)
    standing = Start(stores_of(tmp_path, level=19)).look_up()
    assert standing.outcome == "hit"
    assert standing.payload is not None
    assert standing.payload["table.json"].read(1 << 20) == table


def test_a_wrapper_takes_mode_sharing_and_trust_from_its_inner_store(tmp_path: Path) -> None:
    inner = {"plugin": "disk", "path": str(tmp_path), "mode": "read", "shared": True, "trusted": True}
    (store,) = made({"stores": {"files": inner, "small": {"plugin": "zstd", "inner": "files"}}})
    assert (store.mode, store.shared, store.trusted) == ("read", True, True)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"level": 20}, r"^\[stores.small\] level is 20: expected 1 \(fast\) to 19 \(small\)$"),
        ({"level": "high"}, r"^\[stores.small\] level: found 'high' \(str\), expected an integer$"),
        ({"inner": "flies"}, r"^\[stores.small\] inner: no \[stores.flies\]; did you mean 'files'\?$"),
        ({"inner": "small"}, r"^\[stores.small\]: stores stand inside each other in a circle: small -> small$"),
        ({"window": 1}, r"^\[stores.small\] window: unknown key; known: inner, level$"),
    ],
)
def test_a_mistake_in_the_config_is_one_line_with_its_place(tmp_path: Path, keys: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        stores_of(tmp_path, **keys)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda good: b"", "empty"),
    "cut": (lambda good: good[: len(good) // 2], "cut short"),
    "flipped": (lambda good: good[:-1] + bytes([good[-1] ^ 1]), "damaged"),
    "behind": (lambda good: good + b"junk", "4 bytes follow the frame"),
    "two frames": (lambda good: good * 2, "a second frame"),
    "text": (lambda good: b"hello, world", "not zstd"),
    "as it is": (lambda good: b"warmcore-sealed/1 9", "not compressed"),
    "over the cap": (lambda good: frame(bytes(64 << 20)), "over .* bytes, the cap for this kind"),
    "nothing sealed": (lambda good: streamed(b"warm"), "not a sealed artifact"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_bytes_are_a_reject_and_the_next_publish_heals_them(tmp_path: Path, table: bytes, damage: str) -> None:
    change, reason = DAMAGE[damage]
    first = Start(stores_of(tmp_path))
    first.publish(table)
    (files,) = made({"stores": {"files": {"plugin": "disk", "path": str(tmp_path)}}})
    good = get(files, first.key)
    assert good is not None
    put(files, change(good), key=first.key)

    second = Start(stores_of(tmp_path))
    standing = second.look_up()
    assert standing.outcome == "reject"
    assert standing.expect is not None
    assert re.match(reason, standing.reason)
    assert second.publish(table) == "stored"
    assert Start(stores_of(tmp_path)).look_up().outcome == "hit"


def test_what_another_replica_healed_meanwhile_is_not_overwritten(tmp_path: Path, table: bytes) -> None:
    (files,) = made({"stores": {"files": {"plugin": "disk", "path": str(tmp_path)}}})
    late = Start(stores_of(tmp_path))
    put(files, b"damaged", key=late.key)
    expect = late.look_up().expect
    assert isinstance(expect, str)
    assert Start(stores_of(tmp_path)).publish(table) == "stored"
    assert not put(late.chain.stores[0], b"late", expect, late.key)


def test_damage_in_the_file_itself_is_healed_too(tmp_path: Path, table: bytes) -> None:
    start = Start(stores_of(tmp_path))
    start.publish(table)
    for spoilt in (b"", b"warmcore-disk/1 nonsense\n", place_of(tmp_path, start.key).read_bytes()[:-40]):
        place_of(tmp_path, start.key).write_bytes(spoilt)
        assert Start(stores_of(tmp_path)).look_up().outcome == "reject"
        assert Start(stores_of(tmp_path)).publish(table) == "stored"
        assert Start(stores_of(tmp_path)).look_up().outcome == "hit"


def test_the_lease_of_the_disk_store_fences_a_compressed_put(tmp_path: Path) -> None:
    (store,) = stores_of(tmp_path)
    lease = store.lease("default/v1/tables/" + "a" * 64, KEY, Expect.ABSENT, 30.0, None)
    assert not isinstance(lease, Held)
    assert store.put(KEY, BlobSource(Blob.of(b"mine")), Expect.ABSENT, lease.fence)
    lease.release()
    assert not store.put(KEY, BlobSource(Blob.of(b"late")), Expect.ANY, lease.fence)
    assert get(store) == b"mine"
    store.close()


BUNDLE = """
import random, resource, sys, time
from pathlib import Path
from warmcore import Blob, BlobSource, Expect
from warmcore.assembly import assemble
from warmcore.streams import SpillSink
from warmcore.config import load_config
folder = Path(sys.argv[1])
files = {"plugin": "disk", "path": str(folder / "store")}
store, = assemble(load_config({"stores": {"files": files, "small": {"plugin": "zstd", "inner": "files"}}}, {})).stores
def carry(name):
    blob = Blob.of(folder / name)
    assert store.put(name, BlobSource(blob), Expect.ANY)
    sink = SpillSink(1 << 30, time.monotonic() + 60)
    assert store.get(name, sink)
    assert sink.blob().sha256 == blob.sha256
for name, size in {"small": 1, "large": 42}.items():
    with open(folder / name, "wb") as file:
        for seed in range(size):
            file.write(random.Random(seed).randbytes(1 << 20))
carry("small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
carry("large")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_bundle_is_never_whole_in_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BUNDLE, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 << 10
