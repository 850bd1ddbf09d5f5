"""What no program can beat: `gradient` reads the bytes of the inputs and writes those of the gradient, and computes nothing;
`value` does the workload's arithmetic in registers, as multiply-adds, and touches no memory."""

from __future__ import annotations

import os

import numba as nb
import numpy as np

from ..workload import Problem
from . import Contender

LABEL, PACKAGE = "bound", "numba"

PARALLEL = 1 << 20              # bytes or operations from which threads pay
STEPS = 32                      # multiply-adds for each number in `multiply_add`


def build(problem: Problem, flops: float) -> Contender:
    """For a workload's inputs, and the operations that its value and gradient need."""
    read, write = (np.ones(max(1, size // 8)) for size in problem.bytes)
    threads = int(os.environ.get("NUMBA_NUM_THREADS", "1"))
    move = stream_parallel if threads > 1 and sum(problem.bytes) > PARALLEL else stream
    work = multiply_add_parallel if threads > 1 and flops > PARALLEL else multiply_add
    numbers = np.linspace(0.0, 0.5, 256)
    turns = max(1, round(flops / (2 * STEPS * numbers.size)))
    return Contender(lambda: move(read, write), (), value=(lambda: work(numbers, turns)) if flops else None)


def stream_body(read, write):
    """One pass."""
    total = 0.0
    for i in nb.prange(read.size):
        total += read[i]
    for i in nb.prange(write.size):
        write[i] = 1.0
    return total


def multiply_add_body(numbers, turns):
    """`2 * STEPS * numbers.size * turns` operations."""
    total = 0.0
    for turn in nb.prange(turns):
        scale = 1.0 + 1e-9 * turn
        for i in range(numbers.size):
            y = numbers[i] * scale
            p = y
            for _ in range(STEPS):
                p = p * y + 0.5
            total += p
    return total


FAST = {"reassoc", "contract", "nsz"}
KEPT = "NUMBA_CACHE_DIR" in os.environ
stream = nb.njit(fastmath=FAST, cache=KEPT)(stream_body)
stream_parallel = nb.njit(fastmath=FAST, cache=KEPT, parallel=True)(stream_body)
multiply_add = nb.njit(fastmath=FAST, cache=KEPT)(multiply_add_body)
multiply_add_parallel = nb.njit(fastmath=FAST, cache=KEPT, parallel=True)(multiply_add_body)
