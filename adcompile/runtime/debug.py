"""`debug=True`: the reference interpreter in place of machine code, with every intermediate checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import GuardError
from ..ir.core import Function, Operation
from ..ir.interpreter import interpret


class NonFiniteError(GuardError, FloatingPointError):
    """Under `debug=True`: an operation made the first NaN or infinity."""


class InterpretedModule:
    """Has the shape of a `CompiledModule`; runs the graph with NumPy and stops at the first NaN or infinity."""

    loaded_from_cache = False
    direct = False
    sharing = None
    seconds = 0.0

    def __init__(self, function: Function, source: str, gradients: int) -> None:
        self.function, self.source, self.gradients = function, source, gradients
        self.name = function.name
        self.called = self.entry

    def entry(self, *params: Any) -> tuple[Any, ...]:
        """All results, scalars as Python numbers."""
        return tuple(r.item() if np.ndim(r) == 0 and hasattr(r, "item") else r
                     for r in interpret(self.function, params, observe=check_finite))

    def kernel(self, *params_and_buffers: Any) -> Any:
        """The primal results; gradients go into the buffers at the end."""
        params = params_and_buffers[:-self.gradients]
        results = self.entry(*params)
        for buffer, gradient in zip(params_and_buffers[-self.gradients:], results[-self.gradients:]):
            buffer[...] = gradient
        primal = results[:-self.gradients]
        return primal if len(primal) > 1 else primal[0]


def check_finite(operation: Operation, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Raise if an operation made a NaN or infinity out of finite operands, naming the user's line."""
    for value, result in zip(results, operation.results):
        if not finite(value) and all(map(finite, operands)):
            kind = "NaN" if np.any(np.isnan(value)) else "infinity"
            raise NonFiniteError(f"{operation.op} made the first {kind}: %{result.name}", operation.location,
                                 "Run without debug=True to let NaN and infinity pass, as NumPy does.")


def finite(value: Any) -> bool:
    """Whether all entries are finite; integers are."""
    return np.asarray(value).dtype.kind not in "fc" or bool(np.all(np.isfinite(value)))
