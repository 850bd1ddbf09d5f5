"""Reading and writing at computed places. gather and scatter_add are each other's transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.core import Operand
from ..ir.dims import Dim
from ..ir.op import Op, elements
from ..ir.types import DType, Type
from . import support
from .elementwise import eq, select
from .op import linear, nondifferentiable, number, shared_dims
from .reduction import reduce_sum
from .shape import broadcast, check_axes, iota, other_axes, reshape, size_of, slice_, spread, strided, zeros_like


def wrap_index_type(i: Type, *, dim: Dim) -> Type:
    """That of the index."""
    if i.dtype is not DType.i64:
        raise TypeError(f"an index of type {i}")
    return i


def wrap_index_reference(i: Any, *, dim: int) -> Any:
    """Indices counted from the end where negative; `IndexError` outside."""
    i = np.asarray(i)
    outside = i[(i < -dim) | (i >= dim)]
    if outside.size:
        raise IndexError(f"index {outside.flat[0]} is out of bounds for an axis of size {dim}")
    return np.where(i < 0, i + dim, i)


# {1} is the attribute `dim`; the scheduler passes it as a size.
wrap_index: Op = nondifferentiable("wrap_index", wrap_index_reference, infer=wrap_index_type, why="integers", cost=2,
                                   code="wrap_index({0}, {1})", support=(support.wrap_index,))


def gather_type(x: Type, *indices: Type, axes: tuple[int, ...]) -> Type:
    """The indices' dims, then the axes of x that are not indexed."""
    check_axes(axes, x.rank)
    if len(indices) != len(axes) or any(i.dtype is not DType.i64 for i in indices):
        raise ShapeError(f"{x} is indexed along axes {axes} by {', '.join(map(str, indices))}")
    return x.with_dims((*shared_dims(*indices), *(x.dims[k] for k in other_axes(x.rank, axes))))


def scatter_type(base: Type, *indices_and_updates: Type, axes: tuple[int, ...]) -> Type:
    """That of the base; the updates must fit the places."""
    *indices, updates = indices_and_updates
    places = gather_type(base, *indices, axes=axes)
    if updates.dtype is not base.dtype:
        raise TypeError(f"{updates} is written into {base}")
    if updates.dims and updates.dims != places.dims:
        raise ShapeError(f"{updates} is written into places of shape ({', '.join(map(str, places.dims))})")
    return base


def indexed_first(x: Any, axes: tuple[int, ...]) -> Any:
    """A view of x with `axes` moved to the front."""
    return np.transpose(x, (*axes, *other_axes(np.ndim(x), axes)))


def gather_reference(x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    """The entries of x at the indices along `axes`."""
    return indexed_first(np.asarray(x), axes)[tuple(np.asarray(i) for i in indices)]


def scatter_add_reference(base: Any, *indices_and_updates: Any, axes: tuple[int, ...]) -> Any:
    """A copy of the base with updates added; repeated places get all of theirs."""
    *indices, updates = indices_and_updates
    result = np.array(base)
    np.add.at(indexed_first(result, axes), tuple(np.asarray(i) for i in indices) or (), updates)
    return result


def scatter_set_reference(base: Any, *indices_and_updates: Any, axes: tuple[int, ...]) -> Any:
    """A copy of the base with updates written; the last one stays where places repeat."""
    *indices, updates = indices_and_updates
    result = np.array(base)
    view = indexed_first(result, axes)
    indices = [np.asarray(i) for i in indices]
    lead = np.broadcast_shapes(*(i.shape for i in indices))
    updates = np.broadcast_to(updates, (*lead, *view.shape[len(axes):]))
    for place in np.ndindex(lead):                                  # NumPy promises no order for repeated places
        view[tuple(int(i[place] if i.shape else i) for i in indices)] = updates[place]
    return result


def slice_set_type(base: Type, *indices_and_updates: Type, axes: tuple[int, ...], starts: tuple[Dim, ...], steps: tuple[int, ...],
                   dims: tuple[Dim, ...]) -> Type:
    """That of the base; one start, step and length for every axis that has no index."""
    *indices, updates = indices_and_updates
    check_axes(axes, base.rank)
    rest = base.rank - len(axes)
    if len(indices) != len(axes) or any(i != Type(DType.i64) for i in indices):
        raise ShapeError(f"axes {axes} of {base} are indexed by {', '.join(map(str, indices))}")
    if not len(starts) == len(steps) == len(dims) == rest or 0 in steps:
        raise ShapeError(f"starts {starts} and steps {steps} do not fit {base}")
    if updates.dtype is not base.dtype or updates.dims and updates.dims != dims:
        raise ShapeError(f"{updates} is written into places of shape ({', '.join(map(str, dims))}) of {base}")
    return base


def slice_set_reference(base: Any, *indices_and_updates: Any, axes: tuple[int, ...], starts: tuple[int, ...],
                        steps: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """A copy of the base with y[i, start + step * j] = updates[j], where i are the indices of `axes`."""
    *indices, updates = indices_and_updates
    result = np.array(base)
    view = indexed_first(result, axes)
    where = tuple(map(strided, starts, steps, dims, view.shape[len(axes):]))
    view[(*map(int, indices), *where)] = updates
    return result


def slice_set_read(ct: Operand, base: Operand, *indices_and_updates: Operand, axes: tuple[int, ...], starts: tuple[Dim, ...],
                   steps: tuple[int, ...], dims: tuple[Dim, ...]) -> Operand:
    """The cotangent of slice_set's updates: what arrives at their places, summed where one number goes to all of them."""
    *indices, updates = indices_and_updates
    row = gather(ct, *indices, axes=axes) if axes else ct
    result: Operand = slice_(row, starts=starts, steps=steps, dims=dims) if dims else row
    if dims and not updates.type.dims:
        single = all(d.constant == 1 for d in dims)
        result = reshape(result, dims=()) if single else reduce_sum(result, axes=tuple(range(len(dims))))
    return result


def last_written(ct: Operand, base: Operand, *indices_and_updates: Operand, axes: tuple[int, ...]) -> Operand:
    """The cotangent of scatter_set's updates: what arrives at their places, and 0 for all but the last at a place."""
    indices = indices_and_updates[:-1]
    arrived: Operand = gather(ct, *indices, axes=axes)
    lead = shared_dims(*(i.type for i in indices))
    if not lead:
        return arrived
    numbers = reshape(iota(dim=size_of(lead), dtype=DType.i64), dims=lead)
    nobody = spread(number(-1, numbers), tuple(base.type.dims[a] for a in axes))
    places = tuple(range(len(axes)))
    winners = gather(scatter_set(nobody, *indices, numbers, axes=places), *indices, axes=places)
    won = eq(winners, numbers)
    if arrived.type.rank > len(lead):
        won = broadcast(won, dims=arrived.type.dims, axes=tuple(range(len(lead))))
    result: Operand = select(won, arrived, number(0.0, ct))
    return result


gather: Op = linear("gather", gather_reference, gather_type,
                    {0: lambda ct, x, *indices, axes: scatter_add(zeros_like(x), *indices, ct, axes=axes)}, masking=True)
scatter_add: Op = linear("scatter_add", scatter_add_reference, scatter_type,
                         {0: lambda ct, *operands, axes: ct, -1: lambda ct, base, *rest, axes: gather(ct, *rest[:-1], axes=axes)},
                         joint=True, flops=lambda operands, result, attributes: elements(operands[-1].type))
scatter_set: Op = linear("scatter_set", scatter_set_reference, scatter_type,
                         {0: lambda ct, base, *rest, axes: scatter_set(ct, *rest[:-1], number(0.0, ct), axes=axes),
                          -1: last_written},
                         joint=True, masking=True)
# y = base with y[i, start + step * j] = updates[j]: `axes` of the base have an index of rank 0 each (wrapped), every other axis
# a start, a step and a length. What a store into a basic index is, except where whole rows are written (scatter_set).
slice_set: Op = linear("slice_set", slice_set_reference, slice_set_type,
                       {0: lambda ct, base, *rest, **places: slice_set(ct, *rest[:-1], number(0.0, ct), **places),
                        -1: slice_set_read},
                       joint=True, masking=True)
