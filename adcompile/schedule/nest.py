"""The rule that groups statements into loops.

At each level, all statements share the loops that are open. Take the axis that covers most of the remaining work in the
fewest passes without striding through memory. Give every statement a *stage* along it: what reads a value that is complete
only after the axis has been run over (reduced over it, or read elsewhere along it) comes in a later stage, everything else
joins the earliest stage its operands allow, and statements without the axis sit between stages. One loop per stage, and the
same rule inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Union

from ..ir.core import Value
from .axes import aligned_axes, same_places
from .index import Axis, Read, axes_of
from .lower import Lowering, Statement
from .names import is_unnamed

TYPICAL_LENGTH = 30.0               # what an unknown length counts in comparisons of work
STRIDE_PENALTY = 10.0               # how much worse a pass is whose inner accesses stride through memory


@dataclass(eq=False)
class Leaf:
    """A statement in its place."""

    statement: Statement


@dataclass(eq=False)
class Loop:
    """A loop over an axis. `why`: why it is not one with the loop before, or why it goes in tiles."""

    axis: Axis
    body: list[Node]
    why: str = ""


Node = Union[Leaf, Loop]


class Nest:
    """Builds the loop nest of a lowered function."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.readers = self.find_readers()
        self.dependencies = {s: self.find_dependencies(s) for s in lowering.statements}
        self.accesses = {s: self.find_accesses(s) for s in lowering.statements}

    def build(self) -> list[Node]:
        """The whole nest."""
        return self.level(self.lowering.statements, frozenset())

    def find_dependencies(self, s: Statement) -> list[tuple[Statement, frozenset[Axis]]]:
        """The statements that must run before, each with the axes along which the same iteration is enough."""
        found: list[tuple[Statement, frozenset[Axis]]] = []
        for read in (read for each in (s, *s.leads) for read in self.lowering.reads(each)):
            definition = self.lowering.definitions.get(read.value)
            if definition is None:
                continue
            lined_up = aligned_axes(read, definition.axes, s)
            for maker in definition.statements:
                found.append((maker, frozenset(maker.axes) if s.running else lined_up & self.written_aligned(maker)))
        found += [(first, frozenset(first.axes)) for first in s.beside]
        found += [(first, same_places(s.index, first.index)) for first in s.after]
        for value in self.lowering.computed_sizes(s):
            definition = self.lowering.definitions.get(value)
            found += [
                (maker, frozenset()) for maker in (definition.statements if definition is not None else ()) if maker is not s
            ]
        for value in s.overwrites:
            found += [
                (reader, same_places(s.index, read.index)) for reader, read in self.readers.get(value, ()) if reader is not s
            ]
        return found

    def find_readers(self) -> dict[Value, list[tuple[Statement, Read]]]:
        """Who reads the values that are overwritten."""
        readers: dict[Value, list[tuple[Statement, Read]]] = {v: [] for s in self.lowering.statements for v in s.overwrites}
        for s in self.lowering.statements if readers else ():
            for read in self.lowering.reads(s):
                if read.value in readers:
                    readers[read.value].append((s, read))
        return readers

    def written_aligned(self, s: Statement) -> frozenset[Axis]:
        """The axes along which each iteration of a statement writes its own element and no other."""
        if s.control is not None or s.kind != "=" and s.overwrites:         # it adds to what is there
            return frozenset()
        own = self.lowering.definitions[s.target].axes
        return same_places(own, s.index)

    def find_accesses(self, s: Statement) -> list[list[set[Axis]]]:
        """Per array that lies in memory in a given order: the axes in each of its indices."""
        found = [[set(axes_of(i)) for i in read.index] for read in self.lowering.reads(s)
                 if read.value not in self.lowering.definitions]
        if s.control is None and (s.target in self.lowering.outputs or self.lowering.definitions[s.target].whole):
            found.append([set(axes_of(i)) for i in s.index])
        return found

    # ------------------------------------------------------------------------------------------------ one level
    def level(self, statements: list[Statement], opened: frozenset[Axis]) -> list[Node]:
        candidates = {a for s in statements for a in s.axes} - opened
        candidates -= {a for s in statements for k, a in enumerate(s.ordered) if not opened.issuperset(s.ordered[:k])}
        if not candidates:
            return [Leaf(s) for s in statements]
        axis = min(candidates, key=lambda a: (place_in_tile(a), -self.merit(a, statements, opened), a.number))
        stages = self.stages(axis, statements)
        nodes: list[Node] = []
        for stage in sorted(set(stages.values())):
            group = [s for s in statements if stages[s] == stage]
            plain = [s for s in group if axis not in s.axes]
            looped = [s for s in group if axis in s.axes]
            nodes += self.level(plain, opened) if plain else []
            if looped:
                why = self.barrier(axis, looped, stages) if any(isinstance(node, Loop) for node in nodes) else ""
                nodes.append(Loop(axis, self.level(looped, opened | {axis}), why))
        return self.in_program_order(nodes)

    def in_program_order(self, nodes: list[Node]) -> list[Node]:
        """The nodes in an order that respects what reads what, otherwise that of the user's program."""
        inside = [[leaf.statement for leaf, _ in leaves([node])] for node in nodes]
        home = {s: k for k, group in enumerate(inside) for s in group}
        needs = [
            {home[maker] for s in group for maker, _ in self.dependencies[s] if maker in home} - {k}
            for k, group in enumerate(inside)
        ]
        readers: list[list[int]] = [[] for _ in nodes]
        for k, makers in enumerate(needs):
            for maker in makers:
                readers[maker].append(k)
        waiting = list(map(len, needs))
        first = [min(s.number for s in group) for group in inside]
        ready = [(first[k], k) for k, count in enumerate(waiting) if not count]
        heapify(ready)
        order: list[Node] = []
        while len(order) < len(nodes):
            _, k = heappop(ready)
            order.append(nodes[k])
            for reader in readers[k]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heappush(ready, (first[reader], reader))
        return order

    def stages(self, axis: Axis, statements: list[Statement]) -> dict[Statement, float]:
        """Whole numbers are passes along the axis; halves lie between them."""
        stages: dict[Statement, float] = {}
        for s in statements:
            stage = 0.0
            for maker, lined_up in self.dependencies[s]:
                if maker in stages:
                    barrier = axis in maker.axes and axis not in lined_up
                    stage = max(stage, stages[maker] + 0.5 if barrier else stages[maker])
            stages[s] = stage + 0.5 if axis in s.axes and stage % 1 else stage
        self.sink(axis, statements, stages)
        return stages

    def barrier(self, axis: Axis, group: list[Statement], stages: dict[Statement, float]) -> str:
        """Why statements cannot be in an earlier loop over the axis: what they wait for."""
        waiting, seen = list(group), set(group)
        while waiting:
            s = waiting.pop(0)
            for maker, lined_up in self.dependencies[s]:
                if maker not in stages or maker in seen:
                    continue
                if axis in maker.axes and axis not in lined_up:
                    return f"apart from an earlier loop, behind which {called(maker)} is complete"
                seen.add(maker)
                waiting.append(maker)
        return ""

    def sink(self, axis: Axis, statements: list[Statement], stages: dict[Statement, float]) -> None:
        """Move statements to the stage of their first reader where that keeps nothing alive longer."""
        readers: dict[Statement, list[tuple[Statement, bool]]] = {s: [] for s in statements}
        for s in statements:
            for maker, lined_up in self.dependencies[s]:
                if maker in readers:
                    readers[maker].append((s, axis in maker.axes and axis not in lined_up))

        def can_sink(s: Statement, to: float, reader: Statement | None) -> bool:
            """Whether the statement, and what it reads along the axis, can all move: nothing else reads them before."""
            if s.running or s.beside or any(stages[r] - 0.5 * barrier < to for r, barrier in readers[s] if r is not reader):
                return False
            return all(can_sink(maker, to, s) for maker, _ in self.dependencies[s]
                       if maker in stages and stages[maker] < to and axis in maker.axes)

        for s in reversed(statements):
            if not readers[s] or s.running or s.beside or any(r.running or r.beside for r, _ in readers[s]):
                continue
            latest = min(stages[r] - 0.5 * barrier for r, barrier in readers[s])
            if axis in s.axes:
                latest -= latest % 1
            elif latest >= 1.0 and latest % 1 == 0.0:
                latest -= 0.5                   # with what else comes between the two passes
            if latest > stages[s] and (axis not in s.axes or can_sink(s, latest, None)):
                stages[s] = latest

    # ------------------------------------------------------------------------------------------------ order of axes
    def merit(self, axis: Axis, statements: list[Statement], opened: frozenset[Axis]) -> float:
        """The work under a loop over the axis, a pass of it, with a penalty for strides. What a tile needs is in the cache, and
        read along its lanes: there, several passes and strides cost nothing, but sums over the axis would be kept for all that
        is inside."""
        looped = [s for s in statements if axis in s.axes]
        total = sum(work(s, opened) for s in looped)
        if any(a.lanes for a in opened):
            return total - 0.5 * sum(work(s, opened) for s in looped if axis not in s.index)
        strided = sum(work(s, opened) for s in looped if self.strides(s, axis, opened))
        stages = self.stages(axis, statements)
        passes = len({stages[s] for s in looped})
        return total / passes / (1.0 + STRIDE_PENALTY * strided / max(total, 1e-300))

    def strides(self, s: Statement, axis: Axis, opened: frozenset[Axis]) -> bool:
        """Whether, with this loop outside, a loop inside it would step through memory by more than one element."""
        closed = set(s.axes) - opened - {axis}
        for access in self.accesses[s]:
            for k, axes in enumerate(access):
                if axis in axes and any(before & closed for before in access[:k]):
                    return True
        return False


def work(s: Statement, opened: frozenset[Axis] = frozenset()) -> float:
    """About how many operations a statement does in loops over those of its axes that are not open."""
    total = s.cost
    for axis in s.axes:
        if axis not in opened:
            total *= axis.length.constant if axis.length.constant is not None else TYPICAL_LENGTH
    return total


def called(s: Statement) -> str:
    """What a statement makes, in the user's words."""
    if not is_unnamed(s.target.name):
        return s.target.name
    return "what it reads" if s.location is None else f"a value of line {s.location.line}"


def place_in_tile(axis: Axis) -> int:
    """In a tile, rows are opened first, lanes last."""
    return 1 if axis.tile is None else 0 if axis.rows else 2


def leaves(nodes: list[Node], path: tuple[Loop, ...] = ()) -> Iterator[tuple[Leaf, tuple[Loop, ...]]]:
    """All leaves in order, with the loops around them."""
    for node in nodes:
        if isinstance(node, Leaf):
            yield node, path
        else:
            yield from leaves(node.body, (*path, node))
