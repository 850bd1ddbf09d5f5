"""One module for each tool: `LABEL` in the tables, `PACKAGE` to be installed, and `build(form, problem, workload)`.

`THREADS = False` says that the tool computes on one thread, whatever it is told. `SECOND = True`: it keeps machine code on disk,
so the first call of a second process is measured too. `NEEDS = "gcc"`: a program that must be there.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

NAMES = ("adcompile", "numba", "jax", "torch", "torch_compile", "casadi", "casadi_c", "autograd", "pytensor", "sympy", "numpy_fd")
BOUND = "bound"


@dataclass
class Contender:
    """What is timed: `gradient(*args)` and, if the tool can do without the gradient, `value(*args)`.

    `arrays` turns a result of `gradient` into the value and one NumPy array for each argument differentiated; entries that
    were not computed are NaN. `scale`: a call is this part of what is to be timed (finite differences of many parameters).
    """

    gradient: Callable[..., Any]
    args: Sequence[Any]
    arrays: Callable[[Any], tuple[float, Sequence[np.ndarray]]] = lambda result: result
    value: Callable[..., Any] | None = None
    scale: float = 1.0


def tool(name: str) -> ModuleType:
    """The adapter of a tool."""
    return importlib.import_module(f"bench.tools.{name}")


def installed(name: str) -> bool:
    """Whether what the tool needs is there, without importing it."""
    program = getattr(tool(name), "NEEDS", None)
    return importlib.util.find_spec(tool(name).PACKAGE) is not None and (program is None or shutil.which(program) is not None)


def as_tuple(gradient: Any) -> Sequence[Any]:
    """One gradient or several."""
    return gradient if isinstance(gradient, (tuple, list)) else (gradient,)
