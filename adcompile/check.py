"""`check_grad`: a compiled gradient against differences of the plain Python function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .api import CompiledGrad, compile_grad
from .runtime.dispatch import flatten_like

CUBE_ROOT_EPSILON = float(np.finfo(np.float64).eps) ** (1 / 3)
COMPLEX_STEP = 1e-30


@dataclass(frozen=True)
class Entry:
    """One compared entry of the gradient. `method`: "complex step" (exact to rounding) or "differences"."""

    where: str
    gradient: float
    reference: float
    method: str
    tolerance: float

    @property
    def error(self) -> float:
        """How far it is off, relative to the reference where that is above 1."""
        if self.gradient == self.reference or (np.isnan(self.gradient) and np.isnan(self.reference)):
            return 0.0
        return float(abs(self.gradient - self.reference) / max(1.0, abs(self.reference)))

    @property
    def ok(self) -> bool:
        """Whether it agrees; NaN agrees with NaN only."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        return (f"{self.where}: gradient {self.gradient:.12g}, {self.method} {self.reference:.12g}, "
                f"relative difference {self.error:.1e}{'' if self.ok else '  <-- differs'}")


@dataclass(frozen=True)
class GradientCheck:
    """The outcome; true in a condition if all entries agree."""

    entries: tuple[Entry, ...]

    @property
    def worst(self) -> Entry:
        """The entry that is off most, by its own tolerance."""
        return max(self.entries, key=lambda e: np.inf if np.isnan(e.error) else e.error / e.tolerance)

    def __bool__(self) -> bool:
        return all(e.ok for e in self.entries)

    def __str__(self) -> str:
        wrong = [e for e in self.entries if not e.ok]
        if not wrong:
            return f"all {len(self.entries)} entries agree; worst {self.worst}" if self.entries else "the gradient has no entries"
        return "\n".join([f"{len(wrong)} of {len(self.entries)} entries differ", *map(str, wrong[:20])])

    __repr__ = __str__


def check_grad(f: Any, *args: Any, max_entries: int = 200) -> GradientCheck:
    """Compare a gradient with the complex step and with differences of the plain Python function.

    **Arguments** `f`: a compiled gradient, or a function (then its gradient with respect to the first argument). `args`: where.
    `max_entries`: of larger arrays, as many evenly spread entries are compared.

    **Returns** a `GradientCheck`: true if all agree; printed, it says which entries differ and by how much.

        >>> print(check_grad(lambda x: np.sum(np.sin(x)), np.array([1.0, 2.0])))    # doctest: +ELLIPSIS
        all 2 entries agree; worst ...
    """
    compiled = f if isinstance(f, CompiledGrad) else compile_grad(f)
    gradient = compiled(*args)[1]
    specialisation, _ = compiled.dispatch.find_or_make(args, {})
    arguments = dict(compiled.dispatch.bind(args, {}))
    tree = specialisation.writer.gradient_tree()
    gradients = flatten_like(gradient, tree, "gradient")
    function = compiled.function if compiled.expression is None else compiled.value       # a SymPy expression is no function
    entries: list[Entry] = []
    for index, g in zip(specialisation.wrt_order, gradients):
        source = specialisation.signature.inputs[index]
        value = Replacer(function, arguments, compiled.dispatch.signature, source.access, compiled.options.has_aux)
        entries += compare_leaf(value, source.text, np.asarray(g), max_entries)
    return GradientCheck(tuple(entries))


class Replacer:
    """The plain function of one entry of one leaf, all else fixed."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any], signature: Any, access: Any,
                 has_aux: bool) -> None:
        self.function, self.arguments, self.signature, self.access, self.has_aux = function, arguments, signature, access, has_aux
        self.leaf = np.asarray(access.read(arguments), dtype=np.float64)

    def __call__(self, entry: tuple[int, ...], step: complex) -> Any:
        """The value with one entry moved by `step`."""
        moved = self.leaf.astype(np.result_type(self.leaf, type(step)))
        moved[entry] += step
        root, steps = self.access.root.name, self.access.steps
        arguments = {**self.arguments, root: replaced(self.arguments[root], steps, moved if moved.ndim else moved[()])}
        bound = self.signature.bind_partial()
        bound.arguments.update(arguments)
        with np.errstate(all="ignore"):
            result = self.function(*bound.args, **bound.kwargs)
        return result[0] if self.has_aux else result


def replaced(tree: Any, steps: tuple[tuple[str, Any], ...], leaf: Any) -> Any:
    """A copy of a tree of arguments with one leaf replaced."""
    if not steps:
        return leaf
    (kind, key), rest = steps[0], steps[1:]
    if kind == "attr":
        child = replaced(getattr(tree, key), rest, leaf)
        if hasattr(tree, "_replace"):
            return tree._replace(**{key: child})
        return dataclasses.replace(tree, **{key: child})
    child = replaced(tree[key], rest, leaf)
    if isinstance(tree, dict):
        return {**tree, key: child}
    return type(tree)(child if i == key else old for i, old in enumerate(tree))


def compare_leaf(value: Replacer, text: str, gradient: np.ndarray, limit: int) -> Iterator[Entry]:
    """Compare the entries of one gradient."""
    total = gradient.size
    chosen = range(total) if total <= limit else np.unique(np.linspace(0, total - 1, limit).astype(int))
    for flat in chosen:
        entry = tuple(int(i) for i in np.unravel_index(flat, gradient.shape)) if gradient.ndim else ()
        where = f"{text}[{', '.join(map(str, entry))}]" if entry else text
        reference, method, tolerance = reference_derivative(value, entry)
        yield Entry(where, float(gradient[entry]), reference, method, tolerance)


def reference_derivative(value: Replacer, entry: tuple[int, ...]) -> tuple[float, str, float]:
    """The derivative, how it was found, and how far it can be trusted."""
    step = CUBE_ROOT_EPSILON ** 0.6 * max(1.0, abs(float(value.leaf[entry])))
    near = (value(entry, step) - value(entry, -step)) / (2 * step)
    far = (value(entry, 2 * step) - value(entry, -2 * step)) / (4 * step)
    differences = float((4 * near - far) / 3)
    tolerance = max(1e-6, float(abs(near - far)) / max(1.0, abs(differences)))
    try:
        exact = float(np.imag(value(entry, COMPLEX_STEP * 1j)) / COMPLEX_STEP)
    except Exception:                   # the function does not take complex numbers
        return differences, "differences", tolerance
    if abs(exact - differences) <= tolerance * max(1.0, abs(differences)):
        return exact, "complex step", 1e-9
    return differences, "differences", tolerance
