"""Stages `for` and `while`: the body is traced into the region of one loop. What it carries is found by tracing: first with
the values from before the loop, then again with everything that changed as a carried value, until nothing else changes and
the types stay (a sum that starts as the integer 0 and becomes a float is carried as a float)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Block, Literal, Operand, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType, Type
from ..library.core import as_size, as_value, broadcast_to, emit
from .branch import condition, escaped, stage_branch
from .flow import Flow, returned
from .grown import GrownList
from .iterables import Staged
from .state import (
    MISSING,
    PLACEHOLDERS,
    Entry,
    Late,
    LeafType,
    Maybe,
    Snapshot,
    Spec,
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
from .symint import SymInt
from .trace import Trace
from .tracer import Tracer
from .where import user_location

MOST_PASSES = 16
I64, BOOL = Type(DType.i64), Type(DType.bool)


@dataclass
class Carried:
    """A variable that changes from turn to turn. `late`: it has no value before the loop."""

    spec: Spec
    types: list[LeafType]
    late: bool
    params: list[Value] = field(default_factory=list)
    yields: list[Operand] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)  # the leaves at the end of a turn


@dataclass
class Growing:
    """A list that gets `step` items a turn."""

    spec: Spec
    types: list[LeafType]
    step: int
    params: list[Value] = field(default_factory=list)
    yields: list[Operand] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


class Loop:
    """One loop being staged. `turns`: how many there are, where that is known; `runs`: whether there is one at least."""

    def __init__(self, trace: Trace, roots: Sequence[Any], site: Any, turns: Any = None) -> None:
        self.trace, self.turns = trace, turns
        self.snapshot = Snapshot(trace, [f for f in roots if f is not None])
        self.entries: dict[Entry, Carried] = {}
        self.cells: dict[Cell, tuple[Value, Operand] | None] = {}
        self.lost: dict[Cell, Lost] = {}
        self.conflicts: dict[Entry, Undefined] = {}
        self.lists: dict[int, Growing] = {}  # by the list's slot
        self.aliases: set[frozenset[Entry]] = set()  # variables that share memory at the end of a turn
        self.older: dict[Entry, set[Cell]] = {}  # arrays from before the loop that they may be at the end of a turn
        self.broke = self.returned = False  # whether `break` or `return` happen in it
        self.value: tuple[Spec, list[LeafType]] | None = None
        self.needs_turn: list[str] = []  # variables that are right only if there is a turn
        self.births = trace.birth()  # what is younger was made in the loop, in this pass or in one that is undone
        self.location = user_location()
        self.recall(site)

    # ------------------------------------------------------------------------------------------------ memory of earlier passes
    def recall(self, site: Any) -> None:
        """Start from what this loop carried when the loop around it was traced last."""
        states = self.trace.states
        if states is None:
            self.key = None
            return
        states["count"] += 1
        self.key = (site, states["count"])
        known: dict[str, Carried] = states.get(self.key, {})
        for place, values in enumerate(self.snapshot.before):
            for key, before in values.items():
                found = known.get(self.snapshot.text((place, key)))
                if found is None or found.late or isinstance(before, PLACEHOLDERS):
                    continue
                leaves: list[Any] = []
                spec = flatten(before, leaves)
                if same_structure(spec, found.spec):
                    joined = [join(self.trace, leaf_type(self.trace, x), t) for x, t in zip(leaves, found.types, strict=True)]
                    if None not in joined:
                        self.entries[place, key] = Carried(spec, [t for t in joined if t is not None], False)

    def remember(self) -> None:
        """Keep what is carried for the next pass of the loop around this one."""
        if self.key is not None and self.trace.states is not None:
            self.trace.states[self.key] = {self.snapshot.text(entry): carried for entry, carried in self.entries.items()}

    # ------------------------------------------------------------------------------------------------ passes
    def settle(
        self, start: Callable[[Any], list[Value]], turn: Callable[[list[Value]], Flow | None]
    ) -> tuple[Any, list[Value], Flow | None]:
        """Trace the body until nothing else changes. Returns its region, its index, and how a turn ends."""
        outer, inner = self.trace.states, {"count": 0}
        try:
            self.trace.states = inner
            for _ in range(MOST_PASSES):
                inner["count"] = 0
                sizes = self.trace.sizes
                guards, replaced = list(sizes.guards), dict(sizes.replaced)
                region = self.trace.region()
                index, flow, grew = self.one_pass(region, start, turn)
                if not grew:
                    return region, index, flow
                sizes.guards[:], sizes.replaced = guards, replaced
            raise CaptureError(
                "a traced loop changes its variables in ways that do not settle",
                self.location,
                "give the variables the types and shapes that they have later before the loop",
            )
        finally:
            self.trace.states = outer

    def one_pass(self, region: Any, start: Any, turn: Any) -> tuple[list[Value], Flow | None, bool]:
        """Trace one turn. Returns the index, how the turn ends, and whether more is carried than was assumed."""
        try:
            with self.trace.inside(region):
                index = start(region)
                self.enter(region)
                entered = self.snapshot.after()
                flow = turn(index)
                grew = self.leave(region, entered, flow)
        finally:
            self.snapshot.restore()
        return index, flow, grew

    def parameter(self, region: Any, name: str, type: Type) -> Value:
        """A new argument of the body."""
        value = self.trace.builder.value(name, type)
        region.arguments.append(value)
        if name:
            self.trace.names.setdefault(value, name)
        return value

    def enter(self, region: Any) -> None:
        """Give everything that is carried the value that it has at the start of a turn."""
        made: dict[Entry, list[Tracer]] = {}
        put: dict[Entry, Any] = {}
        for entry, carried in self.entries.items():
            name = self.snapshot.text(entry) if self.snapshot.is_variable(entry) else ""
            carried.params = [self.parameter(region, name, t.type) for t in carried.types]
            if carried.late and carried.spec[0] is Maybe:
                tracers = [Tracer(self.trace, p, t.weak) for p, t in zip(carried.params, carried.types, strict=True)]
                put[entry] = build(carried.spec, iter(tracers))
                continue
            if carried.late:
                put[entry] = Undefined("has no value in the first turn of a traced loop", "assign it before the loop")
                continue
            tracers = [Tracer(self.trace, p, t.weak) for p, t in zip(carried.params, carried.types, strict=True)]
            for t, leaf in zip(carried.types, self.leaves_before(entry), strict=True):
                join(self.trace, leaf_type(self.trace, leaf), t)    # what an earlier pass found out about sizes, once more
            made[entry] = [t for t in tracers if t.ndim]
            for tracer, leaf in zip(tracers, self.leaves_before(entry), strict=True):
                if tracer.ndim and isinstance(leaf, Tracer):
                    tracer.cell.relate_older(leaf.cell, self.births)
            for cell in self.older.get(entry, ()):
                for tracer in made[entry]:
                    tracer.cell.relate(cell)
            put[entry] = build(carried.spec, iter(tracers))
        for group in self.aliases:
            cells = [t.cell for entry in group for t in made.get(entry, [])]
            for a in cells:
                for b in cells:
                    a.relate(b)
        put.update(self.conflicts)
        for place, growing in self.lists.items():
            growing.params = [
                self.parameter(region, self.snapshot.slots[place].name, self.buffer_type(place, t)) for t in growing.types
            ]
            buffers = [Tracer(self.trace, p) for p in growing.params]
            grown = GrownList(self.trace, growing.spec, growing.types, buffers, self.filled(place, self.index_of(region)))
            put.update(dict.fromkeys(self.holders(place), grown))
        self.snapshot.put(put)
        for cell in self.cells:
            region.before.setdefault(cell, cell.contents)
            contents = self.trace.contents(cell)
            param = self.parameter(region, name_of(self.trace, contents), self.trace.sizes.resolve_type(contents.type))
            self.cells[cell] = (param, param)
            cell.contents = param
        for cell, lost in self.lost.items():
            region.before.setdefault(cell, cell.contents)
            cell.contents = lost
        self.first_contents = {t.cell: t.cell.contents for tracers in made.values() for t in tracers}

    def leaves_before(self, entry: Entry) -> list[Any]:
        """The leaves of a variable before the loop."""
        leaves: list[Any] = []
        flatten(self.snapshot.before[entry[0]].get(entry[1]), leaves)
        return leaves

    # ------------------------------------------------------------------------------------------------ the end of a turn
    def leave(self, region: Any, entered: list[dict[Any, Any]], flow: Flow | None) -> bool:
        """Note what everything that is carried has become; True if it is more than was assumed."""
        grew = self.leave_lists() | self.note_flow(flow)
        for entry, (old, new) in self.snapshot.changed(entered).items():
            if entry[0] in self.lists or any(entry in self.holders(place) for place in self.lists):
                continue
            grew |= self.note_change(entry, old, new)
        for cell in list(region.before):
            if isinstance(cell.contents, Lost):
                grew |= cell not in self.lost
                self.lost[cell] = cell.contents
                self.cells.pop(cell, None)
            elif cell not in self.lost:
                grew |= cell not in self.cells
                param = self.cells.get(cell)
                self.cells[cell] = (param[0] if param else cell.contents, cell.contents)
        if not grew:
            grew = self.collect_yields()
        return grew

    def note_flow(self, flow: Flow | None) -> bool:
        """The ways out of the loop."""
        if flow is None:
            return False
        grew = (flow.broke is not False) > self.broke or (flow.returned is not False) > self.returned
        self.broke |= flow.broke is not False
        self.returned |= flow.returned is not False
        if flow.returned is not False and self.value is None:
            leaves: list[Any] = []
            spec = flatten(flow.value, leaves)
            self.value = spec, [leaf_type(self.trace, x) for x in leaves]
        return grew

    def note_change(self, entry: Entry, old: Any, new: Any) -> bool:
        """A variable (or an entry of a list, a dict, an object) has changed in the turn; True if that was not expected."""
        before = self.snapshot.before[entry[0]].get(entry[1], MISSING)
        text = self.snapshot.text(entry)
        if not self.snapshot.is_variable(entry) and (old is MISSING or new is MISSING):
            return self.grow_list(entry, text)
        if entry in self.conflicts:
            return False
        if isinstance(before, Maybe) or entry in self.entries and self.entries[entry].spec[0] is Maybe:
            new = as_maybe(new)
        if new is MISSING or isinstance(new, PLACEHOLDERS) and not isinstance(new, Maybe):
            return self.conflict(
                entry, "is not defined at the end of every turn of a traced loop", "assign it on every path through the body"
            )
        if entry in self.entries:
            return self.widen(entry, new)
        late = before is MISSING or isinstance(before, PLACEHOLDERS) and not isinstance(before, Maybe)
        if self.is_of_a_turn(new):
            return self.conflict(entry, "has a length that is known in a turn of a traced loop only",
                                 "store what it holds into an array made with np.zeros")
        if not late and is_same(before, new):
            return False
        first: list[Any] = []
        last: list[Any] = []
        spec = flatten(new, last)
        if late:
            if not last:
                return self.conflict(entry, "is assigned in a traced loop only", "assign it before the loop")
            self.entries[entry] = Carried(spec, [leaf_type(self.trace, x) for x in last], True)
            return True
        if not same_structure(flatten(before, first), spec) or not first:
            return self.conflict(
                entry,
                f"is {describe(before)} before a traced loop and {describe(new)} after a turn of it",
                "give it the same structure in every turn",
            )
        types = []
        for a, b in zip(first, last, strict=True):
            joined = self.joined(a, leaf_type(self.trace, b), text)
            if joined is None:
                return self.conflict(
                    entry,
                    f"is {describe(a)} before a traced loop and {describe(b)} after a turn of it: it changes its shape",
                    "give it one shape, or use another variable",
                )
            types.append(joined)
        self.entries[entry] = Carried(spec, types, False)
        return True

    def is_of_a_turn(self, x: Any) -> bool:
        """Whether a value holds arrays of lengths that were computed in the loop."""
        leaves: list[Any] = []
        flatten(x, leaves)
        return any(self.trace.made_since(self.births, a.type.dims) for a in leaves if isinstance(a, Tracer))

    def joined(self, before: Any, after: LeafType, text: str) -> LeafType | None:
        """The type of a carried leaf; a number becomes an array where the body makes it one."""
        first = leaf_type(self.trace, before)
        if first.type.rank > after.type.rank:
            return None
        if first.type.rank < after.type.rank:
            self.needs_turn.append(text)
        return join(self.trace, first, after)

    def widen(self, entry: Entry, new: Any) -> bool:
        """Join the types of a carried variable with those that it has at the end of a turn."""
        carried = self.entries[entry]
        leaves: list[Any] = []
        text = self.snapshot.text(entry)
        if not same_structure(flatten(new, leaves), carried.spec):
            return self.conflict(entry, "has not the same structure after every turn of a traced loop", "give it one structure")
        grew = False
        for k, leaf in enumerate(leaves):
            found, have = leaf_type(self.trace, leaf), carried.types[k]
            if have.type.rank and found.type.rank != have.type.rank and not carried.late:
                return self.conflict(
                    entry,
                    f"changes its shape in a traced loop: {describe(leaf)} after a turn, {have.type} before it",
                    "give it one shape, or use another variable",
                )
            joined = join(self.trace, have, found)
            if joined is None:
                return self.conflict(
                    entry,
                    f"changes its shape in a traced loop: {describe(leaf)} after a turn, {have.type} before it",
                    "give it one shape, or use another variable",
                )
            if have.type.rank < found.type.rank:
                self.needs_turn.append(text)
            grew |= joined.type.dtype is not have.type.dtype or joined.type.rank != have.type.rank or joined.weak != have.weak
            carried.types[k] = joined
        return grew

    def conflict(self, entry: Entry, why: str, do: str) -> bool:
        """A variable cannot be carried: reading it in the next turn or after the loop is an error."""
        if not self.snapshot.is_variable(entry):
            raise CaptureError(f"`{self.snapshot.text(entry)}` {why}", user_location(), do)
        self.entries.pop(entry, None)
        self.conflicts[entry] = Undefined(why, do)
        return True

    def collect_yields(self) -> bool:
        """The operands that a turn yields; True if variables share memory in a way that was not assumed."""
        values = self.snapshot.after()
        owners: dict[Cell, set[Entry]] = {}
        for (place, key), carried in self.entries.items():
            leaves: list[Any] = []
            now = values[place].get(key, MISSING)
            now = as_maybe(now) if carried.spec[0] is Maybe else now
            if now is MISSING or isinstance(now, PLACEHOLDERS) and not isinstance(now, Maybe):
                carried.yields, carried.sources = list(carried.params), []
                continue
            flatten(now, leaves)
            carried.sources = leaves
            carried.yields = [leaf_operand(self.trace, x, t) for x, t in zip(leaves, carried.types, strict=True)]
            for leaf in leaves:
                if isinstance(leaf, Tracer) and leaf.ndim:
                    owners.setdefault(leaf.cell, set()).add((place, key))
        if all(cell.contents is contents for cell, contents in self.first_contents.items()):
            return False
        groups = {frozenset(group) for group in owners.values() if len(group) > 1}
        new = bool(groups - self.aliases)
        self.aliases |= groups
        for entry, carried in self.entries.items():
            known = self.older.setdefault(entry, set())
            cells = {cell for leaf in carried.sources if isinstance(leaf, Tracer) and leaf.ndim
                     for cell in (leaf.cell, *leaf.cell.relatives) if cell.born < self.births}
            new = new or not cells <= known
            known |= cells
        return new

    # ------------------------------------------------------------------------------------------------ lists that grow
    def index_of(self, region: Any) -> Tracer:
        """The number of the turn, counted from 0."""
        return Tracer(self.trace, self.turn_number, weak=True)

    def holders(self, place: int) -> list[Entry]:
        """The variables that hold a list."""
        owner = self.snapshot.slots[place].owner
        return [(p, key) for p, values in enumerate(self.snapshot.before) for key, value in values.items() if value is owner]

    def grow_list(self, entry: Entry, text: str) -> bool:
        """A list has another length after a turn."""
        place = entry[0]
        slot = self.snapshot.slots[place]
        if not isinstance(slot.owner, list) or place in self.lists:
            raise CaptureError(f"`{text}` is added or removed in a traced loop", user_location(), "add it before the loop")
        before, after = self.snapshot.before[place], slot.read()
        if len(after) <= len(before) or any(after[k] is not before[k] for k in before):
            raise CaptureError(
                f"the list `{slot.name}` is changed in a traced loop other than by append",
                user_location(),
                "use an array made with np.zeros",
            )
        if not isinstance(self.turns, (int, SymInt)):
            raise CaptureError(
                f"the list `{slot.name}` grows in a loop whose number of turns is traced",
                user_location(),
                "store into an array made with np.zeros",
            )
        items = list(after.values())
        leaves: list[Any] = []
        spec = flatten(items[-1], leaves)
        types = [leaf_type(self.trace, x) for x in leaves]
        if not leaves:
            raise CaptureError(
                f"the list `{slot.name}` grows in a traced loop by items that are not numbers or arrays",
                user_location(),
                "append arrays, for example np.array(row) where a row is a list",
            )
        for item in items[:-1]:
            others: list[Any] = []
            if not same_structure(flatten(item, others), spec):
                raise CaptureError(
                    f"the list `{slot.name}` grows in a traced loop by items of different kinds",
                    user_location(),
                    "use one list for each",
                )
            for k, other in enumerate(others):
                joined = join(self.trace, types[k], leaf_type(self.trace, other))
                if joined is None or joined.type.rank != leaf_type(self.trace, other).type.rank:
                    raise CaptureError(
                        f"the list `{slot.name}` grows in a traced loop by items of different shapes", user_location()
                    )
                types[k] = joined
        self.lists[place] = Growing(spec, types, len(after) - len(before))
        return True

    def leave_lists(self) -> bool:
        """Check that every growing list has grown as it should, and note its buffers."""
        values = self.snapshot.after()
        grew = False
        for place, growing in self.lists.items():
            slot = self.snapshot.slots[place]
            found = [values[p].get(key) for p, key in self.holders(place)]
            grown = found[0] if found else None
            if not isinstance(grown, GrownList) or any(x is not grown for x in found) or not isinstance(grown.added, int):
                raise CaptureError(
                    f"the list `{slot.name}` grows by a number of items that is not the same in every turn",
                    user_location(),
                    "store into an array made with np.zeros",
                )
            growing.yields = [b.value for b in grown.buffers]
            growing.step = grown.added
        return grew

    def base(self, place: int) -> int:
        return len(self.snapshot.before[place])

    def filled(self, place: int, turn: Any) -> Any:
        """How many items a list has before a turn."""
        step, base = self.lists[place].step, self.base(place)
        count = turn if step == 1 else turn * step
        return count + base if base else count

    def total(self, place: int) -> Any:
        """How many items a list has after the loop."""
        turns = self.turns
        if isinstance(turns, int):
            turns = max(turns, 0)
        elif not turns >= 0:
            turns = 0
        return self.filled(place, turns)

    def buffer_type(self, place: int, type: LeafType) -> Type:
        total = self.total(place)
        return Type(type.type.dtype, (total.dim if isinstance(total, SymInt) else Dim.of(total), *type.type.dims))

    def initial_buffers(self, place: int) -> list[Operand]:
        """The buffers before the loop: the items so far, then zeros."""
        growing = self.lists[place]
        columns: list[list[Any]] = [[] for _ in growing.types]
        for item in self.snapshot.before[place].values():
            leaves: list[Any] = []
            flatten(item, leaves)
            for column, leaf, type in zip(columns, leaves, growing.types, strict=True):
                column.append(leaf_operand(self.trace, leaf, type))
        result = []
        for column, type in zip(columns, growing.types, strict=True):
            whole = self.buffer_type(place, type)
            buffer = broadcast_to(literal_like(0, whole.dtype), whole.dims)
            for k, value in enumerate(column):
                if whole.rank > 1:
                    value = broadcast_to(value, whole.dims[1:])
                buffer = emit("scatter_set", buffer, as_size(k), value, axes=(0,))
            result.append(buffer)
        return result

    # ------------------------------------------------------------------------------------------------ putting it together
    def initial(self) -> list[Operand]:
        """The operands of the loop for what is carried, in the order of the body's arguments."""
        operands: list[Operand] = []
        for entry, carried in self.entries.items():
            if carried.late:
                operands += [zeros_of(t.type) for t in carried.types]
            else:
                operands += [
                    leaf_operand(self.trace, x, t) for x, t in zip(self.leaves_before(entry), carried.types, strict=True)
                ]
        for place in self.lists:
            operands += self.initial_buffers(place)
        return operands + [self.trace.contents(cell) for cell in self.cells]

    def yields(self) -> list[Operand]:
        """What a turn yields, in the same order."""
        found = [y for carried in self.entries.values() for y in carried.yields]
        found += [y for growing in self.lists.values() for y in growing.yields]
        return found + [pair[1] for pair in self.cells.values() if pair is not None]

    def finish(self, results: Sequence[Value], runs: Callable[[str], None]) -> None:
        """Give everything its value after the loop. `runs(name)`: raises unless there is at least one turn."""
        for name in self.needs_turn:
            runs(name)
        left = iter(results)
        put: dict[Entry, Any] = dict(self.conflicts)
        older = self.births
        shared: dict[Cell, list[Cell]] = {}
        joined: list[tuple[Cell, Cell]] = []
        for entry, carried in self.entries.items():
            tracers = [Tracer(self.trace, next(left), t.weak) for t in carried.types]
            befores = [] if carried.late else self.leaves_before(entry)
            for tracer, *sources in zip(tracers, *(s for s in (befores, carried.sources) if len(s) == len(tracers)), strict=True):
                for leaf in sources:
                    if isinstance(leaf, Tracer) and tracer.ndim:
                        joined.append((tracer.cell, leaf.cell))
                        shared.setdefault(leaf.cell, []).append(tracer.cell)
                if self.snapshot.is_variable(entry) and isinstance(tracer.value, Value):
                    self.trace.names.setdefault(tracer.value, self.snapshot.text(entry))
            value = build(carried.spec, iter(tracers))
            put[entry] = Late(value, runs) if carried.late and not isinstance(value, Maybe) else value
        for cells in shared.values():
            for a in cells:
                for b in cells:
                    a.relate(b)
        for place, growing in self.lists.items():
            buffers = [Tracer(self.trace, next(left)) for _ in growing.types]
            grown = GrownList(self.trace, growing.spec, growing.types, buffers, self.total(place))
            grown.growing = False
            put.update(dict.fromkeys(self.holders(place), grown))
        self.snapshot.put(put)
        for cell in self.cells:
            result = next(left)
            name = name_of(self.trace, self.trace.contents(cell))
            if name:
                self.trace.names.setdefault(result, name)
            self.trace.write(cell, result)
        for cell, lost in self.lost.items():
            self.trace.write(cell, lost)
        for a, b in joined:                                 # after the writes, which have happened before
            a.relate_older(b, older)

    # ------------------------------------------------------------------------------------------------ `for`
    def run_for(self, staged: Staged, limits: tuple[Any, Any] | None, body: Callable[[Any], Any]) -> Flow | None:
        """Stage a `for`. Returns how it is left; `broke` tells whether by `break`."""
        trace = self.trace
        low, high = (0, staged.count) if limits is None else limits
        lo, hi = (as_value(trace.unwrap(x), DType.i64) for x in (low, high))
        hi = hi if isinstance(hi, (Value, Literal)) else as_size(hi)

        def start(region: Any) -> list[Value]:
            index = self.parameter(region, "", I64)                     # named by the body, if at all
            least, beyond = trace.builder.interval(lo), trace.builder.interval(hi)
            if least is not None and beyond is not None:
                trace.builder.intervals[index] = least[0], beyond[1] - 1
            self.turn_number = index if isinstance(low, int) and low == 0 else emit("sub", index, lo)
            return [index]

        def turn(index: list[Value]) -> Flow | None:
            number = Tracer(trace, index[0], weak=True)
            flow: Flow | None = body(number if limits is not None else staged.item(number))
            return flow

        region, index, flow = self.settle(start, turn)
        trace.names.setdefault(index[0], "i")
        self.remember()
        trace.builder.location = self.location
        if not (self.broke or self.returned):
            block = region.block(tuple(self.yields()))
            results = trace.builder.emit("for", (lo, hi, *self.initial()), regions=(block,), location=self.location)
            self.finish(results, self.check_turns)
            return None
        return self.emit_while(region, index, flow, lo, lambda i, ask: emit("lt", i, hi), self.check_turns)

    def check_turns(self, name: str) -> None:
        """Raises, or records a guard, unless the loop has a turn."""
        if isinstance(self.turns, Tracer):
            raise CaptureError(
                f"`{name}` gets its value in a loop that may have no turn", user_location(), "assign it before the loop"
            )
        if not self.turns > 0:
            raise CaptureError(
                f"`{name}` gets its value in a loop that has no turn here", self.location, "assign it before the loop"
            )

    # ------------------------------------------------------------------------------------------------ `while`
    def run_while(self, test: Any, body: Callable[[], Any]) -> Flow | None:
        """Stage a `while`."""

        def start(region: Any) -> list[Value]:
            return []

        region, _, flow = self.settle(start, lambda index: body())
        self.remember()
        endless = not test.__code__.co_freevars and not test.__code__.co_names  # `while True`

        def check(name: str) -> None:
            if not endless:
                raise CaptureError(
                    f"`{name}` gets its value in a `while` that may have no turn", user_location(), "assign it before the loop"
                )

        return self.emit_while(region, [], flow, None, None if endless else self.asking(test), check)

    def asking(self, test: Callable[[], Any]) -> Callable[[Any, Any], Operand]:
        """Emits the condition of a `while` in terms of the condition region's arguments."""

        def ask(index: Any, region: Any) -> Operand:
            found = test()
            if isinstance(found, SymInt):
                found = found != 0
            truth = condition(self.trace, found, "while") if isinstance(found, Tracer) else bool(found)
            return Literal(truth, DType.bool) if isinstance(truth, bool) else truth.value

        return ask

    def emit_while(
        self, region: Any, index: list[Value], flow: Flow | None, lo: Operand | None, ask: Any, runs: Any
    ) -> Flow | None:
        """Emit a `while` op: it carries the index of a `for`, flags for `break` and `return`, the value that is returned, and
        what the body changes."""
        trace, builder = self.trace, self.trace.builder
        flow = flow or Flow()
        spec, types = self.value or (("static", None), [])
        flags = [
            (name, flag)
            for name, flag, used in (("broke", flow.broke, self.broke), ("returned", flow.returned, self.returned))
            if used
        ]
        if ask is None and not flags:
            raise CaptureError(
                "this `while` loop never ends: its condition is always true and no `break` or `return` is reached", self.location
            )
        extra_types = [*(v.type for v in index), *(BOOL for _ in flags), *(t.type for t in types)]
        with trace.inside(region):
            for cell, pair in self.cells.items():
                cell.contents = pair[1] if pair is not None else cell.contents
            returned_leaves: list[Any] = []
            flatten(flow.value, returned_leaves)
            tail = [emit("add", v, 1) for v in index] + [leaf_operand(trace, flag, LeafType(BOOL, True)) for _, flag in flags]
            tail += [leaf_operand(trace, x, t) for x, t in zip(returned_leaves, types, strict=True)]
        head = [*index, *(builder.value(name, BOOL) for name, _ in flags), *(builder.value("", t.type) for t in types)]
        carried = region.arguments[len(index) :]
        operations = tuple(region.operations)
        block = Block((*head, *carried), operations, (*tail, *self.yields()))
        first = [*([] if lo is None else [lo]), *(Literal(False, DType.bool) for _ in flags), *(zeros_of(t.type) for t in types)]
        initial = self.initial()
        test = self.condition_block(extra_types, len(index), len(flags), ask)
        results = builder.emit("while", (*first, *initial), regions=(test, block), location=self.location)
        for value in (*head, *block.arguments):
            trace.home[value] = region
        self.finish(results[len(head) :], runs)
        found = dict(zip((name for name, _ in flags), results[len(index) :], strict=False))
        leaves = [Tracer(trace, v, t.weak) for v, t in zip(results[len(index) + len(flags) : len(head)], types, strict=True)]
        out = {name: Tracer(trace, found[name], weak=True) if name in found else False for name in ("broke", "returned")}
        return Flow(broke=out["broke"], returned=out["returned"], value=build(spec, iter(leaves)) if self.value else None)

    def condition_block(self, extra: list[Type], indices: int, flags: int, ask: Any) -> Any:
        """The region of a `while`'s condition."""
        trace = self.trace
        region = trace.region()
        try:
            with trace.inside(region):
                head = [self.parameter(region, "", t) for t in extra]
                saved = {entry: (c.params, c.yields) for entry, c in self.entries.items()}
                cells, lists = dict(self.cells), {p: (g.params, g.yields) for p, g in self.lists.items()}
                self.turn_number = head[0] if indices else None
                self.enter(region)
                entered = self.snapshot.after()
                stop = [Tracer(trace, v, weak=True) for v in head[indices : indices + flags]]
                out = self.ask(head, stop, ask, region)
                if self.snapshot.changed(entered) or any(
                    c.born < region.born and c.contents is not contents and c not in self.cells
                    for c, contents in region.before.items()
                ):
                    raise CaptureError(
                        "the condition of a traced `while` changes variables", self.location, "change them in the body"
                    )
                for entry, (params, yields) in saved.items():
                    self.entries[entry].params, self.entries[entry].yields = params, yields
                for place, (params, yields) in lists.items():
                    self.lists[place].params, self.lists[place].yields = params, yields
                self.cells = cells
        finally:
            self.snapshot.restore()
        return region.block((out,))

    def ask(self, head: list[Value], stop: list[Tracer], ask: Any, region: Any) -> Operand:
        """Whether there is another turn."""
        trace = self.trace
        if not stop:
            answer: Operand = ask(head[0] if head else None, region)
            return answer
        stopped = escaped(trace, Flow(*stop))
        going: Operand = trace.operator(np.logical_not, stopped).value
        if ask is None:
            return going
        if head[0].type == I64:  # the index of a `for`: it can always be compared
            return emit("and", ask(head[0], region), going)  # type: ignore[no-any-return]
        flow, _ = stage_branch(
            trace,
            stopped,
            [lambda: returned(False), lambda: returned(Tracer(trace, ask(head[0] if head else None, region), weak=True))],
            None,
            [],
        )
        assert flow is not None
        return leaf_operand(trace, flow.value, LeafType(BOOL, True))


def name_of(trace: Trace, x: Operand) -> str:
    """The user's name for a value, empty where there is none."""
    return trace.names.get(x, "") if isinstance(x, Value) else ""


def zeros_of(type: Type) -> Operand:
    """Zeros of a type: for what has no value before a loop."""
    zero = literal_like(0, type.dtype)
    return broadcast_to(zero, type.dims) if type.dims else zero
