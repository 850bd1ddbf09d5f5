"""What all that stands for a value of the traced function has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .inputs import is_number

if TYPE_CHECKING:
    from .trace import Trace


class Traced:
    """A traced array, number or size. `weak`: it counts as a Python number in dtype promotion."""

    trace: Trace
    weak: bool


def is_operand(x: Any) -> bool:
    """Whether a value can meet a tracer in an operator."""
    return is_number(x) or isinstance(x, (Traced, bool, np.bool_, list, tuple))


def is_weak(x: Any) -> bool:
    """Whether an operand is a Python number, traced or not."""
    if isinstance(x, Traced):
        return x.weak
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)
