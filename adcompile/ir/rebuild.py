"""Copies of blocks with values, types and attributes replaced: what passes that keep the structure are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .core import Block, Function, Guard, Operand, Operation, Value
from .dims import Dim
from .sizes import Sizes
from .types import Type


def map_dims(attribute: Any, replace: Callable[[Dim], Dim]) -> Any:
    """An attribute value with `replace` applied to every Dim in it."""
    if isinstance(attribute, Dim):
        return replace(attribute)
    if isinstance(attribute, tuple):
        return tuple(map_dims(a, replace) for a in attribute)
    return attribute


def copy_block(block: Block, values: dict[Value, Operand], change_dim: Callable[[Dim], Dim] = lambda d: d) -> Block:
    """A copy with new values throughout. `values` maps what comes from outside, and gets the new values added."""
    def new_value(v: Value) -> Value:
        fresh = Value(v.name, Type(v.type.dtype, tuple(change_dim(d) for d in v.type.dims)))
        values[v] = fresh
        return fresh

    def operand(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    arguments = tuple(new_value(v) for v in block.arguments)
    operations = []
    for op in block.operations:
        operands = tuple(operand(x) for x in op.operands)
        regions = tuple(copy_block(r, values, change_dim) for r in op.regions)
        attributes: Mapping[str, Any] = MappingProxyType({k: map_dims(a, change_dim) for k, a in op.attributes.items()})
        results = tuple(new_value(v) for v in op.results)
        operations.append(Operation(op.op, operands, results, attributes, regions, op.location))
    return Block(arguments, tuple(operations), tuple(operand(x) for x in block.yields))


def resolve_sizes(function: Function, sizes: Sizes) -> Function:
    """`function` with every dim in terms of the size symbols that are left after capture, and the guards that remain."""
    body = copy_block(function.body, {}, sizes.resolve)
    guards: list[Guard] = []
    for guard in (*function.guards, *sizes.guards):
        resolved = Guard(sizes.resolve(guard.left), guard.relation, sizes.resolve(guard.right), guard.location)
        if (resolved.left - resolved.right).constant is None and resolved not in guards:
            guards.append(resolved)
    return Function(function.name, body, function.sizes, tuple(guards))
