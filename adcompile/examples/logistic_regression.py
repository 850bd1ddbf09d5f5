"""Logistic regression with an intercept and an L2 term, on the Breast Cancer Wisconsin (Diagnostic) data.

The objective is plain NumPy, without a gradient written by hand:

    value_and_grad = compile_grad(loss)
    result = fit(value_and_grad, data.X, data.y, l2=0.01)

`python -m adcompile demo logistic_regression` does this and shows each step.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

Array = np.ndarray

MEASURES = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points", "symmetry",
            "fractal dimension")
FEATURES = tuple(f"{kind} {measure}" for kind in ("mean", "error of", "worst") for measure in MEASURES)


def loss(parameters: Array, X: Array, y: Array, l2: float) -> Any:
    """Mean logistic loss of labels +1 and -1, with an L2 term on all but the intercept."""
    intercept, w = parameters[0], parameters[1:]
    margin = y * (X @ w + intercept)
    return np.mean(np.logaddexp(0.0, -margin)) + 0.5 * l2 * np.sum(w**2)


class Data(NamedTuple):
    """Standardised features and labels (+1 malignant, -1 benign); a fifth of the rows is held out."""

    X: Array
    y: Array
    X_held: Array
    y_held: Array


def load(seed: int = 0) -> Data:
    """Read the data, shuffle, hold out a fifth, and standardise by what is left."""
    with (files(__package__) / "data" / "wdbc.csv").open() as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    table = np.random.default_rng(seed).permutation(table)
    X, y = table[:, :-1], np.where(table[:, -1] == 0, 1.0, -1.0)
    held = len(table) // 5
    mean, std = X[held:].mean(axis=0), X[held:].std(axis=0)
    X = (X - mean) / std
    return Data(X[held:], y[held:], X[:held], y[:held])


def fit(value_and_grad: Callable[..., Any], X: Array, y: Array, l2: float,
        callback: Callable[..., None] | None = None) -> OptimizeResult:
    """Minimise with L-BFGS from zero; `value_and_grad` gives scipy both numbers that it asks for (`jac=True`)."""
    start = np.zeros(X.shape[1] + 1)
    return minimize(value_and_grad, start, args=(X, y, l2), jac=True, method="L-BFGS-B", callback=callback)


def predict(parameters: Array, X: Array) -> Array:
    """The more likely label of each row."""
    return np.where(X @ parameters[1:] + parameters[0] > 0.0, 1.0, -1.0)
