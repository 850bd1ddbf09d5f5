"""cse: computes nothing twice.

Needs: verified IR. Leaves: no two operations of equal op, operands and attributes of which one could stand for the other
(it is earlier in the same block or in an enclosing one); operands of commutative ops are compared in either order. Exact.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..ir.analysis import renamed
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.op import TABLE
from .rewrite import TEMPORARY

Scope = dict[Hashable, Operation]


def cse(function: Function) -> Function:
    """The function with common subexpressions computed once."""
    replaced: dict[Value, Operand] = {}
    names: dict[Value, str] = {}
    body = share(function.body, [], replaced, names)
    return renamed(Function(function.name, body, function.sizes, function.guards), names)


def share(block: Block, scopes: list[Scope], replaced: dict[Value, Operand], names: dict[Value, str]) -> Block:
    """A block without repetitions of itself or of the enclosing scopes."""
    scopes = [*scopes, {}]
    kept: list[Operation] = []
    for operation in block.operations:
        operands = tuple(current(x, replaced) for x in operation.operands)
        regions = tuple(share(r, scopes, replaced, names) for r in operation.regions)
        operation = Operation(operation.op, operands, operation.results, operation.attributes, regions, operation.location)
        earlier = None if regions else find(operation, scopes)
        if earlier is None:
            kept.append(operation)
            continue
        for old, new in zip(operation.results, earlier.results, strict=True):
            replaced[old] = new
            if TEMPORARY.match(new.name) and not TEMPORARY.match(old.name):
                names.setdefault(new, old.name)
    return Block(block.arguments, tuple(kept), tuple(current(x, replaced) for x in block.yields))


def current(x: Operand, replaced: dict[Value, Operand]) -> Operand:
    """The operand that stands for x now."""
    return replaced.get(x, x) if isinstance(x, Value) else x


def find(operation: Operation, scopes: list[Scope]) -> Operation | None:
    """An earlier operation that computes the same; if there is none, this one is remembered."""
    key = key_of(operation)
    for scope in scopes:
        if key in scope:
            return scope[key]
    scopes[-1][key] = operation
    return None


def key_of(operation: Operation) -> Hashable:
    """What two operations that compute the same have in common."""
    operands = [literal_key(x) if isinstance(x, Literal) else ("value", id(x)) for x in operation.operands]
    if TABLE[operation.op].commutative:
        operands.sort(key=repr)
    return operation.op, tuple(operands), tuple(sorted(operation.attributes.items(), key=lambda item: item[0]))


def literal_key(x: Literal) -> tuple[str, str]:
    """Tells 0.0 from -0.0 and 1 from 1.0 and True."""
    return x.dtype.name, repr(x.value)
