"""The determinant of a small matrix, as GradBench's det asks for it; the gradient holds the cofactors."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("determinant", wrt=("A",), flops=lambda n: 2 * n ** 3, numpy_boundary=True,
                    sizes={"n=5": {"n": 5}, "n=7": {"n": 7}}, tiny={"n": 3})


@workload.inputs
def inputs(rng, n):
    return {"A": rng.random((n, n))}


@workload.form("adcompile", variant="np.linalg.det")
def determinant(A):
    return np.linalg.det(A)


@workload.form("adcompile", variant="elimination in loops")
def determinant_by_elimination(A):
    U = A.copy()
    n = U.shape[0]
    value = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(U[i, k]) > abs(U[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                U[k, j], U[pivot, j] = U[pivot, j], U[k, j]
            value = -value
        value *= U[k, k]
        for i in range(k + 1, n):
            factor = U[i, k] / U[k, k]
            for j in range(k, n):
                U[i, j] -= factor * U[k, j]
    return value


@workload.form("numba")
@hand
def by_hand(A):
    value = np.linalg.det(A)
    return value, value * np.linalg.inv(A).T


@workload.form("jax", "autograd", "torch", "pytensor")
def with_arrays(np):
    return np.linalg.det


@workload.form("casadi", "casadi_c")
def with_casadi(ca, A, symbols="SX"):
    return ca.det(A)
