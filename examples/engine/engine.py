"""One replica of an engine: it starts through warmcore, and says how many kernels it had to compile.

Its working folder (Triton's cache) comes from TRITON_CACHE_DIR, the store from the config that all replicas share.
"""

import argparse
import os
from concurrent.futures import ThreadPoolExecutor

from kernels import SPECIALISATIONS, Specialisation

import warmcore
from warmcache_jit import CompileCounter, offline_driver

CONFIG = {"model": "demo-8b", "hidden": 4096, "head": 128, "layers": 32, "dtypes": ["float16", "bfloat16"]}


def warm_up() -> None:
    """Compile, or load, all kernels for an H100 or H200 that need not be here. On a GPU an engine would launch them."""
    with offline_driver("cuda:90"), ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(Specialisation.compile, SPECIALISATIONS))


def main() -> None:
    parser = argparse.ArgumentParser(description="Start one replica.")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="a factor of the identity")
    options = parser.parse_args()
    context = warmcore.Context(
        config_hash=warmcore.config_hash(CONFIG),
        factors={"model": "demo-8b", "tensor_parallel": options.tensor_parallel},
        capability=(9, 0),
        warm_ups={"triton_kernels": warm_up},
    )
    with CompileCounter() as counter, warmcore.Session() as session:
        report = session.start(context)
    print(report.table())
    print(f"report: {report.path or 'none was written'}")
    print(f"compiled {counter.compiled}, loaded {counter.hits}")


if __name__ == "__main__":
    main()
