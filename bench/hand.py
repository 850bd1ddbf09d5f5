"""Gradients as a numba user writes them by hand: the marks to measure against. One thread, plain loops, libm."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

compiled = nb.njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", nogil=True)


@compiled
def rosenbrock(x):
    """Value and gradient of Rosenbrock's function of n variables."""
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


@compiled
def sum_of_squares(x):
    """Value and gradient of sum(x**2)."""
    g = np.empty(x.shape[0])
    value = 0.0
    for i in range(x.shape[0]):
        value += x[i] * x[i]
        g[i] = 2.0 * x[i]
    return value, g


@compiled
def logistic(w, X, y):
    """Value and gradient of sum(log1p(exp(-y * (X @ w)))), one pass over X."""
    n, d = X.shape
    g = np.zeros(d)
    value = 0.0
    for i in range(n):
        z = 0.0
        for j in range(d):
            z += X[i, j] * w[j]
        e = math.exp(-y[i] * z)
        value += math.log1p(e)
        slope = -y[i] * e / (1.0 + e)
        for j in range(d):
            g[j] += X[i, j] * slope
    return value, g


@compiled
def mixture(alpha, mu, q, low, x, gamma, m):
    """Value and gradients of ADBench's Gaussian mixture (its sign of the prior), one pass over the points."""
    K, D = mu.shape
    N = x.shape[0]
    Q = np.zeros((K, D, D))
    total_q = np.zeros(K)
    value = 0.0
    for k in range(K):
        c = 0
        for i in range(D):
            total_q[k] += q[k, i]
            Q[k, i, i] = math.exp(q[k, i])
            value += 0.5 * gamma * gamma * Q[k, i, i] ** 2
            for j in range(i + 1, D):
                Q[k, j, i] = low[k, c]
                value += 0.5 * gamma * gamma * low[k, c] ** 2
                c += 1
        value -= m * total_q[k]
    n = D + m + 1
    constant = n * D * (math.log(gamma) - 0.5 * math.log(2.0)) - 0.25 * D * (D - 1) * math.log(math.pi)
    for j in range(D):
        constant -= math.lgamma(0.5 * (n - j))
    value -= K * constant + 0.5 * N * D * math.log(2.0 * math.pi)

    y, r = np.empty((K, D)), np.empty(K)
    weight, d_mu, d_Q = np.zeros(K), np.zeros((K, D)), np.zeros((K, D, D))
    for i in range(N):
        largest = -np.inf
        for k in range(K):
            square = 0.0
            for a in range(D):
                s = 0.0
                for b in range(a + 1):
                    s += Q[k, a, b] * (x[i, b] - mu[k, b])
                y[k, a] = s
                square += s * s
            r[k] = alpha[k] + total_q[k] - 0.5 * square
            largest = max(largest, r[k])
        total = 0.0
        for k in range(K):
            r[k] = math.exp(r[k] - largest)
            total += r[k]
        value += largest + math.log(total)
        for k in range(K):
            share = r[k] / total
            weight[k] += share
            for a in range(D):
                s = share * y[k, a]
                for b in range(a + 1):
                    d_mu[k, b] += s * Q[k, a, b]
                    d_Q[k, a, b] -= s * (x[i, b] - mu[k, b])

    largest = np.max(alpha)
    total = np.sum(np.exp(alpha - largest))
    value -= N * (largest + math.log(total))
    d_alpha, d_q, d_low = np.empty(K), np.empty((K, D)), np.empty(low.shape)
    for k in range(K):
        d_alpha[k] = weight[k] - N * math.exp(alpha[k] - largest) / total
        c = 0
        for i in range(D):
            e = Q[k, i, i]
            d_q[k, i] = weight[k] + d_Q[k, i, i] * e + gamma * gamma * e * e - m
            for j in range(i + 1, D):
                d_low[k, c] = d_Q[k, j, i] + gamma * gamma * low[k, c]
                c += 1
    return value, (d_alpha, d_mu, d_q, d_low)
