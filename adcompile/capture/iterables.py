"""What a traced loop can go over: each iterable says how many items it has and what item i is, for a traced i."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..ir.dims import Dim
from .grown import GrownList
from .symint import SymInt, TracedRange, unroll_count
from .trace import Trace
from .tracer import Tracer
from .where import user_location


class Staged:
    """An iterable made of traced ones: `enumerate`, `zip`, `reversed`. `item(i)` for traced or known i."""

    def __init__(self, trace: Trace, count: Any, item: Callable[[Any], Any]) -> None:
        self.trace, self.count, self.item = trace, count, item

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.count, Tracer):
            raise CaptureError("a Python loop over a traced number of items", user_location(), "write it as a `for` statement")
        return (self.item(k) for k in range(unroll_count(self.trace, self.count, "a traced iterable")))


def as_staged(trace: Trace, iterable: Any) -> Staged | None:
    """A traced iterable as such, None for all others."""
    if isinstance(iterable, Staged):
        return iterable
    if isinstance(iterable, Tracer):
        if not iterable.ndim:
            raise TypeError("iteration over a 0-d array")
        return Staged(trace, iterable.shape[0], lambda i: iterable[i])
    if isinstance(iterable, GrownList):
        return Staged(trace, iterable.length, lambda i: iterable[i])
    if isinstance(iterable, TracedRange):
        return Staged(trace, iterable.length(), lambda i: iterable.start + iterable.step * i)
    return None


def of_range(trace: Trace, numbers: builtins.range) -> Staged:
    """A range of known numbers as one for a traced loop."""
    return Staged(trace, len(numbers), lambda i: numbers.start + numbers.step * i)


def bounds(iterable: Any) -> tuple[Any, Any] | None:
    """Where a loop's own index can be the item: first and last-but-one of a range with step 1."""
    if isinstance(iterable, (TracedRange, builtins.range)) and isinstance(iterable.step, int) and iterable.step == 1:
        return iterable.start, iterable.stop
    return None


def builtin_enumerate(trace: Trace, iterable: Any, start: Any = 0) -> Any:
    """`enumerate(iterable, start)`."""
    iterable = trace.inputs.materialise(iterable)
    inner = as_staged(trace, iterable)
    if inner is None:
        return enumerate(iterable, start) if isinstance(start, int) else ((start + k, x) for k, x in enumerate(iterable))
    return Staged(trace, inner.count, lambda i: (i + start if not (isinstance(start, int) and start == 0) else i, inner.item(i)))


def builtin_reversed(trace: Trace, sequence: Any) -> Any:
    """`reversed(sequence)`."""
    sequence = trace.inputs.materialise(sequence)
    inner = as_staged(trace, sequence)
    return reversed(sequence) if inner is None else Staged(trace, inner.count, lambda i: inner.item(inner.count - 1 - i))


def builtin_zip(trace: Trace, *iterables: Any, strict: bool = False) -> Any:
    """`zip(...)`. Together with an iterable that Python runs itself, traced ones are unrolled."""
    iterables = tuple(map(trace.inputs.materialise, iterables))
    staged = [as_staged(trace, x) for x in iterables]
    if not any(x is not None for x in staged):
        return zip(*iterables, strict=strict)
    staged = [of_range(trace, x) if isinstance(x, builtins.range) else s for s, x in zip(staged, iterables, strict=True)]
    if any(x is None for x in staged):
        return zip(*[x if s is None else s for s, x in zip(staged, iterables, strict=True)], strict=strict)
    inner = [x for x in staged if x is not None]
    count = inner[0].count
    for other in inner[1:]:
        count = shorter(trace, count, other.count, strict)
    return Staged(trace, count, lambda i: tuple(x.item(i) for x in inner))


def shorter(trace: Trace, a: Any, b: Any, strict: bool) -> Any:
    """The smaller of two counts."""
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        return trace.operator(np.minimum, a, b)
    if strict and a != b:
        raise ValueError("zip() arguments have different lengths")
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        return trace.integer(Dim.of(dim_of(a if a <= b else b)))
    return min(a, b)


def dim_of(x: Any) -> Dim:
    return x.dim if isinstance(x, SymInt) else Dim.of(x)
