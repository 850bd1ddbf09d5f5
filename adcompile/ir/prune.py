"""Blocks without what nothing reads: dead operations, and carried values of loops that only feed themselves. Operations with an
effect stay, and those with regions have a result at least."""

from __future__ import annotations

from collections.abc import Iterable

from .analysis import Live, live_operations, operands_in
from .core import Block, Operand, Operation, Value


def clean(operations: Iterable[Operation], results: Iterable[Operand]) -> tuple[Operation, ...]:
    """The live operations of a block, their regions cleaned. From the end, so that what a cleaned loop no longer reads
    dies too."""
    operations = tuple(operations)
    live = Live(operations, results)
    kept: list[Operation] = []
    for operation in reversed(operations):
        if live.needs(operation):
            operation = clean_regions(operation, live.values) if operation.regions else operation
            live.use(operation)
            kept.append(operation)
    return tuple(kept[::-1])


def clean_regions(operation: Operation, live: set[Value]) -> Operation:
    """An operation with regions without what it computes for nobody."""
    if operation.op == "cond":
        read = [y in live for y in operation.results]
        operation = without_results(operation, read if any(read) else [True, *read[1:]])
    elif operation.op in ("for", "while"):
        operation = without_results(operation, carried_and_read(operation, live))
    regions = tuple(Block(r.arguments, clean(r.operations, r.yields), r.yields) for r in operation.regions)
    return Operation(operation.op, operation.operands, operation.results, operation.attributes, regions, operation.location)


def carried_and_read(loop: Operation, live: set[Value]) -> list[bool]:
    """Which carried values of a loop are read: by a later operation, by the loop's condition, or on the way to one of those."""
    skip = 1 if loop.op == "for" else 0
    body = loop.regions[-1]
    needed = [y in live for y in loop.results]
    if not any(needed):
        needed[0] = True
    roots: list[Operand] = []
    if loop.op == "while":
        roots = list(loop.regions[0].yields)
        condition = live_values(loop.regions[0], roots)
        needed = [n or a in condition for n, a in zip(needed, loop.regions[0].arguments, strict=True)]
    while True:
        read = live_values(body, [x for x, n in zip(body.yields, needed, strict=True) if n])
        grown = [n or a in read for n, a in zip(needed, body.arguments[skip:], strict=True)]
        if grown == needed:
            return needed
        needed = grown


def live_values(block: Block, results: list[Operand]) -> set[Value]:
    """The values that results of a block depend on, its arguments among them."""
    found = {x for x in results if isinstance(x, Value)}
    for operation in live_operations(block.operations, results):
        found.update(x for x in operands_in(operation) if isinstance(x, Value))
    return found


def without_results(operation: Operation, keep: list[bool]) -> Operation:
    """An operation with regions that yields, carries and returns only what `keep` says."""
    if all(keep):
        return operation
    lead = {"for": 2, "while": 0, "cond": 1}[operation.op]
    skip = 1 if operation.op == "for" else 0

    def chosen(items: tuple, start: int = 0) -> tuple:
        return (*items[:start], *(x for x, k in zip(items[start:], keep, strict=True) if k))

    operands = operation.operands if operation.op == "cond" else chosen(operation.operands, lead)
    regions = []
    for position, region in enumerate(operation.regions):
        arguments = region.arguments if operation.op == "cond" else chosen(region.arguments, skip)
        is_condition = operation.op == "while" and position == 0
        regions.append(Block(arguments, region.operations, region.yields if is_condition else chosen(region.yields)))
    return Operation(operation.op, operands, chosen(operation.results), operation.attributes, tuple(regions), operation.location)
