"""Facts about blocks that several passes need: uses, free values, live operations, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .core import Block, Function, Operand, Operation, Value, walk
from .dims import Dim


def operands_in(operation: Operation) -> Iterator[Operand]:
    """The operands of an operation and of everything in its regions, with the regions' yields."""
    yield from operation.operands
    for region in operation.regions:
        for inner in region.operations:
            yield from operands_in(inner)
        yield from region.yields


def use_counts(function: Function) -> Counter[Value]:
    """How often each value is used as an operand, a yield or a result."""
    uses: Counter[Value] = Counter(x for x in function.results if isinstance(x, Value))
    for operation in function.body.operations:
        uses.update(x for x in operands_in(operation) if isinstance(x, Value))
    return uses


def defined_in(block: Block) -> set[Value]:
    """Every value that a block or a region inside it defines, arguments included."""
    found = set(block.arguments)
    for operation in block.operations:
        found.update(operation.results)
        for region in operation.regions:
            found |= defined_in(region)
    return found


def free_values(block: Block) -> list[Value]:
    """The values of enclosing blocks that a region reads, in the order of their first use."""
    inside = defined_in(block)
    found: dict[Value, None] = {}
    for operation in block.operations:
        for x in operands_in(operation):
            if isinstance(x, Value) and x not in inside:
                found[x] = None
    for x in block.yields:
        if isinstance(x, Value) and x not in inside:
            found[x] = None
    return list(found)


def symbols_in(attribute: Any) -> set[str]:
    """The size symbols in an attribute."""
    if isinstance(attribute, Dim):
        return set(attribute.symbols)
    return {s for a in attribute for s in symbols_in(a)} if isinstance(attribute, tuple) else set()


def own_symbols(operation: Operation) -> set[str]:
    """The size symbols in the attributes of an operation and in the types of what it and its regions' arguments are."""
    values = [*operation.results, *(a for r in operation.regions for a in r.arguments)]
    return symbols_in((*operation.attributes.values(), *(v.type.dims for v in values)))


def symbols_of(operation: Operation) -> set[str]:
    """The size symbols in an operation and in everything in its regions."""
    found = own_symbols(operation)
    for region in operation.regions:
        for inner in region.operations:
            found |= symbols_of(inner)
    return found


def defined_symbol(operation: Operation) -> str | None:
    """The size symbol that an operation defines, if it is an `extent`."""
    symbol: str | None = operation.attributes["symbol"] if operation.op == "extent" else None
    return symbol


CAN_RAISE = frozenset({"wrap_index", "raise_if"})


def has_effect(operation: Operation) -> bool:
    """Whether an operation does more than give values: it raises, or something in its regions does."""
    return operation.op == "raise_if" or any(has_effect(o) for region in operation.regions for o in region.operations)


class Live:
    """What is needed of the operations of one block, going through it backwards: effects, values, and the symbols that
    `extent`s of the block define."""

    def __init__(self, operations: Iterable[Operation], results: Iterable[Operand]) -> None:
        self.values = {x for x in results if isinstance(x, Value)}
        self.symbols: set[str] = set()
        self.defines_symbols = any(o.op == "extent" for o in operations)

    def needs(self, operation: Operation) -> bool:
        """Whether the operation has an effect, or makes something that was used."""
        return any(y in self.values for y in operation.results) or defined_symbol(operation) in self.symbols \
            or has_effect(operation)

    def use(self, operation: Operation) -> None:
        """All that the operation reads is needed."""
        self.values.update(x for x in operands_in(operation) if isinstance(x, Value))
        if self.defines_symbols:
            self.symbols |= symbols_of(operation)


def live_operations(operations: Iterable[Operation], results: Iterable[Operand]) -> list[Operation]:
    """The operations of one block that `results` depend on or that have an effect, in order."""
    operations = list(operations)
    live = Live(operations, results)
    kept: list[Operation] = []
    for operation in reversed(operations):
        if live.needs(operation):
            live.use(operation)
            kept.append(operation)
    return kept[::-1]


def all_values(function: Function) -> Iterator[Value]:
    """Every value of a function, in the order of definition."""
    yield from function.params
    for operation in walk(function.body):
        yield from operation.results
        for region in operation.regions:
            yield from region.arguments


def renamed(function: Function, names: Mapping[Value, str]) -> Function:
    """The function with some values renamed. The new names must be free."""
    if not names:
        return function
    values: dict[Value, Operand] = {}

    def new(value: Value) -> Value:
        if value in names:
            values[value] = Value(names[value], value.type)
        fresh = values.get(value, value)
        assert isinstance(fresh, Value)
        return fresh

    def operand(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    def block(old: Block) -> Block:
        arguments = tuple(map(new, old.arguments))
        operations = tuple(Operation(o.op, tuple(map(operand, o.operands)), tuple(map(new, o.results)), o.attributes,
                                     tuple(map(block, o.regions)), o.location) for o in old.operations)
        return Block(arguments, operations, tuple(map(operand, old.yields)))

    return Function(function.name, block(function.body), function.sizes, function.guards)
