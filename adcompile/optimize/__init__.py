"""Passes that leave a function's meaning as it is."""

from .cse import cse
from .dce import dce
from .hoist import hoist
from .marks import erase_marks
from .shift import detach_shifts
from .simplify import simplify
from .slopes import keep_slopes

__all__ = ["cse", "dce", "detach_shifts", "erase_marks", "hoist", "keep_slopes", "simplify"]
