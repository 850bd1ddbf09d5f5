"""Values that an array keeps: what a loop writes into an array that it carries can be read again after the loop, at the same
place, unless it was overwritten. Where that is certain, nothing has to be saved.

    for t: x = s[t]; s[t + 1] = f(x)        every state is in s when the loop has ended: x is s[t], f(x) is s[t + 1]

The proof: two accesses of an array at different turns meet at no place, because along one axis their indices are polynomials
of the loop indices that differ. Loops may be nested; turns are then compared in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.analysis import defined_in
from ..ir.core import Block, Operand, Operation, Value
from ..ir.dims import Dim
from .bounds import Bounds, index_symbol

UPDATES = frozenset({"scatter_set", "scatter_add", "slice_set"})


@dataclass(frozen=True)
class Access:
    """A read or a write of an array: in which loops (by their indices), and at which place (None: not known) by axis. `when`:
    a number that orders accesses within a turn; for a read that of the last write that it can see."""

    operation: Operation
    loops: tuple[Value, ...]
    when: int
    block: Block
    places: dict[int, Dim | None] = field(default_factory=dict)

    @property
    def indices(self) -> tuple[Operand, ...]:
        """Where it reads or writes."""
        return self.operation.operands[1:] if self.operation.op == "gather" else self.operation.operands[1:-1]


class Alive:
    """`reads`: operations that read from a finished array (or one that was not yet written) what a gather read inside the
    loop; `stores`: operations that read back what was written. Both by the value that they give."""

    def __init__(self, bounds: Bounds, parameters: Iterable[Value]) -> None:
        self.bounds, self.parameters = bounds, set(parameters)
        self.reads: dict[Value, Operation] = {}
        self.stores: dict[Value, Operation] = {}

    def learn(self, loop: Operation) -> None:
        """Look at the arrays that an outermost loop carries."""
        for position, result in enumerate(loop.results):
            if result.type.dims:
                history = History(loop, position, self.bounds)
                if history.is_known:
                    self.learn_array(history, loop.operands[2 + position], result)

    def follow(self, copies: Mapping[Value, Operand]) -> None:
        """What is known of primal values holds for copies of them."""
        for known in (self.reads, self.stores):
            for value, operation in list(known.items()):
                copy = copies.get(value)
                if isinstance(copy, Value):
                    operands = tuple(copies.get(x, x) if isinstance(x, Value) else x for x in operation.operands)
                    known[copy] = Operation(operation.op, operands, (copy,), operation.attributes, location=operation.location)

    def learn_array(self, history: History, initial: Operand, final: Value) -> None:
        """Note which accesses of one array can be done again from its final (or initial) state."""
        for read in history.reads:
            source: Operand | None = None
            if all(apart(read, write, later=True) for write in history.writes):
                source = final
            elif initial in self.parameters and all(apart(read, write, later=False) for write in history.writes):
                source = initial
            if source is not None:
                self.reads[read.operation.result] = reading(source, read, read.operation.result)
        for write in history.writes:
            value = write.operation.operands[-1]
            made_here = any(value in o.results for o in write.block.operations)
            if write.operation.op == "scatter_set" and isinstance(value, Value) and made_here \
                    and value.type == place_type(write) and all(apart(write, other, later=True) for other in history.writes):
                self.stores[value] = reading(final, write, value)


def reading(array: Operand, access: Access, result: Value) -> Operation:
    """A gather of the place of an access."""
    original = access.operation
    return Operation("gather", (array, *access.indices), (result,), original.attributes, location=original.location)


def place_type(write: Access) -> object:
    """The type of the place that is written, for scalar indices."""
    array, axes = write.operation.operands[0].type, write.operation.attributes["axes"]
    if any(x.type.dims for x in write.indices):
        return None
    return array.with_dims(tuple(d for k, d in enumerate(array.dims) if k not in axes))


class History:
    """All reads and writes, in a loop and the loops inside it, of one array that it carries."""

    def __init__(self, loop: Operation, position: int, bounds: Bounds) -> None:
        self.bounds, self.inside = bounds, defined_in(loop.regions[0])
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.versions: dict[Value, int] = {}          # the array at different times, with the time of its last write
        self.time = 0
        self.is_linear = True                         # no version is written to twice
        region = loop.regions[0]
        self.versions[region.arguments[1 + position]] = 0
        consumed: set[Operand] = set()
        self.walk(region, (region.arguments[0],), consumed)
        last = region.yields[position]
        self.is_known = self.is_linear and bool(self.writes) and last in self.versions and last not in consumed

    def walk(self, block: Block, loops: tuple[Value, ...], consumed: set[Operand]) -> None:
        """Follow the array through a block. `consumed`: the versions that were written to."""
        for operation in block.operations:
            self.time += 1
            base = operation.operands[0] if operation.operands else None
            if operation.op == "gather" and base in self.versions:
                self.reads.append(self.access(operation, loops, self.versions[base], block))
            elif operation.op in UPDATES and base in self.versions:
                self.consume(base, consumed)
                self.versions[operation.result] = self.time
                self.writes.append(self.access(operation, loops, self.time, block))
            elif operation.op == "for":
                self.walk_loop(operation, loops, consumed)
            elif operation.op == "cond":
                self.walk_branches(operation, loops, consumed)
            elif operation.op == "while" and any(x in self.versions for x in operation.operands):
                self.is_linear = False                # its turns have no index

    def walk_loop(self, loop: Operation, loops: tuple[Value, ...], consumed: set[Operand]) -> None:
        """Follow the array through a loop that may carry it."""
        region = loop.regions[0]
        carried = [k for k, x in enumerate(loop.operands[2:]) if x in self.versions]
        for k in carried:
            self.consume(loop.operands[2 + k], consumed)
            self.versions[region.arguments[1 + k]] = self.time
        self.walk(region, (*loops, region.arguments[0]), consumed)
        self.time += 1
        for k in carried:
            if region.yields[k] in self.versions and region.yields[k] not in consumed:
                self.versions[loop.results[k]] = self.time

    def walk_branches(self, cond: Operation, loops: tuple[Value, ...], consumed: set[Operand]) -> None:
        """Follow the array through both branches, of which one runs."""
        ends = []
        for region in cond.regions:
            own = set(consumed)
            self.walk(region, loops, own)
            for x in region.yields:
                if x in self.versions:
                    self.consume(x, own)
            ends.append(own)
        consumed.update(*ends)
        self.time += 1
        for k, result in enumerate(cond.results):
            if all(region.yields[k] in self.versions for region in cond.regions):
                self.versions[result] = self.time

    def consume(self, version: Operand, consumed: set[Operand]) -> None:
        """Note that a version goes on as another one."""
        self.is_linear = self.is_linear and version not in consumed
        consumed.add(version)

    def access(self, operation: Operation, loops: tuple[Value, ...], when: int, block: Block) -> Access:
        """An access with its places."""
        access = Access(operation, loops, when, block)
        for axis, index in zip(operation.attributes["axes"], access.indices, strict=True):
            access.places[axis] = self.bounds.place(index, self.inside)
        return access


def apart(access: Access, write: Access, *, later: bool) -> bool:
    """Whether no turn of `write` after the one of `access` (or before it) writes to its place."""
    common = 0
    while common < min(len(access.loops), len(write.loops)) and access.loops[common] is write.loops[common]:
        common += 1
    if not all(apart_in_loop(access, write, depth, later) for depth in range(common)):
        return False
    same = write.operation is access.operation
    if same or (write.when > access.when) is not later:
        return True
    return any((a - b).constant not in (None, 0) for a, b in places_of(access, write))


def apart_in_loop(access: Access, write: Access, depth: int, later: bool) -> bool:
    """Whether no later (or earlier) turn of the loop at a depth, in the same turn of those around it, writes to the place."""
    symbol = index_symbol(access.loops[depth])
    deeper = {index_symbol(i) for i in (*access.loops[depth + 1:], *write.loops[depth + 1:])}
    for a, b in places_of(access, write):
        step, rest_a = split(a, symbol)
        step_b, rest_b = split(b, symbol)
        distance = (rest_a - rest_b).constant
        if step is None or step != step_b or distance is None or (rest_a.symbols | rest_b.symbols) & deeper:
            continue
        if never_meet(distance, step, later):
            return True
    return False


def never_meet(distance: int, step: int, later: bool) -> bool:
    """Whether `step * turns == distance` for no number of turns > 0 (later) or < 0."""
    if step == 0 or distance % step != 0:
        return distance != 0
    return distance // step < 1 if later else distance // step > -1


def places_of(access: Access, write: Access) -> Sequence[tuple[Dim, Dim]]:
    """The places of both along each axis where they are known."""
    pairs = [(place, write.places.get(axis)) for axis, place in access.places.items()]
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def split(place: Dim, symbol: str) -> tuple[int | None, Dim]:
    """The coefficient of a symbol and what is added to that; None where the symbol is not linear."""
    coefficient = dict(place.terms).get((symbol,), 0)
    rest = place - Dim.symbol(symbol) * coefficient
    return (None if symbol in rest.symbols else coefficient), rest
