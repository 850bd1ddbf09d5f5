"""adcompile: the form is the function itself."""

from __future__ import annotations

from typing import Any

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE, SECOND = "adcompile", "adcompile", True


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """One decorator."""
    from adcompile import compile_grad
    wrt: Any = problem.wrt if len(problem.wrt) > 1 else problem.wrt[0]
    f = compile_grad(form.function, wrt=wrt)
    if workload.inside:
        return Contender(workload.inside(f), problem.values, lambda result: (result[0], as_tuple(result[1])))
    return Contender(f, problem.values, lambda result: (result[0], as_tuple(result[1])), f.value)
