"""One run of a graph, written down operation by operation: values, local derivatives and cotangents of that run.

A loop is on the tape turn by turn, a branch only where it ran. The sweep back over the tape uses the rows of the op table as
the compiler does, but nothing of the compiler's own reverse mode: what a view shows can be compared with the gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..differentiate.activity import carries_derivative, is_smooth
from ..errors import AdcompileError
from ..ir.analysis import defined_symbol
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.interpreter import Interpreter, as_parameter, check_guards, evaluated
from ..ir.op import TABLE
from .local import pull_back_block

MOST_ENTRIES = 200_000
MOST_BYTES = 1_000_000_000


class TooLong(AdcompileError, MemoryError):
    """A run with so many operations, or such large values, that it is not written down."""


class Slot:
    """One value of the run. `of`: the graph's value that it was first; `entry`: where it was computed, None for inputs."""

    __slots__ = ("cotangent", "entry", "of", "value", "varies")

    def __init__(self, value: Any, of: Value | None, entry: int | None, varies: bool) -> None:
        self.value, self.of, self.entry, self.varies = value, of, entry, varies
        self.cotangent: Any = None


class Entry:
    """One operation of the run."""

    __slots__ = ("operands", "operation", "results", "sizes")

    def __init__(self, operation: Operation, operands: list[Slot], results: list[Slot], sizes: dict[str, int]) -> None:
        self.operation, self.operands, self.results, self.sizes = operation, operands, results, sizes


class Tape:
    """The run of a function on the values of its parameters. `wrt`: the parameters that vary; `result`: which result is
    differentiated, None for no cotangents."""

    def __init__(self, function: Function, values: Sequence[Any], wrt: Iterable[int], result: int | None = 0) -> None:
        self.function = function
        self.entries: list[Entry] = []
        self.slots: dict[Value, list[Slot]] = defaultdict(list)         # all that a value of the graph was, in order
        self.now: dict[Value, Slot] = {}
        self.bytes = 0
        arrays = [as_parameter(p, a) for p, a in zip(function.params, values, strict=True)]
        self.sizes = check_guards(function, arrays)
        self.inputs = [Slot(a, p, None, k in set(wrt)) for k, (p, a) in enumerate(zip(function.params, arrays, strict=True))]
        with np.errstate(all="ignore"):
            self.results = self.block(function.body, self.inputs)
            if result is not None:
                self.sweep(self.results[result])

    # ------------------------------------------------------------------------------------------------ forward
    def operand(self, x: Operand) -> Slot:
        """The slot that an operand is now; a number gets one of its own."""
        return Slot(x.dtype.numpy.type(x.value), None, None, False) if isinstance(x, Literal) else self.now[x]

    def set(self, value: Value, slot: Slot) -> None:
        """A value of the graph is this slot from now on."""
        self.now[value] = slot
        self.slots[value].append(slot)

    def block(self, block: Block, arguments: Iterable[Slot]) -> list[Slot]:
        """Run a block; what it yields."""
        for argument, slot in zip(block.arguments, arguments, strict=True):
            self.set(argument, slot)
        for operation in block.operations:
            self.operation(operation)
        return [self.operand(x) for x in block.yields]

    def operation(self, operation: Operation) -> None:
        """Run one operation."""
        operands = [self.operand(x) for x in operation.operands]
        if operation.regions:
            for value, slot in zip(operation.results, self.control(operation, operands), strict=True):
                self.set(value, slot)
            return
        attributes = {key: evaluated(a, self.sizes) for key, a in operation.attributes.items()}
        reference = TABLE[operation.op].reference
        assert reference is not None
        output = reference(*(s.value for s in operands), **attributes)
        outputs = output if len(operation.results) > 1 else (output,)
        varies = is_smooth(operation) and any(s.varies for s in operands)
        results = [Slot(np.asarray(out)[()], y, len(self.entries), varies and carries_derivative(y))
                   for y, out in zip(operation.results, outputs, strict=True)]
        self.record(Entry(operation, operands, results, self.sizes))
        symbol = defined_symbol(operation)
        if symbol is not None:
            self.sizes = {**self.sizes, symbol: int(results[0].value)}
        for value, slot in zip(operation.results, results, strict=True):
            self.set(value, slot)

    def record(self, entry: Entry) -> None:
        """Append to the tape, or give up."""
        self.entries.append(entry)
        self.bytes += sum(np.asarray(s.value).nbytes for s in entry.results)
        if len(self.entries) > MOST_ENTRIES or self.bytes > MOST_BYTES:
            raise TooLong(f"{self.function.name} computes more than can be written down: {len(self.entries)} operations with "
                          f"{self.bytes / 1e6:.0f} MB of results so far", entry.operation.location,
                          "Use smaller arrays or fewer turns: what is to be seen is the same.")

    def control(self, operation: Operation, operands: list[Slot]) -> list[Slot]:
        """Run an operation with regions; what it ends with."""
        last = operation.regions[-1]
        if operation.op == "cond":
            return self.block(operation.regions[0] if operands[0].value else last, ())
        if operation.op == "for":
            lo, hi, *carried = operands
            for i in range(int(lo.value), int(hi.value)):
                carried = self.block(last, [Slot(np.int64(i), last.arguments[0], None, False), *carried])
            return carried
        while self.block(operation.regions[0], operands)[0].value:
            operands = self.block(last, operands)
        return operands

    # ------------------------------------------------------------------------------------------------ backward
    def sweep(self, result: Slot) -> None:
        """Cotangents of all slots on the way from the inputs to a scalar result."""
        if not result.varies or np.ndim(result.value):
            return
        result.cotangent = np.ones_like(result.value)[()]
        for entry in reversed(self.entries):
            if any(y.varies and y.cotangent is not None for y in entry.results):
                for slot, part in zip(entry.operands, self.pulled(entry), strict=True):
                    if part is not None:
                        slot.cotangent = part if slot.cotangent is None else slot.cotangent + part

    def pulled(self, entry: Entry) -> list[Any]:
        """What an entry adds to the cotangents of its operands."""
        return self.pull(entry, [y.cotangent for y in entry.results], [s.varies for s in entry.operands])

    def pull(self, entry: Entry, cotangents: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Cotangents of results to contributions to those of operands, where they are wanted."""
        block, places = pull_back_block(entry.operation)
        filled = [np.zeros_like(y.value) if ct is None else ct for y, ct in zip(entry.results, cotangents, strict=True)]
        known = [s.value for s, x in zip(entry.operands, entry.operation.operands, strict=True) if isinstance(x, Value)]
        found = Interpreter(entry.sizes).block(block, [*filled, *(y.value for y in entry.results), *known])
        parts: list[Any] = [None] * len(entry.operands)
        for place, part in zip(places, found, strict=True):
            if wanted[place]:
                parts[place] = part
        return parts

    # ------------------------------------------------------------------------------------------------ reading
    def last(self, value: Value) -> Slot | None:
        """What a value was last, None where it was never computed."""
        found = self.slots.get(value)
        return found[-1] if found else None
