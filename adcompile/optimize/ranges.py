"""What is known of integers while a function is read: their values as polynomials in sizes and loop indices, and bounds.

A loop index is the symbol "%" + its name, so that no size symbol can be meant. With the `Sizes` of a capture, a relation of
sizes that is not plain is looked up in the call that was captured and, if true there, assumed: it becomes a guard.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..ir.core import Function, Literal, Location, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.sizes import Sizes
from ..ir.types import DType, Type

ZERO, ONE = Dim.of(0), Dim.of(1)
INTEGER = Type(DType.i64)


def index_symbol(index: Value) -> str:
    """The symbol of a loop index."""
    return "%" + index.name


def index_symbols(dim: Dim) -> list[str]:
    """The loop indices that occur."""
    return sorted(s for s in dim.symbols if s.startswith("%"))


class Ranges:
    """Facts about sizes and integer scalars."""

    def __init__(self, function: Function, sizes: Sizes | None) -> None:
        self.function, self.sizes = function, sizes
        self.location: Location | None = None
        self.known: dict[Value, Dim] = {}
        self.between: dict[Value, tuple[Dim, Dim]] = {}         # smallest and largest value, where no polynomial is known
        self.indices: dict[str, tuple[Value, Dim | None, Dim | None]] = {}        # symbol -> index, from, below
        self.wide: list[dict[str, tuple[Value, Dim | None, Dim | None]]] = []      # what `indices` was outside branches
        self.lengths = {s for s, size in function.sizes.items() if size.axis is not None}
        for symbol, size in function.sizes.items():
            if size.axis is None:
                self.known[function.params[size.parameter]] = Dim.symbol(symbol)

    # ------------------------------------------------------------------------------------------------ values
    def dim(self, x: Operand) -> Dim | None:
        """An integer scalar as a polynomial, None where it is not known."""
        if isinstance(x, Literal):
            return Dim.of(int(x.value.real)) if x.dtype is DType.i64 else None
        found = self.known.get(x)
        return None if found is None else self.resolve(found)

    def resolve(self, dim: Dim) -> Dim:
        """A polynomial after all unifications."""
        return dim if self.sizes is None else self.sizes.resolve(dim)

    def define(self, operation: Operation) -> None:
        """Take note of what an operation defines."""
        if len(operation.results) != 1 or operation.result.type != INTEGER:
            return
        if operation.op == "size":
            self.known[operation.result] = operation.attributes["dim"]
            return
        if operation.op in ("mod", "maximum", "minimum"):
            self.confine(operation)
            return
        operands = [self.dim(x) for x in operation.operands]
        if operation.op not in ("add", "sub", "mul", "neg") or None in operands:
            return
        a, *rest = [d for d in operands if d is not None]
        b = rest[0] if rest else ZERO
        self.known[operation.result] = {"add": a + b, "sub": a - b, "mul": a * b, "neg": -a}[operation.op]

    def confine(self, operation: Operation) -> None:
        """Note the bounds of i % n, max(i, j), min(i, j)."""
        a, b = operation.operands
        if operation.op == "mod":
            divisor = self.dim(b)
            if divisor is not None and not index_symbols(divisor) and self.at_least(divisor, ONE):
                self.between[operation.result] = (ZERO, divisor - 1)
            return
        left, right = self.bounds(a), self.bounds(b)
        if left is None or right is None:
            return
        pick = self.larger if operation.op == "maximum" else self.smaller
        low, high = pick(left[0], right[0]), pick(left[1], right[1])
        if low is not None and high is not None:
            self.between[operation.result] = (low, high)

    def larger(self, a: Dim, b: Dim) -> Dim | None:
        """The larger of two sizes, None where that is not known."""
        return a if self.at_least(a, b) else b if self.at_least(b, a) else None

    def smaller(self, a: Dim, b: Dim) -> Dim | None:
        """The smaller of two sizes, None where that is not known."""
        return b if self.at_least(a, b) else a if self.at_least(b, a) else None

    def bounds(self, x: Operand) -> tuple[Dim, Dim] | None:
        """The smallest and the largest value of an integer over all loop indices."""
        form = self.dim(x)
        if form is None:
            return self.between.get(x) if isinstance(x, Value) else None
        return self.extremes(form)

    @contextmanager
    def loop(self, index: Value, low: Dim | None, high: Dim | None) -> Iterator[None]:
        """Inside: `index` runs from low to high - 1."""
        symbol = index_symbol(index)
        self.indices[symbol] = (index, low, high)
        self.known[index] = Dim.symbol(symbol)
        yield
        del self.indices[symbol]

    @contextmanager
    def where(self, positive: Sequence[Dim]) -> Iterator[None]:
        """Inside: these are not negative, which may narrow what a loop index can be."""
        saved = dict(self.indices)
        for dim in positive:
            self.narrow(dim)
        self.wide.append(saved)
        yield
        self.indices = self.wide.pop()

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Inside: the indices as they are outside all branches."""
        saved, self.indices = self.indices, {s: self.wide[0].get(s, found) for s, found in self.indices.items()}
        yield
        self.indices = saved

    def narrow(self, dim: Dim) -> None:
        """Take note of dim >= 0 where it bounds the innermost loop index that it depends on."""
        for symbol in reversed(self.indices):
            parts = self.linear(dim, symbol)
            if parts is None or parts[1] == ZERO:
                continue
            rest, factor = parts
            index, low, high = self.indices[symbol]
            if factor == ONE and low is not None and self.surely(-rest - low):
                self.indices[symbol] = (index, -rest, high)
            if factor == -ONE and high is not None and self.surely(high - rest - 1):
                self.indices[symbol] = (index, low, rest + 1)
            return

    def surely(self, dim: Dim) -> bool:
        """Whether a polynomial is never negative, without assuming anything."""
        extremes = self.extremes(dim)
        return extremes is not None and self.never_negative(self.resolve(extremes[0]))

    def linear(self, dim: Dim, symbol: str) -> tuple[Dim, Dim] | None:
        """dim = rest + factor * symbol, None where it is not of this form."""
        rest, factor = ZERO, ZERO
        for monomial, coefficient in dim.terms:
            here = sum(atom == symbol for atom in monomial)
            term = Dim(((tuple(a for a in monomial if a != symbol), coefficient),))
            if here > 1 or any(symbol in a.numerator.symbols | a.denominator.symbols for a in monomial if not isinstance(a, str)):
                return None
            rest, factor = (rest, factor + term) if here else (rest + term, factor)
        return rest, factor

    def extremes(self, dim: Dim) -> tuple[Dim, Dim] | None:
        """The smallest and the largest value over all loop indices (if the loops run at all)."""
        low, high = dim, dim
        for symbol in reversed(self.indices):
            _, first, end = self.indices[symbol]
            parts = self.linear(low, symbol), self.linear(high, symbol)
            if parts[0] is None or parts[1] is None:
                return None
            if parts[0][1] == ZERO and parts[1][1] == ZERO:
                continue
            if first is None or end is None:
                return None
            lowest = self.extreme(*parts[0], first, end - 1, largest=False)
            highest = self.extreme(*parts[1], first, end - 1, largest=True)
            if lowest is None or highest is None:
                return None
            low, high = lowest, highest
        return None if index_symbols(low) or index_symbols(high) else (low, high)

    def extreme(self, rest: Dim, factor: Dim, first: Dim, last: Dim, *, largest: bool) -> Dim | None:
        """The smallest or largest value of rest + factor * i for i from first to last."""
        if self.never_negative(factor):
            return rest + factor * (last if largest else first)
        if self.never_negative(-factor):
            return rest + factor * (first if largest else last)
        return None

    # ------------------------------------------------------------------------------------------------ relations
    def never_negative(self, dim: Dim) -> bool:
        """Whether this is plain: a sum of products of lengths."""
        return all(c >= 0 and all(isinstance(a, str) and a in self.lengths for a in m) for m, c in dim.terms)

    def facts(self) -> Iterator[Dim]:
        """Differences that guards keep from being negative."""
        guards = (*self.function.guards, *(self.sizes.guards if self.sizes is not None else ()))
        for guard in guards:
            difference = guard.left - guard.right
            if guard.relation in (">=", "=="):
                yield difference
            if guard.relation in ("<=", "=="):
                yield -difference
            if guard.relation == ">":
                yield difference - 1
            if guard.relation == "<":
                yield -difference - 1

    def at_least(self, a: Dim, b: Dim) -> bool:
        """Whether a >= b for all sizes, by the guards if need be; assumed where it is true of the captured call."""
        difference = self.resolve(a - b)
        if difference.constant is not None:
            return difference.constant >= 0
        facts = [self.resolve(f) for f in self.facts()]
        if self.never_negative(difference) or any(self.never_negative(difference - f) for f in facts):
            return True
        if any(self.never_negative(difference - f - g) for f, g in itertools.combinations(facts, 2)):
            return True
        if self.sizes is None or not difference.symbols <= set(self.sizes.hints) or self.sizes.actual(difference) < 0:
            return False
        return self.sizes.compare(self.resolve(a), ">=", self.resolve(b), self.location)

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes are equal; assumed where they are in the captured call."""
        difference = self.resolve(a - b)
        if difference.constant is not None:
            return difference.constant == 0
        if self.sizes is None or not difference.symbols <= set(self.sizes.hints) or self.sizes.actual(difference) != 0:
            return False
        return self.sizes.equal(self.resolve(a), self.resolve(b), self.location)

    def within(self, low: Dim, high: Dim, length: Dim) -> bool:
        """Whether the places low to high are all on an axis of this length."""
        if not self.at_least(low, ZERO):
            return False
        return self.same(high + 1, length) or self.at_least(length, high + 1)

    @contextmanager
    def tentative(self) -> Iterator[list[bool]]:
        """Assumptions made inside are forgotten unless the list that it gives is filled."""
        keep: list[bool] = []
        saved = (list(self.sizes.guards), dict(self.sizes.replaced)) if self.sizes is not None else ([], {})
        yield keep
        if not keep and self.sizes is not None:
            self.sizes.guards[:], self.sizes.replaced = saved
