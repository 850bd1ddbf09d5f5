"""Faults that were found once, each with the smallest program that showed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from conftest import assert_close

from adcompile import compile_grad


def gradient_by_differences(f: Callable[..., Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a scalar function of one array."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        found[place] = (f(x + moved) - f(x - moved)) / (2 * step)
    return found


# ---------------------------------------------------------------------------------------------------- schedule
def test_clearing_loop_does_not_reuse_the_name_of_the_loop_around_it(rng: np.random.Generator) -> None:
    def f(x):
        shifted = np.roll(x, 1, axis=1)
        d = np.diff(shifted, axis=0)
        return np.mean(d * d) + np.mean(d * d) + np.sum(np.cos(x))

    compiled = compile_grad(f)
    for shape in ((4, 3), (2, 1), (3, 1), (6, 2)):
        x = rng.normal(size=shape)
        value, gradient = compiled(x)
        assert_close(value, f(x))
        assert_close(gradient, gradient_by_differences(f, x), rtol=1e-6, atol=1e-6)
