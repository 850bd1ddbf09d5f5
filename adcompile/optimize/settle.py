"""settle: what a loop carries but never changes is what it starts from.

    for: (c = 1.0) { ... yield c }        reads 1.0 in the place of c, and carries nothing

Needs: verified IR. Leaves: no `for` or `while` with a carried value that its body yields as it is. Exact.
"""

from __future__ import annotations

from ..ir.core import Block, Function, Operand, Operation, Value
from ..ir.prune import without_results


def settle(function: Function) -> Function:
    """The function without carried values that never change."""
    return Function(function.name, Settler().block(function.body), function.sizes, function.guards)


class Settler:
    """Rebuilds blocks. `values`: what stands for values that are gone."""

    def __init__(self) -> None:
        self.values: dict[Value, Operand] = {}

    def operand(self, x: Operand) -> Operand:
        """The operand, or what stands for it."""
        return self.values.get(x, x) if isinstance(x, Value) else x

    def block(self, block: Block) -> Block:
        """A block with everything in it settled."""
        operations = tuple(map(self.operation, block.operations))
        return Block(block.arguments, operations, tuple(map(self.operand, block.yields)))

    def operation(self, o: Operation) -> Operation:
        """An operation with its regions settled; a loop carries what changes."""
        operands = tuple(map(self.operand, o.operands))
        o = Operation(o.op, operands, o.results, o.attributes, tuple(map(self.block, o.regions)), o.location)
        if o.op not in ("for", "while"):
            return o
        initial = operands[2:] if o.op == "for" else operands
        carried = [r.arguments[len(r.arguments) - len(initial):] for r in o.regions]
        changing = [y is not a for y, a in zip(o.regions[-1].yields, carried[-1], strict=True)]
        if all(changing):
            return o
        for k, start in enumerate(initial):
            if not changing[k]:
                self.values.update({o.results[k]: start, **{arguments[k]: start for arguments in carried}})
        regions = tuple(map(self.block, o.regions))
        return without_results(Operation(o.op, operands, o.results, o.attributes, regions, o.location), changing)
