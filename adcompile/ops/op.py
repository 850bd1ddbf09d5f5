"""Constructors for the kinds of rows, the shared type rules, and what derivative rules need besides the ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ShapeError
from ..ir.core import Literal, Operand
from ..ir.dims import Dim
from ..ir.op import Op, literal_like, register
from ..ir.types import DType, Type


# ---------------------------------------------------------------------------------------------------- type rules
def shared_dims(*types: Type) -> tuple[Dim, ...]:
    """The dims that all operands have; rank 0 (a literal) fits any."""
    dims: tuple[Dim, ...] = ()
    for t in types:
        if t.dims and dims and t.dims != dims:
            raise ShapeError(f"an elementwise operation on {t} and another operand of shape ({', '.join(map(str, dims))})")
        dims = t.dims or dims
    return dims


def same_type(*types: Type) -> Type:
    """Elementwise type rule: all operands have one dtype and one shape; literals (rank 0) fit any shape."""
    dims = shared_dims(*types)
    if any(t.dtype is not types[0].dtype for t in types):
        raise TypeError(f"an elementwise operation on mixed dtypes {', '.join(map(str, types))}")
    return Type(types[0].dtype, dims)


def number_type(*types: Type) -> Type:
    """As `same_type`, for numbers: booleans must be cast first."""
    result = same_type(*types)
    if result.dtype is DType.bool:
        raise TypeError("arithmetic on booleans")
    return result


def real_type(*types: Type) -> Type:
    """As `number_type`, for numbers that have an order."""
    result = number_type(*types)
    if result.dtype.is_complex:
        raise TypeError(f"an operation on real numbers applied to {result}")
    return result


def float_type(*types: Type) -> Type:
    """As `same_type`, for floating point numbers: integers must be cast first."""
    result = same_type(*types)
    if not result.dtype.is_float:
        raise TypeError(f"an operation on real floating point numbers applied to {result}")
    return result


def bool_type(*types: Type) -> Type:
    """As `same_type`, for booleans."""
    result = same_type(*types)
    if result.dtype is not DType.bool:
        raise TypeError(f"an operation on booleans applied to {result}")
    return result


def predicate_type(*types: Type) -> Type:
    """As `same_type`, the result is boolean."""
    return same_type(*types).with_dtype(DType.bool)


def power_type(x: Type, k: Type) -> Type:
    """A number and an i64 of the same shape."""
    if not (x.dtype.is_float or x.dtype.is_integer) or k.dtype is not DType.i64:
        raise TypeError(f"a number and an i64 are needed, not {x} and {k}")
    return Type(x.dtype, shared_dims(x, k))


# ---------------------------------------------------------------------------------------------------- rows
def elementwise(name: str, reference: Callable[..., Any], partials: Callable[..., tuple[Any, ...]], *, code: str,
                infer: Callable[..., Type] = float_type, **fields: Any) -> Op:
    """A smooth (almost everywhere) elementwise op, its derivative stated as one partial per operand."""
    return register(Op(name, "elementwise", reference, infer, partials=partials, code=code, **fields))


def nondifferentiable(name: str, reference: Callable[..., Any], *, why: str, infer: Callable[..., Any] = same_type,
                      **fields: Any) -> Op:
    """An op whose derivative is zero wherever it exists (or that works on integers)."""
    return register(Op(name, "nondifferentiable", reference, infer, why=why, **fields))


def linear(name: str, reference: Callable[..., Any], infer: Callable[..., Any],
           transpose: Mapping[int, Callable[..., Any]], **fields: Any) -> Op:
    """An op linear in the operands listed in `transpose` (in each alone, or `joint`ly). Negative numbers count from the end."""
    return register(Op(name, "linear", reference, infer, transpose=transpose, **fields))


def rule(name: str, reference: Callable[..., Any], infer: Callable[..., Any], *, vjp: Callable[..., tuple[Any, ...]],
         jvp: Callable[..., Any], why: str, **fields: Any) -> Op:
    """An op whose vjp and jvp are written by hand; `why` neither a partial nor a transpose says it."""
    return register(Op(name, "rule", reference, infer, vjp=vjp, jvp=jvp, why=why, **fields))


# ---------------------------------------------------------------------------------------------------- for derivative rules
def number(value: float, like: Operand) -> Literal:
    """A literal of an operand's dtype. Needed where the op that gets it has no other operand to take the dtype from."""
    return literal_like(value, like.type.dtype)


def plus(k: Operand, step: int) -> Operand:
    """k + step, folded for a literal k."""
    if isinstance(k, Literal):
        return literal_like(k.value + step, k.dtype)
    result: Operand = k + step
    return result
