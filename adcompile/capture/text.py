"""Traced values as text. Their numbers are not known while the function is captured, so text made of them would decide things
on what they are not; only messages of errors may show them, by their names."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from typing import Any

from ..errors import CaptureError
from .source import PRODUCED
from .where import PACKAGE

DO = "return the value and format it outside of the function (the message of a `raise` or an `assert` may show it)"
INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Written(str):
    """The text of an expression in the place of its value, whatever the format."""

    def __format__(self, specification: str) -> str:
        return str(self)

    __repr__ = str.__str__


def written(x: Any) -> str:
    """The `repr` of an object, for messages of this package: the user's own `__repr__` may show traced values."""
    with MESSAGES:
        return repr(x)


class Messages(threading.local):
    """Whether a message of this package is being made in this thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1


MESSAGES = Messages()


def shown(x: Any, what: str) -> str:
    """The text that stands for a traced value: for debuggers and error messages. Raises where the traced code asks for it."""
    trace = x.trace
    if trace.open and not MESSAGES.depth and is_traced_code(sys._getframe(2)):
        raise x.concrete(what, DO)
    return label(x)


def label(x: Any) -> str:
    """A traced value by the user's name for it, else by its type."""
    return f"<{x.trace.names.get(x.value) or getattr(x.value, 'name', '') or x.type}>" if x.trace.open else f"<traced {x.type}>"


def is_traced_code(frame: Any) -> bool:
    """Whether a frame runs code of the function that is captured, not of a debugger, a test runner or this package."""
    file = frame.f_code.co_filename
    return frame.f_code in PRODUCED or not file.startswith((PACKAGE, "<frozen", *INSTALLED))


def refuse_text(trace: Any, arguments: Any, what: str) -> None:
    """Raises where text is made of traced values."""
    for x in leaves(arguments):
        if not MESSAGES.depth:
            raise CaptureError(f"{what} of a traced {x.kind()}, whose value is not known while the function is captured",
                               trace.location(), DO)


def leaves(x: Any) -> list[Any]:
    """The traced values in nested containers."""
    if hasattr(x, "concrete"):
        return [x]
    if isinstance(x, dict):
        return [a for item in x.values() for a in leaves(item)]
    return [a for item in x for a in leaves(item)] if isinstance(x, (list, tuple, set, frozenset)) else []
