"""What must hold of a graph, one function per invariant. `verify` names the invariant, the operation, the user's line and
the pass that broke it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from ..errors import VerifyError
from .analysis import all_values, own_symbols, symbols_in
from .core import ArrayConstant, Block, Function, Literal, Location, Operand, Operation, Value, walk
from .dims import Dim
from .op import TABLE, Op
from .printer import operation_lines
from .types import DType, Type

Problem = tuple[str, Operation | None]
ATTRIBUTE_TYPES = (bool, int, float, complex, str, type(None), Dim, DType, ArrayConstant)


def verify(function: Function, after: str = "") -> None:
    """Raise `VerifyError` unless all invariants hold. `after`: the name of the pass that made the function."""
    for invariant in INVARIANTS:
        for what, operation in invariant(function):
            raise broken(function, after, invariant.__name__, what, operation)


def broken(function: Function, after: str, invariant: str, what: str, operation: Operation | None) -> VerifyError:
    """The error for one broken invariant."""
    source = f"pass {after!r} left" if after else "this is"
    lines = [f"{source} invalid IR. This is a bug in adcompile, not in your function.", f"  {invariant}: {what}"]
    place = f"  in @{function.name}"
    if operation is not None:
        number = next(k for k, o in enumerate(walk(function.body)) if o is operation)
        place += f", operation {number}:   {next(iter(operation_lines(operation, locations=False)))}"
    where = None if operation is None else operation.location
    return VerifyError("\n".join([*lines, place]), where if isinstance(where, Location) else None)


# ---------------------------------------------------------------------------------------------------- names and order
def single_definition(function: Function) -> Iterator[Problem]:
    """Every value is defined once, and no two values of a function share a name."""
    seen: set[Value] = set()
    names: set[str] = set()
    makers = {y: o for o in walk(function.body) for y in (*o.results, *(a for r in o.regions for a in r.arguments))}
    for value in all_values(function):
        if value in seen:
            yield f"%{value.name} is defined twice", makers.get(value)
        elif value.name in names:
            yield f"two values are named %{value.name}", makers.get(value)
        seen.add(value)
        names.add(value.name)


def dominance(function: Function) -> Iterator[Problem]:
    """Every value is defined before it is used, in the same block or in one around it."""
    yield from undefined_in(function.body, set(), None)


def undefined_in(block: Block, visible: set[Value], parent: Operation | None) -> Iterator[Problem]:
    """The uses in a block that no definition reaches."""
    visible = visible | set(block.arguments)
    for operation in block.operations:
        yield from ((what, operation) for what in not_visible(operation.operands, visible))
        for region in operation.regions:
            yield from undefined_in(region, visible, operation)
        visible.update(operation.results)
    yield from ((what, parent) for what in not_visible(block.yields, visible))


def not_visible(operands: Iterable[Operand], visible: set[Value]) -> Iterator[str]:
    for x in operands:
        if isinstance(x, Value) and x not in visible:
            yield f"%{x.name} is used before it is defined"


# ---------------------------------------------------------------------------------------------------- operations
def operands(function: Function) -> Iterator[Problem]:
    """Every op is in the table and gets the number of operands and the attributes of its row."""
    for block in blocks(function.body):
        for x in block.yields:
            if not isinstance(x, (Value, Literal)):
                yield f"a block yields {x!r}, not a value or a literal", None
    for operation in walk(function.body):
        row = TABLE.get(operation.op)
        if row is None:
            yield f"no op is named {operation.op!r}", operation
        elif not all(isinstance(x, (Value, Literal)) for x in operation.operands):
            yield "an operand is neither a value nor a literal", operation
        elif not all(is_attribute(a) for a in operation.attributes.values()):
            yield "an attribute is a Python object that is no part of the IR", operation
        else:
            problem = misfit(row, operation)
            if problem:
                yield problem, operation


def is_attribute(attribute: Any) -> bool:
    """Whether an attribute has a text form: no Python objects, so that text can be a cache key."""
    if isinstance(attribute, tuple):
        return all(map(is_attribute, attribute))
    return isinstance(attribute, ATTRIBUTE_TYPES)


def misfit(row: Op, operation: Operation) -> str:
    """Why operands and attributes do not fit the row, empty if they do."""
    extra = {"regions": operation.regions} if row.kind == "control" else {}
    try:
        signature_of(row).bind(*operation.operands, **operation.attributes, **extra)
    except TypeError as error:
        return f"{operation.op!r} does not take these operands and attributes ({error})"
    count = operand_count(row)
    if count is not None and len(operation.operands) != count:
        return f"{operation.op!r} does not take these operands and attributes ({count} operands, not {len(operation.operands)})"
    return ""


@cache
def operand_count(row: Op) -> int | None:
    """How many operands an elementwise row takes whose type rule takes any number: those its generated code names."""
    variadic = any(p.kind is p.VAR_POSITIONAL for p in signature_of(row).parameters.values())
    return len(set(re.findall(r"\{(\d)\}", row.code))) if variadic and row.code is not None else None


@cache
def signature_of(row: Op) -> inspect.Signature:
    """The operands and attributes that a row takes."""
    return inspect.signature(row.infer)


def regions(function: Function) -> Iterator[Problem]:
    """Control operations have their regions, all others have none."""
    counts = {"for": 1, "while": 2, "cond": 2}
    for operation in walk(function.body):
        wanted = counts.get(operation.op, 0)
        if len(operation.regions) != wanted:
            yield f"{operation.op!r} has {len(operation.regions)} regions, not {wanted}", operation


def types(function: Function) -> Iterator[Problem]:
    """The type of every result is what the row infers, and literals are numbers of their dtype."""
    for operation in walk(function.body):
        for x in operation.operands:
            if isinstance(x, Literal) and not fits(x):
                yield f"the literal {x.value!r} is not of type {x.dtype}", operation
        extra = {"regions": operation.regions} if TABLE[operation.op].kind == "control" else {}
        try:
            inferred = TABLE[operation.op].infer(*[x.type for x in operation.operands], **extra, **operation.attributes)
        except (TypeError, ValueError) as error:
            yield str(error), operation
            continue
        wanted = inferred if isinstance(inferred, tuple) else (inferred,)
        found = tuple(y.type for y in operation.results)
        if found != wanted:
            yield f"({listed(found)}) is declared, {operation.op!r} gives ({listed(wanted)})", operation


def fits(x: Literal) -> bool:
    """Whether a literal's Python number is of the kind of its dtype."""
    kind = bool if x.dtype is DType.bool else int if x.dtype.is_integer else float if x.dtype.is_float else complex
    return type(x.value) is kind


def listed(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


# ---------------------------------------------------------------------------------------------------- sizes, places
def sizes(function: Function) -> Iterator[Problem]:
    """Every size symbol is read from an axis of a parameter or from an integer parameter, or defined by an `extent` earlier in
    the same block or in one around it; and once."""
    for symbol, size in function.sizes.items():
        if not 0 <= size.parameter < len(function.params):
            yield f"{symbol} is read from parameter {size.parameter}, which does not exist", None
            continue
        parameter = function.params[size.parameter]
        if size.axis is None and parameter.type != Type(DType.i64):
            yield f"{symbol} is the value of %{parameter.name}, which is {parameter.type}", None
        if size.axis is not None and not 0 <= size.axis < parameter.type.rank:
            yield f"{symbol} is axis {size.axis} of %{parameter.name}, which is {parameter.type}", None
    known = set(function.sizes)
    for guard in function.guards:
        if (guard.left.symbols | guard.right.symbols) - known:
            yield f"the guard {guard} has an unknown size", None
    for value in function.params:
        if symbols_in(value.type.dims) - known:
            yield f"%{value.name}: {value.type} has an unknown size", None
    yield from unknown_sizes(function.body, known)
    defined = [*function.sizes, *(o.attributes["symbol"] for o in walk(function.body) if o.op == "extent")]
    yield from ((f"the size {symbol} is defined twice", None) for symbol in set(defined) if defined.count(symbol) > 1)


def unknown_sizes(block: Block, known: set[str]) -> Iterator[Problem]:
    """The uses of size symbols in a block before an `extent` of it, or of a block around it, defines them."""
    known = set(known)
    for operation in block.operations:
        unknown = own_symbols(operation) - known
        if unknown:
            yield f"unknown sizes {', '.join(sorted(unknown))}", operation
        for region in operation.regions:
            yield from unknown_sizes(region, known)
        known |= {operation.attributes["symbol"]} if operation.op == "extent" else set()


def locations(function: Function) -> Iterator[Problem]:
    """A place in the user's code is a Location where it is known."""
    for operation in walk(function.body):
        if not (operation.location is None or isinstance(operation.location, Location)):
            yield f"{operation.location!r} is not a location", operation


def blocks(block: Block) -> Iterator[Block]:
    """A block and those inside it."""
    yield block
    for operation in block.operations:
        for region in operation.regions:
            yield from blocks(region)


INVARIANTS = (single_definition, operands, regions, dominance, sizes, types, locations)
