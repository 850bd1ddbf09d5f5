"""The entry of this stage."""

from __future__ import annotations

from ..ir.core import Function
from ..ir.loops import Interface, Program
from .program import Writer

LANES = 64                  # elements of a tile: a few rows of a tile's values fill the first cache, and their loops are long


def schedule(function: Function, interface: Interface, *, lanes: int = LANES) -> Program:
    """The loop program that computes a function: its results as `interface` says. `lanes`: how many elements of the data are
    worked on at once where that pays, which adds sums up in another order; 0: never."""
    return Writer(function, interface, lanes).run()
