"""The log likelihood of a hidden Markov model with S states over T observations; logits of start, transitions and emissions."""

import math

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("HMM", wrt=("start", "moves", "emissions"), flops=lambda S, M, T: T * (6 * S * S + 10 * S + 10),
                    sizes={"T=1000 S=8": {"S": 8, "M": 16, "T": 1000}}, tiny={"S": 2, "M": 3, "T": 4})


@workload.inputs
def inputs(rng, S, M, T):
    return {"start": rng.normal(size=S), "moves": rng.normal(size=(S, S)) + 2.0 * np.eye(S),
            "emissions": 1.5 * rng.normal(size=(S, M)), "seen": rng.integers(0, M, T)}


@workload.form("adcompile", variant="in logarithms")
def log_likelihood(start, moves, emissions, seen):
    log_moves, log_emissions = log_softmax(moves, axis=1), log_softmax(emissions, axis=1)
    a = log_softmax(start) + log_emissions[:, seen[0]]
    for t in range(1, seen.shape[0]):
        a = logsumexp(a[:, None] + log_moves, axis=0) + log_emissions[:, seen[t]]
    return logsumexp(a)


@workload.form("adcompile", variant="scaled")
def log_likelihood_scaled(start, moves, emissions, seen):
    P, E = softmax(moves, axis=1), softmax(emissions, axis=1)
    a = softmax(start) * E[:, seen[0]]
    value = 0.0
    for t in range(1, seen.shape[0]):
        scale = np.sum(a)
        value += np.log(scale)
        a = ((a / scale) @ P) * E[:, seen[t]]
    return value + np.log(np.sum(a))


@hand
def probabilities(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


@workload.form("numba")
@hand
def by_hand(start, moves, emissions, seen):
    S, T = start.shape[0], seen.shape[0]
    first, P, E = probabilities(start), np.empty_like(moves), np.empty((emissions.shape[1], S))
    for i in range(S):
        P[i] = probabilities(moves[i])
        E[:, i] = probabilities(emissions[i])
    a, scales, value = np.zeros((T, S)), np.empty(T), 0.0
    for t in range(T):
        if t == 0:
            a[0] = first
        else:
            for i in range(S):
                for j in range(S):
                    a[t, j] += a[t - 1, i] * P[i, j]
        total = 0.0
        for j in range(S):
            a[t, j] *= E[seen[t], j]
            total += a[t, j]
        for j in range(S):
            a[t, j] /= total
        scales[t] = total
        value += math.log(total)
    d_P, d_E, back, w, before = np.zeros((S, S)), np.zeros(E.shape), np.ones(S), np.empty(S), np.empty(S)
    for t in range(T - 1, -1, -1):
        for j in range(S):
            d_E[seen[t], j] += a[t, j] * back[j]
        if t:
            for j in range(S):
                w[j] = E[seen[t], j] * back[j] / scales[t]
            for i in range(S):
                total = 0.0
                for j in range(S):
                    total += P[i, j] * w[j]
                    d_P[i, j] += a[t - 1, i] * P[i, j] * w[j]
                before[i] = total
            back[:] = before
    d_moves, d_emissions = np.empty_like(moves), np.empty_like(emissions)
    for i in range(S):
        d_moves[i] = d_P[i] - d_P[i].sum() * P[i]
        d_emissions[i] = d_E[:, i] - d_E[:, i].sum() * E[:, i]
    return value, (a[0] * back - first, d_moves, d_emissions)


@workload.form("jax")
def with_jax(np):
    import jax
    log_softmax, logsumexp = jax.nn.log_softmax, jax.scipy.special.logsumexp

    def log_likelihood(start, moves, emissions, seen):
        log_moves, log_emissions = log_softmax(moves, 1), log_softmax(emissions, 1).T

        def step(a, symbol):
            return logsumexp(a[:, None] + log_moves, axis=0) + log_emissions[symbol], None
        return logsumexp(jax.lax.scan(step, log_softmax(start) + log_emissions[seen[0]], seen[1:])[0])
    return log_likelihood


@workload.form("torch")
def with_torch(torch):
    log_softmax = torch.nn.functional.log_softmax

    def log_likelihood(start, moves, emissions, seen):
        log_moves, log_emissions = log_softmax(moves, 1), log_softmax(emissions, 1).T[seen]
        a = log_softmax(start, 0) + log_emissions[0]
        for emitted in log_emissions[1:]:
            a = torch.logsumexp(a[:, None] + log_moves, 0) + emitted
        return torch.logsumexp(a, 0)
    return log_likelihood


@workload.form("autograd")
def with_autograd(np):
    from autograd.scipy.special import logsumexp

    def log_likelihood(start, moves, emissions, seen):
        log_moves = moves - logsumexp(moves, axis=1, keepdims=True)
        log_emissions = (emissions - logsumexp(emissions, axis=1, keepdims=True)).T[seen]
        a = start - logsumexp(start) + log_emissions[0]
        for t in range(1, len(seen)):
            a = logsumexp(a[:, None] + log_moves, axis=0) + log_emissions[t]
        return logsumexp(a)
    return log_likelihood
