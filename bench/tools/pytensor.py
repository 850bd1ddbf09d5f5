"""PyTensor with its numba back end: the form takes `pytensor.tensor` and returns the function of its variables; integers are
given as they are."""

from __future__ import annotations

import numpy as np

from ..workload import Form, Problem, Workload
from . import Contender

LABEL, PACKAGE, THREADS = "PyTensor", "pytensor", False


def build(form: Form, problem: Problem, workload: Workload) -> Contender:
    """One compiled function of value and gradient, called with trusted inputs."""
    import pytensor
    import pytensor.tensor as pt
    args = {name: a if isinstance(a, int) else np.asarray(a) for name, a in problem.args.items()}
    symbols = {name: a if isinstance(a, int) else pt.tensor(name, dtype=str(a.dtype), shape=a.shape) for name, a in args.items()}
    value = form.function(pt)(*symbols.values())
    gradients = pytensor.grad(value, [symbols[name] for name in problem.wrt])
    variables = [symbols[name] for name, a in args.items() if not isinstance(a, int)]
    compiled = pytensor.function(variables, [value, *gradients], mode="NUMBA", on_unused_input="ignore")
    compiled.trust_input = True
    arrays = [a for a in args.values() if not isinstance(a, int)]
    return Contender(compiled, arrays, lambda result: (float(result[0]), result[1:]))
