"""Checks a gradient against differences and, where the function takes complex numbers, the complex step.

    report = check_grad(f, w, X, y)          f(*args) -> (value, gradient), f.value(*args) -> value
    report.ok, print(report)

Nothing here knows how the gradient was made. Differences are central and of fourth order, with a step that suits each
entry; their own error is estimated from a second step length, and an entry is only called wrong when the gradient is
further off than that estimate explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WEIGHTS = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


@dataclass(frozen=True)
class Entry:
    """One entry of the gradient: where it is, what the gradient says, what differences say, how sure those are."""

    argument: int
    index: tuple[int, ...]
    gradient: float
    numeric: float
    uncertainty: float

    @property
    def difference(self) -> float:
        """How far apart the two are; infinite where exactly one of them is NaN or they are different infinities."""
        if self.gradient == self.numeric or (np.isnan(self.gradient) and np.isnan(self.numeric)):
            return 0.0
        gap = abs(self.gradient - self.numeric)
        return float(gap) if np.isfinite(gap) else float("inf")

    def ok(self, rtol: float, atol: float) -> bool:
        """Whether they agree within the tolerances and what differences can tell."""
        return self.difference <= atol + rtol * max(abs(self.gradient), abs(self.numeric)) + 4 * self.uncertainty

    def __str__(self) -> str:
        where = f"argument {self.argument}" + (f"[{', '.join(map(str, self.index))}]" if self.index else "")
        return f"{where}: gradient {self.gradient:.12g}, differences {self.numeric:.12g} (off by {self.difference:.3g})"


@dataclass(frozen=True)
class Report:
    """The result of a check: all entries that were compared and those that disagree, worst first."""

    entries: tuple[Entry, ...]
    wrong: tuple[Entry, ...]

    @property
    def ok(self) -> bool:
        """Whether every entry agrees."""
        return not self.wrong

    def __bool__(self) -> bool:
        return self.ok

    @property
    def worst(self) -> float:
        """The largest difference, relative to the larger of 1 and the entry."""
        return max((e.difference / max(1.0, abs(e.numeric)) for e in self.entries), default=0.0)

    def __str__(self) -> str:
        if self.ok:
            return f"gradient agrees with differences in all {len(self.entries)} entries (largest difference {self.worst:.2g})"
        shown = [f"  {entry}" for entry in self.wrong[:10]]
        more = [f"  ... and {len(self.wrong) - 10} more"] if len(self.wrong) > 10 else []
        return "\n".join([f"gradient differs in {len(self.wrong)} of {len(self.entries)} entries:", *shown, *more])


def check_grad(f: Any, *args: Any, wrt: int | Sequence[int] = 0, rtol: float = 1e-6, atol: float = 1e-8) -> Report:
    """Compare the gradient that `f(*args)` gives with differences of `f.value`.

    Arguments: `f(*args) -> (value, gradient)` with `f.value(*args) -> value`; `wrt`: the position or positions of the
    differentiated arguments (arrays or numbers), as they were given to the compiler. Returns a report, which is true if the
    gradient is right, and whose text names the entries that differ and by how much.
    """
    single = isinstance(wrt, int)
    positions: tuple[int, ...] = (wrt,) if isinstance(wrt, int) else tuple(wrt)
    _, gradient = f(*args)
    gradients = (gradient,) if single else tuple(gradient)
    entries: list[Entry] = []
    for position, ours in zip(positions, gradients, strict=True):
        numeric, uncertainty = differences(scalar_value(f.value), args, position)
        ours = np.asarray(ours, dtype=np.float64)
        if ours.shape != numeric.shape:
            raise ValueError(f"the gradient of argument {position} has shape {ours.shape}, the argument {numeric.shape}")
        entries += [Entry(position, index, float(ours[index]), float(numeric[index]), float(uncertainty[index]))
                    for index in np.ndindex(numeric.shape)]
    wrong = sorted((e for e in entries if not e.ok(rtol, atol)), key=lambda e: -e.difference)
    return Report(tuple(entries), tuple(wrong))


def scalar_value(value: Callable[..., Any]) -> Callable[..., float]:
    """The function's first result, if it has auxiliary ones."""
    def first(*args: Any) -> float:
        result = value(*args)
        return float(result[0] if isinstance(result, tuple) else result)
    return first


def differences(value: Callable[..., float], args: Sequence[Any], position: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient by differences with respect to one argument, and an estimate of its error."""
    x = np.array(args[position], dtype=np.asarray(args[position]).dtype, copy=True)
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    gradient, uncertainty = np.zeros(x.shape), np.zeros(x.shape)
    epsilon = float(np.finfo(x.dtype).eps)
    for index in np.ndindex(x.shape):
        scale = max(abs(float(x[index])), 1.0)
        coarse, fine = (stencil(value, args, position, x, index, scale * step) for step in (epsilon**0.2, 0.5 * epsilon**0.2))
        gradient[index], uncertainty[index] = fine, abs(coarse - fine)
    return gradient, uncertainty


def stencil(value: Callable[..., float], args: Sequence[Any], position: int, x: np.ndarray, index: tuple[int, ...],
            step: float) -> float:
    """The central difference of fourth order in one entry."""
    total, used = 0.0, 0.0
    for offset, weight in WEIGHTS:
        moved = x.copy()
        moved[index] += offset * step
        used += weight * float(moved[index] - x[index])          # the step that was really taken, after rounding
        total += weight * value(*args[:position], moved if moved.ndim else moved.item(), *args[position + 1:])
    return total / used if used else float("nan")


def complex_step(value: Callable[..., Any], args: Sequence[Any], position: int) -> np.ndarray | None:
    """The gradient by the complex step, exact to rounding, for a function made of analytic operations that take complex
    numbers; None where the function does not."""
    x = np.asarray(args[position], dtype=np.complex128)
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        moved = x.copy()
        moved[index] += 1e-200j
        try:
            result = value(*args[:position], moved if moved.ndim else moved.item(), *args[position + 1:])
        except (TypeError, ValueError):
            return None
        if not np.iscomplexobj(result):
            return None
        gradient[index] = np.imag(result) / 1e-200
    return gradient
