"""Constructors for the four kinds of rows, and the shared type rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


from ..errors import ShapeError
from ..ir.dims import Dim
from ..ir.op import Op, register
from ..ir.types import DType, Type


def same_type(*types: Type) -> Type:
    """Elementwise type rule: all operands have one dtype and one shape; literals (rank 0) fit any shape."""
    dims: tuple[Dim, ...] = ()
    for t in types:
        if t.dims and dims and t.dims != dims:
            raise ShapeError(f"an elementwise operation on {t} and another operand of shape ({', '.join(map(str, dims))})")
        dims = t.dims or dims
    dtypes = {t.dtype for t in types}
    if len(dtypes) != 1:
        raise TypeError(f"an elementwise operation on mixed dtypes {', '.join(map(str, types))}")
    return Type(types[0].dtype, dims)


def predicate_type(*types: Type) -> Type:
    """As `same_type`, the result is boolean."""
    return same_type(*types).with_dtype(DType.bool)


def elementwise(name: str, reference: Callable[..., Any], partials: Callable[..., tuple], *, code: str,
                infer: Callable[..., Type] = same_type, **fields: Any) -> Op:
    """A smooth (almost everywhere) elementwise op, its derivative stated as one partial per operand."""
    return register(Op(name, "elementwise", reference, infer, partials=partials, code=code, **fields))


def nondifferentiable(name: str, reference: Callable[..., Any], *, why: str, infer: Callable[..., Any] = same_type,
                      **fields: Any) -> Op:
    """An op whose derivative is zero wherever it exists (or that works on integers)."""
    return register(Op(name, "nondifferentiable", reference, infer, why=why, **fields))


def linear(name: str, reference: Callable[..., Any], infer: Callable[..., Any],
           transpose: Mapping[int, Callable[..., Any]], **fields: Any) -> Op:
    """An op linear in the operands listed in `transpose` (in each alone, or `joint`ly)."""
    return register(Op(name, "linear", reference, infer, transpose=transpose, **fields))


def rule(name: str, reference: Callable[..., Any], infer: Callable[..., Any], *, vjp: Callable[..., tuple],
         jvp: Callable[..., Any], why: str, **fields: Any) -> Op:
    """An op whose vjp and jvp are written by hand; `why` neither a partial nor a transpose says it."""
    return register(Op(name, "rule", reference, infer, vjp=vjp, jvp=jvp, why=why, **fields))


