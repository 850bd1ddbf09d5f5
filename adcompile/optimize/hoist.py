"""hoist: moves what a loop computes the same at every turn in front of the loop.

Needs: verified IR. Leaves: in each `for` and `while`, only operations that depend on the loop. The branches of a `cond` keep
theirs, which may be for one branch alone. Exact. An operation that can raise stays where it is.
"""

from __future__ import annotations

from ..ir.analysis import CAN_RAISE, defined_symbol, symbols_of
from ..ir.core import Block, Function, Operation, Value


def hoist(function: Function) -> Function:
    """The function with loop invariants outside their loops."""
    body = Block(function.params, hoist_block(function.body), function.results)
    return Function(function.name, body, function.sizes, function.guards)


def hoist_block(block: Block) -> tuple[Operation, ...]:
    """A block's operations, each loop preceded by what does not depend on it. Inner loops first, so that an invariant of
    several loops leaves all of them."""
    operations: list[Operation] = []
    for operation in block.operations:
        if not operation.regions:
            operations.append(operation)
            continue
        regions = tuple(Block(r.arguments, hoist_block(r), r.yields) for r in operation.regions)
        if operation.op in ("for", "while"):
            parts = [split(r) for r in regions]
            operations.extend(o for moved, _ in parts for o in moved)
            regions = tuple(rest for _, rest in parts)
        operations.append(Operation(operation.op, operation.operands, operation.results, operation.attributes, regions,
                                    operation.location))
    return tuple(operations)


def split(region: Block) -> tuple[list[Operation], Block]:
    """The operations of a loop's region that do not depend on its arguments, and the region without them."""
    inside: set[Value] = set(region.arguments)
    sizes: set[str | None] = set()
    moved: list[Operation] = []
    rest: list[Operation] = []
    for operation in region.operations:
        depends = operation.regions or operation.op in CAN_RAISE or any(x in inside for x in operation.operands) \
            or bool(sizes) and not sizes.isdisjoint(symbols_of(operation))
        (rest if depends else moved).append(operation)
        if depends:
            inside.update(operation.results)
            sizes |= {defined_symbol(operation)} - {None}
    return moved, Block(region.arguments, tuple(rest), region.yields)
