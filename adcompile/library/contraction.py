"""Products: all become sums of products over labelled axes, and those become `contract` ops of two operands."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.core import Operand
from ..ir.dims import Dim
from ..ir.types import DType
from . import elementwise as ew
from .core import (
    as_int,
    as_value,
    broadcast_to,
    cast,
    dims_of,
    emit,
    here,
    permuted,
    promote,
    rank_of,
    refuse,
    reshape_to,
    shape_error,
    shape_text,
    sizes,
    unsupported,
    wanted_dtype,
)
from .indexing import check_shape, diagonal_of, entry
from .reduction import reduced, sum_
from .registry import implements
from .shape import moveaxis, ravel, stack

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Labelled:
    """An operand with one label an axis."""

    value: Operand
    labels: Labels


# ---------------------------------------------------------------------------------------------------- sums of products
def sum_of_products(operands: list[Labelled], out: Labels) -> Operand:
    """The sum over all labels that are not in `out` of the product of the operands; axes of length 1 are repeated."""
    operands = [distinct(x) for x in operands]
    lengths = joint_lengths(operands)
    operands = [without_ones(x, lengths) for x in operands]
    while len(operands) > 1:
        i, j = cheapest_pair(operands, lengths)
        rest = [x for k, x in enumerate(operands) if k not in (i, j)]
        needed = {label for x in rest for label in x.labels} | set(out)
        operands = [*rest, contracted(operands[i], operands[j], needed, out)]
    last = summed(operands[0], set(out))
    present = [label for label in out if label in last.labels]
    result = permuted(last.value, [last.labels.index(label) for label in present])
    if len(present) < len(out):                             # labels all of whose axes have length 1
        result = reshape_to(result, [sizes().resolve(lengths[label]) for label in out])
    return result


def distinct(x: Labelled) -> Labelled:
    """A label that occurs twice in an operand means its diagonal."""
    for label in x.labels:
        if x.labels.count(label) > 1:
            i = x.labels.index(label)
            j = x.labels.index(label, i + 1)
            check_shape((dims_of(x.value)[i],), (dims_of(x.value)[j],), "axes with the same label have different lengths")
            rest = tuple(a for k, a in enumerate(x.labels) if k not in (i, j))
            return distinct(Labelled(diagonal_of(x.value, 0, i, j), (*rest, label)))
    return x


def joint_lengths(operands: list[Labelled]) -> dict[int, Dim]:
    """The length of every label."""
    lengths: dict[int, Dim] = {}
    for x in operands:
        for label, dim in zip(x.labels, dims_of(x.value), strict=True):
            have = lengths.get(label, dim)
            found = sizes().broadcast(have, dim, here())
            if found is None:
                raise shape_error("operands could not be multiplied together: axes that are summed or matched have lengths "
                                  f"{sizes().actual(have)} and {sizes().actual(dim)} in shapes "
                                  + " ".join(shape_text(dims_of(y.value)) for y in operands))
            lengths[label] = found
    return {label: sizes().resolve(dim) for label, dim in lengths.items()}


def without_ones(x: Labelled, lengths: dict[int, Dim]) -> Labelled:
    """The operand without axes of length 1, which contribute nothing; equal lengths get one text."""
    labels = tuple(label for label, d in zip(x.labels, dims_of(x.value), strict=True) if d.constant != 1)
    return Labelled(reshape_to(x.value, [lengths[label] for label in labels]), labels)


def cheapest_pair(operands: list[Labelled], lengths: dict[int, Dim]) -> tuple[int, int]:
    """The two operands whose product takes the fewest multiplications now."""
    def cost(pair: tuple[int, int]) -> int:
        labels = {*operands[pair[0]].labels, *operands[pair[1]].labels}
        return math.prod(sizes().estimate(lengths[label]) for label in labels)
    return min(itertools.combinations(range(len(operands)), 2), key=cost)


def summed(x: Labelled, needed: set[int]) -> Labelled:
    """The operand summed over labels that nobody else needs."""
    axes = tuple(k for k, label in enumerate(x.labels) if label not in needed)
    return Labelled(reduced("reduce_sum", x.value, axes, False), tuple(label for label in x.labels if label in needed))


def contracted(a: Labelled, b: Labelled, needed: set[int], out: Labels) -> Labelled:
    """The product of two operands, summed over what nobody else needs; the labels of the result as in `out` where possible."""
    a, b = summed(a, needed | set(b.labels)), summed(b, needed | set(a.labels))
    joint = [*a.labels, *(label for label in b.labels if label not in a.labels)]
    kept = [label for label in joint if label in needed]
    if set(kept) <= set(out):
        kept.sort(key=out.index)
    if a.labels == b.labels == tuple(kept) or not a.labels or not b.labels:
        return product(a, b)
    value = emit("contract", a.value, b.value, a_labels=a.labels, b_labels=b.labels, out_labels=tuple(kept))
    return Labelled(value, tuple(kept))


def product(a: Labelled, b: Labelled) -> Labelled:
    """The elementwise product; one of the two may be a number."""
    return Labelled(ew.multiply(a.value, b.value), a.labels or b.labels)


def multiplied(dtype: Any, *xs: Any) -> list[Operand]:
    """Operands in one dtype that can be multiplied and added."""
    wanted = wanted_dtype(dtype)
    values = list(promote(*map(as_value, xs))) if wanted is None else [as_value(x, wanted) for x in xs]
    if values[0].type.dtype is DType.bool:
        raise unsupported("matrix products of booleans are not supported", "convert them with astype(int)")
    return values


# ---------------------------------------------------------------------------------------------------- einsum
@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **keywords: Any) -> Operand:
    """np.einsum, contracted pairwise in a cheap order."""
    refuse("np.einsum", out=(out, None))
    if operands and isinstance(operands[0], str):
        subscripts, arrays = operands[0].replace(" ", ""), operands[1:]
        inputs, arrow, result = subscripts.partition("->")
        terms = [letters(term) for term in inputs.split(",")]
        wanted = letters(result) if arrow else None
    else:
        arrays, given = operands[:len(operands) // 2 * 2:2], operands[1::2]
        terms = [sublist(g) for g in given]
        wanted = sublist(operands[-1]) if len(operands) % 2 else None
    if len(terms) != len(arrays):
        raise shape_error(f"einsum: {len(terms)} subscripts for {len(arrays)} operands")
    return labelled_einsum(multiplied(dtype, *arrays), terms, wanted)


def letters(term: str) -> list[Any]:
    """The labels of a subscript string, Ellipsis for its dots."""
    before, dots, after = term.partition("...")
    if not all(c.isalpha() for c in before + after):
        raise shape_error(f"einsum: {term!r} is not a list of letters")
    return [*before, *([...] if dots else []), *after]


def sublist(given: Any) -> list[Any]:
    """The labels of the list form of einsum."""
    return [... if g is Ellipsis else as_int(g) for g in given]


def labelled_einsum(arrays: list[Operand], terms: list[list[Any]], wanted: list[Any] | None) -> Operand:
    """einsum with labels of any kind."""
    numbers: dict[Any, int] = {}
    longest = 0
    operands = []
    for x, term in zip(arrays, terms, strict=True):
        extra = rank_of(x) - sum(t is not ... for t in term)
        if extra < 0 or (extra > 0 and ... not in term):
            raise shape_error(f"einsum: an operand of shape {shape_text(dims_of(x))} has {rank_of(x)} axes, its subscripts name "
                              f"{sum(t is not ... for t in term)}")
        longest = max(longest, extra)
        names = [n for t in term for n in ([("...", extra - k) for k in range(extra)] if t is ... else [t])]
        operands.append(Labelled(x, tuple(numbers.setdefault(n, len(numbers)) for n in names)))
    dots = [("...", longest - k) for k in range(longest)]
    if wanted is None:
        flat = [t for term in terms for t in term if t is not ...]
        wanted = [..., *sorted(t for t in set(flat) if flat.count(t) == 1)]
    names = [n for t in wanted for n in (dots if t is ... else [t])]
    if len(set(names)) != len(names) or any(n not in numbers for n in names):
        raise shape_error("einsum: the output names a label twice, or one that no operand has")
    return sum_of_products(operands, tuple(numbers[n] for n in names))


# ---------------------------------------------------------------------------------------------------- products by name
@implements(np.matmul, operator.matmul)
def matmul(a: Any, b: Any, out: Any = None, dtype: Any = None, **keywords: Any) -> Operand:
    """a @ b, all ranks."""
    refuse("np.matmul", out=(out, None))
    x, y = multiplied(dtype, a, b)
    m, n = rank_of(x), rank_of(y)
    if not m or not n:
        raise shape_error("matmul: Input operand does not have enough dimensions (has 0, requires at least 1)",
                          "use * for numbers")
    inner_x, inner_y = dims_of(x)[-1], dims_of(y)[-2 if n > 1 else -1]
    if not sizes().equal(inner_x, inner_y, here()):
        raise shape_error(f"matmul: Input operand 1 has a mismatch in its core dimension 0: shapes {shape_text(dims_of(x))} "
                          f"and {shape_text(dims_of(y))} (size {sizes().actual(inner_y)} is different from "
                          f"{sizes().actual(inner_x)})")
    batch = max(m, n, 2) - 2
    row, column, inner = batch, batch + 1, batch + 2
    x_labels = (*range(batch - m + 2, batch), row, inner) if m > 1 else (inner,)
    y_labels = (*range(batch - n + 2, batch), inner, column) if n > 1 else (inner,)
    out_labels = (*range(batch), *([row] if m > 1 else []), *([column] if n > 1 else []))
    return sum_of_products([Labelled(x, x_labels), Labelled(y, y_labels)], out_labels)


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Operand:
    """np.dot."""
    refuse("np.dot", out=(out, None))
    x, y = multiplied(None, a, b)
    if not rank_of(x) or not rank_of(y):
        return ew.multiply(x, y)
    axis = max(rank_of(y) - 2, 0)
    check_inner(x, y, rank_of(x) - 1, axis)
    return tensordot(x, y, ((rank_of(x) - 1,), (axis,)))


def check_inner(x: Operand, y: Operand, i: int, j: int) -> None:
    """Raises unless axis i of x is as long as axis j of y."""
    a, b = dims_of(x)[i], dims_of(y)[j]
    if not sizes().equal(a, b, here()):
        raise shape_error(f"shapes {shape_text(dims_of(x))} and {shape_text(dims_of(y))} not aligned: "
                          f"{sizes().actual(a)} (dim {i}) != {sizes().actual(b)} (dim {j})")


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Operand:
    """np.tensordot."""
    x, y = multiplied(None, a, b)
    m, n = rank_of(x), rank_of(y)
    if isinstance(axes, (tuple, list)):
        first, second = (tuple(g) if isinstance(g, (tuple, list)) else (g,) for g in axes)
    else:
        count = as_int(axes)
        first, second = tuple(range(m - count, m)), tuple(range(count))
    left, right = [as_int(k) % m for k in first], [as_int(k) % n for k in second]
    if len(left) != len(right):
        raise shape_error("shape-mismatch for sum")
    for i, j in zip(left, right, strict=True):
        if not sizes().equal(dims_of(x)[i], dims_of(y)[j], here()):
            raise shape_error(f"shape-mismatch for sum: {shape_text(dims_of(x))} and {shape_text(dims_of(y))} "
                              f"over axes {left}, {right}")
    y_labels = tuple(left[right.index(k)] if k in right else m + k for k in range(n))
    out = (*(k for k in range(m) if k not in left), *(m + k for k in range(n) if k not in right))
    return sum_of_products([Labelled(x, tuple(range(m))), Labelled(y, y_labels)], out)


@implements(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, out: Any = None) -> Operand:
    """np.outer."""
    refuse("np.outer", out=(out, None))
    x, y = multiplied(None, a, b)
    return sum_of_products([Labelled(ravel(x), (0,)), Labelled(ravel(y), (1,))], (0, 1))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Operand:
    """np.inner."""
    x, y = multiplied(None, a, b)
    if not rank_of(x) or not rank_of(y):
        return ew.multiply(x, y)
    check_inner(x, y, rank_of(x) - 1, rank_of(y) - 1)
    return tensordot(x, y, ((rank_of(x) - 1,), (rank_of(y) - 1,)))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Operand:
    """np.vdot."""
    x, y = multiplied(None, a, b)
    return dot(ravel(x), ravel(y))


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Operand:
    """np.vecdot."""
    x, y = multiplied(None, x1, x2)
    check_inner(x, y, as_int(axis) % rank_of(x), as_int(axis) % rank_of(y))
    return sum_(ew.multiply(x, y), axis)


@implements(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Operand:
    """Matrices times vectors."""
    return labelled_einsum(multiplied(None, x1, x2), [[..., "i", "j"], [..., "j"]], [..., "i"])


@implements(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Operand:
    """Vectors times matrices."""
    return labelled_einsum(multiplied(None, x1, x2), [[..., "i"], [..., "i", "j"]], [..., "j"])


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Operand:
    """np.linalg.matmul."""
    return matmul(x1, x2)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Operand:
    """np.linalg.multi_dot, in a cheap order."""
    refuse("np.linalg.multi_dot", out=(out, None))
    values = multiplied(None, *arrays)
    last = len(values) - 1
    operands = []
    for k, x in enumerate(values):
        ends = rank_of(x) == 1
        if rank_of(x) > 2 or (ends and 0 < k < last):
            raise shape_error("multi_dot takes matrices; only the first and the last array may be vectors")
        labels = ((k + 1,) if k == 0 else (k,)) if ends else (k, k + 1)
        operands.append(Labelled(x, labels))
    out_labels = (*([0] if rank_of(values[0]) == 2 else []), *([last + 1] if rank_of(values[-1]) == 2 else []))
    for a, b in itertools.pairwise(operands):
        check_inner(a.value, b.value, rank_of(a.value) - 1, 0)
    return sum_of_products(operands, out_labels)


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Operand:
    """np.linalg.matrix_power with a known exponent >= 1."""
    x, count = as_value(a), as_int(n, "the exponent")
    if count < 1:
        raise unsupported("np.linalg.matrix_power with an exponent below 1 is not supported")
    result: Operand | None = None
    square: Operand | None = None
    for bit in reversed(f"{count:b}"):
        square = x if square is None else matmul(square, square)
        if bit == "1":
            result = square if result is None else matmul(result, square)
    assert result is not None
    return result


@implements(np.kron)
def kron(a: Any, b: Any) -> Operand:
    """np.kron."""
    x, y = multiplied(None, a, b)
    rank = max(rank_of(x), rank_of(y))
    left, right = ((*[Dim.of(1)] * (rank - rank_of(v)), *dims_of(v)) for v in (x, y))
    x = reshape_to(x, [d for pair in zip(left, [Dim.of(1)] * rank, strict=True) for d in pair])
    y = reshape_to(y, [d for pair in zip([Dim.of(1)] * rank, right, strict=True) for d in pair])
    return reshape_to(ew.multiply(x, y), [m * n for m, n in zip(left, right, strict=True)])


@implements(np.cross, np.linalg.cross)
def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Operand:
    """np.cross of vectors with three entries (or two, giving a number)."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = multiplied(None, a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    lengths = [sizes().pin(dims_of(v)[-1], here()) for v in (x, y)]
    if any(n not in (2, 3) for n in lengths):
        raise shape_error("incompatible dimensions for cross product (dimension must be 2 or 3)")
    p, q = ([entry(v, rank_of(v) - 1, k) for k in range(n)] for v, n in zip((x, y), lengths, strict=True))
    third = ew.subtract(ew.multiply(p[0], q[1]), ew.multiply(p[1], q[0]))
    if lengths == [2, 2]:
        return third
    p, q = (v if len(v) == 3 else [*v, cast(as_value(0), x.type.dtype)] for v in (p, q))
    parts = [ew.subtract(ew.multiply(p[1], q[2]), ew.multiply(p[2], q[1])),
             ew.subtract(ew.multiply(p[2], q[0]), ew.multiply(p[0], q[2])), third]
    return moveaxis(stack([broadcast_to(v, dims_of(third)) for v in parts], -1), -1, axisc)

