"""What every library function is made of: operands from anything, NumPy's dtype and broadcasting rules, axes, errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, UnsupportedOp
from ..ir.builder import current_builder
from ..ir.core import ArrayConstant, Literal, Location, Operand, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.sizes import Sizes
from ..ir.types import DType, dtype_of

Dims = tuple[Dim, ...]
WEAK = (bool, int, float, complex)


# ---------------------------------------------------------------------------------------------------- the builder
def emit(op: str, *operands: Any, **attributes: Any) -> Any:
    """Emit an op of the table into the current builder."""
    return current_builder().emit(op, operands, attributes)


def sizes() -> Sizes:
    """What decides the relations of sizes."""
    return current_builder().sizes


def here() -> Location | None:
    """The user's line."""
    return current_builder().location


def compare(a: Dim | int, relation: str, b: Dim | int) -> bool:
    """Whether `a relation b` now, recorded as a guard."""
    return sizes().compare(a, relation, b, here())


def equal(a: Dim | int, b: Dim | int) -> bool:
    """Whether two sizes are equal, unified if so."""
    return sizes().equal(a, b, here())


def unsupported(what: str, do: str = "") -> UnsupportedOp:
    """The error for a function or a way to call it that the library lacks."""
    return UnsupportedOp(what, here(), do)


def shape_error(what: str, do: str = "") -> ShapeError:
    """The error for shapes that do not fit."""
    return ShapeError(what, here(), do)


def refuse(name: str, **given: tuple[Any, Any]) -> None:
    """Raises for keywords that are not at their only supported value: `refuse("np.sum", out=(out, None))`."""
    for keyword, (value, supported) in given.items():
        if value is not supported and not (isinstance(value, (str, bool)) and value == supported):
            raise unsupported(f"{name} with {keyword}= is not supported", f"leave {keyword} out")


# ---------------------------------------------------------------------------------------------------- operands
def is_traced(x: Any) -> bool:
    """Whether an argument is, or holds, something that is only known when the compiled function runs."""
    if isinstance(x, (list, tuple)):
        return any(map(is_traced, x))
    return isinstance(x, (Value, Literal, Dim))


def is_concrete(x: Any) -> bool:
    """Whether an argument is plain numbers, or arrays of them, all through."""
    return not is_traced(x) or isinstance(x, Literal)


def concrete(x: Any) -> np.ndarray:
    """A concrete argument as a NumPy array."""
    return np.asarray(literal_like(x.value, x.dtype).value, x.dtype.numpy) if isinstance(x, Literal) else np.asarray(x)


def as_value(x: Any, dtype: DType | None = None) -> Operand:
    """An operand from a number, a size, an array or nested lists of these; in a dtype if one is given."""
    result = unconverted(x)
    return result if dtype is None else cast(result, dtype)


def unconverted(x: Any) -> Operand:
    """An operand in its own dtype."""
    if isinstance(x, (Value, Literal)):
        return x
    if isinstance(x, Dim):
        return as_size(x)
    if isinstance(x, WEAK) and not isinstance(x, np.generic):
        return literal_like(x, weak_dtype(x))
    if isinstance(x, (list, tuple)) and is_traced(x):
        from .creation import stacked
        return stacked(x)
    return constant(np.asarray(x))


def constant(array: np.ndarray) -> Operand:
    """A concrete array as an operand."""
    dtype = dtype_of(array.dtype)
    if dtype is None:
        raise unsupported(f"an array of dtype {array.dtype} cannot be used together with traced values")
    if array.ndim == 0:
        return literal_like(array.item(), dtype)
    value: Operand = emit("constant", value=ArrayConstant(dtype, array.shape, np.ascontiguousarray(array).tobytes()))
    return value


def as_size(x: Dim | int) -> Operand:
    """A size as an i64 operand."""
    dim = sizes().resolve(x)
    return Literal(dim.constant, DType.i64) if dim.constant is not None else emit("size", dim=dim)


def weak_dtype(x: Any) -> DType:
    """The dtype of a Python number on its own."""
    return {bool: DType.bool, int: DType.i64, float: DType.f64, complex: DType.c128}[next(t for t in WEAK if isinstance(x, t))]


def cast(x: Operand, dtype: DType) -> Operand:
    """x in another dtype, as `astype`."""
    if x.type.dtype is dtype:
        return x
    if isinstance(x, Literal):
        with np.errstate(all="ignore"):
            return literal_like(np.asarray(x.value).astype(dtype.numpy).item(), dtype)
    if dtype is DType.bool:
        result: Operand = emit("ne", x, literal_like(0, x.type.dtype))
        return result
    result = emit("cast", x, dtype=dtype)
    return result


def dims_of(x: Any) -> Dims:
    """The axis lengths of an argument, in terms of the symbols that are left."""
    if isinstance(x, (Value, Literal)):
        return tuple(sizes().resolve(d) for d in x.type.dims)
    if isinstance(x, (list, tuple)) and is_traced(x):
        return dims_of(as_value(x))
    return () if isinstance(x, Dim) else tuple(map(Dim.of, np.shape(x)))


def rank_of(x: Any) -> int:
    """The number of axes of an argument."""
    return len(dims_of(x))


def size_of(dims: Iterable[Dim]) -> Dim:
    """The number of entries."""
    return math.prod(dims, start=Dim.of(1))


# ---------------------------------------------------------------------------------------------------- dtypes
def wanted_dtype(dtype: Any) -> DType | None:
    """A dtype argument as the IR's; None stays None."""
    if dtype is None or isinstance(dtype, DType):
        return dtype
    found = dtype_of(np.dtype(dtype))
    if found is None:
        raise unsupported(f"dtype {np.dtype(dtype)} is not supported", "use float64, float32, int64 or bool")
    return found


def dtype_argument(x: Any) -> Any:
    """What NumPy's promotion wants to know of an argument: a dtype, or a Python number type where it is weak."""
    if isinstance(x, (Value, Literal)):
        return x.type.dtype.numpy
    if isinstance(x, Dim):
        return int
    if isinstance(x, WEAK) and not isinstance(x, np.generic):
        return np.dtype(bool) if isinstance(x, bool) else next(t for t in WEAK if isinstance(x, t))
    return as_value(x).type.dtype.numpy if is_traced(x) else np.asarray(x).dtype


def common_dtype(*xs: Any) -> DType:
    """NumPy's result dtype of several arguments."""
    weak = {int: 0, float: 0.0, complex: 0j}
    found = dtype_of(np.result_type(*[weak.get(d, d) for d in map(dtype_argument, xs)]))
    assert found is not None
    return found


def float_dtype(x: Any) -> DType:
    """The dtype a function with real results computes in: float32 and float64 stay, integers become float64."""
    dtype = common_dtype(x)
    return dtype if dtype.is_float or dtype.is_complex else DType.f64


def as_float(x: Any) -> Operand:
    """An operand in floating point."""
    return as_value(x, float_dtype(x))


def promote(*xs: Any) -> tuple[Operand, ...]:
    """Operands in their common dtype."""
    dtype = common_dtype(*xs)
    return tuple(as_value(x, dtype) for x in xs)


def loop_dtypes(function: np.ufunc, *xs: Any) -> tuple[DType, ...]:
    """The dtypes in which NumPy's ufunc computes: of its inputs, then of its outputs. Half precision becomes float64."""
    given = [dtype_argument(x) for x in xs]
    if all(isinstance(d, type) for d in given):
        given = [np.dtype(d) for d in given]
    try:
        found = function.resolve_dtypes((*given, *[None] * function.nout))
    except TypeError as error:
        raise unsupported(f"np.{function.__name__} does not take {' and '.join(map(str, given))}: {error}") from None
    return tuple(DType.f64 if d == np.float16 else dtype_of(d) or DType.f64 for d in found)


# ---------------------------------------------------------------------------------------------------- broadcasting
def shape_text(dims: Iterable[Dim | int]) -> str:
    """Actual sizes as NumPy prints a shape."""
    texts = [sizes().text(d) for d in dims]
    return f"({','.join(texts)}{',' * (len(texts) == 1)})"


def broadcast_dims(*shapes: Dims) -> Dims:
    """The common shape of several; raises where there is none."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = [Dim.of(1)] * rank
    for shape in shapes:
        for k, dim in enumerate(shape, rank - len(shape)):
            found = dim if result[k].constant == 1 else sizes().broadcast(result[k], dim, here())
            if found is None and any(map(sizes().is_computed, (result[k], dim))):
                found = demanded(result[k], dim, "operands could not be broadcast together")
            if found is None:
                raise shape_error(f"operands could not be broadcast together with shapes {' '.join(map(shape_text, shapes))}")
            result[k] = found
    return tuple(map(sizes().resolve, result))


def demanded(a: Dim, b: Dim, text: str) -> Dim | None:
    """One of two lengths of which the running function finds out whether they are equal: it raises where they are not. None
    where they certainly are not."""
    a, b = sizes().resolve(a), sizes().resolve(b)
    if sizes().decide(a, "!=", b):
        return None
    emit("raise_if", emit("ne", as_size(a), as_size(b)), exception="ValueError", text=text)
    return b if sizes().is_computed(a) else a


def require_entry(dim: Dim, text: str) -> None:
    """Raises for an empty axis; where the length is computed, the running function does."""
    known = sizes().decide(dim, ">=", 1, here())
    if known is False:
        raise shape_error(text)
    if known is None:
        emit("raise_if", emit("lt", as_size(dim), Literal(1, DType.i64)), exception="ValueError", text=text)


def broadcast_to(x: Operand, dims: Dims) -> Operand:
    """x with its axes repeated to fill `dims`, aligned at the last axis."""
    have, dims = dims_of(x), tuple(map(sizes().resolve, dims))
    if have == dims:
        return x
    offset = len(dims) - len(have)
    if offset < 0:
        raise shape_error(f"an array of shape {shape_text(have)} cannot be broadcast to {shape_text(dims)}")
    kept = []
    for k, dim in enumerate(have):
        if sizes().resolve(dim) != sizes().resolve(dims[offset + k]) and sizes().is_one(dim, here()):
            continue                                        # stretched; records no guard that the other length is not 1
        computed = any(map(sizes().is_computed, (dim, dims[offset + k])))
        if equal(dim, dims[offset + k]):
            kept.append(k)
        elif computed and demanded(dim, dims[offset + k], "operands could not be broadcast together") is not None:
            x = section(x, k, Dim.of(0), dims[offset + k])              # of the same length, as was checked
            kept.append(k)
        else:
            raise shape_error("operands could not be broadcast together with remapped shapes: "
                              f"{shape_text(have)} {shape_text(dims)}")
    dims = tuple(map(sizes().resolve, dims))
    x = reshape_to(x, tuple(dims[offset + k] for k in kept)) if have else x     # drops ones; equal lengths get one text
    if len(kept) == len(dims):
        return x
    result: Operand = emit("broadcast", x, dims=dims, axes=tuple(offset + k for k in kept))
    return result


def broadcast_together(*xs: Operand) -> tuple[Operand, ...]:
    """Operands of one shape; literals stay as they are, since they fit any."""
    dims = broadcast_dims(*(dims_of(x) for x in xs))
    return tuple(x if isinstance(x, Literal) else broadcast_to(x, dims) for x in xs)


def filled(x: Operand, dims: Dims) -> Operand:
    """x broadcast to `dims`, literals too: an operand that really has these axes."""
    return broadcast_to(x, dims)


def reshape_to(x: Operand, dims: Sequence[Dim]) -> Operand:
    """x with other axes of as many entries."""
    dims = tuple(map(sizes().resolve, dims))
    if dims_of(x) == dims:
        return x
    result: Operand = emit("broadcast", x, dims=dims, axes=()) if not x.type.dims else emit("reshape", x, dims=dims)
    return result


# ---------------------------------------------------------------------------------------------------- axes and integers
def as_int(x: Any, what: str = "an axis or count") -> int:
    """A number that must be known at capture; a size becomes a constant."""
    if isinstance(x, Dim):
        return sizes().pin(x, here())
    if isinstance(x, Literal) and not x.dtype.is_float:
        return int(x.value.real)
    if isinstance(x, Value):
        raise unsupported(f"{what} is a traced value, which is not known while the function is captured",
                          "pass it as a Python int")
    return int(np.asarray(x).item()) if not isinstance(x, int) else int(x)


def as_dim(x: Any, what: str = "a size") -> Dim:
    """A size from an int or a traced size."""
    if isinstance(x, Dim):
        return sizes().resolve(x)
    return Dim.of(as_int(x, what))


def is_integer(x: Any) -> bool:
    """Whether an argument is one integer that is known, or a size."""
    if isinstance(x, Literal):
        return x.dtype.is_integer
    return isinstance(x, (Dim, int, np.integer)) and not isinstance(x, (bool, np.bool_))


def normalise_axis(axis: Any, rank: int) -> int:
    """An axis counted from 0; `ShapeError` if there is none such."""
    number = as_int(axis, "an axis")
    if not -rank <= number < rank:
        raise shape_error(f"axis {number} is out of bounds for array of dimension {rank}")
    return number % rank


def normalise_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes meant by None (all), an int or a tuple, increasing."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [normalise_axis(a, rank) for a in given]
    if len(set(axes)) != len(axes):
        raise shape_error("duplicate value in 'axis'")
    return tuple(sorted(axes))


def permuted(x: Operand, order: Sequence[int]) -> Operand:
    """x with its axes in another order."""
    order = tuple(order)
    result: Operand = x if order == tuple(range(len(order))) else emit("transpose", x, permutation=order)
    return result


def iota(dim: Dim, dtype: DType = DType.i64) -> Operand:
    """0, 1, ..., dim-1."""
    result: Operand = emit("iota", dim=sizes().resolve(dim), dtype=dtype)
    return result


def along(x: Operand, axis: int, dims: Dims) -> Operand:
    """A vector laid along one axis of `dims`."""
    result: Operand = emit("broadcast", x, dims=tuple(map(sizes().resolve, dims)), axes=(axis,)) if len(dims) > 1 else x
    return result


def section(x: Operand, axis: int, start: Any, length: Any, step: int = 1) -> Operand:
    """Entries start, start + step, ... along one axis, `length` of them; the caller has checked that they exist."""
    dims, rank = dims_of(x), rank_of(x)
    starts = tuple(sizes().resolve(start) if k == axis else Dim.of(0) for k in range(rank))
    lengths = tuple(sizes().resolve(length) if k == axis else d for k, d in enumerate(dims))
    if starts[axis].constant == 0 and step == 1 and lengths == dims:
        return x
    result: Operand = emit("slice", x, starts=starts, steps=tuple(step if k == axis else 1 for k in range(rank)), dims=lengths)
    return result
