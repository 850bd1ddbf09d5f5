"""Hand-written numba: the form is an `@hand` function that returns the value and the gradient. It is the reference too."""

from __future__ import annotations

import os

import numba as nb

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE, SECOND = "hand-written numba", "numba", True

FAST = {"reassoc", "contract", "nsz", "arcp"}
KEPT = "NUMBA_CACHE_DIR" in os.environ          # a benchmark's process keeps its machine code in the run's folder

hand = nb.njit(fastmath=FAST, error_model="numpy", nogil=True, cache=KEPT)
hand_parallel = nb.njit(fastmath=FAST, error_model="numpy", parallel=True, cache=KEPT)


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """Nothing to do: the gradient is written by hand."""
    f = workload.inside(form.function) if workload.inside else form.function
    return Contender(f, problem.values, lambda result: (result[0], as_tuple(result[1])))
