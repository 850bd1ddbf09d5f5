"""A million call options and their five Greeks: elementwise, a few exp, log and erf for each option."""

import math

import numba as nb
import numpy as np
from scipy.special import ndtr

from ..tools.numba import hand, hand_parallel
from ..workload import Workload

workload = Workload("Black-Scholes", wrt=("S", "K", "T", "r", "sigma"), flops=lambda n: 90 * n,
                    sizes={"n=1e6": {"n": 1_000_000}}, tiny={"n": 5})

HALF, DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


@workload.inputs
def inputs(rng, n):
    return {"S": rng.uniform(80, 120, n), "K": rng.uniform(80, 120, n), "T": rng.uniform(0.1, 2, n),
            "r": rng.uniform(0, 0.1, n), "sigma": rng.uniform(0.1, 0.5, n)}


@workload.form("adcompile")
def price(S, K, T, r, sigma):
    spread = sigma * np.sqrt(T)
    d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / spread
    return np.sum(S * ndtr(d1) - K * np.exp(-r * T) * ndtr(d1 - spread))


def greeks(S, K, T, r, sigma):
    n = S.shape[0]
    g = np.empty((5, n))
    value = 0.0
    for i in nb.prange(n):
        root = math.sqrt(T[i])
        spread = sigma[i] * root
        d1 = (math.log(S[i] / K[i]) + (r[i] + 0.5 * sigma[i] * sigma[i]) * T[i]) / spread
        delta = 0.5 * (1.0 + math.erf(d1 * HALF))
        discount = math.exp(-r[i] * T[i])
        strike = K[i] * discount * 0.5 * (1.0 + math.erf((d1 - spread) * HALF))
        vega = S[i] * DENSITY * math.exp(-0.5 * d1 * d1)
        value += S[i] * delta - strike
        g[0, i] = delta
        g[1, i] = -strike / K[i]
        g[2, i] = 0.5 * vega * sigma[i] / root + r[i] * strike
        g[3, i] = T[i] * strike
        g[4, i] = vega * root
    return value, (g[0], g[1], g[2], g[3], g[4])


workload.form("numba")(hand(greeks))
workload.form("numba", parallel=True)(hand_parallel(greeks))


@workload.form("torch", "torch_compile", "pytensor")
def with_arrays(np):
    def normal(x):
        return 0.5 * (1.0 + np.erf(x * HALF))

    def price(S, K, T, r, sigma):
        spread = sigma * np.sqrt(T)
        d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / spread
        return np.sum(S * normal(d1) - K * np.exp(-r * T) * normal(d1 - spread))
    return price


@workload.form("autograd")
def with_autograd(np):
    from autograd.scipy.special import erf

    def normal(x):
        return 0.5 * (1.0 + erf(x * HALF))

    def price(S, K, T, r, sigma):
        spread = sigma * np.sqrt(T)
        d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / spread
        return np.sum(S * normal(d1) - K * np.exp(-r * T) * normal(d1 - spread))
    return price


@workload.form("jax")
def with_jax(np):
    """Blocks of 4000: XLA makes several passes over 40 MB of one piece."""
    import jax

    def normal(x):
        return 0.5 * (1.0 + jax.scipy.special.erf(x * HALF))

    def block(args):
        S, K, T, r, sigma = args
        spread = sigma * np.sqrt(T)
        d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / spread
        return np.sum(S * normal(d1) - K * np.exp(-r * T) * normal(d1 - spread))

    def price(*args):
        size = min(4000, args[0].shape[0])
        return np.sum(jax.lax.map(block, tuple(a.reshape(-1, size) for a in args)))
    return price


@workload.form("casadi", "casadi_c")
def with_casadi(ca, *args):
    x = ca.SX.sym("x", 5)
    S, K, T, r, sigma = ca.vertsplit(x)
    spread = sigma * ca.sqrt(T)
    d1 = (ca.log(S / K) + (r + 0.5 * sigma ** 2) * T) / spread
    option = 0.5 * (S * (1 + ca.erf(d1 * HALF)) - K * ca.exp(-r * T) * (1 + ca.erf((d1 - spread) * HALF)))
    each = ca.Function("option", [x], [option, ca.gradient(option, x)]).map(args[0].numel())
    prices, g = each(ca.horzcat(*args).T)
    return ca.sum2(prices), ca.vertsplit(g)


@workload.form("sympy")
def with_sympy(sp, *args):
    symbols = S, K, T, r, sigma = sp.symbols("S K T r sigma", positive=True)
    spread = sigma * sp.sqrt(T)
    d1 = (sp.log(S / K) + (r + sigma ** 2 / 2) * T) / spread
    option = (S * (1 + sp.erf(d1 / sp.sqrt(2))) - K * sp.exp(-r * T) * (1 + sp.erf((d1 - spread) / sp.sqrt(2)))) / 2
    compiled = sp.lambdify(symbols, [option, *(option.diff(s) for s in symbols)], ["scipy", "numpy"], cse=True)

    def gradient(*args):
        prices, *g = compiled(*args)
        return prices.sum(), g
    return gradient
