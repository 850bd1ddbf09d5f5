"""Loops and choices that stay as they are: a serial loop is one statement of the block it is in, and its body is a block that is
scheduled by the same rule.

What a loop carries lives in one local scalar or array each. The body makes the new value in its place where nothing needs the
old one any more (`inplace`); otherwise in a second place, and at the end of the turn the places change names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..ir.analysis import free_values, operands_in
from ..ir.core import Block, Literal, Operation, Value
from ..ir.core import Operand as GraphOperand
from ..ir.dims import Dim
from ..ir.loops import Apply, Assign, Break, Expr, Fill, For, If, Number, Rename, Var, While, subexpressions
from ..ir.loops import Statement as LoopStatement
from ..ir.types import DType
from .index import Operand
from .names import is_unnamed

if TYPE_CHECKING:
    from .lower import Lowering, Statement
    from .program import Writer

TRUE = Number(True, DType.bool)


@dataclass(eq=False)
class Control:
    """A `for`, `while` or `cond`. `starts`: per result what it starts from, None where it is there already; `index`: what
    stands for the loop's index, `down`: it counts down."""

    op: Operation
    bounds: tuple[Operand, ...]
    parts: tuple[Lowering, ...]
    starts: tuple[Operand | None, ...]
    index: Value | None = None
    down: bool = False


# ------------------------------------------------------------------------------------------------------ lowering
def lower_control(lowering: Lowering, op: Operation) -> None:
    """Lower an operation with regions to one statement."""
    for result in op.results:
        lowering.define(result).whole = True
    first: tuple[Statement, ...] = ()
    overwritten: list[Value] = []
    starts: list[Operand | None] = []
    for result, x in zip(op.results, carried_operands(op), strict=True):
        base = lowering.takes_over(result)
        if base is not None:
            first += lowering.take_over(result, base)
            overwritten.append(base)
            starts.append(None)
        elif x is None or not result.type.dims:
            starts.append(None if x is None else lowering.read(x))
        else:
            start = start_of_array(lowering, result, x)
            starts.append(None if isinstance(start, Literal) and fills(lowering, op, result) else start)
            if result in lowering.over:
                first += tuple(lowering.definitions[lowering.over[result]].statements)
    control = with_parts(lowering, op, starts)
    free = dict.fromkeys([*scalar_operands(op), *(v for region in op.regions for v in free_values(region))])
    reads = tuple(lowering.read(v, lowering.axes_for(v.type)) for v in free)
    s = lowering.statement(op.results[0], (), "=", "", reads, (), after=first, overwrites=tuple(overwritten), control=control)
    for result in op.results[1:]:
        lowering.definitions[result].statements.append(s)
    for k, result in enumerate(op.results):
        names = [result.name, *(part.block.arguments[len(part.block.arguments) - len(op.results) + k].name
                                for part in control.parts[-1:] if op.op != "cond")]
        named = [name for name in names if not is_unnamed(name)]
        if named and is_unnamed(lowering.root(result).name):
            lowering.wishes.setdefault(lowering.root(result), named[0])
    lowering.rotated |= {
        r for k, r in enumerate(op.results) if r.type.dims and any(changes_name(part, k) for part in control.parts)
    }


def changes_name(part: Lowering, k: int) -> bool:
    """Whether a region puts another array into a place under its name, itself or in a loop inside it."""
    if len(part.outputs) <= k:
        return False
    output, home = part.outputs[k], part.homes[k]
    rotated = {part.root(r) for r in part.rotated}
    return (
        home in rotated
        or isinstance(output, Value)
        and (part.root(output) in rotated or part.rotating and part.root(output) is not home)
    )


def carried_operands(op: Operation) -> tuple[GraphOperand | None, ...]:
    """Per result, what it starts from."""
    if op.op == "cond":
        return (None,) * len(op.results)
    return op.operands[2:] if op.op == "for" else op.operands


def scalar_operands(op: Operation) -> list[Value]:
    """What the operation reads itself, besides what its arrays start from."""
    return [x for x in op.operands if isinstance(x, Value) and not x.type.dims]


def start_of_array(lowering: Lowering, result: Value, x: GraphOperand) -> Operand | None:
    """Provide what a carried array starts from: a number to fill it with, or a copy whose place it takes."""
    read = lowering.read(x, lowering.axes_for(x.type))
    if isinstance(read, Literal):
        return read
    assert isinstance(x, Value)
    lowering.take_over(result, lowering.copied(x, result.name))
    return None


def fills(lowering: Lowering, op: Operation, result: Value) -> bool:
    """Whether a loop sets every row of an array that it carries and reads none, so that it does not matter what it starts
    from; the last row may be left to a store behind the loop."""
    if op.op != "for":
        return False
    region = op.regions[0]
    argument, y = region.arguments[1 + op.results.index(result)], region.yields[op.results.index(result)]
    update = next((o for o in region.operations if y in o.results), None)
    low, high = (linear(lowering, region, x) for x in op.operands[:2])
    turns = minus(high, low)
    if (
        update is None
        or not sets_row(update, argument)
        or linear(lowering, region, update.operands[1]) != minus({region.arguments[0]: 1}, low)
    ):
        return False
    if sum(x is argument for o in region.operations for x in operands_in(o)) + region.yields.count(argument) > 1:
        return False
    rows = rows_of(lowering, region, result.type.dims[0])
    users = [o for o in lowering.operations if any(x is result for x in operands_in(o))]
    stored = len(users) == 1 and sets_row(users[0], result) and result not in lowering.results and \
        linear(lowering, region, users[0].operands[1]) == turns
    return rows == turns or stored and rows == plus(turns, {None: 1})


def rows_of(lowering: Lowering, body: Block, dim: Dim) -> Linear:
    """A length as a sum; one that is computed is what it is computed from (and not negative where it matters)."""
    total: Linear = {}
    for key, c in size_of(dim).items():
        made = lowering.extents.get(key[0]) if isinstance(key, tuple) and len(key) == 1 else None
        maker = lowering.find_maker(made) if made is not None else None
        known = linear(lowering, body, maker.operands[0]) if maker is not None and maker.op == "extent" else {key: 1}
        total = plus(total, {k: c * each for k, each in known.items()})
    return total


def sets_row(op: Operation, array: Value) -> bool:
    """Whether this stores one row into an array."""
    return op.op == "scatter_set" and op.operands[0] is array and op.attributes["axes"] == (0,) and not op.operands[1].type.dims


def with_parts(lowering: Lowering, op: Operation, starts: Sequence[Operand | None]) -> Control:
    """The operation with its regions lowered."""
    child = type(lowering)
    if op.op == "cond":
        homes = [lowering.over.get(r) for r in op.results]
        owned = [h for h in homes if h is not None]
        parts = tuple(child(r, parent=lowering, owned=owned, homes=homes).run() for r in op.regions)
        return Control(op, (lowering.read(op.operands[0]),), parts, tuple(starts))
    if op.op == "while":
        condition, body = op.regions
        parts = (
            child(condition, parent=lowering).run(),
            child(body, parent=lowering, owned=body.arguments, homes=body.arguments, rotating=True).run(),
        )
        return Control(op, (), parts, tuple(starts))
    (body,) = op.regions
    index, *arguments = body.arguments
    bounds = tuple(lowering.read(x) for x in op.operands[:2])
    flipped = counted_down(lowering, op)
    part = child(body if flipped is None else flipped[0], parent=lowering, owned=arguments, homes=arguments, rotating=True)
    return Control(op, bounds, (part.run(),), tuple(starts), index if flipped is None else flipped[1], flipped is not None)


# ------------------------------------------------------------------------------------------------------ counting down
def counted_down(lowering: Lowering, op: Operation) -> tuple[Block, Value] | None:
    """The body with an index that counts down, if the index is only used in `last - index`."""
    body = op.regions[0]
    index = body.arguments[0]
    if op.operands[0] != Literal(0, DType.i64):
        return None
    last = plus(linear(lowering, body, op.operands[1]), {None: -1})
    users = [o for o in body.operations if index in o.operands or any(index in free_values(r) for r in o.regions)]
    turned = [o for o in users if o.op == "sub" and o.operands[1] is index and o.operands[0] is not index]
    if not users or len(turned) < len(users) or index in body.yields or \
            any(linear(lowering, body, o.operands[0]) != last for o in turned):
        return None
    back = Value(turned[0].result.name, turned[0].result.type)
    new = {o.result: back for o in turned}
    operations = tuple(renamed(o, new) for o in body.operations if o not in turned)
    return Block(
        (back, *body.arguments[1:]), operations, tuple(new.get(y, y) if isinstance(y, Value) else y for y in body.yields)
    ), back


def renamed(op: Operation, new: dict[Value, Value]) -> Operation:
    """The operation reading other values, in its regions too."""
    def change(x: GraphOperand) -> GraphOperand:
        return new.get(x, x) if isinstance(x, Value) else x

    regions = tuple(
        Block(r.arguments, tuple(renamed(o, new) for o in r.operations), tuple(map(change, r.yields))) for r in op.regions
    )
    return replace(op, operands=tuple(map(change, op.operands)), regions=regions)


Linear = dict[object, int]


def linear(lowering: Lowering, body: Block, x: GraphOperand) -> Linear:
    """An integer as a sum: coefficients of values and of products of sizes, that of None being the constant."""
    if isinstance(x, Literal):
        return plus({}, {None: int(x.value.real)})
    maker = {r: o for o in body.operations for r in o.results}.get(x) or lowering.find_maker(x)
    if maker is not None and maker.op in ("add", "sub"):
        a, b = (linear(lowering, body, operand) for operand in maker.operands)
        return minus(a, b) if maker.op == "sub" else plus(a, b)
    if maker is not None and maker.op == "maximum" and Literal(0, DType.i64) in maker.operands:
        turns = maker.operands[isinstance(maker.operands[0], Literal)]          # not negative where it matters
        return linear(lowering, body, turns)
    if maker is not None and maker.op == "size":
        return size_of(maker.attributes["dim"])
    return {(x.name,) if lowering.is_parameter(x) else x: 1}


def size_of(dim: Dim) -> Linear:
    return plus({}, {monomial or None: c for monomial, c in dim.terms})


def minus(a: Linear, b: Linear) -> Linear:
    return plus(a, {k: -c for k, c in b.items()})


def plus(a: Linear, b: Linear) -> Linear:
    total = {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}}
    return {k: c for k, c in total.items() if c}


# ------------------------------------------------------------------------------------------------------ writing
def plain_while(s: LoopStatement) -> LoopStatement:
    """`while True: if not c: break; ...` as `while c: ...`, everywhere in a statement."""
    if isinstance(s, For):
        return replace(s, body=tuple(map(plain_while, s.body)))
    if isinstance(s, If):
        return replace(s, body=tuple(map(plain_while, s.body)), orelse=tuple(map(plain_while, s.orelse)))
    if not isinstance(s, While):
        return s
    body = tuple(map(plain_while, s.body))
    first = body[0]
    if s.condition == TRUE and isinstance(first, If) and first.body == (Break(),) and isinstance(first.condition, Apply):
        return While(first.condition.operands[0], body[1:])
    return replace(s, body=body)


def write_control(writer: Writer, s: Statement) -> None:
    """Write a loop or a choice."""
    control = s.control
    assert control is not None
    op = control.op
    places = [writer.place_name(r) for r in op.results]
    for name, start, result in zip(places, control.starts, op.results, strict=True):
        if start is not None:
            value = writer.operand(start)
            writer.out(Fill(name, value) if result.type.dims else Assign(name, value, s.location, keep=True))
    if op.op == "cond":
        write_cond(writer, control, places)
    elif op.op == "while":
        write_while(writer, control, places)
    else:
        write_for(writer, control, places)


def write_for(writer: Writer, control: Control, places: list[str]) -> None:
    low, high = map(writer.operand, control.bounds)
    assert control.index is not None
    name = writer.names.fresh(control.index.name)
    arguments = control.parts[0].block.arguments[1:]
    child = writer.inside(control.parts[0], {control.index: name, **dict(zip(arguments, places, strict=True))})
    body = child.block_of(places)
    if control.down:
        one = Number(1, DType.i64)
        writer.out(For(name, Number(-1, DType.i64), body, Apply("{0} - {1}", (high, one)), -1))
    else:
        writer.out(For(name, high, body, None if low == Number(0, DType.i64) else low))


def write_while(writer: Writer, control: Control, places: list[str]) -> None:
    condition, body = control.parts
    test = writer.inside(condition, dict(zip(condition.block.arguments, places, strict=True)))
    frame = test.open_block()
    goes_on = test.operand(condition.outputs[0])     # type: ignore[arg-type]
    writer.frames.pop()
    turn = writer.inside(body, dict(zip(body.block.arguments, places, strict=True))).block_of(places)
    writer.out(While(TRUE, (*frame.out, If(Apply("not {0}", (goes_on,)), (Break(),)), *turn)))


def write_cond(writer: Writer, control: Control, places: list[str]) -> None:
    predicate = writer.operand(control.bounds[0])
    branches = [writer.inside(part, {}, places).block_of(places) for part in control.parts]
    if branches[0]:
        writer.out(If(predicate, *branches))
    elif branches[1]:
        writer.out(If(Apply("not {0}", (predicate,)), branches[1]))


def moves(writer: Writer, places: list[str], outputs: Sequence[Operand | Value], rotating: bool) -> list[LoopStatement]:
    """What brings the results of a block to their places: all at once, though written one after the other."""
    targets: list[str] = []
    sources: list[str] = []
    scalars: list[tuple[str, Expr]] = []
    for place, output in zip(places, outputs, strict=True):
        if isinstance(output, Value):
            name = writer.place_name(output)
            if name != place:
                targets.append(place)
                sources.append(name)
        else:
            scalars.append((place, writer.operand(output)))
    return [*scalar_moves(writer, scalars), *array_moves(targets, sources, rotating)]


def array_moves(targets: list[str], sources: list[str], rotating: bool) -> list[LoopStatement]:
    """At the end of a turn arrays change names, all in one assignment; at the end of a branch they are copied."""
    if not rotating or not targets:
        return [Fill(t, Var(name)) for t, name in zip(targets, sources, strict=True)]
    left = [t for t in targets if t not in sources]             # what they held before goes where there is room
    room = [name for name in sources if name not in targets]
    return [Rename((*targets, *room), (*sources, *left))]


def scalar_moves(writer: Writer, pairs: list[tuple[str, Expr]]) -> list[LoopStatement]:
    """Assignments in an order in which none overwrites what a later one reads; a temporary where they go in a circle."""
    left = [(t, e) for t, e in pairs if e != Var(t)]
    out: list[LoopStatement] = []
    while left:
        free = next(
            (k for k, (t, _) in enumerate(left) if not any(mentions(e, t) for j, (_, e) in enumerate(left) if j != k)), None
        )
        if free is not None:
            out.append(Assign(*left.pop(free), keep=True))
            continue
        target = left[0][0]
        saved = writer.names.fresh(f"{target}_old")
        out.append(Assign(saved, Var(target), keep=True))
        left = [(t, substitute(e, target, saved)) for t, e in left]
    return out


def mentions(e: Expr, name: str) -> bool:
    return any(x == Var(name) for x in subexpressions(e))


def substitute(e: Expr, name: str, by: str) -> Expr:
    if e == Var(name):
        return Var(by)
    return Apply(e.code, tuple(substitute(x, name, by) for x in e.operands)) if isinstance(e, Apply) else e
