"""Faults of loops, branches and assignment that were found once, each with the smallest program that showed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close

from adcompile import compile_grad

pytestmark = pytest.mark.plain


def check(f: Callable[..., Any], *calls: tuple[Any, ...], step: float = 1e-6) -> Any:
    """Value and gradient (of the first argument) of one compiled object against Python and central differences."""
    compiled = compile_grad(f)
    for args in calls:
        x = np.array(args[0], dtype=float)
        expected = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            moved = np.zeros(x.shape)
            moved[place] = step
            high, low = (f(y if x.ndim else float(y), *args[1:]) for y in (x + moved, x - moved))
            expected[place] = (high - low) / (2 * step)
        value, gradient = compiled(*args)
        assert_close(value, f(*args))
        assert_close(gradient, expected, rtol=1e-5, atol=1e-5)
    return compiled


def test_a_state_whose_length_is_found_out_in_the_loop_is_carried(rng: np.random.Generator) -> None:
    def rhs(u, p):
        return np.array([p[0] * u[0] - p[1] * u[0] * u[1], -p[2] * u[1] + p[3] * u[0] * u[1]])

    def loss(p, data, start):
        u, h, s = start, 0.1, 0.0
        for t in range(len(data)):
            k1 = rhs(u, p)
            k2 = rhs(u + h / 2 * k1, p)
            k3 = rhs(u + h / 2 * k2, p)
            k4 = rhs(u + h * k3, p)
            u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            s += np.sum((np.log(u) - np.log(data[t])) ** 2)
        return s

    p, start = np.array([0.55, 0.028, 0.84, 0.026]), np.array([30.0, 4.0])
    source = check(loss, *((p, rng.uniform(1, 20, (n, 2)), start) for n in (21, 30))).source
    assert source.count("\n    for ") == 2 and "        for " not in source


def test_lists_that_loops_filled_within_lists_become_an_array(rng: np.random.Generator) -> None:
    def f(x):
        rows = [[x[i, j] * (i + j) for j in range(x.shape[1])] for i in range(3)]
        return np.sum(np.array(rows) ** 2)

    check(f, (rng.normal(size=(3, 4)),), (rng.normal(size=(3, 6)),))


def test_assignment_expressions_in_conditions(rng: np.random.Generator) -> None:
    def f(x):
        s, i = 0.0, 0
        while (v := x[i]) < 1.5 and i < len(x) - 1:
            if (w := v * v) > 0.5 and w < 2:
                s += w
            i += 1
        return s + i + v

    check(f, (rng.normal(size=12),), (rng.normal(size=15),))


def test_arrays_that_change_places_are_one_loop(rng: np.random.Generator) -> None:
    def swapped(x, n):
        a, b = x.copy(), np.zeros_like(x)
        for _ in range(n):
            for i in range(1, len(x) - 1):
                b[i] = 0.5 * (a[i - 1] + a[i + 1])
            a, b = b, a
        return np.sum(a * a)

    def views(x, n):
        both = np.zeros((2, len(x)))
        both[0] = x
        now, then = both[0], both[1]
        for _ in range(n):
            then[1:-1] = 0.3 * (now[:-2] + now[1:-1] + now[2:])
            now, then = then, now
        return np.sum(now**2)

    def three(x, n):
        a, b, c = x.copy(), x**2, np.zeros_like(x)
        for k in range(n):
            a, b, c = b, c, a
            a[k % 3] += b[0]
            c[0] = b[1] * 0.3
        return np.sum(a + 2 * b + 3 * c)

    for f in (swapped, views, three):
        compiled = check(f, (rng.normal(size=8), 20), (rng.normal(size=11), 31))
        assert len(compiled.specialisations) == 1 and len(compiled.source.splitlines()) < 100
