"""Marks that users put into their functions: `stop_gradient`, its other name `detach`, and `with no_grad():`."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from .trace import Trace, Tracer, current_trace


def stop_gradient(x: Any) -> Any:
    """The same value, treated as a constant by derivatives. Works on numbers, arrays and containers of them; outside of
    compiled functions it is the identity."""
    if isinstance(x, Tracer):
        if not (x.value.type.dtype.is_float or x.value.type.dtype.is_complex):
            return x
        return x.trace.emit("stop_gradient", x.value, weak=x.weak)
    if isinstance(x, (list, tuple)) and current_trace() is not None:
        items = [stop_gradient(a) for a in x]
        if hasattr(x, "_fields"):
            return type(x)(*items)
        return items if isinstance(x, list) else tuple(items)
    if isinstance(x, dict) and current_trace() is not None:
        return {key: stop_gradient(a) for key, a in x.items()}
    return x


detach = stop_gradient


class no_grad(contextlib.ContextDecorator):
    """`with no_grad():` everything computed inside is a constant for derivatives. Does nothing outside of compiled functions."""

    def __init__(self) -> None:
        self.traces: list[Trace | None] = []

    def __enter__(self) -> Self:
        trace = current_trace()
        self.traces.append(trace)
        if trace is not None:
            trace.no_grad += 1
        return self

    def __exit__(self, *exception: object) -> None:
        trace = self.traces.pop()
        if trace is not None:
            trace.no_grad -= 1
