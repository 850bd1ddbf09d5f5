"""Reductions and running reductions, with NumPy's axis, keepdims, dtype, initial and where."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.core import Literal, Operand, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType
from . import elementwise as ew
from .core import (
    as_float,
    as_int,
    as_value,
    broadcast_dims,
    cast,
    common_dtype,
    compare,
    dims_of,
    emit,
    equal,
    filled,
    float_dtype,
    normalise_axes,
    normalise_axis,
    rank_of,
    refuse,
    require_entry,
    reshape_to,
    shape_error,
    size_of,
    sizes,
    unsupported,
    wanted_dtype,
)
from .registry import implements

NO_VALUE: Any = np._NoValue


def absent(x: Any) -> bool:
    """Whether a keyword was not given."""
    return x is None or x is NO_VALUE


# ---------------------------------------------------------------------------------------------------- the frame
def reduced(op: str, x: Operand, axes: tuple[int, ...], keepdims: Any) -> Operand:
    """A reduction op over axes, which stay with length 1 if `keepdims`."""
    dims = dims_of(x)
    result: Operand = emit(op, x, axes=axes) if axes else x
    if not absent(keepdims) and keepdims:
        result = reshape_to(result, tuple(Dim.of(1) if k in axes else d for k, d in enumerate(dims)))
    return result


def prepared(a: Any, axis: Any, where: Any, neutral: Any) -> tuple[Operand, tuple[int, ...]]:
    """The operand, with the neutral number where `where` is false, and the axes."""
    x = as_value(a)
    if absent(where) or where is True:
        return x, normalise_axes(axis, rank_of(x))
    mask = as_value(where, DType.bool)
    dims = broadcast_dims(dims_of(x), dims_of(mask))
    x = ew.select(filled(mask, dims), filled(x, dims), literal_like(neutral, x.type.dtype))
    return x, normalise_axes(axis, rank_of(x))


def accumulated(x: Operand, dtype: Any) -> Operand:
    """x in the dtype that NumPy adds in: small integers and booleans become 64 bits wide."""
    wanted = wanted_dtype(dtype)
    if wanted is None:
        have = x.type.dtype
        wanted = DType.i64 if have is DType.bool or have.value.startswith("int") else \
            DType.u64 if have.value.startswith("uint") else have
    return cast(x, wanted)


def count_of(x: Operand, axes: tuple[int, ...]) -> Dim:
    """How many entries a reduction joins."""
    dims = dims_of(x)
    return size_of(dims[k] for k in axes)


def counted(a: Any, axis: Any, where: Any, keepdims: Any = True) -> Any:
    """How many entries `where` selects along the axes: a size, or a traced count in the dtype of the operand."""
    x = as_value(a)
    if absent(where) or where is True:
        return count_of(x, normalise_axes(axis, rank_of(x)))
    mask = as_value(where, DType.bool)
    return cast(sum_(filled(mask, broadcast_dims(dims_of(x), dims_of(mask))), axis, keepdims=keepdims), x.type.dtype)


# ---------------------------------------------------------------------------------------------------- sums and products
def total(op: str, neutral: int, combine: Callable[..., Operand], name: str) -> Callable[..., Operand]:
    """np.sum or np.prod."""
    def apply(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
              where: Any = True) -> Operand:
        refuse(name, out=(out, None))
        x, axes = prepared(a, axis, where, neutral)
        result = reduced(op, accumulated(x, dtype), axes, keepdims)
        return result if absent(initial) else combine(result, initial)

    apply.__name__ = apply.__qualname__ = name
    return apply


sum_ = implements(np.sum)(total("reduce_sum", 0, ew.add, "np.sum"))
prod = implements(np.prod)(total("reduce_prod", 1, ew.multiply, "np.prod"))


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Operand:
    """np.mean."""
    refuse("np.mean", out=(out, None))
    x = as_value(a, wanted_dtype(dtype) or float_dtype(as_value(a)))
    return ew.true_divide(sum_(x, axis, keepdims=keepdims, where=where), counted(x, axis, where, keepdims))


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """np.average."""
    x = as_float(a)
    if weights is None:
        result, scale = mean(x, axis, keepdims=keepdims), as_value(counted(x, axis, True), x.type.dtype)
    else:
        w = as_float(weights)
        axes = normalise_axes(axis, rank_of(x))
        if rank_of(w) != rank_of(x):
            if len(axes) != rank_of(w):
                raise shape_error("Shape of weights must be consistent with shape of a along specified axis.")
            w = reshape_to(w, tuple(d if k in axes else Dim.of(1) for k, d in enumerate(dims_of(x))))
        w = filled(w, dims_of(x))
        scale = sum_(w, axis, keepdims=keepdims)
        result = ew.true_divide(sum_(ew.multiply(x, w), axis, keepdims=keepdims), scale)
    return (result, filled(scale, dims_of(result)) if rank_of(result) else scale) if returned else result


# ---------------------------------------------------------------------------------------------------- extrema
def extremum(op: str, combine: Callable[..., Operand], name: str) -> Callable[..., Operand]:
    """np.max or np.min."""
    def apply(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
              where: Any = True) -> Operand:
        refuse(name, out=(out, None))
        if absent(initial) and not (absent(where) or where is True):
            raise shape_error(f"reduction operation '{name}' does not have an identity, so to use a where mask one has to "
                              "specify 'initial'")
        x, axes = prepared(a, axis, where, 0 if absent(initial) else known_number(initial, name))
        if not absent(initial) and any(not compare(dims_of(x)[k], ">=", 1) for k in axes):
            rest = tuple(d for k, d in enumerate(dims_of(x)) if k not in axes)
            return reduced("reduce_sum", filled(as_value(initial, x.type.dtype), rest), (), False)
        require_entries(x, axes, name)
        result = reduced(op, x, axes, keepdims)
        return result if absent(initial) else combine(result, initial)

    apply.__name__ = apply.__qualname__ = name
    return apply


def known_number(x: Any, name: str) -> Any:
    """`initial` together with a mask fills the masked entries."""
    if isinstance(x, (Value, Dim)):
        raise unsupported(f"{name} with a traced initial= is not supported", "use np.maximum on the result")
    return x.value if isinstance(x, Literal) else x


def require_entries(x: Operand, axes: tuple[int, ...], name: str) -> None:
    """Raises for a reduction over no entries that has no result."""
    dims = dims_of(x)
    for k in axes:
        require_entry(dims[k], f"zero-size array to reduction operation {name.removeprefix('np.')} which has no identity")


max_ = implements(np.max, np.amax)(extremum("reduce_max", ew.maximum, "np.max"))
min_ = implements(np.min, np.amin)(extremum("reduce_min", ew.minimum, "np.min"))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Operand:
    """np.ptp."""
    refuse("np.ptp", out=(out, None))
    return ew.subtract(max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims))


def place(op: str, name: str) -> Callable[..., Operand]:
    """np.argmax or np.argmin."""
    def apply(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Operand:
        refuse(name, out=(out, None))
        x = as_value(a)
        dims = dims_of(x)
        if axis is None:
            x = reshape_to(x, (size_of(dims),))
        k = normalise_axis(0 if axis is None else axis, rank_of(x))
        require_entry(dims_of(x)[k], f"attempt to get {name.removeprefix('np.')} of an empty sequence")
        result: Operand = emit(op, x, axis=k)
        if not absent(keepdims) and keepdims:
            result = reshape_to(result, tuple(Dim.of(1) if axis is None or j == k else d for j, d in enumerate(dims)))
        return result

    apply.__name__ = apply.__qualname__ = name
    return apply


argmax = implements(np.argmax)(place("argmax", "np.argmax"))
argmin = implements(np.argmin)(place("argmin", "np.argmin"))


# ---------------------------------------------------------------------------------------------------- spread
@implements(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True,
        mean: Any = None, correction: Any = None) -> Operand:
    """np.var."""
    refuse("np.var", out=(out, None))
    x = as_value(a, wanted_dtype(dtype) or float_dtype(as_value(a)))
    center = mean_of(x, axis, where) if absent(mean) else mean
    deviation = ew.subtract(x, center)
    squares = sum_(ew.multiply(deviation, deviation), axis, keepdims=keepdims, where=where)
    return ew.true_divide(squares, degrees(counted(x, axis, where, keepdims), ddof if absent(correction) else correction))


def mean_of(x: Operand, axis: Any, where: Any) -> Operand:
    """The mean, its axes kept."""
    return mean(x, axis, keepdims=True, where=where)


def degrees(count: Any, ddof: Any) -> Any:
    """max(count - ddof, 0)."""
    if isinstance(count, Dim) and isinstance(ddof, (int, Dim)):
        left = count - ddof
        return left if compare(left, ">=", 0) else 0
    return ew.maximum(ew.subtract(count, ddof), 0)


@implements(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True,
        mean: Any = None, correction: Any = None) -> Operand:
    """np.std."""
    return root(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def root(x: Operand) -> Operand:
    """The square root of a sum of squares, with slope 0 at 0."""
    result: Operand = emit("sqrt0", x)
    return result


# ---------------------------------------------------------------------------------------------------- booleans
def quantifier(op: str, neutral: bool, name: str) -> Callable[..., Operand]:
    """np.any or np.all."""
    def apply(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Operand:
        refuse(name, out=(out, None))
        x, axes = prepared(as_value(a, DType.bool), axis, where, neutral)
        return reduced(op, x, axes, keepdims)

    apply.__name__ = apply.__qualname__ = name
    return apply


any_ = implements(np.any)(quantifier("reduce_any", False, "np.any"))
all_ = implements(np.all)(quantifier("reduce_all", True, "np.all"))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Operand:
    """np.count_nonzero."""
    return sum_(as_value(a, DType.bool), axis, keepdims=keepdims)


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Operand:
    """np.allclose."""
    return all_(ew.isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """np.array_equal."""
    a, b = as_value(a1), as_value(a2)
    shapes = dims_of(a), dims_of(b)
    if len(shapes[0]) != len(shapes[1]) or not builtins.all(equal(m, n) for m, n in zip(*shapes, strict=True)):
        return False
    same = ew.equal_to(a, b)
    return all_(ew.logical_or(same, ew.logical_and(ew.isnan(a), ew.isnan(b))) if equal_nan else same)


# ---------------------------------------------------------------------------------------------------- running
def running(op: str, name: str) -> Callable[..., Operand]:
    """np.cumsum or np.cumprod."""
    def apply(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Operand:
        refuse(name, out=(out, None))
        x = accumulated(as_value(a), dtype)
        if axis is None or not rank_of(x):
            x, axis = reshape_to(x, (size_of(dims_of(x)),)), 0
        result: Operand = emit(op, x, axis=normalise_axis(axis, rank_of(x)), reverse=False)
        return result

    apply.__name__ = apply.__qualname__ = name
    return apply


cumsum = implements(np.cumsum)(running("cumsum", "np.cumsum"))
cumprod = implements(np.cumprod)(running("cumprod", "np.cumprod"))


# ---------------------------------------------------------------------------------------------------- without NaN
def without_nan(a: Any, number: float) -> Operand:
    """a with a number in the place of NaN."""
    x = as_value(a)
    return x if ew.is_real_integer(x) else ew.select(emit("isnan", x), literal_like(number, x.type.dtype), x)


def present(a: Any) -> Operand:
    """Where entries are not NaN."""
    return ew.logical_not(ew.isnan(as_value(a)))


@implements(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
           where: Any = True) -> Operand:
    """np.nansum."""
    return sum_(without_nan(a, 0.0), axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
            where: Any = True) -> Operand:
    """np.nanprod."""
    return prod(without_nan(a, 1.0), axis, dtype, out, keepdims, initial, where)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Operand:
    """np.nancumsum."""
    return cumsum(without_nan(a, 0.0), axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Operand:
    """np.nancumprod."""
    return cumprod(without_nan(a, 1.0), axis, dtype, out)


@implements(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Operand:
    """np.nanmean."""
    chosen = present(a) if absent(where) or where is True else ew.logical_and(present(a), where)
    return mean(a, axis, dtype, out, keepdims, where=chosen)


@implements(np.nanvar)
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Operand:
    """np.nanvar."""
    x, chosen = as_value(a, wanted_dtype(dtype) or float_dtype(as_value(a))), present(a)
    count = sum_(chosen, axis, keepdims=keepdims)
    spread = var(x, axis, out=out, keepdims=keepdims, where=chosen)
    scale = ew.true_divide(count, ew.maximum(ew.subtract(count, ddof), 0))
    return cast(ew.multiply(spread, cast(as_value(scale), x.type.dtype)), x.type.dtype)


@implements(np.nanstd)
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Operand:
    """np.nanstd."""
    return root(nanvar(a, axis, dtype, out, ddof, keepdims))


def nan_extremum(reduce: Callable[..., Operand], worst: float, name: str) -> Callable[..., Operand]:
    """np.nanmax or np.nanmin: NaN only where all entries are."""
    def apply(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Operand:
        refuse(name, out=(out, None))
        x = as_value(a)
        if ew.is_real_integer(x):
            return reduce(x, axis, keepdims=keepdims)
        found = reduce(without_nan(x, worst), axis, keepdims=keepdims)
        return ew.where(any_(present(x), axis, keepdims=keepdims), found, math.nan)

    apply.__name__ = apply.__qualname__ = name
    return apply


nanmax = implements(np.nanmax)(nan_extremum(max_, -math.inf, "np.nanmax"))
nanmin = implements(np.nanmin)(nan_extremum(min_, math.inf, "np.nanmin"))


# ---------------------------------------------------------------------------------------------------- statistics
@implements(np.cov)
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Operand:
    """np.cov without weights."""
    refuse("np.cov", fweights=(fweights, None), aweights=(aweights, None))
    x = as_value(rows_of(m, rowvar), wanted_dtype(dtype))
    if y is not None:
        x, other = as_float(x), as_float(rows_of(y, rowvar))
        if not equal(dims_of(x)[1], dims_of(other)[1]):
            raise shape_error("m and y have different numbers of observations")
        joint = common_dtype(x, other)
        x = emit("concat", cast(x, joint), reshape_to(cast(other, joint), (dims_of(other)[0], dims_of(x)[1])), axis=0)
    x = as_float(x)
    factor = degrees(dims_of(x)[1], as_int(ddof) if ddof is not None else 0 if bias else 1)
    centered = ew.subtract(x, mean(x, 1, keepdims=True))
    products = emit("contract", centered, centered, a_labels=(0, 2), b_labels=(1, 2), out_labels=(0, 1))
    result = ew.true_divide(products, factor)
    dims = dims_of(result)
    return reshape_to(result, tuple(d for d in dims if d.constant != 1)) if dims[0].constant == 1 else result


def rows_of(m: Any, rowvar: bool) -> Operand:
    """Observations as a matrix, one row a variable."""
    x = as_value(m)
    if rank_of(x) == 1:
        return reshape_to(x, (Dim.of(1), *dims_of(x)))
    if rank_of(x) != 2:
        raise shape_error("m has more than 2 dimensions")
    if rowvar or sizes().actual(dims_of(x)[0]) == 1:
        return x
    result: Operand = emit("transpose", x, permutation=(1, 0))
    return result


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Operand:
    """np.corrcoef."""
    from .indexing import diagonal_of
    c = cov(x, y, rowvar, dtype=dtype)
    if not rank_of(c):
        return ew.true_divide(c, c)
    deviation = root(diagonal_of(c, 0, 0, 1))
    column = reshape_to(deviation, (*dims_of(deviation), Dim.of(1)))
    result: Operand = ew.clip(ew.true_divide(ew.true_divide(c, column), deviation), -1, 1)
    return result
