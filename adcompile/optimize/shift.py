"""detach_shifts: no derivative through a maximum that only keeps exponentials in range.

In `m + log(sum(exp(x - m)))` and `exp(x - m) / sum(exp(x - m))` the value is the same whatever m is: its derivative through m
is a sum of terms that cancel. This pass proves it, and computes such values from `stop_gradient(m)`.

The proof follows what depends on m, one maximum at a time: a value is either `rest + factor * m` or `rest * exp(factor * m)`,
entry by entry, with `rest` free of m. Sums and differences add and subtract factors, exp and log change the form, products and
quotients of the second form add and subtract factors, and so do sums over axes along which m does not vary. Where a factor
becomes 0 the value does not depend on m. Anything else ends the proof.

Needs: verified IR, before differentiation. Leaves: values, bit for bit; derivatives that are equal in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.analysis import all_values, operands_in, renamed
from ..ir.core import Block, Function, Operand, Operation, Value
from ..ir.dims import Dim
from .dce import dce

ONE = Dim.of(1)
EXTREMES = ("reduce_max", "reduce_min")


@dataclass(frozen=True)
class Shift:
    """How a value depends on m: `rest + factor * m`, or (`exponential`) `rest * exp(factor * m)`. `axes`: for each axis of m
    the value's axis along which it runs, None where m has length 1."""

    factor: int
    exponential: bool
    axes: tuple[int | None, ...]

    def along(self, place: Callable[[int], int]) -> Shift:
        """The same with every axis moved to its new place."""
        return Shift(self.factor, self.exponential, tuple(None if a is None else place(a) for a in self.axes))

    def times(self, factor: int) -> Shift:
        """The same with the factor multiplied."""
        return Shift(self.factor * factor, self.exponential, self.axes)


Known = dict[Value, Shift | None]           # None: depends on m in another way


def detach_shifts(function: Function) -> Function:
    """The function without derivatives through shifts."""
    names: dict[Value, str] = {}
    taken = {v.name for v in all_values(function)}
    operations = function.body.operations
    for shift in shifts(operations):
        operations = detached(operations, shift, names, taken)
    if operations == function.body.operations:
        return function
    body = Block(function.params, operations, function.results)
    return renamed(dce(Function(function.name, body, function.sizes, function.guards)), names)


def shifts(operations: tuple[Operation, ...]) -> list[Operation]:
    """Maxima, and choices between a maximum and a number, as where(isfinite(m), m, 0): the proof holds for any m."""
    found: dict[Value, Operation] = {}
    for o in operations:
        chosen = o.operands[1:] if o.op == "select" else o.operands if o.op == "reshape" else ()
        of_shift = any(isinstance(x, Value) for x in chosen) and all(x in found for x in chosen if isinstance(x, Value))
        if of_shift or (o.op in EXTREMES and o.result.type.dtype.is_float):
            found[o.result] = o
    return [o for o in found.values() if o.op != "reshape"]


def detached(operations: tuple[Operation, ...], maximum: Operation, names: dict[Value, str],
             taken: set[str]) -> tuple[Operation, ...]:
    """The operations of a block, with what does not depend on a maximum computed from a copy without derivative."""
    m = maximum.result
    known: Known = {m: Shift(1, False, tuple(None if d == ONE else k for k, d in enumerate(m.type.dims)))}
    makers: dict[Value, Operation] = {}
    copies: dict[Value, Value] = {}
    result: list[Operation] = []

    def fresh(name: str) -> str:
        number = 1
        while f"{name}_{number}" in taken:
            number += 1
        taken.add(f"{name}_{number}")
        return f"{name}_{number}"

    def copy(x: Operand) -> Operand:
        """x, computed from the maximum's copy; the copies take over the names."""
        if not isinstance(x, Value) or x not in known:
            return x
        if x not in copies:
            if x is m:
                made = Operation("stop_gradient", (m,), (Value(fresh("t"), m.type),), location=maximum.location)
            else:
                old = makers[x]
                made = Operation(old.op, tuple(map(copy, old.operands)), (Value(fresh("t"), x.type),), old.attributes,
                                 location=old.location)
                names[made.result], names[x] = x.name, made.result.name
            result.append(made)
            copies[x] = made.result
        return copies[x]

    for operation in operations:
        if any(isinstance(x, Value) and x in known for x in operands_in(operation)):
            found = follow(operation, known)
            if found is not None and found.factor == 0:
                operands = tuple(map(copy, operation.operands))
                result.append(Operation(operation.op, operands, operation.results, operation.attributes, (), operation.location))
                continue
            known.update(dict.fromkeys(operation.results, found))
            makers.update(dict.fromkeys(operation.results, operation))
        result.append(operation)
    return tuple(result) if copies else operations


def follow(o: Operation, known: Known) -> Shift | None:
    """How an operation's result depends on m; None where that is not known, or not of the two forms."""
    rule = RULES.get(o.op)
    shifts = [known.get(x) if isinstance(x, Value) else None for x in o.operands]
    if any(s is None and isinstance(x, Value) and x in known for s, x in zip(shifts, o.operands, strict=True)):
        return None
    return rule(o, shifts) if rule is not None else None


def only(shifts: list[Shift | None], exponential: bool) -> Shift | None:
    """The shift of the only operand, where it has the form."""
    (s,) = shifts
    return s if s is not None and s.exponential is exponential else None


def combined(shifts: list[Shift | None], sign: int, exponential: bool) -> Shift | None:
    """Of a sum (or difference) of values of the first form, a product (or quotient) of values of the second."""
    a, b = shifts
    if any(s is not None and s.exponential is not exponential for s in shifts):
        return None
    if a is None or b is None:
        return a if a is not None else b.times(sign) if b is not None else None
    return Shift(a.factor + sign * b.factor, exponential, a.axes) if a.axes == b.axes else None


def broadcast(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """The axes go where the operand's go."""
    (s,) = shifts
    return s.along(lambda a: int(o.attributes["axes"][a])) if s is not None else None


def transpose(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """The axes go where the operand's go."""
    (s,) = shifts
    return s.along(o.attributes["permutation"].index) if s is not None else None


def reshape(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """Axes of length 1 come and go; no other reshape is followed."""
    (s,) = shifts
    old, new = ([k for k, d in enumerate(x.type.dims) if d != ONE] for x in (o.operands[0], o.result))
    same = [o.operands[0].type.dims[k] for k in old] == [o.result.type.dims[k] for k in new]
    return s.along(lambda a: new[old.index(a)]) if s is not None and same else None


def remaining(s: Shift | None, rank: int, axes: tuple[int, ...]) -> Shift | None:
    """Of a reduction over axes along which m does not run."""
    if s is None or set(axes) & set(s.axes):
        return None
    kept = [k for k in range(rank) if k not in axes]
    return s.along(kept.index)


def reduce_sum(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """A common factor of all terms."""
    return remaining(only(shifts, True), o.operands[0].type.rank, o.attributes["axes"])


def contract(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """A common factor of all terms, in one operand."""
    sides = o.attributes["a_labels"], o.attributes["b_labels"]
    found = [(s, labels) for s, labels in zip(shifts, sides, strict=True) if s is not None]
    s, labels = found[0]
    out = o.attributes["out_labels"]
    if len(found) == 2 or not s.exponential or any(a is not None and labels[a] not in out for a in s.axes):
        return None
    return s.along(lambda a: out.index(labels[a]))


def exponential(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """exp turns the first form into the second."""
    s = only(shifts, False)
    return Shift(s.factor, True, s.axes) if s is not None else None


def logarithm(o: Operation, shifts: list[Shift | None]) -> Shift | None:
    """log turns the second form into the first."""
    s = only(shifts, True)
    return Shift(s.factor, False, s.axes) if s is not None else None


RULES: dict[str, Callable[[Operation, list[Shift | None]], Shift | None]] = {
    "add": lambda o, s: combined(s, 1, False),
    "sub": lambda o, s: combined(s, -1, False),
    "mul": lambda o, s: combined(s, 1, True),
    "div": lambda o, s: combined(s, -1, True),
    "exp": exponential, "log": logarithm, "reduce_sum": reduce_sum, "contract": contract,
    "broadcast": broadcast, "transpose": transpose, "reshape": reshape,
}
