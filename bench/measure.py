"""Fair times on a machine that others use too: contenders take turns, and medians are compared."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

BATCH = 0.01            # seconds a contender runs before the next one has its turn
ROUNDS = 25


def timer(call: Callable[..., Any], args: tuple) -> timeit.Timer:
    """A loop around `call(*args)` with nothing else in it."""
    names = [f"a{i}" for i in range(len(args))]
    return timeit.Timer(f"f({', '.join(names)})", globals={"f": call, **dict(zip(names, args, strict=True))})


def interleaved(contenders: Mapping[str, Callable[..., Any]], args: tuple, rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Seconds a call of each contender: median and quartiles over rounds in which all of them run in turn."""
    timers = {name: timer(call, args) for name, call in contenders.items()}
    repeats = {name: repetitions(t) for name, t in timers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, t in timers.items():
            seconds[name].append(t.timeit(repeats[name]) / repeats[name])
    return {name: summary(values) for name, values in seconds.items()}


def repetitions(t: timeit.Timer) -> int:
    """How many calls fill a batch."""
    t.timeit(1)
    number = 1
    while True:
        spent = t.timeit(number)
        if spent > BATCH / 4:
            return max(1, round(number * BATCH / spent))
        number *= 4


def summary(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "low": low, "high": high}


def disagreement(got: Any, wanted: Any) -> float:
    """The largest difference between two (value, gradient) results, relative to the largest entry of each array."""
    worst = 0.0
    for a, b in zip(flat(got), flat(wanted), strict=True):
        if a.shape != b.shape:
            return float("inf")
        gap = np.max(np.abs(a - b), initial=0.0) / max(1.0, np.max(np.abs(b), initial=0.0))
        worst = max(worst, float(gap)) if np.isfinite(gap) else float("inf")
    return worst


def flat(result: Any) -> list[np.ndarray]:
    """The arrays and numbers of a result, in order."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in flat(part)]
    return [np.asarray(result, float)]
