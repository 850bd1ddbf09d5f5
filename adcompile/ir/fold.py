"""Operations on literals alone, computed when they are built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .analysis import all_values
from .builder import Builder
from .core import Block, Function, Literal, Location, Operand
from .op import TABLE, as_operands, literal_like
from .sizes import Sizes


def fold_literals(op: str, operands: tuple[Operand, ...], attributes: Mapping[str, Any]) -> Literal | None:
    """The result of an op of scalars whose operands are all literals, computed by the row's reference; None for others."""
    row = TABLE[op]
    if not operands or row.reference is None or row.kind == "control" or not set(attributes) <= {"dtype"}:
        return None
    if not all(isinstance(x, Literal) for x in operands):
        return None
    inferred = row.infer(*[x.type for x in operands], **attributes)
    if isinstance(inferred, tuple) or inferred.dims:
        return None
    numbers = [x.dtype.numpy.type(x.value) for x in operands if isinstance(x, Literal)]
    with np.errstate(all="ignore"):
        result = np.asarray(row.reference(*numbers, **attributes)).astype(inferred.dtype.numpy).item()
    return literal_like(result, inferred.dtype)


class FoldingBuilder(Builder):
    """A builder that appends to a finished function and computes operations on literals instead of emitting them."""

    def __init__(self, function: Function, sizes: Sizes | None = None) -> None:
        super().__init__(function.name, sizes)
        self.taken = {value.name: 0 for value in all_values(function)}

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def emit(self, op: str, operands: tuple[Any, ...], attributes: Mapping[str, Any] | None = None, *,
             name: str = "", regions: tuple[Block, ...] = (), location: Location | None = None) -> Any:
        """As `Builder.emit`; the result is a Literal where all operands are."""
        inputs = as_operands(operands)
        folded = None if regions else fold_literals(op, inputs, attributes or {})
        if folded is not None:
            return folded
        return super().emit(op, inputs, attributes, name=name, regions=regions, location=location)
