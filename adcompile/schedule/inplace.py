"""Which results may take over the storage of what they are computed from, and the order of operations that makes it safe.

A value may be *overwritten* by one operation of its block: an update of an array (scatter_set, ...), a loop that carries it, a
`cond` that yields it in one branch, or the operation that makes what a region hands on in its place. Everything else that
reads the value must then come before; where this would need an operation to come before itself, the value is left alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..ir.analysis import defined_symbol, operands_in, symbols_of
from ..ir.core import Block, Literal, Operand, Operation, Value
from ..ir.op import TABLE

UPDATES = ("scatter_set", "scatter_add", "slice_set")
VIEWS = ("broadcast", "transpose", "slice", "stop_gradient", "reshape", "gather")
CONTROL = ("for", "while", "cond")


@dataclass
class Plan:
    """`order`: the operations; `over`: per result, what it overwrites; `kept`: views and expressions that are computed where
    they stand, because what they read is overwritten before they are used."""

    order: list[Operation]
    over: dict[Value, Value] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)


class Planner:
    """Plans one block. `owned`: values from outside that it may overwrite; `homes`: per yield the one whose place it takes."""

    def __init__(self, operations: Sequence[Operation], yields: Sequence[Operand], owned: Iterable[Value],
                 homes: Sequence[Value | None]) -> None:
        self.operations, self.yields = list(operations), list(yields)
        self.owned, self.homes = set(owned), list(homes)
        self.maker = {r: o for o in operations for r in o.results}
        self.reads = {o: Counter(x for x in operands_in(o) if isinstance(x, Value)) for o in operations}
        self.users: dict[Value, list[Operation]] = defaultdict(list)
        for o, values in self.reads.items():
            for v in values:
                self.users[v].append(o)
        self.before: dict[Operation, set[Operation]] = {
            o: {self.maker[v] for v in values if v in self.maker} for o, values in self.reads.items()}
        extents = {defined_symbol(o): o for o in operations} if any(o.op == "extent" for o in operations) else {}
        for o in operations if extents else ():
            self.before[o] |= {extents[s] for s in symbols_of(o) if s in extents} - {o}
        self.overwritten: dict[Value, Operation] = {}
        self.over: dict[Value, Value] = {}

    def run(self) -> Plan:
        """The plan."""
        for o in self.operations:
            for result, base in updates(o):
                self.overwrite(o, result, base)
        for y, home in zip(self.yields, self.homes, strict=True):
            if isinstance(y, Value) and home is not None:
                self.settle(y, home)
        order = self.sorted()
        kept = {base for base in self.overwritten if base in self.maker and is_expression(self.maker[base])}
        return Plan(order, self.over, kept | self.late_readers(order))

    def settle(self, y: Value, home: Value) -> None:
        """Let the value that a region hands on be made in the place it is for, if its maker can write there."""
        root = y
        while root in self.over:
            root = self.over[root]
        maker = self.maker.get(root)
        fits = maker is not None and (is_expression(maker) or maker.op == "cond" and not home.type.dims)
        if maker is not None and fits and root is not home and root.type == home.type and self.yields.count(y) == 1:
            self.overwrite(maker, root, home)

    def overwrite(self, o: Operation, result: Value, base: Value) -> None:
        """Note that the operation overwrites the value, if it may."""
        mine = base in self.owned or base in self.maker and self.maker[base].op != "constant"
        if not mine or result in self.over or base in self.overwritten or base.type != result.type or self.handed_on(base):
            return
        if o.op in ("for", "while") and self.reads[o][base] > 1:
            return
        others = [reader for reader in self.users[base] if reader is not o]
        if any(self.depends(reader, o) for reader in others):
            return
        self.before[o].update(others)
        self.overwritten[base] = o
        self.over[result] = base

    def handed_on(self, value: Value) -> bool:
        return any(x is value for x in self.yields)

    def depends(self, o: Operation, on: Operation) -> bool:
        """Whether an operation has to come after another."""
        seen: set[Operation] = set()
        stack = [o]
        while stack:
            current = stack.pop()
            if current is on:
                return True
            if current not in seen:
                seen.add(current)
                stack += self.before[current]
        return False

    def sorted(self) -> list[Operation]:
        """The operations in an order that respects `before`, as near to theirs as that allows."""
        order: dict[Operation, None] = {}

        def place(o: Operation) -> None:
            stack = [o]
            while stack:
                current = stack[-1]
                missing = (
                    [p for p in self.operations if p in self.before[current] and p not in order] if current not in order else []
                )
                if missing:
                    stack += missing[::-1]
                else:
                    order.setdefault(stack.pop())

        for o in self.operations:
            place(o)
        return list(order)

    def late_readers(self, order: list[Operation]) -> set[Value]:
        """Views and expressions of overwritten values that something reads after (or while) those are overwritten."""
        place = {o: k for k, o in enumerate(order)}
        kept: set[Value] = set()

        def late(value: Value, end: Operation) -> bool:
            if self.handed_on(value):
                return True
            for reader in self.users[value]:
                if place[reader] > place[end] or reader is end and end.op in CONTROL:
                    return True
                if is_lazy(reader) and reader is not end and reader.result not in kept and late(reader.result, end):
                    return True
            return False

        for base, end in self.overwritten.items():
            for reader in self.users[base]:
                if is_lazy(reader) and reader is not end and late(reader.result, end):
                    kept.add(reader.result)
        return kept


def is_lazy(o: Operation) -> bool:
    """Whether the operation may be computed where its result is read, and not where it stands."""
    return o.op in VIEWS or is_expression(o) and bool(o.result.type.dims)


def is_expression(o: Operation) -> bool:
    """Whether this is elementwise: one scalar expression."""
    return TABLE[o.op].code is not None


def updates(o: Operation) -> list[tuple[Value, Value]]:
    """The results of an operation that it can make by overwriting a value, with that value."""
    pairs: list[tuple[Value, Operand | None]] = []
    if o.op in UPDATES:
        pairs = [(o.result, o.operands[0])]
    elif o.op == "for":
        pairs = list(zip(o.results, o.operands[2:], strict=True))
    elif o.op == "while":
        pairs = list(zip(o.results, o.operands, strict=True))
    elif o.op == "cond":
        pairs = list(zip(o.results, passed_through(o), strict=True))
    return [(r, b) for r, b in pairs if isinstance(b, Value)]


def passed_through(o: Operation) -> list[Value | None]:
    """Per result, the value from outside that one branch of a `cond` hands on, itself or updated."""
    by_region = [roots(region) for region in o.regions]
    found: list[Value | None] = []
    for k in range(len(o.results)):
        updated = [(region.yields[k], of[k]) for region, of in zip(o.regions, by_region, strict=True) if of[k] is not None]
        plain = [root for y, root in updated if y is root]
        found.append((plain + [root for _, root in updated])[0] if updated else None)
    return found


def roots(region: Block) -> list[Value | None]:
    """Per yield, the value from outside that it is, or that it comes from by updates."""
    maker = {r: b for o in region.operations for r, b in updates(o)}
    made = {r for o in region.operations for r in o.results}

    def root(y: Operand) -> Value | None:
        while y in maker:
            y = maker[y]
        return None if isinstance(y, Literal) or y in made else y

    return [root(y) for y in region.yields]
