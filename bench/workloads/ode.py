"""GradBench's ode: y' = x times y shifted by one, fourth-order Runge-Kutta over [0, 2]; the last component.

Its default size has a gradient of zeros (of a thousand components the last is never reached), so this one has few components."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("ODE", wrt=("x",), flops=lambda n, steps: 60 * n * steps,
                    sizes={"n=10 steps=1000": {"n": 10, "steps": 1000}}, tiny={"n": 3, "steps": 4})


@workload.inputs
def inputs(rng, n, steps):
    return {"x": rng.uniform(0.5, 2.0, n), "steps": steps}


def slope(x, y):
    return x * np.concatenate([np.ones(1), y[:-1]])


@workload.form("adcompile")
def last(x, steps):
    h = 2.0 / steps
    y = np.zeros(x.shape[0])
    for _ in range(steps):
        k1 = slope(x, y)
        k2 = slope(x, y + 0.5 * h * k1)
        k3 = slope(x, y + 0.5 * h * k2)
        k4 = slope(x, y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y[-1]


@hand
def stages(x, y, h, k):
    """The four slopes of a step from y, and the places where they were taken."""
    n = x.shape[0]
    for s in range(4):
        reach = 0.0 if s == 0 else h if s == 3 else 0.5 * h
        for i in range(n):
            k[1, s, i] = y[i] + (reach * k[0, s - 1, i] if s else 0.0)
        k[0, s, 0] = x[0]
        for i in range(1, n):
            k[0, s, i] = x[i] * k[1, s, i - 1]


@workload.form("numba")
@hand
def by_hand(x, steps):
    n, h = x.shape[0], 2.0 / steps
    y, k = np.zeros((steps + 1, n)), np.empty((2, 4, n))
    for t in range(steps):
        stages(x, y[t], h, k)
        for i in range(n):
            y[t + 1, i] = y[t, i] + h / 6.0 * (k[0, 0, i] + 2.0 * k[0, 1, i] + 2.0 * k[0, 2, i] + k[0, 3, i])
    g, y_bar, k_bar, place_bar = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    y_bar[n - 1] = 1.0
    for t in range(steps - 1, -1, -1):
        stages(x, y[t], h, k)
        total = y_bar.copy()
        for s in range(3, -1, -1):
            weight = h / 6.0 if s in (0, 3) else h / 3.0
            reach = 0.0 if s == 3 else h if s == 2 else 0.5 * h
            for i in range(n):
                k_bar[i] = weight * y_bar[i] + (reach * place_bar[i] if s < 3 else 0.0)
            g[0] += k_bar[0]
            for i in range(1, n):
                g[i] += k_bar[i] * k[1, s, i - 1]
                place_bar[i - 1] = k_bar[i] * x[i]
            place_bar[n - 1] = 0.0
            for i in range(n):
                total[i] += place_bar[i]
        y_bar[:] = total
    return y[steps, n - 1], g


@workload.form("jax")
def with_jax(np):
    import jax

    def slope(x, y):
        return x * np.concatenate([np.ones(1), y[:-1]])

    def last(x, steps):
        h = 2.0 / steps

        def step(y, _):
            k1 = slope(x, y)
            k2 = slope(x, y + 0.5 * h * k1)
            k3 = slope(x, y + 0.5 * h * k2)
            k4 = slope(x, y + h * k3)
            return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None
        return jax.lax.scan(step, np.zeros(x.shape[0]), None, length=steps)[0][-1]
    return last


@workload.form("torch")
def with_torch(torch):
    def slope(x, y):
        return x * torch.cat([torch.ones(1), y[:-1]])

    def last(x, steps):
        h = 2.0 / steps
        y = torch.zeros(x.shape[0])
        for _ in range(steps):
            k1 = slope(x, y)
            k2 = slope(x, y + 0.5 * h * k1)
            k3 = slope(x, y + 0.5 * h * k2)
            k4 = slope(x, y + h * k3)
            y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return y[-1]
    return last
