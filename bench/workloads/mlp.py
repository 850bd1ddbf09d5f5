"""A network of 64-128-64-1 with tanh on a batch of 1024, mean squared error: matrix products, elementwise between them."""

import math

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("MLP", wrt=("W1", "b1", "W2", "b2", "W3", "b3"),
                    flops=lambda batch, a, b, c: batch * (4 * a * b + 6 * b * c + 6 * c + 20 * (b + c)),
                    sizes={"batch 1024": {"batch": 1024, "a": 64, "b": 128, "c": 64}}, tiny={"batch": 4, "a": 3, "b": 5, "c": 2})


@workload.inputs
def inputs(rng, batch, a, b, c):
    return {"W1": rng.normal(size=(a, b)) / math.sqrt(a), "b1": 0.1 * rng.normal(size=b),
            "W2": rng.normal(size=(b, c)) / math.sqrt(b), "b2": 0.1 * rng.normal(size=c),
            "W3": rng.normal(size=(c, 1)) / math.sqrt(c), "b3": 0.1 * rng.normal(size=1),
            "X": rng.normal(size=(batch, a)), "y": rng.normal(size=(batch, 1))}


@workload.form("adcompile")
def loss(W1, b1, W2, b2, W3, b3, X, y):
    h = np.tanh(X @ W1 + b1)
    h = np.tanh(h @ W2 + b2)
    return np.mean((h @ W3 + b3 - y) ** 2)


@workload.form("numba")
@hand
def by_hand(W1, b1, W2, b2, W3, b3, X, y):
    n = X.shape[0]
    h1 = np.dot(X, W1)
    for i in range(n):
        for j in range(h1.shape[1]):
            h1[i, j] = math.tanh(h1[i, j] + b1[j])
    h2 = np.dot(h1, W2)
    for i in range(n):
        for j in range(h2.shape[1]):
            h2[i, j] = math.tanh(h2[i, j] + b2[j])
    error = np.dot(h2, W3) + b3 - y
    value = 0.0
    for i in range(n):
        value += error[i, 0] * error[i, 0]
        error[i, 0] *= 2.0 / n
    d2, d_b2 = np.empty_like(h2), np.zeros_like(b2)
    for i in range(n):
        for j in range(h2.shape[1]):
            d2[i, j] = error[i, 0] * W3[j, 0] * (1.0 - h2[i, j] * h2[i, j])
            d_b2[j] += d2[i, j]
    d1, d_b1 = np.dot(d2, W2.T), np.zeros_like(b1)
    for i in range(n):
        for j in range(h1.shape[1]):
            d1[i, j] *= 1.0 - h1[i, j] * h1[i, j]
            d_b1[j] += d1[i, j]
    return value / n, (np.dot(X.T, d1), d_b1, np.dot(h1.T, d2), d_b2, np.dot(h2.T, error), error.sum(axis=0))


@workload.form("jax", "autograd", "pytensor")
def with_arrays(np):
    def loss(W1, b1, W2, b2, W3, b3, X, y):
        h = np.tanh(np.dot(X, W1) + b1)
        h = np.tanh(np.dot(h, W2) + b2)
        return np.mean((np.dot(h, W3) + b3 - y) ** 2)
    return loss


@workload.form("torch", "torch_compile")
def with_torch(torch):
    def loss(W1, b1, W2, b2, W3, b3, X, y):
        h = torch.tanh(torch.addmm(b1, X, W1))
        h = torch.tanh(torch.addmm(b2, h, W2))
        return torch.mean((torch.addmm(b3, h, W3) - y) ** 2)
    return loss
