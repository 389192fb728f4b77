"""Four kernels that engines really use, and the 24 specialisations that this engine warms, listed as data."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN201, N803
# A kernel's parameters are Triton's to type, at each launch; its compile-time ones are in capitals by Triton's custom.

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import triton
import triton.language as tl
from triton.runtime.jit import MockTensor


@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_c,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Compute c[m, n] = a[m, k] @ b[k, n]; programs that run together share rows of `a` in the L2 cache."""
    pid, rows, columns = tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    row = first + pid % (GROUP * columns) % height
    column = pid % (GROUP * columns) // height
    at_m, at_n = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        at_k = start + tl.arange(0, BLOCK_K)
        inside_a, inside_b = (at_m[:, None] < m) & (at_k < k), (at_k[:, None] < k) & (at_n < n)
        left = tl.load(a + at_m[:, None] * stride_a + at_k, mask=inside_a, other=0.0)
        right = tl.load(b + at_k[:, None] * stride_b + at_n, mask=inside_b, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + at_m[:, None] * stride_c + at_n, total.to(c.dtype.element_ty), mask=(at_m[:, None] < m) & (at_n < n))


@triton.jit
def rms_norm(x, weight, y, stride, columns, epsilon, BLOCK: tl.constexpr):
    """Compute y = x / sqrt(mean(x^2) + epsilon) * weight, one row a program, in single precision within."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * stride + at, mask=at < columns, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row, 0) / columns + epsilon)
    gain = tl.load(weight + at, mask=at < columns, other=0.0).to(tl.float32)
    tl.store(y + tl.program_id(0) * stride + at, (row * scale * gain).to(y.dtype.element_ty), mask=at < columns)


@triton.jit
def rotary(x, cosine, sine, stride_token, stride_head, HALF: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Rotate x[token, head, 2 * HALF] in place by the token's angles: pairs lie side by side, or half a head apart."""
    at = tl.arange(0, HALF)
    token = tl.program_id(0)
    head = x + token * stride_token + tl.program_id(1) * stride_head
    one = head + (2 * at if INTERLEAVED else at)
    other = head + (2 * at + 1 if INTERLEAVED else at + HALF)
    real, imaginary = tl.load(one).to(tl.float32), tl.load(other).to(tl.float32)
    cos, sin = tl.load(cosine + token * HALF + at), tl.load(sine + token * HALF + at)
    tl.store(one, (real * cos - imaginary * sin).to(x.dtype.element_ty))
    tl.store(other, (imaginary * cos + real * sin).to(x.dtype.element_ty))


@triton.jit
def softmax(x, y, stride, columns, BLOCK: tl.constexpr):
    """Compute y = exp(x - max(x)) / sum, one row a program: the largest exponent is 0, so nothing overflows."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * stride + at, (row / tl.sum(row, 0)).to(y.dtype.element_ty), mask=at < columns)


@dataclass(frozen=True)
class Specialisation:
    """One compile: a kernel, what stands for its arguments, and its compile-time constants and options."""

    kernel: Any
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)

    def compile(self) -> None:
        """Compile, or load from Triton's folder, for the active driver; nothing is launched."""
        self.kernel.warmup(*self.arguments, **self.constants, grid=(1,))


HALF, BRAIN, SINGLE = MockTensor(tl.float16), MockTensor(tl.bfloat16), MockTensor(tl.float32)
HIDDEN = 4096

# Few rows (decode) and many (prefill) want other tiles.
_TILES = (
    {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 1},
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 8},
)
_SHAPE = (HIDDEN,) * 6

SPECIALISATIONS = (
    *(Specialisation(matmul, (t, t, t, *_SHAPE), tile) for t, tile in product((HALF, BRAIN), _TILES)),
    *(
        Specialisation(rms_norm, (t, t, t, width, width, 1e-6), {"BLOCK": width})
        for t, width in product((HALF, BRAIN), (1024, 2048, HIDDEN))
    ),
    *(
        Specialisation(rotary, (t, SINGLE, SINGLE, HIDDEN, 2 * half), {"HALF": half, "INTERLEAVED": interleaved})
        for t, half, interleaved in product((HALF, BRAIN), (32, 64), (False, True))
    ),
    *(
        Specialisation(softmax, (t, SINGLE, width, width), {"BLOCK": width})
        for t, width in product((HALF, BRAIN), (256, 1024, HIDDEN))
    ),
)
