"""CasADi, its own virtual machine: the form takes `casadi` and the symbols of the arguments (matrices; a vector is a column), and
returns the value's expression, or the value's and the gradients' expressions. A form that wants scalar expressions (SX) says
`symbols = "SX"` as a default argument; without, they are MX. Integers are given as they are; so is all that is not differentiated
to a form with `constants = True`.

Called through its buffers, as its documentation advises where microseconds count; NumPy arrays are copied in and out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE, THREADS = "CasADi", "casadi", False


def build(form: Form, problem: Problem, workload: Workload, transform: Callable[[Any], Any] = lambda f: f) -> Contender:
    """Two functions with memory of their own."""
    import casadi as ca
    options = {name: p.default for name, p in inspect.signature(form.function).parameters.items() if p.default is not p.empty}
    symbolic = getattr(ca, options.get("symbols", "MX"))
    args = {name: a if is_constant(name, a, problem, options) else symbolic.sym(name, *np.shape(a))
            for name, a in problem.args.items()}
    symbols = {name: s for name, s in args.items() if isinstance(s, symbolic)}
    made = form.function(ca, *args.values())
    value, gradients = made if isinstance(made, tuple) else (made, None)
    if gradients is None:
        gradients = [ca.gradient(value, symbols[name]) for name in problem.wrt]
    outputs = [value, *(ca.densify(g) for g in as_tuple(gradients))]
    given = [problem.args[name] for name in symbols]
    compiled, results = buffered(transform(ca.Function(workload.name, [*symbols.values()], outputs)), given)
    plain, _ = buffered(transform(ca.Function(f"{workload.name}_value", [*symbols.values()], [value])), given)
    shapes = [p.shape for p in problem.parameters]

    def arrays(_: Any) -> tuple[float, list[np.ndarray]]:
        return float(results[0][0]), [r.reshape(shape, order="F").copy() for r, shape in zip(results[1:], shapes)]

    if workload.numpy_boundary:
        return Contender(lambda *args: arrays(compiled(*args)), given, value=lambda *args: float(plain(*args)[0][0]))
    return Contender(compiled, (), arrays, plain)


def is_constant(name: str, a: Any, problem: Problem, options: dict[str, Any]) -> bool:
    """Whether an argument is no symbol."""
    return np.asarray(a).dtype.kind == "i" or ("constants" in options and name not in problem.wrt)


def buffered(function: Any, args: list[Any]) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A call that evaluates in place, and the arrays that the results are in (column-major)."""
    buffer, evaluate = function.buffer()
    given = [np.array(a, dtype=float).ravel(order="F") for a in args]
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
