"""A bundle of 509 files, 42 MB: verified and installed, beside a plain loop and what people use today.

Run as a program it adopts the bundle of a filled folder once, and prints by how much its memory grew.
"""

import hashlib
import random
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from bench_parts import Shelf, install
from bench_rounds import into_new_folder, side_by_side

ROUNDS = 11
FILES = 509
BYTES = 42_000_000
SEED = 42

_SUFFIXES = ("cubin", "json", "llir", "ptx", "source", "ttgir", "ttir")


def measure(scratch: Path) -> dict[str, object]:
    """Return seconds by competitor, growths of memory in bytes, and sizes."""
    files = make_bundle()
    shelf = Shelf.at(scratch / "stores")
    sealed = shelf.fill(files)
    pack, tree, zipped, tarred = (scratch / name for name in ("pack", "tree", "bundle.zip", "bundle.tar"))
    pack.write_bytes(b"".join(files.values()))
    index = [(name, len(data)) for name, data in files.items()]
    _plain(pack, index, tree)
    with zipfile.ZipFile(zipped, "w") as archive, tarfile.open(tarred, "w") as tar:
        for name in files:
            archive.write(tree / name, name)
            tar.add(tree / name, name)
    del files
    competitors = {
        "plain": lambda folder: _plain(pack, index, folder),
        "directed": lambda folder: install(shelf.directed(shelf.disk), folder),
        "chain": lambda folder: install(shelf.looked_up(shelf.chain), folder),
        "zstd chain": lambda folder: install(shelf.looked_up(shelf.packed), folder),
        "cp -r": lambda folder: subprocess.run(["cp", "-r", f"{tree}/.", folder], check=True),
        "zipfile": lambda folder: _unzip(zipped, folder),
        "tarfile": lambda folder: _untar(tarred, folder),
    }
    turns = {name: into_new_folder(call, scratch) for name, call in competitors.items()}
    seconds = side_by_side(turns, ROUNDS)
    growth = [_grown(scratch) for _ in range(3)]
    return {"seconds": seconds, "growth": growth, "bytes": {"files": BYTES, "sealed": sealed.size}, "files": FILES}


def make_bundle() -> dict[str, bytes]:
    """Make the files of a compile cache from a seed: uneven sizes; text that compresses, binaries that do not."""
    draw = random.Random(SEED)
    words = [draw.randbytes(draw.randint(2, 9)).hex() for _ in range(400)]
    weights = [draw.uniform(0.05, 2.0) for _ in range(FILES)]
    sizes = [int(BYTES * weight / sum(weights)) for weight in weights]
    sizes[-1] += BYTES - sum(sizes)
    names = [f"entry-{number // 7:02d}/kernel_{number // 7}.{_SUFFIXES[number % 7]}" for number in range(FILES)]
    files = {}
    for name, size in zip(names, sizes, strict=True):
        binary = name.endswith((".cubin", ".llir", ".source"))
        files[name] = draw.randbytes(size) if binary else _text(draw, words, size)
    return dict(sorted(files.items()))


def _text(draw: random.Random, words: list[str], size: int) -> bytes:
    return " ".join(draw.choices(words, k=size // 4)).encode()[:size]


def _plain(pack: Path, index: list[tuple[str, int]], folder: Path) -> str:
    for parent in {name.rpartition("/")[0] for name, _ in index}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open(pack, "rb", buffering=0) as source:
        for name, size in index:
            data = source.read(size)
            digest.update(data)
            with open(f"{folder}/{name}", "wb", buffering=0) as file:
                file.write(data)
    return digest.hexdigest()


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)


def _untar(path: Path, folder: Path) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")


def _grown(scratch: Path) -> int:
    folder = scratch / "grown"
    folder.mkdir()
    program = [sys.executable, __file__, str(scratch / "stores"), str(folder)]
    said = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True).stdout
    shutil.rmtree(folder)
    return int(said)


def _peak() -> int:
    # Not ru_maxrss: that starts, after an exec, from what the parent had.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def main() -> None:
    """Adopt once: before, everything is imported and opened, so that what grows is the adopting."""
    shelf, folder = Shelf.at(Path(sys.argv[1])), Path(sys.argv[2])
    before = _peak()
    install(shelf.looked_up(shelf.chain), folder)
    print(_peak() - before)


if __name__ == "__main__":
    main()
