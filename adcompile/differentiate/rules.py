"""From a row of the op table to derivative code. Broadcasting is explicit in the IR, so what is left to do here, once
and for all ops, is: literal partials cost nothing, products keep strong zeros, casts, and tangents of linear ops.

`strong_mul(ct, p)` is 0 where either factor is 0. It is used where a zero cotangent may meet a partial that is not
finite: for a cotangent that is *maskable* (some operation below may have set entries of it to zero) and for a row that is
`singular` (sqrt: its partial is infinite at 0, where the value is finite). All other products are plain.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DifferentiationError
from ..ir.boxes import ZERO, Box, in_both
from ..ir.builder import current_builder
from ..ir.core import Literal, Operand, Operation, Value, apply
from ..ir.dims import Dim
from ..ir.op import TABLE, Op
from ..ir.types import Type
from .activity import carries_derivative

ONE = Dim.of(1)


@dataclass(frozen=True)
class Cotangent:
    """A cotangent on its way down; `maskable`: entries of it may be strong zeros, except in the parts `sure`."""

    value: Operand
    maskable: bool = False
    sure: tuple[Box, ...] = ()

    @property
    def without_zeros(self) -> tuple[Box, ...]:
        """The parts where no entry is a strong zero."""
        return self.sure if self.maskable else (Box.whole(self.value.type.dims),)


def number_of(x: Any) -> float | complex | None:
    """The number that a partial is, None for a Value."""
    if isinstance(x, Value):
        return None
    return x.value if isinstance(x, Literal) else x


def scaled(x: Operand, number: Any) -> Operand | None:
    """x * number, without an operation where the number is 1, and with nothing at all where it is 0."""
    if number == 0:
        return None
    if number == 1:
        return x
    result: Operand = -x if number == -1 else apply("mul", number, x)
    return result


def product(factor: Operand, partial: Any, strong: bool) -> Operand | None:
    """A tangent or cotangent times a partial; None where the partial is the number 0."""
    number = number_of(partial)
    if number is not None and (not strong or cmath.isfinite(number) or isinstance(factor, Literal)):
        return scaled(factor, number)
    if isinstance(factor, Literal):
        return scaled(partial, factor.value)
    if isinstance(partial, Value) and factor.type.rank > partial.type.rank:
        partial = spread_scalar(partial, factor.type)
    result: Operand = apply("strong_mul" if strong else "mul", factor, partial)
    return result


def spread_scalar(x: Operand, type: Type) -> Operand:
    """A scalar in every entry of an array."""
    result: Operand = current_builder().emit("broadcast", (x,), {"dims": type.dims, "axes": ()})
    return result


def zeros(type: Type) -> Operand:
    """Zeros of a type: a literal for a scalar."""
    zero = Literal(0.0, type.dtype)
    return spread_scalar(zero, type) if type.dims else zero


def transpose_of(row: Op, index: int, count: int) -> Callable[..., Any] | None:
    """The transpose for operand `index` of `count`; a row may count from the end, as scatter_add's updates."""
    found = row.transpose.get(index)
    return found if found is not None else row.transpose.get(index - count)


def check_differentiable(row: Op, operation: Operation) -> None:
    """Refuse rows that state no derivative."""
    if not (row.partials or row.transpose or row.vjp):
        raise DifferentiationError(f"{row.name} has no derivative" + (f": {row.why}" if row.why else ""), operation.location,
                                   "If its result is to count as a constant, write ad.stop_gradient(...) around it.")


def is_singular(row: Op, operation: Operation) -> bool:
    """Whether a partial may be infinite where the value is finite: as the row says, but never of a power that is written
    with an exponent of 1 or more."""
    exponent = operation.operands[-1]
    return row.singular and not (row.name == "pow" and isinstance(exponent, Literal) and exponent.value.real >= 1)


# ---------------------------------------------------------------------------------------------------- reverse
def pull_back(operation: Operation, cotangents: Sequence[Cotangent | None], wanted: Sequence[bool],
              place: Callable[[Operand], Dim | None] = lambda index: None) -> list[Cotangent | None]:
    """The contributions of an operation to the cotangents of its operands, where they are wanted.
    `cotangents`: one per result, None where nothing arrived; `place`: an index as a polynomial."""
    row = TABLE[operation.op]
    check_differentiable(row, operation)
    arrived = [ct for ct in cotangents if ct is not None]
    maskable = row.masking or is_singular(row, operation) or any(ct.maskable for ct in arrived)
    values = pull_back_values(row, operation, cotangents, wanted)
    return [moved(operation, k, arrived[0], Cotangent(value, maskable), place) if value is not None and want else None
            for k, (value, want) in enumerate(zip(values, wanted, strict=True))]


def moved(operation: Operation, k: int, ct: Cotangent, contribution: Cotangent,
          place: Callable[[Operand], Dim | None]) -> Cotangent:
    """The contribution to operand k. Of operations that move entries, it is known in which parts of it strong zeros are."""
    value = contribution.value
    if operation.op == "concat":
        offset = sum((x.type.dims[operation.attributes["axis"]] for x in operation.operands[:k]), ZERO)
        starts = tuple(offset if a == operation.attributes["axis"] else ZERO for a in range(value.type.rank))
        return part_of(ct, Box(starts, value.type.dims), value)
    box = place_of(operation, place)
    if box is None:
        return contribution
    if operation.op == "pad":
        return part_of(ct, box, value)
    if operation.op == "slice":
        return Cotangent(value, True, tuple(box.part(sure.starts, sure.dims) for sure in ct.without_zeros))
    if operation.op == "gather":
        return Cotangent(value, True, () if ct.maskable else (box,))
    if k == 0:                                                              # an assignment: what is left of the base
        dims = value.type.dims
        return Cotangent(value, True, tuple(part for sure in ct.without_zeros for part in sure.without(box, dims)))
    return part_of(ct, box, value)


def part_of(ct: Cotangent, box: Box, value: Operand) -> Cotangent:
    """A cotangent that is a part of another one."""
    sure = in_both((box,), ct.without_zeros, ct.value.type.dims)
    if box in sure or value.type.rank != len(box.dims):
        return Cotangent(value, box not in sure)
    return Cotangent(value, True, tuple(part.part([-s for s in box.starts], part.dims) for part in sure))


def place_of(operation: Operation, place: Callable[[Operand], Dim | None]) -> Box | None:
    """The part of its first operand (or of a pad's result) that an operation reads or sets, if it is one part and known."""
    a = operation.attributes
    if operation.op in ("slice", "pad") or operation.op == "slice_set" and not a["axes"]:
        dims = operation.operands[0].type.dims if operation.op == "pad" else a["dims"]
        return Box(tuple(a["starts"]), tuple(dims)) if set(a["steps"]) <= {1} else None
    if operation.op not in ("gather", "scatter_set"):
        return None
    array = operation.operands[0].type
    places = {axis: None if i.type.dims else place(i) for axis, i in zip(a["axes"], operation.operands[1:], strict=False)}
    if None in places.values():
        return None
    starts = tuple(places.get(k) or ZERO for k in range(array.rank))
    return Box(starts, tuple(ONE if k in places else d for k, d in enumerate(array.dims)))


def pull_back_values(row: Op, operation: Operation, cotangents: Sequence[Cotangent | None],
                     wanted: Sequence[bool]) -> Sequence[Operand | None]:
    """The contributions, as a row of any kind states them."""
    operands, attributes = operation.operands, operation.attributes
    if row.vjp is not None:
        cts = tuple(None if ct is None else ct.value for ct in cotangents)
        single = len(operation.results) == 1
        values: Sequence[Operand | None] = row.vjp(cts[0] if single else cts, operation.result if single else operation.results,
                                                   *operands, **attributes)
        return values
    (ct,) = cotangents
    assert ct is not None
    if row.partials is not None:
        strong = ct.maskable or is_singular(row, operation) or row.masking
        return [product(ct.value, partial, strong) if want and partial is not None else None
                for partial, want in zip(row.partials(operation.result, *operands, **attributes), wanted, strict=True)]
    contributions: list[Operand | None] = [None] * len(operands)
    for index in reversed(range(len(operands))):            # updates before bases: read a cotangent before it is overwritten
        transpose = transpose_of(row, index, len(operands)) if wanted[index] else None
        contributions[index] = None if transpose is None else transpose(ct.value, *operands, **attributes)
    return contributions


# ---------------------------------------------------------------------------------------------------- forward
def push_forward(operation: Operation, tangents: Sequence[Operand | None]) -> Sequence[Operand | None]:
    """The tangents of an operation's results. `tangents`: one per operand, None for an inactive one."""
    row = TABLE[operation.op]
    check_differentiable(row, operation)
    if row.jvp is not None:
        result = row.jvp(tuple(tangents), operation.result if len(operation.results) == 1 else operation.results,
                         *operation.operands, **operation.attributes)
        return result if isinstance(result, tuple) else (result,)
    if row.partials is not None:
        partials = row.partials(operation.result, *operation.operands, **operation.attributes)
        strong = is_singular(row, operation) or row.masking
        terms = [product(t, p, strong) for t, p in zip(tangents, partials, strict=True) if t is not None and p is not None]
        return (total(terms),)
    return (push_forward_linear(row, operation, tangents),)


def push_forward_linear(row: Op, operation: Operation, tangents: Sequence[Operand | None]) -> Operand | None:
    """A linear op's tangent is the op itself: on all tangents at once where it is jointly linear, else on one at a time."""
    count = len(operation.operands)
    linear = [transpose_of(row, i, count) is not None for i in range(count)]
    if row.joint:
        operands = [tangent_or_zero(x, t) if use else x
                    for x, t, use in zip(operation.operands, tangents, linear, strict=True)]
        result: Operand = row(*operands, **operation.attributes)
        return result
    terms: list[Operand | None] = []
    for i, tangent in enumerate(tangents):
        if tangent is not None and linear[i]:
            terms.append(row(*operation.operands[:i], tangent, *operation.operands[i + 1:], **operation.attributes))
    return total(terms)


def tangent_or_zero(x: Operand, tangent: Operand | None) -> Operand:
    """The tangent, or zeros of the operand's type."""
    return zeros(x.type) if tangent is None else tangent


def total(terms: Sequence[Operand | None]) -> Operand | None:
    """The sum of the terms that are there, left to right."""
    result: Operand | None = None
    for term in terms:
        if term is not None:
            result = term if result is None else result + term
    return result


def wanted_operands(operation: Operation, active: set[Value]) -> list[bool]:
    """Which operands are to get a cotangent."""
    return [isinstance(x, Value) and x in active and carries_derivative(x) for x in operation.operands]
