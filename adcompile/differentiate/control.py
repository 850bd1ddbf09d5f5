"""The adjoint of operations with regions.

for:   a `for` over the same turns, last first. It carries the cotangents of the carried values, and for every active value
       that the body reads from outside the sum of its cotangents. The forward loop is extended to save residuals.
cond:  a `cond` of the adjoints of the branches, so that only the branch that ran is visited.
while: a `for` over the turns that ran; refused where turns would have to be saved, as their number is no size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import errors
from ..ir.analysis import free_values
from ..ir.core import Block, Guard, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType, Type
from .residuals import Plan, fresh_copy, plan, substituted
from .rules import Cotangent, zeros

if TYPE_CHECKING:
    from .reverse import Reverse

Cotangents = Sequence[Cotangent | None]
I64 = Type(DType.i64)
ZERO, ONE = Literal(0, DType.i64), Literal(1, DType.i64)


def reverse_control(sweep: Reverse, operation: Operation, cotangents: Cotangents) -> None:
    """Pull cotangents back through an operation with regions."""
    if operation.op == "for":
        reverse_for(sweep, operation, cotangents)
    elif operation.op == "cond":
        reverse_cond(sweep, operation, cotangents)
    else:
        raise errors.DifferentiationError(
            "the gradient through a `while` whose number of turns depends on values is not supported", operation.location,
            "Write it as a `for` over a range with a `break`-free body, or put ad.stop_gradient around what it computes.")


# ------------------------------------------------------------------------------------------------------ cond
def reverse_cond(sweep: Reverse, operation: Operation, cotangents: Cotangents) -> None:
    """cond(p){a}{b}  ->  cond(p){adjoint of a}{adjoint of b}, which yields the cotangents of what the branches read."""
    outer = active_free_values(sweep, operation.regions)
    if not outer:
        return
    branches = [adjoint_branch(sweep, region, outer, cotangents) for region in operation.regions]
    blocks = tuple(block for block, _ in branches)
    results = tuple(sweep.builder.value(f"{v.name}_bar", v.type) for v in outer)
    sweep.builder.append(Operation("cond", operation.operands, results, regions=blocks, location=operation.location))
    for k, (value, result) in enumerate(zip(outer, results, strict=True)):
        sweep.pending[value] = Cotangent(result, any(ends[k].maskable for _, ends in branches))


def adjoint_branch(sweep: Reverse, region: Block, outer: Sequence[Value],
                   cotangents: Cotangents) -> tuple[Block, list[Cotangent]]:
    """The adjoint of one branch, and what it yields. It goes on adding to the cotangents that its values have outside."""
    before = {v: sweep.pending[v] for v in outer if v in sweep.pending}
    with sweep.builder.region() as out:
        operations, ends = sweep.sweep_region(region, before, cotangents, outer)
        values: dict[Value, Operand] = {}
        provided = plan(sweep.current_block(region), region_values(sweep, region, operations, ends), False)
        out.extend(finish_adjoint(sweep, provided, operations, ends, values))
    block: Block = out[0]
    return block, ends


def active_free_values(sweep: Reverse, regions: Sequence[Block]) -> list[Value]:
    """The active values that regions read from outside, in the order of their first use."""
    return list(dict.fromkeys(v for region in regions for v in free_values(region) if v in sweep.active))


def region_values(sweep: Reverse, region: Block, operations: Sequence[Operation], ends: Sequence[Cotangent]) -> list[Value]:
    """The values of a region that its adjoint reads or ends with."""
    block = sweep.current_block(region)
    own = {*block.arguments, *(y for o in block.operations for y in o.results)}
    return [v for v in free_values(Block((), tuple(operations), tuple(e.value for e in ends))) if v in own]


def finish_adjoint(sweep: Reverse, provided: Plan, operations: Sequence[Operation], ends: Sequence[Cotangent],
                   values: dict[Value, Operand]) -> list[Operand]:
    """Emit what is recomputed, then the adjoint operations reading that. Returns the ends in terms of it."""
    for each in provided.recomputed:
        sweep.builder.append(fresh_copy(each, values, sweep.builder))
    for each in operations:
        sweep.builder.append(substituted(each, values))
    return [values.get(e.value, e.value) if isinstance(e.value, Value) else e.value for e in ends]


# ------------------------------------------------------------------------------------------------------- for
def reverse_for(sweep: Reverse, loop: Operation, cotangents: Cotangents) -> None:
    """The adjoint of a loop, and the loop itself extended by what has to be saved."""
    region = loop.regions[0]
    carried = [j for j, (y, a) in enumerate(zip(loop.results, region.arguments[1:], strict=True))
               if y in sweep.active or a in sweep.active]
    outer = active_free_values(sweep, loop.regions)
    initial = [start(cotangents[j], loop.results[j].type) for j in carried]
    initial += [start(sweep.pending.get(v), v.type) for v in outer]
    turns = difference(sweep, loop.operands[1], loop.operands[0])
    maskable = settled(sweep, loop, carried, outer, [ct.maskable for ct in initial])
    block = adjoint_turn(sweep, loop, carried, outer, turns, maskable)
    results = tuple(sweep.builder.value(a.name, a.type) for a in block.arguments[1:])
    sweep.builder.append(Operation("for", (ZERO, turns, *(ct.value for ct in initial)), results, regions=(block,), location=loop.location))
    found = [Cotangent(result, flag) for result, flag in zip(results, maskable, strict=True)]
    sweep.pending.update(zip(outer, found[len(carried):], strict=True))
    for j, ct in zip(carried, found, strict=False):
        source = loop.operands[2 + j]
        if isinstance(source, Value) and source in sweep.active:
            sweep.add(source, ct)


def start(ct: Cotangent | None, type: Type) -> Cotangent:
    """A cotangent, or zeros where there is none yet."""
    return Cotangent(zeros(type), True) if ct is None else ct


def settled(sweep: Reverse, loop: Operation, carried: Sequence[int], outer: Sequence[Value], maskable: list[bool]) -> list[bool]:
    """Which cotangents that the adjoint loop carries are maskable: those that start so or become so in some turn."""
    while True:
        with sweep.builder.region():                                     # a trial: what it emits is dropped
            bars = [Cotangent(sweep.builder.value("", loop.results[j].type), maskable[k]) for k, j in enumerate(carried)]
            sums = [Cotangent(sweep.builder.value("", v.type), flag)
                    for v, flag in zip(outer, maskable[len(carried):], strict=True)]
            _, ends = sweep.sweep_region(loop.regions[0], *arrivals(loop, carried, outer, [*bars, *sums]))
        after = [flag or end.maskable for flag, end in zip(maskable, ends, strict=True)]
        if after == maskable:
            return maskable
        maskable = after


def arrivals(loop: Operation, carried: Sequence[int], outer: Sequence[Value], cts: Sequence[Cotangent]) -> tuple[
        dict[Value, Cotangent], list[Cotangent | None], list[Value]]:
    """How a turn of the adjoint starts: the cotangents of outer values and of the yields; and whose cotangents it ends with."""
    arrived: list[Cotangent | None] = [None] * len(loop.results)
    for j, ct in zip(carried, cts, strict=False):
        arrived[j] = ct
    targets = [*(loop.regions[0].arguments[1 + j] for j in carried), *outer]
    return dict(zip(outer, cts[len(carried):], strict=True)), arrived, targets


def difference(sweep: Reverse, a: Operand, b: Operand) -> Operand:
    """a - b of integers."""
    if b == ZERO:
        return a
    result: Operand = sweep.builder.emit("sub", (a, b))
    return result


def adjoint_turn(sweep: Reverse, loop: Operation, carried: Sequence[int], outer: Sequence[Value], turns: Operand,
                 maskable: Sequence[bool]) -> Block:
    """The body of the adjoint loop: index and residuals of the turn, then its adjoint."""
    region, builder = loop.regions[0], sweep.builder
    with builder.region() as out:
        back = builder.parameter(f"{region.arguments[0].name}_back", I64)
        bars = [builder.parameter(f"{region.arguments[1 + j].name}_bar", loop.results[j].type) for j in carried]
        sums = [builder.parameter(f"{v.name}_bar", v.type) for v in outer]
        cts = [Cotangent(x, flag) for x, flag in zip([*bars, *sums], maskable, strict=True)]
        operations, ends = sweep.sweep_region(region, *arrivals(loop, carried, outer, cts))
        values, provided = provide(sweep, loop, region_values(sweep, region, operations, ends), turns, back)
        out.extend(finish_adjoint(sweep, provided, operations, ends, values))
    block: Block = out[0]
    return block


def provide(sweep: Reverse, loop: Operation, needed: Sequence[Value], turns: Operand,
            back: Value) -> tuple[dict[Value, Operand], Plan]:
    """Emit the turn's index and the reads of saved values. Returns what stands for the loop's values, and what is left to
    recompute. The forward loop is extended accordingly."""
    region, builder = loop.regions[0], sweep.builder
    index = region.arguments[0]
    found = plan(Block(region.arguments[1:], sweep.current_block(region).operations, region.yields), needed, True)
    values: dict[Value, Operand] = {}
    if not found.saved and index not in needed and index not in free_values(Block((), found.recomputed, ())):
        extend(sweep, loop, ())
        return values, found
    turn = builder.emit("sub", (difference(sweep, turns, ONE), back), name=f"{index.name}_turn")
    values[index] = turn if loop.operands[0] == ZERO else builder.emit("add", (loop.operands[0], turn), name=index.name)
    for value, array in zip(found.saved, extend(sweep, loop, found.saved), strict=True):
        values[value] = builder.emit("gather", (array, turn), {"axes": (0,)}, name=value.name)
    return values, found


def extend(sweep: Reverse, loop: Operation, saved: Sequence[Value]) -> tuple[Value, ...]:
    """Make the forward loop save values, one array each with an entry per turn. Returns the arrays."""
    body = sweep.current_block(loop.regions[0])
    if not saved:
        sweep.replace(loop, [loop if body is loop.regions[0] else with_body(loop, body, (), ())])
        return ()
    capacity, builder = capacity_of(sweep, loop), sweep.builder
    with builder.region() as out:
        empty = [builder.emit("broadcast", (literal_like(0, v.type.dtype),), {"dims": (capacity, *v.type.dims), "axes": ()})
                 for v in saved]
    setup: Block = out[0]
    with builder.region() as out:
        arrays = [builder.parameter(f"{v.name}_saved", e.type) for v, e in zip(saved, empty, strict=True)]
        turn = difference(sweep, loop.regions[0].arguments[0], loop.operands[0])
        out.extend(builder.emit("scatter_set", (array, turn, v), {"axes": (0,)}) for v, array in zip(saved, arrays, strict=True))
    saving: Block = out[0]
    body = Block((*body.arguments, *saving.arguments), (*body.operations, *saving.operations), (*body.yields, *saving.yields))
    results = tuple(builder.value(a.name, a.type) for a in arrays)
    sweep.replace(loop, [*setup.operations, with_body(loop, body, tuple(empty), results)])
    return results


def with_body(loop: Operation, body: Block, operands: tuple[Operand, ...], results: tuple[Value, ...]) -> Operation:
    """A loop with another body that carries more."""
    return Operation(loop.op, (*loop.operands, *operands), (*loop.results, *results), loop.attributes, (body,), loop.location)


def capacity_of(sweep: Reverse, loop: Operation) -> Dim:
    """A size that the number of turns never exceeds."""
    high, low = sweep.bounds.bound(loop.operands[1], True), sweep.bounds.bound(loop.operands[0], False)
    if high is None or low is None:
        raise errors.DifferentiationError("the number of turns of this loop depends on computed values, and its gradient needs"
                                          " values of every turn", loop.location,
                                          "Loop over a range that is known from sizes and integer arguments.")
    capacity = high - low
    if capacity.constant is not None:
        return Dim.of(max(capacity.constant, 0))
    if capacity.bare_symbol is None or capacity.bare_symbol in sweep.bounds.symbols:
        guard = Guard(capacity, ">=", Dim.of(0), loop.location)
        if guard not in sweep.guards:
            sweep.guards.append(guard)
    return capacity
