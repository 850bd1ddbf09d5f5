"""Predator and prey: a thousand Runge-Kutta steps, a misfit to data at each; four rates and two initial values."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("Lotka-Volterra", wrt=("p", "u"), numpy_boundary=True, flops=lambda n: 250 * n,
                    sizes={"n=1000": {"n": 1000}}, tiny={"n": 4})


@workload.inputs
def inputs(rng, n):
    data, u = np.empty((n, 2)), np.array([1.0, 1.0])
    for i in range(n):
        u = data[i] = step(u, np.array([1.5, 1.0, 3.0, 1.0]), 0.01)
    return {"p": np.array([1.4, 1.1, 2.8, 0.9]), "u": np.array([1.1, 0.9]), "h": 0.01,
            "data": data + 0.1 * rng.normal(size=(n, 2))}


def slope(u, p):
    return np.array([p[0] * u[0] - p[1] * u[0] * u[1], p[3] * u[0] * u[1] - p[2] * u[1]])


def step(u, p, h):
    k1 = slope(u, p)
    k2 = slope(u + 0.5 * h * k1, p)
    k3 = slope(u + 0.5 * h * k2, p)
    k4 = slope(u + h * k3, p)
    return u + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@workload.form("adcompile")
def misfit(p, u, h, data):
    value = 0.0
    for t in range(data.shape[0]):
        u = step(u, p, h)
        value += np.sum((u - data[t]) ** 2)
    return value


@workload.form("numba")
@hand
def by_hand(p, u, h, data):
    n = data.shape[0]
    us = np.empty((n + 1, 2))
    us[0] = u
    p0, p1, p2, p3 = p
    x, y = u
    value = 0.0
    for t in range(n):
        ax, ay = p0 * x - p1 * x * y, p3 * x * y - p2 * y
        X, Y = x + 0.5 * h * ax, y + 0.5 * h * ay
        bx, by = p0 * X - p1 * X * Y, p3 * X * Y - p2 * Y
        X, Y = x + 0.5 * h * bx, y + 0.5 * h * by
        cx, cy = p0 * X - p1 * X * Y, p3 * X * Y - p2 * Y
        X, Y = x + h * cx, y + h * cy
        dx, dy = p0 * X - p1 * X * Y, p3 * X * Y - p2 * Y
        x += h / 6.0 * (ax + 2.0 * bx + 2.0 * cx + dx)
        y += h / 6.0 * (ay + 2.0 * by + 2.0 * cy + dy)
        value += (x - data[t, 0]) ** 2 + (y - data[t, 1]) ** 2
        us[t + 1, 0], us[t + 1, 1] = x, y
    q0 = q1 = q2 = q3 = x_bar = y_bar = 0.0
    for t in range(n - 1, -1, -1):
        x_bar += 2.0 * (us[t + 1, 0] - data[t, 0])
        y_bar += 2.0 * (us[t + 1, 1] - data[t, 1])
        x, y = us[t]
        ax, ay = p0 * x - p1 * x * y, p3 * x * y - p2 * y
        X2, Y2 = x + 0.5 * h * ax, y + 0.5 * h * ay
        bx, by = p0 * X2 - p1 * X2 * Y2, p3 * X2 * Y2 - p2 * Y2
        X3, Y3 = x + 0.5 * h * bx, y + 0.5 * h * by
        cx, cy = p0 * X3 - p1 * X3 * Y3, p3 * X3 * Y3 - p2 * Y3
        X4, Y4 = x + h * cx, y + h * cy
        # slopes 4, 3, 2, 1: a and b are their cotangents, X_bar and Y_bar those of the places where they were taken
        a, b = h / 6.0 * x_bar, h / 6.0 * y_bar
        X_bar, Y_bar = a * (p0 - p1 * Y4) + b * p3 * Y4, b * (p3 * X4 - p2) - a * p1 * X4
        q0, q1, q2, q3 = q0 + a * X4, q1 - a * X4 * Y4, q2 - b * Y4, q3 + b * X4 * Y4
        sum_x, sum_y = x_bar + X_bar, y_bar + Y_bar
        a, b = h / 3.0 * x_bar + h * X_bar, h / 3.0 * y_bar + h * Y_bar
        X_bar, Y_bar = a * (p0 - p1 * Y3) + b * p3 * Y3, b * (p3 * X3 - p2) - a * p1 * X3
        q0, q1, q2, q3 = q0 + a * X3, q1 - a * X3 * Y3, q2 - b * Y3, q3 + b * X3 * Y3
        sum_x, sum_y = sum_x + X_bar, sum_y + Y_bar
        a, b = h / 3.0 * x_bar + 0.5 * h * X_bar, h / 3.0 * y_bar + 0.5 * h * Y_bar
        X_bar, Y_bar = a * (p0 - p1 * Y2) + b * p3 * Y2, b * (p3 * X2 - p2) - a * p1 * X2
        q0, q1, q2, q3 = q0 + a * X2, q1 - a * X2 * Y2, q2 - b * Y2, q3 + b * X2 * Y2
        sum_x, sum_y = sum_x + X_bar, sum_y + Y_bar
        a, b = h / 6.0 * x_bar + 0.5 * h * X_bar, h / 6.0 * y_bar + 0.5 * h * Y_bar
        q0, q1, q2, q3 = q0 + a * x, q1 - a * x * y, q2 - b * y, q3 + b * x * y
        x_bar = sum_x + a * (p0 - p1 * y) + b * p3 * y
        y_bar = sum_y + b * (p3 * x - p2) - a * p1 * x
    return value, (np.array([q0, q1, q2, q3]), np.array([x_bar, y_bar]))


def stepper(stack):
    """The same step for another module's arrays."""
    def slope(u, p):
        return stack([p[0] * u[0] - p[1] * u[0] * u[1], p[3] * u[0] * u[1] - p[2] * u[1]])

    def step(u, p, h):
        k1 = slope(u, p)
        k2 = slope(u + 0.5 * h * k1, p)
        k3 = slope(u + 0.5 * h * k2, p)
        k4 = slope(u + h * k3, p)
        return u + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return step


@workload.form("jax")
def with_jax(np):
    import jax
    step = stepper(np.stack)

    def misfit(p, u, h, data):
        def turn(u, point):
            u = step(u, p, h)
            return u, np.sum((u - point) ** 2)
        return np.sum(jax.lax.scan(turn, u, data)[1])
    return misfit


@workload.form("torch")
def with_torch(torch):
    step = stepper(torch.stack)

    def misfit(p, u, h, data):
        us = []
        for _ in range(len(data)):
            u = step(u, p, h)
            us.append(u)
        return torch.sum((torch.stack(us) - data) ** 2)
    return misfit


@workload.form("autograd")
def with_autograd(np):
    step = stepper(np.array)

    def misfit(p, u, h, data):
        value = 0.0
        for point in data:
            u = step(u, p, h)
            value = value + np.sum((u - point) ** 2)
        return value
    return misfit


@workload.form("pytensor")
def with_pytensor(pt):
    import pytensor
    step = stepper(pt.stack)

    def misfit(p, u, h, data):
        us = pytensor.scan(step, outputs_info=[u], non_sequences=[p, h], n_steps=data.shape[0], return_updates=False)
        return pt.sum((us - data) ** 2)
    return misfit


@workload.form("casadi", "casadi_c")
def with_casadi(ca, p, u, h, data):
    s, q, k, point = ca.SX.sym("s", 2), ca.SX.sym("q", 4), ca.SX.sym("k"), ca.SX.sym("point", 2)
    after = stepper(lambda parts: ca.vertcat(*parts))(s, q, k)
    turn = ca.Function("turn", [s, q, k, point], [after, ca.sumsqr(after - point)])
    n = data.shape[0]
    return ca.sum2(turn.mapaccum("turns", n)(u, ca.repmat(p, 1, n), ca.repmat(h, 1, n), data.T)[1])
