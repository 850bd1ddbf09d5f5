"""A scalar program as data: instructions over numbered registers, for a machine that is compiled once for all programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .core import Function


@dataclass(frozen=True, eq=False)
class Tape:
    """`steps`: one row an instruction: its code, three operand registers, the register it sets. `registers`: what they hold at
    the start, zero in register 0. `params`, `results`: of each, the registers of its entries, in its shape. `machine`: the
    source of a module whose `machine(steps, registers)` runs it."""

    function: Function
    machine: str
    steps: np.ndarray
    registers: np.ndarray
    params: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        return f"tape {self.function.name}: {len(self.steps)} instructions, {len(self.registers)} registers"
