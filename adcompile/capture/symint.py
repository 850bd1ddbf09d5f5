"""Sizes as the user sees them: a `SymInt` behaves like the int that it stands for, a `TracedRange` like a range of such."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError
from ..ir.dims import Dim
from . import text
from .traced import Traced, is_operand, is_weak
from .where import user_location

if TYPE_CHECKING:
    from .trace import Trace

UNROLL_LIMIT = 64                   # turns of a loop that cannot become a loop of the compiled function are unrolled up to this


def unroll_count(trace: Trace, length: Any, what: str) -> int:
    """How often a loop over a size that Python runs itself goes round, which becomes a constant; raises above the limit."""
    trace.check_open()
    if not isinstance(length, SymInt):
        return int(length)
    actual = trace.sizes.actual(length.dim)
    if actual > UNROLL_LIMIT:
        raise CaptureError(f"a Python loop over {what} runs {actual} times here; at most {UNROLL_LIMIT} are unrolled",
                           user_location(), "write it as a `for` statement, or with whole-array operations (NumPy functions)")
    return int(length)


# --------------------------------------------------------------------------------------------------------- sizes
def size_binary(exact: Callable[[Any, Any], Any], ufunc: Callable[..., Any]) -> tuple[Any, Any]:
    """The two methods of a binary operator on sizes: sizes and ints give a size, anything else is traced arithmetic."""
    def compute(trace: Trace, a: Any, b: Any) -> Any:
        if all(isinstance(x, (SymInt, int)) and not isinstance(x, np.generic) for x in (a, b)):
            return trace.integer(Dim.of(exact(as_dim(a), as_dim(b))), is_weak(a) and is_weak(b))
        if exact is operator.mul and any(isinstance(x, (list, tuple, str)) for x in (a, b)):
            return exact(*(int(x) if isinstance(x, SymInt) else x for x in (a, b)))              # a list repeated so many times
        return trace.operator(ufunc, a, b) if is_operand(a) and is_operand(b) else NotImplemented

    return (lambda self, other: compute(self.trace, self, other)), (lambda self, other: compute(self.trace, other, self))


def as_dim(x: Any) -> Dim:
    return x.dim if isinstance(x, SymInt) else Dim.of(int(x))


def size_comparison(relation: str, ufunc: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A comparison of sizes is decided by their actual values and recorded as a guard."""
    def method(self: SymInt, other: Any) -> Any:
        self.trace.check_open()
        if isinstance(other, (SymInt, int)) and not isinstance(other, np.generic):
            known = self.trace.sizes.decide(self.dim, relation, as_dim(other), user_location())
            return self.trace.operator(ufunc, self.number(), other) if known is None else known
        if isinstance(other, float):
            return self.trace.sizes.compare(self.dim, *integer_relation(relation, other), user_location()) \
                if math.isfinite(other) else COMPARISONS[relation](0, other)
        return self.trace.operator(ufunc, self, other) if is_operand(other) else NotImplemented
    return method


FLOOR_DIVIDE = size_binary(operator.floordiv, np.floor_divide)
REMAINDER = size_binary(operator.mod, np.remainder)


def nonzero(divisor: Any) -> Any:
    """A divisor; a size that is zero raises what Python raises."""
    if isinstance(divisor, (SymInt, int)) and divisor == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return divisor


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def integer_relation(relation: str, bound: float) -> tuple[str, int]:
    """The relation between integers that means the same as `n relation bound`."""
    if bound == int(bound):
        return relation, int(bound)
    if relation in ("<", "<="):
        return "<=", math.floor(bound)
    if relation in (">", ">="):
        return ">=", math.ceil(bound)
    return ("<", -2**62) if relation == "==" else (">=", -2**62)


class SymInt(Traced):
    """A size (an axis length or an integer argument) of the traced function: an int to the user, a Dim to the compiler."""

    def __init__(self, trace: Trace, dim: Dim, weak: bool = True) -> None:
        self.trace, self.symbolic, self.weak = trace, dim, weak

    def number(self) -> Any:
        """The size as a traced int64 number."""
        return self.trace.emit("size", dim=self.dim)

    @property
    def dim(self) -> Dim:
        """The size in terms of the symbols that are known to be different."""
        return self.trace.sizes.resolve(self.symbolic)

    __add__, __radd__ = size_binary(operator.add, np.add)
    __sub__, __rsub__ = size_binary(operator.sub, np.subtract)
    __mul__, __rmul__ = size_binary(operator.mul, np.multiply)
    __lt__, __gt__ = size_comparison("<", np.less), size_comparison(">", np.greater)
    __le__, __ge__ = size_comparison("<=", np.less_equal), size_comparison(">=", np.greater_equal)
    __eq__ = size_comparison("==", np.equal)
    __ne__ = size_comparison("!=", np.not_equal)

    def __floordiv__(self, other: Any) -> Any:
        return FLOOR_DIVIDE[0](self, nonzero(other))

    def __rfloordiv__(self, other: Any) -> Any:
        return FLOOR_DIVIDE[1](nonzero(self), other)

    def __mod__(self, other: Any) -> Any:
        return REMAINDER[0](self, nonzero(other))

    def __rmod__(self, other: Any) -> Any:
        return REMAINDER[1](nonzero(self), other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self.trace.operator(np.true_divide, self, other) if is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return self.trace.operator(np.true_divide, other, self) if is_operand(other) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 4:
            return self.trace.integer(math.prod([self.dim] * other, start=Dim.of(1)))
        return self.trace.operator(np.power, self, other) if is_operand(other) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return self.trace.operator(np.power, other, self) if is_operand(other) else NotImplemented

    def __neg__(self) -> Any:
        return self.trace.integer(-self.dim)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __round__(self, digits: int | None = None) -> SymInt:
        return self

    __trunc__ = __floor__ = __ceil__ = __round__

    # Where Python needs the number itself, the size becomes a constant of the capture, with a guard.
    def __index__(self) -> int:
        self.trace.check_open()
        return self.trace.pin(self.dim)

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __hash__(self) -> int:
        return hash(int(self))

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, specification: str) -> str:
        if text.MESSAGES.depth and self.trace.regions:              # a message that is one for all sizes
            return f"<{self.dim}>"
        return format(int(self), specification)

    def __repr__(self) -> str:
        return format(self, "") if self.trace.open and text.is_traced_code(sys._getframe(1)) else f"<size {self.dim}>"

    def bits(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        """Bit operations work on the number."""
        return function(int(self), int(other)) if isinstance(other, (SymInt, int)) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.bits(other, operator.and_)

    def __or__(self, other: Any) -> Any:
        return self.bits(other, operator.or_)

    def __lshift__(self, other: Any) -> Any:
        return self.bits(other, operator.lshift)

    def __rshift__(self, other: Any) -> Any:
        return self.bits(other, operator.rshift)

    def bit_length(self) -> int:
        return int(self).bit_length()

    def is_integer(self) -> bool:
        return True

    real = property(lambda self: self)
    imag = 0
    shape: tuple[Any, ...] = ()
    ndim = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords.get("out") is not None:
            return getattr(ufunc, method)(*self.trace.pinned(inputs), **self.trace.pinned(keywords))
        return self.trace.apply(ufunc, inputs, keywords)

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any) -> Any:
        return self.trace.apply(function, arguments, keywords)


class TracedRange:
    """`range` with traced bounds. A `for` statement over it becomes a loop; other iteration unrolls it."""

    def __init__(self, trace: Trace, start: Any, stop: Any, step: Any) -> None:
        self.trace, self.start, self.stop, self.step = trace, start, stop, step

    def length(self) -> Any:
        """The number of entries: an int, a size or a traced number. Zero or less where there are none."""
        if any(isinstance(x, Traced) and not isinstance(x, SymInt) for x in (self.start, self.stop, self.step)) \
                or isinstance(self.step, SymInt):
            return -((self.start - self.stop) // self.step)
        count = -((as_dim(self.start) - as_dim(self.stop)) // as_dim(self.step))
        return self.trace.integer(count)

    def __len__(self) -> int:
        return len(self.pinned())

    def pinned(self) -> builtins.range:
        """The range of numbers that it is now, as constants."""
        return builtins.range(*[int(x) for x in (self.start, self.stop, self.step)])

    def __iter__(self) -> Iterator[int]:
        unroll_count(self.trace, self.length(), "a range of traced length")
        return iter(self.pinned())

    def __reversed__(self) -> Iterator[int]:
        return reversed(list(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.pinned()[index]
        return self.start + self.step * (index if not isinstance(index, int) or index >= 0 else self.length() + index)
