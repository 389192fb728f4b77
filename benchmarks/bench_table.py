"""The tuned table of four GEMM shapes, 18 KB: what a get costs beside a plain read of the same bytes."""

import hashlib
from pathlib import Path

import diskcache
import zstandard
from bench_parts import Shelf
from bench_rounds import repeated, side_by_side

ROUNDS = 200
CALLS = 5
TABLE = "tests/data/flashinfer/h200-fp8-gemm-flashinfer-0.6.18.json"


def measure(repository: Path, scratch: Path) -> dict[str, object]:
    """Return seconds by competitor, and sizes."""
    data = (repository / TABLE).read_bytes()
    shelf = Shelf.at(scratch)
    sealed = shelf.fill({"table.json": data})
    plain = scratch / "sealed"
    # Two blobs, the head and the table, so two reads.
    plain.write_bytes(sealed.read(sealed.size) + sealed.read(sealed.size))
    with diskcache.Cache(str(scratch / "diskcache")) as cache:
        cache[shelf.key] = plain.read_bytes()
        competitors = {
            "plain": lambda: _read(plain),
            "directed": lambda: shelf.directed(shelf.disk),
            "chain": lambda: shelf.looked_up(shelf.chain),
            "zstd": lambda: shelf.directed(shelf.zstd),
            "zstd chain": lambda: shelf.looked_up(shelf.packed),
            "diskcache": lambda: hashlib.sha256(cache[shelf.key]).hexdigest(),
        }
        seconds = side_by_side({name: repeated(call, CALLS) for name, call in competitors.items()}, ROUNDS)
    compressed = shelf.zstd.store_list(shelf.key)[0].size
    alone = len(zstandard.ZstdCompressor(level=3).compress(data))
    sizes = {"table": len(data), "sealed": sealed.size, "compressed table": alone, "compressed": compressed}
    return {"seconds": seconds, "bytes": sizes}


def _read(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
