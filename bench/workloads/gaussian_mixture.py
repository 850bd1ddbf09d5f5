"""ADBench's Gaussian mixture with GradBench's sign of the prior and its random inputs.

K components in D dimensions, each with a lower triangular Q of its inverse covariance Q'Q: diagonal exp(q), strict part filled
from `low`, column by column.
"""

import math

import numpy as np
from scipy.special import logsumexp

from ..tools.numba import hand
from ..workload import Workload


def sized(d, K, n=1000):
    return {"d": d, "K": K, "n": n}


SIZES = {"d=2 K=5": sized(2, 5), "d=2 K=200": sized(2, 200), "d=10 K=25": sized(10, 25), "d=20 K=50": sized(20, 50),
         "d=32 K=25": sized(32, 25), "d=64 K=5": sized(64, 5), "d=64 K=100": sized(64, 100),
         "d=10 K=25 n=10000": sized(10, 25, 10_000)}
LARGE = ("d=10 K=25", "d=64 K=100", "d=10 K=25 n=10000", "tiny")        # for tools that compile each size for long
SMALL = ("d=2 K=5", "d=2 K=200", "d=10 K=25", "tiny")

workload = Workload("GMM", wrt=("alpha", "mu", "q", "low"), flops=lambda d, K, n: n * K * (4 * d * d + 20),
                    sizes=SIZES, tiny={"d": 3, "K": 2, "n": 5})


@workload.inputs
def inputs(rng, d, K, n):
    gamma, m = 1.0, 0.0
    dofs = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dofs - j)) for j in range(d))
    constant = K * (dofs * d * (math.log(gamma) - 0.5 * math.log(2.0)) - log_gamma) - 0.5 * n * d * math.log(2.0 * math.pi)
    return {"alpha": rng.normal(size=K), "mu": rng.random((K, d)), "q": rng.normal(size=(K, d)),
            "low": rng.normal(size=(K, d * (d - 1) // 2)), "x": rng.normal(size=(n, d)), "gamma": gamma, "m": m,
            "constant": constant}


@workload.form("adcompile")
def log_posterior(alpha, mu, q, low, x, gamma, m, constant):
    n, d = x.shape
    row, column = np.arange(d)[:, None], np.arange(d)
    place = column * d - column * (column + 1) // 2 + row - column - 1
    below = row > column
    Q = np.where(below, low[:, np.where(below, place, 0)], 0.0) + np.exp(q)[:, :, None] * np.eye(d)
    y = np.einsum("kij,nkj->nki", Q, x[:, None, :] - mu)
    beta = alpha + np.sum(q, axis=1) - 0.5 * np.sum(y ** 2, axis=2)
    prior = 0.5 * gamma ** 2 * (np.sum(np.exp(2.0 * q)) + np.sum(low ** 2)) - m * np.sum(q)
    return constant + np.sum(logsumexp(beta, axis=1)) - n * logsumexp(alpha) - prior


@workload.form("adcompile", variant="loops")
def log_posterior_with_loops(alpha, mu, q, low, x, gamma, m, constant):
    (n, d), K = x.shape, alpha.shape[0]
    value = constant - n * np.log(np.sum(np.exp(alpha)))
    beta = np.empty(K)
    for i in range(n):
        for k in range(K):
            square = 0.0
            for a in range(d):
                y = np.exp(q[k, a]) * (x[i, a] - mu[k, a])
                for b in range(a):
                    y += low[k, b * d - b * (b + 1) // 2 + a - b - 1] * (x[i, b] - mu[k, b])
                square += y * y
            beta[k] = alpha[k] + np.sum(q[k]) - 0.5 * square
        largest = np.max(beta)
        value += largest + np.log(np.sum(np.exp(beta - largest)))
    return value - 0.5 * gamma ** 2 * (np.sum(np.exp(2.0 * q)) + np.sum(low ** 2)) + m * np.sum(q)


@workload.form("numba")
@hand
def by_hand(alpha, mu, q, low, x, gamma, m, constant):
    """For each component one BLAS product forward and one back; the softmax over components between them."""
    (K, d), n = mu.shape, x.shape[0]
    centred, y, beta, Q = np.empty((n, d)), np.empty((K, n, d)), np.empty((n, K)), np.zeros((d, d))      # Q transposed
    for k in range(K):
        c = 0
        for i in range(d):
            Q[i, i] = math.exp(q[k, i])
            for j in range(i + 1, d):
                Q[i, j] = low[k, c]
                c += 1
        for i in range(n):
            for j in range(d):
                centred[i, j] = x[i, j] - mu[k, j]
        np.dot(centred, Q, y[k])
        total = q[k].sum()
        for i in range(n):
            square = 0.0
            for j in range(d):
                square += y[k, i, j] * y[k, i, j]
            beta[i, k] = alpha[k] + total - 0.5 * square
    shares, value = np.zeros(K), constant
    for i in range(n):
        largest = beta[i].max()
        total = 0.0
        for k in range(K):
            beta[i, k] = math.exp(beta[i, k] - largest)
            total += beta[i, k]
        value += largest + math.log(total)
        for k in range(K):
            beta[i, k] /= total
            shares[k] += beta[i, k]
    largest = alpha.max()
    normal = np.exp(alpha - largest)
    value -= n * (largest + math.log(normal.sum()))
    d_alpha, d_mu, d_q, d_low = shares - n * normal / normal.sum(), np.empty((K, d)), np.empty((K, d)), np.empty(low.shape)
    d_Q, sums = np.empty((d, d)), np.empty(d)
    for k in range(K):
        sums[:] = 0.0
        for i in range(n):
            for j in range(d):
                y[k, i, j] *= beta[i, k]
                sums[j] += y[k, i, j]
                centred[i, j] = x[i, j] - mu[k, j]
        np.dot(centred.T, y[k], d_Q)
        c = 0
        for i in range(d):
            e = math.exp(q[k, i])
            value += m * q[k, i] - 0.5 * gamma * gamma * e * e
            d_q[k, i] = shares[k] - d_Q[i, i] * e - gamma * gamma * e * e + m
            d_mu[k, i] = e * sums[i]
            for j in range(i + 1, d):
                value -= 0.5 * gamma * gamma * low[k, c] * low[k, c]
                d_mu[k, i] += low[k, c] * sums[j]
                d_low[k, c] = -d_Q[i, j] - gamma * gamma * low[k, c]
                c += 1
    return value, (d_alpha, d_mu, d_q, d_low)


@workload.form("jax")
def with_jax(np):
    """All y by one matrix product: Q x - Q mu."""
    import jax
    logsumexp = jax.scipy.special.logsumexp

    def log_posterior(alpha, mu, q, low, x, gamma, m, constant):
        (n, d), K = x.shape, alpha.shape[0]
        column, row = np.triu_indices(d, 1)
        Q = np.zeros((K, d, d)).at[:, row, column].set(low) + np.exp(q)[:, :, None] * np.eye(d)
        y = (x @ Q.reshape(K * d, d).T).reshape(n, K, d) - np.einsum("kij,kj->ki", Q, mu)
        beta = alpha + np.sum(q, 1) - 0.5 * np.sum(y * y, -1)
        prior = 0.5 * gamma ** 2 * (np.sum(np.exp(2.0 * q)) + np.sum(low * low)) - m * np.sum(q)
        return constant + np.sum(logsumexp(beta, axis=1)) - n * logsumexp(alpha) - prior
    return log_posterior


@workload.form("torch")
@workload.form("torch_compile", sizes=LARGE)
def with_torch(torch):
    """One matrix product for each component."""
    def log_posterior(alpha, mu, q, low, x, gamma, m, constant):
        (n, d), K = x.shape, alpha.shape[0]
        column, row = torch.triu_indices(d, d, 1)
        Q = torch.zeros(K, d * d).index_copy(1, row * d + column, low).reshape(K, d, d) + torch.diag_embed(torch.exp(q))
        y = torch.matmul(x[None] - mu[:, None], Q.transpose(1, 2))
        beta = (alpha + torch.sum(q, 1))[:, None] - 0.5 * torch.sum(y * y, -1)
        prior = 0.5 * gamma ** 2 * (torch.sum(torch.exp(2.0 * q)) + torch.sum(low * low)) - m * torch.sum(q)
        return constant + torch.sum(torch.logsumexp(beta, 0)) - n * torch.logsumexp(alpha, 0) - prior
    return log_posterior


@workload.form("autograd", sizes=(*tuple(SIZES)[:6], "tiny"))
def with_autograd(np):
    import numpy
    from autograd.scipy.special import logsumexp

    def log_posterior(alpha, mu, q, low, x, gamma, m, constant):
        (n, d), K = x.shape, alpha.shape[0]
        column, row = numpy.triu_indices(d, 1)
        spread = numpy.zeros((low.shape[1], d * d))
        spread[numpy.arange(low.shape[1]), row * d + column] = 1.0
        Q = np.dot(low, spread).reshape((K, d, d)) + np.exp(q)[:, :, None] * numpy.eye(d)
        y = np.matmul(x[None] - mu[:, None], np.swapaxes(Q, 1, 2))
        beta = (alpha + np.sum(q, 1))[:, None] - 0.5 * np.sum(y * y, -1)
        prior = 0.5 * gamma ** 2 * (np.sum(np.exp(2.0 * q)) + np.sum(low * low)) - m * np.sum(q)
        return constant + np.sum(logsumexp(beta, axis=0)) - n * logsumexp(alpha) - prior
    return log_posterior


@workload.form("pytensor", sizes=LARGE)
def with_pytensor(pt):
    import numpy

    def log_posterior(alpha, mu, q, low, x, gamma, m, constant):
        (n, d), K = x.type.shape, alpha.type.shape[0]
        column, row = numpy.triu_indices(d, 1)
        Q = pt.zeros((K, d, d))[:, row, column].set(low) + pt.exp(q)[:, :, None] * numpy.eye(d)
        y = pt.matmul(x[None] - mu[:, None], Q.transpose(0, 2, 1))
        beta = (alpha + pt.sum(q, 1))[:, None] - 0.5 * pt.sum(y * y, -1)
        prior = 0.5 * gamma ** 2 * (pt.sum(pt.exp(2.0 * q)) + pt.sum(low * low)) - m * pt.sum(q)
        return constant + pt.sum(pt.logsumexp(beta, axis=0)) - n * pt.logsumexp(alpha) - prior
    return log_posterior


@workload.form("casadi", "casadi_c", sizes=SMALL)
def with_casadi(ca, alpha, mu, q, low, x, gamma, m, constant):
    """The log-sum-exp of one point in scalar operations, mapped over the points."""
    K, d = mu.shape
    one = [ca.SX.sym(name, *s.shape) for name, s in (("a", alpha), ("mu", mu), ("q", q), ("low", low))]
    point = ca.SX.sym("point", d)
    a, centre, diagonal, below = one
    beta = []
    for k in range(K):
        centred = point - centre[k, :].T
        y = [ca.exp(diagonal[k, i]) * centred[i] for i in range(d)]
        c = 0
        for i in range(d):
            for j in range(i + 1, d):
                y[j] += below[k, c] * centred[i]
                c += 1
        beta.append(a[k] + ca.sum2(diagonal[k, :]) - 0.5 * sum(v * v for v in y))
    beta = ca.vertcat(*beta)
    largest = ca.mmax(beta)
    value = largest + ca.log(ca.sum1(ca.exp(beta - largest)))
    n = x.shape[0]
    each = ca.Function("point", [*one, point], [value, *(ca.densify(ca.gradient(value, s)) for s in one)])
    total, *gradients = each.map("points", "serial", n, [0, 1, 2, 3], [0, 1, 2, 3, 4])(alpha, mu, q, low, x.T)
    largest = ca.mmax(alpha)
    rest = (constant - n * (largest + ca.log(ca.sum1(ca.exp(alpha - largest))))
            - 0.5 * gamma ** 2 * (ca.sumsqr(ca.exp(q)) + ca.sumsqr(low)) + m * ca.sum1(ca.sum2(q)))
    return total + rest, [g + ca.gradient(rest, s) for g, s in zip(gradients, (alpha, mu, q, low))]
