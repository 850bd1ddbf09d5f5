"""Programs written with plain loops, as people write them, each with arguments: what `test_references.py` checks.

`PROGRAMS` maps a name to a `Reference`. Nothing imports adcompile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(20)


@dataclass(frozen=True)
class Reference:
    """A function, its arguments by name, what is differentiated, and the gradient if it is known in closed form."""

    function: Callable[..., Any]
    args: dict[str, Any]
    wrt: tuple[str, ...]
    gradient: Callable[..., tuple[Any, ...]] | None = None


PROGRAMS: dict[str, Reference] = {}


def program(wrt: str, gradient: Callable[..., tuple[Any, ...]] | None = None, **args: Any) -> Callable[..., Any]:
    """Put a function into the list, differentiated with respect to the names in `wrt`."""
    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Reference(function, args, tuple(wrt.split()), gradient)
        return function
    return note


# ------------------------------------------------------------------------------------------------------ recurrences
@program("p u", p=np.array([1.5, 1.0, 3.0, 1.0]), u=np.array([1.0, 1.2]), h=0.02, data=np.ones((12, 2)))
def lotka_volterra(p, u, h, data):
    def rates(x, y):
        return p[0] * x - p[1] * x * y, p[3] * x * y - p[2] * y

    x, y = u
    total = 0.0
    for t in range(len(data)):
        k1, l1 = rates(x, y)
        k2, l2 = rates(x + h / 2 * k1, y + h / 2 * l1)
        k3, l3 = rates(x + h / 2 * k2, y + h / 2 * l2)
        k4, l4 = rates(x + h * k3, y + h * l3)
        x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        y += h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        total += (x - data[t, 0]) ** 2 + (y - data[t, 1]) ** 2
    return total


@program("p u", p=np.array([1.5, 1.0, 3.0, 1.0]), u=np.array([1.0, 1.2]), h=0.02, data=np.ones((12, 2)))
def lotka_volterra_arrays(p, u, h, data):
    def rates(u):
        x, y = u
        return np.array([p[0] * x - p[1] * x * y, p[3] * x * y - p[2] * y])

    total = 0.0
    for t in range(len(data)):
        k1 = rates(u)
        k2 = rates(u + h / 2 * k1)
        k3 = rates(u + h / 2 * k2)
        k4 = rates(u + h * k3)
        u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        total += np.sum((u - data[t]) ** 2)
    return total


@program("u k", u=RNG.normal(size=9), k=0.2, steps=6)
def heat_loops(u, k, steps):
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1])
        u[:] = new
    total = 0.0
    for i in range(len(u)):
        total += u[i] ** 2
    return total


@program("u k", u=PROGRAMS["heat_loops"].args["u"], k=0.2, steps=6)
def heat_slices(u, k, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += k * (u[:-2] - 2 * u[1:-1] + u[2:])
    return np.sum(u ** 2)


@program("r x", r=3.2, x=0.3, n=25)
def logistic_map(r, x, n):
    for _ in range(n):
        x = r * x * (1 - x)
    return x


@program("a x", a=0.7, x=RNG.normal(size=8))
def cumulative(a, x):
    out = np.zeros(len(x))
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = a * np.tanh(out[i - 1]) + x[i]
    return np.sum(out * out)


def horner_gradient(c, x):
    powers = x ** np.arange(len(c))[::-1]
    return powers, float(np.sum(c[:-1] * np.arange(1, len(c))[::-1] * x ** np.arange(len(c) - 1)[::-1]))


@program("c x", horner_gradient, c=RNG.normal(size=7), x=0.8)
def horner(c, x):
    total = 0.0
    for coefficient in c:
        total = total * x + coefficient
    return total


# ------------------------------------------------------------------------------------------------------ statistics
@program("start moves emissions", start=RNG.normal(size=3), moves=RNG.normal(size=(3, 3)), emissions=RNG.normal(size=(3, 4)),
         seen=RNG.integers(0, 4, 9))
def hidden_markov(start, moves, emissions, seen):
    n = len(start)
    a = np.exp(moves)
    for i in range(n):
        a[i] /= a[i].sum()
    b = np.exp(emissions) / np.exp(emissions).sum(axis=1, keepdims=True)
    forward = np.exp(start) / np.sum(np.exp(start)) * b[:, seen[0]]
    total = 0.0
    for t in range(1, len(seen)):
        scale = 0.0
        for j in range(n):
            scale += forward[j]
        forward = forward / scale
        total += np.log(scale)
        new = np.zeros(n)
        for j in range(n):
            for i in range(n):
                new[j] += forward[i] * a[i, j]
            new[j] *= b[j, seen[t]]
        forward = new
    return total + np.log(np.sum(forward))


@program("q r", q=0.3, r=0.5, ys=RNG.normal(size=10).cumsum())
def kalman(q, r, ys):
    """Position and velocity, positions seen; 2 x 2 by hand."""
    x, v = 0.0, 0.0
    p00, p01, p11 = 1.0, 0.0, 1.0
    total = 0.0
    for y in ys:
        x = x + v
        p00, p01, p11 = p00 + 2 * p01 + p11 + q / 3, p01 + p11 + q / 2, p11 + q
        s = p00 + r
        e = y - x
        total += 0.5 * (np.log(2 * np.pi * s) + e * e / s)
        g0, g1 = p00 / s, p01 / s
        x, v = x + g0 * e, v + g1 * e
        p00, p01, p11 = (1 - g0) * p00, (1 - g0) * p01, p11 - g1 * p01
    return total


def logistic_gradient(w, X, y):
    return (X.T @ (-y / (1 + np.exp(y * (X @ w)))),)


@program("w", logistic_gradient, w=RNG.normal(size=4), X=RNG.normal(size=(11, 4)), y=np.sign(RNG.normal(size=11)))
def logistic_loops(w, X, y):
    n, d = X.shape
    total = 0.0
    for i in range(n):
        z = 0.0
        for j in range(d):
            z += X[i, j] * w[j]
        total += math.log1p(math.exp(-y[i] * z))
    return total


def kmeans_gradient(centres, points):
    distance = ((points[:, None] - centres) ** 2).sum(2)
    nearest = distance.argmin(1)
    return (np.array([2 * (centres[j] - points[nearest == j]).sum(0) for j in range(len(centres))]),)


@program("centres", kmeans_gradient, centres=RNG.normal(size=(3, 2)), points=RNG.normal(size=(10, 2)))
def kmeans(centres, points):
    total = 0.0
    for i in range(len(points)):
        best = np.inf
        for j in range(len(centres)):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[j, k]) ** 2
                if d > best:
                    break
            if d >= best:
                continue
            best = d
        total += best
    return total


# ------------------------------------------------------------------------------------------------------ physics
def lennard_jones_gradient(x):
    r = x[:, None] - x
    s = (r ** 2).sum(2) + np.eye(len(x))
    weight = (4 * (-12 / s ** 7 + 6 / s ** 4)) * (1 - np.eye(len(x)))
    return ((weight[:, :, None] * r).sum(1),)


@program("x", lennard_jones_gradient, x=np.stack(np.meshgrid([0.0, 1.1], [0.0, 1.2], [0.0, 1.05]), -1).reshape(8, 3)
         + 0.05 * RNG.normal(size=(8, 3)))
def lennard_jones(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            s = 0.0
            for k in range(3):
                s += (x[i, k] - x[j, k]) ** 2
            inverse = 1 / s ** 3
            total += 4 * (inverse * inverse - inverse)
    return total


@program("b", b=RNG.normal(size=6), sweeps=4)
def gauss_seidel(b, sweeps):
    u = np.zeros_like(b)
    for _ in range(sweeps):
        for i in range(len(b)):
            left = u[i - 1] if i > 0 else 0.0
            right = u[i + 1] if i < len(b) - 1 else 0.0
            u[i] = (b[i] + left + right) / 2.5
    return np.dot(u, u)


# ------------------------------------------------------------------------------------------------------ solvers
@program("a", lambda a: (1 / (3 * a ** (2 / 3)),), a=5.0)
def cube_root_by_newton(a):
    x = a
    while abs(x ** 3 - a) > 1e-14:
        x = x - (x ** 3 - a) / (3 * x ** 2)
    return x


@program("a", a=3.0)
def bisection_then_newton(a):
    lo, hi = 0.0, a
    while hi - lo > 1e-3:
        mid = 0.5 * (lo + hi)
        if mid * mid > a:
            hi = mid
        else:
            lo = mid
    x = lo
    for _ in range(3):
        x = 0.5 * (x + a / x)
    return x


@program("A b", A=np.eye(3) * 2 + 0.2, b=RNG.normal(size=3))
def descent_inside(A, b):
    x = np.zeros_like(b)
    for _ in range(12):
        x = x - 0.3 * (A @ x - b)
    return np.sum(x * x)


# ------------------------------------------------------------------------------------------------------ control flow
@program("x", x=np.array([0.2, 0.4, 0.9, 0.1]), limit=1.2)
def early_return(x, limit):
    total = 0.0
    for v in x:
        total += v
        if total > limit:
            return total * v
    return total


@program("s t", s=RNG.normal(size=5), t=RNG.normal(size=6), gap=0.7)
def edit_distance(s, t, gap):
    n, m = len(s), len(t)
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        d[i, 0] = i * gap
    for j in range(1, m + 1):
        d[0, j] = j * gap
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = min(d[i - 1, j] + gap, d[i, j - 1] + gap, d[i - 1, j - 1] + (s[i - 1] - t[j - 1]) ** 2)
    return d[n, m]


@program("x", x=RNG.normal(size=7))
def appended(x):
    items = []
    for v in x:
        items.append(np.sin(v) * v)
    return np.sum(np.array(items) ** 2)


@program("a b", a=0.4, b=1.3)
def closures(a, b):
    def scaled(f, n):
        def g(x):
            for _ in range(n):
                x = a * f(x)
            return x
        return g

    return scaled(np.sin, 3)(b) + scaled(lambda x: x * b, 2)(a)


# ------------------------------------------------------------------------------------------------------ ADBench
def numbers(*path: str) -> list[float]:
    """All numbers of a data file."""
    return [float(x) for x in DATA.joinpath(*path).read_text().split()]


def lstm_arguments() -> dict[str, Any]:
    """ADBench's data: l layers, c characters of b bits."""
    layers, c, b, *rest = numbers("lstm", "lstm_l2_c1024.txt")
    sizes = [int(2 * layers * 4 * b), int(3 * b), int(2 * layers * b)]
    main, extra, state, sequence = np.split(np.array(rest), np.cumsum(sizes))
    b = int(b)
    return {"main": main.reshape(-1, 4 * b), "extra": extra.reshape(3, b), "state": state.reshape(-1, b),
            "sequence": sequence.reshape(int(c), b)}


def lstm(main, extra, state, sequence):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    layers, (c, b) = len(main) // 2, sequence.shape
    state = state.copy()
    total = 0.0
    for t in range(c - 1):
        y = sequence[t] * extra[0]
        for i in range(layers):
            w, bias, h = main[2 * i], main[2 * i + 1], state[2 * i]
            forget = sigmoid(y * w[:b] + bias[:b])
            ingate = sigmoid(h * w[b:2 * b] + bias[b:2 * b])
            outgate = sigmoid(y * w[2 * b:3 * b] + bias[2 * b:3 * b])
            change = np.tanh(h * w[3 * b:] + bias[3 * b:])
            state[2 * i + 1] = state[2 * i + 1] * forget + ingate * change
            state[2 * i] = outgate * np.tanh(state[2 * i + 1])
            y = state[2 * i]
        predicted = y * extra[1] + extra[2]
        normalised = np.log(np.sum(np.exp(predicted)) + 2)
        total += np.sum(sequence[t + 1] * (predicted - normalised))
    return -total / ((c - 1) * b)


def bundle_arguments() -> dict[str, Any]:
    """ADBench's test: one camera, point, weight and feature."""
    found = np.array(numbers("ba", "test.txt")[3:])
    return {"camera": found[:11], "point": found[11:14], "weight": float(found[14]), "feature": found[15:17]}


def bundle_residual(camera, point, weight, feature, which):
    """One of the two reprojection errors, entry by entry."""
    r = camera[:3]
    u = np.zeros(3)
    for k in range(3):
        u[k] = point[k] - camera[3 + k]
    theta2 = 0.0
    for k in range(3):
        theta2 += r[k] * r[k]
    turned = np.zeros(3)
    if theta2 != 0.0:
        theta = np.sqrt(theta2)
        c, s = np.cos(theta), np.sin(theta)
        along = 0.0
        for k in range(3):
            along += r[k] / theta * u[k]
        for k in range(3):
            cross = (r[(k + 1) % 3] * u[(k + 2) % 3] - r[(k + 2) % 3] * u[(k + 1) % 3]) / theta
            turned[k] = u[k] * c + cross * s + r[k] / theta * along * (1 - c)
    else:
        for k in range(3):
            turned[k] = u[k] + r[(k + 1) % 3] * u[(k + 2) % 3] - r[(k + 2) % 3] * u[(k + 1) % 3]
    p = np.array([turned[0] / turned[2], turned[1] / turned[2]])
    square = p[0] ** 2 + p[1] ** 2
    radial = 1 + camera[9] * square + camera[10] * square ** 2
    return weight * (camera[6] * p[which] * radial + camera[7 + which] - feature[which])


def golden(*path: str) -> dict[str, Any]:
    """Values and derivatives that came with the data."""
    found: dict[str, Any] = json.loads(DATA.joinpath(*path).read_text())
    return found
