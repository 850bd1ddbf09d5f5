"""Reductions and running reductions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.core import Operand
from ..ir.dims import Dim
from ..ir.op import Op, elements
from ..ir.types import DType, Type
from .elementwise import div, eq, mul, select, strong_mul
from .op import bool_type, linear, nondifferentiable, number, number_type, rule
from .shape import broadcast, check_axes, concat, other_axes, reshape, slice_, spread, transpose


def dropped(x: Type, axes: tuple[int, ...]) -> Type:
    """x without `axes`."""
    check_axes(axes, x.rank)
    return x.with_dims(tuple(x.dims[k] for k in other_axes(x.rank, axes)))


def restored(x: Operand, dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Operand:
    """A reduced value repeated along the axes it was reduced over."""
    result: Operand = broadcast(x, dims=dims, axes=other_axes(len(dims), axes)) if axes else x
    return result


def number_reduction(x: Type, *, axes: tuple[int, ...]) -> Type:
    """Type rule of reductions of numbers."""
    return dropped(number_type(x), axes)


def fewer(operands: tuple[Operand, ...], result: Type, attributes: Any) -> Dim:
    """One operation for each entry that is not left over."""
    return elements(operands[0].type) - elements(result)


def one_each(operands: tuple[Operand, ...], result: Type, attributes: Any) -> Dim:
    """One operation an entry."""
    return elements(result)


def two_each(operands: tuple[Operand, ...], result: Type, attributes: Any) -> Dim:
    """Two operations an entry."""
    return elements(result) * 2


# ---------------------------------------------------------------------------------------------------- sum
reduce_sum: Op = linear("reduce_sum", lambda x, *, axes: np.sum(x, axis=axes, dtype=np.asarray(x).dtype), number_reduction,
                        {0: lambda ct, x, *, axes: restored(ct, x.type.dims, axes)}, flops=fewer)


# ---------------------------------------------------------------------------------------------------- max, min
def ties(x: Operand, y: Operand, axes: tuple[int, ...]) -> tuple[Operand, Operand]:
    """Where x is the extremum y, and in how many entries."""
    at = eq(x, restored(y, x.type.dims, axes))
    count = reduce_sum(select(at, number(1.0, x), number(0.0, x)), axes=axes)
    return at, count


def extremum_vjp(ct: Operand, y: Operand, x: Operand, *, axes: tuple[int, ...]) -> tuple[Operand]:
    """The cotangent, in equal parts to all entries that are the extremum."""
    at, count = ties(x, y, axes)
    return (select(at, restored(div(ct, count), x.type.dims, axes), number(0.0, ct)),)


def extremum_jvp(tangents: tuple[Operand], y: Operand, x: Operand, *, axes: tuple[int, ...]) -> Operand:
    """The mean tangent of the entries that are the extremum."""
    at, count = ties(x, y, axes)
    result: Operand = div(reduce_sum(select(at, tangents[0], number(0.0, x)), axes=axes), count)
    return result


def extremum(name: str, reference: Any) -> Any:
    """reduce_max or reduce_min."""
    return rule(name, lambda x, *, axes: reference(x, axis=axes), lambda x, *, axes: dropped(x, axes), vjp=extremum_vjp,
                jvp=extremum_jvp, why="ties share equally, so their number is needed", masking=True, flops=fewer)


reduce_max, reduce_min = extremum("reduce_max", np.max), extremum("reduce_min", np.min)


# ---------------------------------------------------------------------------------------------------- product
def ones_at_end(x: Operand, *, first: bool) -> Operand:
    """x with a 1 before its first (or after its last) entry along the last axis."""
    one = spread(number(1.0, x), (*x.type.dims[:-1], Dim.of(1)))
    result: Operand = concat(one, x, axis=x.type.rank - 1) if first else concat(x, one, axis=x.type.rank - 1)
    return result


def products_before(x: Operand) -> Operand:
    """For every entry the product of those before it along the last axis."""
    result: Operand = slice_(cumprod(ones_at_end(x, first=True), axis=x.type.rank - 1, reverse=False),
                             starts=(Dim.of(0),) * x.type.rank, steps=(1,) * x.type.rank, dims=x.type.dims)
    return result


def products_after(x: Operand) -> Operand:
    """For every entry the product of those after it along the last axis."""
    starts = (*(Dim.of(0),) * (x.type.rank - 1), Dim.of(1))
    result: Operand = slice_(cumprod(ones_at_end(x, first=False), axis=x.type.rank - 1, reverse=True),
                             starts=starts, steps=(1,) * x.type.rank, dims=x.type.dims)
    return result


def products_of_others(x: Operand, axes: tuple[int, ...]) -> Operand:
    """For every entry the product of all others along `axes`: right with any number of zeros, without division."""
    if not axes:
        return spread(number(1.0, x), x.type.dims)
    kept = other_axes(x.type.rank, axes)
    order = (*kept, *axes)
    length = Dim.of(1)
    for a in axes:
        length = length * x.type.dims[a]
    moved = transpose(x, permutation=order)
    flat = reshape(moved, dims=(*(x.type.dims[k] for k in kept), length))
    others = reshape(mul(products_before(flat), products_after(flat)), dims=moved.type.dims)
    result: Operand = transpose(others, permutation=tuple(order.index(k) for k in range(len(order))))
    return result


def product_vjp(ct: Operand, y: Operand, x: Operand, *, axes: tuple[int, ...]) -> tuple[Operand]:
    """The cotangent times the product of all other entries."""
    return (strong_mul(restored(ct, x.type.dims, axes), products_of_others(x, axes)),)


def product_jvp(tangents: tuple[Operand], y: Operand, x: Operand, *, axes: tuple[int, ...]) -> Operand:
    """The sum of every tangent times the product of all other entries."""
    result: Operand = reduce_sum(strong_mul(tangents[0], products_of_others(x, axes)), axes=axes)
    return result


reduce_prod: Op = rule("reduce_prod", lambda x, *, axes: np.prod(x, axis=axes, dtype=np.asarray(x).dtype), number_reduction,
                       vjp=product_vjp, jvp=product_jvp, flops=fewer,
                       why="the product of all other entries is not product / entry where an entry is 0")


# ---------------------------------------------------------------------------------------------------- booleans, places
def bool_reduction(x: Type, *, axes: tuple[int, ...]) -> Type:
    """Type rule of reductions of booleans."""
    return dropped(bool_type(x), axes)


def place_type(x: Type, *, axis: int) -> Type:
    """i64 without the axis."""
    return dropped(x, (axis,)).with_dtype(DType.i64)


BOOLEAN, PLACE = "booleans", "a place is an integer"
reduce_any: Op = nondifferentiable("reduce_any", lambda x, *, axes: np.any(x, axis=axes), infer=bool_reduction, why=BOOLEAN)
reduce_all: Op = nondifferentiable("reduce_all", lambda x, *, axes: np.all(x, axis=axes), infer=bool_reduction, why=BOOLEAN)
argmax: Op = nondifferentiable("argmax", lambda x, *, axis: np.argmax(x, axis), infer=place_type, why=PLACE, flops=fewer)
argmin: Op = nondifferentiable("argmin", lambda x, *, axis: np.argmin(x, axis), infer=place_type, why=PLACE, flops=fewer)


# ---------------------------------------------------------------------------------------------------- running reductions
def running_type(x: Type, *, axis: int, reverse: bool) -> Type:
    """That of the operand."""
    check_axes((axis,), x.rank)
    return number_type(x)


def flipped(x: Any, axis: int, reverse: bool) -> Any:
    """x, backwards along the axis if `reverse`."""
    return np.flip(x, axis) if reverse else x


def running(ufunc: np.ufunc) -> Any:
    """The reference of a running reduction; `reverse` runs from the end."""
    def reference(x: Any, *, axis: int, reverse: bool) -> Any:
        x = np.asarray(x)
        return flipped(ufunc.accumulate(flipped(x, axis, reverse), axis, dtype=x.dtype), axis, reverse)

    return reference


cumsum: Op = linear("cumsum", running(np.add), running_type,
                    {0: lambda ct, x, *, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse)}, flops=one_each)


def recurrence_type(a: Type, b: Type, *, axis: int, reverse: bool) -> Type:
    """That of both operands."""
    if a != b:
        raise TypeError(f"a recurrence of {a} and {b}")
    return running_type(a, axis=axis, reverse=reverse)


def recurrence_reference(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """y[i] = a[i] * y[i-1] + b[i] along the axis, with y[-1] = 0; `reverse` runs from the end."""
    a, b = (np.moveaxis(flipped(np.asarray(x), axis, reverse), axis, 0) for x in (a, b))
    y = np.zeros_like(b)
    state = np.zeros_like(b[0]) if len(b) else b
    for i in range(len(b)):
        state = (a[i] * state if i else 0) + b[i]
        y[i] = state
    return flipped(np.moveaxis(y, 0, axis), axis, reverse)


def shifted(x: Operand, axis: int, *, later: bool) -> Operand:
    """Every entry replaced by its predecessor (`later`: moved to the next place) or successor, 0 at the end."""
    dims, rank = x.type.dims, x.type.rank
    gap = spread(number(0.0, x), tuple(Dim.of(1) if k == axis else d for k, d in enumerate(dims)))
    longer = concat(gap, x, axis=axis) if later else concat(x, gap, axis=axis)
    starts = tuple(Dim.of(int(k == axis and not later)) for k in range(rank))
    result: Operand = slice_(longer, starts=starts, steps=(1,) * rank, dims=dims)
    return result


def recurrence_vjp(ct: Operand, y: Operand, a: Operand, b: Operand, *, axis: int, reverse: bool) -> tuple[Operand, Operand]:
    """The recurrence runs back: s[i] = a[i+1] * s[i+1] + ct[i] is the cotangent of b, s[i] * y[i-1] that of a."""
    s = linear_recurrence(shifted(a, axis, later=reverse), ct, axis=axis, reverse=not reverse)
    return strong_mul(s, shifted(y, axis, later=not reverse)), s


def recurrence_jvp(tangents: tuple[Operand | None, Operand | None], y: Operand, a: Operand, b: Operand, *, axis: int,
                   reverse: bool) -> Operand:
    """The same recurrence, driven by b_dot + a_dot * y[i-1]."""
    a_dot, b_dot = tangents
    drive = b_dot
    if a_dot is not None:
        part = strong_mul(a_dot, shifted(y, axis, later=not reverse))
        drive = part if drive is None else drive + part
    result: Operand = linear_recurrence(a, drive, axis=axis, reverse=reverse)
    return result


linear_recurrence: Op = rule("linear_recurrence", recurrence_reference, recurrence_type, vjp=recurrence_vjp, jvp=recurrence_jvp,
                             cost=2, flops=two_each,
                             why="linear in b, a recurrence in a: both derivatives are recurrences of the same form")


def running_product_vjp(ct: Operand, y: Operand, x: Operand, *, axis: int, reverse: bool) -> tuple[Operand]:
    """y is the recurrence y[i] = x[i] * y[i-1] from y[-1] = 1: no division, right with any number of zeros."""
    s = linear_recurrence(shifted(x, axis, later=reverse), ct, axis=axis, reverse=not reverse)
    return (strong_mul(s, preceding_product(y, axis, reverse)),)


def running_product_jvp(tangents: tuple[Operand], y: Operand, x: Operand, *, axis: int, reverse: bool) -> Operand:
    """The recurrence y_dot[i] = x[i] * y_dot[i-1] + x_dot[i] * y[i-1]."""
    drive = strong_mul(tangents[0], preceding_product(y, axis, reverse))
    result: Operand = linear_recurrence(x, drive, axis=axis, reverse=reverse)
    return result


def preceding_product(y: Operand, axis: int, reverse: bool) -> Operand:
    """y[i-1] of a running product, 1 at its start."""
    dims, rank = y.type.dims, y.type.rank
    one = spread(number(1.0, y), tuple(Dim.of(1) if k == axis else d for k, d in enumerate(dims)))
    longer = concat(y, one, axis=axis) if reverse else concat(one, y, axis=axis)
    starts = tuple(Dim.of(int(k == axis and reverse)) for k in range(rank))
    result: Operand = slice_(longer, starts=starts, steps=(1,) * rank, dims=dims)
    return result


cumprod: Op = rule("cumprod", running(np.multiply), running_type, vjp=running_product_vjp, jvp=running_product_jvp,
                   flops=one_each, why="y / x is wrong where an entry is 0; the derivative is a linear recurrence")
