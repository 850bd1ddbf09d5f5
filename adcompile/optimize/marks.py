"""erase_marks: drops `stop_gradient`, `named` and `with_slope`, which mean nothing once everything is differentiated.

Needs: all differentiation done. Leaves: no marks. Exact.
"""

from __future__ import annotations

from ..ir.core import Block, Function, Operand, Operation, Value

MARKS = ("stop_gradient", "named", "with_slope")    # their first operand is their value


def erase_marks(function: Function, marks: tuple[str, ...] = MARKS) -> Function:
    """The function without marks."""
    values: dict[Value, Operand] = {}
    return Function(function.name, erase(function.body, values, marks), function.sizes, function.guards)


def erase(block: Block, values: dict[Value, Operand], marks: tuple[str, ...]) -> Block:
    """A block without marks. `values`: what stands for a mark's result."""
    def current(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    kept: list[Operation] = []
    for operation in block.operations:
        operands = tuple(map(current, operation.operands))
        if operation.op in marks:
            values[operation.result] = operands[0]
            continue
        regions = tuple(erase(r, values, marks) for r in operation.regions)
        kept.append(Operation(operation.op, operands, operation.results, operation.attributes, regions, operation.location))
    return Block(block.arguments, tuple(kept), tuple(map(current, block.yields)))
