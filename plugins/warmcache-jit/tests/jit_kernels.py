"""Two small kernels in six specialisations: what the tests of this plugin compile."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# A kernel's parameters are Triton's to type, at each launch.

from collections.abc import Sequence

import triton
import triton.language as tl
from triton.runtime.jit import MockTensor


@triton.jit
def scale(source, target, factor, count, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803  # a Triton kernel
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < count) * factor, mask=at < count)


@triton.jit
def row_sum(source, target, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803  # a Triton kernel
    at = tl.arange(0, BLOCK)
    row = tl.load(source + tl.program_id(0) * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    tl.store(target + tl.program_id(0), tl.sum(row, 0))


KERNELS = (scale, row_sum)
COUNT = 6


def warm(blocks: Sequence[int] = (64, 128, 256)) -> None:
    """Compile or load, for whatever driver is active, two kernels for each block size."""
    half, single = MockTensor(tl.float16), MockTensor(tl.float32)
    for block in blocks:
        scale.warmup(half, half, 2.0, 1000, BLOCK=block, grid=(1,))
        row_sum.warmup(half, single, 1000, BLOCK=block, grid=(1,))


def forget() -> None:
    """Make Triton look into its folder again, as a new process would."""
    for kernel in KERNELS:
        kernel.device_caches.clear()
