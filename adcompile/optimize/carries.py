"""What the body of a loop does with the values that the loop carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.analysis import CAN_RAISE, live_operations, operands_in
from ..ir.builder import Builder
from ..ir.core import Block, Operand, Operation, Value
from ..ir.op import TABLE
from ..ir.types import DType, Type

BRANCH_COST = 100.0                 # flops of both branches up to which computing both is better than a branch
ARRAY_COST = 10.0                   # what an operation on arrays counts for, in operations on scalars
SCATTERS = ("scatter_add", "scatter_set")

OUTSIDE: frozenset[Value] = frozenset()
TURNWISE = Value("turnwise", Type(DType.bool))      # in the dependences of a value: it can only be computed turn by turn


class Body:
    """The body of a `for`, with the definitions, uses and dependences of its values."""

    def __init__(self, block: Block) -> None:
        self.index, *self.arguments = block.arguments
        self.operations, self.yields = block.operations, block.yields
        self.definitions = {y: o for o in block.operations for y in o.results}
        self.uses: Counter[Operand] = Counter(block.yields)
        self.depends: dict[Operand, frozenset[Value]] = {a: frozenset({a}) for a in block.arguments}
        for o in block.operations:
            self.uses.update(operands_in(o))
            found = OUTSIDE.union(*(self.on(x) for x in operands_in(o)))
            if found and o.regions and (o.op != "cond" or self.on(o.operands[0])):
                found |= {TURNWISE}
            self.depends.update(dict.fromkeys(o.results, found))

    def on(self, x: Operand) -> frozenset[Value]:
        """The body's arguments that a value depends on."""
        return self.depends.get(x, OUTSIDE) if isinstance(x, Value) else OUTSIDE

    def definition(self, x: Operand) -> Operation | None:
        """The operation of the body that defines x."""
        return self.definitions.get(x) if isinstance(x, Value) else None

    def scalar(self, x: Operand) -> Operand | None:
        """x itself if it is a scalar, or the scalar in all its entries; None where they can differ."""
        if not x.type.rank:
            return x
        made = self.definition(x)
        return made.operands[0] if made is not None and made.op == "broadcast" and not made.operands[0].type.rank else None

    def separable(self, indices: Sequence[Operand]) -> bool:
        """Whether an access at these indices keeps its shape when indices that are scalars are taken first."""
        return bool(indices) and (scalars(indices) or any(self.scalar(i) is None for i in indices))

    def inside(self, x: Operand) -> bool:
        """Whether x belongs to the body."""
        return isinstance(x, Value) and x in self.depends


# ---------------------------------------------------------------------------------------------------- places in arrays
@dataclass(frozen=True)
class Versions:
    """A carried array and what stores made of it within a turn; nothing else is done with any of them."""

    body: Body
    values: frozenset[Value]
    accesses: tuple[Operation, ...]             # gather, scatter_add, scatter_set
    choices: tuple[Operation, ...]              # select between two versions, by one scalar

    def index(self, access: Operation, axis: int) -> Operand | None:
        """The scalar index of an access along an axis, None where it takes several entries of the axis."""
        axes = access.attributes["axes"]
        return self.body.scalar(access.operands[1 + axes.index(axis)]) if axis in axes else None


def versions_of(body: Body, argument: Value) -> Versions | None:
    """The versions of a carried array, None where it is also used as a whole."""
    values = {argument}
    accesses: list[Operation] = []
    choices: list[Operation] = []
    for o in body.operations:
        used = sum(x in values for x in operands_in(o))
        if not used:
            continue
        if used == 1 and o.op == "gather" and o.operands[0] in values and body.separable(o.operands[1:]):
            accesses.append(o)
        elif used == 1 and o.op in SCATTERS and o.operands[0] in values and body.separable(o.operands[1:-1]):
            accesses.append(o)
            values.add(o.result)
        elif used == 2 and o.op == "select" and o.operands[0] not in values and chosen_by(body, o) is not None:
            choices.append(o)
            values.add(o.result)
        else:
            return None
    elsewhere = sum(y in values for y in body.yields)
    position = body.arguments.index(argument)
    if elsewhere != 1 or body.yields[position] not in values:
        return None
    return Versions(body, frozenset(values), tuple(accesses), tuple(choices))


def scalars(operands: Sequence[Operand]) -> bool:
    """Whether there are operands, all of rank 0."""
    return bool(operands) and all(x.type.rank == 0 for x in operands)


def chosen_by(body: Body, o: Operation) -> Operand | None:
    """The scalar that a select of arrays depends on, None where it differs between entries."""
    return body.scalar(o.operands[0]) if o.result.type.rank else None


# ---------------------------------------------------------------------------------------------------- accumulations
@dataclass(frozen=True)
class Term:
    """What one operation adds to a carried value: `sign * value`, or the updates of a `scatter_add`; only where all
    `conditions` (value, truth) hold."""

    kind: str
    value: Operand
    negative: bool = False
    scatter: Operation | None = None
    conditions: tuple[tuple[Operand, bool], ...] = ()


LINKS = {"add": "sum", "sub": "sum", "mul": "prod", "maximum": "max", "minimum": "min", "and": "and", "or": "or"}


class Chain:
    """Follows a carried value from what is yielded back to the argument."""

    def __init__(self, body: Body, argument: Value) -> None:
        self.body, self.argument = body, argument
        self.used: Counter[Operand] = Counter()

    def terms(self, following: Operand) -> list[Term] | None:
        """The terms that a turn adds; None unless the yielded value is made from the argument by them alone, and nothing
        else reads the argument or a partial result."""
        self.used[following] += 1
        found = self.follow(following, self.argument)
        if not found or len({t.kind for t in found}) != 1:
            return None
        if any(self.body.uses[x] != n for x, n in self.used.items()):
            return None
        return None if any(self.argument in self.body.on(x) for t in found for x in term_operands(t)) else found

    def follow(self, x: Operand, base: Operand) -> list[Term] | None:
        """The terms between base and x."""
        if x is base:
            return []
        o = self.body.definition(x)
        if o is None or self.argument not in self.body.on(x):
            return None
        if o.op == "select":
            return self.follow_choice(o, base)
        if o.op == "scatter_add" and self.argument in self.body.on(o.operands[0]):
            return self.extended(o.operands[0], base, Term("sum", o.operands[-1], scatter=o))
        if o.op not in LINKS:
            return None
        left, right = o.operands
        if self.argument in self.body.on(left):
            return self.extended(left, base, Term(LINKS[o.op], right, negative=o.op == "sub"))
        return None if o.op == "sub" else self.extended(right, base, Term(LINKS[o.op], left))

    def extended(self, x: Operand, base: Operand, term: Term) -> list[Term] | None:
        """The terms up to x and one more."""
        self.used[x] += 1
        before = self.follow(x, base)
        return None if before is None else [*before, term]

    def follow_choice(self, o: Operation, base: Operand) -> list[Term] | None:
        """select(p, t, e): where one is made from the other, its additional terms are conditional."""
        predicate, then, otherwise = o.operands
        for longer, shorter, truth in ((then, otherwise, True), (otherwise, then, False)):
            saved = self.used.copy()
            self.used.update((longer, shorter))
            extra = self.follow(longer, shorter)
            before = self.follow(shorter, base) if extra is not None else None
            if extra is not None and before is not None:
                return [*before, *(Term(t.kind, t.value, t.negative, t.scatter, (*t.conditions, (predicate, truth)))
                                   for t in extra)]
            self.used = saved
        return None


def term_operands(term: Term) -> tuple[Operand, ...]:
    """All that a term depends on."""
    places = term.scatter.operands[1:-1] if term.scatter is not None else ()
    return (term.value, *places, *(p for p, _ in term.conditions))


# ---------------------------------------------------------------------------------------------------- bodies made simpler
def replaced(operation: Operation, values: Mapping[Value, Operand]) -> Operation:
    """An operation with other operands, in its regions too; its results stay the same values."""
    def operand(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    regions = tuple(Block(r.arguments, tuple(replaced(o, values) for o in r.operations), tuple(map(operand, r.yields)))
                    for r in operation.regions)
    return Operation(operation.op, tuple(map(operand, operation.operands)), operation.results, operation.attributes, regions,
                     operation.location)


def without_branches(b: Builder, block: Block) -> Block:
    """A body whose cheap branches are both computed, and chosen from by select. Branches that could raise stay."""
    if not any(o.op == "cond" and cost_of(o) <= BRANCH_COST for o in block.operations):
        return block
    values: dict[Value, Operand] = {}
    with b.region(block.arguments) as out:
        merge_branches(b, block.operations, values)
        out.extend(values.get(x, x) if isinstance(x, Value) else x for x in block.yields)
    result: Block = out[0]
    return result


def merge_branches(b: Builder, operations: Sequence[Operation], values: dict[Value, Operand]) -> None:
    """Emit operations, the branches of cheap conds one after the other."""
    for operation in operations:
        o = replaced(operation, values)
        if o.op != "cond" or cost_of(o) > BRANCH_COST:
            b.append(o)
            continue
        for region in o.regions:
            merge_branches(b, region.operations, values)
        b.location = o.location
        for result, *pair in zip(o.results, *(r.yields for r in o.regions), strict=True):
            then, otherwise = (values.get(x, x) if isinstance(x, Value) else x for x in pair)
            predicate = o.operands[0]
            if result.type.dims:
                predicate = b.emit("broadcast", (predicate,), {"dims": result.type.dims, "axes": ()})
            values[result] = then if then is otherwise else b.emit("select", (predicate, then, otherwise))


def cost_of(operation: Operation) -> float:
    """The flops of an operation with its branches, infinite where it may raise or is a loop."""
    if operation.op in CAN_RAISE or operation.op in ("for", "while"):
        return float("inf")
    own = TABLE[operation.op].cost * (ARRAY_COST if any(y.type.rank for y in operation.results) else 1.0)
    return own + sum(cost_of(o) for r in operation.regions for o in r.operations)


def with_plain_accesses(b: Builder, block: Block) -> Block:
    """A body in which a[i] = a[i] + x, written as a read and a store, is an addition at that place, and a[i, array] takes
    a[i] first."""
    body = Body(block)
    values: dict[Value, Operand] = {}
    with b.region(block.arguments) as out:
        for operation in block.operations:
            o = replaced(operation, values)
            b.location = o.location
            added = addition(body, operation)
            fixed = scalar_axes(body, operation)
            if fixed:
                values[operation.result] = gather_twice(b, o, [body.scalar(x) for x in operation.operands[1:]], fixed, values)
                continue
            if added is None:
                b.append(o)
                continue
            value, negative = added
            new = b.emit("neg", (value,)) if negative else value
            values[operation.result] = b.emit("scatter_add", (*o.operands[:-1], new), o.attributes)
        out.extend(values.get(x, x) if isinstance(x, Value) else x for x in block.yields)
    result: Block = out[0]
    return Block(result.arguments, tuple(live_operations(result.operations, result.yields)), result.yields)


def scalar_axes(body: Body, o: Operation) -> list[int]:
    """For a gather at arrays: the positions of the indices that are one scalar which depends on the turn."""
    if o.op != "gather" or scalars(o.operands[1:]) or not body.separable(o.operands[1:]):
        return []
    return [k for k, x in enumerate(o.operands[1:]) if body.on(x) and body.scalar(x) is not None]


def gather_twice(b: Builder, o: Operation, indices: Sequence[Operand | None], first: Sequence[int],
                 values: Mapping[Value, Operand]) -> Operand:
    """A gather that takes some indices, known to be scalars, before the others."""
    axes = o.attributes["axes"]
    taken = tuple(axes[k] for k in first)
    found = [values.get(x, x) if isinstance(x, Value) else x for x in (indices[k] for k in first)]
    part = b.emit("gather", (o.operands[0], *found), {"axes": taken})
    rest = [k for k in range(len(axes)) if k not in first]
    left = tuple(axes[k] - sum(a < axes[k] for a in taken) for k in rest)
    result: Operand = b.emit("gather", (part, *(o.operands[1 + k] for k in rest)), {"axes": left})
    return result


def addition(body: Body, o: Operation) -> tuple[Operand, bool] | None:
    """For a store of what was there plus something: the something, and whether it is subtracted."""
    if o.op != "scatter_set" or not scalars(o.operands[1:-1]) or body.uses[o.operands[-1]] != 1:
        return None
    made = body.definition(o.operands[-1])
    if made is None or made.op not in ("add", "sub"):
        return None
    left, right = made.operands
    for old, new in ((left, right), (right, left)) if made.op == "add" else ((left, right),):
        read = body.definition(old)
        if read is not None and read.op == "gather" and read.operands == o.operands[:-1] and read.attributes == o.attributes \
                and body.uses[old] == 1:
            return new, made.op == "sub"
    return None
