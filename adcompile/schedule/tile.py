"""Tiles: the loop over the data split into tiles of lanes, so that its innermost loops are long, contiguous and vectorised.

A loop over data whose body has loops of its own (over components, over columns) runs in tiles of some dozen elements. Inside a
tile every statement is either in *lanes*: its other loops outside, the loop over the elements of the tile innermost, its values
kept as [.., lanes]; or in *rows*: the loop over the elements outside, running along rows of memory inside (`X @ w`).

What is read in lanes but lies in memory by rows is copied into the tile first; what is made in lanes but is to lie in rows is
copied out of it at the end. Only the statements change here; where the loops and the values go follows from them (`nest`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.core import Value
from .index import Axis, Index, Operand, Read, axes_of, operand_axes, substitute, substitute_operand
from .lower import Definition, Lowering, Statement, start_of
from .nest import Loop, Nest, Node, called, leaves, work

HEAVY = 15.0                        # flops of a scalar function that is worth a loop of its own, in which it is vectorised
SHORTEST = 4                        # tiles: axes known to be shorter are not split
MAIN = 0.1                          # the least part of the work of the largest loop that is worth it


def tiled(nest: Nest, nodes: list[Node], lanes: int) -> tuple[Nest, list[Node]]:
    """The nest with those of its loops in tiles that gain by it."""
    groups = {node: Group(nest.lowering, node, lanes) for node in nodes if isinstance(node, Loop)}
    most = max([group.work for group in groups.values()], default=0.0)
    groups = {node: g for node, g in groups.items() if g.work >= MAIN * most and g.can_be_split() and g.why}
    if not groups:
        return nest, nodes
    for group in groups.values():
        group.split()
    for number, s in enumerate(nest.lowering.statements):
        s.number = number
    nest = Nest(nest.lowering)
    return nest, [groups[node].loop(nest) if node in groups else node for node in nodes]


@dataclass(frozen=True)
class Target:
    """What a group makes along the axis. `place`: which of its axes that is; `outside`: it is wanted elsewhere too."""

    definition: Definition
    makers: tuple[Statement, ...]
    place: int
    outside: bool
    read_inside: bool

    @property
    def kinds(self) -> set[str]:
        """How its makers make it; subtracting is adding."""
        return {"+" if s.kind == "-" else s.kind for s in self.makers}

    @property
    def made_outside(self) -> bool:
        """Whether another group makes part of it."""
        return len(self.makers) < len(self.definition.statements)


class Group:
    """The statements of one loop."""

    def __init__(self, lowering: Lowering, loop: Loop, lanes: int) -> None:
        self.lowering, self.axis, self.lanes = lowering, loop.axis, lanes
        self.statements = [leaf.statement for leaf, _ in leaves([loop])]
        self.reads = {s: lowering.reads(s) for s in self.statements}
        self.made = {s.target for s in self.statements}
        self.work = sum(work(s) for s in self.statements)
        self.why = self.gain()
        if self.why:
            self.why = f"{loop.why}; " * bool(loop.why) + f"in tiles of {lanes}: {self.why}"
        self.once: dict[tuple[Value, tuple[Axis, ...], bool], Value] = {}

    # ------------------------------------------------------------------------------------------------ whether
    def can_be_split(self) -> bool:
        """Whether every statement is one that may move, and meets each element of the group's values in its own turn only."""
        length = self.axis.length.constant
        if length is not None and length < SHORTEST * self.lanes:
            return False
        for s in self.statements:
            if s.control is not None or s.running or s.after or s.beside or s.overwrites or s.ordered:
                return False
            if self.lowering.definitions[s.target].whole:
                return False
            for read in self.reads[s]:
                if read.value in self.made and any(
                    (own is self.axis) is not (index is self.axis)
                    for own, index in zip(self.lowering.definitions[read.value].axes, read.index, strict=True)
                ):
                    return False
        if any(first in self.reads for s in self.lowering.statements for first in (*s.after, *s.beside, *s.leads)):
            return False
        return all(self.lines_up(t) and not t.made_outside for t in self.targets() if t.read_inside)

    def lines_up(self, target: Target) -> bool:
        """Whether every turn makes the element of its own, and all do so in one way."""
        return len(target.kinds - {"="}) <= 1 and all(s.index[target.place] is self.axis for s in target.makers)

    def targets(self) -> list[Target]:
        """The values that the group makes along the axis."""
        found = []
        inside = {read.value for s in self.statements for read in self.reads[s]}
        others = set(self.lowering.statements) - set(self.statements)
        outside = {read.value for s in others for read in self.lowering.reads(s)}
        outside |= {s.target for s in others} | {x for x in self.lowering.outputs if isinstance(x, Value)}
        for value in dict.fromkeys(s.target for s in self.statements):
            definition = self.lowering.definitions[value]
            if self.axis in definition.axes:
                makers = tuple(s for s in self.statements if s.target is value)
                place = definition.axes.index(self.axis)
                found.append(Target(definition, makers, place, value in outside, value in inside))
        return found

    def gain(self) -> str:
        """What is faster in tiles: sums that do more than there are elements to read, or scalar functions beside sums along
        rows, which they would otherwise be between; nothing: empty."""
        inner = {s: None for s in self.statements if len(s.axes) > 1}
        summed = next((s for s in inner if self.reuses(s)), None)
        if summed is not None:
            return f"the sums of {called(summed)} do more than there is to read"
        costly = next((s for s in self.statements if s.cost >= HEAVY), None)
        if costly is not None and inner and self.in_rows().issuperset(inner):
            return f"{called(costly)} is computed for all at once, between sums along rows"
        return ""

    def reuses(self, s: Statement) -> bool:
        """Whether a sum reads all its operands more than once each, some of them along the axis."""
        read = [set(operand_axes(r)) for r in self.reads[s]]
        return s.kind != "=" and any(self.axis in axes for axes in read) and set(s.axes) not in read

    def strided(self, read: Read) -> bool:
        """Whether this reads an array of the outside, along the axis with gaps."""
        inside = read.value in self.made
        return not inside and any(i is self.axis for i in read.index[:-1]) and self.axis not in axes_of(read.index[-1])

    def in_rows(self) -> set[Statement]:
        """Cheap sums that read rows of memory once: nothing would be gained by copying them into lanes, unless that is done
        for others."""
        rows = {s for s in self.statements if len(s.axes) > 1 and s.kind != "=" and s.cost < HEAVY and not self.copied(s)}
        rows = {s for s in rows if any(self.strided(r) and set(operand_axes(r)) == set(s.axes) for r in self.reads[s])}
        lanes = {read.value for s in self.statements if s not in rows for read in self.reads[s] if self.strided(read)}
        return {s for s in rows if not any(self.strided(r) and r.value in lanes for r in self.reads[s])}

    def copied(self, s: Statement) -> bool:
        """Whether a statement reads some array of rows more than once."""
        return any(self.strided(r) and set(operand_axes(r)) != set(s.axes) for r in self.reads[s])

    # ------------------------------------------------------------------------------------------------ splitting
    def split(self) -> None:
        """Split the axis: change the statements, and add those that copy into and out of the tile."""
        rows = self.in_rows()
        lowering, before = self.lowering, set(self.lowering.statements)
        self.tiles = self.new_axis(lanes=self.lanes)
        self.lane, self.row = self.new_axis(tile=self.tiles), self.new_axis(tile=self.tiles, rows=True)
        for value, place in self.read_strided(rows):
            self.copy_in(value, place)
        for target in self.targets():
            if not self.lines_up(target) or not target.read_inside and self.is_last(target):
                continue
            if target.outside:
                self.copy_out(target)
            else:
                element = self.row if rows.issuperset(target.makers) else self.lane
                target.definition.axes = self.replaced(target.definition.axes, element)
        for s in self.statements:
            self.move(s, self.row if s in rows else self.lane)
        for s in self.statements:
            if s not in rows:
                s.operands = tuple(self.kept(x, s) for x in s.operands)
        self.statements = [s for s in lowering.statements if s in self.reads or s not in before]

    def kept(self, operand: Operand, s: Statement) -> Operand:
        """An operand of a statement, with that of it kept in the tile which would otherwise be computed in every turn of loops
        that do not move it. What is cheap is computed once for the forward and once for the backward statements."""
        definition = self.lowering.definition(operand.value) if isinstance(operand, Read) else None
        if not isinstance(operand, Read) or definition is None or not definition.is_macro or not are_axes(operand.index):
            return operand
        inner = tuple(substitute_operand(x, dict(zip(definition.axes, operand.index, strict=True))) for x in definition.operands)
        axes: tuple[Axis, ...] = operand.index                                      # type: ignore[assignment]
        if self.lane in axes and len(axes) < len(s.axes) - 1 and definition.code:
            return Read(self.computed(operand.value, definition, axes, inner, s), axes)
        changed = tuple(self.kept(x, s) for x in inner)
        if changed == inner:
            return operand
        other = Value(operand.value.name, operand.value.type)
        self.lowering.definitions[other] = replace(definition, value=other, axes=axes, operands=changed)
        return Read(other, axes)

    def computed(
        self, value: Value, macro: Definition, axes: tuple[Axis, ...], operands: tuple[Operand, ...], s: Statement
    ) -> Value:
        """A value of the tile, made by a statement before this one; the one that is there where there is."""
        key = (value, axes, s.forward)
        if key not in self.once:
            inside = self.once[key] = Value(f"{value.name}_tile", value.type)
            runs = (self.tiles, *axes)
            made = Statement(0, inside, axes, "=", macro.code, operands, runs, macro.cost, macro.location, s.forward)
            self.lowering.definitions[inside] = Definition(inside, axes, [made])
            self.lowering.statements.insert(self.lowering.statements.index(s), made)
        return self.once[key]

    def loop(self, nest: Nest) -> Loop:
        """The loop over the tiles, once all axes are split."""
        return Loop(self.tiles, nest.level(self.statements, frozenset({self.tiles})), self.why)

    def new_axis(self, lanes: int = 0, tile: Axis | None = None, rows: bool = False) -> Axis:
        axis = self.lowering.axis(self.axis.length)
        axis.lanes, axis.tile, axis.rows = lanes, tile, rows
        return axis

    def replaced(self, axes: tuple[Axis, ...], *by: Axis) -> tuple[Axis, ...]:
        return tuple(new for a in axes for new in (by if a is self.axis else (a,)))

    def move(self, s: Statement, element: Axis) -> None:
        """Let a statement run over tiles and their elements."""
        s.axes = self.replaced(s.axes, self.tiles, element)
        s.index = tuple(substitute(i, {self.axis: element}) for i in s.index)
        s.operands = tuple(substitute_operand(x, {self.axis: element}) for x in s.operands)

    def is_last(self, target: Target) -> bool:
        """Whether neighbours along the axis are neighbours in memory."""
        return target.place == len(target.definition.axes) - 1

    def read_strided(self, rows: set[Statement]) -> dict[tuple[Value, int], None]:
        """The arrays that are read along the lanes with gaps, each with the place of the axis."""
        reads = [r for s in self.statements if s not in rows for r in self.reads[s] if self.strided(r)]
        return {(r.value, next(k for k, i in enumerate(r.index) if i is self.axis)): None for r in reads}

    def copy_in(self, value: Value, place: int) -> None:
        """Copy an array's rows into the tile, before they are read."""
        inside = Value(f"{value.name}_tile", value.type)
        axes = self.lowering.axes_for(value.type)
        index = (*axes[:place], self.row, *axes[place + 1:])
        self.lowering.definitions[inside] = Definition(inside, index)
        self.lowering.stand_ins.setdefault(value, []).append((place, (self.lane,), inside))
        forward = any(s.forward for s in self.statements)
        runs = (self.tiles, self.row, *(a for k, a in enumerate(axes) if k != place))
        s = Statement(0, inside, index, "=", "{0}", (Read(value, index),), runs, 1.0, None, forward)
        self.lowering.definitions[inside].statements.append(s)
        reader = next(x for x in self.statements if any(r.value is value for r in self.reads[x]))
        self.lowering.statements.insert(self.lowering.statements.index(reader), s)

    def copy_out(self, target: Target) -> None:
        """Let the group make a value of its own, and copy it to where it is wanted once it is made."""
        outer, place = target.definition, target.place
        inside = Value(f"{outer.value.name}_tile", outer.value.type)
        inner = Definition(inside, self.replaced(outer.axes, self.lane), list(target.makers), outer.start)
        self.lowering.definitions[inside] = inner
        self.lowering.stand_ins.setdefault(outer.value, []).append((place, (self.lane, self.row), inside))
        element = self.lane if self.is_last(target) else self.row
        index = self.replaced(outer.axes, element)
        kind = min(target.kinds, key="=".__ne__)
        if outer.start is not None and not target.made_outside:
            kind, outer.start = "=", None
        elif kind != "=":
            inner.start = start_of(kind, outer.value.type.dtype)
        maker = target.makers[-1]
        runs = (self.tiles, element, *(a for a in outer.axes if a is not self.axis))
        s = Statement(0, outer.value, index, kind, "{0}", (Read(inside, index),), runs, 1.0, maker.location, maker.forward)
        outer.statements = [x for x in outer.statements if x not in target.makers] + [s]
        for x in target.makers:
            x.target = inside
        self.lowering.statements.insert(self.lowering.statements.index(maker) + 1, s)


def are_axes(index: tuple[Index, ...]) -> bool:
    """Whether an index is made of axes, each once."""
    return all(isinstance(i, Axis) for i in index) and len(set(index)) == len(index)
