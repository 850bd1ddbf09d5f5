"""Lynx and hare: the Lotka-Volterra model fitted to the pelts that the Hudson's Bay Company collected from 1900 to 1920.

    d hare / dt = (birth - eaten * lynx) * hare
    d lynx / dt = (fed * hare - death) * lynx

The model is integrated by the Runge-Kutta method of order four, written as plain loops over years and steps. Observations have
log-normal errors. The eight parameters are positive, and their logarithms are fitted: four rates, the two populations of the
first year, and the two noise scales.

    value_and_grad = compile_grad(loss)
    result = fit(value_and_grad, data)

`python -m adcompile demo lynx-hare` does this and shows each step.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

Array = np.ndarray

PARAMETERS = ("birth", "eaten", "death", "fed", "hares in 1900", "lynx in 1900", "noise of hares", "noise of lynx")
START = (0.5, 0.03, 0.8, 0.03, 30.0, 4.0, 0.3, 0.3)
STEPS = 20                                      # of the integrator in a year


def rates(hare: Any, lynx: Any, birth: Any, eaten: Any, death: Any, fed: Any) -> tuple[Any, Any]:
    """How fast the two populations change."""
    return (birth - eaten * lynx) * hare, (fed * hare - death) * lynx


def step(hare: Any, lynx: Any, h: Any, birth: Any, eaten: Any, death: Any, fed: Any) -> tuple[Any, Any]:
    """One Runge-Kutta step of length h."""
    k1, l1 = rates(hare, lynx, birth, eaten, death, fed)
    k2, l2 = rates(hare + h / 2 * k1, lynx + h / 2 * l1, birth, eaten, death, fed)
    k3, l3 = rates(hare + h / 2 * k2, lynx + h / 2 * l2, birth, eaten, death, fed)
    k4, l4 = rates(hare + h * k3, lynx + h * l3, birth, eaten, death, fed)
    hare += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    lynx += h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
    return hare, lynx


def loss(logs: Array, hares: Array, lynxes: Array, steps: int) -> Any:
    """Minus the log likelihood of the pelts, without constants."""
    birth, eaten, death, fed, hare, lynx, noise_hare, noise_lynx = np.exp(logs)
    total = 0.0
    for year in range(len(hares)):
        if year > 0:
            for _ in range(steps):
                hare, lynx = step(hare, lynx, 1.0 / steps, birth, eaten, death, fed)
        total += 0.5 * (np.log(hares[year] / hare) / noise_hare) ** 2 + np.log(noise_hare)
        total += 0.5 * (np.log(lynxes[year] / lynx) / noise_lynx) ** 2 + np.log(noise_lynx)
    return total


class Data(NamedTuple):
    """Thousands of pelts in each year."""

    years: Array
    hares: Array
    lynxes: Array


def load() -> Data:
    """Read the data."""
    with (files(__package__) / "data" / "hudson_bay.csv").open() as file:
        years, lynxes, hares = np.loadtxt(file, delimiter=",", skiprows=1, unpack=True)
    return Data(years.astype(int), np.ascontiguousarray(hares), np.ascontiguousarray(lynxes))


def fit(value_and_grad: Callable[..., Any], data: Data, callback: Callable[..., None] | None = None) -> OptimizeResult:
    """Minimise with L-BFGS from a guess by eye; `value_and_grad` gives scipy both numbers that it asks for (`jac=True`)."""
    return minimize(value_and_grad, np.log(START), args=(data.hares, data.lynxes, STEPS), jac=True, method="L-BFGS-B",
                    callback=callback, options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-6})


def simulate(logs: Array, years: int, points: int = STEPS) -> tuple[Array, Array]:
    """Both populations of the model at `points` times a year, for plots."""
    birth, eaten, death, fed, hare, lynx = (float(p) for p in np.exp(logs[:6]))
    path = [(hare, lynx)]
    for _ in range((years - 1) * points):
        hare, lynx = step(hare, lynx, 1.0 / points, birth, eaten, death, fed)
        path.append((hare, lynx))
    hares, lynxes = np.array(path).T
    return hares, lynxes


def plot(logs: Array, data: Data, path: Path) -> Path | None:
    """Draw model and data into a file (the format is that of its suffix); None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    times = np.linspace(data.years[0], data.years[-1], (len(data.years) - 1) * STEPS + 1)
    models = simulate(logs, len(data.years))
    for name, pelts, model, colour in zip(("hares", "lynx"), data[1:], models, ("C1", "C0"), strict=True):
        axes.plot(times, model, color=colour, label=f"{name}, model")
        axes.plot(data.years, pelts, "o", color=colour, label=f"{name}, collected")
    axes.set(xlabel="year", ylabel="pelts (thousands)")
    axes.legend()
    figure.savefig(path)
    return path
