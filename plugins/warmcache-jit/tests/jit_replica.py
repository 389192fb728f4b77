"""A process of its own that warms the test kernels and prints how many it compiled and how many it loaded.

Run as: jit_replica.py FOLDER
"""

import os
import sys

os.environ["TRITON_CACHE_DIR"] = sys.argv[1]

import jit_kernels

from warmcache_jit import CompileCounter, offline_driver

with CompileCounter() as counter, offline_driver("cuda:90"):
    jit_kernels.warm()
print(counter.compiled, counter.hits)
