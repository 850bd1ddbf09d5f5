"""Sums of accumulations: contractions, sums over axes, scatters and parts of arrays that nothing but one sum reads all go into
the array of that sum, each to its place; none gets an array of its own.

    add(pad(add(a, contract(x, y))), pad(b))        out[1 + i] = a[i];  out[1 + i] += x[i, j] * y[j];  out[0] = b

Where the parts of the array that terms go to (`Frame`) lie side by side and fill it, nothing is cleared: the first term of each
part is assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.core import Literal, Operation, Value
from ..ir.core import Operand as GraphOperand
from ..ir.dims import Dim
from ..ir.op import TABLE, literal_like
from ..ir.types import DType
from .index import ONE, ZERO, Index, affine
from .inplace import CONTROL

if TYPE_CHECKING:
    from .lower import Lowering, Statement

SUMS = ("add", "sub", "neg", "scatter_add", "pad")
MOVES = ("broadcast", "transpose", "slice", "reshape", "gather", "iota", "size", "constant", "stop_gradient")


@dataclass(frozen=True)
class Frame:
    """A part of an array: index i along an axis of it is `start + step * i` of the array."""

    starts: tuple[Dim, ...]
    steps: tuple[int, ...]
    dims: tuple[Dim, ...]

    @staticmethod
    def whole(dims: tuple[Dim, ...]) -> Frame:
        """All of an array."""
        return Frame((ZERO,) * len(dims), (1,) * len(dims), dims)

    def of_pad(self, pad: Operation) -> Frame:
        """The part that a pad of this part fills."""
        starts, steps = pad.attributes["starts"], pad.attributes["steps"]
        return Frame(tuple(s + own * k for s, k, own in zip(self.starts, self.steps, starts, strict=True)),
                     tuple(k * own for k, own in zip(self.steps, steps, strict=True)), pad.operands[0].type.dims)

    def at(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """The place in the array."""
        return tuple(affine(i, Dim.of(k), s) for i, k, s in zip(index, self.steps, self.starts, strict=True))

    def is_apart(self, other: Frame) -> bool:
        """Whether the two surely have no element in common."""
        both = list(zip(self.starts, self.dims, other.starts, other.dims, strict=True))
        return any(not_negative(b - a - n) or not_negative(a - b - m) for a, n, b, m in both)


@dataclass(frozen=True)
class Term:
    """A term of a sum: `accumulates` where it is itself made by adding to an array."""

    operand: GraphOperand
    sign: str
    frame: Frame
    accumulates: bool


@dataclass(frozen=True)
class Place:
    """Where an accumulation goes: to which value, with which sign, to which part of it, after which statements; `row`: the
    part is one of the row that this operation adds to."""

    target: Value
    sign: str
    frame: Frame
    after: tuple[Statement, ...] = ()
    overwrites: tuple[Value, ...] = ()
    row: Operation | None = None


class Sums:
    """The merged sums of one block. `merged`: what is not made by itself; `terms`: per sum its terms; `places`: where the
    accumulations among them go, once the sum has been begun."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.merged: set[Value] = set()
        self.terms: dict[Value, list[Term]] = {}
        self.bases: dict[Value, Value] = {}           # what a sum adds to, where it stands
        self.places: dict[Value, Place] = {}
        self.rows: dict[Value, list[Term]] = {}       # the same for what adds such a sum to a row of an array in its place

    # ------------------------------------------------------------------------------------------------ finding them
    def find(self, operations: Iterable[Operation]) -> None:
        """Merge what can be, outermost sums first. `operations`: last one first."""
        for op in operations:
            if op.op in SUMS and op.result not in self.merged and op.result.type.dims and not self.merge_into_row(op):
                self.merge(op)

    def merge_into_row(self, op: Operation) -> bool:
        """If this adds a sum of accumulations to one row of an array, let them accumulate into the row."""
        if op.op != "scatter_add" or op.result not in self.lowering.plan.over or any(i.type.dims for i in op.operands[1:-1]):
            return False
        base, updates = op.operands[0], op.operands[-1]
        if not isinstance(updates, Value) or not updates.type.dims or self.lowering.uses[base] > 1:  # type: ignore[index]
            return False
        terms: list[Term] = []
        inner: list[Value] = []
        whole = Frame.whole(updates.type.dims)
        self.collect_operand(updates, "+", whole, terms, inner)
        if not any(t.accumulates or t.frame != whole for t in terms):
            return False
        self.merged.update(inner)
        self.merged.update(t.operand for t in terms if t.accumulates and isinstance(t.operand, Value))
        self.rows[op.result] = [t for t in terms if t.accumulates or not self.is_zero(t.operand)]
        return True

    def merge(self, root: Operation) -> None:
        """If a sum adds up accumulations that nothing else reads, let them all accumulate into its own array."""
        terms: list[Term] = []
        inner: list[Value] = []
        whole = Frame.whole(root.result.type.dims)
        self.collect(root, "+", whole, terms, inner)
        base = self.lowering.plan.over.get(root.result)
        if base is not None:
            added_to = [t for t in terms if t.operand is base and t.sign == "+" and t.frame == whole]
            alone = base in self.lowering.owned and self.lowering.uses[base] == 1
            if root.op in ("scatter_add", "pad") or not added_to or not alone:
                return
            self.bases[root.result] = base
            terms.remove(added_to[0])
        accumulated = [t for t in terms if t.accumulates]
        parts = [t for t in terms if t.frame != whole and (root.op != "pad" or t.accumulates)]
        scattered = [t for t in accumulated if self.lowering.maker[t.operand].op == "scatter_add"]     # type: ignore[index]
        few = root.op == "neg" or base is not None                    # -(sum of products): subtract instead of adding
        if not parts and not scattered and len(accumulated) <= (not few):
            self.bases.pop(root.result, None)
            return
        self.merged.update(inner)
        self.merged.update(t.operand for t in accumulated if isinstance(t.operand, Value) and t.operand is not root.result)
        self.terms[root.result] = [t for t in terms if t.accumulates or not self.is_zero(t.operand)]

    def collect(self, op: Operation, sign: str, frame: Frame, terms: list[Term], inner: list[Value]) -> None:
        """The terms of a sum; `inner` gets the sums inside it."""
        first = op.operands[0]
        if op.op == "pad":
            self.collect_operand(first, sign, frame.of_pad(op), terms, inner)
            return
        self.collect_operand(first, opposite(sign) if op.op == "neg" else sign, frame, terms, inner)
        if op.op == "scatter_add":
            terms.append(Term(op.result, sign, frame, True))
        elif op.op != "neg":
            self.collect_operand(op.operands[1], sign if op.op == "add" else opposite(sign), frame, terms, inner)

    def collect_operand(self, operand: GraphOperand, sign: str, frame: Frame, terms: list[Term], inner: list[Value]) -> None:
        made = self.lowering.maker.get(operand) if isinstance(operand, Value) else None
        if made is None or made.op not in SUMS or self.is_shared(made.result):
            terms.append(Term(operand, sign, frame, self.accumulates(made)))
            return
        before = len(terms), len(inner)
        if made.op != "scatter_add":
            inner.append(made.result)
        self.collect(made, sign, frame, terms, inner)
        if not any(t.accumulates or t.frame != frame for t in terms[before[0]:]):      # a plain expression: one term
            terms[before[0]:] = [Term(operand, sign, frame, False)]
            inner[before[1]:] = []

    def is_shared(self, value: Value) -> bool:
        """Whether something else needs the value, or it has a place already."""
        return self.lowering.uses[value] > 1 or value in self.lowering.plan.over

    def accumulates(self, op: Operation | None) -> bool:
        """Whether this adds into an array that nothing but the sum reads."""
        if op is None or op.op in CONTROL or self.is_shared(op.result):
            return False
        if op.op == "contract":
            return not set(op.attributes["a_labels"] + op.attributes["b_labels"]) <= set(op.attributes["out_labels"])
        return op.op == "reduce_sum" and bool(op.attributes["axes"])

    def is_zero(self, operand: GraphOperand) -> bool:
        """Whether this is an array (or number) of zeros."""
        op = self.lowering.maker.get(operand) if isinstance(operand, Value) else None
        if isinstance(operand, Literal):
            return not operand.value
        return op is not None and op.op == "broadcast" and self.is_zero(op.operands[0])

    # ------------------------------------------------------------------------------------------------ lowering them
    def lower(self, root: Operation) -> None:
        """The statements of a sum."""
        result, terms = root.result, self.terms[root.result]
        base = self.bases.get(result)
        frames = list(dict.fromkeys(t.frame for t in terms))
        if base is not None:
            self.lowering.define(result)
            place = Place(result, "+", frames[0], self.lowering.take_over(result, base), (base,))
            first = dict.fromkeys(frames, place)
        elif tiles(frames, result.type.dims):
            self.lowering.define(result, start=self.start(result, frames, terms))
            first = {frame: self.begin(result, frame, terms) for frame in frames}
        else:
            self.lowering.define(result, start=zero_of(result))
            first = {frame: Place(result, "+", frame) for frame in frames}
        for t in terms:
            place = first[t.frame]
            self.add(t, Place(result, t.sign, t.frame, place.after, place.overwrites), root)

    def lower_row(self, op: Operation) -> None:
        """The statements of what adds a sum to a row."""
        self.lowering.begin_update(op)
        base = self.lowering.takes_over(op.result)
        first = tuple(self.lowering.definitions[op.result].statements)
        if base is not None:
            first += self.lowering.take_over(op.result, base)
        for t in self.rows[op.result]:
            self.add(t, Place(op.result, t.sign, t.frame, first, (base,) if base is not None else (), op), op)

    def at(self, place: Place, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """Where an element of an accumulation goes."""
        index = place.frame.at(index)
        if place.row is None:
            return index
        array, *indices = place.row.operands[:-1]
        return self.lowering.gathered_index(place.row, tuple(indices), array.type.rank, index)

    def start(self, result: Value, frames: list[Frame], terms: list[Term]) -> Literal | None:
        """What the array starts from, where it is one part and nothing is assigned to it first."""
        return zero_of(result) if len(frames) == 1 and self.first_term(result, terms) is None else None

    def first_term(self, result: Value, terms: list[Term]) -> Term | None:
        """The term of a part that is assigned before the others are added: a plain one, which if others accumulate must not
        have to wait for a loop. (An accumulator of another precision than the array starts from a number.)"""
        for t in terms:
            if not t.accumulates and t.sign == "+" and result.type.dtype is not DType.f32 and (
                    not any(other.accumulates for other in terms) or self.is_early(t.operand)):
                return t
        return None

    def begin(self, result: Value, frame: Frame, terms: list[Term]) -> Place:
        """Assign the first term of a part, or zeros."""
        own = [t for t in terms if t.frame == frame]
        first = self.first_term(result, own)
        if first is None and self.lowering.definitions[result].start is not None:
            return Place(result, "+", frame)
        operand: GraphOperand = zero_of(result) if first is None else first.operand
        if first is not None:
            terms.remove(first)
        axes = tuple(self.lowering.axis(d) for d in frame.dims)
        s = self.lowering.statement(result, frame.at(axes), "=", "{0}", (self.lowering.read(operand, axes),), axes)
        return Place(result, "+", frame, (s,))

    def is_early(self, operand: GraphOperand) -> bool:
        """Whether this is computed from arguments of the block entry by entry."""
        seen: set[GraphOperand] = set()
        stack = [operand]
        while stack:
            x = stack.pop()
            made = self.lowering.maker.get(x) if isinstance(x, Value) else None
            if made is None or x in seen:
                continue
            if made.op not in MOVES and TABLE[made.op].code is None:
                return False
            seen.add(x)
            stack += made.operands
        return True

    def add(self, term: Term, place: Place, root: Operation) -> None:
        """Add one term."""
        lowering = self.lowering
        if not term.accumulates:
            axes = tuple(lowering.axis(d) for d in term.frame.dims)
            lowering.statement(place.target, self.at(place, axes), term.sign, "{0}", (lowering.read(term.operand, axes),), axes,
                               after=place.after, overwrites=place.overwrites)
            return
        assert isinstance(term.operand, Value)
        self.places[term.operand] = place
        lowering.go_to(lowering.maker[term.operand])
        lowering.lower(lowering.maker[term.operand])
        lowering.go_to(root)


def zero_of(value: Value) -> Literal:
    """The zero of a value's type."""
    return literal_like(0, value.type.dtype)


def opposite(sign: str) -> str:
    return "-" if sign == "+" else "+"


def not_negative(dim: Dim) -> bool:
    """Whether a difference of places is surely not negative."""
    return dim.constant is not None and dim.constant >= 0


def tiles(frames: list[Frame], dims: tuple[Dim, ...]) -> bool:
    """Whether the parts lie side by side and fill an array."""
    if any(k != 1 for frame in frames for k in frame.steps):
        return False
    apart = all(a.is_apart(b) for k, a in enumerate(frames) for b in frames[:k])
    return apart and total(count(frame.dims) for frame in frames) == count(dims)


def count(dims: tuple[Dim, ...]) -> Dim:
    """The number of elements."""
    product = ONE
    for d in dims:
        product = product * d
    return product


def total(counts: Iterator[Dim]) -> Dim:
    sum_ = ZERO
    for c in counts:
        sum_ = sum_ + c
    return sum_
