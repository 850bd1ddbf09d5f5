"""Structured control: the interpreter and the transformations know these by name; the rows hold their type rules."""

from __future__ import annotations

import builtins
from typing import Any

from ..errors import ShapeError
from ..ir.core import Block
from ..ir.op import Op, register
from ..ir.types import DType, Type

Types = tuple[Type, ...]


def check(what: str, found: Types, wanted: Types) -> None:
    """Types must agree one by one."""
    if found != wanted:
        raise ShapeError(f"{what}: ({', '.join(map(str, found))}) is not ({', '.join(map(str, wanted))})")


def argument_types(region: Block) -> Types:
    return tuple(x.type for x in region.arguments)


def yield_types(region: Block) -> Types:
    return tuple(x.type for x in region.yields)


def for_type(lo: Type, hi: Type, *carried: Type, regions: tuple[Block, ...]) -> Types:
    """What is carried: the body takes the index and it, and yields it."""
    (body,) = regions
    check("the bounds of a for", (lo, hi), (Type(DType.i64),) * 2)
    check("the arguments of a for's body", argument_types(body), (Type(DType.i64), *carried))
    check("what a for's body yields", yield_types(body), carried)
    return carried


def while_type(*carried: Type, regions: tuple[Block, ...]) -> Types:
    """What is carried: condition and body take it, the body yields it."""
    condition, body = regions
    check("the arguments of a while's condition", argument_types(condition), carried)
    check("what a while's condition yields", yield_types(condition), (Type(DType.bool),))
    check("the arguments of a while's body", argument_types(body), carried)
    check("what a while's body yields", yield_types(body), carried)
    return carried


def cond_type(predicate: Type, *, regions: tuple[Block, ...]) -> Types:
    """What both branches yield; they take no arguments."""
    then, otherwise = regions
    check("the predicate of a cond", (predicate,), (Type(DType.bool),))
    check("the arguments of a cond's branches", (*argument_types(then), *argument_types(otherwise)), ())
    check("what a cond's second branch yields", yield_types(otherwise), yield_types(then))
    return yield_types(then)


def raise_if_type(failed: Type, *, exception: str, text: str) -> Type:
    """A bool, which nothing reads."""
    check("the condition of a raise_if", (failed,), (Type(DType.bool),))
    return failed


def raise_if_reference(failed: Any, *, exception: str, text: str) -> Any:
    """Raises the builtin exception where the condition is true."""
    if failed:
        raise getattr(builtins, exception)(text)
    return failed


for_: Op = register(Op("for", "control", None, for_type, why="its derivative is a loop: differentiate/ builds it"))
while_: Op = register(Op("while", "control", None, while_type, why="its derivative is a loop: differentiate/ builds it"))
cond: Op = register(Op("cond", "control", None, cond_type, why="its derivative is a cond: differentiate/ builds it"))
# The only op with an effect: it stays though nothing reads it, where it is, and raises the builtin exception of this name.
raise_if: Op = register(Op("raise_if", "nondifferentiable", raise_if_reference, raise_if_type, why="it has an effect only"))
