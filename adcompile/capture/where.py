"""Where in the user's code something happens: from the frames that run."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import numpy as np

from ..ir.core import Location
from .rewriter import HOOK

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
EXAMPLES = os.path.join(PACKAGE, "examples") + os.sep
NUMPY_FOLDER = os.path.dirname(np.__file__) + os.sep

CAPTURING = "trace_function"        # the function of the driver that runs the user's
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def user_location() -> Location | None:
    """The innermost line that belongs neither to this package nor to NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return Location(frame.f_code.co_filename, frame.f_lineno, function_of(frame), calls_of(frame))
        frame = frame.f_back
    return None


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file is neither part of this package nor of NumPy; the examples count as the user's."""
    return not file.startswith((PACKAGE, NUMPY_FOLDER, "<frozen", "<adcompile ")) or file.startswith(EXAMPLES)


def calls_of(frame: Any) -> tuple[tuple[str, int, int], ...]:
    """The calls of user functions between the capture and a frame, outermost first. Blocks count as part of their function."""
    calls: list[tuple[str, int, int]] = []
    own = frame.f_code.co_name
    inner = None if own.startswith(HOOK) or own in COMPREHENSIONS else own
    frame = frame.f_back
    while frame is not None and frame.f_code.co_name != CAPTURING:
        if is_users(frame.f_code.co_filename):
            if inner is not None and inner != "<lambda>":
                calls.append((inner, frame.f_lineno, frame.f_lasti))
            name = frame.f_code.co_name
            inner = None if name.startswith(HOOK) or name in COMPREHENSIONS else name
        frame = frame.f_back
    return tuple(reversed(calls)) if frame is not None else ()


def function_of(frame: Any) -> str:
    """The name of the user's function that a frame belongs to: blocks and comprehensions belong to the one around them."""
    file, outer = frame.f_code.co_filename, frame
    while outer is not None:
        name: str = outer.f_code.co_name
        if outer.f_code.co_filename == file and not name.startswith(HOOK) and name not in COMPREHENSIONS \
                and not (name == "<lambda>" and HOOK in "".join(outer.f_code.co_varnames[:1])):
            return name
        outer = outer.f_back
    return str(frame.f_code.co_name)


def making_site() -> Any:
    """The place in the user's code that makes an array now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY_FOLDER)) \
            and not frame.f_code.co_filename.startswith(EXAMPLES):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lasti)
