"""The negative log likelihood of a Gaussian process with a squared exponential kernel: a Cholesky factor of N x N.

adcompile has no linear algebra beyond products yet; the form with np.linalg is there to show so.
"""

import math

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("Gaussian process", wrt=("theta",), flops=lambda n: n ** 3 + 20 * n * n,
                    sizes={"N=300": {"n": 300}}, tiny={"n": 3})


@workload.inputs
def inputs(rng, n):
    X = rng.uniform(-3.0, 3.0, (n, 2))
    return {"theta": np.array([0.1, -0.1, -1.0]), "X": X, "y": np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)}


@workload.form("adcompile")
def negative_log_likelihood(theta, X, y):
    n = y.shape[0]
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    K = np.exp(2.0 * theta[0] - 0.5 * squared * np.exp(-2.0 * theta[1])) + np.exp(2.0 * theta[2]) * np.eye(n)
    L = np.linalg.cholesky(K)
    a = np.linalg.solve(L, y)
    return 0.5 * np.sum(a ** 2) + np.sum(np.log(np.diag(L))) + 0.5 * n * np.log(2.0 * np.pi)


@workload.form("adcompile", variant="Cholesky in loops")
def negative_log_likelihood_with_loops(theta, X, y):
    n = y.shape[0]
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    L = np.exp(2.0 * theta[0] - 0.5 * squared * np.exp(-2.0 * theta[1])) + np.exp(2.0 * theta[2]) * np.eye(n)
    a = y.copy()
    value = 0.5 * n * np.log(2.0 * np.pi)
    for i in range(n):
        for j in range(i):
            for k in range(j):
                L[i, j] -= L[i, k] * L[j, k]
            L[i, j] /= L[j, j]
            a[i] -= L[i, j] * a[j]
            L[i, i] -= L[i, j] ** 2
        L[i, i] = np.sqrt(L[i, i])
        a[i] /= L[i, i]
        value += 0.5 * a[i] ** 2 + np.log(L[i, i])
    return value


@hand
def kernel(theta, X):
    n, amplitude, inverse = X.shape[0], 2.0 * theta[0], math.exp(-2.0 * theta[1])
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            a, b = X[i, 0] - X[j, 0], X[i, 1] - X[j, 1]
            K[i, j] = K[j, i] = math.exp(amplitude - 0.5 * (a * a + b * b) * inverse)
    return K


@hand
def contracted(theta, X, K, inverse, weights):
    """The trace of (inverse - weights weights') with the three derivatives of the covariance, halved."""
    scale, noise = math.exp(-2.0 * theta[1]), math.exp(2.0 * theta[2])
    g = np.zeros(3)
    for i in range(X.shape[0]):
        for j in range(i):
            a, b = X[i, 0] - X[j, 0], X[i, 1] - X[j, 1]
            t = (inverse[j, i] - weights[i] * weights[j]) * K[i, j]
            g[0] += 2.0 * t
            g[1] += t * (a * a + b * b) * scale
        w = inverse[i, i] - weights[i] * weights[i]
        g[0] += w * K[i, i]
        g[2] += w * noise
    return g


@workload.form("numba")
def by_hand(theta, X, y):
    """LAPACK from SciPy between two numba functions."""
    from scipy.linalg.blas import dsymv
    from scipy.linalg.lapack import dpotrf, dpotri
    n = y.shape[0]
    K = kernel(theta, X)
    covariance = K.copy()
    covariance.flat[::n + 1] += math.exp(2.0 * theta[2])
    L, _ = dpotrf(covariance.T, lower=1, overwrite_a=1)
    log_det = np.log(L.diagonal()).sum()
    inverse, _ = dpotri(L, lower=1, overwrite_c=1)
    weights = dsymv(1.0, inverse, y, lower=1)
    value = 0.5 * y @ weights + log_det + 0.5 * n * math.log(2.0 * math.pi)
    return value, contracted(theta, X, K, inverse.T, weights)


@workload.form("jax")
def with_jax(np):
    import jax

    def negative_log_likelihood(theta, X, y):
        n = y.shape[0]
        squared = np.sum((X[:, None] - X) ** 2, -1)
        K = np.exp(2.0 * theta[0] - 0.5 * squared * np.exp(-2.0 * theta[1])) + np.exp(2.0 * theta[2]) * np.eye(n)
        L = np.linalg.cholesky(K)
        a = jax.scipy.linalg.solve_triangular(L, y, lower=True)
        return 0.5 * a @ a + np.sum(np.log(np.diag(L))) + 0.5 * n * math.log(2.0 * math.pi)
    return negative_log_likelihood


@workload.form("torch")
def with_torch(torch):
    def negative_log_likelihood(theta, X, y):
        n = y.shape[0]
        squared = torch.sum((X[:, None] - X) ** 2, -1)
        K = torch.exp(2.0 * theta[0] - 0.5 * squared * torch.exp(-2.0 * theta[1])) + torch.exp(2.0 * theta[2]) * torch.eye(n)
        L = torch.linalg.cholesky(K)
        a = torch.linalg.solve_triangular(L, y[:, None], upper=False)[:, 0]
        return 0.5 * a @ a + torch.sum(torch.log(torch.diagonal(L))) + 0.5 * n * math.log(2.0 * math.pi)
    return negative_log_likelihood


@workload.form("autograd")
def with_autograd(np):
    def negative_log_likelihood(theta, X, y):
        n = y.shape[0]
        squared = np.sum((X[:, None] - X) ** 2, -1)
        K = np.exp(2.0 * theta[0] - 0.5 * squared * np.exp(-2.0 * theta[1])) + np.exp(2.0 * theta[2]) * np.eye(n)
        L = np.linalg.cholesky(K)
        a = np.linalg.solve(L, y)
        return 0.5 * np.dot(a, a) + np.sum(np.log(np.diag(L))) + 0.5 * n * math.log(2.0 * math.pi)
    return negative_log_likelihood


@workload.form("pytensor")
def with_pytensor(pt):
    def negative_log_likelihood(theta, X, y):
        n = y.type.shape[0]
        squared = pt.sum((X[:, None] - X[None]) ** 2, -1)
        K = pt.exp(2.0 * theta[0] - 0.5 * squared * pt.exp(-2.0 * theta[1])) + pt.exp(2.0 * theta[2]) * pt.eye(n)
        L = pt.linalg.cholesky(K)
        a = pt.linalg.solve_triangular(L, y, lower=True)
        return 0.5 * pt.dot(a, a) + pt.sum(pt.log(pt.diag(L))) + 0.5 * n * math.log(2.0 * math.pi)
    return negative_log_likelihood
