"""How a call's arguments meet a function's parameters, and which of them are differentiated."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import CaptureError, DifferentiationError
from ..ir.types import DType
from .inputs import is_dataclass_instance
from .tracer import Tracer

Wrt = int | str | Sequence[int | str]


def python_signature(f: Callable[..., Any]) -> inspect.Signature:
    """The signature that users call `f` by."""
    if not callable(f):
        raise CaptureError(f"{f!r} is not a function", do="pass a function, a method, a lambda, a partial or a callable object")
    if isinstance(f, np.ufunc):
        names = ["x"] if f.nin == 1 else [f"x{k + 1}" for k in range(f.nin)]
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])
    try:
        return inspect.signature(getattr(f, "py_func", f))
    except ValueError:
        return inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)])


def bind(python: inspect.Signature, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The call's arguments by parameter name, defaults included."""
    try:
        bound = python.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None
    bound.apply_defaults()
    return bound


Place = tuple[str, Any]                             # parameter name, and the key inside *args or **kwargs (else None)


def wrt_places(python: inspect.Signature, arguments: Mapping[str, Any], wrt: Wrt | None, name: str) -> list[Place]:
    """The differentiated arguments."""
    if wrt is None:
        return []
    entries = [wrt] if isinstance(wrt, (int, str)) else list(wrt)
    places = [wrt_place(python, arguments, entry, name) for entry in entries]
    if len(set(places)) != len(places):
        raise DifferentiationError(f"wrt={wrt!r} names an argument of {name}() twice")
    return places


def wrt_place(python: inspect.Signature, arguments: Mapping[str, Any], entry: Any, name: str) -> Place:
    """The differentiated argument that a position or a name means."""
    kinds = inspect.Parameter
    positional = [p.name for p in python.parameters.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in python.parameters.values() if p.kind is kinds.VAR_POSITIONAL), None)
    extra = next((p.name for p in python.parameters.values() if p.kind is kinds.VAR_KEYWORD), None)
    if isinstance(entry, str):
        if entry in python.parameters:
            return entry, None
        if extra is not None and entry in arguments[extra]:
            return extra, entry
    elif isinstance(entry, int) and not isinstance(entry, bool):
        count = len(positional) + (len(arguments[rest]) if rest else 0)
        index = entry + count if entry < 0 else entry
        if 0 <= index < len(positional):
            return positional[index], None
        if rest is not None and 0 <= index < count:
            return rest, index - len(positional)
    names = ", ".join(python.parameters) or "none"
    raise DifferentiationError(f"wrt={entry!r} is not an argument of {name}()", do=f"its arguments are: {names}")


def cast_floats(x: Any, dtype: DType | None) -> Any:
    """Arguments with all floats cast to one dtype."""
    if dtype not in (DType.f32, DType.f64):
        raise CaptureError("dtype= must be float32 or float64")
    if isinstance(x, Tracer):
        return x.cast(dtype, x.weak) if x.value.type.dtype.is_float else x
    if isinstance(x, (list, tuple)):
        items = [cast_floats(a, dtype) for a in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {k: cast_floats(a, dtype) for k, a in x.items()}
    if is_dataclass_instance(x):
        for field in dataclasses.fields(x):
            object.__setattr__(x, field.name, cast_floats(getattr(x, field.name), dtype))
    return x
