"""Checkpoints: a long loop is cut into segments of equal length. Only the state at the start of each is saved; in the adjoint
the turns of one segment at a time run again, saving what they need.

    for i in range(n): c = f(i, c)    ->    for s in range(segments):
                                                for i in range(s * length, min((s + 1) * length, n)): c = f(i, c)

The adjoint of the loops on the right is what the ordinary rules make of them. Memory for `segments + length` turns instead of
n, at the cost of one more forward run. `checkpoint` is the number of segments; True: as many as they are long, about the
square root of n; False: never; None: as for True where more than `MEMORY` bytes would have to be saved. That depends on
sizes, so it is decided for the sizes of the first call (`hints`), and guarded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..ir.core import Block, Guard, Literal, Operand, Operation
from ..ir.dims import Dim
from ..ir.types import DType, Type
from .residuals import Copy, count

if TYPE_CHECKING:
    from .reverse import Reverse

Checkpoint: TypeAlias = int | None                     # True and False among the integers
MEMORY = 2 ** 28
I64 = Type(DType.i64)


def wants_checkpoints(sweep: Reverse, capacity: Dim | None, saved: Sequence[Type], loop: Operation) -> bool:
    """Whether a loop that would save values of these types at each of at most `capacity` turns is to be checkpointed."""
    if not saved or sweep.checkpoint is not None:
        return bool(saved) and sweep.checkpoint is not False
    if capacity is None:
        return False
    total = capacity * sum((count(t) * t.dtype.numpy.itemsize for t in saved), Dim.of(0))
    if total.constant is None and not total.symbols <= set(sweep.hints):
        return False
    many = total.evaluate(sweep.hints) > MEMORY
    if total.constant is None:
        sweep.guards.append(Guard(total, ">" if many else "<=", Dim.of(MEMORY), loop.location))
    return many


def segmented(sweep: Reverse, loop: Operation, capacity: Dim | None) -> Operation:
    """The loop over segments, which takes the place of a loop."""
    builder, location = sweep.builder, loop.location
    copy = Copy({}, builder, sweep.new_symbol)
    body = copy.block(loop.regions[0])
    low, high, *initial = loop.operands
    with builder.region() as out:
        turns = high if low == Literal(0, DType.i64) else builder.emit("sub", (high, low))
        segments, length, sizes = segment_sizes(sweep, turns, capacity)
    setup: Block = out[0]
    arguments = [builder.value(a.name, a.type) for a in body.arguments[1:]]
    inner_results = tuple(builder.value(y.name, y.type) for y in loop.results)
    with builder.region() as out:
        segment = builder.parameter(f"{body.arguments[0].name}_segment", I64)
        builder.blocks[-1][0].extend(arguments)
        first = builder.emit("mul", (segment, length))
        first = first if low == Literal(0, DType.i64) else builder.emit("add", (first, low))
        last = builder.emit("minimum", (builder.emit("add", (first, length)), high))
        builder.append(Operation("for", (first, last, *arguments), inner_results, regions=(body,), location=location))
        out.extend(inner_results)
    region: Block = out[0]
    outer = Operation("for", (Literal(0, DType.i64), segments, *initial), loop.results, regions=(region,), location=location)
    sweep.adopt(copy.values, outer)
    sweep.alive.follow(copy.values)
    for j, argument in enumerate(loop.regions[0].arguments[1:]):
        if argument in sweep.active or loop.results[j] in sweep.active:
            sweep.active.update((arguments[j], inner_results[j]))
    sweep.capacities[segment], sweep.capacities[body.arguments[0]] = sizes
    sweep.segments.add(segment)
    sweep.again.add(body.arguments[0])
    sweep.replace(loop, [*setup.operations, outer])
    return outer


def segment_sizes(sweep: Reverse, turns: Operand, capacity: Dim | None) -> tuple[Operand, Operand, tuple[Dim, Dim]]:
    """The number of segments, their length, and both (or more) as sizes."""
    emit, chosen = sweep.builder.emit, sweep.checkpoint
    known = capacity.constant if capacity is not None else None
    if known is not None:
        segments = chosen if chosen and chosen is not True else max(math.isqrt(known), 1)
        length = max(-(-known // segments), 1)
        return Literal(segments, DType.i64), Literal(length, DType.i64), (Dim.of(segments), Dim.of(length))
    symbol = sweep.new_symbol()
    if chosen and chosen is not True:
        length_value = emit("floordiv", (emit("add", (turns, chosen - 1)), chosen))
        length_value = emit("extent", (length_value,), {"symbol": symbol})
        return Literal(chosen, DType.i64), length_value, (Dim.of(chosen), Dim.symbol(symbol))
    root = emit("ceil", (emit("sqrt", (emit("cast", (emit("maximum", (turns, 1)),), {"dtype": DType.f64}),)),))
    length_value = emit("extent", (emit("cast", (root,), {"dtype": DType.i64}),), {"symbol": symbol})
    segments_value = emit("floordiv", (emit("sub", (emit("add", (turns, length_value)), 1)), length_value))
    return segments_value, length_value, (Dim.symbol(symbol), Dim.symbol(symbol))
