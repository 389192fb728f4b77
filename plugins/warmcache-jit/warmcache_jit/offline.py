"""Compile for a device that is not here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WARP_SIZES = {"cuda": 32, "hip": 64}


@dataclass(frozen=True)
class OfflineDriver:
    """Answers what Triton asks a driver before a launch, and nothing else: launching with it fails."""

    target: Any
    device: str

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> str:
        # Triton remembers compiled kernels per device: this name keeps them apart from a real device 0.
        return self.device

    def get_current_stream(self, device: object = None) -> int:  # noqa: ARG002  # Triton's own signature
        return 0

    def get_device_capability(self, device: object = None) -> tuple[int, int]:  # noqa: ARG002  # as above
        major, minor = divmod(int(self.target.arch), 10)
        return major, minor


@contextmanager
def offline_driver(target: str) -> Iterator[None]:
    """Let `kernel.warmup(..., grid=...)` compile for `target` ("cuda:90") with no GPU; then restore the driver before.

    Triton has one active driver a process, for all its threads. ValueError on a target of another form.
    """
    from triton.runtime import driver

    wanted = parse_target(target)
    # Triton's public `driver.active` would start a real driver, or fail where there is none.
    previous = driver._active
    driver.set_active(OfflineDriver(wanted, f"offline {target}"))
    try:
        yield
    finally:
        driver.set_active(previous)


def parse_target(text: str) -> Any:
    """Turn "cuda:90", "cuda:90:32" or "hip:gfx942" into Triton's own target."""
    from triton.backends.compiler import GPUTarget

    backend, _, rest = text.partition(":")
    arch, _, warp_size = rest.partition(":")
    if backend not in WARP_SIZES or not arch or not (warp_size or "1").isdecimal():
        raise ValueError(f'target {text!r:.80}: expected backend:arch or backend:arch:warp size, such as "cuda:90"')
    return GPUTarget(backend, int(arch) if arch.isdecimal() else arch, int(warp_size or WARP_SIZES[backend]))


def target_text(target: Any) -> str:
    """Return a target as a factor of the identity: "cuda:90:32"."""
    return f"{target.backend}:{target.arch}:{target.warp_size}"
