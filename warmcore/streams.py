"""Bytes in motion: the sink that a store writes into, and the source that it reads from."""

import os
import tempfile
import time
from pathlib import Path

from warmcore.blob import Blob, sha256_of
from warmcore.errors import DeadlineExceeded, Reject, StoreError, WarmcoreError

SPILL_AT = 8 << 20
SMALL = 4096


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
        return sha256_of(chunk for blob in self._blobs for chunk in blob.chunks())

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
