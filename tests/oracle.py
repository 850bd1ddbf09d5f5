"""Right values and gradients without adcompile: NumPy itself, differences, the complex step, and mpmath.

    value(program, args)        what NumPy says
    gradient(program, args)     d value / d wrt: complex step where the function is analytic, else differences
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from corpus import Program

STEP = 1e-4             # of the fourth-order differences, relative to max(1, |x|)
TINY = 1e-30            # of the complex step


def value(program: Program, args: tuple) -> Any:
    """NumPy's value, on copies of the arguments."""
    with np.errstate(all="ignore"):
        return program.function(*copy.deepcopy(args))


def wrt_positions(program: Program) -> list[int]:
    """The positions of the differentiated arguments."""
    names = list(inspect.signature(program.function).parameters)
    wrt = program.wrt if isinstance(program.wrt, tuple) else (program.wrt,)
    return [names.index(w) if isinstance(w, str) else w for w in wrt]


def gradient(program: Program, args: tuple) -> Any:
    """The gradient in the form `compile_grad` gives: the structure of the argument, a tuple where `wrt` is one."""
    method = complex_step if program.analytic else differences
    found = [gradient_of(program.function, args, position, method) for position in wrt_positions(program)]
    return tuple(found) if isinstance(program.wrt, tuple) else found[0]


Derivative = Callable[[Callable[[Any], Any], Any], np.ndarray]


def gradient_of(function: Callable[..., Any], args: tuple, position: int, derivative: Derivative | None = None) -> Any:
    """The gradient with respect to one argument, in its structure. Everything is computed in double precision; the entries
    have the dtype of the argument's."""
    derivative = derivative or differences
    wide = tuple(map_leaves(widen, a) for a in args)
    leaves = list(leaves_of(wide[position]))
    kinds = list(leaves_of(args[position]))
    found = []
    for index, leaf in enumerate(leaves):
        def of_leaf(x: Any, index: int = index) -> Any:
            changed = iter([*leaves[:index], x, *leaves[index + 1:]])
            moved = map_leaves(lambda _: next(changed), wide[position])
            with np.errstate(all="ignore"):
                return function(*copy.deepcopy(wide[:position]), moved, *copy.deepcopy(wide[position + 1:]))
        slope = derivative(of_leaf, leaf)
        kind = kinds[index]
        found.append(slope.astype(kind.dtype) if isinstance(kind, np.ndarray) else float(slope))
    remaining = iter(found)
    return map_leaves(lambda _: next(remaining), args[position])


def differences(function: Callable[[Any], Any], x: Any, step: float = STEP) -> np.ndarray:
    """Fourth-order central differences of a scalar function, entry by entry."""
    base = np.array(x, dtype=float)
    slope = np.zeros(base.shape)
    for k in np.ndindex(*base.shape):
        h = step * max(1.0, abs(base[k]))
        around = []
        for multiple in (-2, -1, 1, 2):
            moved = base.copy()
            moved[k] += multiple * h
            around.append(float(function(like(moved, x))))
        slope[k] = (around[0] - 8 * around[1] + 8 * around[2] - around[3]) / (12 * h)
    return slope


def complex_step(function: Callable[[Any], Any], x: Any) -> np.ndarray:
    """Im f(x + ih) / h: exact to rounding, for functions that are analytic and written so that complex numbers pass through."""
    base = np.array(x, dtype=complex)
    slope = np.zeros(base.shape)
    for k in np.ndindex(*base.shape):
        moved = base.copy()
        moved[k] += TINY * 1j
        slope[k] = np.imag(function(like(moved, x))) / TINY
    return slope


def mpmath_value(function: Callable[..., Any], *args: float, digits: int = 40) -> float:
    """A scalar mpmath function at exact double arguments, rounded once at the end."""
    with mpmath.workdps(digits):
        return float(mpmath.re(function(*[mpmath.mpf(a) for a in args])))


def mpmath_slope(function: Callable[..., Any], index: int, *args: float, digits: int = 40) -> float:
    """Its derivative in one argument, rounded once at the end."""
    with mpmath.workdps(2 * digits):
        point = [mpmath.mpf(a) for a in args]
        order = tuple(int(i == index) for i in range(len(args)))
        slope = mpmath.diff(function, tuple(point), order) if len(args) > 1 else mpmath.diff(function, point[0])
        return float(mpmath.re(slope))


# ---------------------------------------------------------------------------------------------------- structures
def like(x: np.ndarray, original: Any) -> Any:
    """`x` as a plain number if the original leaf was one."""
    return x if isinstance(original, np.ndarray) else x.item()


def is_leaf(x: Any) -> bool:
    """An array or a real number that carries a derivative."""
    return isinstance(x, (float, np.floating, np.ndarray))


def widen(x: Any) -> Any:
    """A float array in double precision."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def leaves_of(tree: Any) -> Iterator[Any]:
    """The leaves of tuples, lists, dicts, NamedTuples and dataclasses, in order."""
    found: list[Any] = []
    map_leaves(found.append, tree)
    return iter(found)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with `function` applied to each leaf; what is no leaf stays."""
    if is_leaf(tree):
        return function(tree)
    if isinstance(tree, dict):
        return {k: map_leaves(function, v) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, v) for v in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(function, v) for v in tree)
    fields = getattr(type(tree), "__dataclass_fields__", None)
    if fields:
        return type(tree)(**{name: map_leaves(function, getattr(tree, name)) for name in fields})
    return tree
