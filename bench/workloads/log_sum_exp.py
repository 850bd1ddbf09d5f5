"""log(sum(exp(x))), shifted by the maximum: one exp for each number, and memory."""

import math

import numpy as np
from scipy.special import logsumexp

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("log-sum-exp", wrt=("x",), flops=lambda n: 13 * n,
                    sizes={f"n={n}": {"n": n} for n in (80_000, 1_280_000)}, tiny={"n": 6})


@workload.inputs
def inputs(rng, n):
    return {"x": rng.random(n)}


@workload.form("adcompile")
def log_sum_exp(x):
    return logsumexp(x)


@workload.form("adcompile", variant="written out")
def log_sum_exp_written_out(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


@workload.form("numba")
@hand
def by_hand(x):
    largest = x.max()
    g = np.empty_like(x)
    total = 0.0
    for i in range(x.shape[0]):
        g[i] = math.exp(x[i] - largest)
        total += g[i]
    for i in range(x.shape[0]):
        g[i] /= total
    return largest + math.log(total), g


@workload.form("jax")
def with_jax(np):
    import jax
    return jax.scipy.special.logsumexp


@workload.form("torch")
@workload.form("torch_compile", sizes=("n=1280000", "tiny"))
def with_torch(torch):
    return lambda x: torch.logsumexp(x, 0)


@workload.form("autograd")
def with_autograd(np):
    from autograd.scipy.special import logsumexp
    return logsumexp


@workload.form("pytensor")
def with_pytensor(pt):
    return pt.logsumexp
