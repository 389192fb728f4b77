"""Compression of a source into another one, whose size is known before the first byte is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

from zstandard import FRAME_HEADER, ZstdCompressor

from warmcore import Blob, BlobSource, Source, StoreError

CHUNK = 1 << 20
SPILL_AT = 8 << 20

# A level that looks for so little that what is compressed already goes into raw blocks, at the speed of a copy.
STORED = -100


@contextmanager
def packed(source: Source, level: int) -> Iterator[Source]:
    """Compress a source into one frame with size and checksum, in memory up to 8 MiB, then in a file without a name."""
    with SpooledTemporaryFile(max_size=SPILL_AT) as spool:
        size = 0
        for piece in _compressed(source, level):
            size += len(piece)
            try:
                spool.write(piece)
            except OSError as error:
                raise StoreError(
                    f"no room for the compressed bytes: {error.strerror or error}: set TMPDIR to a folder with space"
                ) from error

        def read_at(start: int, count: int) -> bytes:
            spool.seek(start)
            return spool.read(count)

        yield BlobSource(Blob(size, read_at))


def _compressed(source: Source, level: int) -> Iterator[bytes]:
    # Another store may have read it before.
    source.rewind()
    chunk = source.read(CHUNK)
    # A frame, from a wrapper around this one: its bytes come back as they were, compressing them again saves nothing.
    compressor = ZstdCompressor(level=STORED if chunk.startswith(FRAME_HEADER) else level, write_checksum=True)
    frame, left = compressor.compressobj(size=source.size), source.size
    while chunk:
        left -= len(chunk)
        if left < 0:
            break
        yield frame.compress(chunk)
        chunk = source.read(CHUNK)
    if left:
        amount = "less" if left > 0 else "more"
        raise StoreError(f"the source gave {amount} than the {source.size} bytes it promised: nothing was stored")
    yield frame.flush()
