"""The adjoint of operations with regions.

for:   a `for` over the same turns, last first. It carries the cotangents of the carried values, and for every active value
       that the body reads from outside the sum of its cotangents. The forward loop is extended to save residuals.
cond:  a `cond` of the adjoints of the branches, so that only the branch that ran is visited.
while: counts its turns. In the adjoint it runs a second time as a `for` of that many turns, which saves residuals; the
       adjoint of that follows.

A `for` whose number of turns is no size is treated like a `while` inside other loops and branches; elsewhere the size is
defined in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.analysis import free_values, symbols_of
from ..ir.boxes import Box, in_both
from ..ir.core import Block, Guard, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.prune import clean
from ..ir.types import DType, Type
from .checkpoint import segmented, wants_checkpoints
from .residuals import Copy, Plan, Planner, Turns, count, is_small, with_reads, without_effects
from .rules import Cotangent, zeros

if TYPE_CHECKING:
    from .reverse import Reverse

Cotangents = Sequence[Cotangent | None]
I64 = Type(DType.i64)
ZERO, ONE = Literal(0, DType.i64), Literal(1, DType.i64)
MOST_SWEEPS = 8                           # from then on, every entry of a cotangent may be a strong zero


def reverse_control(sweep: Reverse, operation: Operation, cotangents: Cotangents) -> None:
    """Pull cotangents back through an operation with regions."""
    if operation.op == "for":
        reverse_for(sweep, operation, cotangents)
    elif operation.op == "cond":
        reverse_cond(sweep, operation, cotangents)
    else:
        reverse_while(sweep, operation, cotangents)


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
        operations = clean(operations, [e.value for e in ends])
        planner = Planner(sweep.current_block(region), None, sweep.alive.reads, sweep.alive.stores)
        provided = planner.plan(region_values(sweep, region, operations, ends))
        out.extend(finish_adjoint(sweep, provided, operations, ends, {}))
    block: Block = out[0]
    return block, ends


def active_free_values(sweep: Reverse, regions: Sequence[Block]) -> list[Value]:
    """The active values that regions read from outside, in the order of their first use."""
    return list(dict.fromkeys(v for region in regions for v in free_values(region) if v in sweep.active))


def region_values(sweep: Reverse, region: Block, operations: Sequence[Operation], ends: Sequence[Cotangent]) -> list[Value]:
    """The values of a region that its adjoint reads or ends with, or that define sizes in it."""
    block = sweep.current_block(region)
    own = {*block.arguments, *(y for o in block.operations for y in o.results)}
    found = [v for v in free_values(Block((), tuple(operations), tuple(e.value for e in ends))) if v in own]
    extents = {o.attributes["symbol"]: o.result for o in block.operations if o.op == "extent"}
    if extents:
        used = {s for o in operations for s in symbols_of(o)}
        found += [v for s, v in extents.items() if s in used and v not in found]
    return found


def finish_adjoint(sweep: Reverse, provided: Plan, operations: Sequence[Operation], ends: Sequence[Cotangent],
                   values: dict[Value, Operand]) -> list[Operand]:
    """Emit what is recomputed, then the adjoint operations reading that. Returns the ends in terms of it."""
    copy = Copy(values, sweep.builder, sweep.new_symbol)
    for each in provided.recomputed:
        sweep.builder.append(copy.operation(each))
    for each in operations:
        sweep.builder.append(copy.adjoint(each))
    return [values.get(e.value, e.value) if isinstance(e.value, Value) else e.value for e in ends]


# ------------------------------------------------------------------------------------------------------- for
@dataclass(frozen=True)
class Turn:
    """The adjoint of one turn of a loop, reading values of the loop's body: its operations, the arguments and ends of what is
    carried (cotangents of the carried values at `carried`, then those of `outer`)."""

    carried: tuple[int, ...]
    outer: tuple[Value, ...]
    arguments: tuple[Cotangent, ...]
    operations: tuple[Operation, ...]
    ends: tuple[Cotangent, ...]


def reverse_for(sweep: Reverse, loop: Operation, cotangents: Cotangents) -> None:
    """The adjoint of a loop, and the loop itself extended by what has to be saved."""
    region = loop.regions[0]
    if sweep.depth == 0:
        sweep.alive.learn(loop)
    carried = tuple(j for j, (y, a) in enumerate(zip(loop.results, region.arguments[1:], strict=True))
                    if y in sweep.active or a in sweep.active)
    outer = tuple(active_free_values(sweep, loop.regions))
    initial = [start(cotangents[j], loop.results[j].type) for j in carried]
    initial += [start(sweep.pending.get(v), v.type) for v in outer]
    turn = swept_turn(sweep, loop, carried, outer, initial)
    found = planned(sweep, loop, turn)
    if found.saved and sweep.depth > 0 and capacity_of(sweep, loop) is None:
        turns = difference(sweep, loop.operands[1], loop.operands[0])
        run_again(sweep, loop, loop.operands[:2], loop.operands[2:], turns, cotangents)
        return
    if sweep.depth == 0 and region.arguments[0] not in sweep.segments and wants_checkpoints(
            sweep, capacity_of(sweep, loop), [v.type for v in found.saved], loop):
        reverse_for(sweep, segmented(sweep, loop, capacity_of(sweep, loop)), cotangents)
        return
    append_adjoint(sweep, loop, turn, found, initial)


def append_adjoint(sweep: Reverse, loop: Operation, turn: Turn, found: Plan, initial: Sequence[Cotangent]) -> None:
    """Emit the adjoint loop, and note the cotangents that it ends with."""
    turns = difference(sweep, loop.operands[1], loop.operands[0])
    block = adjoint_turn(sweep, loop, turn, found, turns)
    results = tuple(sweep.builder.value(a.name, a.type) for a in block.arguments[1:])
    sweep.builder.append(Operation("for", (ZERO, turns, *(ct.value for ct in initial)), results, regions=(block,),
                                   location=loop.location))
    ends = [Cotangent(result, argument.maskable, argument.sure) for result, argument in zip(results, turn.arguments, strict=True)]
    sweep.pending.update(zip(turn.outer, ends[len(turn.carried):], strict=True))
    for j, ct in zip(turn.carried, ends, strict=False):
        source = loop.operands[2 + j]
        if isinstance(source, Value) and source in sweep.active:
            sweep.add(source, ct)


def start(ct: Cotangent | None, type: Type) -> Cotangent:
    """A cotangent, or zeros where there is none yet."""
    return Cotangent(zeros(type), True) if ct is None else ct


def swept_turn(sweep: Reverse, loop: Operation, carried: tuple[int, ...], outer: tuple[Value, ...],
               initial: list[Cotangent]) -> Turn:
    """Sweep the body of a loop, again until it is known where cotangents are maskable: where they start so or become so in
    some turn."""
    region, builder = loop.regions[0], sweep.builder
    known = [carried_zeros(ct, ct) for ct in initial]
    for attempt in range(MOST_SWEEPS):
        with builder.region():                                           # what it emits is kept in the Turn
            bars = [builder.value(f"{region.arguments[1 + j].name}_bar", loop.results[j].type) for j in carried]
            sums = [builder.value(f"{v.name}_bar", v.type) for v in outer]
            cts = tuple(Cotangent(x, ct.maskable, ct.sure) for x, ct in zip([*bars, *sums], known, strict=True))
            operations, ends = sweep.sweep_region(region, *arrivals(loop, carried, outer, cts))
        after = [carried_zeros(ct, end) for ct, end in zip(cts, ends, strict=True)]
        if all((a.maskable, a.sure) == (b.maskable, b.sure) for a, b in zip(after, cts, strict=True)):
            break
        known = after if attempt < MOST_SWEEPS - 2 else [Cotangent(ct.value, True) for ct in after]
    return Turn(carried, outer, cts, clean(operations, [e.value for e in ends]), tuple(ends))


def carried_zeros(ct: Cotangent, after: Cotangent) -> Cotangent:
    """A cotangent that is `after` a turn what it was before or something else: where it has strong zeros in neither case.
    Parts whose place is known inside of a turn only do not count."""
    dims = ct.value.type.dims
    sure = in_both(ct.without_zeros, after.without_zeros, dims)
    sure = tuple(box for box in sure if not any(s.startswith("%") for d in (*box.starts, *box.dims) for s in d.symbols))
    return Cotangent(ct.value, True, sure) if Box.whole(dims) not in sure else Cotangent(ct.value)


def arrivals(loop: Operation, carried: Sequence[int], outer: Sequence[Value], cts: Sequence[Cotangent]) -> tuple[
        dict[Value, Cotangent], list[Cotangent | None], list[Value]]:
    """How a turn of the adjoint starts: the cotangents of outer values and of the yields; and whose cotangents it ends with."""
    arrived: list[Cotangent | None] = [None] * len(loop.results)
    for j, ct in zip(carried, cts, strict=False):
        arrived[j] = ct
    targets = [*(loop.regions[0].arguments[1 + j] for j in carried), *outer]
    return dict(zip(outer, cts[len(carried):], strict=True)), arrived, targets


def planned(sweep: Reverse, loop: Operation, turn: Turn) -> Plan:
    """Where the adjoint of a loop gets the values of the body from."""
    region = loop.regions[0]
    body = sweep.current_block(region)
    capacity = capacity_of(sweep, loop)

    def may_save(value: Value) -> bool:
        return capacity is not None and is_small(capacity * count(value.type), sweep.argument_types)

    turns = Turns(region.arguments[0], loop.operands[2:], may_save, sweep.again)
    planner = Planner(body, turns, sweep.alive.reads, sweep.alive.stores)
    return planner.plan(region_values(sweep, region, turn.operations, turn.ends))


def adjoint_turn(sweep: Reverse, loop: Operation, turn: Turn, found: Plan, turns: Operand) -> Block:
    """The body of the adjoint loop: index and residuals of the turn, then its adjoint."""
    builder = sweep.builder
    with builder.region() as out:
        back = builder.parameter(f"{loop.regions[0].arguments[0].name}_back", I64)
        for argument in turn.arguments:
            assert isinstance(argument.value, Value)
            builder.blocks[-1][0].append(argument.value)
        needed = region_values(sweep, loop.regions[0], (*found.recomputed, *turn.operations), turn.ends)
        values = provide(sweep, loop, found, loop.regions[0].arguments[0] in needed, turns, back)
        out.extend(finish_adjoint(sweep, found, turn.operations, turn.ends, values))
    block: Block = out[0]
    return block


def provide(sweep: Reverse, loop: Operation, found: Plan, needs_index: bool, turns: Operand,
            back: Value) -> dict[Value, Operand]:
    """Emit the turn's index and the reads of saved values. Returns what stands for the loop's values. The forward loop is
    extended accordingly."""
    builder, index = sweep.builder, loop.regions[0].arguments[0]
    values: dict[Value, Operand] = dict(found.given)
    arrays = extend(sweep, loop, found)
    if not found.saved and not needs_index:
        return values
    turn = builder.emit("sub", (difference(sweep, turns, ONE), back), name=f"{index.name}_turn")
    values[index] = turn if loop.operands[0] == ZERO else builder.emit("add", (loop.operands[0], turn), name=index.name)
    for value, array in arrays.items():
        values[value] = builder.emit("gather", (array, turn), {"axes": (0,)}, name=value.name)
    next_turn = builder.emit("add", (turn, ONE)) if found.following else turn
    for value, argument in found.following.items():
        values[value] = builder.emit("gather", (arrays[argument], next_turn), {"axes": (0,)}, name=value.name)
    return values


def extend(sweep: Reverse, loop: Operation, found: Plan) -> dict[Value, Value]:
    """Make the forward loop save values, one array each with an entry per turn; and, where values are read as those of the
    next turn, one more for the values after the last. Returns the arrays."""
    body, saved = sweep.current_block(loop.regions[0]), found.saved
    if not saved:
        sweep.replace(loop, [loop if body is loop.regions[0] else with_body(loop, body, (), ())])
        return {}
    builder, followed = sweep.builder, set(found.following.values())
    with builder.region() as out:
        capacity = capacity_of(sweep, loop) or extent_of_turns(sweep, loop)
        empty = [builder.emit("broadcast", (literal_like(0, v.type.dtype),), {
            "dims": (capacity + (v in followed), *v.type.dims), "axes": ()}) for v in saved]
    setup: Block = out[0]
    with builder.region() as out:
        arrays = [builder.parameter(f"{v.name}_saved", e.type) for v, e in zip(saved, empty, strict=True)]
        turn = difference(sweep, loop.regions[0].arguments[0], loop.operands[0])
        out.extend(builder.emit("scatter_set", (array, turn, v), {"axes": (0,)}) for v, array in zip(saved, arrays, strict=True))
    saving: Block = out[0]
    body = Block((*body.arguments, *saving.arguments), (*body.operations, *saving.operations), (*body.yields, *saving.yields))
    results = {v: builder.value(a.name, a.type) for v, a in zip(saved, arrays, strict=True)}
    extended = with_body(loop, body, tuple(empty), tuple(results.values()))
    last = save_last(sweep, loop, followed, results)
    sweep.replace(loop, [*setup.operations, extended, *last])
    return results


def save_last(sweep: Reverse, loop: Operation, followed: set[Value], arrays: dict[Value, Value]) -> tuple[Operation, ...]:
    """Store what loops end with behind the values of the last turn. Updates `arrays`."""
    with sweep.builder.region() as out:
        turns = sweep.builder.emit("maximum", (difference(sweep, loop.operands[1], loop.operands[0]), ZERO)) if followed else ZERO
        for argument, result in zip(loop.regions[0].arguments[1:], loop.results, strict=True):
            if argument in followed:
                arrays[argument] = sweep.builder.emit("scatter_set", (arrays[argument], turns, result), {"axes": (0,)},
                                                      name=arrays[argument].name)
    block: Block = out[0]
    return block.operations


def with_body(loop: Operation, body: Block, operands: tuple[Operand, ...], results: tuple[Value, ...]) -> Operation:
    """A loop with another body that carries more."""
    return Operation(loop.op, (*loop.operands, *operands), (*loop.results, *results), loop.attributes, (body,), loop.location)


def difference(sweep: Reverse, a: Operand, b: Operand) -> Operand:
    """a - b of integers."""
    if b == ZERO:
        return a
    result: Operand = sweep.builder.emit("sub", (a, b))
    return result


def capacity_of(sweep: Reverse, loop: Operation) -> Dim | None:
    """A size that the number of turns never exceeds; None where none is known."""
    given = sweep.capacities.get(loop.regions[0].arguments[0])
    if given is not None:
        return given
    high, low = sweep.bounds.bound(loop.operands[1], True), sweep.bounds.bound(loop.operands[0], False)
    if high is None or low is None or (high - low).symbols - set(sweep.function.sizes):
        return None
    capacity = high - low
    if capacity.constant is not None:
        return Dim.of(max(capacity.constant, 0))
    if capacity.bare_symbol is None or capacity.bare_symbol in sweep.bounds.symbols:
        none = capacity.symbols <= set(sweep.hints) and capacity.evaluate(sweep.hints) < 0       # range(n - 1) where n is 0
        guard = Guard(capacity, "<" if none else ">=", Dim.of(0), loop.location)
        if guard not in sweep.guards:
            sweep.guards.append(guard)
        capacity = Dim.of(0) if none else capacity
    return capacity


def extent_of_turns(sweep: Reverse, loop: Operation) -> Dim:
    """Define the number of turns as a size."""
    symbol = sweep.new_symbol()
    sweep.builder.emit("extent", (difference(sweep, loop.operands[1], loop.operands[0]),), {"symbol": symbol})
    return Dim.symbol(symbol)


# ----------------------------------------------------------------------------------------------------- while
def reverse_while(sweep: Reverse, loop: Operation, cotangents: Cotangents) -> None:
    """Let the loop count its turns, and run it again as a `for`."""
    builder = sweep.builder
    condition, body = loop.regions
    counters = [builder.value("turns", I64) for _ in range(3)]
    more = builder.value("turns", I64)
    step = Operation("add", (counters[1], ONE), (more,), location=loop.location)
    regions = (Block((*condition.arguments, counters[0]), condition.operations, condition.yields),
               Block((*body.arguments, counters[1]), (*body.operations, step), (*body.yields, more)))
    sweep.replace(loop, [Operation("while", (*loop.operands, ZERO), (*loop.results, counters[2]), regions=regions,
                                   location=loop.location)])
    run_again(sweep, loop, (ZERO, counters[2]), loop.operands, counters[2], cotangents)


def run_again(sweep: Reverse, loop: Operation, bounds: Sequence[Operand], initial: Sequence[Operand], turns: Operand,
              cotangents: Cotangents) -> None:
    """Emit a copy of a loop as a `for` of so many turns, which may save values, and its adjoint."""
    builder = sweep.builder
    symbol = sweep.new_symbol()
    builder.emit("extent", (turns,), {"symbol": symbol})
    copy = Copy({}, builder, sweep.new_symbol)
    again = without_effects(Operation(loop.op, (), (), regions=(loop.regions[-1],)))
    body = copy.block(again.regions[0])
    if loop.op == "while":
        body = Block((builder.value("turn", I64), *body.arguments), body.operations, body.yields)
    results = tuple(map(copy.new, loop.results))
    again = Operation("for", (*bounds, *initial), results, regions=(body,), location=loop.location)
    sweep.adopt(copy.values, again)
    sweep.alive.follow(copy.values)
    finished = dict(sweep.alive.reads)
    sweep.capacities[body.arguments[0]] = Dim.symbol(symbol)
    with builder.region() as out:
        reverse_for(sweep, again, cotangents)
    block: Block = out[0]
    for each in (*(with_reads(o, finished) for o in sweep.current(again)), *block.operations):
        builder.append(each)
