"""From the loop nest to a loop program: what is kept where, what is a local scalar, and the statements in their order."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from ..ir.analysis import all_values
from ..ir.core import Function, Literal, Location, Value
from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Buffer,
    Expr,
    Fill,
    For,
    If,
    Interface,
    Load,
    Number,
    Program,
    Section,
    SizeOf,
    Store,
    Var,
)
from ..ir.loops import Statement as LoopStatement
from ..ir.types import DType, Type
from .axes import AxisClasses
from .checks import Checks, settled
from .control import moves, plain_while, write_control
from .index import (
    ONE,
    ZERO,
    Affine,
    Axis,
    Index,
    IndexValue,
    Lookup,
    Operand,
    Quotient,
    Read,
    axes_of,
    operand_axes,
    substitute_operand,
)
from .lower import Definition, Lowering, Statement, start_of
from .names import INSTANCE, LOOP_NAMES, SIZE_NAMES, Names, is_unnamed
from .nest import Leaf, Loop, Nest, Node, leaves
from .polish import polish
from .rename import NUMBER
from .tile import tiled

FEW_LETTERS = 3             # loops of other lengths share names from here on

@dataclass(eq=False)
class Frame:
    """A statement list that is being written: the function's body, or that of an open loop."""

    axis: Axis | None
    out: list[LoopStatement] = field(default_factory=list)
    macros: dict[tuple[Value, tuple[Index, ...]], Expr] = field(default_factory=dict)


@dataclass(eq=False)
class Storage:
    """Where a value lives. `cut` loops around it are shared by everything that makes it: inside those it is complete.
    With nothing of it to store in between (`gathered` empty) it is a local scalar there."""

    definition: Definition
    path: tuple[Loop, ...]                  # the `cut` loops
    gathered: tuple[Axis, ...]              # the axes it must be stored over while it is being made
    kept: tuple[Axis, ...]                  # the axes it is stored over in all
    array: str = ""
    local: str = ""
    accumulator: str = ""
    made_in: tuple[Frame, ...] = ()         # the open frames when it was complete


class Writer:
    """Writes the program of one function."""

    def __init__(self, function: Function, interface: Interface, lanes: int) -> None:
        self.function, self.interface, self.lanes = settled(function), interface, lanes
        self.parent: Writer | None = None
        self.base = 0                                       # the frame of this block
        self.take_up(Lowering(function.body, interface.returned).run(), ())
        self.name_parameters()
        self.buffers: list[Buffer] = []
        self.loop_names: dict[Axis, str] = {}
        self.tile_names: dict[str, str] = {}
        self.frames: list[Frame] = [Frame(None)]
        self.instances: dict[Value, int] = {}

    def take_up(self, lowering: Lowering, places: Sequence[str]) -> None:
        """Start on a block. `places`: the names that its results are to be under, if it can make them there."""
        self.lowering = lowering
        AxisClasses(lowering).run()
        self.nest = Nest(lowering)
        self.nodes = self.nest.build()
        if self.lanes and self.parent is None:
            self.nest, self.nodes = tiled(self.nest, self.nodes, self.lanes)
        self.paths: dict[Statement, tuple[Loop, ...]] = {}
        self.leaf_of: dict[Statement, Leaf] = {}
        for leaf, path in leaves(self.nodes):
            self.paths[leaf.statement], self.leaf_of[leaf.statement] = path, leaf
        self.place_of = {s: k for k, s in enumerate(self.leaf_of)}
        self.before: dict[Node, list[Storage]] = defaultdict(list)
        self.behind: dict[Node, list[Storage]] = defaultdict(list)
        self.partial_before: dict[Node, list[tuple[Statement, str]]] = defaultdict(list)
        self.partial_behind: dict[Node, list[tuple[Statement, str]]] = defaultdict(list)
        self.partials: dict[Statement, str] = {}
        self.late: dict[Statement | None, list[tuple[str, Type]]] = defaultdict(list)
        self.storage: dict[Value, Storage] = {}
        self.wished: dict[Value, str] = {}
        for place, y, home in zip(places, lowering.block.yields, lowering.homes, strict=False):
            if isinstance(y, Value) and y in lowering.definitions and y not in lowering.views and home is None:
                self.wished.setdefault(lowering.root(y), place)

    def inside(self, lowering: Lowering, names: dict[Value, str], places: Sequence[str] = ()) -> Writer:
        """A writer for a region, which shares all names and the open frames with this one."""
        child = copy(self)
        child.parent, child.base = self, len(self.frames)
        child.take_up(lowering, places)
        child.scalars = names
        return child

    def open_block(self) -> Frame:
        """Write the statements of a region into a frame of its own, which stays open."""
        self.frames.append(Frame(None))
        self.name_loops(self.nodes)
        self.place_values()
        self.allocate(None)
        self.write(self.nodes)
        return self.frames[-1]

    def block_of(self, places: list[str]) -> tuple[LoopStatement, ...]:
        """A region's statements, with what it hands on brought to its places."""
        frame = self.open_block()
        frame.out += moves(self, places, self.lowering.outputs, self.lowering.rotating)
        self.frames.pop()
        return tuple(frame.out)

    def place_name(self, value: Value) -> str:
        """The name of the local scalar or the array that a value is in."""
        owner = self.owner(value)
        root = owner.lowering.root(value)
        if root in owner.scalars:
            return owner.scalars[root]
        if root in owner.storage:
            return owner.storage[root].array or owner.storage[root].local
        assert owner.parent is not None
        return owner.parent.place_name(root)

    def owner(self, value: Value) -> Writer:
        """The writer of the block that a value belongs to."""
        if value in self.scalars or value in self.storage or self.parent is None:
            return self
        return self.parent.owner(value)

    def run(self) -> Program:
        """The finished program."""
        used = {v.name for v in all_values(self.function)}
        self.letters = {name: None for name in LOOP_NAMES if name not in used and name not in self.names.taken}
        self.given: dict[str, Dim] = {}
        self.name_loops(self.nodes)
        self.place_values()
        self.frames[0].out += self.checks()
        self.write(self.nodes)
        gradients = self.lowering.outputs[self.interface.returned:]
        for (name, type), output in zip(self.gradients, gradients, strict=True):
            if not type.dims:
                self.out(Store(name, (), self.operand(output)))       # type: ignore[arg-type]
        returns = tuple(Var(self.storage[o].array) if isinstance(o, Value) else self.operand(o)
                        for o in self.lowering.outputs[:self.interface.returned])
        scalars = {name for name, type in self.parameters if not type.dims and type.dtype is DType.f64}
        done = polish(tuple(self.frames[0].out), returns, self.outer_names - scalars, scalars, [b.name for b in self.buffers])
        buffers = tuple(replace(b, name=done.names[b.name]) for b in self.buffers)
        return Program(self.interface, self.function, self.parameters, self.gradients, self.sizes, buffers,
                       tuple((self.arrays[v], c) for v, c in self.lowering.arrays.items()), tuple(map(plain_while, done.body)),
                       done.returns, tuple(self.lowering.support.values()))

    # ------------------------------------------------------------------------------------------------ names
    def name_parameters(self) -> None:
        """Names of parameters, gradient buffers, sizes and constant arrays."""
        parameters = self.function.params
        self.names = Names([self.interface.name, self.interface.kernel, *self.lowering.support])
        given = {v: self.names.fresh(v.name) for v in parameters}
        self.parameters = tuple((given[v], v.type) for v in parameters)
        self.gradients = tuple(
            (self.names.fresh(f"{parameters[k].name}_bar"), parameters[k].type) for k in self.interface.gradients
        )
        used = {w for v in all_values(self.function) for w in (v.name, NUMBER.sub("", v.name))}
        self.sizes: dict[str, str] = {}
        wishes = [s for s in SIZE_NAMES if s not in used]
        for symbol in self.size_symbols():
            size = self.function.sizes[symbol]
            if size.axis is None:
                self.sizes[symbol] = self.parameters[size.parameter][0]
            else:
                self.sizes[symbol] = self.names.first_free([*wishes, "size"])
        self.arrays = {v: self.names.fresh(v.name) for v in self.lowering.arrays}
        self.scalars = dict(given)
        self.outer_names = set(self.names.taken)

    def size_symbols(self) -> list[str]:
        """All size symbols; that of the outermost loop first, so that it gets the first name. Where the loops are serial,
        those of the first array of the highest rank."""
        first = [s for node in self.nodes if isinstance(node, Loop) for s in sorted(node.axis.length.symbols)]
        if any(isinstance(node, Leaf) and node.statement.control is not None for node in self.nodes):
            largest = max(self.function.params, key=lambda v: v.type.rank, default=None)
            first = [d.bare_symbol for d in largest.type.dims if d.bare_symbol] + first if largest is not None else first
        return list(dict.fromkeys([s for s in first if s in self.function.sizes] + list(self.function.sizes)))

    def name_loops(self, nodes: list[Node]) -> None:
        """A name for every axis, in the order in which loops open: loops of one length share it unless they are nested."""
        together: dict[Axis, set[Axis]] = defaultdict(set)
        for _, path in leaves(nodes):
            for loop in path:
                together[loop.axis] |= {other.axis for other in path}
        for axis in together:
            if axis.lanes or axis.tile is not None:
                self.loop_names[axis] = self.tile_name("i0" if axis.lanes else "b")
        for _, path in leaves(nodes):
            for loop in path:
                if loop.axis not in self.loop_names and loop.axis.length != ONE:
                    near = {self.loop_names[a] for a in together[loop.axis] if a in self.loop_names}
                    self.loop_names[loop.axis] = self.loop_name(loop.axis.length, near)

    def tile_name(self, wish: str) -> str:
        """The name of the start of a tile (i0), of how many elements it has (lanes), of the index of one (b): the same in all
        tiles, which are never nested."""
        if wish not in self.tile_names:
            self.tile_names[wish] = self.names.fresh(wish)
        return self.tile_names[wish]

    def loop_name(self, length: Dim, near: set[str]) -> str:
        """A name for a loop that is not among the names of loops around or inside it."""
        same = [name for name, other in self.given.items() if other == length and name not in near]
        others = [name for name in self.given if name not in near]
        if same or others and len(self.given) >= FEW_LETTERS:
            return (same or others)[0]
        name = self.names.first_free([*self.letters, "index"])
        self.given[name] = length
        return name

    # ------------------------------------------------------------------------------------------------ storage
    def place_values(self) -> None:
        """Decide for every value where it lives."""
        readers: dict[Value, list[tuple[Statement, Read]]] = defaultdict(list)
        for s in self.lowering.statements:
            for read in self.lowering.reads(s):
                readers[read.value].append((s, read))
        for definition in self.lowering.definitions.values():
            if definition.statements:
                self.storage[definition.value] = self.place(definition, readers[definition.value])
        self.share_arrays(readers)
        for storage in self.storage.values():
            self.name_storage(storage)
        for storage in self.storage.values():
            self.place_partials(storage)

    def place(self, definition: Definition, readers: list[tuple[Statement, Read]]) -> Storage:
        paths = [self.paths[s] for s in definition.statements]
        aligned = frozenset.intersection(*[self.nest.written_aligned(s) for s in definition.statements])
        shared = common_prefix(paths)
        cut = next((k for k, loop in enumerate(shared) if loop.axis not in aligned), len(shared))
        path = shared[:cut]
        inside = {loop.axis for loop in path}
        gathered = tuple(a for a in definition.axes if a not in inside)
        kept = set(gathered)
        for reader, read in readers:
            running = reader.running
            open_to_both = {loop.axis for loop in common_prefix([path, self.paths[reader]])}
            kept |= {
                a
                for a, i in zip(definition.axes, read.index, strict=True)
                if not running and (a is not i or a not in open_to_both)
            }
        if definition.value in self.lowering.outputs or definition.whole:
            order = definition.axes
        else:
            depth = {loop.axis: k for k, loop in reversed(list(enumerate(paths[0])))}
            order = tuple(sorted(definition.axes, key=lambda a: (a.tile is not None, depth.get(a, len(depth)))))
            order = tuple(a for a in order if a in kept)
        return Storage(definition, path, gathered, order)

    def share_arrays(self, readers: dict[Value, list[tuple[Statement, Read]]]) -> None:
        """An array whose last reader overwrites it, element by element, with a result of the function, becomes that
        result's array."""
        self.alias = dict(self.lowering.over)
        homes = [o for o in self.lowering.outputs if isinstance(o, Value) and self.parent is None]
        order = sorted(self.storage.values(), key=lambda storage: not storage.gathered)        # accumulations first
        for home in homes:                                  # grows: what shares a result's array can pass it on
            found = next((s for s in order if s.definition.value not in self.alias and self.shares(s, home, readers)), None)
            if found is not None:
                self.alias[found.definition.value] = home
                found.kept = self.storage[home].kept
                homes.append(found.definition.value)

    def shares(self, storage: Storage, home: Value, readers: dict[Value, list[tuple[Statement, Read]]]) -> bool:
        """Whether a value can live in the array of another, which is computed from it."""
        value, result = storage.definition.value, self.storage[home]
        if (
            storage.definition.whole
            or result.definition.whole
            or not storage.kept
            or value in self.lowering.outputs
            or not readers[value]
            or len(result.definition.statements) != 1
        ):
            return False
        s, _ = max(readers[value], key=lambda reader: self.place_of[reader[0]])
        axes = storage.definition.axes
        return s.target is home and s.kind == "=" and not s.running and all(r.index == axes for _, r in readers[value]) and \
            set(axes) == set(result.definition.axes) == set(s.axes) and set(storage.kept) <= set(result.kept) and \
            value.type.dtype is home.type.dtype

    def array_of(self, value: Value) -> Value:
        while value in self.alias:
            value = self.alias[value]
        return value
    def name_storage(self, storage: Storage) -> None:
        """Name the array and the local scalar of a value, and allocate the array."""
        value = storage.definition.value
        wish = self.lowering.wishes.get(value, value.name or "t")
        home = self.array_of(value)
        given = self.wished.get(home) if home in self.storage else self.place_name(home)
        if home is not value and home in self.storage and not self.storage[home].array and not self.storage[home].local:
            self.name_storage(self.storage[home])
        if storage.kept:
            shared = given or (self.storage[home].array if home is not value else "")
            storage.array = storage.array or shared or self.new_array(storage, wish)
        elif given or home is not value:
            storage.local = given or self.storage[home].local
        if not storage.gathered:
            letters = "".join(self.loop_names.get(a, "") for a in storage.kept if a.tile is None)
            storage.local = storage.local or self.names.fresh(f"{wish}_{letters}" if letters else wish)
            accumulates = storage.definition.accumulates
            if accumulates and storage.local == f"{wish}_1" and wish in {gradient for gradient, _ in self.gradients}:
                storage.local = self.names.fresh(f"{wish}_sum")
            wide = accumulates and value.type.dtype is DType.f32 and storage.definition.statements[-1].kind in "+-*"
            storage.accumulator = self.names.fresh(f"{storage.local}_sum") if wide else storage.local
        order = sorted(storage.definition.statements, key=self.place_of.__getitem__)
        if storage.definition.start is not None:
            self.before[self.child(order[0], len(storage.path))].append(storage)
        self.behind[self.child(order[-1], len(storage.path))].append(storage)

    def child(self, s: Statement, depth: int) -> Node:
        """The node at this depth that a statement is in."""
        path = self.paths[s]
        return path[depth] if len(path) > depth else self.leaf_of[s]

    def new_array(self, storage: Storage, wish: str) -> str:
        value = storage.definition.value
        outputs = [self.array_of(x) if isinstance(x, Value) else x for x in self.lowering.outputs] if self.parent is None else []
        if value in outputs:
            place = outputs.index(value)
            if place >= self.interface.returned:
                return self.gradients[place - self.interface.returned][0]
        type = Type(value.type.dtype, tuple(a.extent for a in storage.kept)) if value not in outputs else value.type
        name = self.names.fresh(self.array_name(wish))
        if any(d.symbols & set(self.lowering.extents) for d in type.dims):
            self.allocate_late(name, type)
            return name
        over = ", ".join(self.loop_names.get(a, str(a.length)) for a in storage.kept)
        self.buffers.append(
            Buffer(name, type, "result" if value in outputs else f"kept over {over}: read in another loop than it is made in")
        )
        return name

    def array_name(self, wish: str) -> str:
        """What an array is called: as its value, or where that has no name, after what it is for."""
        if not is_unnamed(wish):
            return wish
        if not wish.endswith("_bar"):
            return "kept"
        primal = next((s.array for s in self.storage.values() if s.definition.value.name == wish.removesuffix("_bar")), "")
        return f"{primal}_bar" if primal else "adjoint"

    def allocate_late(self, name: str, type: Type) -> None:
        """Allocate an array where its lengths have been computed: behind the last of them, or where the block begins."""
        extents = self.lowering.extents
        sizes = [extents[s] for d in type.dims for s in d.symbols if s in extents and extents[s] in self.lowering.definitions]
        makers = [self.lowering.definitions[v].statements[0] for v in sizes]
        last = max(makers, key=lambda s: self.place_of[s]) if makers else None
        self.late[last].append((name, type))

    def place_partials(self, storage: Storage) -> None:
        """An accumulation into an element that inner loops do not move is summed in a local scalar first."""
        if not storage.gathered:
            return
        for s in storage.definition.statements:
            path = self.paths[s]
            moving = {a for i in s.index for a in axes_of(i)}
            depth = max([k + 1 for k, loop in enumerate(path) if loop.axis in moving] + [len(storage.path)])
            if s.kind != "=" and len(path) > depth:
                self.partials[s] = self.names.fresh(f"{s.target.name}_part")
                self.partial_before[path[depth]].append((s, self.partials[s]))
                self.partial_behind[path[depth]].append((s, self.partials[s]))

    # ------------------------------------------------------------------------------------------------ statements
    def out(self, statement: LoopStatement) -> None:
        self.frames[-1].out.append(statement)

    def checks(self) -> list[LoopStatement]:
        """What the kernel assumes about its arguments."""
        checks = Checks(self.function, self.parameters)
        checks.arguments()
        checks.buffers(self.gradients, self.interface.gradients)
        empty: dict[Dim, str] = {}
        for dim, text in self.lowering.checks:
            if dim.constant is None or dim.constant == 0:
                empty.setdefault(dim, text)
        checks.sizes(empty)
        return list(checks.found)

    def write(self, nodes: list[Node]) -> None:
        """Write nodes into the innermost open frame."""
        headings = self.headings(nodes) if len(self.frames) == 1 and self.interface.gradients else [""] * len(nodes)
        for k, node in enumerate(nodes):
            if headings[k] and headings[k] != (headings[k - 1] if k else ""):
                self.out(Section(headings[k]))
            for storage in self.before[node]:
                self.start(storage)
            for s, name in self.partial_before[node]:
                self.out(Assign(name, number(start_of(plus(s.kind), accumulator_type(s.target.type.dtype)))))
            if isinstance(node, Leaf):
                self.leaf(node.statement)
            else:
                self.loop(node)
            for s, name in self.partial_behind[node]:
                self.out(Accumulate(self.element(s), s.kind, rounded(Var(name), s.target.type.dtype), s.location))
            for storage in self.behind[node]:
                self.complete(storage)

    def headings(self, nodes: list[Node]) -> list[str]:
        """Per top-level node, the section it belongs to. Scalars belong to the loop before or behind them: to that one whose
        section is theirs, and otherwise forward ones to the loop before, backward ones to the loop behind."""
        own = []
        for node in nodes:
            forward = {leaf.statement.forward for leaf, _ in leaves([node])}
            own.append("forward and backward in one pass" if len(forward) == 2 else "forward" if True in forward else "backward")
        if not any(map(is_loop, nodes)):
            return list(itertools.accumulate(own, lambda before, text: "backward" if before == "backward" else text))

        def known(before: str, text: str) -> str:
            return text or before

        loops = [text if is_loop(node) else "" for text, node in zip(own, nodes, strict=True)]
        earlier = list(itertools.accumulate(loops, known))
        later = list(itertools.accumulate(reversed(loops), known))[::-1]
        found = []
        turned = False                              # a backward scalar came since the last loop
        for node, text, before, behind in zip(nodes, own, earlier, later, strict=True):
            turned = not is_loop(node) and (turned or text == "backward")
            if is_loop(node) or not before or not behind:
                found.append(text if is_loop(node) else before or behind)
            else:
                found.append(behind if turned else before)
        return found

    def loop(self, node: Loop) -> None:
        frame = Frame(node.axis)
        self.frames.append(frame)
        if node.axis.lanes:
            rest = Apply("{0} - {1}", (self.size(node.axis.length), Var(self.loop_names[node.axis])))
            count = Apply("min({0}, {1})", (Number(node.axis.lanes, DType.i64), rest))
            self.out(Assign(self.tile_name("lanes"), count, keep=True))
        self.write(node.body)
        self.frames.pop()
        if node.axis.length == ONE:
            self.frames[-1].out += frame.out
        else:
            self.out(replace(self.loop_over(node.axis, tuple(frame.out)), why=node.why))

    def loop_over(self, axis: Axis, body: tuple[LoopStatement, ...]) -> For:
        """A loop over an axis."""
        if axis.lanes:
            return For(self.loop_names[axis], self.size(axis.length), body, Number(0, DType.i64), axis.lanes)
        stop = self.size(axis.length) if axis.tile is None else Var(self.tile_name("lanes"))
        return For(self.loop_names[axis], stop, body, lanes=axis.tile is not None and not axis.rows)

    def start(self, storage: Storage) -> None:
        """Set an accumulation to its start."""
        definition = storage.definition
        assert definition.start is not None
        start = number(definition.start)
        if not storage.gathered:
            wide = storage.accumulator != storage.local
            self.out(Assign(storage.accumulator, Number(float(definition.start.value.real), DType.f64) if wide else start))
            return
        opened = {f.axis for f in self.frames}
        closed = [a for a in storage.kept if a not in opened]
        if len(closed) == len(storage.kept):
            self.out(Fill(storage.array, start))
            return
        names = dict(self.loop_names)
        for a in closed:                                    # its name elsewhere may be that of a loop that is open here
            if a.tile is not None:
                self.loop_names[a] = self.tile_name("b")
                continue
            near = {self.loop_names[b] for b in (*opened, *storage.kept) if b is not a and b in self.loop_names}
            if a.length != ONE and (a not in self.loop_names or self.loop_names[a] in near):
                self.loop_names[a] = self.loop_name(a.length, near)
        statement: LoopStatement = Store(storage.array, self.positions(storage, storage.definition.axes), start)
        for a in reversed(closed):
            if a.length != ONE:
                statement = self.loop_over(a, (statement,))
        self.out(statement)
        self.loop_names.update(names)

    def complete(self, storage: Storage) -> None:
        """A value is complete: store a local scalar that others read from an array."""
        definition = storage.definition
        storage.made_in = tuple(self.frames)
        if storage.gathered or not definition.accumulates:
            return
        if storage.accumulator != storage.local:
            self.out(Assign(storage.local, rounded(Var(storage.accumulator), definition.value.type.dtype)))
        if storage.kept:
            self.out(Store(storage.array, self.positions(storage, definition.axes), Var(storage.local)))

    def leaf(self, s: Statement) -> None:
        """Write one statement."""
        if s.control is not None:
            write_control(self, s)
            return
        self.compute(s)
        self.allocate(s)

    def allocate(self, after: Statement | None) -> None:
        """The arrays that are to be allocated behind a statement, or at the start of the block."""
        for name, type in self.late[after]:
            self.out(Alloc(name, tuple(map(self.size, type.dims)), type.dtype))

    def compute(self, s: Statement) -> None:
        """Write one assignment or accumulation."""
        storage = self.storage[s.target]
        expr = self.apply(s.code, s.operands)
        if s.raises is not None:
            self.out(If(expr, (s.raises,)))
            return
        if s.kind in ("max", "min") and isinstance(expr, Apply):       # it is read three times
            name = self.names.fresh("t")
            self.out(Assign(name, expr, s.location))
            expr = Var(name)
        if s in self.partials:
            self.out(Accumulate(Var(self.partials[s]), plus(s.kind), expr, s.location))
        elif storage.gathered:
            target = self.element(s)
            self.out(
                Store(target.array, target.index, expr, s.location)
                if s.kind == "="
                else Accumulate(target, s.kind, expr, s.location)
            )
        elif s.kind == "=":
            self.out(assignment(storage.local, expr, s.location, is_users(s.target.name)))
            if storage.kept and not storage.definition.accumulates:
                place = self.positions(storage, storage.definition.axes)
                self.out(Store(storage.array, place, Var(storage.local), s.location))
        else:
            self.out(Accumulate(Var(storage.accumulator), s.kind, expr, s.location))

    def element(self, s: Statement) -> Load:
        """The array element a statement writes."""
        storage = self.storage[s.target]
        return Load(storage.array, self.positions(storage, s.index))

    def positions(self, storage: Storage, index: tuple[Index, ...]) -> tuple[Expr, ...]:
        where = dict(zip(storage.definition.axes, index, strict=True))
        return tuple(self.position(a, where[a]) for a in storage.kept)

    def position(self, axis: Axis, index: Index) -> Expr:
        """An index along an axis of a stored value: that of a tile has the elements of one tile."""
        return self.index(index) if axis.tile is None or not isinstance(index, Axis) else Var(self.loop_names[index])

    # ------------------------------------------------------------------------------------------------ expressions
    def apply(self, code: str, operands: tuple[Operand, ...]) -> Expr:
        expressions = tuple(self.operand(x) for x in operands)
        return expressions[0] if code in ("{0}", "") else Apply(code, expressions)

    def operand(self, x: Operand) -> Expr:
        """A scalar operand at the current place."""
        if isinstance(x, Literal):
            return number(x)
        if isinstance(x, SizeOf):
            return self.size(x.dim)
        if isinstance(x, IndexValue):
            return self.index(x.index)
        x = self.lowering.in_tile(x)
        if x.value in self.arrays:
            return Load(self.arrays[x.value], tuple(self.index(i) for i in x.index))
        definition = self.lowering.definition(x.value)
        if definition is not None and definition.is_macro:
            return self.macro(definition, x)
        owner = self.owner(x.value)
        if x.value in owner.scalars:
            name = owner.scalars[x.value]
            return Load(name, tuple(self.index(i) for i in x.index)) if x.index else Var(name)
        storage = owner.storage[x.value]
        definition = storage.definition
        opened = [f.axis for f in self.frames[owner.base + 1:]]
        here = storage.local and [loop.axis for loop in storage.path] == opened[:len(storage.path)] and \
            tuple(self.frames[:len(storage.made_in)]) == storage.made_in and x.index == definition.axes
        if storage.local and (here or not storage.kept):
            return Var(storage.local if storage.made_in else storage.accumulator)
        return Load(storage.array, self.positions(storage, x.index))

    def macro(self, definition: Definition, x: Read) -> Expr:
        """A macro's value at an index: found in an open frame, or computed in the outermost one where it can be."""
        key = (x.value, x.index)
        for frame in self.frames[self.base:]:
            if key in frame.macros:
                return frame.macros[key]
        axes = dict(zip(definition.axes, x.index, strict=True))
        operands = tuple(substitute_operand(o, axes) for o in definition.operands)
        level = self.level_of(x)
        inner, self.frames[level + 1:] = self.frames[level + 1:], []
        expr = self.apply(definition.code, operands)
        self.instances[x.value] = self.instances.get(x.value, 0) + 1
        name = self.names.fresh(f"{x.value.name or 't'}{INSTANCE}{self.instances[x.value]}")
        self.out(Assign(name, expr, definition.location, keep=is_users(x.value.name)))
        self.frames[level].macros[key] = Var(name)
        self.frames += inner
        return Var(name)

    def level_of(self, x: Read) -> int:
        """The outermost open frame in which everything that a macro reads is there."""
        moving = set(operand_axes(x))
        level = max([k for k, f in enumerate(self.frames) if f.axis in moving], default=self.base)
        level = max(level, self.base)
        for read in self.lowering.expand(x):
            level = max([level, *(k for k, f in enumerate(self.frames) if f.axis in set(operand_axes(read)))])
            storage = self.owner(read.value).storage.get(read.value)
            if storage is not None:
                made = storage.made_in
                common = next((k for k, (a, b) in enumerate(zip(made, self.frames, strict=False)) if a is not b),
                              min(len(made), len(self.frames)))
                level = max(level, common - 1)
        return level

    def size(self, dim: Dim) -> Expr:
        """A size as an expression; computed ones are local scalars."""
        computed = sorted(dim.symbols & set(self.lowering.extents))
        if not computed:
            return SizeOf(dim)
        if dim.bare_symbol:
            return self.operand(Read(self.lowering.extents[dim.bare_symbol], ()))
        names = {s: f"{{{k}}}" for k, s in enumerate(computed)}
        code = re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], self.sizes.get(m[0], m[0])), str(dim))
        return Apply(code, tuple(self.operand(Read(self.lowering.extents[s], ())) for s in computed))

    def index(self, index: Index) -> Expr:
        """An index as an expression."""
        if isinstance(index, Axis) and index.tile is not None:
            return Apply("{0} + {1}", (Var(self.loop_names[index.tile]), Var(self.loop_names[index])))
        if isinstance(index, Axis):
            return Var(self.loop_names[index]) if index.length != ONE else SizeOf(ZERO)
        if isinstance(index, Lookup):
            return self.operand(index.read)
        if isinstance(index, Affine):
            return self.affine(index)
        return Apply(
            "{0} // {1}" if isinstance(index, Quotient) else "{0} % {1}", (self.index(index.index), self.size(index.divisor))
        )

    def affine(self, index: Affine) -> Expr:
        expr: Expr | None = None
        terms = [(i, c) for i, c in index.terms if not (isinstance(i, Axis) and i.length == ONE)]
        negative = [t for t in terms if t[1].constant is not None and t[1].constant < 0]
        offset_first = not terms or bool(index.offset.terms) and len(negative) == len(terms)
        if offset_first:
            expr = self.size(index.offset)
        for i, c in terms:
            below = (i, c) in negative
            factor = -c if below else c
            term = self.index(i) if factor == ONE else Apply("{0} * {1}", (self.size(factor), self.index(i)))
            expr = (
                Apply("-{0}" if below else "{0}", (term,))
                if expr is None
                else Apply("{0} - {1}" if below else "{0} + {1}", (expr, term))
            )
            expr = expr.operands[0] if isinstance(expr, Apply) and expr.code == "{0}" else expr
        assert expr is not None
        if index.offset.terms and not offset_first:
            constant = index.offset.constant
            below = constant is not None and constant < 0
            expr = Apply("{0} - {1}" if below else "{0} + {1}", (expr, self.size(-index.offset if below else index.offset)))
        return expr


def is_loop(node: Node) -> bool:
    """Whether this is a loop of whichever kind."""
    return isinstance(node, Loop) or node.statement.control is not None


def assignment(name: str, expr: Expr, location: Location | None, keep: bool) -> LoopStatement:
    """`name = expr`, or `name += rest` where it is that."""
    if isinstance(expr, Apply) and expr.code in ("{0} + {1}", "{0} - {1}"):
        first, second = expr.operands
        if second == Var(name) and expr.code == "{0} + {1}":
            first, second = second, first
        if first == Var(name):
            return Accumulate(Var(name), expr.code[4], second, location)
    return Assign(name, expr, location, keep)


def common_prefix(paths: list[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that all paths start with."""
    first = paths[0]
    length = next((k for k, loop in enumerate(first) if any(len(p) <= k or p[k] is not loop for p in paths)), len(first))
    return first[:length]


def number(x: Literal) -> Number:
    return Number(x.value, x.dtype)


def plus(kind: str) -> str:
    """How a local scalar collects what is then subtracted: it adds."""
    return "+" if kind == "-" else kind


def accumulator_type(dtype: DType) -> DType:
    return DType.f64 if dtype is DType.f32 else dtype


def rounded(expr: Expr, dtype: DType) -> Expr:
    return Apply("np.float32({0})", (expr,)) if dtype is DType.f32 else expr


def is_users(name: str) -> bool:
    """Whether a value's name is one the user wrote: not made up, not a cotangent's."""
    return bool(name) and not is_unnamed(name) and not name.rstrip("0123456789").rstrip("_").endswith("_bar")
