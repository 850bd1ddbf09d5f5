"""Where elements are: reshape, transpose, join, split, repeat, pad, triangles, diagonals, differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.core import Operand
from ..ir.dims import Dim
from ..ir.op import literal_like
from . import elementwise as ew
from .core import (
    Dims,
    as_dim,
    as_float,
    as_int,
    as_value,
    broadcast_dims,
    broadcast_to,
    cast,
    common_dtype,
    compare,
    dims_of,
    emit,
    equal,
    filled,
    is_concrete,
    is_integer,
    normalise_axes,
    normalise_axis,
    permuted,
    rank_of,
    refuse,
    reshape_to,
    section,
    shape_error,
    shape_text,
    size_of,
    sizes,
    unsupported,
    wanted_dtype,
)
from .creation import column_minus_row, shape_of
from .indexing import check_shape, diagonal_of, entry, getitem
from .reduction import sum_
from .registry import implements

ONE = Dim.of(1)


# ---------------------------------------------------------------------------------------------------- reshape
@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: Any = None) -> Operand:
    """np.reshape; one length may be -1."""
    x = as_value(a)
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    dims = completed([as_dim(d) for d in given], size_of(dims_of(x)))
    if not equal(size_of(dims), size_of(dims_of(x))):
        raise shape_error(f"cannot reshape array of size {sizes().actual(size_of(dims_of(x)))} into shape {shape_text(dims)}")
    if order in ("C", "A"):
        return reshape_to(x, dims)
    if order != "F":
        raise unsupported(f"np.reshape with order={order!r} is not supported", "use order='C' or order='F'")
    return transpose(reshape_to(transpose(x), dims[::-1]))


def completed(dims: list[Dim], total: Dim) -> Dims:
    """The shape with the length that -1 stands for."""
    unknown = [k for k, d in enumerate(dims) if d.constant is not None and d.constant < 0]
    if len(unknown) > 1:
        raise shape_error("can only specify one unknown dimension")
    if unknown:
        known = size_of(d for k, d in enumerate(dims) if k not in unknown)
        if sizes().actual(known) == 0 or sizes().actual(total) % sizes().actual(known):
            raise shape_error(f"cannot reshape array of size {sizes().actual(total)} into shape {shape_text(dims)}")
        dims[unknown[0]] = total // known
    return tuple(dims)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Operand:
    """np.ravel."""
    x = as_value(a)
    return reshape(x, (size_of(dims_of(x)),), "C" if order == "K" else order)


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Operand:
    """np.transpose."""
    x = as_value(a)
    rank = rank_of(x)
    if axes is None:
        return permuted(x, range(rank)[::-1])
    order = [normalise_axis(k, rank) for k in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    if sorted(order) != list(range(rank)):
        raise shape_error("axes don't match array")
    return permuted(x, order)


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Operand:
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Operand:
    """np.swapaxes."""
    x = as_value(a)
    order = list(range(rank_of(x)))
    i, j = normalise_axis(axis1, len(order)), normalise_axis(axis2, len(order))
    order[i], order[j] = j, i
    return permuted(x, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Operand:
    """np.moveaxis."""
    x = as_value(a)
    rank = rank_of(x)
    moved = [normalise_axis(k, rank) for k in (source if isinstance(source, (tuple, list)) else (source,))]
    places = [normalise_axis(k, rank) for k in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    if len(moved) != len(places):
        raise shape_error("`source` and `destination` arguments must have the same number of elements")
    order = [k for k in range(rank) if k not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return permuted(x, order)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: Any = 0) -> Operand:
    """np.rollaxis."""
    x = as_value(a)
    source, target = normalise_axis(axis, rank_of(x)), as_int(start)
    target = target + rank_of(x) if target < 0 else target
    return moveaxis(x, source, target - 1 if source < target else target)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Operand:
    """np.expand_dims."""
    x = as_value(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normalise_axes(axis, rank_of(x) + count)
    rest = list(dims_of(x))
    for k in axes:
        rest.insert(k, ONE)
    return reshape_to(x, rest)


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Operand:
    """np.squeeze."""
    x = as_value(a)
    dims = dims_of(x)
    if axis is None:
        return reshape_to(x, [d for d in dims if not equal(d, 1)])
    axes = normalise_axes(axis, len(dims))
    if not all(equal(dims[k], 1) for k in axes):
        raise shape_error("cannot select an axis to squeeze out which has size not equal to one")
    return reshape_to(x, [d for k, d in enumerate(dims) if k not in axes])


def at_least(rank: int, place: Callable[[Dims], Dims]) -> Callable[..., Any]:
    """np.atleast_1d, _2d or _3d."""
    def apply(*arys: Any) -> Any:
        results = [reshape_to(x, place(dims_of(x))) if rank_of(x) < rank else x for x in map(as_value, arys)]
        return results[0] if len(results) == 1 else tuple(results)
    return apply


atleast_1d = implements(np.atleast_1d)(at_least(1, lambda dims: (ONE,)))
atleast_2d = implements(np.atleast_2d)(at_least(2, lambda dims: (ONE,) * (2 - len(dims)) + dims))
atleast_3d = implements(np.atleast_3d)(at_least(3,
                                                lambda dims: {0: (ONE,) * 3, 1: (ONE, *dims, ONE), 2: (*dims, ONE)}[len(dims)]))


@implements(np.broadcast_to)
def broadcast_array_to(array: Any, shape: Any, subok: bool = False) -> Operand:
    """np.broadcast_to."""
    return broadcast_to(as_value(array), shape_of(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Operand, ...]:
    """np.broadcast_arrays."""
    values = [as_value(x) for x in args]
    dims = broadcast_dims(*(dims_of(x) for x in values))
    return tuple(filled(x, dims) for x in values)


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Operand:
    """np.astype."""
    return as_value(x, wanted_dtype(dtype))


@implements(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    """np.shape."""
    return dims_of(a)


@implements(np.ndim)
def ndim(a: Any) -> int:
    """np.ndim."""
    return rank_of(a)


@implements(np.size)
def size(a: Any, axis: Any = None) -> Any:
    """np.size."""
    dims = dims_of(a)
    return size_of(dims) if axis is None else dims[normalise_axis(axis, len(dims))]


# ---------------------------------------------------------------------------------------------------- join
def parts_of(arrays: Any) -> list[Operand]:
    """The operands to join, each with the dtype of all of them."""
    if not isinstance(arrays, (list, tuple)):
        x = as_value(arrays)
        count = sizes().pin(dims_of(x)[0])
        return [entry(x, 0, k) for k in range(count)]
    if not arrays:
        raise shape_error("need at least one array to concatenate")
    values = list(map(as_value, arrays))
    dtype = common_dtype(*values)
    return [cast(x, dtype) for x in values]


@implements(np.concatenate)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Operand:
    """np.concatenate."""
    refuse("np.concatenate", out=(out, None))
    parts = [cast(p, wanted_dtype(dtype) or p.type.dtype) for p in parts_of(arrays)]
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    rank = rank_of(parts[0])
    if not rank:
        raise shape_error("zero-dimensional arrays cannot be concatenated", "use np.stack")
    place = normalise_axis(axis, rank)
    for k, p in enumerate(parts[1:], 1):
        if rank_of(p) != rank:
            raise shape_error("all the input array dimensions except for the concatenation axis must match exactly, but along "
                              f"dimension 0 there are {rank} and {rank_of(p)} axes in the arrays at index 0 and {k}")
        for j, (a, b) in enumerate(zip(dims_of(parts[0]), dims_of(p), strict=True)):
            if j != place and not equal(a, b):
                raise shape_error("all the input array dimensions except for the concatenation axis must match exactly, but "
                                  f"along dimension {j}, the array at index 0 has size {sizes().actual(a)} and the array at "
                                  f"index {k} has size {sizes().actual(b)}")
    first = dims_of(parts[0])
    parts = [reshape_to(p, [d if j == place else first[j] for j, d in enumerate(dims_of(p))]) for p in parts]
    return emit_concat(parts, place)


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Operand:
    """np.stack."""
    refuse("np.stack", out=(out, None))
    parts = parts_of(arrays)
    for p in parts[1:]:
        check_shape(dims_of(parts[0]), dims_of(p), "all input arrays must have the same shape")
    return concatenate([expand_dims(p, axis) for p in parts], axis, dtype=dtype)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Operand:
    """np.vstack."""
    return concatenate([atleast_2d(p) for p in parts_of(tup)], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Operand:
    """np.hstack."""
    parts = [atleast_1d(p) for p in parts_of(tup)]
    return concatenate(parts, 0 if rank_of(parts[0]) == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Operand:
    """np.dstack."""
    return concatenate([atleast_3d(p) for p in parts_of(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Operand:
    """np.column_stack."""
    parts = [atleast_1d(p) for p in parts_of(tup)]
    return concatenate([expand_dims(p, 1) if rank_of(p) == 1 else p for p in parts], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Operand:
    """np.append."""
    if axis is None:
        return concatenate([ravel(as_value(arr)), ravel(as_value(values))], 0)
    return concatenate([arr, values], axis)


@implements(np.block)
def block(arrays: Any) -> Operand:
    """np.block of nested lists."""
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0]

    def join(x: Any, level: int) -> Operand:
        if not isinstance(x, list):
            value = as_value(x)
            return reshape_to(value, (*[ONE] * max(depth - rank_of(value), 0), *dims_of(value)))
        return concatenate([join(a, level + 1) for a in x], level - depth)
    return join(arrays, 0)


# ---------------------------------------------------------------------------------------------------- split
@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Operand]:
    """np.split."""
    if is_integer(indices_or_sections):
        x = as_value(ary)
        length, count = dims_of(x)[normalise_axis(axis, rank_of(x))], as_int(indices_or_sections)
        if not equal(length // count * count, length):
            raise shape_error("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Operand]:
    """np.array_split."""
    x = as_value(ary)
    place = normalise_axis(axis, rank_of(x))
    length = dims_of(x)[place]
    if is_integer(indices_or_sections):
        count = as_int(indices_or_sections)
        if count <= 0:
            raise shape_error("number sections must be larger than 0.")
        each = length // count
        longer = sizes().actual(length) % count
        equal(length - each * count, longer)
        cuts: list[Any] = [each * k + min(k, longer) for k in range(1, count)]
    else:
        cuts = [as_dim(c) for c in indices_or_sections]
    full: list[Any] = [slice(None)] * place
    bounds = zip([None, *cuts], [*cuts, None], strict=True)
    return [getitem(x, (*full, slice(a, b))) for a, b in bounds]


def splitter(axis: Callable[[int], int]) -> Callable[..., list[Operand]]:
    """np.hsplit, np.vsplit or np.dsplit."""
    return lambda ary, indices_or_sections: split(ary, indices_or_sections, axis(rank_of(ary)))


implements(np.hsplit)(splitter(lambda rank: 1 if rank > 1 else 0))
implements(np.vsplit)(splitter(lambda rank: 0))
implements(np.dsplit)(splitter(lambda rank: 2))


@implements(np.unstack)
def unstack(x: Any, /, *, axis: Any = 0) -> tuple[Operand, ...]:
    """np.unstack."""
    value = as_value(x)
    place = normalise_axis(axis, rank_of(value))
    return tuple(entry(value, place, k) for k in range(as_int(dims_of(value)[place])))


# ---------------------------------------------------------------------------------------------------- repeat, flip, roll
@implements(np.tile)
def tile(A: Any, reps: Any) -> Operand:
    """np.tile."""
    x = as_value(A)
    counts = [as_dim(r) for r in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    rank = max(len(counts), rank_of(x))
    counts = [ONE] * (rank - len(counts)) + counts
    dims = (*[ONE] * (rank - rank_of(x)), *dims_of(x))
    kept = [k for k, c in enumerate(counts) if c.constant == 1]
    spread: list[Dim] = []
    axes: list[int] = []
    for k, (d, c) in enumerate(zip(dims, counts, strict=True)):
        spread += [] if k in kept else [c]
        axes.append(len(spread))
        spread.append(d)
    x = reshape_to(x, dims)
    if len(spread) > rank:
        x = emit("broadcast", x, dims=tuple(map(sizes().resolve, spread)),
                 axes=tuple(axes)) if rank_of(x) else filled(x, tuple(spread))
    return reshape_to(x, [d * c for d, c in zip(dims, counts, strict=True)])


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Operand:
    """np.repeat; per-entry counts must be known."""
    x = ravel(as_value(a)) if axis is None else as_value(a)
    place = normalise_axis(0 if axis is None else axis, rank_of(x))
    dims = dims_of(x)
    if not is_integer(repeats) and not (is_concrete(repeats) and np.size(repeats) == 1):
        if not is_concrete(repeats):
            raise unsupported("np.repeat with traced counts: the length of the result is not known")
        known = np.repeat(np.arange(as_int(dims[place])), np.asarray(repeats))
        repeated: Operand = getitem(x, (*[slice(None)] * place, known))
        return repeated
    count = as_dim(repeats if is_integer(repeats) else np.asarray(repeats).item())
    spread = (*dims[:place + 1], count, *dims[place + 1:])
    axes = tuple(k for k in range(len(spread)) if k != place + 1)
    x = emit("broadcast", x, dims=spread, axes=axes)
    return reshape_to(x, (*dims[:place], dims[place] * count, *dims[place + 1:]))


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Operand:
    """np.flip."""
    x = as_value(m)
    axes = normalise_axes(axis, rank_of(x))
    return getitem(x, tuple(slice(None, None, -1 if k in axes else 1) for k in range(rank_of(x)))) if axes else x


implements(np.flipud)(lambda m: flip(m, 0))
implements(np.fliplr)(lambda m: flip(m, 1))


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Operand:
    """np.roll."""
    x = as_value(a)
    if axis is None:
        return reshape_to(roll(ravel(x), shift, 0), dims_of(x))
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    many = max(len(shifts), len(axes))
    for s, k in zip(tuple(shifts) * (many if len(shifts) == 1 else 1), tuple(axes) * (many if len(axes) == 1 else 1),
                    strict=True):
        x = rolled(x, as_dim(s), normalise_axis(k, rank_of(x)))
    return x


def rolled(x: Operand, shift: Dim, axis: int) -> Operand:
    """x rolled along one axis."""
    length = dims_of(x)[axis]
    if not compare(length, ">", 0):
        return x
    turns = sizes().actual(shift) // sizes().actual(length)
    start = shift - length * turns
    if not (compare(start, ">=", 0) and compare(start, "<", length)) or start.constant == 0:
        return x
    return emit_concat([section(x, axis, length - start, start), section(x, axis, 0, length - start)], axis)


def emit_concat(parts: Sequence[Operand], axis: int) -> Operand:
    """The concat op."""
    result: Operand = parts[0] if len(parts) == 1 else emit("concat", *parts, axis=axis)
    return result


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Operand:
    """np.rot90."""
    x = as_value(m)
    i, j = (normalise_axis(a, rank_of(x)) for a in axes)
    turns = as_int(k) % 4
    if turns == 2:
        return flip(x, (i, j))
    if turns == 1:
        return swapaxes(flip(x, j), i, j)
    return flip(swapaxes(x, i, j), j) if turns == 3 else x


# ---------------------------------------------------------------------------------------------------- pad
@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", **keywords: Any) -> Operand:
    """np.pad: constant, edge, reflect, symmetric and wrap."""
    x = as_value(array)
    values = keywords.pop("constant_values", 0)
    if keywords or mode not in ("constant", *EDGES):
        raise unsupported(f"np.pad with mode={mode!r} {' '.join(keywords)} is not supported",
                          f"use one of constant, {', '.join(EDGES)}")
    for axis, (before, after) in enumerate(pairs(pad_width, rank_of(x))):
        for width, end in ((as_dim(before), False), (as_dim(after), True)):
            if width.constant == 0:
                continue
            if not compare(width, ">=", 0):
                raise shape_error("index can't contain negative values")
            if mode == "constant":
                value = pairs(values, rank_of(x))[axis][int(end)]
                dims = dims_of(x)
                border = filled(as_value(value, x.type.dtype), (*dims[:axis], width, *dims[axis + 1:]))
            elif end and mode == "wrap":
                border = wrap_border(x, axis, width, as_dim(before))
            else:
                border = EDGES[mode](x, axis, width, end, as_dim(before))
            x = emit_concat([x, border] if end else [border, x], axis)
    return x


def pairs(given: Any, rank: int) -> list[tuple[Any, Any]]:
    """(before, after) for every axis, from the forms np.pad takes."""
    if isinstance(given, dict):
        widths = {normalise_axis(k, rank): v for k, v in given.items()}
        return [pair(widths.get(k, 0)) for k in range(rank)]
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, (tuple, list)):
        return [(given, given)] * rank
    if all(isinstance(g, (tuple, list)) for g in given):
        return [pair(g) for g in given] if len(given) == rank else [pair(given[0])] * rank
    return [pair(given)] * rank


def pair(given: Any) -> tuple[Any, Any]:
    """Two numbers from one or two."""
    if isinstance(given, (tuple, list)):
        return (given[0], given[-1])
    return (given, given)


def edge_border(x: Operand, axis: int, width: Dim, end: bool, before: Dim) -> Operand:
    """The outermost entry, repeated."""
    dims = dims_of(x)
    last = entry(x, axis, -1 if end else 0)
    spread = (*dims[:axis], width, *dims[axis + 1:])
    result: Operand = emit("broadcast", last, dims=spread, axes=tuple(k for k in range(len(dims)) if k != axis))
    return result


def mirrored(gap: int) -> Callable[..., Operand]:
    """Entries next to the border backwards, with the outermost (gap 0) or without it (gap 1)."""
    def border(x: Operand, axis: int, width: Dim, end: bool, before: Dim) -> Operand:
        length = dims_of(x)[axis]
        inner = length - before if end else length
        if not compare(width + gap, "<=", inner):
            raise unsupported("np.pad that mirrors more than the array's length is not supported")
        start = length - 1 - gap if end else width - 1 + gap
        return section(x, axis, start, width, -1)
    return border


def wrap_start(x: Operand, axis: int, width: Dim, end: bool, before: Dim) -> Operand:
    """The last entries, in front."""
    length = dims_of(x)[axis]
    if not compare(width, "<=", length):
        raise unsupported("np.pad that wraps more than the array's length is not supported")
    return section(x, axis, length - width, width)


def wrap_border(x: Operand, axis: int, width: Dim, before: Dim) -> Operand:
    """The first entries (after those already put in front), at the end."""
    if not compare(width, "<=", dims_of(x)[axis] - before):
        raise unsupported("np.pad that wraps more than the array's length is not supported")
    return section(x, axis, before, width)


EDGES: dict[str, Callable[..., Operand]] = {"edge": edge_border, "reflect": mirrored(1), "symmetric": mirrored(0),
                                            "wrap": wrap_start}


# ---------------------------------------------------------------------------------------------------- triangles, diagonals
def triangle(relation: Callable[..., Operand], offset: int) -> Callable[..., Operand]:
    """np.tril or np.triu."""
    def apply(m: Any, k: Any = 0) -> Operand:
        x = as_value(m)
        x = broadcast_to(x, (dims_of(x)[0], *dims_of(x))) if rank_of(x) == 1 else x
        if not rank_of(x):
            raise shape_error("a triangle of an array without axes")
        kept = relation(column_minus_row(dims_of(x)[-2:]), ew.add(k, offset) if not isinstance(k, int) else k + offset)
        return ew.select(broadcast_to(kept, dims_of(x)), x, literal_like(0, x.type.dtype))
    return apply


tril = implements(np.tril)(triangle(ew.less_equal, 0))
triu = implements(np.triu)(triangle(ew.greater, -1))


@implements(np.diagonal, np.linalg.diagonal)
def diagonal(a: Any, offset: Any = 0, axis1: Any = None, axis2: Any = None) -> Operand:
    """np.diagonal."""
    x = as_value(a)
    return diagonal_of(x, as_int(offset), *diagonal_axes(x, axis1, axis2))


def diagonal_axes(x: Operand, axis1: Any, axis2: Any) -> tuple[int, int]:
    """The two axes, the first two unless they are given."""
    rank = rank_of(x)
    if rank < 2:
        raise shape_error("diag requires an array of at least two dimensions")
    first, second = normalise_axis(0 if axis1 is None else axis1, rank), normalise_axis(1 if axis2 is None else axis2, rank)
    if first == second:
        raise shape_error("axis1 and axis2 cannot be the same")
    return first, second


@implements(np.trace)
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Operand:
    """np.trace."""
    refuse("np.trace", out=(out, None))
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


@implements(np.diag)
def diag(v: Any, k: Any = 0) -> Operand:
    """np.diag."""
    x = as_value(v)
    if rank_of(x) == 2:
        return diagonal(x, k)
    if rank_of(x) != 1:
        raise shape_error("Input must be 1- or 2-d.")
    offset = as_int(k)
    rows = pad(x, (max(-offset, 0), max(offset, 0))) if offset else x       # entry i of x is in row i + max(-offset, 0)
    dims = (dims_of(rows)[0],) * 2
    values = emit("broadcast", rows, dims=dims, axes=(0,))
    return ew.select(ew.equal_to(column_minus_row(dims), offset), values, literal_like(0, x.type.dtype))


@implements(np.diagflat)
def diagflat(v: Any, k: Any = 0) -> Operand:
    """np.diagflat."""
    return diag(ravel(as_value(v)), k)


# ---------------------------------------------------------------------------------------------------- differences
@implements(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Operand:
    """np.diff."""
    x = as_value(a)
    place = normalise_axis(axis, rank_of(x))
    parts = [p if p is x else border_of(p, x, place) for p in (prepend, x, append) if p is not None and p is not np._NoValue]
    x = concatenate(parts, place) if len(parts) > 1 else x
    for _ in range(as_int(n)):
        length = dims_of(x)[place]
        shorter = length - 1 if compare(length, ">=", 1) else length
        later, earlier = section(x, place, 1 if shorter is not length else 0, shorter), section(x, place, 0, shorter)
        x = emit("xor" if ew.is_bool(x) else "sub", later, earlier)
    return x


def border_of(given: Any, x: Operand, axis: int) -> Operand:
    """What is put before or after x: a number becomes one entry."""
    value = as_value(given)
    dims = dims_of(x)
    return value if rank_of(value) else filled(value, (*dims[:axis], ONE, *dims[axis + 1:]))


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Operand:
    """np.ediff1d."""
    middle = diff(ravel(as_value(ary)))
    ends = [None if e is None else ravel(as_value(e)) for e in (to_begin, to_end)]
    parts = [p for p in (ends[0], middle, ends[1]) if p is not None]
    return concatenate(parts, 0) if len(parts) > 1 else middle


@implements(np.trapezoid, getattr(np, "trapz", None))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Operand:
    """np.trapezoid."""
    value = as_float(y)
    place = normalise_axis(axis, rank_of(value))
    width = dx
    if x is not None:
        points = as_value(x)
        width = diff(points, axis=-1 if rank_of(points) == 1 else place)
        if rank_of(points) == 1:
            width = reshape_to(width, [dims_of(width)[0] if k == place else ONE for k in range(rank_of(value))])
    length = dims_of(value)[place] - 1
    pairs_sum = ew.add(section(value, place, 1, length), section(value, place, 0, length))
    return sum_(ew.true_divide(ew.multiply(width, pairs_sum), 2.0), place)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """np.gradient."""
    x = as_float(f)
    axes = normalise_axes(axis, rank_of(x))
    spacing = list(varargs) or [1.0]
    if len(spacing) not in (1, len(axes)):
        raise shape_error("invalid number of arguments")
    spacing = spacing * len(axes) if len(spacing) == 1 else spacing
    if edge_order != 1:
        raise unsupported("np.gradient with edge_order=2 is not supported", "use edge_order=1")
    results = tuple(gradient_along(x, h, k) for h, k in zip(spacing, axes, strict=True))
    return results[0] if len(results) == 1 else results


def gradient_along(x: Operand, spacing: Any, axis: int) -> Operand:
    """Second order differences inside, first order ones at the ends."""
    length = dims_of(x)[axis]
    if not compare(length, ">=", 2):
        raise shape_error("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
                              "required.")
    h = as_value(spacing)
    differences = diff(x, axis=axis)
    if rank_of(h):
        steps = diff(h)
        steps = reshape_to(steps, [dims_of(steps)[0] if k == axis else ONE for k in range(rank_of(x))])
        before, after = section(steps, axis, 0, length - 2), section(steps, axis, 1, length - 2)
        slopes = ew.true_divide(differences, steps)
        left, right = section(slopes, axis, 0, length - 2), section(slopes, axis, 1, length - 2)
        inside = ew.true_divide(ew.add(ew.multiply(after, left), ew.multiply(before, right)), ew.add(before, after))
    else:
        slopes = ew.true_divide(differences, h)
        wide = ew.subtract(section(x, axis, 2, length - 2), section(x, axis, 0, length - 2))
        inside = ew.true_divide(wide, ew.multiply(2.0, h))
    return concatenate([section(slopes, axis, 0, 1), inside, section(slopes, axis, length - 2, 1)], axis)

