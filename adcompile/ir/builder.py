"""Builds blocks: `emit` looks the op's row up, infers the result type, names the value and attaches the location.

    with Builder("loss") as b:
        x = b.parameter("x", Type.of(DType.f64, n))
        y = ops.exp(x)                      # emits into the innermost open builder of this thread
        function = b.finish((y,))
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from ..errors import VerifyError
from .core import Block, Function, Guard, Literal, Location, Operand, Operation, Size, Value
from .dims import Dim
from .rebuild import map_dims
from .sizes import Sizes
from .types import Type

OPEN = threading.local()


def current_builder() -> Builder:
    """The innermost open builder of this thread."""
    stack = getattr(OPEN, "stack", None)
    if not stack:
        raise VerifyError("an op was applied to IR values outside any builder")
    builder: Builder = stack[-1]
    return builder


class Builder:
    """Builds one function. `sizes` decides relations between dims and records them as guards."""

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        self.name = name
        self.sizes = sizes or Sizes()
        self.location: Location | None = None       # attached to every operation emitted from now on
        self.intervals: dict[Operand, tuple[Dim, Dim]] = {}         # least and greatest values of integers
        self.makers: dict[Value, Operation] = {}
        self.taken: dict[str, int] = {}
        self.blocks: list[tuple[list[Value], list[Operation]]] = [([], [])]

    def __enter__(self) -> Builder:
        if not hasattr(OPEN, "stack"):
            OPEN.stack = []
        OPEN.stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        OPEN.stack.pop()

    # ------------------------------------------------------------------------------------------------ names
    def fresh(self, name: str) -> str:
        """A name not used so far: `z`, then `z_1`, `z_2`, ..."""
        name = name or "t"
        if name not in self.taken:
            self.taken[name] = 0
            return name
        while True:
            self.taken[name] += 1
            candidate = f"{name}_{self.taken[name]}"
            if candidate not in self.taken:
                self.taken[candidate] = 0
                return candidate

    def value(self, name: str, type: Type) -> Value:
        """A new value with a fresh name, not yet defined by anything."""
        return Value(self.fresh(name), type)

    def parameter(self, name: str, type: Type) -> Value:
        """A new parameter of the function (or argument of the open region)."""
        value = self.value(name, type)
        self.blocks[-1][0].append(value)
        return value

    # ------------------------------------------------------------------------------------------------ operations
    def emit(self, op: str, operands: tuple[Any, ...], attributes: Mapping[str, Any] | None = None, *,
             name: str = "", regions: tuple[Block, ...] = (), location: Location | None = None) -> Any:
        """Append an operation; plain numbers among the operands become literals. Returns its result, or the tuple of them."""
        from .op import TABLE, as_operands
        row = TABLE[op]
        inputs = as_operands(operands)
        attributes = MappingProxyType({k: map_dims(a, self.sizes.resolve) for k, a in (attributes or {}).items()})
        extra = {"regions": tuple(map(self.interface, regions))} if regions else {}
        types = row.infer(*[self.sizes.resolve_type(x.type) for x in inputs], **extra, **attributes)
        several = isinstance(types, tuple)
        results = tuple(self.value(name, t) for t in (types if several else (types,)))
        self.append(Operation(op, inputs, results, attributes, regions, location or self.location))
        return results if several else results[0]

    def interface(self, region: Block) -> Block:
        """A region's arguments and yields only, in terms of the sizes that are left: sizes may have been unified since."""
        def resolved(x: Operand) -> Operand:
            return Value(x.name, self.sizes.resolve_type(x.type)) if isinstance(x, Value) else x

        arguments = tuple(Value(v.name, self.sizes.resolve_type(v.type)) for v in region.arguments)
        return Block(arguments, (), tuple(map(resolved, region.yields)))

    def append(self, operation: Operation) -> None:
        """Append a finished operation as it is."""
        self.blocks[-1][1].append(operation)
        for result in operation.results:
            self.makers[result] = operation

    # ------------------------------------------------------------------------------------------------ integers
    def interval(self, x: Operand) -> tuple[Dim, Dim] | None:
        """The least and the greatest value that an integer can have, from the operations that make it."""
        if isinstance(x, Literal):
            return (Dim.of(int(x.value.real)),) * 2
        if x in self.intervals:
            return self.intervals[x]
        found = self.find_interval(x)
        if found is not None:
            self.intervals[x] = found
        return found

    def find_interval(self, x: Value) -> tuple[Dim, Dim] | None:
        made = self.makers.get(x)
        if made is None or made.op not in ("size", "add", "sub", "neg", "mul"):
            return None
        if made.op == "size":
            return (made.attributes["dim"],) * 2
        given = [self.interval(operand) for operand in made.operands]
        first, second = given[0], given[-1]
        if first is None or second is None:
            return None
        if made.op == "add":
            return first[0] + second[0], first[1] + second[1]
        if made.op == "sub":
            return first[0] - second[1], first[1] - second[0]
        if made.op == "neg":
            return -first[1], -first[0]
        factor, other = (first, second) if first[0].constant is not None and first[0] == first[1] else (second, first)
        if factor[0].constant is None or factor[0] != factor[1]:
            return None
        low, high = other[0] * factor[0], other[1] * factor[0]
        return (low, high) if factor[0].constant >= 0 else (high, low)

    def linear(self, x: Operand) -> tuple[dict[Value, Dim], Dim]:
        """An integer as a sum of values times sizes, and a size."""
        if isinstance(x, Literal):
            return {}, Dim.of(int(x.value.real))
        made = self.makers.get(x)
        if made is None or made.op not in ("size", "add", "sub", "mul"):
            return {x: Dim.of(1)}, Dim.of(0)
        if made.op == "size":
            return {}, made.attributes["dim"]
        (first, a), (second, b) = map(self.linear, made.operands)
        if made.op == "mul":
            factor, terms, rest = (a, second, b) if not first else (b, first, a)
            return ({x: Dim.of(1)}, Dim.of(0)) if first and second else ({k: c * factor for k, c in terms.items()}, rest * factor)
        sign = 1 if made.op == "add" else -1
        terms = {k: first.get(k, Dim.of(0)) + second.get(k, Dim.of(0)) * sign for k in (*first, *second)}
        return {k: c for k, c in terms.items() if c.constant != 0}, a + b * sign

    def extent(self, x: Operand, least: Dim, greatest: Dim, key: Hashable) -> Dim:
        """A size symbol for an integer that is not negative. `key`: what tells it from others."""
        symbol = self.fresh("length")
        self.emit("extent", (x,), {"symbol": symbol})
        return self.sizes.compute(symbol, least, greatest)

    @contextmanager
    def region(self, arguments: Sequence[Value] = ()) -> Iterator[list[Any]]:
        """Open a region with these arguments (`parameter` adds more): operations go into it until the `with` ends. Append
        the yields to the list it gives; after the `with`, the list's only entry is the finished Block."""
        self.blocks.append((list(arguments), []))
        out: list[Any] = []
        try:
            yield out
        except BaseException:
            self.blocks.pop()
            raise
        arguments, operations = self.blocks.pop()
        out[:] = [Block(tuple(arguments), tuple(operations), tuple(out))]

    def finish(self, results: tuple[Operand, ...], sizes: Mapping[str, Size] = MappingProxyType({}),
               guards: tuple[Guard, ...] = ()) -> Function:
        """The function built so far."""
        arguments, operations = self.blocks[-1]
        for x in results:
            assert isinstance(x, (Value, Literal))
        return Function(self.name, Block(tuple(arguments), tuple(operations), results), sizes, guards)
