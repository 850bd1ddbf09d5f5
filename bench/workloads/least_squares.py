"""GradBench's llsq: a polynomial fitted to the sign function at n points, its powers made on the fly."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

M = 128

workload = Workload("least squares", wrt=("x",), flops=lambda n: 5 * n * M,
                    sizes={f"n={n}": {"n": n} for n in (1024, 4096)}, tiny={"n": 9, "m": 5})


@workload.inputs
def inputs(rng, n, m=M):
    return {"x": rng.random(m), "n": n}


@workload.form("adcompile")
def least_squares(x, n):
    t = np.linspace(-1.0, 1.0, n)
    powers = t[:, None] ** np.arange(x.shape[0])
    residual = np.sign(t) - powers @ x
    return 0.5 * np.sum(residual ** 2)


@workload.form("adcompile", variant="loops")
def least_squares_with_loops(x, n):
    value = 0.0
    for i in range(n):
        t = -1.0 + 2.0 * i / (n - 1)
        residual = np.sign(t)
        power = 1.0
        for j in range(x.shape[0]):
            residual -= x[j] * power
            power *= t
        value += 0.5 * residual ** 2
    return value


@workload.form("numba")
@hand
def by_hand(x, n):
    m = x.shape[0]
    g, powers = np.zeros(m), np.empty(m)
    value = 0.0
    for i in range(n):
        t = -1.0 + 2.0 * i / (n - 1)
        power = 1.0
        for j in range(m):
            powers[j] = power
            power *= t
        residual = np.sign(t)
        for j in range(m):
            residual -= x[j] * powers[j]
        value += residual * residual
        for j in range(m):
            g[j] -= residual * powers[j]
    return 0.5 * value, g


@workload.form("jax")
def with_jax(np):
    def least_squares(x, n):
        t = np.linspace(-1.0, 1.0, n)
        residual = np.sign(t) - np.vander(t, x.shape[0], increasing=True) @ x
        return 0.5 * residual @ residual
    return least_squares


@workload.form("torch")
def with_torch(torch):
    def least_squares(x, n):
        t = torch.linspace(-1.0, 1.0, n)
        residual = torch.sign(t) - torch.vander(t, x.shape[0], increasing=True) @ x
        return 0.5 * residual @ residual
    return least_squares


@workload.form("autograd")
def with_autograd(np):
    import numpy

    def least_squares(x, n):
        t = numpy.linspace(-1.0, 1.0, n)
        residual = numpy.sign(t) - np.dot(numpy.vander(t, x.shape[0], increasing=True), x)
        return 0.5 * np.dot(residual, residual)
    return least_squares
