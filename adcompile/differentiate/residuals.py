"""Residuals: which primal values of a region its adjoint needs, and for each whether to recompute or to save it.

The adjoint of a loop runs after the loop, so a value of the loop's body has to be made available a second time. The loop
index and values from outside still are. Carried values are saved, one per turn. What is computed from those is computed
again, except where that is dear or impossible: contractions and reductions (their result is smaller than what they read)
and whatever reads an array that the loop updates in place, for which the value that was read is saved and not the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..ir.analysis import operands_in
from ..ir.builder import Builder
from ..ir.core import Block, Operand, Operation, Value
from ..ir.dims import Dim

UPDATES = frozenset({"scatter_set", "scatter_add"})
DEAR = frozenset({"contract", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})


@dataclass(frozen=True)
class Plan:
    """`saved`: values to keep for every turn; `recomputed`: operations to do again, in order."""

    saved: tuple[Value, ...]
    recomputed: tuple[Operation, ...]


def plan(body: Block, needed: Iterable[Value], may_save: bool) -> Plan:
    """How to provide the `needed` values of a region to its adjoint. Without `may_save` (the branch of a cond, which has no
    turns) everything is computed again."""
    producers = {result: operation for operation in body.operations for result in operation.results}
    carried = set(body.arguments)
    updated = updated_arrays(body) if may_save else set()
    saved: dict[Value, None] = {}
    recomputed: set[Operation] = set()
    seen: set[Value] = set()
    stack = list(needed)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        operation = producers.get(value)
        if operation is None:
            if value in carried:
                saved[value] = None
        elif may_save and (operation.op in DEAR or any(x in updated for x in operands_in(operation))):
            saved[value] = None
        else:
            recomputed.add(operation)
            stack.extend(x for x in operands_in(operation) if isinstance(x, Value))
    order = {value: position for position, value in enumerate((*body.arguments, *producers))}
    return Plan(tuple(sorted(saved, key=order.__getitem__)), tuple(o for o in body.operations if o in recomputed))


def updated_arrays(body: Block) -> set[Value]:
    """The carried arrays that the body updates in place, in all their versions."""
    found: set[Value] = set()
    for argument, result in zip(body.arguments[len(body.arguments) - len(body.yields):], body.yields, strict=True):
        versions = {argument}
        for operation in body.operations:
            if operation.op in UPDATES and operation.operands[0] in versions:
                versions.add(operation.result)
            elif operation.op in ("for", "while", "cond"):
                versions.update(y for y in operation.results
                                if y.type == argument.type and any(x in versions for x in operands_in(operation)))
        if argument.type.dims and result is not argument and result in versions:
            found |= versions
    return found


def fresh_copy(operation: Operation, values: dict[Value, Operand], builder: Builder) -> Operation:
    """A copy of an operation, all values of it new. `values` maps what it reads, and gets the new values added."""
    def new(value: Value) -> Value:
        fresh = builder.value(value.name, value.type)
        values[value] = fresh
        return fresh

    def old(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    def block(region: Block) -> Block:
        arguments = tuple(map(new, region.arguments))
        operations = tuple(fresh_copy(o, values, builder) for o in region.operations)
        return Block(arguments, operations, tuple(map(old, region.yields)))

    operands = tuple(map(old, operation.operands))
    regions = tuple(map(block, operation.regions))
    return Operation(operation.op, operands, tuple(map(new, operation.results)), operation.attributes, regions, operation.location)


def substituted(operation: Operation, values: Mapping[Value, Operand]) -> Operation:
    """An operation that reads other values; what it defines stays."""
    def old(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    regions = tuple(Block(r.arguments, tuple(substituted(o, values) for o in r.operations), tuple(map(old, r.yields)))
                    for r in operation.regions)
    return Operation(operation.op, tuple(map(old, operation.operands)), operation.results, operation.attributes, regions,
                     operation.location)


# ------------------------------------------------------------------------------------------- bounds of integers
class Bounds:
    """Upper and lower bounds of integer scalars as Dims, from the operations that define them."""

    def __init__(self, integer_symbols: Iterable[str]) -> None:
        self.symbols = set(integer_symbols)
        self.definitions: dict[Value, Operation] = {}
        self.indices: dict[Value, tuple[Operand, Operand]] = {}

    def learn(self, block: Block) -> None:
        """Take note of the operations and loop indices of a block and of the regions inside it."""
        for operation in block.operations:
            self.definitions.update((y, operation) for y in operation.results)
            if operation.op == "for":
                self.indices[operation.regions[0].arguments[0]] = (operation.operands[0], operation.operands[1])
            for region in operation.regions:
                self.learn(region)

    def bound(self, x: Operand, upper: bool) -> Dim | None:
        """A Dim that x never exceeds (or never falls below), None where none is known."""
        if not isinstance(x, Value):
            return Dim.of(int(x.value.real))
        if x in self.indices:
            low, high = self.indices[x]
            edge = self.bound(high if upper else low, upper)
            return edge - 1 if upper and edge is not None else edge
        operation = self.definitions.get(x)
        if operation is None:
            return Dim.symbol(x.name) if x.name in self.symbols else None
        return self.bound_of_result(operation, upper)

    def bound_of_result(self, operation: Operation, upper: bool) -> Dim | None:
        """The bound of an operation's result."""
        if operation.op == "size":
            found: Dim = operation.attributes["dim"]
            return found
        if operation.op not in ("add", "sub", "neg", "minimum", "maximum", "cast"):
            return None
        if operation.op in ("neg", "cast"):
            inner = self.bound(operation.operands[0], upper if operation.op == "cast" else not upper)
            return -inner if inner is not None and operation.op == "neg" else inner
        a = self.bound(operation.operands[0], upper)
        b = self.bound(operation.operands[1], not upper if operation.op == "sub" else upper)
        if operation.op in ("minimum", "maximum"):
            return (a if a is not None else b) if upper == (operation.op == "minimum") else None
        if a is None or b is None:
            return None
        return a - b if operation.op == "sub" else a + b
