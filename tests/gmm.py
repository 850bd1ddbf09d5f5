"""ADBench's Gaussian mixture objective in plain NumPy, written twice, with its data files and its gradient in closed form.

Parameters: alpha (K), mu (K, D), q (K, D), low (K, D (D - 1) / 2); data x (N, D); prior gamma > 0 and an integer m >= 0.
Component k has the inverse covariance Q'Q, Q lower triangular with diagonal exp(q) and the strict part filled from low, column
by column. The sign of the prior is ADBench's (its golden values were made so; the log posterior has the opposite sign).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

DATA = Path(__file__).parent / "data" / "gmm"


class Problem(NamedTuple):
    """The arguments of the objective, in order."""

    alpha: np.ndarray
    mu: np.ndarray
    q: np.ndarray
    low: np.ndarray
    x: np.ndarray
    gamma: float
    m: int


def read(name: str) -> Problem:
    """A data file."""
    numbers = np.array((DATA / f"{name}.txt").read_text().split(), dtype=float)
    d, k, n = numbers[:3].astype(int)
    sizes = np.cumsum([3, k, k * d, k * d * (d + 1) // 2, n * d])
    alpha, mu, icf, x, prior = np.split(numbers, sizes)[1:]
    icf = icf.reshape(k, -1)
    return Problem(alpha, mu.reshape(k, d), icf[:, :d].copy(), icf[:, d:].copy(), x.reshape(n, d), float(prior[0]), int(prior[1]))


def golden() -> tuple[float, np.ndarray]:
    """ADBench's own value and gradient for test.txt, in its order."""
    stored = json.loads((DATA / "gmm_test.json").read_text())
    return stored["objective"], np.array(stored["gradient"])


def packed(alpha: Any, mu: Any, q: Any, low: Any) -> np.ndarray:
    """Gradients in ADBench's order: alpha, mu, then q and low of each component."""
    return np.concatenate([alpha, mu.ravel(), np.hstack([q, low]).ravel()])


# ------------------------------------------------------------------------------------------------- written with einsum
def log_wishart(q, low, gamma, m):
    """The prior on the inverse covariances."""
    K, D = q.shape
    n = D + m + 1
    log_gamma = 0.25 * D * (D - 1) * np.log(np.pi) + np.sum(gammaln(0.5 * n - 0.5 * np.arange(D)))
    C = n * D * (np.log(gamma) - 0.5 * np.log(2)) - log_gamma
    frobenius = 0.5 * gamma ** 2 * (np.sum(np.exp(q) ** 2) + np.sum(low ** 2))
    return frobenius - m * np.sum(q) - K * C


def gmm_einsum(alpha, mu, q, low, x, gamma, m):
    """All components at once."""
    N, D = x.shape
    row, column = np.arange(D)[:, None], np.arange(D)[None, :]
    place = column * D - column * (column + 1) // 2 + row - column - 1
    below = row > column
    strict = np.where(below, low[:, np.where(below, place, 0)], 0.0)
    Q = strict + np.exp(q)[:, :, None] * np.eye(D)
    y = np.einsum("kij,nkj->nki", Q, x[:, None, :] - mu)
    beta = alpha + np.sum(q, axis=1) - 0.5 * np.sum(y ** 2, axis=2)
    likelihood = np.sum(logsumexp(beta, axis=1)) - N * logsumexp(alpha) - N * D * 0.5 * np.log(2 * np.pi)
    return likelihood + log_wishart(q, low, gamma, m)


# ------------------------------------------------------------------------------------------ written component by component
def gmm_components(alpha, mu, q, low, x, gamma, m):
    """A Python loop over the components, each column of Q on its own."""
    N, D = x.shape
    beta = []
    for k in range(mu.shape[0]):
        centred = x - mu[k]
        y = centred * np.exp(q[k])
        first = 0
        for i in range(D - 1):
            column = low[k, first:first + D - 1 - i]
            y = y + np.concatenate([np.zeros((N, i + 1)), np.outer(centred[:, i], column)], axis=1)
            first += D - 1 - i
        beta.append(alpha[k] + q[k].sum() - 0.5 * (y * y).sum(axis=1))
    beta = np.stack(beta, axis=1)
    largest = beta.max(axis=1, keepdims=True)
    per_point = largest[:, 0] + np.log(np.exp(beta - largest).sum(axis=1))
    normalisation = np.log(np.sum(np.exp(alpha - np.max(alpha)))) + np.max(alpha)
    return per_point.sum() - N * normalisation - 0.5 * N * D * np.log(2 * np.pi) + log_wishart(q, low, gamma, m)


# ------------------------------------------------------------------------------------------------------- in closed form
def closed_form(p: Problem) -> tuple[np.ndarray, ...]:
    """The gradient in alpha, mu, q, l."""
    N, D = p.x.shape
    column, row = np.triu_indices(D, 1)
    Q = np.exp(p.q)[:, :, None] * np.eye(D)
    Q[:, row, column] = p.low
    centred = p.x[:, None, :] - p.mu
    y = np.einsum("kij,nkj->nki", Q, centred)
    beta = p.alpha + p.q.sum(1) - 0.5 * (y ** 2).sum(2)
    r = np.exp(beta - logsumexp(beta, axis=1, keepdims=True))
    weight = r.sum(0)
    dQ = -np.einsum("nk,nki,nkj->kij", r, y, centred)
    d_alpha = weight - N * np.exp(p.alpha - logsumexp(p.alpha))
    d_mu = np.einsum("nk,kij,nki->kj", r, Q, y)
    d_q = weight[:, None] + np.einsum("kii->ki", dQ) * np.exp(p.q) + p.gamma ** 2 * np.exp(2 * p.q) - p.m
    return d_alpha, d_mu, d_q, dQ[:, row, column] + p.gamma ** 2 * p.low
