"""CasADi, its own virtual machine: the form takes `casadi` and the symbols of the arguments (matrices; a vector is a column), and
returns the value's expression, or the value's and the gradients' expressions. A form that wants scalar expressions (SX) says
`symbols = "SX"` as a default argument; without, they are MX.

Called through its buffers, as its documentation advises where microseconds count; NumPy arrays are copied in and out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE = "CasADi", "casadi"


def build(form: Form, problem: Problem, workload: Workload, transform: Callable[[Any], Any] = lambda f: f) -> Contender:
    """Two functions with memory of their own."""
    import casadi as ca
    symbolic = getattr(ca, kind_of(form))
    symbols = [symbolic.sym(name, *np.shape(a)) for name, a in problem.args.items()]
    made = form.function(ca, *symbols)
    value, gradients = made if isinstance(made, tuple) else (made, None)
    if gradients is None:
        gradients = [ca.gradient(value, symbols[place]) for place in problem.positions]
    gradients = [ca.densify(g) for g in as_tuple(gradients)]
    name = workload.name.replace(" ", "_")
    compiled, results = buffered(transform(ca.Function(name, symbols, [value, *gradients])), problem, workload)
    plain, _ = buffered(transform(ca.Function(f"{name}_value", symbols, [value])), problem, workload)
    shapes = [p.shape for p in problem.parameters]

    def arrays(_: Any) -> tuple[float, list[np.ndarray]]:
        return float(results[0][0]), [r.reshape(shape, order="F").copy() for r, shape in zip(results[1:], shapes)]

    if workload.numpy_boundary:
        return Contender(lambda *args: arrays(compiled(*args)), problem.values, value=lambda *args: float(plain(*args)[0][0]))
    return Contender(compiled, (), arrays, plain)


def kind_of(form: Form) -> str:
    """SX or MX."""
    declared = inspect.signature(form.function).parameters.get("symbols")
    return declared.default if declared else "MX"


def buffered(function: Any, problem: Problem, workload: Workload) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A call that evaluates in place, and the arrays that the results are in (column-major)."""
    buffer, evaluate = function.buffer()
    given = [np.array(a, dtype=float).ravel(order="F") for a in problem.values]
    results = [np.zeros(function.nnz_out(i)) for i in range(function.n_out())]
    for i, array in enumerate(given):
        buffer.set_arg(i, memoryview(array))
    for i, array in enumerate(results):
        buffer.set_res(i, memoryview(array))

    def call(*args: Any, keep: Any = (function, buffer)) -> Any:
        for place, a in zip(given, args):
            place[:] = np.ravel(a, order="F") if np.ndim(a) > 1 else a
        evaluate()
        return results

    return call, results
