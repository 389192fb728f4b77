"""Bytes in motion: read-only blobs, payloads of them, the sink that stores write into and the source they read from."""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warmcore.errors import DeadlineExceeded, Reject, StoreError, WarmcoreError

CHUNK = 1 << 20
SPILL_AT = 8 << 20
SMALL = 4096

ReadAt = Callable[[int, int], bytes]


class Blob:
    """A read-only view of bytes that lie in memory, in a file, or in part of one; never loaded whole unless asked."""

    def __init__(self, size: int, read_at: ReadAt, *, promised: str | None = None) -> None:
        self.size = size
        self._read_at = read_at
        self._promised = promised
        self._sha256 = promised

    @classmethod
    def of(cls, source: bytes | Path) -> "Blob":
        """View bytes, or a file as it is now: its digest is taken at once, and a file that changes later fails."""
        if isinstance(source, bytes):
            return cls(len(source), lambda start, size: source[start : start + size])
        size, read_at = source.stat().st_size, _file_reader(source)
        return cls(size, read_at, promised=cls(size, read_at).sha256)

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the whole content, taken when first asked for."""
        # No cached_property: Python 3.11 guards it by one lock for all blobs; one read that hangs would stop the rest.
        if self._sha256 is None:
            self._sha256 = _sha256(self.chunks())
        return self._sha256

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces of at most 1 MiB; StoreError before the last one if it changed meanwhile."""
        position, digest = 0, hashlib.sha256()
        while position < self.size:
            chunk = self._read_at(position, min(CHUNK, self.size - position))
            position += len(chunk)
            if not chunk:
                raise StoreError(f"content ended at byte {position} of {self.size}: it changed while it was read")
            if self._promised is not None:
                digest.update(chunk)
                if position == self.size and digest.hexdigest() != self._promised:
                    raise StoreError(f"{self.size} bytes changed since their digest was taken: try again")
            yield chunk

    def read(self, cap: int) -> bytes:
        """Return the whole content; Reject if it is over `cap` bytes."""
        if self.size > cap:
            raise Reject(f"{self.size} bytes, the cap is {cap}")
        return b"".join(self.chunks())

    def part(self, start: int, size: int) -> "Blob":
        """View `size` bytes from `start`; they keep the underlying file open."""
        return Blob(size, lambda offset, count: self._read_at(start + offset, count))

    def __repr__(self) -> str:
        return f"Blob({self.size} bytes)"


@dataclass(frozen=True)
class Origin:
    """Where a payload came from: the sealed artifact it was read from, or published as."""

    namespace: str
    key: str
    generation: str

    def of(self, namespace: str, key: str) -> bool:
        return (self.namespace, self.key) == (namespace, key)


class Payload(Mapping[str, Blob]):
    """The artifact as a cache sees it: file name -> Blob, in name order; `origin` is None until it was sealed once."""

    def __init__(self, files: Mapping[str, Blob], origin: Origin | None = None) -> None:
        self._files = {name: files[name] for name in sorted(files)}
        self.origin = origin

    def __getitem__(self, name: str) -> Blob:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.values())

    @property
    def digest(self) -> str:
        """Hex SHA-256 over the lines `<sha256> <size> <name>` of all files: commits to each byte, hashes it once."""
        lines = (f"{blob.sha256} {blob.size} {name}\n" for name, blob in self.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Payload({len(self)} files, {self.size} bytes)"


class SpillSink:
    """What a store writes into: caps, times, and past 8 MiB spills to a private unlinked file. One per get."""

    def __init__(self, cap: int, deadline: float, spill_folder: Path | None = None) -> None:
        self._cap = cap
        self._deadline = deadline
        self._spill_folder = spill_folder
        self._size = 0
        self._pieces: list[bytes | bytearray] = []
        self._file: _PrivateFile | None = None
        # Kept, because a store may wrap what it did not raise itself.
        self.fault: WarmcoreError | None = None

    def write(self, chunk: bytes) -> None:
        """Take the next bytes; Reject over the cap, DeadlineExceeded once time is up (`time.monotonic`)."""
        if self.fault is None:
            try:
                self._take(chunk)
            except WarmcoreError as error:
                self.fault = error
        if self.fault is not None:
            raise self.fault

    def _take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if time.monotonic() > self._deadline:
            raise DeadlineExceeded("out of time while reading")
        if self._size > self._cap:
            raise Reject(f"over {self._cap} bytes, the cap for this kind")
        if self._file is None and self._size > SPILL_AT:
            self._file = _PrivateFile(self._spill_folder)
            for piece in self._pieces:
                self._file.append(piece)
            self._pieces.clear()
        if self._file is None:
            self._hold(chunk)
        else:
            self._file.append(chunk)

    def _hold(self, chunk: bytes) -> None:
        # As it came, since a copy costs more than the read did; small ones together, lest their number outgrow them.
        if len(chunk) >= SMALL:
            self._pieces.append(bytes(chunk))
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += chunk
        else:
            self._pieces.append(bytearray(chunk))

    def blob(self) -> Blob:
        """Return all that was written."""
        if self._file is not None:
            return Blob(self._size, self._file.read_at)
        return Blob.of(b"".join(self._pieces))


class BlobSource:
    """What a store reads from: several blobs one after another. `rewind` starts again, for a retry."""

    def __init__(self, *blobs: Blob) -> None:
        self._blobs = blobs
        self.size = sum(blob.size for blob in blobs)
        self.rewind()

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of all bytes; it reads them once more each time."""
        return _sha256(chunk for blob in self._blobs for chunk in blob.chunks())

    def rewind(self) -> None:
        self._chunks = (chunk for blob in self._blobs for chunk in blob.chunks())
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, and b"" only at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
        chunk, self._rest = self._rest[:size], self._rest[size:]
        return chunk


class _PrivateFile:
    """A file without a name; closed when the last blob that views it is gone."""

    def __init__(self, folder: Path | None) -> None:
        for place in (None, folder):
            try:
                self._file = tempfile.TemporaryFile(buffering=0, dir=place)  # noqa: SIM115  # its views keep it open
                return
            except OSError:
                continue
        raise StoreError("no folder to spill a large artifact to: set TMPDIR to one that can be written")

    def append(self, chunk: bytes | bytearray) -> None:
        view = memoryview(chunk)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise StoreError(
                f"a large artifact can't be spilled: {error.strerror}: set TMPDIR to a roomier one"
            ) from None

    def read_at(self, start: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, start)

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()


def _sha256(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _file_reader(path: Path) -> ReadAt:
    def read_at(start: int, size: int) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, start)
        finally:
            os.close(descriptor)

    return read_at
