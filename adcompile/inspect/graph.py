"""The computation graph of a function as captured: nodes, edges with local derivatives, and groups that can be folded.

Nodes are values: constants (white) take no gradient; leaves (green) are what is differentiated; operations (blue) lie between
a leaf and the result; inactive ones (grey) compute something that no gradient goes through. An edge carries the derivative of
its end with respect to its start: as the op table states it, and as a number where arguments were given.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..differentiate.activity import active_values, carries_derivative, is_smooth
from ..ir.core import Literal, Location, Operand, Operation, Value, walk
from ..ir.interpreter import Interpreter
from ..ir.op import TABLE
from .expression import expression, name_of, value_text, yielded
from .inactive import unused
from .local import partials_block
from .tape import Entry, Tape, TooLong
from .view import View

CONSTANT, LEAF, OPERATION, INACTIVE = "constant", "leaf", "operation", "inactive"
TEMPORARY = re.compile(r"t(_\d+)?")
FEW = 40                            # operations up to which numbers are nodes of their own and all groups are open
LINEAR = {"contract", "select"}     # whose partials are no ones and zeros


@dataclass(eq=False)
class Node:
    """A value. `name` is the user's where there is one; `text` says how it is computed."""

    key: int
    kind: str
    name: str
    text: str
    type: str
    location: Location | None = None
    group: Group | None = None
    value: str = ""
    cotangent: str = ""
    turns: tuple[str, ...] = ()             # in a loop: its values in the first turns
    cost: str = ""
    result: bool = False

    @property
    def label(self) -> str:
        """The line that is drawn."""
        if not self.text or self.text == self.name:
            return self.name
        return f"{self.name} = {self.text}" if self.name else self.text

    @property
    def unnamed(self) -> bool:
        """Whether the user gave it no name."""
        return TEMPORARY.fullmatch(self.name) is not None


@dataclass(eq=False)
class Edge:
    """From an operand to a result. `partial`: the local derivative as an expression; `number`: as a number."""

    start: Node
    end: Node
    active: bool
    partial: str = ""
    number: str = ""

    @property
    def label(self) -> str:
        """What is written on it."""
        if not self.active or not self.partial:
            return ""
        return self.partial if not self.number or self.number == self.partial else f"{self.partial} = {self.number}"


@dataclass(eq=False)
class Group:
    """Nodes that belong together: a loop, a branch, a called function, a line. `kind`: loop, branch, call or line."""

    key: int
    kind: str
    title: str
    location: Location | None
    parent: Group | None = None
    folded: bool = False


@dataclass
class Model:
    """A graph: what layouts, files and pages are made of."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_values: bool = False
    has_gradient: bool = False


def model_of(view: View, costs: Any = None) -> Model:
    """The graph of a view. `costs(operation)`: what to say of an operation's cost."""
    return Modeller(view, costs).run()


class Modeller:
    """Makes the model of one view."""

    def __init__(self, view: View, costs: Any) -> None:
        self.view, self.function, self.costs = view, view.function, costs
        gradient = view.compiled.options.gradient
        self.model = Model(view.name, has_gradient=gradient)
        self.seeds = [self.function.params[i] for i in view.wrt]
        results = [self.function.results[k] for k in view.results]
        floats = [p for p in self.function.params if carries_derivative(p)]
        self.active = active_values(self.function.body, self.seeds if gradient else floats, results)
        self.nodes: dict[Value, Node] = {}
        count = sum(1 for _ in walk(self.function.body))
        self.small = count <= FEW
        self.tape = self.make_tape()
        self.model.has_values = self.tape is not None

    def make_tape(self) -> Tape | None:
        """The run on the given arguments, if there are any."""
        if self.view.values is None:
            return None
        try:
            return Tape(self.function, self.view.values, self.view.wrt, 0 if self.view.wrt else None)
        except TooLong as error:
            self.model.notes.append(f"Shown without values: {error.what}.")
            return None

    def run(self) -> Model:
        """Everything."""
        inputs = self.view.compiled.signature.inputs
        for k, parameter in enumerate(self.function.params):
            kind = LEAF if parameter in self.seeds else CONSTANT
            self.add(parameter, kind, "", None, None).name = inputs[k].text
        self.block(self.function.body.operations, None, 0)
        for k, result in enumerate(self.function.results):
            node = self.node(result, None) if isinstance(result, Literal) else self.nodes[result]
            node.result = True
            if k == 0 and self.model.has_gradient and node.kind != OPERATION:
                self.model.notes.append("The result does not depend on what is differentiated.")
        self.model.notes += [f"{line}." for line in unused(self.view)]
        self.fold()
        return self.model

    def fold(self) -> None:
        """Fold groups of large graphs, and lines that the user need not see opened."""
        large = len(self.model.nodes) > FEW
        for group in self.model.groups:
            group.folded = large

    # ------------------------------------------------------------------------------------------------ nodes
    def add(self, value: Value | None, kind: str, text: str, location: Location | None, group: Group | None,
            type: str = "") -> Node:
        """A new node."""
        name = "" if value is None else value.name
        node = Node(len(self.model.nodes), kind, name, text, str(value.type) if value is not None else type, location, group)
        self.model.nodes.append(node)
        if value is not None:
            self.nodes[value] = node
            self.evaluate(node, value)
        return node

    def evaluate(self, node: Node, value: Value) -> None:
        """Value and cotangent in the run; of what is in a loop, those of the last turn."""
        slots = [] if self.tape is None else self.tape.slots.get(value, [])
        if not slots:
            return
        node.value = value_text(slots[-1].value)
        if len(slots) > 1:
            node.turns = tuple(value_text(s.value) for s in slots[:5])
        if value in self.active and self.view.wrt:
            node.cotangent = "0" if slots[-1].cotangent is None else value_text(slots[-1].cotangent)

    def node(self, x: Operand, group: Group | None) -> Node:
        """The node of an operand; a number gets one of its own."""
        if isinstance(x, Value):
            return self.nodes[x]
        node = self.add(None, CONSTANT, name_of(x), None, group, str(x.type))
        node.value = value_text(x.value)
        return node

    def connect(self, start: Node, end: Node, active: bool, partial: str = "", number: str = "") -> None:
        """A new edge."""
        self.model.edges.append(Edge(start, end, active, partial, number))

    def group(self, kind: str, title: str, location: Location | None, parent: Group | None) -> Group:
        """A new group."""
        found = Group(len(self.model.groups), kind, title, location, parent)
        self.model.groups.append(found)
        return found

    # ------------------------------------------------------------------------------------------------ blocks
    def block(self, operations: Sequence[Operation], group: Group | None, depth: int) -> None:
        """The operations of a block: those of a called function in a group, and those of one line."""
        def call_of(operation: Operation) -> tuple[str, int, int] | None:
            calls = operation.location.calls if operation.location else ()
            return calls[depth] if depth < len(calls) else None

        for call, run in itertools.groupby(operations, key=call_of):
            if call is not None:
                name, line, _ = call
                part = list(run)
                self.block(part, self.group("call", f"{name}(), called in line {line}", part[0].location, group), depth + 1)
            else:
                self.lines(list(run), group)

    def lines(self, operations: Iterable[Operation], group: Group | None) -> None:
        """Operations of one function: several of one line form a group."""
        for control, run in itertools.groupby(operations, key=lambda o: bool(o.regions)):
            if control:
                for operation in run:
                    self.control(operation, group)
                continue
            for location, part in itertools.groupby(run, key=lambda o: o.location):
                found = list(part)
                several = sum(1 for o in found if o.operands) > 2 and location is not None
                own = self.group("line", line_text(location), location, group) if several and location else group
                for operation in found:
                    self.operation(operation, own)

    def operation(self, operation: Operation, group: Group | None) -> None:
        """The nodes of an operation's results, and its edges."""
        kind = OPERATION if any(y in self.active for y in operation.results) else INACTIVE
        if not any(isinstance(x, Value) for x in operation.operands):
            kind = CONSTANT
        nodes = [self.add(y, kind, expression(operation), operation.location, group) for y in operation.results]
        if self.costs is not None:
            nodes[0].cost = self.costs(operation)
        for parameter in self.integers(operation):
            self.connect(self.nodes[parameter], nodes[0], False)
        labels, numbers = self.local(operation)
        for k, x in enumerate(operation.operands):
            if isinstance(x, Literal) and not (self.small and x.type.dtype.is_float and kind == OPERATION):
                continue
            active = isinstance(x, Value) and x in self.active and kind == OPERATION and is_smooth(operation)
            start = self.node(x, group)
            for node in nodes:
                self.connect(start, node, active, labels[k] if active else "", numbers[k] if active else "")

    def integers(self, operation: Operation) -> list[Value]:
        """The integer arguments that a size is made of."""
        if operation.op != "size":
            return []
        sizes = self.function.sizes
        used = [sizes[s] for s in sorted(operation.attributes["dim"].symbols) if s in sizes]
        return [self.function.params[size.parameter] for size in used if size.axis is None]

    def local(self, operation: Operation) -> tuple[list[str], list[str]]:
        """The local derivative in every operand, as an expression and as a number."""
        count = len(operation.operands)
        if not any(y in self.active for y in operation.results):
            return [""] * count, [""] * count
        block = partials_block(operation)
        if block is None:
            return linear_labels(operation), [""] * count
        labels, numbers = yielded(block), [""] * count
        entry = self.entry(operation)
        if entry is not None:
            numbers = list(map(value_text, partial_numbers(entry)))
        return labels, numbers

    def entry(self, operation: Operation) -> Entry | None:
        """Where the run computed an operation last."""
        slot = None if self.tape is None else self.tape.last(operation.results[0])
        return None if slot is None or slot.entry is None or self.tape is None else self.tape.entries[slot.entry]

    # ------------------------------------------------------------------------------------------------ control
    def control(self, operation: Operation, group: Group | None) -> None:
        """A loop or branch: a group with its arguments at the top and its results at the bottom."""
        location = operation.location
        title = line_text(location) if location else operation.op
        own = self.group("branch" if operation.op == "cond" else "loop", title, location, group)
        depth = len(location.calls) if location else 0
        if operation.op == "cond":
            self.branches(operation, own, depth)
        else:
            self.loop(operation, own, depth)

    def branches(self, operation: Operation, group: Group, depth: int) -> None:
        """A cond: its branches, and results that are the one or the other."""
        yields = []
        for word, region in zip(("if it holds", "else"), operation.regions):
            part = self.group("branch", word, operation.location, group) if region.operations else group
            self.block(region.operations, part, depth)
            yields.append(region.yields)
        for k, y in enumerate(operation.results):
            kind = OPERATION if y in self.active else INACTIVE
            text = f"{name_of(yields[0][k])} if {name_of(operation.operands[0])} else {name_of(yields[1][k])}"
            node = self.add(y, kind, text, operation.location, group)
            self.connect(self.node(operation.operands[0], group), node, False)
            for source, condition in ((yields[0][k], ""), (yields[1][k], "not ")):
                if isinstance(source, Value):
                    active = source in self.active and y in self.active
                    label = f"1 if {condition}{name_of(operation.operands[0])}" if active else ""
                    self.connect(self.nodes[source], node, active, label)

    def loop(self, operation: Operation, group: Group, depth: int) -> None:
        """A for or while: what it carries enters at the top."""
        body = operation.regions[-1]
        arguments, operands = body.arguments, list(operation.operands)
        if operation.op == "for":
            index = self.add(arguments[0], CONSTANT, f"{name_of(operands[0])} … {name_of(operands[1])} - 1", None, group)
            for bound in operands[:2]:
                if isinstance(bound, Value):
                    self.connect(self.nodes[bound], index, False)
            arguments, operands = arguments[1:], operands[2:]
        for argument, start, after in zip(arguments, operands, body.yields):
            kind = OPERATION if argument in self.active else INACTIVE
            node = self.add(argument, kind, f"{name_of(start)}, then {name_of(after)}", operation.location, group)
            if isinstance(start, Value):
                active = argument in self.active and start in self.active
                self.connect(self.nodes[start], node, active, "1 in the first turn" if active else "")
        if operation.op == "while":
            for inner, argument in zip(operation.regions[0].arguments, arguments):
                self.nodes[inner] = self.nodes[argument]
            self.block(operation.regions[0].operations, group, depth)
        self.block(body.operations, group, depth)
        for y, after in zip(operation.results, body.yields):
            kind = OPERATION if y in self.active else INACTIVE
            node = self.add(y, kind, f"{name_of(after)} of the last turn", operation.location, group)
            if isinstance(after, Value):
                active = y in self.active and after in self.active
                self.connect(self.nodes[after], node, active, "1 in the last turn" if active else "")


def line_text(location: Location) -> str:
    """A line of the user's, without the comment behind it; its place where there is no source."""
    return location.source.split("  #")[0].strip() or str(location)


def linear_labels(operation: Operation) -> list[str]:
    """The local derivatives of operations that are not elementwise, in words where they are no numbers."""
    names = [name_of(x) for x in operation.operands]
    if operation.op == "contract":
        return [names[1], names[0]]
    if operation.op == "select":
        return ["", f"1 if {names[0]}", f"1 if not {names[0]}"]
    row = TABLE[operation.op]
    if row.kind == "linear" or operation.op == "concat":
        return ["1"] * len(names)
    words = {"reduce_max": "1 at the maximum", "reduce_min": "1 at the minimum", "reduce_prod": "product of the others"}
    return [words.get(operation.op, f"∂{operation.op}")] * len(names)


def partial_numbers(entry: Entry) -> list[Any]:
    """The partials of an elementwise operation in a run, one for each operand."""
    block = partials_block(entry.operation)
    assert block is not None
    known = [s.value for s, x in zip(entry.operands, entry.operation.operands, strict=True) if isinstance(x, Value)]
    with np.errstate(all="ignore"):
        return list(Interpreter(entry.sizes).block(block, [*(y.value for y in entry.results), *known]))
