"""Forward mode: tangents computed next to the values.

    jvp(f, wrt):  (a, b, a_dot) -> (f(a, b)..., y_dot...)

one tangent parameter per entry of `wrt`, one tangent per real result.

Needs: verified IR. Leaves: IR without dead code. Tangent operations carry the location of their operation.
"""

from __future__ import annotations

from ..ir.analysis import live_operations, renamed
from ..ir.core import Block, Function, Operand, Operation, Value, walk
from ..ir.fold import FoldingBuilder
from .activity import active_values, carries_derivative
from .reverse import check_wrt, last_location
from .rules import push_forward, zeros


def jvp(function: Function, wrt: tuple[int, ...]) -> Function:
    """The function with tangents of the parameters `wrt` as extra parameters, and the tangents of its real results as
    extra results."""
    check_wrt(function, wrt)
    with FoldingBuilder(function) as builder:
        return Forward(builder, function, wrt).run()


class Forward:
    """One forward sweep over a function."""

    def __init__(self, builder: FoldingBuilder, function: Function, wrt: tuple[int, ...]) -> None:
        self.builder, self.function = builder, function
        seeds = [function.params[i] for i in wrt]
        self.outputs = [x for x in function.results if x.type.dtype.is_float or x.type.dtype.is_complex]
        self.active = active_values(function.body, seeds, self.outputs)
        self.tangents: dict[Value, Operand] = {}
        self.names: dict[Value, str] = {}
        self.parameters = list(function.params)
        for parameter in seeds:
            tangent = builder.value(f"{parameter.name}_dot", parameter.type)
            self.parameters.append(tangent)
            self.tangents[parameter] = tangent

    def run(self) -> Function:
        """Visit all operations and finish the function."""
        for operation in self.function.body.operations:
            self.visit(operation)
        self.builder.location = last_location(self.function)
        results = (*self.function.results, *map(self.tangent_of, self.outputs))
        body = Block(tuple(self.parameters), tuple(live_operations(self.builder.blocks[-1][1], results)), results)
        names = {y: self.builder.fresh(self.names[y]) for o in walk(body) for y in o.results if y in self.names}
        return renamed(Function(self.function.name, body, self.function.sizes, self.function.guards), names)

    def visit(self, operation: Operation) -> None:
        """Emit an operation, then the tangents of its results."""
        self.builder.location = operation.location
        if operation.regions and any(y in self.active for y in operation.results):
            self.visit_control(operation)
            return
        self.builder.append(operation)
        if not any(y in self.active for y in operation.results):
            return
        tangents = [self.tangents.get(x) if isinstance(x, Value) and x in self.active else None for x in operation.operands]
        for y, tangent in zip(operation.results, push_forward(operation, tangents), strict=True):
            if tangent is not None and carries_derivative(y):
                self.tangents[y] = tangent
                if isinstance(tangent, Value):
                    self.names.setdefault(tangent, f"{y.name}_dot")

    def visit_control(self, operation: Operation) -> None:
        """Emit an operation with regions that carries, yields and returns the tangents of its active values too."""
        skip = {"for": 1, "while": 0}.get(operation.op)
        active = [j for j, y in enumerate(operation.results)
                  if y in self.active or (skip is not None and any(r.arguments[skip + j] in self.active
                                                                   for r in operation.regions))]
        initial: list[Operand] = []
        if skip is not None:
            carried = operation.operands[len(operation.operands) - len(operation.results):]
            initial = [self.tangent_of(carried[j]) for j in active]
        regions = []
        for position, region in enumerate(operation.regions):
            is_condition = operation.op == "while" and position == 0
            regions.append(self.forward_region(region, skip, active, is_condition))
        results = []
        for j in active:
            tangent = self.builder.value(f"{operation.results[j].name}_dot", operation.results[j].type)
            self.tangents[operation.results[j]] = tangent
            results.append(tangent)
        self.builder.append(Operation(operation.op, (*operation.operands, *initial), (*operation.results, *results),
                                      operation.attributes, tuple(regions), operation.location))

    def forward_region(self, region: Block, skip: int | None, active: list[int], is_condition: bool) -> Block:
        """A region with the tangents of the carried values `active` as further arguments and yields."""
        with self.builder.region() as out:
            for argument in region.arguments:
                self.builder.blocks[-1][0].append(argument)
            for argument in () if skip is None else [region.arguments[skip + j] for j in active]:
                self.tangents[argument] = self.builder.parameter(f"{argument.name}_dot", argument.type)
            for operation in region.operations:
                self.visit(operation)
            out.extend(region.yields)
            if not is_condition:
                out.extend(self.tangent_of(region.yields[j]) for j in active)
        block: Block = out[0]
        return block

    def tangent_of(self, x: Operand) -> Operand:
        """The tangent of a result; zeros where it does not depend on the parameters."""
        tangent = self.tangents.get(x) if isinstance(x, Value) else None
        return zeros(x.type) if tangent is None else tangent
