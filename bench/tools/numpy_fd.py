"""NumPy and finite differences, as `scipy.optimize` does without a gradient: one more value for each parameter.

The form is adcompile's first (the NumPy function). With many parameters a few differences are taken, and the time is that of
all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender

LABEL, PACKAGE, THREADS = "NumPy, finite differences", "numpy", False

TOLERANCE, SOME = 1e-3, True    # what differences can promise, for some entries
MOST, SAMPLE = 16, 3            # parameters up to which all differences are taken, and how many are taken beyond
STEP = np.sqrt(np.finfo(float).eps)


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """Forward differences of the plain function."""
    names, sizes = list(problem.args), [p.size for p in problem.parameters]
    total = sum(sizes)
    entries = np.arange(total) if total <= MOST else np.linspace(0, total - 1, SAMPLE).astype(int)

    def gradient(*args: Any) -> tuple[float, np.ndarray]:
        value = form.function(*args)
        found = np.full(total, np.nan)
        for entry in entries:
            which = int(np.searchsorted(np.cumsum(sizes), entry, side="right"))
            moved = list(args)
            place = names.index(problem.wrt[which])
            array = np.array(args[place], dtype=float)
            index = entry - sum(sizes[:which])
            step = STEP * max(1.0, abs(array.flat[index]))
            array.flat[index] += step
            moved[place] = array if array.ndim else float(array)
            found[entry] = (form.function(*moved) - value) / step
        return value, found

    def arrays(result: tuple[float, np.ndarray]) -> tuple[float, list[np.ndarray]]:
        parts = np.split(result[1], np.cumsum(sizes)[:-1])
        return result[0], [part.reshape(p.shape) for part, p in zip(parts, problem.parameters)]

    return Contender(gradient, problem.values, arrays, form.function, (total + 1) / (len(entries) + 1))
