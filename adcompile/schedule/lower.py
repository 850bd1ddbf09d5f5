"""From graph operations to statements over index axes.

A `Statement` says: for all values of `axes`, combine the scalar `code(operands)` into `target[index]`. Structural ops
never become statements: they are maps of the indices at which their operand is read (`Lowering.views`). Elementwise ops
that cost little are `macro`s: they are computed again wherever they are read, so no array ever keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnsupportedOp
from ..ir.analysis import free_values, live_operations, operands_in, symbols_of
from ..ir.core import ArrayConstant, Block, Literal, Location, Operation, Value
from ..ir.core import Operand as GraphOperand
from ..ir.dims import Dim
from ..ir.loops import Raise, SizeOf
from ..ir.op import TABLE, Op
from ..ir.types import DType, Type
from .control import Control, lower_control
from .index import (
    ONE,
    ZERO,
    Affine,
    Axis,
    Index,
    IndexValue,
    Lookup,
    Operand,
    Read,
    affine,
    dims_in,
    lookups,
    operand_axes,
    split_flat,
    substitute_operand,
    weighted_sum,
)
from .inplace import CONTROL, VIEWS, Plan, Planner
from .names import is_unnamed
from .sums import Frame, Place, Sums

MACRO_COST = 4.0            # recompute elementwise values up to this many flops rather than keep them
WIDENED_COST = 2.0                  # the same for a value that is read along axes it does not have
RESHAPED = ("broadcast", "reshape", "transpose", "slice")
REDUCTIONS = {
    "reduce_sum": "+",
    "reduce_prod": "*",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_any": "or",
    "reduce_all": "and",
}
IndexMap = Callable[[tuple[Index, ...]], tuple[Index, ...]]


@dataclass(eq=False)
class Statement:
    """One assignment or accumulation, over the index axes `axes`. `kind` is "=" or an accumulation operator."""

    number: int
    target: Value
    index: tuple[Index, ...]
    kind: str
    code: str
    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]
    cost: float
    location: Location | None
    forward: bool
    running: bool = False                  # reads its operand in the middle of the loop that accumulates it
    after: tuple[Statement, ...] = ()      # statements that must be complete before, though it does not read them
    beside: tuple[Statement, ...] = ()     # statements that come before it in every iteration of the same loop
    leads: tuple[Statement, ...] = ()      # the statements that it is `beside` of: it waits for what they read
    overwrites: tuple[Value, ...] = ()     # values whose storage it changes: all their other readers come before
    control: Control | None = None         # a whole loop or choice
    ordered: tuple[Axis, ...] = ()         # axes that are run over in this order, from the outside in: the last write stays
    raises: Raise | None = None            # instead of writing anything, where its operand is true


@dataclass(eq=False)
class Definition:
    """How a value comes about: over which axes, by which statements; or, for a macro, by which expression."""

    value: Value
    axes: tuple[Axis, ...]
    statements: list[Statement] = field(default_factory=list)
    start: Literal | None = None           # what accumulations start from; None: every element is assigned
    code: str = ""
    operands: tuple[Operand, ...] = ()
    is_macro: bool = False
    cost: float = 0.0
    heavy: frozenset[Value] = frozenset()  # the kept values of the same rank that a macro reads
    location: Location | None = None
    whole: bool = False                    # shares its storage, or is read by a loop: kept over all its axes, in order

    @property
    def accumulates(self) -> bool:
        """Whether it is complete only after its last statement."""
        return self.start is not None or any(s.kind != "=" for s in self.statements)


def read_over_more_axes(operations: list[Operation]) -> set[Value]:
    """Values that something reads along axes which they do not have: computed anew there, they would be computed more
    often than they have elements."""
    found: set[Value] = set()
    maker = {r: op for op in operations for r in op.results}
    for op in operations:
        read: list[GraphOperand] = []
        if op.op == "broadcast" and len(op.attributes["axes"]) < len(op.attributes["dims"]):
            read = [op.operands[0]]
        elif op.op == "contract":
            labels = op.attributes["a_labels"], op.attributes["b_labels"]
            read = [x for x, own, other in zip(op.operands, labels, reversed(labels), strict=True) if set(other) - set(own)]
        for x in read:
            while isinstance(x, Value) and x in maker and maker[x].op in RESHAPED:
                x = maker[x].operands[0]
            found |= {x} if isinstance(x, Value) else set()
    return found


class Lowering:
    """The statements of one block: a function's body, or a region inside `parent`. `owned`: values from outside that it may
    overwrite; `homes`: per yield the value whose storage it is to be in."""

    def __init__(self, block: Block, returned: int | None = None, parent: Lowering | None = None, *, owned: Iterable[Value] = (),
                 homes: Sequence[Value | None] = (), rotating: bool = False) -> None:
        self.block, self.parent = block, parent
        self.rotating = rotating                              # results that are arrays may change places by name
        self.returned = len(block.yields) if returned is None else returned
        self.owned, self.homes = set(owned), tuple(homes) or (None,) * len(block.yields)
        self.uses = Counter(x for op in block.operations for x in operands_in(op) if isinstance(x, Value))
        self.uses.update(x for x in block.yields if isinstance(x, Value))
        self.arrays: dict[Value, ArrayConstant] = {} if parent is None else parent.arrays
        self.checks: list[tuple[Dim, str]] = [] if parent is None else parent.checks
        self.extents: dict[str, Value] = {} if parent is None else parent.extents        # sizes that are computed
        self.support: dict[str, Any] = {} if parent is None else parent.support
        self.axis_count = 0
        self.location: Location | None = None
        self.forward: bool = parent is None or parent.forward
        live = live_operations(block.operations, block.yields)
        self.plan = Plan(live)
        if parent is not None or any(op.regions for op in live):
            self.plan = Planner(live, block.yields, self.owned, self.homes).run()
        self.results = {r for r in block.yields if isinstance(r, Value)}
        self.begin()

    def begin(self) -> None:
        """Forget all that was lowered."""
        self.operations = self.plan.order
        self.maker = {r: op for op in self.operations for r in op.results}
        forward = live_operations(self.operations, self.block.yields[:self.returned])
        self.forward_operations = set(map(id, forward))
        self.compared = self.find_compared()
        self.widened = read_over_more_axes(self.operations)
        self.required = self.plan.kept | self.read_by_regions()
        self.statements: list[Statement] = []
        self.definitions: dict[Value, Definition] = {}
        self.views: dict[Value, tuple[GraphOperand | Operand, IndexMap]] = {}
        self.over: dict[Value, Value] = {}                    # results that are in the storage of another value
        self.sums = Sums(self)                                # sums of accumulations, which are made in one place
        self.wishes: dict[Value, str] = {}                    # names for storage whose first value has none
        self.rotated: set[Value] = set()                      # results of loops that do so
        self.outputs: list[Operand | Value] = []
        # per value what stands for it in a tile: where the axis is that is tiled, its lanes or rows, the other value
        self.stand_ins: dict[Value, list[tuple[int, tuple[Axis, ...], Value]]] = {}

    def run(self) -> Lowering:
        """Lower everything. Merged sums read their terms late: where that would be after one is overwritten, nothing is
        merged; and if something is still out of order, nothing is overwritten."""
        self.attempt(merging=True)
        if self.out_of_order():
            self.begin()
            self.attempt(merging=False)
        if self.out_of_order():
            self.plan = Plan(live_operations(self.block.operations, self.block.yields))
            self.begin()
            self.attempt(merging=True)
        return self

    def attempt(self, merging: bool) -> None:
        if merging:
            self.sums.find(reversed(self.operations))
        for op in self.operations:
            self.go_to(op)
            if not any(r in self.sums.merged for r in op.results):
                self.lower(op)
        self.lower_results()

    def go_to(self, op: Operation) -> None:
        """Take note of which operation statements are for."""
        self.location = op.location
        self.forward = id(op) in self.forward_operations if self.parent is None else self.parent.forward

    def out_of_order(self) -> bool:
        """Whether something reads a value after it was overwritten."""
        ends = {v: s.number for s in self.statements for v in s.overwrites}
        return any(ends.get(read.value, s.number) < s.number for s in self.statements if ends for read in self.reads(s))

    def read_by_regions(self) -> set[Value]:
        """What loops and choices read, seen through views: it is there in full before they begin."""
        found: set[Value] = set()
        for op in self.operations:
            reads: list[GraphOperand | None] = [v for region in op.regions for v in free_values(region)]
            for x in reads:
                while isinstance(x, Value):
                    found.add(x)
                    viewed = self.maker.get(x)
                    x = viewed.operands[0] if viewed is not None and viewed.op in VIEWS else None
        return found

    def find_compared(self) -> set[Value]:
        """Values compared for equality or searched for an extremum, seen through views: computed twice, they could round
        differently (sums are contracted as the compiler likes) and not equal themselves."""
        found: set[Value] = set()
        for op in reversed(self.operations):
            compares = op.op in ("eq", "ne", "reduce_max", "reduce_min", "argmax", "argmin")
            if compares or op.op in ("broadcast", "transpose", "reshape", "slice", "gather") and op.result in found:
                found.update(x for x in op.operands if isinstance(x, Value) and x.type.dtype.is_float)
        return found

    # ------------------------------------------------------------------------------------------------ helpers
    def axis(self, length: Dim) -> Axis:
        self.axis_count += 1
        return Axis(length, self.axis_count)

    def axes_for(self, type: Type) -> tuple[Axis, ...]:
        return tuple(self.axis(d) for d in type.dims)

    def read(self, operand: GraphOperand | Operand, index: tuple[Index, ...] = ()) -> Operand:
        """The operand at an index, seen through all views."""
        while isinstance(operand, Value):
            view = self.find_view(operand)
            if view is None:
                definition = self.definition(operand)
                if definition is not None and definition.is_macro and not definition.code:
                    return substitute_operand(definition.operands[0], dict(zip(definition.axes, index, strict=True)))
                return Read(operand, index)
            operand, index_map = view
            index = index_map(index)
        return operand

    def find_maker(self, value: Value) -> Operation | None:
        """The operation that makes a value, here or in a block around this one."""
        found = self.maker.get(value)
        return self.parent.find_maker(value) if found is None and self.parent is not None else found

    def is_parameter(self, value: Value) -> bool:
        """Whether a value is a parameter of the function: an integer one is a size as well, of the same name."""
        return value in self.block.arguments if self.parent is None else self.parent.is_parameter(value)

    def find_view(self, value: Value) -> tuple[GraphOperand | Operand, IndexMap] | None:
        """What a value is a view of, here or in a block around this one."""
        found = self.views.get(value)
        return self.parent.find_view(value) if found is None and self.parent is not None else found

    def definition(self, value: Value) -> Definition | None:
        """The definition of a value, here or in a block around this one."""
        found = self.definitions.get(value)
        return self.parent.definition(value) if found is None and self.parent is not None else found

    def view(self, value: Value, of: GraphOperand | Operand, index_map: IndexMap) -> None:
        self.views[value] = (of, index_map)

    def statement(self, target: Value, index: tuple[Index, ...], kind: str, code: str, operands: tuple[Operand, ...],
                  axes: tuple[Axis, ...], cost: float = 1.0, **fields: Any) -> Statement:
        s = Statement(
            len(self.statements), target, index, kind, code, operands, axes, cost, self.location, self.forward, **fields
        )
        self.statements.append(s)
        self.definitions[target].statements.append(s)
        return s

    def define(self, value: Value, axes: tuple[Axis, ...] | None = None, start: Literal | None = None) -> Definition:
        """The value's definition, made if this is its first statement."""
        if value not in self.definitions:
            own = self.axes_for(value.type) if axes is None else axes
            self.definitions[value] = Definition(value, own, start=start, location=self.location)
        return self.definitions[value]

    def expand(self, operand: Operand) -> Iterator[Read]:
        """The reads of kept values and parameters behind an operand: macros replaced by what they read, lookups included."""
        if not isinstance(operand, Read):
            if isinstance(operand, IndexValue):
                for inner in lookups(operand.index):
                    yield from self.expand(inner)
            return
        for index in operand.index:
            for inner in lookups(index):
                yield from self.expand(inner)
        operand = self.in_tile(operand)
        definition = self.definition(operand.value)
        if definition is None or not definition.is_macro:
            yield operand
            return
        axes = dict(zip(definition.axes, operand.index, strict=True))
        for inner in definition.operands:
            yield from self.expand(substitute_operand(inner, axes))

    def in_tile(self, read: Read) -> Read:
        """The read, from what stands for the value inside a tile where there is such."""
        for place, axes, value in self.stand_ins.get(read.value, ()):
            if read.index[place] in axes:
                return Read(value, read.index)
        return read

    def reads(self, s: Statement) -> list[Read]:
        """All reads of a statement, those of its target's index included."""
        found = [r for operand in s.operands for r in self.expand(operand)]
        for index in s.index:
            for inner in lookups(index):
                found += self.expand(inner)
        return found

    # ------------------------------------------------------------------------------------------------ one operation
    def lower(self, op: Operation) -> None:
        """Lower one operation."""
        method = getattr(self, f"lower_{op.op}", None)
        row = TABLE[op.op]
        if op.op in CONTROL:
            lower_control(self, op)
            return
        if op.result in self.sums.rows:
            self.sums.lower_row(op)
            return
        if op.result in self.sums.terms and op.result not in self.sums.places:
            self.sums.lower(op)
            return
        if method is not None:
            method(op)
        elif op.op in REDUCTIONS:
            self.lower_reduction(op)
        elif row.code is not None:
            self.lower_elementwise(op, row)
        else:
            raise UnsupportedOp(f"the operation {op.op!r} cannot be compiled", op.location)
        if op.op in VIEWS and (op.result in self.plan.kept or self.is_element_of_a_loop(op)) and \
                isinstance(self.read(op.result, self.axes_for(op.result.type)), Read):
            self.views[op.result] = (self.copied(op.result, self.element_name(op)), lambda index: index)

    def is_element_of_a_loop(self, op: Operation) -> bool:
        """Whether an element of an array is to be read once, into a local scalar: a loop reads it, or a loop's body twice."""
        return not op.result.type.dims and (op.result in self.required or self.parent is not None and self.uses[op.result] > 1)

    def copied(self, value: Value, name: str = "") -> Value:
        """A statement that copies a value, in full."""
        copy = Value(name or value.name, value.type)
        axes = self.axes_for(value.type)
        self.define(copy, axes)
        self.statement(copy, axes, "=", "{0}", (self.read(value, axes),), axes)
        return copy

    def element_name(self, op: Operation) -> str:
        """The name of an element of an array: p_0 for p[0], the user's where there is one."""
        read = None if op.result.type.dims else self.read(op.result)
        if not is_unnamed(op.result.name) or not isinstance(read, Read):
            return op.result.name
        numbers = [i.offset.constant for i in read.index if isinstance(i, Affine) and not i.terms]
        return "_".join([read.value.name, *map(str, numbers)]) if len(numbers) == len(read.index) else op.result.name

    # ------------------------------------------------------------------------------------------------ shared storage
    def owns(self, value: Value) -> bool:
        """Whether a value is in storage that this block may overwrite."""
        if value in self.owned:
            return True
        definition = self.definitions.get(value)
        return definition is not None and not definition.is_macro and value not in self.views and \
            tuple(a.length for a in definition.axes) == value.type.dims

    def takes_over(self, result: Value) -> Value | None:
        """The value whose storage a result takes, if it may."""
        base = self.plan.over.get(result)
        return base if base is not None and self.owns(base) else None

    def take_over(self, result: Value, base: Value) -> tuple[Statement, ...]:
        """Put a result into the storage of another value. Returns what has to be complete before."""
        self.over[result] = base
        self.definitions[result].whole = True
        if base not in self.definitions:
            return ()
        self.definitions[base].whole = True
        return tuple(self.definitions[base].statements)

    def lower_elementwise(self, op: Operation, row: Op) -> None:
        axes = self.axes_for(op.result.type)
        operands = tuple(self.read(x, axes if x.type.dims else ()) for x in op.operands)
        if "dim" in op.attributes:
            operands += (SizeOf(op.attributes["dim"]),)
        for function in row.support:
            self.support[function.__name__] = function
        self.elementwise(op.result, axes, elementwise_code(op, row), operands, row.cost)

    def elementwise(self, result: Value, axes: tuple[Axis, ...], code: str, operands: tuple[Operand, ...], cost: float) -> None:
        """Define a value by a scalar expression over those of its axes that the operands move with."""
        used = {a for x in operands for a in operand_axes(x)}
        value, kept = result, axes
        if len(used) < len(axes):
            kept = tuple(a for a in axes if a in used)
            places = [k for k, a in enumerate(axes) if a in used]
            value = Value(result.name, result.type.with_dims(tuple(result.type.dims[k] for k in places)))
            self.view(result, value, lambda index: tuple(index[k] for k in places))
        definition = self.define(value, kept)
        definition.code, definition.operands = code, operands
        definition.cost = cost
        heavy: set[Value] = set()
        for x in operands:
            if isinstance(x, Read) and x.value in self.definitions:
                inner = self.definitions[x.value]
                definition.cost += inner.cost if inner.is_macro and len(inner.axes) >= len(kept) else 0.0
                heavy |= inner.heavy if inner.is_macro else {x.value} if len(inner.axes) >= len(kept) else set()
        definition.heavy = frozenset(heavy)
        recomputable = not {value, result} & (self.results | self.compared | self.required)
        limit = WIDENED_COST if result in self.widened else MACRO_COST
        if kept and recomputable and definition.cost <= limit and len(heavy) <= 1:
            definition.is_macro = True
            return
        base = self.takes_over(value)
        if base is not None and all(r.index == kept for x in operands for r in self.expand(x) if r.value is base):
            self.statement(value, kept, "=", code, operands, kept, cost, after=self.take_over(value, base), overwrites=(base,))
        else:
            self.statement(value, kept, "=", code, operands, kept, cost)

    # ------------------------------------------------------------------------------------------------ structural ops
    def lower_broadcast(self, op: Operation) -> None:
        axes = op.attributes["axes"]
        self.view(op.result, op.operands[0], lambda index: tuple(index[a] for a in axes))

    def lower_transpose(self, op: Operation) -> None:
        permutation = op.attributes["permutation"]
        places = [permutation.index(k) for k in range(len(permutation))]
        self.view(op.result, op.operands[0], lambda index: tuple(index[p] for p in places))

    def lower_slice(self, op: Operation) -> None:
        starts, steps = op.attributes["starts"], op.attributes["steps"]
        self.view(
            op.result,
            op.operands[0],
            lambda index: tuple(
                affine(i, Dim.of(step), Dim.of(start)) for i, start, step in zip(index, starts, steps, strict=True)
            ),
        )

    def lower_stop_gradient(self, op: Operation) -> None:
        self.view(op.result, op.operands[0], lambda index: index)

    def lower_reshape(self, op: Operation) -> None:
        groups = matching_groups(op.operands[0].type.dims, op.result.type.dims)
        self.view(op.result, op.operands[0], lambda index: tuple(
            i for old, new, at in groups for i in regroup(old, new, index[at:at + len(new)])))

    def lower_iota(self, op: Operation) -> None:
        (axis,) = axes = self.axes_for(op.result.type)
        self.macro(op.result, axes, cast_code(op.result.type.dtype, DType.i64), (IndexValue(axis),))

    def macro(self, value: Value, axes: tuple[Axis, ...], code: str, operands: tuple[Operand, ...]) -> None:
        definition = self.define(value, axes)
        definition.code, definition.operands, definition.is_macro = "" if code == "{0}" else code, operands, True

    def lower_size(self, op: Operation) -> None:
        self.view(op.result, SizeOf(op.attributes["dim"]), lambda index: index)

    def lower_extent(self, op: Operation) -> None:
        """A size that is computed: the kernel knows it by the name of this scalar."""
        self.define(op.result, ())
        self.statement(op.result, (), "=", "max({0}, 0)", (self.read(op.operands[0]),), ())
        self.extents[op.attributes["symbol"]] = op.result

    def computed_sizes(self, s: Statement) -> set[Value]:
        """The computed sizes that a statement needs."""
        if not self.extents:
            return set()
        if s.control is not None:
            symbols = symbols_of(s.control.op)
        else:
            dims = [d for x in (*s.axes, *s.index, *s.operands) for d in dims_in(x)]
            found = [*s.operands, *(x for i in s.index for x in lookups(i))]
            dims += [d for x in found for y in (x, *self.behind(x)) for d in dims_in(y)]
            dims += [a.length for a in self.definitions[s.target].axes]
            symbols = {symbol for d in dims for symbol in d.symbols}
        return {self.extents[symbol] for symbol in symbols if symbol in self.extents}

    def behind(self, operand: Operand) -> Iterator[Operand]:
        """The operands of the macros behind an operand."""
        definition = self.definition(operand.value) if isinstance(operand, Read) else None
        if definition is not None and definition.is_macro:
            for inner in definition.operands:
                yield inner
                yield from self.behind(inner)

    def lower_constant(self, op: Operation) -> None:
        self.arrays[op.result] = op.attributes["value"]

    def lower_pad(self, op: Operation) -> None:
        self.define(op.result, start=start_of("+", op.result.type.dtype))
        axes = self.axes_for(op.operands[0].type)
        index = Frame.whole(op.result.type.dims).of_pad(op).at(axes)
        self.statement(op.result, index, "=", "{0}", (self.read(op.operands[0], axes),), axes)

    def lower_concat(self, op: Operation) -> None:
        along = op.attributes["axis"]
        offset = ZERO
        self.define(op.result)
        for x in op.operands:
            axes = self.axes_for(x.type)
            index = tuple(affine(a, ONE, offset if k == along else ZERO) for k, a in enumerate(axes))
            self.statement(op.result, index, "=", "{0}", (self.read(x, axes),), axes)
            offset = offset + x.type.dims[along]

    # ------------------------------------------------------------------------------------------------ indexing
    def gathered_index(
        self, op: Operation, indices: tuple[GraphOperand, ...], rank: int, index: tuple[Index, ...]
    ) -> tuple[Index, ...]:
        """The element of the indexed array behind an element of a gather's result (or a scatter's updates)."""
        along = op.attributes["axes"]
        lead = max((x.type.rank for x in indices), default=0)
        rest = iter(index[lead:])
        return tuple(self.lookup(indices[along.index(k)], index[:lead]) if k in along else next(rest) for k in range(rank))

    def lookup(self, operand: GraphOperand, index: tuple[Index, ...]) -> Index:
        read = self.read(operand, index if operand.type.dims else ())
        if isinstance(read, SizeOf):
            return Affine((), read.dim)
        if isinstance(read, Literal):
            return Affine((), Dim.of(int(read.value.real)))
        return read.index if isinstance(read, IndexValue) else Lookup(read)

    def lower_gather(self, op: Operation) -> None:
        x, *indices = op.operands
        self.view(op.result, x, lambda index: self.gathered_index(op, tuple(indices), x.type.rank, index))

    def lower_scatter_add(self, op: Operation) -> None:
        base, *indices, updates = op.operands
        place = self.sums.places.get(op.result)
        if place is None:
            self.begin_update(op)
        self.scatter(op, place, "+", indices, updates, base.type.rank)

    def lower_scatter_set(self, op: Operation) -> None:
        self.begin_update(op)
        self.scatter(op, None, "=", op.operands[1:-1], op.operands[-1], op.operands[0].type.rank)

    def lower_slice_set(self, op: Operation) -> None:
        self.begin_update(op)
        base, *indices, updates = op.operands
        along, axes = op.attributes["axes"], self.axes_for(Type(updates.type.dtype, op.attributes["dims"]))
        places = zip(axes, op.attributes["starts"], op.attributes["steps"], strict=True)
        rest = iter([affine(a, Dim.of(step), Dim.of(start)) for a, start, step in places])
        index = tuple(self.lookup(indices[along.index(k)], ()) if k in along else next(rest) for k in range(base.type.rank))
        self.update(op, "=", index, updates, axes)

    def begin_update(self, op: Operation) -> None:
        """Provide the array that an operation changes: the one it may overwrite, or a copy."""
        base = op.operands[0]
        if self.takes_over(op.result) is base:
            self.define(op.result)
            return
        axes = self.axes_for(base.type)
        read = self.read(base, axes)
        if isinstance(read, Literal):
            self.define(op.result, start=read)
        else:
            self.define(op.result)
            self.statement(op.result, axes, "=", "{0}", (read,), axes)

    def update(self, op: Operation, kind: str, index: tuple[Index, ...], updates: GraphOperand, axes: tuple[Axis, ...]) -> None:
        """Write updates into what `begin_update` provided."""
        base = self.takes_over(op.result)
        first = tuple(self.definitions[op.result].statements)
        if base is None:
            self.statement(
                op.result, index, kind, "{0}", (self.read(updates, axes if updates.type.dims else ()),), axes, after=first
            )
            return
        read = self.read(updates, axes if updates.type.dims else ())
        if axes and isinstance(updates, Value) and any(r.value is base and r.index != index for r in self.expand(read)):
            read = Read(self.copied(updates), axes if updates.type.dims else ())
        first += self.take_over(op.result, base)
        self.statement(op.result, index, kind, "{0}", (read,), axes, after=first, overwrites=(base,))

    def scatter(
        self, op: Operation, place: Place | None, kind: str, indices: Sequence[GraphOperand], updates: GraphOperand, rank: int
    ) -> None:
        base = op.operands[0].type.dims
        lead = next((x.type.dims for x in indices if x.type.dims), ())
        axes = tuple(self.axis(d) for d in (*lead, *(d for k, d in enumerate(base) if k not in op.attributes["axes"])))
        index = self.gathered_index(op, tuple(indices), rank, axes)
        if place is None:
            self.update(op, kind, index, updates, axes)
            self.statements[-1].ordered = axes[:len(lead)] if kind == "=" else ()
        else:
            self.accumulate(place, index, "{0}", (self.read(updates, axes if updates.type.dims else ()),), axes)

    # ------------------------------------------------------------------------------------------------ reductions
    def lower_reduction(self, op: Operation) -> None:
        kind, x = REDUCTIONS[op.op], op.operands[0]
        axes = self.axes_for(x.type)
        index = tuple(a for k, a in enumerate(axes) if k not in op.attributes["axes"])
        if kind in ("max", "min"):
            for k in op.attributes["axes"]:
                self.check_entry(axes[k].length, f"zero-size array to reduction operation {kind}imum which has no identity")
        self.reduce(op.result, kind, index, "{0}", (self.read(x, axes),), axes)

    def check_entry(self, length: Dim, text: str) -> None:
        """Raise at the start where an axis is empty. Where its length is computed, who built the graph has seen to that."""
        if length.symbols.isdisjoint(self.extents):
            self.checks.append((length, text))

    def reduce(
        self, value: Value, kind: str, index: tuple[Axis, ...], code: str, operands: tuple[Operand, ...], axes: tuple[Axis, ...]
    ) -> None:
        """Accumulate a scalar expression over the axes that are not in `index`."""
        if len(index) == len(axes):
            self.elementwise(value, index, code, operands, 1.0)
            return
        place = self.sums.places.get(value)
        if place is not None:
            self.accumulate(place, index, code, operands, axes)
            return
        used = {a for x in operands for a in operand_axes(x)}
        kept = tuple(a for a in index if a in used)
        places = [k for k, a in enumerate(index) if a in used]
        target = value
        if len(kept) < len(index):
            target = Value(value.name, value.type.with_dims(tuple(value.type.dims[k] for k in places)))
            self.view(value, target, lambda index: tuple(index[k] for k in places))
        axes, index = tuple(a for a in axes if a in kept or a not in index), kept
        self.define(target, start=start_of(kind, value.type.dtype))
        self.statement(target, index, kind, code, operands, axes)

    def accumulate(
        self, place: Place, index: tuple[Index, ...], code: str, operands: tuple[Operand, ...], axes: tuple[Axis, ...]
    ) -> None:
        """Add to a part of an array that a sum is made in."""
        self.statement(place.target, self.sums.at(place, index), place.sign, code, operands, axes, after=place.after,
                       overwrites=place.overwrites)

    def lower_contract(self, op: Operation) -> None:
        a, b = op.operands
        labels = {
            name: d
            for x, key in ((a, "a_labels"), (b, "b_labels"))
            for name, d in zip(op.attributes[key], x.type.dims, strict=True)
        }
        axes = {name: self.axis(d) for name, d in labels.items()}
        operands = tuple(
            self.read(x, tuple(axes[name] for name in op.attributes[key])) for x, key in ((a, "a_labels"), (b, "b_labels"))
        )
        index = tuple(axes[name] for name in op.attributes["out_labels"])
        code = "{0} and {1}" if op.result.type.dtype is DType.bool else "{0} * {1}"
        kind = "or" if op.result.type.dtype is DType.bool else "+"
        self.reduce(op.result, kind, index, code, operands, tuple(axes.values()))

    def lower_argmax(self, op: Operation) -> None:
        """The first place where the element is the largest (or NaN): a maximum, then a minimum over the places."""
        x, along = op.operands[0], op.attributes["axis"]
        kind = op.op.removeprefix("arg")
        best = Value(f"{op.result.name}_{kind}", op.result.type.with_dtype(x.type.dtype))
        axes = self.axes_for(x.type)
        self.check_entry(axes[along].length, f"attempt to get {op.op} of an empty sequence")
        self.reduce(best, kind, tuple(a for k, a in enumerate(axes) if k != along), "{0}", (self.read(x, axes),), axes)
        axes = self.axes_for(x.type)
        index = tuple(a for k, a in enumerate(axes) if k != along)
        operands = (IndexValue(axes[along]), self.read(x, axes), self.read(best, index), SizeOf(axes[along].length))
        self.reduce(op.result, "min", index, "{0} if {1} == {2} or {1} != {1} else {3}", operands, axes)

    lower_argmin = lower_argmax

    def lower_cumsum(self, op: Operation) -> None:
        """A running accumulation, and a copy of where it has got to after each step."""
        self.running(op, [("*" if op.op == "cumprod" else "+", op.operands[0])])

    lower_cumprod = lower_cumsum

    def lower_linear_recurrence(self, op: Operation) -> None:
        """y = a * y + b, step by step."""
        self.running(op, [("*", op.operands[0]), ("+", op.operands[1])])

    def running(self, op: Operation, steps: list[tuple[str, GraphOperand]]) -> None:
        """Accumulations along an axis, in turn at every place, and their state after each place."""
        along, dims = op.attributes["axis"], op.result.type.dims
        axes = self.axes_for(op.result.type)

        def flip(index: tuple[Index, ...]) -> tuple[Index, ...]:
            if not op.attributes.get("reverse"):
                return index
            return tuple(affine(i, Dim.of(-1), dims[k] - 1) if k == along else i for k, i in enumerate(index))

        state = Value(f"{op.result.name}_sofar", op.result.type.with_dims(tuple(d for k, d in enumerate(dims) if k != along)))
        index = tuple(a for k, a in enumerate(axes) if k != along)
        self.define(state, start=start_of(steps[-1][0], op.result.type.dtype))
        made: tuple[Statement, ...] = ()
        for kind, x in steps:
            made += (
                self.statement(state, index, kind, "{0}", (self.read(x, flip(axes) if x.type.dims else ()),), axes, beside=made),
            )
        made[0].leads = made[1:]
        places = Value(op.result.name, op.result.type)
        self.define(places, axes)
        self.statement(places, axes, "=", "{0}", (Read(state, index),), axes, running=True)
        self.view(op.result, places, flip)

    def lower_raise_if(self, op: Operation) -> None:
        self.define(op.result, ())
        failure = Raise(op.attributes["exception"], op.attributes["text"])
        self.statement(op.result, (), "=", "{0}", (self.read(op.operands[0]),), (), raises=failure)

    # ------------------------------------------------------------------------------------------------ results
    def lower_results(self) -> None:
        """Give every array result an array of its own: where it is a view, a parameter or a result already, a copy."""
        taken = {
            home for y, home in zip(self.block.yields, self.homes, strict=True) if isinstance(y, Value) and self.root(y) is home
        }
        for k, (result, home) in enumerate(zip(self.block.yields, self.homes, strict=True)):
            if self.parent is None:
                self.location, self.forward = None, k < self.returned
            if not result.type.dims:
                read = self.read(result)
                if isinstance(read, Read) and read.index and isinstance(result, Value):     # an element: read like any other
                    read = self.read(self.copied(result))
                self.outputs.append(read)
                continue
            assert isinstance(result, Value)
            if self.root(result) is not home and (self.root(result) in taken or not self.has_own_array(result, k)):
                result = self.copied(result)
            taken.add(self.root(result))
            self.outputs.append(result)

    def has_own_array(self, result: Value, k: int) -> bool:
        """Whether a result is in an array that can be handed on."""
        root = self.root(result)
        if root in self.owned:
            return self.rotating
        if self.parent is None and k >= self.returned and root in {self.root(r) for r in self.rotated}:
            return False                                    # the array that a gradient is returned in keeps its name
        definition = self.definitions.get(result)
        return definition is not None and not definition.is_macro and result not in self.views

    def root(self, value: Value) -> Value:
        """The value whose storage this one is in."""
        while value in self.over:
            value = self.over[value]
        return value


def start_of(kind: str, dtype: DType) -> Literal:
    """What an accumulation starts from."""
    if kind in ("or", "and"):
        return Literal(kind == "and", DType.bool)
    if kind in ("max", "min"):
        if dtype is DType.bool:
            return Literal(kind == "min", dtype)
        if dtype.is_float:
            return Literal(float("-inf") if kind == "max" else float("inf"), dtype)
        unsigned, bits = dtype.value.startswith("u"), int(dtype.value.lstrip("uint"))
        low, high = (0, 2 ** bits - 1) if unsigned else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
        return Literal(low if kind == "max" else high, dtype)
    one = kind == "*"
    if dtype.is_complex:
        return Literal(complex(one), dtype)
    return Literal(float(one) if dtype.is_float else int(one), dtype)


def elementwise_code(op: Operation, row: Op) -> str:
    """The scalar expression of a row, with its attributes filled in."""
    assert row.code is not None
    if op.op == "cast":
        return cast_code(op.attributes["dtype"], op.operands[0].type.dtype)
    code, dtype = row.code, op.result.type.dtype
    if dtype.is_integer and dtype not in (DType.i64, DType.u64):
        return f"np.{dtype.value}({code})"                     # numba widens narrow integers to 64 bits
    if row.promotes and dtype is DType.f32:
        return f"np.float32({code})"
    return code


def cast_code(to: DType, source: DType) -> str:
    """A conversion between element types."""
    if to is source:
        return "{0}"
    if to is DType.bool:
        return "{0} != 0"
    if source is DType.bool and to is DType.f64:
        return "1.0 if {0} else 0.0"
    if source is DType.bool and to is DType.i64:
        return "1 if {0} else 0"
    if source is DType.u64 and to is DType.i64:
        return "np.int64({0})"                                  # numba's int() keeps it unsigned
    if source is DType.i64 and to.is_integer and to is not DType.i64:
        return f"np.{to.value}(np.int64({{0}}))"                # a Python int that does not fit would not wrap around
    return {DType.f64: "float({0})", DType.i64: "int({0})"}.get(to, f"np.{to.value}({{0}})")


def matching_groups(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[tuple[tuple[Dim, ...], tuple[Dim, ...], int]]:
    """Split a reshape into the smallest groups of consecutive axes with equal products: (old dims, new dims, first new axis)."""
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        cuts = sorted(((p, q) for p in range(i, len(old) + 1) for q in range(j, len(new) + 1) if p + q > i + j), key=sum)
        p, q = next((c for c in cuts if product(old[i:c[0]]) == product(new[j:c[1]])), (len(old), len(new)))
        groups.append((old[i:p], new[j:q], j))
        i, j = p, q
    return groups


def product(dims: tuple[Dim, ...]) -> Dim:
    """The number of elements."""
    total = ONE
    for d in dims:
        total = total * d
    return total


def regroup(old: tuple[Dim, ...], new: tuple[Dim, ...], index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The indices into the old axes of a group for indices into the new ones."""
    if old == new:
        return index
    parts: list[tuple[Index, Dim]] = []
    weight = ONE
    for i, d in reversed(list(zip(index, new, strict=True))):
        parts.append((i, weight))
        weight = weight * d
    flat = weighted_sum([(i, w) for (i, w), d in zip(parts, reversed(new), strict=True) if d != ONE])
    out: list[Index] = []
    for d in reversed(old[1:]):
        flat, rest = split_flat(flat, d)
        out.append(rest)
    return (*([flat] if old else []), *reversed(out))
