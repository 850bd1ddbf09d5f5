"""Carried arrays of which a loop touches one part only: the loop carries that part, which is written back after it.

    for k: C = scatter_set(C, i, j, gather(C, i, j) + f(k))     becomes     s = gather(C, i, j)
                                                                            for k: s = s + f(k)
                                                                            C = scatter_set(C, i, j, s)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.core import Block, Operand, Operation, Value
from ..ir.dims import Dim
from .carries import Body, Versions, chosen_by, replaced, versions_of
from .ranges import index_symbol

if TYPE_CHECKING:
    from .raise_loops import Raiser

Finish = Callable[[Sequence[Operand]], tuple[Operand, ...]]


@dataclass(frozen=True)
class Part:
    """The part of a carried array at `indices` along `axes`."""

    versions: Versions
    base: Value
    indices: tuple[Operand, ...]
    axes: tuple[int, ...]


def promote(b: Raiser, loop: Operation) -> tuple[Operation, Finish]:
    """The loop carrying parts in the place of arrays, and what to do with its results to get those of the loop given."""
    body = Body(loop.regions[0])
    parts = [part_of(b, body, a, initial) for a, initial in zip(body.arguments, loop.operands[2:], strict=True)]
    if not any(parts):
        return loop, tuple
    initial = [x if p is None else b.emit("gather", (p.base, *p.indices), {"axes": p.axes})
               for p, x in zip(parts, loop.operands[2:], strict=True)]
    region = smaller_body(b, body, parts, initial)
    results = tuple(y if p is None else b.value("t", x.type) for p, y, x in zip(parts, loop.results, initial, strict=True))
    for old, new in zip(loop.results, results, strict=True):
        b.uses[new] = max(b.uses[new], b.uses[old])
    smaller = Operation("for", (*loop.operands[:2], *initial), results, loop.attributes, (region,), loop.location)

    def finish(found: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple(x if p is None else b.emit("scatter_set", (p.base, *p.indices, x), {"axes": p.axes})
                     for p, x in zip(parts, found, strict=True))

    return smaller, finish


def part_of(b: Raiser, body: Body, argument: Value, initial: Operand) -> Part | None:
    """The part of a carried array that all turns share, None where there is none."""
    versions = versions_of(body, argument) if argument.type.rank and isinstance(initial, Value) else None
    if versions is None or not versions.accesses:
        return None
    axes: list[int] = []
    indices: list[Operand] = []
    for axis in range(argument.type.rank):
        found = [fixed(b, body, versions.index(access, axis)) for access in versions.accesses]
        index = found[0]
        if index is not None and all(x == index for x in found):
            axes.append(axis)
            indices.append(b.integer(index) if isinstance(index, Dim) else index)
    assert isinstance(initial, Value)
    return Part(versions, initial, tuple(indices), tuple(axes)) if axes else None


def fixed(b: Raiser, body: Body, index: Operand | None) -> Dim | Value | None:
    """An index that does not depend on the turn, as a polynomial or as a value from outside the loop."""
    form = None if index is None else b.ranges.dim(index)
    if form is not None:
        return form if index_symbol(body.index) not in form.symbols else None
    return index if isinstance(index, Value) and not body.inside(index) else None


def smaller_body(b: Raiser, body: Body, parts: Sequence[Part | None], initial: Sequence[Operand]) -> Block:
    """The body with accesses to parts in the place of accesses to the arrays."""
    values: dict[Value, Operand] = {}
    owners = {v: part for part in parts if part is not None for v in part.versions.values}
    with b.region() as out:
        b.blocks[-1][0].append(body.index)
        for argument, part, x in zip(body.arguments, parts, initial, strict=True):
            if part is not None:
                values[argument] = b.value(argument.name, x.type)
            new = values.get(argument, argument)
            assert isinstance(new, Value)
            b.blocks[-1][0].append(new)
        for o in body.operations:
            owner = owners.get(o.operands[0] if o.op != "select" else o.operands[1]) if o.operands else None  # type: ignore[arg-type]
            if owner is None:
                b.append(replaced(o, values))
                continue
            b.location = o.location
            values[o.result] = choice(b, body, o, values) if o.op == "select" else access(b, owner, o, values)
        out.extend(values.get(y, y) if isinstance(y, Value) else y for y in body.yields)
    result: Block = out[0]
    return result


def access(b: Raiser, part: Part, o: Operation, values: dict[Value, Operand]) -> Operand:
    """A read of, or store into, what is left of the array."""
    array, *rest = (values.get(x, x) if isinstance(x, Value) else x for x in o.operands)
    moving = [(a, x) for a, x in zip(o.attributes["axes"], rest, strict=False) if a not in part.axes]
    places = [(a - sum(p < a for p in part.axes), x) for a, x in moving]
    axes, indices = tuple(a for a, _ in places), tuple(x for _, x in places)
    if axes:
        updates = () if o.op == "gather" else (rest[-1],)
        result: Operand = b.emit(o.op, (array, *indices, *updates), {"axes": axes})
        return result
    if o.op == "gather":
        return array
    if o.op == "scatter_add":
        sum_: Operand = b.emit("add", (array, rest[-1]))
        return sum_
    if rest[-1].type.rank == array.type.rank:
        return rest[-1]
    spread: Operand = b.emit("broadcast", (rest[-1],), {"dims": array.type.dims, "axes": ()})
    return spread


def choice(b: Raiser, body: Body, o: Operation, values: dict[Value, Operand]) -> Operand:
    """A choice between two versions of what is left of the array."""
    scalar = chosen_by(body, o)
    then, otherwise = (values.get(x, x) if isinstance(x, Value) else x for x in o.operands[1:])
    assert scalar is not None
    predicate = values.get(scalar, scalar) if isinstance(scalar, Value) else scalar
    if then.type.dims:
        predicate = b.emit("broadcast", (predicate,), {"dims": then.type.dims, "axes": ()})
    result: Operand = b.emit("select", (predicate, then, otherwise))
    return result
