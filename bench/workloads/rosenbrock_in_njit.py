"""Rosenbrock's function inside of numba code: a thousand steps of steepest descent that call the gradient."""

import numba as nb

from ..workload import Workload
from . import rosenbrock

workload = Workload("Rosenbrock, 1000 steps inside njit,", wrt=("x",), flops=lambda n: 16_000 * n,
                    sizes={"n=2": {"n": 2}, "n=10": {"n": 10}}, tiny={"n": 4})


@workload.user_code
def descent(gradient):
    @nb.njit
    def descend(x):
        value, g = gradient(x)
        for _ in range(999):
            x = x - 1e-4 * g
            value, g = gradient(x)
        return value, g
    return descend


workload.inputs(rosenbrock.inputs)
workload.form("adcompile")(rosenbrock.rosenbrock)
workload.form("numba")(rosenbrock.by_hand)
