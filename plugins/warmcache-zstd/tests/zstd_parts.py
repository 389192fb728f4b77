"""Parts that the tests of this plugin share."""

import zstandard

from warmcache_zstd import ZstdStore
from warmcore import (
    Blob,
    BlobSource,
    Entry,
    Expect,
    Fence,
    Held,
    Identity,
    Lease,
    Payload,
    Place,
    Request,
    Sink,
    Source,
    Store,
    hookimpl,
)
from warmcore.artifact import new_generation, seal
from warmcore.config import StoreKeys

KEY = "default/v1/flashinfer_autotune/" + "a" * 64 + "/all"
FENCE: Fence = {"store": "memory", "lock": "lock", "token": "7"}


class Bytes:
    """A sink that keeps all."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, chunk: bytes) -> None:
        self.data += chunk


class Least:
    """A store with the two hooks that each must have; `piece` is how much a get hands over at a time."""

    def __init__(self, piece: int = 1 << 20) -> None:
        self.held: dict[str, tuple[str, bytes]] = {}
        self.piece = piece
        self.seen: list[object] = []
        self.puts = 0

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        self.seen.append(fresh)
        if key not in self.held:
            return None
        version, data = self.held[key]
        for start in range(0, len(data), self.piece):
            sink.write(data[start : start + self.piece])
        return version

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self.seen.append((expect, fence))
        if not self.stands(key, expect):
            return False
        chunks = []
        while chunk := source.read(self.piece):
            chunks.append(chunk)
        data = b"".join(chunks)
        assert len(data) == source.size
        self.set(data, key)
        return True

    def stands(self, key: str, expect: Expect | str) -> bool:
        version = self.held[key][0] if key in self.held else Expect.ABSENT
        return expect in (Expect.ANY, version)

    def set(self, data: bytes, key: str = KEY) -> str:
        self.puts += 1
        self.held[key] = (f"v{self.puts}", data)
        return f"v{self.puts}"


class Granted:
    fence = FENCE

    def alive(self) -> bool:
        return True

    def release(self) -> None:
        pass


class Memory(Least):
    """A store with all hooks."""

    closed = False

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [
            Entry(key, version, len(data))
            for key, (version, data) in sorted(self.held.items())
            if key.startswith(prefix)
        ]

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return key in self.held and self.stands(key, expect) and bool(self.held.pop(key))

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        self.seen.append((key, entry, expect, ttl, note))
        return Granted() if self.stands(entry, expect) else Held(changed=True)

    @hookimpl
    def store_close(self) -> None:
        self.closed = True


def handle(name: str, plugin: object, inner: Store | None = None) -> Store:
    return Store(name, plugin, StoreKeys(name), inner)


def wrapped(inner: Store, level: int = 3) -> Store:
    """Wrap a store as the core does."""
    return handle("outer", ZstdStore(inner=inner, level=level), inner)


def get(store: Store, key: str = KEY) -> bytes | None:
    sink = Bytes()
    return None if store.get(key, sink) is None else bytes(sink.data)


def put(store: Store, data: bytes, expect: Expect | str = Expect.ANY, key: str = KEY) -> bool:
    return store.put(key, BlobSource(Blob.of(data)), expect)


def frame(data: bytes, level: int = 3, *, checksum: bool = True) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(data)


def streamed(data: bytes, *, checksum: bool = False) -> bytes:
    """Compress as a stream is: no content size in the frame."""
    stream = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


def promising(size: int, data: bytes) -> bytes:
    """Make a frame whose header says that it holds `size` bytes."""
    plain = streamed(data, checksum=True)
    assert plain[4] == 0b100  # a checksum, a window, and no size
    return plain[:4] + bytes([0b11000100]) + plain[5:6] + size.to_bytes(8, "little") + plain[6:]


def frame_of_blocks(*blocks: bytes, window_log: int = 17) -> bytes:
    """Make a frame without size and checksum out of blocks as they stand in it."""
    return zstandard.FRAME_HEADER + bytes([0, (window_log - 10) << 3]) + b"".join(blocks)


def block(kind: int, size: int, content: bytes = b"", *, last: bool = False) -> bytes:
    """Make a block: kind 0 is raw, 1 one byte repeated `size` times, 2 compressed, 3 reserved."""
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content


def bomb(size: int) -> bytes:
    """Make a frame of `size` zero bytes out of blocks of one byte repeated: four bytes for each 128 KiB."""
    many = size >> 17
    return frame_of_blocks(block(1, 1 << 17, b"\0") * (many - 1), block(1, 1 << 17, b"\0", last=True))


def sealed_table(table: bytes) -> tuple[bytes, Request, str]:
    """Seal the table as a publish does; returns the bytes, the request, and the key under which they were sealed."""
    identity = Identity({"gpu": "NVIDIA H200", "flashinfer_version": "0.6.18", "cuda_version": "13.0"})
    request = Request.of("flashinfer_autotune", identity, Place())
    key = request.key("rank")
    payload = Payload({"table.json": Blob.of(table)})
    _, blobs = seal(payload, request, key, namespace="default", keep=3600, generation=new_generation(), cost=221.0)
    return b"".join(chunk for blob in blobs for chunk in blob.chunks()), request, key
