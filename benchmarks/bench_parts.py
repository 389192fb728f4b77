"""What the measurements share: a cache that installs plain files, and one artifact in each store."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warmcache_disk import DiskStore
from warmcache_zstd import ZstdStore
from warmcore import (
    Blob,
    BlobSource,
    Context,
    Duration,
    Expect,
    Fingerprint,
    Identity,
    NotApplicable,
    Payload,
    Place,
    Request,
    Store,
    Undo,
    artifact,
    hookimpl,
)
from warmcore.chain import Chain, Wanted
from warmcore.config import StoreKeys
from warmcore.plugins import Cache
from warmcore.report import Events
from warmcore.streams import SpillSink

KIND = "benchmark"
NAMESPACE = "default"
MAX_BYTES = 512 << 20
SECONDS = 60.0


class PlainFiles:
    """A cache that takes any files: what is measured is warmcore, not a kind's own judgement."""

    scope = "group"
    max_bytes = MAX_BYTES
    carries_code = False

    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        return Request.of(KIND, Identity({"engine_config": context.config_hash}), context.place)

    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("group")

    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:  # noqa: ARG002  # a hook's signature
        return payload

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        raise NotImplementedError("nothing is installed through a session here")

    @hookimpl
    def warmup(self, context: Context) -> None:
        """Do nothing: no session starts here."""

    @hookimpl
    def collect(self, context: Context) -> Payload | None:  # noqa: ARG002  # a hook's signature
        return None

    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:  # noqa: ARG002  # a hook's signature
        return Fingerprint("", "", payload.digest)


def install(payload: Payload, folder: Path) -> None:
    """Write each file, chunk by chunk: the same folders and files as the plain loop beside it."""
    for parent in {name.rpartition("/")[0] for name in payload}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for name, blob in payload.items():
        with open(f"{folder}/{name}", "wb", buffering=0) as file:
            for chunk in blob.chunks():
                file.write(chunk)


@dataclass(frozen=True)
class Shelf:
    """One artifact, the same in a disk store and compressed in another one."""

    disk: DiskStore
    zstd: ZstdStore
    chain: Chain
    packed: Chain
    wanted: Wanted

    @classmethod
    def at(cls, root: Path) -> "Shelf":
        """Open the stores at `root`."""
        inner = DiskStore(path=root / "packed")
        disk, zstd = DiskStore(path=root / "plain"), ZstdStore(Store("inner", inner, StoreKeys(plugin="disk")))
        keys = StoreKeys(plugin="disk", timeout=Duration(SECONDS))
        handles = Store("disk", disk, keys), Store("zstd", zstd, keys, Store("inner", inner, keys))
        request = Request.of(KIND, Identity({"engine_config": "0" * 64}), Place())
        wanted = Wanted(Cache(KIND, PlainFiles()), request, request.key("group"))
        plain, packed = (Chain([handle], Events()) for handle in handles)
        return cls(disk, zstd, plain, packed, wanted)

    @property
    def key(self) -> str:
        """The artifact's key, as stores know it."""
        return f"{NAMESPACE}/{self.wanted.key}"

    def fill(self, files: Mapping[str, bytes]) -> BlobSource:
        """Seal and put the files; return the sealed bytes, as the stores got them."""
        payload = Payload({name: Blob.of(data) for name, data in files.items()})
        _, blobs = artifact.seal(
            payload,
            self.wanted.request,
            self.wanted.key,
            namespace=NAMESPACE,
            keep=1e6,
            generation=artifact.new_generation(),
            cost=None,
        )
        for store in (self.disk, self.zstd):
            if not store.store_put(self.key, BlobSource(*blobs), Expect.ANY, None):
                raise SystemExit("a put was refused")
        return BlobSource(*blobs)

    def directed(self, store: DiskStore | ZstdStore) -> Payload:
        """Get from one store and unseal: no chain, no thread."""
        sink = SpillSink(MAX_BYTES, time.monotonic() + SECONDS)
        store.store_get(self.key, sink, False)
        _, payload = artifact.unseal(sink.blob(), self.wanted.request, self.wanted.key, namespace=NAMESPACE)
        return payload

    def looked_up(self, chain: Chain) -> Payload:
        """Look up through a whole chain, as a start does: deadline, thread, verdict, event."""
        chain.events.seen.clear()
        found = chain.look_up(self.wanted, time.monotonic() + SECONDS)
        if found is None or found[1].payload is None:
            raise SystemExit("the artifact was not found")
        return found[1].payload
