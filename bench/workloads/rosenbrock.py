"""Rosenbrock's function of n variables: there is next to nothing to compute for small n, so what shows is the cost of a call."""

import itertools

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("Rosenbrock", wrt=("x",), numpy_boundary=True, flops=lambda n: 14 * n,
                    sizes={f"n={n}": {"n": n} for n in (2, 10, 1000)}, tiny={"n": 4})


@workload.inputs
def inputs(rng, n):
    return {"x": 0.5 + 0.5 * rng.normal(size=n)}


@workload.form("adcompile")
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@workload.form("numba")
@hand
def by_hand(x):
    n = x.shape[0]
    g = np.zeros(n)
    value = 0.0
    for i in range(n - 1):
        t = x[i + 1] - x[i] * x[i]
        u = 1.0 - x[i]
        value += 100.0 * t * t + u * u
        g[i] -= 400.0 * x[i] * t + 2.0 * u
        g[i + 1] += 200.0 * t
    return value, g


@workload.form("jax", "torch", "autograd", "pytensor")
@workload.form("torch_compile", sizes=("n=1000", "tiny"))
def with_arrays(np):
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    return rosenbrock


@workload.form("casadi", "casadi_c")
def with_casadi(ca, x, symbols="SX"):
    return ca.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@workload.form("sympy", sizes=("n=2", "n=10", "tiny"))
def with_sympy(sp, x):
    v = sp.symbols(f"x:{len(x)}")
    f = sum(100 * (b - a ** 2) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise(v))
    compiled = sp.lambdify([v], [f, *(f.diff(a) for a in v)], cse=True)

    def gradient(x):
        value, *g = compiled(x)
        return value, np.array(g)
    return gradient
