"""`compile="lazy"`: a scalar program runs on a machine that is compiled once (and kept on disk) for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..ir.tape import Tape
from ..ir.types import DType
from .compile import GeneratedModule, Miss

SIGNATURE = (types.Array(types.int32, 2, "C"), types.Array(types.float64, 1, "C"))


class TapeModule(GeneratedModule):
    """Has the shape of a `CompiledModule`."""

    direct = False
    sharing: Any = None

    def __init__(self, tape: Tape, gradients: int, *, cache: bool) -> None:
        super().__init__(tape.machine, "machine", cache=cache)
        self.tape, self.gradients = tape, gradients
        self.run = self.exact("machine", SIGNATURE)
        self.truths = [x.type.dtype is DType.bool for x in tape.function.results]
        self.called = self.entry

    def entry(self, *params: Any) -> tuple[Any, ...]:
        """All results. Raises `Miss` for arguments of other types than the program's."""
        registers = self.tape.registers.copy()
        for value, places in zip(params, self.tape.params, strict=True):
            if not (isinstance(value, np.ndarray) and value.dtype == np.float64 if places.ndim else isinstance(value, float)):
                raise Miss
            if np.shape(value) != places.shape:
                raise Miss
            registers[places] = value
        self.run(self.tape.steps, registers)
        return tuple(self.result(registers[places], truth) for places, truth in zip(self.tape.results, self.truths, strict=True))

    @staticmethod
    def result(found: Any, truth: bool) -> Any:
        """A result from its registers."""
        if np.ndim(found):
            return found.astype(bool) if truth else found
        return bool(found) if truth else float(found)

    def kernel(self, *params_and_buffers: Any) -> Any:
        """The primal results; gradients go into the buffers."""
        params = params_and_buffers[:-self.gradients] if self.gradients else params_and_buffers
        results = self.entry(*params)
        primal = results[:len(results) - self.gradients]
        for buffer, gradient in zip(params_and_buffers[len(params):], results[len(primal):], strict=True):
            buffer[...] = gradient
        return primal if len(primal) > 1 else primal[0]
