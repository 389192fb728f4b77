"""Bytes at rest: read-only blobs, and payloads of them, the artifact as a cache sees it."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warmcore.errors import Reject, StoreError

CHUNK = 1 << 20

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
            self._sha256 = sha256_of(self.chunks())
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


def sha256_of(chunks: Iterable[bytes]) -> str:
    """Return the hex SHA-256 of pieces one after another."""
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
