"""erase_marks: drops `stop_gradient` and `with_slope`, which mean nothing once everything is differentiated.

Needs: all differentiation done. Leaves: no marks. Exact.
"""

from __future__ import annotations

from ..ir.core import Block, Function, Operand, Operation, Value

MARKS = ("stop_gradient", "with_slope")             # their first operand is their value


def erase_marks(function: Function) -> Function:
    """The function without marks."""
    values: dict[Value, Operand] = {}
    return Function(function.name, erase(function.body, values), function.sizes, function.guards)


def erase(block: Block, values: dict[Value, Operand]) -> Block:
    """A block without marks. `values`: what stands for a mark's result."""
    def current(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    kept: list[Operation] = []
    for operation in block.operations:
        operands = tuple(map(current, operation.operands))
        if operation.op in MARKS:
            values[operation.result] = operands[0]
            continue
        regions = tuple(erase(r, values) for r in operation.regions)
        kept.append(Operation(operation.op, operands, operation.results, operation.attributes, regions, operation.location))
    return Block(block.arguments, tuple(kept), tuple(map(current, block.yields)))
