"""Reverse mode: the adjoint of a function, appended to the function itself.

    value_and_grad(f, wrt):  (a, b) -> (f(a, b)..., a_bar)           the cotangent of result 0 is 1.0
    vjp(f, wrt):             (a, b, y_bar) -> (f(a, b)..., a_bar)    one cotangent parameter per real result

Operations are visited backwards; each adds its contributions to the cotangents of its active operands. A cotangent with
one contribution is that contribution; further ones are added in the order in which they come up, which is fixed. Every
adjoint operation carries the location of the operation it came from. Needs: verified IR. Leaves: IR without dead code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..errors import DifferentiationError
from ..ir.analysis import all_values, defined_symbol, live_operations, renamed
from ..ir.boxes import Box, joined
from ..ir.core import Block, Function, Literal, Location, Operand, Operation, Value, walk
from ..ir.dims import Dim
from ..ir.fold import FoldingBuilder
from .activity import active_values, carries_derivative
from .alive import Alive
from .bounds import Bounds
from .checkpoint import Checkpoint
from .control import reverse_control
from .rules import Cotangent, pull_back, wanted_operands, zeros


def value_and_grad(function: Function, wrt: tuple[int, ...], checkpoint: Checkpoint = None,
                   hints: Mapping[str, int] = MappingProxyType({}), retain: tuple[str, ...] = ()) -> Function:
    """The function with the gradient of its result 0, a real scalar, with respect to the parameters `wrt`: results are
    all of its own, then one cotangent per entry of `retain` (labels of `named` operations), then one per entry of `wrt`.
    `checkpoint`, `hints`: see checkpoint.py."""
    check_wrt(function, wrt)
    value = function.results[0]
    if not value.type.dtype.is_float or value.type.dims:
        raise DifferentiationError(
            f"the gradient of '{function.name}' needs a real scalar result, and it returns {describe(value)}",
            last_location(function), "Return a real scalar, for example np.sum(...) of the array.")
    with FoldingBuilder(function) as builder:
        sweep = Reverse(builder, function, wrt, (value,), checkpoint, hints, retain)
        sweep.seed(value, Literal(1.0, value.type.dtype))
        return sweep.run()


def vjp(function: Function, wrt: tuple[int, ...]) -> Function:
    """The function with cotangents of its real results as extra parameters (`y_bar`), and as extra results what they
    contribute to the parameters `wrt`."""
    check_wrt(function, wrt)
    results = [x for x in function.results if x.type.dtype.is_float or x.type.dtype.is_complex]
    with FoldingBuilder(function) as builder:
        sweep = Reverse(builder, function, wrt, results)
        for position, result in enumerate(results):
            name = result.name if isinstance(result, Value) else f"result_{position}"
            parameter = builder.value(f"{name}_bar", result.type)
            sweep.parameters.append(parameter)
            sweep.seed(result, parameter)
        return sweep.run()


class Reverse:
    """One reverse sweep over a function."""

    def __init__(self, builder: FoldingBuilder, function: Function, wrt: tuple[int, ...], results: Sequence[Operand],
                 checkpoint: Checkpoint = None, hints: Mapping[str, int] = MappingProxyType({}),
                 retain: tuple[str, ...] = ()) -> None:
        self.builder, self.function = builder, function
        self.wrt = tuple(function.params[i] for i in wrt)
        self.parameters = list(function.params)
        self.retained = retained_values(function, retain)
        self.retained_cotangents: dict[Value, Operand] = {}
        self.active = active_values(function.body, (*self.wrt, *self.retained), results)
        self.pending: dict[Value, Cotangent] = {}
        self.names: dict[Value, str] = {}
        self.kept = set(all_values(function))
        self.replaced: dict[Operation, list[Operation]] = {}       # forward loops, extended to save residuals
        self.guards = list(function.guards)
        self.bounds = Bounds(name for name, size in function.sizes.items() if size.axis is None)
        self.bounds.learn(function.body)
        self.alive = Alive(self.bounds, function.params)
        self.argument_types = [p.type for p in function.params]
        self.defined = {defined_symbol(o) for o in walk(function.body)}
        self.depth = 0                                             # in how many regions the sweep is
        self.capacities: dict[Value, Dim] = {}                     # how many turns loops have at most, by their index
        self.again: set[Value] = set()                             # indices of loops that run again before their adjoint
        self.segments: set[Value] = set()                          # indices of loops that are checkpointed
        self.checkpoint, self.hints = checkpoint, hints

    def seed(self, result: Operand, value: Operand) -> None:
        """Add to the cotangent of a result of the function."""
        if isinstance(result, Value) and result in self.active:
            self.add(result, Cotangent(value))

    def add(self, x: Value, contribution: Cotangent) -> None:
        """Add a contribution to the cotangent of x."""
        self.pending[x] = self.added(self.pending.get(x), contribution)

    def added(self, before: Cotangent | None, contribution: Cotangent) -> Cotangent:
        """The sum of two contributions. An entry of it is a strong zero only where both are. What was scattered into zeros is
        scattered into the other one."""
        if before is None:
            return contribution
        value = self.scattered_into(before.value, contribution.value)
        sure = tuple(joined((*before.without_zeros, *contribution.without_zeros)))
        whole = Box.whole(contribution.value.type.dims)
        return Cotangent(before.value + contribution.value if value is None else value, whole not in sure, sure)

    def scattered_into(self, base: Operand, contribution: Operand) -> Operand | None:
        """base + contribution as one scatter_add, if the operation emitted last has scattered the contribution into zeros."""
        operations = self.builder.blocks[-1][1]
        last = operations[-1] if operations else None
        if last is None or last.op != "scatter_add" or last.result is not contribution or not isinstance(base, Value):
            return None
        zeros = [o for o in operations[-2:] if o.op == "broadcast" and o.result is last.operands[0]]
        if not zeros or not isinstance(zeros[0].operands[0], Literal) or zeros[0].operands[0].value != 0:
            return None
        result: Operand = self.builder.emit("scatter_add", (base, *last.operands[1:]), last.attributes)
        return result  # the other one stays: it may be the cotangent of more than one operand

    def run(self) -> Function:
        """Visit all operations and finish the function."""
        for operation in reversed(self.function.body.operations):
            self.visit(operation)
        cotangents = tuple(self.cotangent_of(p) for p in self.wrt)
        retained = tuple(self.retained_cotangents.get(v) or zeros(v.type) for v in self.retained)
        results = (*self.function.results, *retained, *cotangents)
        primal = self.current_block(self.function.body).operations
        operations = live_operations([*primal, *self.builder.blocks[-1][1]], results)
        body = Block(tuple(self.parameters), tuple(operations), results)
        return renamed(Function(self.function.name, body, self.function.sizes, tuple(self.guards)), self.final_names(body))

    def sweep_region(self, region: Block, before: dict[Value, Cotangent], arrived: Sequence[Cotangent | None],
                     targets: Sequence[Value]) -> tuple[tuple[Operation, ...], list[Cotangent]]:
        """The adjoint operations of a region, which read its values, and the cotangents that the targets end with; zeros
        where nothing arrived. `before`: the cotangents of outer values so far; `arrived`: those of the yields."""
        outside, self.pending = self.pending, dict(before)
        self.depth += 1
        with self.builder.region() as out:
            for x, ct in zip(region.yields, arrived, strict=True):
                if ct is not None and isinstance(x, Value) and x in self.active:
                    self.add(x, ct)
            for operation in reversed(region.operations):
                self.visit(operation)
            ends = [self.pending[v] if v in self.pending else Cotangent(zeros(v.type), True) for v in targets]
        block: Block = out[0]
        self.pending = outside
        self.depth -= 1
        return block.operations, ends

    def current_block(self, block: Block) -> Block:
        """A block with its loops as they are now."""
        if not any(o in self.replaced for o in block.operations):
            return block
        return Block(block.arguments, tuple(new for o in block.operations for new in self.current(o)), block.yields)

    def current(self, operation: Operation) -> list[Operation]:
        """What stands in the place of a primal operation now."""
        return [o for new in self.replaced.get(operation, [operation])
                for o in ([new] if new is operation else self.current(new))]

    def adopt(self, copies: Mapping[Value, Operand], loop: Operation) -> None:
        """Treat a copy of primal operations, with a new loop, as primal."""
        self.active.update(new for old, new in copies.items() if old in self.active and isinstance(new, Value))
        self.kept.update(new for new in copies.values() if isinstance(new, Value))
        self.bounds.learn(Block((), (loop,), ()))

    def new_symbol(self) -> str:
        """The name of a new size symbol."""
        symbol = self.builder.fresh("turns")
        while symbol in self.function.sizes or symbol in self.defined:
            symbol = self.builder.fresh("turns")
        return symbol

    def replace(self, old: Operation, new: list[Operation]) -> None:
        """Put other operations in the place of a primal one."""
        self.replaced[old] = new

    def visit(self, operation: Operation) -> None:
        """Pull the cotangents of an operation's results back to its operands."""
        cotangents = [self.take(y) for y in operation.results]
        if operation.op == "named" and cotangents[0] is not None:
            self.retained_cotangents[operation.result] = cotangents[0].value
        if all(ct is None for ct in cotangents):
            return
        self.builder.location = operation.location
        if operation.regions:
            reverse_control(self, operation, cotangents)
            return
        wanted = wanted_operands(operation, self.active)
        own: dict[Value, Cotangent] = {}                     # so that both sides of x * x are added up first
        for x, contribution in zip(operation.operands, pull_back(operation, cotangents, wanted, self.place), strict=True):
            if contribution is not None and isinstance(x, Value):
                own[x] = self.added(own.get(x), contribution)
        for x, contribution in own.items():
            self.add(x, contribution)

    def place(self, index: Operand) -> Dim | None:
        """An index as a polynomial of values that are the same as long as a turn of the innermost loop."""
        return self.bounds.place(index, set())

    def take(self, y: Value) -> Cotangent | None:
        """The cotangent of y, complete now that all uses of y have been visited."""
        ct = self.pending.pop(y, None)
        if ct is not None:
            self.name(ct.value, y)
        return ct

    def name(self, cotangent: Operand, of: Value) -> None:
        """Remember to call this value `y_bar`, unless it is a primal value or has a name already."""
        if isinstance(cotangent, Value) and cotangent not in self.kept:
            self.names.setdefault(cotangent, f"{of.name}_bar")

    def cotangent_of(self, parameter: Value) -> Operand:
        """The complete cotangent of a parameter; zeros where the result does not depend on it."""
        ct = self.pending.get(parameter)
        if ct is None:
            self.builder.location = last_location(self.function)
            return zeros(parameter.type)
        self.name(ct.value, parameter)
        return ct.value

    def final_names(self, body: Block) -> dict[Value, str]:
        """Unique names for the cotangents that are left."""
        defined = [y for operation in walk(body) for y in operation.results]
        return {y: self.builder.fresh(self.names[y]) for y in defined if y in self.names}


def retained_values(function: Function, labels: tuple[str, ...]) -> tuple[Value, ...]:
    """The results of the `named` operations with these labels."""
    found = {o.attributes["label"]: o.result for o in function.body.operations if o.op == "named"}
    for label in labels:
        if label not in found:
            raise DifferentiationError(f"the value named {label!r} does not reach the result of '{function.name}'",
                                       last_location(function), f"Leave {label!r} out of retain=.")
    return tuple(found[label] for label in labels)


def check_wrt(function: Function, wrt: tuple[int, ...]) -> None:
    """Refuse parameters that have no gradient."""
    for index in wrt:
        parameter = function.params[index]
        if not carries_derivative(parameter):
            raise DifferentiationError(f"'{parameter.name}' is {describe(parameter)}, which has no derivative",
                                       last_location(function), f"Pass '{parameter.name}' as floating point numbers.")
        if parameter.type.dtype.is_complex:
            raise DifferentiationError(f"the gradient with respect to the complex argument '{parameter.name}' is not defined",
                                       last_location(function), "Pass its real and imaginary parts as two arguments.")


def describe(x: Operand) -> str:
    """What an operand is, in the user's words."""
    name = x.type.dtype.value.rstrip("0123456789")
    kind = {"bool": "boolean", "float": "floating point", "complex": "complex"}.get(name, "integer")
    if not x.type.dims:
        return f"a {kind} scalar" if kind != "integer" else "an integer"
    shape = ", ".join(map(str, x.type.dims)) + ("," if x.type.rank == 1 else "")
    return f"{'an' if kind == 'integer' else 'a'} {kind} array of shape ({shape})"


def last_location(function: Function) -> Location | None:
    """Where the function's last operation is, None for a function without operations."""
    located = [o.location for o in function.body.operations if o.location is not None]
    return located[-1] if located else None
