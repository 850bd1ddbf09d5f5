"""The grammar of the graph IR.

    function  = (name, params, guards, block body)                     -- params are the body's arguments
    block     = (value* arguments, operation* operations, operand* yields)
    operation = (op, operand* operands, attributes, value* results, block* regions, location)
    operand   = value | literal
    value     = (name, type)                                           -- defined once (SSA)
    control   = for(lo, hi, *carried){i, *carried -> yields}           -- step is 1
              | while(*carried){*carried -> bool}{*carried -> yields}
              | cond(predicate){-> yields}{-> yields}

Structured control only, so dominance is "earlier in the same block or in an enclosing one"; a region may read values of
the blocks around it. Everything is immutable: a pass builds a new function. Names of values are unique in a function and
are the user's own where there is one.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Union

from .dims import Dim
from .types import DType, Type


@dataclass(frozen=True)
class Location:
    """A line of the user's code. `calls`: the calls of the user's functions that led there from the captured one, outermost
    first, each as the function's name with the line and the place in the byte code that calls it."""

    file: str
    line: int
    function: str
    calls: tuple[tuple[str, int, int], ...] = field(default=(), compare=False)

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty where it is not known."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Arithmetic:
    """Python operators emit into the current builder, so that derivative rules read like mathematics."""

    def __add__(self, other: Any) -> Any:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return apply("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return apply("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return apply("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return apply("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return apply("div", other, self)

    def __neg__(self) -> Any:
        return apply("neg", self)

    def __lt__(self, other: Any) -> Any:
        return apply("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return apply("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return apply("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return apply("ge", self, other)


@dataclass(frozen=True, eq=False)
class Value(Arithmetic):
    """An SSA value. Compared by identity."""

    name: str
    type: Type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


def apply(op: str, *operands: Any) -> Any:
    """Emit an op by name into the current builder."""
    from .builder import current_builder
    return current_builder().emit(op, operands)


@dataclass(frozen=True)
class Literal(Arithmetic):
    """A number in an operand's place: rank 0, combines with operands of any dims."""

    value: bool | int | float | complex
    dtype: DType

    @property
    def type(self) -> Type:
        """Its type, of rank 0."""
        return Type(self.dtype)

    def same(self, number: float) -> bool:
        """Whether it is this number, bit for bit (0.0 and -0.0 differ)."""
        return self.value == number and str(float(self.value.real)) == str(float(number))


Operand = Union[Value, Literal]
Attributes = Mapping[str, Any]
NO_ATTRIBUTES: Attributes = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Block:
    """A straight sequence of operations with arguments, ended by the operands it yields."""

    arguments: tuple[Value, ...]
    operations: tuple[Operation, ...]
    yields: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """One use of an op. Attribute values are ints, floats, strings, bools, None, DType, Dim, ArrayConstant, or tuples of
    those."""

    op: str
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    attributes: Attributes = field(default_factory=lambda: NO_ATTRIBUTES)
    regions: tuple[Block, ...] = ()
    location: Location | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True)
class ArrayConstant:
    """An array known at capture, as an attribute: hashable, C order. `data` are its bytes."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Size:
    """Where a size symbol gets its value: an axis of a parameter, or (axis None) the value of an integer parameter."""

    parameter: int
    axis: int | None


@dataclass(frozen=True)
class Guard:
    """A relation between sizes that was assumed at capture. `relation` is one of == != < <= > >=."""

    left: Dim
    relation: str
    right: Dim
    location: Location | None = field(default=None, compare=False)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is true for given sizes."""
        a, b = self.left.evaluate(sizes), self.right.evaluate(sizes)
        return RELATIONS[self.relation](a, b)

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True, eq=False)
class Function:
    """A whole graph. `sizes` says where each size symbol comes from; the parameters' own types are guards too
    (a parameter `f64[X_1]` must have that length, `f64[3]` must have three entries)."""

    name: str
    body: Block
    sizes: Mapping[str, Size] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()

    @property
    def head(self) -> Function:
        """All but the operations: name, parameters, results, sizes and guards."""
        return replace(self, body=replace(self.body, operations=()))

    @property
    def params(self) -> tuple[Value, ...]:
        """The body's arguments."""
        return self.body.arguments

    @property
    def results(self) -> tuple[Operand, ...]:
        """What the body yields."""
        return self.body.yields


def walk(block: Block) -> Iterator[Operation]:
    """All operations of a block and of the regions inside it, each before its own regions."""
    for operation in block.operations:
        yield operation
        for region in operation.regions:
            yield from walk(region)
