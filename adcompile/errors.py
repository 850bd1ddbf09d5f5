"""Every exception adcompile raises on purpose.

A message says what is wrong (in the user's words), where (file, line, source line), why, and what to do instead.
Each class derives from `AdcompileError` and from the builtin exception a NumPy user would expect.
"""

from __future__ import annotations

import linecache
from typing import Protocol


class HasLocation(Protocol):
    """What an error needs to know of a place in the user's code."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def function(self) -> str: ...


class AdcompileError(Exception):
    """Base of all errors of adcompile.

    Arguments: `what` is wrong, one sentence; `where` in the user's code; `do`: what to write instead.
    """

    def __init__(self, what: str, where: HasLocation | None = None, do: str = "") -> None:
        self.what, self.where, self.do = what, where, do
        super().__init__(render(what, where, do))


class CaptureError(AdcompileError, TypeError):
    """The function does something that cannot be staged into the IR."""


class ShapeError(AdcompileError, ValueError):
    """Shapes that do not fit together, or a result of the wrong shape."""


class UnsupportedOp(AdcompileError, NotImplementedError):
    """A NumPy, SciPy or Python function that adcompile does not know, or not with these arguments."""


class DifferentiationError(AdcompileError, TypeError):
    """A gradient that does not exist: with respect to integers, through an operation without a derivative, ..."""


class GuardError(AdcompileError, ValueError):
    """A compiled kernel was called where its assumptions do not hold and no other kernel can be made."""


class VerifyError(AdcompileError, AssertionError):
    """A pass left invalid IR: a bug in adcompile, never in the user's function."""


def render(what: str, where: HasLocation | None = None, do: str = "") -> str:
    """The text of an error message."""
    lines = [what]
    if where is not None:
        lines.append(f"  {where.file}:{where.line}, in {where.function}")
        source = linecache.getline(where.file, where.line).strip()
        if source:
            lines.append(f"    {source}")
    if do:
        lines.append(f"  {do}")
    return "\n".join(lines)
