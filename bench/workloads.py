"""What is measured: a function, its arguments, and the contenders that compute its value and gradient."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import gmm
from corpus import CORPUS

from . import hand

Call = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A function to differentiate, with arguments and hand-written gradients to compare with.

    `hand` and `numpy_gradient` return `(value, gradient)` as `compile_grad` does.
    """

    name: str
    function: Call
    arguments: Callable[[], tuple]
    hand: Call
    wrt: Any = 0
    numpy_gradient: Call | None = None
    tolerance: float = 1e-9

    def compiled(self) -> Any:
        """By adcompile."""
        from adcompile import compile_grad
        return compile_grad(self.function, wrt=self.wrt)


def rosenbrock_numpy(x: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of Rosenbrock's function, in NumPy by hand."""
    t, u = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
    g = np.zeros_like(x)
    g[:-1] = -400.0 * x[:-1] * t - 2.0 * u
    g[1:] += 200.0 * t
    return float(np.sum(100.0 * t ** 2 + u ** 2)), g


def sum_of_squares_numpy(x: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of sum(x**2), in NumPy by hand."""
    return float(np.sum(x ** 2)), 2.0 * x


def logistic_numpy(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of the logistic loss, in NumPy by hand."""
    e = np.exp(-y * (X @ w))
    return float(np.sum(np.log1p(e))), X.T @ (-y * e / (1.0 + e))


def mixture_numpy(*p: Any) -> tuple[float, tuple]:
    """Value and gradient of the mixture, in NumPy by hand."""
    return float(gmm.gmm_einsum(*p)), gmm.closed_form(gmm.Problem(*p))


def normal(*shape: int) -> np.ndarray:
    """Normal numbers, the same at every call."""
    return np.random.default_rng(0).normal(size=shape)


def classification(n: int, d: int) -> tuple:
    """Weights, design matrix and labels."""
    return 0.1 * normal(d), normal(n, d), np.sign(normal(n, 1)[:, 0])


def table() -> list[Workload]:
    """All workloads."""
    rosenbrock, squares = CORPUS["rosenbrock"].function, CORPUS["sum_of_squares"].function
    logistic = CORPUS["logistic_loss"].function
    found = [Workload(f"rosenbrock n={n}", rosenbrock, lambda n=n: (normal(n),), hand.rosenbrock,
                      numpy_gradient=rosenbrock_numpy) for n in (2, 1000)]
    found += [Workload("sum of squares n=10", squares, lambda: (normal(10),), hand.sum_of_squares,
                       numpy_gradient=sum_of_squares_numpy)]
    found += [Workload(f"logistic regression {n}x{d}", logistic, lambda n=n, d=d: classification(n, d), hand.logistic,
                       numpy_gradient=logistic_numpy) for n, d in ((1000, 10), (10_000, 50), (200_000, 50))]
    found += [Workload(f"mixture {name}", gmm.gmm_einsum, lambda name=name: tuple(gmm.read(f"gmm_{name}")), hand.mixture,
                       wrt=("alpha", "mu", "q", "low"), numpy_gradient=mixture_numpy) for name in ("d2_K5", "d10_K5", "d20_K10")]
    return found
