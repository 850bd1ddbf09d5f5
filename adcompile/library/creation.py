"""Arrays made from sizes, numbers and nested lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.core import Literal, Operand
from ..ir.dims import Dim
from ..ir.types import DType
from . import elementwise as ew
from .core import (
    Dims,
    along,
    as_dim,
    as_int,
    as_value,
    broadcast_dims,
    broadcast_to,
    cast,
    common_dtype,
    compare,
    constant,
    dims_of,
    emit,
    filled,
    iota,
    is_integer,
    normalise_axis,
    permuted,
    rank_of,
    reshape_to,
    shape_error,
    shape_text,
    sizes,
    unsupported,
    wanted_dtype,
)
from .registry import implements


def shape_of(shape: Any) -> Dims:
    """A shape argument: an int or a sequence of ints and sizes; negative lengths raise."""
    dims = tuple(as_dim(d) for d in (shape if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)))
    for d in dims:
        if not compare(d, ">=", 0):
            raise shape_error("negative dimensions are not allowed")
    return dims


def full_of(value: Any, dims: Dims, dtype: DType | None) -> Operand:
    """An array with one value (or one broadcast array) everywhere."""
    x = as_value(value, dtype)
    return filled(x, dims) if dims else x


@implements(np.zeros, np.empty)
def zeros(shape: Any, dtype: Any = float, order: str = "C", **keywords: Any) -> Operand:
    """np.zeros; np.empty too, since reading what was not written must be the same every time."""
    return full_of(0, shape_of(shape), wanted_dtype(float if dtype is None else dtype))


@implements(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", **keywords: Any) -> Operand:
    """np.ones."""
    return full_of(1, shape_of(shape), wanted_dtype(float if dtype is None else dtype))


@implements(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **keywords: Any) -> Operand:
    """np.full."""
    return full_of(fill_value, shape_of(shape), wanted_dtype(dtype))


def like(value: Any, a: Any, dtype: Any, shape: Any) -> Operand:
    """An array of the shape and dtype of another."""
    x = as_value(a)
    return full_of(value, dims_of(x) if shape is None else shape_of(shape), wanted_dtype(dtype) or x.type.dtype)


@implements(np.zeros_like, np.empty_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **keywords: Any) -> Operand:
    """np.zeros_like."""
    return like(0, a, dtype, shape)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **keywords: Any) -> Operand:
    """np.ones_like."""
    return like(1, a, dtype, shape)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
              **keywords: Any) -> Operand:
    """np.full_like."""
    return like(fill_value, a, dtype, shape)


# ---------------------------------------------------------------------------------------------------- nested lists
def stacked(x: Any) -> Operand:
    """An array from nested lists with traced entries."""
    if not isinstance(x, (list, tuple)):
        return as_value(x)
    if not x:
        return constant(np.zeros(0))
    parts = [stacked(a) for a in x]
    dtype = common_dtype(*parts)
    shape = broadcast_dims(*(dims_of(p) for p in parts))
    if any(rank_of(p) != len(shape) for p in parts):
        raise shape_error("an array is made of a list whose entries have different shapes: "
                          + ", ".join(shape_text(dims_of(p)) for p in parts))
    rows = [expanded(broadcast_to(cast(p, dtype), shape)) for p in parts]
    return rows[0] if len(rows) == 1 else emit("concat", *rows, axis=0)


def expanded(x: Operand) -> Operand:
    """x with a new first axis of length 1."""
    return reshape_to(x, (Dim.of(1), *dims_of(x)))


@implements(np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asarray_chkfinite, np.copy)
def array(object: Any, dtype: Any = None, *, copy: Any = None, order: Any = None, subok: Any = None, ndmin: int = 0,
          **keywords: Any) -> Operand:
    """np.array of traced values, numbers and nested lists of them."""
    value = as_value(object, wanted_dtype(dtype))
    missing = ndmin - rank_of(value)
    return reshape_to(value, (*[Dim.of(1)] * missing, *dims_of(value))) if missing > 0 else value


# ---------------------------------------------------------------------------------------------------- ranges
@implements(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **keywords: Any) -> Operand:
    """np.arange; bounds may be sizes."""
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    if not all(map(is_integer, (start, stop, step))):
        return float_range(start, stop, step, dtype)
    stride = as_int(step, "the step of np.arange")
    if stride == 0:
        raise shape_error("the step of np.arange is zero")
    low, high = as_dim(start), as_dim(stop)
    span = high - low if stride > 0 else low - high
    length = (span + (abs(stride) - 1)) // abs(stride) if compare(span, ">", 0) else Dim.of(0)
    result = iota(length)
    result = result if stride == 1 else ew.multiply(result, stride)
    result = result if low.constant == 0 else ew.add(result, low)
    return cast(result, wanted_dtype(dtype) or common_dtype(start, stop, step))


def float_range(start: Any, stop: Any, step: Any, dtype: Any) -> Operand:
    """np.arange with float bounds: they must be known, since the length depends on them."""
    numbers: list[Any] = []
    for x in (start, stop, step):
        if not isinstance(x, (Dim, Literal, int, float, np.generic)):
            raise unsupported("np.arange with traced bounds: its length is not known while the function is captured",
                              "use np.linspace, or start + step * np.arange(n)")
        numbers.append(as_int(x) if isinstance(x, Dim) else x.value if isinstance(x, Literal) else x)
    return constant(np.arange(*numbers, dtype=dtype))


@implements(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0) -> Any:
    """np.linspace; the bounds may be traced, the number of points a size."""
    count = as_dim(num)
    if not compare(count, ">=", 0):
        raise shape_error(f"Number of samples, {sizes().actual(count)}, must be non-negative.")
    first, last = as_value(start), as_value(stop)
    float_type = common_dtype(first, last, 1.0)
    first, last = cast(first, float_type), cast(last, float_type)
    shape = broadcast_dims(dims_of(first), dims_of(last))
    parts = count - 1 if endpoint else count
    step = ew.true_divide(ew.subtract(last, first), parts if compare(parts, ">", 0) else math.nan)
    dims = (count, *shape)
    places = along(iota(count, float_type), 0, dims)
    result = ew.add(ew.multiply(places, step), first) if compare(parts, ">", 0) else broadcast_to(first, dims)
    if endpoint and compare(count, ">", 1):
        result = ew.where(ew.equal_to(places, ew.subtract(as_value(count, float_type), 1.0)), last, result)
    wanted = wanted_dtype(dtype) or float_type
    if wanted.is_integer:
        result = ew.floor(result)
    result = cast(filled(result, dims), wanted)
    place = normalise_axis(axis, len(dims))
    result = permuted(result, [*range(1, place + 1), 0, *range(place + 1, len(dims))])
    return (result, step) if retstep else result


@implements(np.logspace)
def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0) -> Operand:
    """np.logspace."""
    return cast(ew.power(base, linspace(start, stop, num, endpoint, axis=axis)), wanted_dtype(dtype) or DType.f64)


@implements(np.eye)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", **keywords: Any) -> Operand:
    """np.eye."""
    dims = (*shape_of(N), *shape_of(N if M is None else M))
    return cast(ew.equal_to(column_minus_row(dims), k), wanted_dtype(float if dtype is None else dtype) or DType.f64)


@implements(np.identity)
def identity(n: Any, dtype: Any = None, **keywords: Any) -> Operand:
    """np.identity."""
    return eye(n, dtype=dtype)


@implements(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, **keywords: Any) -> Operand:
    """np.tri: ones at and below a diagonal."""
    dims = (*shape_of(N), *shape_of(N if M is None else M))
    return cast(ew.less_equal(column_minus_row(dims), k), wanted_dtype(dtype) or DType.f64)


def column_minus_row(dims: Dims) -> Operand:
    """j - i at every place of a matrix (of the last two axes)."""
    rank = len(dims)
    rows, columns = along(iota(dims[-2]), rank - 2, dims), along(iota(dims[-1]), rank - 1, dims)
    return ew.subtract(columns, rows)


@implements(np.indices)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """np.indices."""
    dims = shape_of(dimensions)
    wanted = wanted_dtype(dtype) or DType.i64
    if sparse:
        return tuple(reshape_to(iota(d, wanted), [d if j == k else Dim.of(1) for j in range(len(dims))])
                     for k, d in enumerate(dims))
    return emit("concat", *(expanded(along(iota(d, wanted), k, dims)) for k, d in enumerate(dims)), axis=0)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Operand]:
    """np.meshgrid."""
    vectors = [as_value(x) for x in xi]
    vectors = [reshape_to(v, (Dim.of(1),)) if not rank_of(v) else v for v in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    dims: list[Dim] = [Dim.of(1)] * len(vectors)
    for k, v in enumerate(vectors):
        dims[order[k]] = dims_of(v)[0]
    if sparse:
        return [reshape_to(v, [d if j == order[k] else Dim.of(1) for j, d in enumerate(dims)]) for k, v in enumerate(vectors)]
    return [along(v, order[k], tuple(dims)) for k, v in enumerate(vectors)]

