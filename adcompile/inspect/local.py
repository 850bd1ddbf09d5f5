"""Local derivatives: what the op table says of one operation, as blocks of IR that can be read and run."""

from __future__ import annotations

import functools

from ..differentiate.activity import carries_derivative
from ..differentiate.rules import Cotangent, pull_back
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.fold import FoldingBuilder
from ..ir.op import TABLE, literal_like

NOTHING = Function("local", Block((), (), ()))


def standing(operation: Operation) -> Operation:
    """The operation on values of its own, one for each place: both operands of x * x are told apart."""
    operands = tuple(Value(x.name, x.type) if isinstance(x, Value) else x for x in operation.operands)
    return Operation(operation.op, operands, operation.results, operation.attributes, (), operation.location)


@functools.lru_cache(maxsize=20_000)
def partials_block(operation: Operation) -> Block | None:
    """For an elementwise operation: a block of (results, operands) that yields d result / d operand for each operand, 0 where
    there is none. None for other operations."""
    row = TABLE[operation.op]
    if row.partials is None:
        return None
    own = standing(operation)
    arguments = (*own.results, *(x for x in own.operands if isinstance(x, Value)))
    with FoldingBuilder(NOTHING) as builder:
        dtype = operation.result.type.dtype
        yields: list[Operand] = []
        for partial in row.partials(own.result, *own.operands, **own.attributes):
            number = 0.0 if partial is None else partial
            yields.append(number if isinstance(number, (Value, Literal)) else literal_like(number, dtype))
        return Block(arguments, tuple(builder.blocks[-1][1]), tuple(yields))


@functools.lru_cache(maxsize=20_000)
def pull_back_block(operation: Operation) -> tuple[Block, tuple[int, ...]]:
    """A block of (cotangents of results, results, operands) that yields contributions to cotangents of operands; and which
    operands these are."""
    own = standing(operation)
    cotangents = tuple(Value(f"{y.name}_bar", y.type) for y in own.results)
    arguments = (*cotangents, *own.results, *(x for x in own.operands if isinstance(x, Value)))
    with FoldingBuilder(NOTHING) as builder:
        wanted = [carries_derivative(x) for x in own.operands]
        found = pull_back(own, [Cotangent(ct, True) for ct in cotangents], wanted)
        operations = tuple(builder.blocks[-1][1])
    places = tuple(k for k, part in enumerate(found) if part is not None)
    return Block(arguments, operations, tuple(part.value for part in found if part is not None)), places
