"""Logistic regression with an intercept and a ridge: from a thousand rows in the cache to 80 MB that stream from memory."""

import math

import numba as nb
import numpy as np

from ..tools.numba import hand, hand_parallel
from ..workload import Workload

SIZES = {f"{n}x{d}": {"n": n, "d": d} for n, d in ((1000, 10), (10_000, 50), (200_000, 50))}
SMALL = ("1000x10", "10000x50", "tiny")

workload = Workload("logistic regression", wrt=("w", "b"), flops=lambda n, d: n * (4 * d + 30),
                    sizes=SIZES, tiny={"n": 7, "d": 3})


@workload.inputs
def inputs(rng, n, d):
    X, true = rng.normal(size=(n, d)), rng.normal(size=d)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ true))).astype(float)
    return {"w": 0.3 * rng.normal(size=d), "b": 0.1, "X": X, "y": y, "ridge": 1e-3}


@workload.form("adcompile")
def loss(w, b, X, y, ridge):
    z = X @ w + b
    return np.mean(np.logaddexp(0.0, z) - y * z) + 0.5 * ridge * np.sum(w ** 2)


@workload.form("adcompile", variant="loops")
def loss_with_loops(w, b, X, y, ridge):
    n, d = X.shape
    total = 0.0
    for i in range(n):
        z = b
        for j in range(d):
            z += X[i, j] * w[j]
        total += max(z, 0.0) + math.log1p(math.exp(-abs(z))) - y[i] * z
    square = 0.0
    for j in range(d):
        square += w[j] * w[j]
    return total / n + 0.5 * ridge * square


@hand
def rows(w, b, X, y, first, last, g):
    """Adds the gradient of some rows to g, and returns their value and their part of the intercept's derivative."""
    d = w.shape[0]
    value = d_b = 0.0
    for i in range(first, last):
        z = b
        for j in range(d):
            z += X[i, j] * w[j]
        e = math.exp(-abs(z))
        value += max(z, 0.0) + math.log1p(e) - y[i] * z
        r = (1.0 if z >= 0 else e) / (1.0 + e) - y[i]
        d_b += r
        for j in range(d):
            g[j] += r * X[i, j]
    return value, d_b


@workload.form("numba")
@hand
def by_hand(w, b, X, y, ridge):
    n, d = X.shape
    g = np.zeros(d)
    value, d_b = rows(w, b, X, y, 0, n, g)
    square = 0.0
    for j in range(d):
        square += w[j] * w[j]
        g[j] = g[j] / n + ridge * w[j]
    return value / n + 0.5 * ridge * square, (g, d_b / n)


@workload.form("numba", parallel=True, sizes=("10000x50", "200000x50"))
@hand_parallel
def by_hand_parallel(w, b, X, y, ridge):
    n, d = X.shape
    parts = nb.get_num_threads()
    gs, values, d_bs = np.zeros((parts, d + 8)), np.zeros(8 * parts), np.zeros(8 * parts)    # a cache line apart
    for part in nb.prange(parts):
        values[8 * part], d_bs[8 * part] = rows(w, b, X, y, n * part // parts, n * (part + 1) // parts, gs[part])
    g = np.empty(d)
    for j in range(d):
        g[j] = gs[:, j].sum() / n + ridge * w[j]
    return values.sum() / n + 0.5 * ridge * (w ** 2).sum(), (g, d_bs.sum() / n)


@workload.form("jax", "autograd", "pytensor")
def with_arrays(np):
    def loss(w, b, X, y, ridge):
        z = np.dot(X, w) + b
        softplus = np.logaddexp(0.0, z) if hasattr(np, "logaddexp") else np.softplus(z)
        return np.mean(softplus - y * z) + 0.5 * ridge * np.sum(w ** 2)
    return loss


@workload.form("torch", "torch_compile")
def with_torch(torch):
    def loss(w, b, X, y, ridge):
        z = X @ w + b
        return torch.mean(torch.nn.functional.softplus(z, threshold=1e9) - y * z) + 0.5 * ridge * torch.sum(w ** 2)
    return loss


@workload.form("casadi", "casadi_c", sizes=SMALL)
def with_casadi(ca, w, b, X, y, ridge):
    z = ca.mtimes(X, w) + b
    return ca.sum1(ca.fmax(z, 0) + ca.log1p(ca.exp(-ca.fabs(z))) - y * z) / y.numel() + 0.5 * ridge * ca.sumsqr(w)
