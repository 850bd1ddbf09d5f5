"""The heat equation on a square with a conductivity in each point: a hundred explicit steps, and the misfit to a target.

PyTensor's scan is left out: it takes minutes to compile.
"""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("heat equation", wrt=("k", "u"), flops=lambda n, steps: 18 * n * n * steps,
                    sizes={"128x128x100": {"n": 128, "steps": 100}}, tiny={"n": 5, "steps": 3})


@workload.inputs
def inputs(rng, n, steps):
    x = np.linspace(0.0, 1.0, n)
    bump = np.exp(-40.0 * ((x[:, None] - 0.4) ** 2 + (x - 0.6) ** 2))
    return {"k": 0.1 + 0.1 * rng.random((n, n)), "u": bump + 0.05 * rng.normal(size=(n, n)),
            "target": np.exp(-20.0 * ((x[:, None] - 0.5) ** 2 + (x - 0.5) ** 2)), "steps": steps}


@workload.form("adcompile", variant="slices")
def misfit(k, u, target, steps):
    u = u.copy()
    for _ in range(steps):
        flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        u[1:-1, 1:-1] += k[1:-1, 1:-1] * flow
    return np.sum((u - target) ** 2)


@workload.form("adcompile", variant="loops")
def misfit_with_loops(k, u, target, steps):
    n, m = u.shape
    for _ in range(steps):
        after = u.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                after[i, j] += k[i, j] * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        u = after
    value = 0.0
    for i in range(n):
        for j in range(m):
            value += (u[i, j] - target[i, j]) ** 2
    return value


@workload.form("numba")
@hand
def by_hand(k, u, target, steps):
    n, m = u.shape
    us = np.empty((steps + 1, n, m))
    us[:] = u
    for t in range(steps):
        old, new = us[t], us[t + 1]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                flow_in = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - 4.0 * old[i, j]
                new[i, j] = old[i, j] + k[i, j] * flow_in
    k_bar, u_bar, flow = np.zeros((n, m)), np.empty((n, m)), np.zeros((n + 2, m + 2))
    value = 0.0
    for i in range(n):
        for j in range(m):
            difference = us[steps, i, j] - target[i, j]
            value += difference * difference
            u_bar[i, j] = 2.0 * difference
    for t in range(steps - 1, -1, -1):
        old = us[t]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                k_bar[i, j] += u_bar[i, j] * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - 4.0 * old[i, j])
                flow[i + 1, j + 1] = k[i, j] * u_bar[i, j]
        for i in range(n):
            for j in range(m):
                u_bar[i, j] += (flow[i, j + 1] + flow[i + 2, j + 1] + flow[i + 1, j] + flow[i + 1, j + 2]
                                - 4.0 * flow[i + 1, j + 1])
    return value, (k_bar, u_bar)


@workload.form("jax")
def with_jax(np):
    import jax

    def misfit(k, u, target, steps):
        def step(u, _):
            flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
            return u.at[1:-1, 1:-1].add(k[1:-1, 1:-1] * flow), None
        return np.sum((jax.lax.scan(step, u, None, length=steps)[0] - target) ** 2)
    return misfit


@workload.form("torch")
def with_torch(torch):
    pad = torch.nn.functional.pad

    def misfit(k, u, target, steps):
        inner = pad(k[1:-1, 1:-1], (1, 1, 1, 1))
        for _ in range(steps):
            flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
            u = u + inner * pad(flow, (1, 1, 1, 1))
        return torch.sum((u - target) ** 2)
    return misfit


@workload.form("autograd")
def with_autograd(np):
    def misfit(k, u, target, steps):
        for _ in range(steps):
            flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
            u = u + np.pad(k[1:-1, 1:-1] * flow, 1, "constant")
        return np.sum((u - target) ** 2)
    return misfit
