"""Stages a condition on a traced value: both sides are traced into regions of one `cond`, whose results are the variables
and arrays that differ between them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Literal, Location, Value
from ..ir.op import literal_like
from .failure import settle_failures
from .flow import Flow
from .state import (
    MISSING,
    PLACEHOLDERS,
    Entry,
    Late,
    LeafType,
    Maybe,
    Snapshot,
    Undefined,
    as_maybe,
    build,
    describe,
    flatten,
    is_same,
    join,
    leaf_operand,
    leaf_type,
    same_structure,
)
from .storage import Cell, Lost
from .trace import Trace
from .tracer import Tracer
from .where import user_location


def condition(trace: Trace, x: Any, construct: str) -> Any:
    """A traced value as a condition: a traced bool, or a bool where it is known after all."""
    if x.ndim:
        if any(trace.sizes.actual(trace.sizes.resolve(d)) != 1 for d in x.value.type.dims):
            raise CaptureError(
                f"`{construct}` depends on a traced {x.kind()}: the truth value of an array with more than one "
                "element is ambiguous",
                user_location(),
                "use np.any(condition) or np.all(condition), or np.where to choose entry by entry",
            )
        x = trace.apply(np.reshape, (x, ()))
    if isinstance(x.value, Literal):
        return bool(x.value.value)
    return x if x.dtype.kind == "b" else trace.operator(np.not_equal, x, 0)


class Side:
    """One side of a condition: its region, and what the variables and arrays are at its end."""

    def __init__(self, trace: Trace, snapshot: Snapshot) -> None:
        self.trace, self.snapshot = trace, snapshot
        self.region = trace.region()
        self.values = snapshot.before
        self.cells: dict[Cell, Any] = {}
        self.flow: Flow | None = None
        self.failure: tuple[Exception, Location | None] | None = None      # the error that it ends with

    def now(self) -> Any:
        """With variables, lists and objects as they are at this side's end."""
        return self.snapshot.at(self.values)

    def run(self, block: Callable[[], Any] | None) -> None:
        """Trace a block from where this side is now."""
        if block is None:
            return
        for slot, values in zip(self.snapshot.slots, self.values, strict=True):
            slot.write(values)
        try:
            with self.trace.inside(self.region):
                for cell, contents in self.cells.items():
                    cell.contents = contents
                self.flow = self.ended(block)
                self.values = self.snapshot.after()
                self.cells = {cell: cell.contents for cell in self.region.before}
        finally:
            self.snapshot.restore()


    def ended(self, block: Callable[[], Any]) -> Flow | None:
        """How a block is left; where it ends with a `raise`, that is noted."""
        try:
            flow: Flow | None = block()
        except Exception as error:
            if self.trace.raised is None or self.trace.raised[0] is not error:
                raise
            self.failure, flow = self.trace.raised, None
        return flow


class Merge:
    """Joins two sides: collects pairs of leaves that differ, emits the `cond`, and hands out its results."""

    def __init__(self, trace: Trace, predicate: Tracer, sides: Sequence[Side]) -> None:
        self.trace, self.predicate, self.sides = trace, predicate, sides
        self.pairs: list[tuple[Any, Any, LeafType]] = []
        self.names: list[str] = []
        self.results: list[Value] = []
        self.leaves: dict[tuple[int, int], Callable[[], Tracer]] = {}      # by the two leaves that are joined
        self.arrays: list[tuple[list[Cell | None], Tracer]] = []           # joined arrays, with the memory of both sides

    def add(self, a: Any, b: Any, type: LeafType, name: str) -> int:
        """A pair of leaves to be chosen from; the number of the result."""
        self.trace.check_lengths(type.type.dims)
        self.pairs.append((a, b, type))
        self.names.append(name)
        return len(self.pairs) - 1

    def leaf(self, a: Any, b: Any, name: str, broadcasting: bool = False) -> Any:
        """A function that gives the joined leaf once the results are there; None where the shapes differ."""
        if is_same(a, b):
            return lambda: a
        joined = join(self.trace, leaf_type(self.trace, a), leaf_type(self.trace, b))
        same_rank = leaf_type(self.trace, a).type.rank == leaf_type(self.trace, b).type.rank
        if joined is None or not (same_rank or broadcasting):
            return None
        arrays = [one.cell if isinstance(one, Tracer) and one.ndim else None for one in (a, b)]
        if None not in arrays and (id(a), id(b)) in self.leaves:
            return self.leaves[id(a), id(b)]                          # two names of one array stay so
        number = self.add(a, b, joined, name)

        @functools.cache
        def result() -> Tracer:
            made = Tracer(self.trace, self.results[number], joined.weak)
            for cell in arrays:
                if cell is not None:
                    made.cell.relate_older(cell, self.sides[0].region.born)
            for others, other in self.arrays:
                if any(x is y is not None for x, y in zip(arrays, others, strict=True)):
                    made.cell.relate(other.cell)
            self.arrays.append((arrays, made))
            return made

        self.leaves[id(a), id(b)] = result
        return result

    def value(self, a: Any, b: Any, name: str, broadcasting: bool = False) -> Any:
        """As `leaf`, for structures; an `Undefined` where the two have nothing in common. `broadcasting`: a number may stand for
        an array whose entries do not matter."""
        left: list[Any] = []
        right: list[Any] = []
        with self.sides[0].now():
            spec = flatten(a, left)
        with self.sides[1].now():
            other = flatten(b, right)
        do = "assign values of the same kind in both branches"
        if not same_structure(spec, other):
            return Undefined(f"is {describe(a)} in one branch of a traced condition and {describe(b)} in the other", do)
        leaves = [self.leaf(x, y, name, broadcasting) for x, y in zip(left, right, strict=True)]
        if any(leaf is None for leaf in leaves):
            return Undefined(
                f"has another shape in one branch of a traced condition ({describe(a)}) than in the other ({describe(b)})", do
            )
        return lambda: build(spec, iter([leaf() for leaf in leaves]))

    def emit(self) -> None:
        """The `cond`."""
        if not self.pairs:
            return
        blocks = []
        for k, side in enumerate(self.sides):
            with self.trace.inside(side.region):
                for cell, contents in side.cells.items():
                    cell.contents = contents
                yields = tuple(
                    pair[k] if isinstance(pair[k], (Value, Literal)) else leaf_operand(self.trace, pair[k], pair[2])
                    for pair in self.pairs
                )
            blocks.append(side.region.block(yields))
        builder = self.trace.builder
        self.results = list(
            builder.emit("cond", (self.trace.unwrap(self.predicate),), regions=tuple(blocks), location=user_location())
        )
        for result, name in zip(self.results, self.names, strict=True):
            if name:
                self.trace.names.setdefault(result, name)


def stage_branch(
    trace: Trace,
    predicate: Tracer,
    blocks: Sequence[Callable[[], Any] | None],
    rest: Callable[[], Any] | None,
    roots: Iterable[Any],
) -> tuple[Flow | None, bool]:
    """Trace both sides of a condition. Where one is left for good and the other is not, `rest` belongs to the other.
    Returns how the whole is left, and whether `rest` is done."""
    trace.check_open()
    snapshot = Snapshot(trace, [f for f in (*blocks, rest, *roots) if f is not None])
    sides = [Side(trace, snapshot) for _ in blocks]
    location = user_location()
    for side, block in zip(sides, blocks, strict=True):
        side.run(block)
    falling = [side for side in sides if side.flow is None and side.failure is None]
    leaving = any(side.failure is not None or side.flow is not None and side.flow.definite for side in sides)
    done = len(falling) == 1 and rest is not None and leaving
    if done:
        falling[0].run(rest)
    trace.builder.location = location
    going_on = settle_failures(trace, predicate, snapshot, sides)
    if going_on is not None:
        return going_on.flow, done
    return merge(trace, predicate, snapshot, sides), done


def merge(trace: Trace, predicate: Tracer, snapshot: Snapshot, sides: Sequence[Side]) -> Flow | None:
    """Emit the `cond` of two sides that were traced, and give variables and arrays their joined values."""
    joining = Merge(trace, predicate, sides)
    entries = merged_entries(snapshot, sides, joining)
    cells = merged_cells(sides, joining)
    flow = merged_flow(joining, sides)
    joining.emit()
    for cell, number in cells.items():
        trace.write(cell, number if isinstance(number, (Lost, Value, Literal)) else joining.results[number])
    snapshot.put(
        {entry: value() if callable(value) and not isinstance(value, Undefined) else value for entry, value in entries.items()}
    )
    return flow() if flow is not None else None


def merged_entries(snapshot: Snapshot, sides: Sequence[Side], joining: Merge) -> dict[Entry, Any]:
    """What variables and other entries are after the condition."""
    changed: dict[Entry, None] = {}
    for side in sides:
        for place, (old, new) in enumerate(zip(snapshot.before, side.values, strict=True)):
            changed.update(
                {(place, key): None for key in (*old, *new) if not is_same(old.get(key, MISSING), new.get(key, MISSING))}
            )
    entries: dict[Entry, Any] = {}
    for entry in changed:
        place, key = entry
        a, b = (side.values[place].get(key, MISSING) for side in sides)
        value: Any
        if is_same(a, b):
            value = constant(a)
        elif any(x is MISSING or isinstance(x, PLACEHOLDERS) for x in (a, b)):
            value = merged_maybe(snapshot, entry, joining, a, b)
        else:
            value = joining.value(a, b, snapshot.text(entry) if snapshot.is_variable(entry) else "")
        if isinstance(value, Undefined) and not snapshot.is_variable(entry):
            owner = snapshot.slots[place]
            if isinstance(owner.owner, list) and len(sides[0].values[place]) != len(sides[1].values[place]):
                raise CaptureError(
                    f"the list `{owner.name}` gets longer in one branch of a traced condition only",
                    value.location,
                    "store into an array made with np.zeros, and count the entries",
                )
            raise CaptureError(f"`{snapshot.text(entry)}` {value.why}", value.location, value.do)
        entries[entry] = value
    return entries


def merged_maybe(snapshot: Snapshot, entry: Entry, joining: Merge, a: Any, b: Any) -> Any:
    """A variable that has no value in one branch of a condition, or may have none."""
    given = [x for x in (a, b) if x is not MISSING]
    leaves: list[Any] = []
    inner = given[0].value if isinstance(given[0], Maybe) else given[0]
    spec = ("static", None) if any(isinstance(x, (Undefined, Late)) for x in given) else flatten(inner, leaves)
    if not leaves or not snapshot.is_variable(entry):
        return Undefined("is assigned in one branch of a traced condition only", "assign it before the `if`, or in both branches")
    nothing = Maybe(build(spec, iter([filler(joining.trace, leaf_type(joining.trace, leaf)) for leaf in leaves])), False)
    left, right = (nothing if x is MISSING else as_maybe(x) for x in (a, b))
    return joining.value(left, right, snapshot.text(entry), broadcasting=True)


def constant(x: Any) -> Callable[[], Any]:
    return lambda: x


def merged_cells(sides: Sequence[Side], joining: Merge) -> dict[Cell, Any]:
    """What arrays hold after the condition: a result's number, or contents."""
    cells: dict[Cell, Any] = {}
    for cell in dict.fromkeys(cell for side in sides for cell in side.cells):
        a, b = (side.cells.get(cell, cell.contents) for side in sides)
        if isinstance(a, Lost) or isinstance(b, Lost):
            cells[cell] = a if isinstance(a, Lost) else b
        elif a is b:
            cells[cell] = a
        else:
            cells[cell] = joining.add(a, b, LeafType(a.type, False), joining.trace.names.get(a, ""))
    return cells


def merged_flow(joining: Merge, sides: Sequence[Side]) -> Callable[[], Flow] | None:
    """How the whole is left."""
    a, b = (side.flow for side in sides)
    if a is None and b is None:
        return None
    a, b = a or Flow(), b or Flow()
    flags = [merged_flag(joining, x, y) for x, y in zip(a.flags, b.flags, strict=True)]
    value = merged_result(joining, a, b)
    broke, continued, returned = flags
    return lambda: Flow(broke(), continued(), returned(), value())


def merged_flag(joining: Merge, a: Any, b: Any) -> Callable[[], Any]:
    """One of the flags after the condition."""
    trace, predicate = joining.trace, joining.predicate
    a, b = (True if a is predicate else a), (False if b is predicate else b)
    if isinstance(a, bool) and isinstance(b, bool):
        if a == b:
            return lambda: a
        return lambda: predicate if a else trace.operator(np.logical_not, predicate)
    leaf = joining.leaf(a, b, "")
    return leaf  # type: ignore[no-any-return]


def merged_result(joining: Merge, a: Flow, b: Flow) -> Callable[[], Any]:
    """The value that is returned after the condition; any value of its type where nothing is."""
    if a.returned is False or b.returned is False:
        given = b if a.returned is False else a
        leaves: list[Any] = []
        spec = flatten(given.value, leaves)
        types = [leaf_type(joining.trace, leaf) for leaf in leaves]
        zeros = [filler(joining.trace, t) for t in types]
        pairs = zip(leaves, zeros, strict=True) if given is a else zip(zeros, leaves, strict=True)
        numbers = [joining.add(x, y, t, "") for (x, y), t in zip(pairs, types, strict=True)]
        return lambda: build(
            spec, iter([Tracer(joining.trace, joining.results[n], t.weak) for n, t in zip(numbers, types, strict=True)])
        )
    value = joining.value(a.value, b.value, "")
    if isinstance(value, Undefined):
        raise CaptureError(
            f"the value that is returned {value.why}", value.location, "return values of the same kind on every path"
        )
    return value  # type: ignore[no-any-return]


def filler(trace: Trace, type: LeafType) -> Any:
    """A leaf in the place of a value that is never used."""
    return FILLERS[type.type.dtype.numpy.kind] if not type.type.dims else Tracer(trace, literal_like(0, type.type.dtype))


FILLERS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def follow(trace: Trace, flow: Flow | None, block: Callable[[], Any] | None) -> Flow | None:
    """Run a block where the statement before it was not left."""
    if flow is None:
        return None if block is None else block()
    if block is None or flow.definite:
        return flow
    left = escaped(trace, flow)
    merged, _ = stage_branch(trace, left, [lambda: flow, block], None, [])
    return certain(flow) if merged is flow else merged


def certain(flow: Flow) -> Flow:
    """A traced flow of which it is known by now that it leaves its block: where that is in one way, that way."""
    flags = [isinstance(flag, bool) for flag in flow.flags]
    if flags.count(False) != 1:
        return flow
    broke, continued, returned = (flag if known else True for flag, known in zip(flow.flags, flags, strict=True))
    return Flow(broke, continued, returned, flow.value)


def escaped(trace: Trace, flow: Flow) -> Tracer:
    """Whether a traced flow leaves its block."""
    flags = [flag for flag in flow.flags if not isinstance(flag, bool)]
    result = flags[0]
    for flag in flags[1:]:
        result = trace.operator(np.logical_or, result, flag)
    return result  # type: ignore[no-any-return]
