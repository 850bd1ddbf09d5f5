"""The entry of this stage."""

from __future__ import annotations

from ..ir.core import Function
from ..ir.loops import Interface, Program
from .program import Writer


def schedule(function: Function, interface: Interface) -> Program:
    """The loop program that computes a function: its results as `interface` says."""
    return Writer(function, interface).run()
