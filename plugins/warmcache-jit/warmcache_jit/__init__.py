"""JIT-compiled kernels for warmcore. Importing this imports no Triton: that happens inside the hooks."""

from warmcache_jit.counter import CompileCounter
from warmcache_jit.kernels import TritonKernels
from warmcache_jit.offline import offline_driver

__all__ = ["CompileCounter", "TritonKernels", "offline_driver"]
