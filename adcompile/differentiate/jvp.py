"""Forward mode: tangents computed next to the values.

    jvp(f, wrt):  (a, b, a_dot) -> (f(a, b)..., y_dot...)      one tangent parameter per entry of `wrt`, one tangent per real result

Needs: verified IR. Leaves: IR without dead code. Tangent operations carry the location of their operation.
"""

from __future__ import annotations

from ..errors import DifferentiationError
from ..ir.analysis import live_operations, renamed
from ..ir.core import Block, Function, Operand, Operation, Value
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
            self.builder.append(operation)
            if any(y in self.active for y in operation.results):
                self.visit(operation)
        self.builder.location = last_location(self.function)
        results = (*self.function.results, *map(self.tangent_of, self.outputs))
        body = Block(tuple(self.parameters), tuple(live_operations(self.builder.blocks[-1][1], results)), results)
        names = {y: self.builder.fresh(self.names[y]) for o in body.operations for y in o.results if y in self.names}
        return renamed(Function(self.function.name, body, self.function.sizes, self.function.guards), names)

    def visit(self, operation: Operation) -> None:
        """Compute the tangents of an operation's results."""
        self.builder.location = operation.location
        if operation.regions:
            raise DifferentiationError(f"the derivative through a traced {operation.op!r} is not supported", operation.location)
        tangents = [self.tangents.get(x) if isinstance(x, Value) and x in self.active else None for x in operation.operands]
        for y, tangent in zip(operation.results, push_forward(operation, tangents), strict=True):
            if tangent is not None and carries_derivative(y):
                self.tangents[y] = tangent
                if isinstance(tangent, Value):
                    self.names.setdefault(tangent, f"{y.name}_dot")

    def tangent_of(self, x: Operand) -> Operand:
        """The tangent of a result; zeros where it does not depend on the parameters."""
        tangent = self.tangents.get(x) if isinstance(x, Value) else None
        return zeros(x.type) if tangent is None else tangent
