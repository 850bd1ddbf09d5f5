"""What is known of integers in a graph: bounds of them, and polynomials that they are."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.core import Block, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.types import DType, Type


def index_symbol(value: Value) -> str:
    """The symbol that stands for an integer value in a polynomial of values."""
    return f"%{value.name}"


class Bounds:
    """Integer scalars in terms of sizes, from the operations that define them."""

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

    # ------------------------------------------------------------------------------------------------ bounds
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
        if operation.op == "extent":
            return Dim.symbol(operation.attributes["symbol"])
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

    def is_never_negative(self, x: Operand) -> bool:
        """Whether x >= 0 for all sizes."""
        low = self.bound(x, False)
        return low is not None and all(c > 0 for _, c in low.terms) and low.symbols.isdisjoint(self.symbols)

    # ------------------------------------------------------------------------------------------------ polynomials
    def place(self, x: Operand, inside: set[Value]) -> Dim | None:
        """x as a polynomial of sizes, loop indices and values from outside a loop that defines `inside`; None where it
        is none."""
        if not isinstance(x, Value):
            return Dim.of(int(x.value.real))
        if x.type != Type(DType.i64):
            return None
        operation = self.definitions.get(x)
        if operation is not None and operation.op in ("add", "sub", "mul", "neg"):
            parts = [self.place(y, inside) for y in operation.operands]
            return polynomial(operation.op, [p for p in parts if p is not None]) if None not in parts else None
        if operation is not None and operation.op == "size":
            found: Dim = operation.attributes["dim"]
            return found
        if operation is not None and operation.op == "wrap_index":
            return self.place(operation.operands[0], inside) if self.is_never_negative(operation.operands[0]) else None
        if operation is None and x.name in self.symbols:
            return Dim.symbol(x.name)
        return Dim.symbol(index_symbol(x)) if x in self.indices or x not in inside else None


def polynomial(op: str, parts: list[Dim]) -> Dim:
    """The polynomial that an op gives."""
    if op == "neg":
        return -parts[0]
    a, b = parts
    return a + b if op == "add" else a - b if op == "sub" else a * b
