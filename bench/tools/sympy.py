"""SymPy's lambdify to NumPy: the form takes `sympy` and the arguments, and returns a function to value and gradients."""

from __future__ import annotations

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE, THREADS = "SymPy, lambdify", "sympy", False


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """The form differentiates and lambdifies by itself."""
    import sympy
    gradient = form.function(sympy, *problem.values)
    return Contender(gradient, problem.values, lambda result: (float(result[0]), as_tuple(result[1])))
