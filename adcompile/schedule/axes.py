"""Which index axes may share a loop: union-find over the reads that line up."""

from __future__ import annotations

from collections import defaultdict

from .index import Axis, Index, Operand, Read, substitute, substitute_operand
from .lower import Lowering, Statement


class AxisClasses:
    """Unites axes, refusing a union that would give one statement or value the same axis twice."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.users: dict[Axis, set[object]] = defaultdict(set)
        for s in lowering.statements:
            for axis in s.axes:
                self.users[axis].add(s)
        for definition in lowering.definitions.values():
            if not definition.is_macro:
                for axis in definition.axes:
                    self.users[axis].add(definition)

    def unite(self, a: Index, b: Index) -> bool:
        """Make two axes one, if they are axes of one length that never meet in a statement."""
        if not isinstance(a, Axis) or not isinstance(b, Axis) or a.length != b.length:
            return False
        a, b = sorted((a.root(), b.root()), key=lambda axis: axis.number)
        if a is b:
            return True
        if self.users[a] & self.users[b]:
            return False
        b.parent = a
        self.users[a] |= self.users.pop(b)
        return True

    def run(self) -> None:
        """Unite along reads of values and writes, in program order, then reads of parameter axes of one length."""
        definitions = self.lowering.definitions
        for s in self.lowering.statements:
            if s.control is not None:
                continue
            for read in self.lowering.reads(s):
                if read.value in definitions:
                    for own, index in zip(definitions[read.value].axes, read.index, strict=True):
                        self.unite(own, index)
            for own, index in zip(definitions[s.target].axes, s.index, strict=True):
                self.unite(own, index)
        self.unite_parameter_axes()
        self.settle()

    def unite_parameter_axes(self) -> None:
        """Axes that run over parameter axes of one length would share a loop in hand-written code too."""
        seen: dict[object, list[Axis]] = defaultdict(list)
        for s in self.lowering.statements:
            for read in self.lowering.reads(s) if s.control is None else ():
                if read.value in self.lowering.definitions:
                    continue
                for index in read.index:
                    if isinstance(index, Axis) and index.length.constant is None:
                        known = seen[index.length]
                        if not any(self.unite(axis, index) for axis in known):
                            known.append(index)

    def settle(self) -> None:
        """Replace every axis by the one that stands for its class."""
        everything = {a for s in self.lowering.statements for a in s.axes}
        everything |= {a for d in self.lowering.definitions.values() if not d.is_macro for a in d.axes}
        roots: dict[Axis, Index] = {a: a.root() for a in everything if a.parent is not None}

        def settled(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tuple(substitute_operand(x, roots) for x in operands)

        for s in self.lowering.statements:
            s.axes = tuple(a.root() for a in s.axes)
            s.ordered = tuple(a.root() for a in s.ordered)
            s.index = tuple(substitute(i, roots) for i in s.index)
            s.operands = settled(s.operands)
        for definition in self.lowering.definitions.values():
            if not definition.is_macro:
                definition.axes = tuple(a.root() for a in definition.axes)


def aligned_axes(read: Read, own: tuple[Axis, ...], s: Statement) -> frozenset[Axis]:
    """The axes along which a statement reads exactly the element that belongs to the loop index."""
    return same_places(own, read.index) & frozenset(s.axes)


def same_places(a: tuple[Index, ...], b: tuple[Index, ...]) -> frozenset[Axis]:
    """The axes along which two accesses of an array touch the same elements in the same turn only. Rows and lanes of a tile
    differ in their order, but not in the tile."""
    found: set[Axis] = set()
    for i, j in zip(a, b, strict=False):
        if isinstance(i, Axis) and isinstance(j, Axis):
            if i is j:
                found.add(i)
            if i.tile is not None and i.tile is j.tile:
                found.add(i.tile)
    return frozenset(found)
