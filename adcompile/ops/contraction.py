"""The one contraction: einsum, matmul, tensordot and dot all lower to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.core import Operand
from ..ir.dims import Dim
from ..ir.op import Op
from ..ir.types import Type
from .op import linear

Labels = tuple[int, ...]


def contract_type(a: Type, b: Type, *, a_labels: Labels, b_labels: Labels, out_labels: Labels) -> Type:
    """One label an axis; labels that occur twice have one length; every label occurs in two of the three at least."""
    if a.dtype is not b.dtype:
        raise TypeError(f"a contraction of mixed dtypes {a}, {b}")
    for labels, rank in ((a_labels, a.rank), (b_labels, b.rank), (out_labels, len(out_labels))):
        if len(labels) != rank or len(set(labels)) != rank:
            raise ShapeError(f"labels {labels} for {rank} axes")
    lengths = dict(zip(a_labels, a.dims, strict=True))
    for label, d in zip(b_labels, b.dims, strict=True):
        if lengths.setdefault(label, d) != d:
            raise ShapeError(f"a contraction of {a} and {b} over axes of lengths {lengths[label]} and {d}")
    for label in {*a_labels, *b_labels, *out_labels}:
        if (label in a_labels) + (label in b_labels) + (label in out_labels) < 2:
            raise ShapeError(f"label {label} occurs only once in {a_labels}, {b_labels} -> {out_labels}")
    return a.with_dims(tuple(lengths[label] for label in out_labels))


def contract_reference(a: Any, b: Any, *, a_labels: Labels, b_labels: Labels, out_labels: Labels) -> Any:
    """The sum over all labels that are not in `out_labels`."""
    names = {label: k for k, label in enumerate(sorted({*a_labels, *b_labels}))}      # einsum takes labels below 52
    numbered = [[names[label] for label in labels] for labels in (a_labels, b_labels, out_labels)]
    return np.asarray(np.einsum(a, numbered[0], b, numbered[1], numbered[2], optimize=True))


def transpose_a(ct: Operand, a: Operand, b: Operand, *, a_labels: Labels, b_labels: Labels, out_labels: Labels) -> Operand:
    """A contraction again: of the cotangent and b."""
    result: Operand = contract(ct, b, a_labels=out_labels, b_labels=b_labels, out_labels=a_labels)
    return result


def transpose_b(ct: Operand, a: Operand, b: Operand, *, a_labels: Labels, b_labels: Labels, out_labels: Labels) -> Operand:
    """A contraction again: of a and the cotangent."""
    result: Operand = contract(a, ct, a_labels=a_labels, b_labels=out_labels, out_labels=b_labels)
    return result


def contract_flops(operands: tuple[Operand, ...], result: Type, attributes: Mapping[str, Labels]) -> Dim:
    """A product and a sum for each combination of indices; no sum where none is summed over."""
    labels = (*attributes["a_labels"], *attributes["b_labels"])
    lengths = dict(zip(labels, (*operands[0].type.dims, *operands[1].type.dims), strict=True))
    count = Dim.of(1 if set(lengths) == set(attributes["out_labels"]) else 2)
    for length in lengths.values():
        count = count * length
    return count


contract: Op = linear("contract", contract_reference, contract_type, {0: transpose_a, 1: transpose_b}, cost=2,
                      flops=contract_flops)
