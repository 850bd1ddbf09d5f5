"""Marks that users put into their functions: `stop_gradient`, its other name `detach`, `with no_grad():`, and `named`."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from ..errors import CaptureError
from ..ir.core import Value
from .trace import Trace, current_trace
from .tracer import Tracer
from .where import user_location


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


def named(x: Any, name: str) -> Any:
    """The same value, called `name`: in generated code and pictures, and for `compile_grad(f, retain=(name,))`, which returns
    the gradient with respect to it as well. Outside of compiled functions it is the identity."""
    if not isinstance(x, Tracer):
        return x
    if name in x.trace.retain:
        return retained(x, name)
    if isinstance(x.value, Value):
        x.trace.names[x.value] = name
    return x


def retained(x: Tracer, name: str) -> Tracer:
    """A value whose gradient is asked for. An array stays the same memory."""
    trace, text = x.trace, f"ad.named(..., {name!r})"
    if not x.own_type.dtype.is_float:
        raise CaptureError(f"{text} is {x.kind()}: there is no gradient with respect to it", user_location())
    if trace.regions:
        raise CaptureError(f"{text} is in a loop, a branch or a function whose gradient is taken: it has no one gradient",
                           user_location(), "name a value outside of it, for example an array that the loop fills")
    if name in trace.retained:
        raise CaptureError(f"two values are called {name!r}", user_location(), "give each its own name")
    if x.path:
        raise CaptureError(f"{text} is a view of another array", user_location(), "name a copy: x.copy()")
    trace.retained.add(name)
    trace.name(x, name)
    trace.builder.location = user_location()
    value = trace.builder.emit("named", (x.value,), {"label": name})
    trace.names[value] = name
    if not x.own_type.dims or x.cell in trace.outside:
        made = Tracer(trace, value, x.weak)
        if x.cell in trace.outside:
            trace.protect(made, trace.outside[x.cell])
        return made
    trace.write(x.cell, value)
    return x


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
