"""`x[index]` as NumPy has it: slices with NumPy's clamping, None, Ellipsis, integers, integer arrays, known masks."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AdcompileError
from ..ir.builder import current_builder
from ..ir.core import Literal, Operand, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType
from .core import (
    along,
    as_dim,
    as_int,
    as_size,
    as_value,
    broadcast_dims,
    cast,
    compare,
    concrete,
    dims_of,
    emit,
    equal,
    filled,
    here,
    iota,
    is_concrete,
    is_integer,
    normalise_axis,
    permuted,
    rank_of,
    reshape_to,
    section,
    shape_error,
    shape_text,
    size_of,
    sizes,
    unsupported,
)
from .registry import implements


class IndexOutOfBounds(AdcompileError, IndexError):
    """An index that no entry has, known while the function is captured."""


@dataclass(frozen=True)
class Indexed:
    """One axis of the indexed array, selected by an integer array."""

    axis: int               # of the array after the slices were taken
    index: Operand


@implements(operator.getitem)
def getitem(x: Any, index: Any) -> Any:
    """`x[index]`."""
    if isinstance(x, (list, tuple)) and is_integer(index):
        return x[as_int(index, "an index into a list")]
    value = as_value(x)
    parts = index if isinstance(index, tuple) else (index,)
    items = expand_ellipsis([as_index(part) for part in parts], rank_of(value))
    if any(isinstance(item, slice) and is_moving(item) for item in items):
        value, items = numbers_first(value, items)
    return select_entries(value, items)


def numbers_first(x: Operand, items: list[Any]) -> tuple[Operand, list[Any]]:
    """The array with traced integers of its index taken, and the rest of the index: of `A[i, k:]` the row comes first, so that
    the row and not the array is what the rest needs."""
    arrays = [item for item in items if isinstance(item, (Value, np.ndarray))]
    if not arrays or not all(isinstance(item, Value) and not item.type.dims for item in arrays):
        return x, items
    numbers = [item if isinstance(item, Value) else slice(None) for item in items if item is not None]
    return select_entries(x, numbers), [item for item in items if not isinstance(item, Value)]


def as_index(item: Any) -> Any:
    """One part of an index: None, Ellipsis, a slice, an integer or size, an integer operand, a concrete mask."""
    if item is None or item is Ellipsis or isinstance(item, slice) or is_integer(item):
        return as_dim(item) if is_integer(item) else item
    if isinstance(item, (bool, np.bool_)):
        raise unsupported("an index of type bool is not supported", "use np.where")
    if is_concrete(item):
        array = concrete(item)
        if array.dtype == bool:
            return array
        if array.size and array.dtype.kind not in "iu":
            raise shape_error(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}")
        return as_value(array.astype(np.int64))
    value = as_value(item)
    if value.type.dtype is DType.bool:
        if not value.type.dims:
            raise unsupported("a traced bool is used as an index", "use np.where")
        return value
    if not value.type.dtype.is_integer:
        raise shape_error(f"arrays used as indices must be of integer (or boolean) type, not {value.type.dtype.numpy}")
    return as_value(value, DType.i64)


def expand_ellipsis(items: list[Any], rank: int) -> list[Any]:
    """The index with full slices in the place of the ellipsis, one part an axis (None makes a new one)."""
    used = sum(axes_of(item) for item in items if item is not Ellipsis)
    if used > rank:
        raise shape_error(f"too many indices for array: array is {rank}-dimensional, but {used} were indexed")
    places = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise shape_error("an index can only have a single ellipsis ('...')")
    place = places[0] if places else len(items)
    return [*items[:place], *[slice(None)] * (rank - used), *items[place + 1:]]


def select_entries(x: Operand, items: list[Any]) -> Any:
    """The index applied: first slices and single integers, then new axes, then integer arrays."""
    items = split_masks(items, dims_of(x))
    advanced = any(isinstance(item, (Value, Literal)) for item in items)
    starts: list[Dim] = []
    steps: list[int] = []
    lengths: list[Dim] = []
    kept: list[Dim] = []                                # axes after the slices: integers drop theirs, None adds one
    arrays: list[Indexed] = []
    places: list[int] = []                              # where in the index the integer arrays are
    axis = 0
    for place, item in enumerate(items):
        if item is None:
            kept.append(Dim.of(1))
            continue
        dim = dims_of(x)[axis]
        axis += 1
        start, step, length = (Dim.of(0), 1, dim)
        if isinstance(item, slice):
            start, step, length = resolve_slice(item, dim)
        elif isinstance(item, Dim) and not advanced:
            start, length = resolve_integer(item, dim, axis - 1), Dim.of(1)
        starts.append(start)
        steps.append(step)
        lengths.append(length)
        if isinstance(item, (Value, Literal)) or isinstance(item, Dim) and advanced:
            index = as_size(resolve_integer(item, dim, axis - 1)) if isinstance(item, Dim) else item
            arrays.append(Indexed(len(kept), wrapped(index, dim, axis - 1)))
            places.append(place)
        if not isinstance(item, Dim) or advanced:
            kept.append(length)
    sliced = take_slice(x, starts, steps, lengths)
    return gather_entries(reshape_to(sliced, kept) if x.type.dims else filled(x, tuple(kept)), arrays, places)


def take_slice(x: Operand, starts: list[Dim], steps: list[int], lengths: list[Dim]) -> Operand:
    """The slice op, unless it takes everything."""
    resolve = sizes().resolve
    starts, lengths = list(map(resolve, starts)), list(map(resolve, lengths))
    if tuple(lengths) == dims_of(x) and all(s.constant == 0 for s in starts) and all(s == 1 for s in steps):
        return x
    result: Operand = emit("slice", x, starts=tuple(starts), steps=tuple(steps), dims=tuple(lengths))
    return result


def is_mask(item: Any) -> bool:
    """Whether a part of an index is a traced mask."""
    return isinstance(item, Value) and item.type.dtype is DType.bool


def axes_of(item: Any) -> int:
    """How many axes a part of an index selects from."""
    if is_mask(item):
        return rank_of(item)
    return item.ndim if isinstance(item, np.ndarray) else int(item is not None)


def split_masks(items: list[Any], dims: tuple[Dim, ...]) -> list[Any]:
    """Masks as the integer arrays of the places where they are true."""
    result: list[Any] = []
    axis = 0
    for item in items:
        if is_mask(item):
            check_shape(dims_of(item), dims[axis:axis + rank_of(item)], "a boolean index and the axes that it selects from")
            result += true_places(item)
            axis += rank_of(item)
        elif isinstance(item, np.ndarray):
            for k, length in enumerate(item.shape):
                if not equal(dims[axis + k], length):
                    raise shape_error(f"boolean index did not match indexed array along axis {axis + k}; size of axis is "
                                      f"{sizes().actual(dims[axis + k])} but size of corresponding boolean axis is {length}")
            result += [as_value(places) for places in np.nonzero(item)]
            axis += item.ndim
        else:
            result.append(item)
            axis += item is not None
    return result


def true_places(mask: Operand) -> list[Operand]:
    """The places where a traced mask is true, in order: per axis an index array, of a length that the function computes."""
    builder, dims = current_builder(), dims_of(mask)
    total = size_of(dims)
    flat = reshape_to(mask, (total,))
    ones = cast(flat, DType.i64)
    count = builder.extent(emit("reduce_sum", ones, axes=(0,)), Dim.of(0), total, ("count", mask))
    rank = emit("sub", emit("cumsum", ones, axis=0, reverse=False), integer(1))
    target = emit("select", flat, rank, filled(as_size(count), (total,)))              # all others go behind the end
    room = filled(integer(0), (count + 1,))
    places = section(emit("scatter_set", room, target, iota(total), axes=(0,)), 0, Dim.of(0), count)
    result: list[Operand] = []
    for dim in reversed(dims[1:]):
        length = filled(as_size(dim), (count,))
        result.append(emit("mod", places, length))
        places = emit("floordiv", places, length)
    found = [places, *reversed(result)]
    builder.intervals.update({x: (Dim.of(0), dim - 1) for x, dim in zip(found, dims, strict=True)})
    return found


def wrapped(index: Operand, dim: Dim, axis: int) -> Operand:
    """An index with negative entries counted from the end."""
    if isinstance(index, Literal):
        return as_size(resolve_integer(Dim.of(int(index.value.real)), dim, axis))
    interval = current_builder().interval(index)
    if interval is not None and is_inside(*interval, dim):
        return index
    result: Operand = emit("wrap_index", index, dim=sizes().resolve(dim))
    return result


def is_inside(least: Dim, greatest: Dim, dim: Dim) -> bool:
    """Whether an index between two sizes needs no wrapping and no check; guarded where that is so now. No guard says that it
    is not: the checked index is right for all sizes."""
    actual = sizes().actual
    least, greatest, dim = (sizes().resolve(d) for d in (least, greatest, dim))
    if any(map(sizes().is_computed, (least, greatest, dim))):
        return bool(sizes().decide(least, ">=", 0) and sizes().decide(greatest, "<", dim))
    if greatest.symbols and actual(least) >= 0 and actual(greatest) + 1 == actual(dim):
        equal(greatest + 1, dim)        # a loop over exactly this axis, as far as this call can tell: one axis, not two
    return actual(least) >= 0 and actual(greatest) < actual(dim) and compare(least, ">=", 0) and compare(greatest, "<", dim)


def resolve_integer(index: Dim, dim: Dim, axis: int) -> Dim:
    """An integer index counted from the start; guards that it exists."""
    index = sizes().resolve(index)
    if compare(index, ">=", 0):
        if compare(index, "<", dim):
            return index
    elif compare(index + dim, ">=", 0):
        return index + dim
    raise IndexOutOfBounds(f"index {sizes().actual(index)} is out of bounds for axis {axis} with size {sizes().actual(dim)}",
                           here())


def resolve_slice(item: slice, dim: Dim) -> tuple[Dim, int, Dim]:
    """Start, step and length of a slice of an axis, clamped as Python does; every decision is a guard."""
    step = 1 if item.step is None else as_int(item.step, "the step of a slice")
    if step == 0:
        raise shape_error("slice step cannot be zero")
    low, high = (Dim.of(0), dim) if step > 0 else (Dim.of(-1), dim - 1)
    if is_moving(item) or sizes().is_computed(dim):
        return moving_slice(item, step, low, high, dim)
    start = clamp(item.start, low if step > 0 else high, low, high, dim)
    stop = clamp(item.stop, high if step > 0 else low, low, high, dim)
    span = stop - start if step > 0 else start - stop
    if not compare(span, ">", 0):
        return Dim.of(0), step, Dim.of(0)
    stride = abs(step)
    return start, step, span if stride == 1 else (span + (stride - 1)) // stride


def is_moving(item: slice) -> bool:
    """Whether the bounds of a slice are known only when the function runs."""
    return any(isinstance(x, Value) or isinstance(x, Dim) and sizes().is_computed(x) for x in (item.start, item.stop))


def clamp(bound: Any, default: Dim, low: Dim, high: Dim, dim: Dim) -> Dim:
    """A bound of a slice counted from the start, within low..high."""
    if bound is None:
        return default
    place = as_dim(bound)
    if not compare(place, ">=", 0):
        place = place + dim
        return place if compare(place, ">=", low) else low
    return place if compare(place, "<=", high) else high


# ---------------------------------------------------------------------------------------------------- traced bounds
def moving_slice(item: slice, step: int, low: Dim, high: Dim, dim: Dim) -> tuple[Dim, int, Dim]:
    """`resolve_slice` where bounds are traced: the length is a size that the function computes."""
    start = moving_bound(item.start, low if step > 0 else high, low, high, dim)
    stop = moving_bound(item.stop, high if step > 0 else low, low, high, dim)
    span, stride = (stop - start, step) if step > 0 else (start - stop, -step)
    if stride == 1 and sizes().decide(span, ">=", 0):
        return start, step, span
    count = as_size(span)
    if stride > 1:
        count = emit("floordiv", emit("add", count, integer(stride - 1)), integer(stride))
    return start, step, current_builder().extent(count, Dim.of(0), dim, ("length", span, stride))


def moving_bound(bound: Any, default: Dim, low: Dim, high: Dim, dim: Dim) -> Dim:
    """A bound of a slice, counted from the start and clamped as Python does, as a size."""
    if bound is None:
        return default
    place = polynomial(as_value(bound, DType.i64)) if isinstance(bound, Value) else as_dim(bound)
    if place is not None:
        decide = sizes().decide
        if decide(place, ">=", 0) is False:
            place = place + dim
        inside = decide(place, ">=", low), decide(place, "<=", high)
        if False in inside:
            return low if inside[0] is False else high
        if None not in inside:
            return place
    return clamped(as_value(bound, DType.i64) if isinstance(bound, Value) else as_size(as_dim(bound)), low, high, dim)


def polynomial(x: Operand) -> Dim | None:
    """An integer as a polynomial of sizes, where it is one of sizes and of integers that are never negative, loop indices say."""
    builder = current_builder()
    terms, rest = builder.linear(x)
    for value, factor in terms.items():
        interval = builder.interval(value)
        if interval is None or not sizes().decide(interval[0], ">=", 0):
            return None
        rest = rest + factor * builder.extent(value, *interval, value)
    return sizes().resolve(rest)


def clamped(x: Operand, low: Dim, high: Dim, dim: Dim) -> Dim:
    """A traced bound of which nothing is known, counted from the start and clamped."""
    builder = current_builder()
    terms, rest = builder.linear(x)
    counted = emit("select", emit("lt", x, integer(0)), emit("add", x, as_size(dim)), x)
    inside = emit("minimum", emit("maximum", counted, as_size(low)), as_size(high))
    above = inside if low.constant == 0 else emit("sub", inside, as_size(low))
    return builder.extent(above, Dim.of(0), dim, ("bound", frozenset(terms.items()), rest, low, dim)) + low


def integer(k: int) -> Literal:
    return Literal(k, DType.i64)


def gather_entries(x: Operand, arrays: list[Indexed], places: list[int]) -> Operand:
    """x with the indexed axes replaced by the index arrays' axes: where they were if they are adjacent, else in front."""
    if not arrays:
        return x
    lead = broadcast_dims(*(dims_of(a.index) for a in arrays))
    indices = [a.index if isinstance(a.index, Literal) and not lead else filled(a.index, lead) for a in arrays]
    axes = tuple(a.axis for a in arrays)
    result: Operand = emit("gather", x, *indices, axes=axes)
    adjacent = places == list(range(places[0], places[0] + len(places)))
    before = axes[0] if adjacent else 0
    order = [*range(len(lead), len(lead) + before), *range(len(lead)), *range(len(lead) + before, rank_of(result))]
    return permuted(result, order)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """np.take."""
    if out is not None or mode != "raise":
        raise unsupported("np.take with out= or mode= is not supported", "use indices within bounds")
    value = as_value(a)
    if axis is None:
        return getitem(reshape_to(value, (size_of(dims_of(value)),)), indices)
    place = normalise_axis(axis, rank_of(value))
    return getitem(value, (*[slice(None)] * place, indices))


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """np.take_along_axis."""
    value, index = as_value(arr), as_value(indices, DType.i64)
    if axis is None:
        value, axis = reshape_to(value, (size_of(dims_of(value)),)), 0
    place = normalise_axis(axis, rank_of(value))
    if rank_of(index) != rank_of(value):
        raise shape_error("`indices` and `arr` must have the same number of dimensions")
    dims = list(dims_of(value))
    dims[place] = Dim.of(1)
    lead = broadcast_dims(tuple(dims), dims_of(index))
    parts: list[Any] = []
    for k, d in enumerate(lead):
        parts.append(filled(index, lead) if k == place else
                     along(iota(d), k, lead) if dims[k].constant != 1 else Dim.of(0))
    return getitem(value, tuple(parts))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """np.compress."""
    if out is not None:
        raise unsupported("np.compress with out= is not supported")
    (places,) = true_places(as_mask(condition))
    return take(a, places, axis)


def as_mask(x: Any) -> Operand:
    """An array as a mask: entries that are not 0 are true."""
    value = as_value(x)
    value = filled(value, dims_of(value) or (Dim.of(1),))
    return value if value.type.dtype is DType.bool else emit("ne", value, literal_like(0, value.type.dtype))


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """np.nonzero."""
    return tuple(true_places(as_mask(a)))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """np.flatnonzero."""
    mask = as_mask(a)
    return true_places(reshape_to(mask, (size_of(dims_of(mask)),)))[0]


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """np.extract."""
    value = as_value(arr)
    return take(reshape_to(value, (size_of(dims_of(value)),)), flatnonzero(condition))


def entry(x: Operand, axis: int, index: int) -> Operand:
    """x[..., index, ...] along one axis, which is dropped."""
    dims = dims_of(x)
    start = Dim.of(index) if index >= 0 else dims[axis] + index
    return reshape_to(section(x, axis, start, 1), (*dims[:axis], *dims[axis + 1:]))


def check_shape(got: tuple[Dim, ...], wanted: tuple[Dim, ...], what: str) -> None:
    """Raises unless two shapes are equal."""
    if len(got) != len(wanted) or not all(equal(a, b) for a, b in zip(got, wanted, strict=True)):
        raise shape_error(f"{what}: {shape_text(got)} and {shape_text(wanted)}")


def diagonal_of(x: Operand, offset: int, axis1: int, axis2: int) -> Operand:
    """The diagonal of two axes, as the last axis."""
    dims = dims_of(x)
    rows, columns = dims[axis1] + min(offset, 0), dims[axis2] - max(offset, 0)
    length = rows if compare(rows, "<=", columns) else columns
    if not compare(length, ">=", 0):
        length = Dim.of(0)
    first, second = (Dim.of(max(-offset, 0)), Dim.of(max(offset, 0)))
    places = {axis1: shifted_iota(length, first), axis2: shifted_iota(length, second)}
    axes = tuple(sorted(places))
    picked: Operand = emit("gather", x, *(places[a] for a in axes), axes=axes)
    return permuted(picked, [*range(1, rank_of(picked)), 0])


def shifted_iota(length: Dim, start: Dim) -> Operand:
    """start, start + 1, ..., `length` of them."""
    result = iota(length)
    return result if start.constant == 0 else emit("add", result, Literal(start.constant or 0, DType.i64))
