"""What a kernel assumes about its arguments, said once and in the fewest words: where sizes are read, and what is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.core import Function, Guard, Size, Value
from ..ir.dims import Dim
from ..ir.loops import Apply, If, Raise, SizeOf
from ..ir.types import Type

ONE, ZERO = Dim.of(1), Dim.of(0)
NEGATION = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def settled(function: Function) -> Function:
    """The function with every size read from the array that gives most of them, and without guards that others imply."""
    integers = {symbol for symbol, size in function.sizes.items() if size.axis is None}
    return Function(function.name, function.body, homes(function), strongest(function.guards, integers))


def homes(function: Function) -> dict[str, Size]:
    """Where each size is read: `n, d = X.shape` rather than from two arrays."""
    axes: dict[int, dict[str, int]] = {}
    for k, p in enumerate(function.params):
        axes[k] = {d.bare_symbol: a for a, d in reversed(list(enumerate(p.type.dims))) if d.bare_symbol}
    found = {symbol: size for symbol, size in function.sizes.items() if size.axis is None}
    missing = {symbol for symbol in function.sizes if symbol not in found}
    while missing:
        best = max(axes, key=lambda k: len(missing & set(axes[k])), default=None)
        if best is None or not missing & set(axes[best]):
            break
        found |= {symbol: Size(best, axes[best][symbol]) for symbol in missing & set(axes[best])}
        missing -= set(axes[best])
    return {symbol: found.get(symbol, size) for symbol, size in function.sizes.items()}


# ------------------------------------------------------------------------------------------------ guards
def excess(guard: Guard) -> Dim | None:
    """An inequality as the polynomial that must not be negative; None for == and !=."""
    difference = guard.left - guard.right
    return {">=": difference, ">": difference - 1, "<=": -difference, "<": -difference - 1}.get(guard.relation)


def strongest(guards: Iterable[Guard], integers: set[str]) -> tuple[Guard, ...]:
    """The guards that no other one implies, as `sizes >= sizes`."""
    least: dict[Dim, tuple[int, Guard]] = {}
    kept: dict[Guard, None] = {}
    for guard in guards:
        polynomial = excess(guard)
        if polynomial is None:
            kept[guard] = None
            continue
        constant = dict(polynomial.terms).get((), 0)
        form = polynomial - constant
        if form not in least or constant < least[form][0]:
            least[form] = (constant, guard)
    for form, (constant, guard) in least.items():
        never_negative = constant >= 0 and all(c > 0 for _, c in form.terms) and not form.symbols & integers
        if not never_negative:
            kept[ordered(form, constant, guard)] = None
    return tuple(kept)


def ordered(form: Dim, constant: int, guard: Guard) -> Guard:
    """`form + constant >= 0` with every term on the side where it is positive."""
    left = Dim(tuple(t for t in form.terms if t[1] > 0))
    right = -Dim(tuple(t for t in form.terms if t[1] < 0))
    if left == ZERO:
        return Guard(right, "<=", Dim.of(constant), guard.location)
    return Guard(left + max(constant, 0), ">=", right - min(constant, 0), guard.location)


# ------------------------------------------------------------------------------------------------ checks
class Checks:
    """The checks at the start of a kernel."""

    def __init__(self, function: Function, parameters: tuple[tuple[str, Type], ...]) -> None:
        self.function, self.parameters = function, parameters
        self.found: list[If] = []

    def fail(self, code: str, operands: tuple[Dim, ...], text: str) -> None:
        """Raise ValueError(text) where the condition is true."""
        self.found.append(If(Apply(code, tuple(map(SizeOf, operands))), (Raise("ValueError", text),)))

    def arguments(self) -> None:
        """The lengths that are not where a size is read."""
        for k, (name, type) in enumerate(self.parameters):
            for axis, dim in enumerate(type.dims):
                if self.function.sizes.get(dim.bare_symbol or "") != Size(k, axis):
                    self.fail(f"{name}.shape[{axis}] != {{0}}", (dim,), f"{name}.shape[{axis}] is not {self.text(dim)}")

    def buffers(self, gradients: tuple[tuple[str, Type], ...], of: tuple[int, ...]) -> None:
        """Gradients are shaped as what they are the gradients of."""
        for (name, type), k in zip(gradients, of, strict=True):
            if type.dims:
                source = self.parameters[k][0]
                self.fail(f"{name}.shape != {source}.shape", (), f"{name}.shape is not {source}.shape")

    def sizes(self, empty: Mapping[Dim, str]) -> None:
        """The guards, and what NumPy says where an axis is empty: its words win over those of a guard."""
        demanded = {g.left: g.right for g in self.function.guards if g.relation == ">="}
        for dim, text in empty.items():
            if demanded.get(dim, ONE) == ONE:
                self.fail("{0} == 0", (dim,), text)
        for guard in self.function.guards:
            if guard.relation == ">=" and guard.right == ONE and guard.left in empty:
                continue
            text = f"this kernel is for {self.text(guard.left)} {guard.relation} {self.text(guard.right)}"
            self.fail(f"{{0}} {NEGATION[guard.relation]} {{1}}", (guard.left, guard.right), text)

    def text(self, dim: Dim) -> str:
        """A size in the user's terms: `X.shape[1]`."""
        text = str(dim)
        for symbol, size in sorted(self.function.sizes.items(), key=lambda item: -len(item[0])):
            if size.axis is not None:
                text = text.replace(symbol, f"{self.parameter(size).name}.shape[{size.axis}]")
        return text

    def parameter(self, size: Size) -> Value:
        """The parameter that a size is read from."""
        return self.function.params[size.parameter]
