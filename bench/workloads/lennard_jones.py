"""The Lennard-Jones energy of N atoms and the forces on them: all pairs."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("Lennard-Jones", wrt=("x",), flops=lambda n: 30 * n * (n - 1) / 2,
                    sizes={"N=32": {"n": 32}, "N=256": {"n": 256}}, tiny={"n": 5})


@workload.inputs
def inputs(rng, n):
    side = int(np.ceil(n ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return {"x": 1.2 * lattice + 0.08 * rng.normal(size=(n, 3))}


@workload.form("adcompile", variant="broadcasting")
def energy(x):
    n = x.shape[0]
    difference = x[:, None, :] - x
    squared = np.sum(difference ** 2, axis=2) + np.eye(n)
    inverse = 1.0 / squared ** 3
    return 2.0 * np.sum((inverse ** 2 - inverse) * (1.0 - np.eye(n)))


@workload.form("adcompile", variant="pairs")
def energy_of_pairs(x):
    n = x.shape[0]
    value = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            inverse = 1.0 / ((x[i, 0] - x[j, 0]) ** 2 + (x[i, 1] - x[j, 1]) ** 2 + (x[i, 2] - x[j, 2]) ** 2) ** 3
            value += 4.0 * (inverse ** 2 - inverse)
    return value


@workload.form("numba")
@hand
def by_hand(x):
    n = x.shape[0]
    p, g = np.ascontiguousarray(x.T), np.zeros((3, n))
    value = 0.0
    for i in range(n):
        g0 = g1 = g2 = 0.0
        for j in range(i + 1, n):
            a, b, c = p[0, i] - p[0, j], p[1, i] - p[1, j], p[2, i] - p[2, j]
            inverse = 1.0 / (a * a + b * b + c * c)
            cube = inverse * inverse * inverse
            value += 4.0 * (cube * cube - cube)
            force = (24.0 * cube - 48.0 * cube * cube) * inverse
            g0, g1, g2 = g0 + force * a, g1 + force * b, g2 + force * c
            g[0, j] -= force * a
            g[1, j] -= force * b
            g[2, j] -= force * c
        g[0, i] += g0
        g[1, i] += g1
        g[2, i] += g2
    return value, g.T.copy()


@workload.form("jax", "autograd")
def with_broadcasting(np):
    def energy(x):
        identity = np.eye(x.shape[0])
        inverse = 1.0 / (np.sum((x[:, None] - x[None]) ** 2, -1) + identity) ** 3
        return 2.0 * np.sum((inverse ** 2 - inverse) * (1.0 - identity))
    return energy


@workload.form("torch")
@workload.form("torch_compile", sizes=("N=256", "tiny"))
def with_torch(torch):
    def energy(x):
        i, j = torch.triu_indices(x.shape[0], x.shape[0], 1)
        inverse = 1.0 / torch.sum((x[i] - x[j]) ** 2, -1)
        cube = inverse * inverse * inverse
        return 4.0 * torch.sum(cube * cube - cube)
    return energy


@workload.form("pytensor")
def with_pytensor(pt):
    import numpy

    def energy(x):
        i, j = numpy.triu_indices(x.type.shape[0], 1)
        inverse = 1.0 / pt.sum((x[i] - x[j]) ** 2, -1) ** 3
        return 4.0 * pt.sum(inverse ** 2 - inverse)
    return energy


@workload.form("casadi", "casadi_c", sizes=("N=32", "tiny"))
def with_casadi(ca, x, symbols="SX"):
    value = 0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            inverse = 1 / ca.sumsqr(x[i, :] - x[j, :]) ** 3
            value += 4 * (inverse ** 2 - inverse)
    return value
