"""Structural ops: where elements are, not what they are. All linear; all index maps for the scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.core import ArrayConstant, Operand
from ..ir.dims import Dim
from ..ir.op import Op
from ..ir.types import DType, Type
from .op import linear, nondifferentiable, number, rule


def zeros_like(x: Operand) -> Operand:
    """Zeros of an operand's type."""
    return spread(number(0.0, x), x.type.dims)


def spread(x: Operand, dims: tuple[Dim, ...]) -> Operand:
    """A scalar in every entry of an array of these dims."""
    result: Operand = broadcast(x, dims=dims, axes=()) if dims else x
    return result


def other_axes(rank: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that are not in `axes`, in order."""
    return tuple(k for k in range(rank) if k not in axes)


def differ(a: Dim, b: Dim) -> bool:
    """Whether two sizes differ for all values of the symbols."""
    return (a - b).constant not in (None, 0)


def check_axes(axes: tuple[int, ...], rank: int) -> None:
    """Axes must be increasing and exist."""
    if any(not 0 <= a < rank for a in axes) or list(axes) != sorted(set(axes)):
        raise ShapeError(f"axes {axes} of an operand with {rank} axes")


# ---------------------------------------------------------------------------------------------------- broadcast
def broadcast_type(x: Type, *, dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Type:
    """`dims`; the operand's axes must have the lengths of those they become."""
    check_axes(axes, len(dims))
    if len(axes) != x.rank or any(dims[a] != d for a, d in zip(axes, x.dims, strict=True)):
        raise ShapeError(f"{x} cannot become axes {axes} of ({', '.join(map(str, dims))})")
    return x.with_dims(dims)


def broadcast_reference(x: Any, *, dims: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The operand's axis k becomes axis axes[k]; along all others it is repeated."""
    shape = [1] * len(dims)
    for axis, length in zip(axes, np.shape(x), strict=True):
        shape[axis] = length
    return np.broadcast_to(np.reshape(x, shape), dims)


def sum_new_axes(ct: Operand, x: Operand, *, dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Operand:
    """The transpose of broadcast."""
    from .reduction import reduce_sum
    summed = other_axes(len(dims), axes)
    result: Operand = reduce_sum(ct, axes=summed) if summed else ct
    return result


broadcast: Op = linear("broadcast", broadcast_reference, broadcast_type, {0: sum_new_axes}, cost=0)


# ---------------------------------------------------------------------------------------------------- reshape, transpose
def size_of(dims: tuple[Dim, ...]) -> Dim:
    """The number of elements."""
    total = Dim.of(1)
    for d in dims:
        total = total * d
    return total


def reshape_type(x: Type, *, dims: tuple[Dim, ...]) -> Type:
    """`dims`, with as many elements as the operand has."""
    if differ(size_of(dims), size_of(x.dims)):
        raise ShapeError(f"cannot reshape {x} into ({', '.join(map(str, dims))})")
    return x.with_dims(dims)


def transpose_type(x: Type, *, permutation: tuple[int, ...]) -> Type:
    """The operand's dims, permuted."""
    if sorted(permutation) != list(range(x.rank)):
        raise ShapeError(f"{permutation} does not permute the axes of {x}")
    return x.with_dims(tuple(x.dims[k] for k in permutation))


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(permutation.index(k) for k in range(len(permutation)))


reshape: Op = linear("reshape", lambda x, *, dims: np.reshape(x, dims), reshape_type,
                     {0: lambda ct, x, *, dims: reshape(ct, dims=x.type.dims)}, cost=0)
transpose: Op = linear("transpose", lambda x, *, permutation: np.transpose(x, permutation), transpose_type,
                       {0: lambda ct, x, *, permutation: transpose(ct, permutation=inverse(permutation))}, cost=0)


# ---------------------------------------------------------------------------------------------------- slice, pad, concat
def check_steps(x: Type, starts: tuple[Dim, ...], steps: tuple[int, ...], dims: tuple[Dim, ...]) -> None:
    """One start, step and length an axis; no step is 0."""
    if not x.rank == len(starts) == len(steps) == len(dims) or 0 in steps:
        raise ShapeError(f"starts {starts} and steps {steps} do not fit {x}")


def slice_type(x: Type, *, starts: tuple[Dim, ...], steps: tuple[int, ...], dims: tuple[Dim, ...]) -> Type:
    """`dims`."""
    check_steps(x, starts, steps, dims)
    return x.with_dims(dims)


def pad_type(x: Type, *, starts: tuple[Dim, ...], steps: tuple[int, ...], dims: tuple[Dim, ...]) -> Type:
    """`dims`."""
    check_steps(x, starts, steps, dims)
    return x.with_dims(dims)


def strided(start: int, step: int, count: int, length: int) -> slice:
    """The Python slice that takes `count` entries from `start` on; all must exist."""
    last = start + step * (count - 1)
    if count == 0:
        return slice(0, 0)
    if not (0 <= start < length and 0 <= last < length):
        raise IndexError(f"entries {start} to {last} of an axis of length {length}")
    stop = last + (1 if step > 0 else -1)
    return slice(start, stop if stop >= 0 else None, step)


def slice_reference(x: Any, *, starts: tuple[int, ...], steps: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """y[i] = x[start + step * i] along every axis."""
    x = np.asarray(x)
    return x[tuple(map(strided, starts, steps, dims, x.shape))]


def pad_reference(x: Any, *, starts: tuple[int, ...], steps: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """Zeros, with y[start + step * i] = x[i] along every axis."""
    x = np.asarray(x)
    y = np.zeros(dims, x.dtype)
    y[tuple(map(strided, starts, steps, x.shape, dims))] = x
    return y


slice_: Op = linear("slice", slice_reference, slice_type,
                    {0: lambda ct, x, *, starts, steps, dims: pad(ct, starts=starts, steps=steps, dims=x.type.dims)}, cost=0,
                    masking=True)
pad: Op = linear("pad", pad_reference, pad_type,
                 {0: lambda ct, x, *, starts, steps, dims: slice_(ct, starts=starts, steps=steps, dims=x.type.dims)})


def concat_type(*xs: Type, axis: int) -> Type:
    """The lengths along `axis` add up; all other lengths agree."""
    first = xs[0]
    check_axes((axis,), first.rank)
    for x in xs:
        if x.dtype is not first.dtype:
            raise TypeError(f"a concatenation of mixed dtypes {', '.join(map(str, xs))}")
        if x.rank != first.rank or any(a != b for k, (a, b) in enumerate(zip(x.dims, first.dims, strict=True)) if k != axis):
            raise ShapeError(f"a concatenation along axis {axis} of {', '.join(map(str, xs))}")
    length = Dim.of(0)
    for x in xs:
        length = length + x.dims[axis]
    return first.with_dims((*first.dims[:axis], length, *first.dims[axis + 1:]))


def concat_vjp(ct: Operand, y: Operand, *xs: Operand, axis: int) -> tuple[Operand, ...]:
    """Every operand's part of the cotangent."""
    start, parts = Dim.of(0), []
    for x in xs:
        starts = tuple(start if k == axis else Dim.of(0) for k in range(x.type.rank))
        parts.append(slice_(ct, starts=starts, steps=(1,) * x.type.rank, dims=x.type.dims))
        start = start + x.type.dims[axis]
    return tuple(parts)


def concat_jvp(tangents: tuple[Operand | None, ...], y: Operand, *xs: Operand, axis: int) -> Operand:
    """The tangents, zeros where there is none."""
    result: Operand = concat(*(zeros_like(x) if t is None else t for x, t in zip(xs, tangents, strict=True)), axis=axis)
    return result


concat: Op = rule("concat", lambda *xs, axis: np.concatenate(xs, axis), concat_type, vjp=concat_vjp, jvp=concat_jvp,
                  why="the number of operands is open")


# ---------------------------------------------------------------------------------------------------- made from nothing
def extent_type(n: Type, *, symbol: str) -> Type:
    """An i64. From here on `symbol` is the size max(n, 0), so that arrays may have a length that is known only when the
    function runs."""
    if n != Type(DType.i64) or not symbol.isidentifier():
        raise TypeError(f"a size {symbol!r} from {n}")
    return n


def constant_reference(*, value: ArrayConstant) -> Any:
    """The array."""
    return np.frombuffer(value.data, value.dtype.numpy).reshape(value.shape)


CONSTANT = "does not depend on anything"
iota: Op = nondifferentiable("iota", lambda *, dim, dtype: np.arange(dim, dtype=dtype.numpy),
                             infer=lambda *, dim, dtype: Type(dtype, (dim,)), why=CONSTANT, cost=0)
size: Op = nondifferentiable("size", lambda *, dim: np.int64(dim), infer=lambda *, dim: Type(DType.i64), why=CONSTANT, cost=0)
extent: Op = nondifferentiable("extent", lambda n, *, symbol: np.maximum(np.int64(n), 0), infer=extent_type, why="integers",
                               cost=0)
constant: Op = nondifferentiable("constant", constant_reference, infer=lambda *, value: Type.of(value.dtype, *value.shape),
                                 why=CONSTANT, cost=0)
