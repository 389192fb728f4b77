"""A program: reads hostile frames as the core does, each in a child; prints how, how soon and how large that ended."""

import json
import os
import random
import resource
import time
from collections.abc import Callable

import zstandard
from zstd_parts import KEY, Least, block, bomb, frame, frame_of_blocks, handle, promising, put, streamed, wrapped

from warmcore import DeadlineExceeded, Reject
from warmcore.streams import SpillSink

MIB = 1 << 20
TABLE, BUNDLE = 4 * MIB, 64 * MIB
TIMEOUT = 2.0

HUGE = (1 << 62).to_bytes(8, "little")
THIRTEEN_BYTES = zstandard.FRAME_HEADER + bytes([0b11100000]) + HUGE
HUGE_PROMISE = zstandard.FRAME_HEADER + bytes([0b11000000, 0]) + HUGE


def long_window() -> bytes:
    params = zstandard.ZstdCompressionParameters.from_level(1, window_log=27, enable_ldm=False)
    stream = zstandard.ZstdCompressor(compression_params=params).compressobj()
    return stream.compress(b"window") + stream.flush()


# What stands in the store, and the cap of the kind that asks.
ATTACKS: dict[str, tuple[Callable[[], bytes], int]] = {
    "13 bytes that promise 4 EiB": (lambda: THIRTEEN_BYTES, TABLE),
    "13 bytes that promise 4 EiB, and a block": (lambda: THIRTEEN_BYTES + block(0, 0, last=True), TABLE),
    "a promise of 4 EiB with a small window": (lambda: HUGE_PROMISE + block(0, 0, last=True), TABLE),
    "1 GiB bomb of repeated bytes, a table": (lambda: bomb(1 << 30), TABLE),
    "1 GiB bomb of repeated bytes, a bundle": (lambda: bomb(1 << 30), BUNDLE),
    "1 GiB bomb that says its size": (lambda: promising_bomb(1 << 30), TABLE),
    "1 GiB bomb that says 5 bytes": (lambda: promising_bomb(5), TABLE),
    "64 MiB bomb of a good compressor": (lambda: frame(bytes(64 * MIB), 19), TABLE),
    "a bomb behind a good frame": (lambda: frame(b"good") + bomb(1 << 30), TABLE),
    "a bomb in a bomb": (lambda: frame(bomb(1 << 30) * 600, 19), TABLE),
    "cut frame": (lambda: frame(random.Random(1).randbytes(3 * MIB))[:-9], TABLE),
    "no size, over the cap": (lambda: streamed(b"plain" * MIB), TABLE),
    "lying size, larger": (lambda: promising(1 << 40, b"lie" * MIB), TABLE),
    "lying size, smaller": (lambda: promising(1, b"lie" * MIB), TABLE),
    "two frames": (lambda: frame(b"one") + frame(b"two"), TABLE),
    "100,000 frames": (lambda: frame(b"") * 100_000, TABLE),
    "30 MB of trailing bytes": (lambda: frame(b"good") + bytes(30_000_000), TABLE),
    "a window of 128 MiB": (long_window, TABLE),
    "a window of 2 TiB": (lambda: frame_of_blocks(block(0, 0, last=True), window_log=41), TABLE),
    "300,000 empty blocks": (lambda: frame_of_blocks(block(0, 0) * 300_000), TABLE),
    "300,000 blocks of one byte": (lambda: frame_of_blocks(block(0, 1, b"x") * 300_000), TABLE),
    "30 MB that are no frame": (lambda: bytes(30_000_000), TABLE),
    "a skippable frame of 4 GiB": (lambda: bytes.fromhex("502a4d18ffffffff") + bytes(1000), TABLE),
}


def promising_bomb(size: int) -> bytes:
    plain = bomb(1 << 30)
    return plain[:4] + bytes([0b11000000]) + plain[5:6] + size.to_bytes(8, "little") + plain[6:]


def read(data: bytes, cap: int) -> tuple[str, float, int]:
    inner = Least()
    inner.set(data)
    store = wrapped(handle("inner", inner))
    before, started, outcome = peak(), time.monotonic(), "read"
    try:
        store.get(KEY, SpillSink(cap, started + TIMEOUT))
    except (Reject, DeadlineExceeded) as error:
        outcome = str(error)
    return outcome, time.monotonic() - started, peak() - before


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    put(wrapped(handle("inner", Least())), b"all modules are loaded")
    for name, (make, cap) in ATTACKS.items():
        data = make()
        if (pid := os.fork()) == 0:
            print(json.dumps([name, *read(data, cap)]), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
