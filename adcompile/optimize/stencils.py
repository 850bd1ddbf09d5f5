"""gather_stencils: a sum of values that are padded to several places becomes a sum of reads at several places.

    pad(x, 0) + pad(x, 1) + pad(x, 2)     becomes     p[0:n] + p[1:n + 1] + p[2:n + 2]     with p: x between zeros

The adjoint of a stencil is such a sum: each entry of the cotangent is sent to the neighbours that were read. Written as reads,
every entry is computed once and in order, so that the loop vectorises. Along the way the parts of one array that come back to
their own places, as the adjoint of an assignment to a part of an array makes them, are put together again.

Needs: verified IR. Leaves: sums of fewer pads. REASSOCIATES.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir.boxes import Box, joined
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from .dce import dce
from .rewrite import Rewriter

SUMS = ("add", "sub", "neg")
ENOUGH = 3                          # along one axis, so many reads in the place of writes


@dataclass(frozen=True)
class Term:
    """`factor * operand` at a place of the sum. `own`: the operand is this array's part at that same place; `cleared`: it is
    `own` with zeros in this part."""

    factor: float
    operand: Operand
    box: Box
    own: Value | None = None
    cleared: Box | None = None


def gather_stencils(function: Function) -> Function:
    """The function with such sums rewritten."""
    driver = Stencils(function)
    return dce(driver.run()) if driver.plans else function


class Stencils(Rewriter):
    """Finds the sums, and rebuilds the function. `plans`: per outermost sum its terms."""

    def __init__(self, function: Function) -> None:
        super().__init__(function, {})
        self.makers: dict[Value, Operation] = {}
        self.plans: dict[Operation, list[Term]] = {}
        self.inner: set[Value] = set()
        self.find(function.body)

    def find(self, block: Block) -> None:
        """Look for sums in a block, outermost ones first."""
        self.makers.update((r, o) for o in block.operations for r in o.results)
        for o in reversed(block.operations):
            for region in o.regions:
                self.find(region)
            if o.op in SUMS and o.result.type.dims and o.result.type.dtype.is_float and o.result not in self.inner:
                terms: list[Term] = []
                self.collect_sum(o, 1.0, Box.whole(o.result.type.dims), terms)
                better = put_together(terms, o.result.type.dims)
                if better is not None:
                    self.plans[o] = better

    def collect_sum(self, o: Operation, factor: float, box: Box, terms: list[Term]) -> None:
        """The terms of a sum."""
        self.inner.add(o.result)
        self.collect(o.operands[0], -factor if o.op == "neg" else factor, box, terms)
        if o.op != "neg":
            self.collect(o.operands[1], -factor if o.op == "sub" else factor, box, terms)

    def collect(self, x: Operand, factor: float, box: Box, terms: list[Term]) -> None:
        """The terms of an operand of a sum."""
        made = self.makers.get(x) if isinstance(x, Value) else None
        if made is not None and len(made.results) == 1 and self.uses[made.result] == 1:
            if made.op in SUMS and made.result.type.dims:
                self.collect_sum(made, factor, box, terms)
                return
            scaled = number_and_value(made)
            if scaled is not None:
                self.collect(scaled[1], factor * scaled[0], box, terms)
                return
            if made.op == "pad" and set(made.attributes["steps"]) <= {1}:
                self.collect(made.operands[0], factor, box.part(made.attributes["starts"], made.operands[0].type.dims), terms)
                return
        terms.append(self.term(x, made, factor, box))

    def term(self, x: Operand, made: Operation | None, factor: float, box: Box) -> Term:
        """A term that is not looked into any further."""
        a = made.attributes if made is not None else {}
        if made is None or not set(a.get("steps", ())) <= {1}:
            return Term(factor, x, box)
        source = made.operands[0] if made.operands else None
        if made.op == "slice" and isinstance(source, Value) and tuple(a["starts"]) == box.starts:
            return Term(factor, x, box, source)
        clears = made.op == "slice_set" and a["axes"] == () and made.operands[1] == literal_like(0.0, x.type.dtype)
        if clears and isinstance(source, Value) and box == Box.whole(x.type.dims):
            return Term(factor, x, box, source, Box(tuple(a["starts"]), a["dims"]))
        return Term(factor, x, box, x if isinstance(x, Value) and box == Box.whole(x.type.dims) else None)

    # ------------------------------------------------------------------------------------------------ rebuilding
    def rewrite(self, operation: Operation) -> None:
        terms = self.plans.get(operation)
        if terms is None:
            super().rewrite(operation)
            return
        self.location = operation.location
        (old,) = operation.results
        new = self.sum(terms, old.type.dims)
        self.values[old] = new
        if isinstance(new, Value):
            self.keep_name(old, new)

    def sum(self, terms: list[Term], dims: tuple[Dim, ...]) -> Operand:
        """The sum of terms: those that fill it, then reads of what has several places, then single parts."""
        whole = Box.whole(dims)
        total: Operand | None = None
        left: dict[Box, Operand | None] = {}
        groups = groups_of(terms)
        for t in terms:
            if t.box == whole and t.operand not in groups:
                total = self.plus(total, t.factor, self.new(t.operand))
            elif t.operand not in groups:
                left[t.box] = self.plus(left.get(t.box), t.factor, self.spread(self.new(t.operand), t.box.dims))
        for operand, group in groups.items():
            total = self.neighbours(total, self.new(operand), group, dims)
        for box, x in left.items():
            assert x is not None
            total = self.plus(total, 1.0, self.emit("pad", (x,), {"starts": box.starts, "steps": (1,) * len(dims), "dims": dims}))
        assert total is not None
        return total

    def plus(self, total: Operand | None, factor: float, x: Operand) -> Operand:
        """total + factor * x."""
        if total is None:
            result: Operand = x if factor == 1 else self.emit("neg", (x,)) if factor == -1 else self.emit("mul", (factor, x))
            return result
        scaled = x if abs(factor) == 1 else self.emit("mul", (abs(factor), x))
        result = self.emit("add" if factor > 0 else "sub", (total, scaled))
        return result

    def spread(self, x: Operand, dims: tuple[Dim, ...]) -> Operand:
        """A number in every entry of a part."""
        result: Operand = x if x.type.dims == dims else self.emit("broadcast", (x,), {"dims": dims, "axes": ()})
        return result

    def neighbours(self, total: Operand | None, x: Operand, group: list[Term], dims: tuple[Dim, ...]) -> Operand | None:
        """Add what an operand gives to all its places: it is laid between zeros, and read at each distance."""
        steps = (1,) * len(dims)
        low = tuple(smallest([t.box.starts[k] for t in group]) for k in range(len(dims)))
        high = tuple(-smallest([-t.box.starts[k] for t in group]) for k in range(len(dims)))
        room = tuple(d - a + b for d, a, b in zip(dims, low, high, strict=True))
        padded = self.emit("pad", (x,), {"starts": high, "steps": steps, "dims": room})
        for t in group:
            starts = tuple(b - a for a, b in zip(t.box.starts, high, strict=True))
            read = padded if room == dims else self.emit("slice", (padded,), {"starts": starts, "steps": steps, "dims": dims})
            total = self.plus(total, t.factor, read)
        return total


def number_and_value(o: Operation) -> tuple[float, Value] | None:
    """The factors of a product with a number."""
    if o.op != "mul" or not o.result.type.dtype.is_float:
        return None
    number, x = o.operands if isinstance(o.operands[0], Literal) else o.operands[::-1]
    if not isinstance(number, Literal) or not isinstance(x, Value) or not 1e-30 < abs(number.value) < 1e30:
        return None
    return float(number.value.real), x


# ------------------------------------------------------------------------------------------------------ putting together
def put_together(terms: list[Term], dims: tuple[Dim, ...]) -> list[Term] | None:
    """The terms with parts of arrays that are at their own places put together; None if nothing is gained."""
    better = terms
    for array in dict.fromkeys(t.own for t in terms if t.own is not None):
        better = restored(better, array, dims)
    return better if better != terms or groups_of(terms) else None


def restored(terms: list[Term], array: Value, dims: tuple[Dim, ...]) -> list[Term]:
    """The terms with the array in the place of parts of it that make up the whole."""
    mine = [t for t in terms if t.own is array and t.factor == 1 and t.operand is not array]
    parts = [t.box for t in mine if t.cleared is None]
    for t in [t for t in mine if t.cleared is not None]:
        if t.cleared in joined(parts):
            used = [p for p in mine if p is t or p.cleared is None]
            return replaced(terms, used, array, dims) if len(joined(parts)) == 1 else terms
    if len(parts) > 1 and joined(parts) == [Box.whole(dims)]:
        return replaced(terms, [t for t in mine if t.cleared is None], array, dims)
    return terms


def replaced(terms: list[Term], used: list[Term], array: Value, dims: tuple[Dim, ...]) -> list[Term]:
    """The terms with the array itself in the place of some."""
    return [Term(1.0, array, Box.whole(dims), array), *(t for t in terms if not any(t is u for u in used))]


def groups_of(terms: list[Term]) -> dict[Operand, list[Term]]:
    """Terms of one operand at several places that are a fixed distance apart, where there are enough of them."""
    found: dict[Any, list[Term]] = {}
    for t in terms:
        if isinstance(t.operand, Value):
            found.setdefault(t.operand, []).append(t)
    return {x: group for x, group in found.items() if is_stencil(group)}


def is_stencil(group: list[Term]) -> bool:
    """Whether it pays to read at these places instead of writing to them."""
    first = group[0].box
    near = all(a.constant is not None for t in group for a in distances(t.box, first))
    places = {t.box for t in group}
    return near and len(places) == len(group) and len(places) >= (ENOUGH if len(first.dims) == 1 else 2)


def distances(a: Box, b: Box) -> list[Dim]:
    """How far a is from b along each axis."""
    return [x - y for x, y in zip(a.starts, b.starts, strict=True)]


def smallest(dims: list[Dim]) -> Dim:
    """The smallest of sizes that are a fixed distance apart."""
    return min(dims, key=lambda d: (d - dims[0]).constant or 0)
