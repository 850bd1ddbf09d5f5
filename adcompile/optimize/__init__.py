"""Passes that leave a function's meaning as it is."""

from .cse import cse
from .dce import dce
from .hoist import hoist
from .marks import erase_marks
from .simplify import simplify

__all__ = ["cse", "dce", "erase_marks", "hoist", "simplify"]
