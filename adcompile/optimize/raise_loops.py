"""raise_loops: turns loops whose turns are independent into array operations, inner loops first.

Needs: verified IR, not differentiated. Leaves: a `for` only where a turn needs what an earlier one computed, where the
number of turns is not a size (triangular loops `for j in range(i)`, `while`), or where the body holds what has no batched
form. Sums are reassociated. So a program written with loops and the same program written with NumPy become one graph.

What a loop carries is of one of these kinds; a loop is raised for the carried values that are not serial (the others
stay in a loop of their own, if that one does not need the raised ones):

    invariant    yielded as it came
    counter      c + constant: affine in the index
    sum          c + f(i), and products, maxima, minima, and, or; also at places: a[k] += f(i)
    rows         an array of which turn i reads and writes only the part at index i + constant along one axis
    last         a value that only the last turn leaves behind
    serial       anything else

Loops that stay gain too: what is the same at every turn leaves them (hoisted), a part of an array that all turns share is
carried in its place (promote.py), and an index that is on its axis for all turns (ranges.py) is not checked. An index that is
not known to be on its axis is checked for all turns at once, and only if there is one; as everywhere, the check of an index
goes with a value that nothing needs.

With `hints`, the sizes of the captured call, a loop over w that indexes X[:, j] takes the axes to be one if they are now; that
becomes a guard, as when NumPy code is captured. Without, only what guards and polynomials prove is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.analysis import CAN_RAISE, all_values, defined_symbol, renamed, symbols_of, use_counts
from ..ir.core import Block, Function, Guard, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.fold import FoldingBuilder
from ..ir.rebuild import resolve_sizes
from ..ir.sizes import Sizes
from ..ir.types import DType, Type
from .batch import NotBatchable
from .dce import dce
from .promote import promote
from .ranges import ONE, ZERO, Ranges, index_symbol, index_symbols
from .rewrite import TEMPORARY
from .turns import LoopRaiser


def raise_loops(function: Function, hints: Mapping[str, int] | None = None) -> Function:
    """The function with independent turns done at once. `hints`: the sizes of the call it was captured from; relations of
    sizes that hold in that call may then be assumed, as guards."""
    if not any(operation.regions for operation in function.body.operations):
        return function
    return Raiser(function, hints).run()


def known_sizes(function: Function, hints: Mapping[str, int]) -> Sizes:
    """The sizes of one call; for those that `hints` lacks, nothing is assumed."""
    sizes = Sizes()
    for symbol, size in function.sizes.items():
        if symbol in hints:
            sizes.symbol(symbol, hints[symbol], integer=size.axis is None)
    return sizes


class Raiser(FoldingBuilder):
    """Rebuilds a function with its loops raised."""

    def __init__(self, function: Function, hints: Mapping[str, int] | None) -> None:
        sizes = known_sizes(function, hints) if hints is not None else None
        self.ranges = Ranges(function, sizes)
        super().__init__(function, sizes)
        self.function = function
        self.uses = use_counts(function)
        self.values: dict[Value, Operand] = {}
        self.definitions: dict[Value, Operation] = {}
        self.wishes: dict[Value, str] = {}

    def run(self) -> Function:
        """The rewritten function."""
        with self:
            body = self.rewrite_block(self.function.body)
        old = self.function
        result = resolve_sizes(Function(old.name, body, old.sizes, old.guards), self.sizes)
        return with_names(with_size_guards(result, self.sizes), {v.name: name for v, name in self.wishes.items()})

    # ------------------------------------------------------------------------------------------------ blocks
    def rewrite_block(self, block: Block) -> Block:
        """A block with its loops raised."""
        with self.region(block.arguments) as out:
            for operation in block.operations:
                self.rewrite(operation)
            out.extend(self.new(x) for x in block.yields)
        result: Block = out[0]
        return result

    def new(self, x: Operand) -> Operand:
        """What an operand of the old function is now."""
        while isinstance(x, Value) and x in self.values:
            x = self.values[x]
        return x

    def append(self, operation: Operation) -> None:
        """Append a finished operation and take note of what it defines."""
        for result in operation.results:
            self.definitions[result] = operation
        self.ranges.define(operation)
        super().append(operation)

    def rewrite(self, operation: Operation) -> None:
        """Emit an operation of the old function."""
        self.location = self.ranges.location = operation.location
        operands = tuple(map(self.new, operation.operands))
        if operation.op == "for":
            self.rewrite_loop(operation, operands)
            return
        if operation.op == "cond":
            then, otherwise = operation.regions
            regions: tuple[Block, ...] = (self.rewrite_branch(then, operands[0], True),
                                          self.rewrite_branch(otherwise, operands[0], False))
        else:
            regions = tuple(self.rewrite_block(r) for r in operation.regions)
        self.location = self.ranges.location = operation.location
        if operation.op == "wrap_index" and self.wrapped(operation, operands[0]):
            return
        self.append(Operation(operation.op, operands, operation.results, operation.attributes, regions, operation.location))

    def rewrite_branch(self, block: Block, predicate: Operand, truth: bool) -> Block:
        """A branch of a cond, knowing that its predicate is true (or false)."""
        with self.ranges.where(self.implied(predicate, truth)):
            return self.rewrite_block(block)

    def implied(self, predicate: Operand, truth: bool) -> list[Dim]:
        """Polynomials that are not negative where a predicate has this value."""
        made = self.definitions.get(predicate) if isinstance(predicate, Value) else None
        if made is None:
            return []
        if made.op == "not":
            return self.implied(made.operands[0], not truth)
        if made.op == ("and" if truth else "or"):
            return [d for x in made.operands for d in self.implied(x, truth)]
        if made.op not in ("lt", "le", "gt", "ge") or made.operands[0].type.dims:
            return []
        a, b = map(self.ranges.dim, made.operands)
        if a is None or b is None:
            return []
        op = made.op if truth else {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[made.op]
        return [{"lt": b - a - 1, "le": b - a, "gt": a - b - 1, "ge": a - b}[op]]

    def wrapped(self, operation: Operation, index: Operand) -> bool:
        """Replace an index that is on its axis (or always counted from the end of it) by its place."""
        bounds = self.ranges.bounds(index)
        if bounds is None:
            return False
        low, high = bounds
        length: Dim = operation.attributes["dim"]
        for shift in (ZERO, length):
            with self.ranges.tentative() as keep:
                if self.ranges.within(low + shift, high + shift, length) and (
                        not self.ranges.wide or self.ranges.at_least(length, ONE)):
                    keep.append(True)
            if keep:
                place = index if shift == ZERO else self.emit("add", (index, self.integer(shift)))
                self.values[operation.result] = self.clipped(place, length) if self.ranges.wide else place
                return True
        return False

    def clipped(self, place: Operand, length: Dim) -> Operand:
        """A place that is on the axis in a branch, kept on it outside: both branches may be computed."""
        with self.ranges.everywhere():
            bounds = self.ranges.bounds(place)
            if bounds is None or not self.ranges.surely(bounds[0]):
                place = self.emit("maximum", (place, Literal(0, DType.i64)))
            if bounds is None or not self.ranges.surely(length - 1 - bounds[1]):
                place = self.emit("minimum", (place, self.integer(length - 1)))
        return place

    def integer(self, dim: Dim) -> Operand:
        """A polynomial in sizes and loop indices as a value."""
        dim = self.sizes.resolve(dim)
        if dim.constant is not None:
            return Literal(dim.constant, DType.i64)
        symbols = index_symbols(dim)
        if not symbols:
            size: Operand = self.emit("size", (), {"dim": dim})
            return size
        parts = self.ranges.linear(dim, symbols[-1])
        if parts is None:
            raise NotBatchable("an index that is not linear")
        rest, factor = parts
        index: Operand = self.ranges.indices[symbols[-1]][0]
        term = index if factor == ONE else self.emit("mul", (index, self.integer(factor)))
        result: Operand = term if rest == ZERO else self.emit("add", (term, self.integer(rest)))
        return result

    # ------------------------------------------------------------------------------------------------ loops
    def rewrite_loop(self, operation: Operation, operands: tuple[Operand, ...]) -> None:
        """Emit a loop: its inner loops raised, then raised itself if it can be, else as it is."""
        index, *arguments = operation.regions[0].arguments
        low, high = self.ranges.dim(operands[0]), self.ranges.dim(operands[1])
        with self.ranges.loop(index, low, high):
            self.count(operation, operands, arguments, low)
            body = self.rewrite_block(operation.regions[0])
            self.location = self.ranges.location = operation.location
        loop = Operation("for", operands, operation.results, operation.attributes, (body,), operation.location)
        loop = self.hoisted(loop, low, high)
        loop, finish = promote(self, loop)
        results = None if low is None or high is None else self.raised(loop, low, high)
        if results is None:
            self.append(loop)
            results = loop.results
        self.location = self.ranges.location = operation.location
        for old, new in zip(operation.results, finish(results), strict=True):
            if new is not old:
                self.values[old] = new
            if isinstance(new, Value):
                self.wishes.setdefault(new, old.name)

    def raised(self, loop: Operation, low: Dim, high: Dim) -> tuple[Operand, ...] | None:
        """Emit a loop as array operations; its results, None where that cannot be."""
        index = loop.regions[0].arguments[0]
        mark = len(self.blocks[-1][1])
        with self.ranges.tentative() as keep, self.ranges.loop(index, low, high):
            try:
                results = LoopRaiser(self, loop, low, high).run()
                keep.append(True)
                return results
            except NotBatchable:
                del self.blocks[-1][1][mark:]
                return None

    def hoisted(self, loop: Operation, low: Dim | None, high: Dim | None) -> Operation:
        """The loop after what is the same at every turn was emitted in front of it."""
        (body,) = loop.regions
        inside: set[Operand] = set(body.arguments)
        lengths: set[str | None] = set()                                   # that are computed in the loop
        rest: list[Operation] = []
        for o in body.operations:
            depends = o.regions or any(x in inside for x in o.operands) or (
                o.op in CAN_RAISE and not (low is not None and high is not None and self.ranges.at_least(high, low + 1))) \
                or bool(lengths) and not lengths.isdisjoint(symbols_of(o))
            if depends:
                inside.update(o.results)
                lengths |= {defined_symbol(o)} - {None}
                rest.append(o)
            else:
                self.append(o)
        return Operation("for", loop.operands, loop.results, loop.attributes, (Block(body.arguments, tuple(rest), body.yields),),
                         loop.location)

    def count(self, operation: Operation, operands: Sequence[Operand], arguments: Sequence[Value], low: Dim | None) -> None:
        """Take note of the carried integers that grow by the same step at each turn."""
        body = operation.regions[0]
        for argument, initial, following in zip(arguments, operands[2:], body.yields, strict=True):
            start, step = self.ranges.dim(initial), step_of(argument, following, body)
            if start is not None and step is not None and low is not None:
                index = Dim.symbol(index_symbol(body.arguments[0]))
                self.ranges.known[argument] = start + (index - low) * step


def step_of(argument: Value, following: Operand, body: Block) -> int | None:
    """The constant that a counter grows by."""
    made = next((o for o in body.operations if following in o.results), None)
    if argument.type != Type(DType.i64) or made is None or made.op not in ("add", "sub") or argument not in made.operands:
        return None
    others = [x for x in made.operands if x is not argument]
    if len(others) != 1 or not isinstance(others[0], Literal) or made.op == "sub" and made.operands[0] is not argument:
        return None
    step = int(others[0].value.real)
    return step if made.op == "add" else -step


def with_size_guards(function: Function, sizes: Sizes) -> Function:
    """The function with guards for integer arguments that were found equal to something else, and without sizes that are
    no longer read."""
    guards = list(function.guards)
    for symbol, size in function.sizes.items():
        if symbol in sizes.replaced and size.axis is None:
            guards.append(Guard(Dim.symbol(symbol), "==", sizes.resolve(Dim.symbol(symbol))))
    kept = {s: size for s, size in function.sizes.items() if s not in sizes.replaced or size.axis is None}
    return Function(function.name, function.body, kept, tuple(guards))


def with_names(function: Function, wishes: Mapping[str, str]) -> Function:
    """Temporaries take over the names of the values that they stand for, where those are gone."""
    taken = {v.name for v in all_values(dce(function))}
    names: dict[Value, str] = {}
    for value in all_values(dce(function)):
        name = wishes.get(value.name)
        if name is not None and name not in taken and TEMPORARY.match(value.name) and not TEMPORARY.match(name):
            names[value] = name
            taken.add(name)
    return renamed(dce(function), names)
