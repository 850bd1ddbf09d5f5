"""Activity: which values depend on the differentiated parameters and reach the result. Only those get a cotangent or a
tangent; a constant, an integer, a boolean and whatever lies behind `stop_gradient` cost nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.core import Block, Operand, Operation, Value
from ..ir.op import TABLE


def carries_derivative(x: Operand) -> bool:
    """Whether derivatives flow through this operand at all: a real or complex value, not a literal."""
    return isinstance(x, Value) and (x.type.dtype.is_float or x.type.dtype.is_complex)


def is_smooth(operation: Operation) -> bool:
    """Whether the operation's row states a derivative other than zero."""
    return TABLE[operation.op].kind != "nondifferentiable"


def control_edges(operation: Operation) -> list[tuple[Operand, Value]]:
    """How values flow through an operation with regions: pairs (source, target), by position."""
    last = operation.regions[-1]
    if operation.op == "cond":
        return [(x, y) for region in operation.regions for x, y in zip(region.yields, operation.results, strict=True)]
    carried = operation.operands[2:] if operation.op == "for" else operation.operands
    skip = 1 if operation.op == "for" else 0
    edges = list(zip(carried, operation.results, strict=True))
    edges += zip(last.yields, operation.results, strict=True)
    for region in operation.regions:
        arguments = region.arguments[skip:]
        edges += zip(carried, arguments, strict=True)
        edges += zip(last.yields, arguments, strict=True)
    return edges


def varied(block: Block, seeds: Iterable[Value]) -> set[Value]:
    """The values that depend on `seeds` through operations with a derivative."""
    found = {v for v in seeds if carries_derivative(v)}
    spread(block, found)
    return found


def spread(block: Block, found: set[Value]) -> None:
    """Add to `found` what depends on it in `block`."""
    for operation in block.operations:
        if operation.regions:
            spread_through(operation, found)
        elif is_smooth(operation) and any(x in found for x in operation.operands):
            found.update(y for y in operation.results if carries_derivative(y))


def spread_through(operation: Operation, found: set[Value]) -> None:
    """Add what depends on `found` through an operation with regions; around a loop until nothing changes."""
    edges = control_edges(operation)
    while True:
        before = len(found)
        for region in operation.regions:
            spread(region, found)
        found.update(y for x, y in edges if x in found and carries_derivative(y))
        if len(found) == before:
            return


def useful(block: Block, results: Iterable[Operand]) -> set[Value]:
    """The values that `results` depend on through operations with a derivative."""
    found = {x for x in results if isinstance(x, Value) and carries_derivative(x)}
    gather(block, found)
    return found


def gather(block: Block, found: set[Value]) -> None:
    """Add to `found` what it depends on in `block`."""
    for operation in reversed(block.operations):
        if operation.regions:
            gather_through(operation, found)
        elif is_smooth(operation) and any(y in found for y in operation.results):
            found.update(x for x in operation.operands if isinstance(x, Value) and carries_derivative(x))


def gather_through(operation: Operation, found: set[Value]) -> None:
    """Add what `found` depends on through an operation with regions; around a loop until nothing changes."""
    edges = control_edges(operation)
    while True:
        before = len(found)
        found.update(x for x, y in edges if y in found and isinstance(x, Value) and carries_derivative(x))
        for region in operation.regions:
            gather(region, found)
        if len(found) == before:
            return


def active_values(block: Block, seeds: Iterable[Value], results: Iterable[Operand]) -> set[Value]:
    """The values that lie on a path from `seeds` to `results`."""
    return varied(block, seeds) & useful(block, results)
