"""autograd: the form takes `autograd.numpy` and returns the function."""

from __future__ import annotations

from ..workload import Form, Problem, Workload
from . import Contender, as_tuple

LABEL, PACKAGE, THREADS = "autograd", "autograd", False


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """`value_and_grad`, which runs the function on tracers at every call."""
    import autograd.numpy
    from autograd import value_and_grad
    f = form.function(autograd.numpy)
    positions = problem.positions
    return Contender(value_and_grad(f, positions[0] if len(positions) == 1 else positions), problem.values,
                     lambda result: (float(result[0]), as_tuple(result[1])), f)
