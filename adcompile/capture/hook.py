"""The hooks that rewritten code calls. On concrete operands each does exactly what Python does; only traced ones stage IR.

A `Scope` belongs to one rewritten function: it knows the globals and the closure cells of that function. Everything a
function reads from outside passes through here, so that it becomes an input or a check of the capture.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from ..errors import CaptureError, UnsupportedOp
from .control import ControlHooks
from .grown import GrownList
from .inputs import Origin, is_container, is_user_module
from .stores import augment_masked, trace_anew
from .symint import SymInt
from .text import written
from .trace import TRACED, Trace, contains, current_trace
from .tracer import Tracer
from .where import user_location

OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Add": (operator.iadd, operator.add), "Sub": (operator.isub, operator.sub), "Mult": (operator.imul, operator.mul),
    "Div": (operator.itruediv, operator.truediv), "FloorDiv": (operator.ifloordiv, operator.floordiv),
    "Mod": (operator.imod, operator.mod), "Pow": (operator.ipow, operator.pow), "MatMult": (operator.imatmul, operator.matmul),
    "BitAnd": (operator.iand, operator.and_), "BitOr": (operator.ior, operator.or_), "BitXor": (operator.ixor, operator.xor),
    "LShift": (operator.ilshift, operator.lshift), "RShift": (operator.irshift, operator.rshift),
}

INSTEAD = {
    "if": "use np.where(condition, a, b), or decide with a value that is known (a bool argument, a shape)",
    "if of a comprehension": "select first, with a mask: for v in x[x > 0.0]; or fill an array in a `for` statement and count",
    "while": "use a loop with a fixed number of steps",
    "if-else": "use np.where(condition, a, b)",
    "assert": "check the arguments before the call",
    "not": "use np.logical_not(x)",
    "and": "use np.logical_and(a, b)",
    "or": "use np.logical_or(a, b)",
}


class Scope(ControlHooks):
    """The hooks as seen from one function. Calls are added by calls.py."""

    def __init__(self, function: types.FunctionType) -> None:
        self.globals = function.__globals__
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.name = function.__name__

    # ------------------------------------------------------------------------------------------------ names
    def load(self, name: str) -> Any:
        """The value of a global or builtin name."""
        if name in self.globals:
            value = self.globals[name]
            trace = current_trace()
            return value if trace is None else trace.inputs.read(value, trace.inputs.captured(self.globals).item(name), name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"name {name!r} is not defined")

    def cell(self, name: str) -> Any:
        """The value of a name that belongs to a function around this one."""
        cell = self.cells[name]
        try:
            value = cell.cell_contents
        except ValueError:
            raise NameError(f"cannot access free variable {name!r} where it is not associated with a value "
                            "in enclosing scope") from None
        trace = current_trace()
        return value if trace is None else trace.inputs.read(value, trace.inputs.captured(cell).cell(), name)

    def outside(self, name: str) -> NoReturn:
        """A global or nonlocal name is assigned: a side effect, which a compiled function cannot have."""
        raise CaptureError(f"`{name}` is assigned outside of the function `{self.name}`", user_location(),
                           "return the new value from the function instead")

    def attribute(self, owner: Any, name: str) -> Any:
        """`owner.name`."""
        value = getattr(owner, name)
        trace = current_trace()
        if trace is None or isinstance(owner, TRACED) or isinstance(value, TRACED):
            return value
        return read_attribute(trace, owner, name, value)

    def subscript(self, container: Any, key: Any) -> Any:
        """`container[key]`."""
        trace = current_trace()
        if trace is None or isinstance(container, (Tracer, type)):
            return container[key]
        if isinstance(container, GrownList):
            return container[key]
        if isinstance(container, np.ndarray) and contains(key, TRACED):
            return trace.apply(operator.getitem, (container, key))
        if isinstance(container, (list, tuple)) and isinstance(key, Tracer):
            return entry_of_list(trace, trace.inputs.materialise(container), key)
        if isinstance(container, range) and isinstance(key, Tracer):
            return container.start + container.step * key
        origin = trace.inputs.origin(container)
        if origin is None:
            return container[key]
        return read_item(trace, origin, trace.pinned(key))

    slice = staticmethod(builtins.slice)

    # ------------------------------------------------------------------------------------------------ iteration
    def iterate(self, iterable: Any) -> Iterable[Any]:
        """What a loop, a comprehension or an unpacking goes over."""
        trace = current_trace()
        found: Iterable[Any] = iterable if trace is None else trace.inputs.materialise(iterable)
        return found

    def unpack(self, value: Any, *names: str) -> Any:
        """The right side of `a, b = value`, with the parts named."""
        trace = current_trace()
        if trace is None:
            return value
        parts = tuple(self.iterate(value))
        for part, name in zip(parts, names, strict=False):
            if not name.startswith("__adcompile__"):
                trace.name(part, name)
        return parts

    def mapping(self, value: Any) -> Mapping[str, Any]:
        """What is passed as `**value`."""
        trace = current_trace()
        found: Mapping[str, Any] = value if trace is None else trace.inputs.materialise(value)
        return found

    # ------------------------------------------------------------------------------------------------ conditions
    def truth(self, value: Any, construct: str) -> Any:
        """The condition of an `if`, `while`, conditional expression, `assert` or `not`."""
        if isinstance(value, Tracer):
            raise condition_error(value, construct)
        return self.iterate(value) if is_container(value) else value

    operand = truth

    def handled(self) -> None:
        """An `except` clause starts: errors of capture pass through it, since the compiled function would not raise them."""
        error = sys.exception()
        if isinstance(error, (CaptureError, UnsupportedOp)):
            raise error

    # ------------------------------------------------------------------------------------------------ assignments
    def named(self, name: str, value: Any) -> Any:
        """The value of `name = value`."""
        if isinstance(value, Tracer):
            value.trace.name(value, name)
        return value

    def store(self, value: Any, target: Any, key: Any) -> None:
        """`target[key] = value`."""
        trace = current_trace()
        if trace is not None:
            check_local(trace, target, f"[{written(key)}]")
            if isinstance(target, np.ndarray) and contains((value, key), TRACED):
                raise trace_anew(trace, target)
            if isinstance(target, list) and isinstance(key, Tracer):
                raise CaptureError("an entry of a list is assigned at a traced index", user_location(),
                                   "use an array made with np.zeros")
        target[key] = value

    def store_attribute(self, value: Any, target: Any, name: str) -> None:
        """`target.name = value`."""
        trace = current_trace()
        if trace is not None:
            check_local(trace, target, f".{name}")
        setattr(target, name, value)

    def augment(self, symbol: str, current: Any, value: Any) -> Any:
        """The new value of `name op= value`."""
        in_place, plain = OPERATORS[symbol]
        if isinstance(current, Tracer):
            return update(current, plain, value)
        trace = current_trace()
        if isinstance(current, np.ndarray) and contains(value, TRACED) and trace is not None:
            raise trace_anew(trace, current)
        return in_place(current, value)

    def augment_item(self, symbol: str, target: Any, key: Any, value: Any) -> None:
        """`target[key] op= value`."""
        if isinstance(target, Tracer):
            check_local(target.trace, target, f"[{written(key)}]")
            augment_array(target, symbol, key, value)
            return
        self.store(self.augment(symbol, self.subscript(target, key), value), target, key)

    def augment_attribute(self, symbol: str, target: Any, name: str, value: Any) -> None:
        """`target.name op= value`."""
        self.store_attribute(self.augment(symbol, self.attribute(target, name), value), target, name)


def read_attribute(trace: Trace, owner: Any, name: str, value: Any) -> Any:
    """An attribute of an object that may have been found outside of the function."""
    if isinstance(owner, types.ModuleType):
        if not is_user_module(owner.__name__):
            return value
        return trace.inputs.read(value, trace.inputs.captured(owner).attribute(name), f"{owner.__name__}.{name}")
    origin = trace.inputs.origin(owner)
    if origin is None and isinstance(owner, (type, types.FunctionType)) and is_user_module(owner.__module__):
        origin = Origin(owner, trace.inputs.captured(owner), owner.__name__)
    if origin is None or is_container(owner) or isinstance(owner, np.ndarray):
        return value
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):     # the class decides what the method does
        trace.inputs.check(type(owner), origin.access.attribute("__class__"), f"type({origin.text})", identity=True)
        return value
    return trace.inputs.read(value, origin.access.attribute(name), f"{origin.text}.{name}")


def read_item(trace: Trace, origin: Origin, key: Any) -> Any:
    """An item of an object that was found outside of the function."""
    container = origin.object
    value = container[key]
    if isinstance(key, slice):
        return trace.inputs.materialise(container)[key] if is_container(container) else value
    return trace.inputs.read(value, origin.access.item(key), f"{origin.text}[{key!r}]")


def check_local(trace: Trace, target: Any, what: str) -> None:
    """Raises for a store into an object that exists outside of the function."""
    origin = trace.inputs.outside(target)
    if origin is not None:
        raise CaptureError(f"`{origin.text}{what}` is assigned: that changes an object outside of the function", user_location(),
                           "return the new value from the function instead")


def condition_error(value: Tracer, construct: str) -> CaptureError:
    """The error for a condition on a traced value."""
    value.trace.check_open()
    return CaptureError(f"`{construct}` depends on a traced {value.kind()}, which is not known while the function is captured",
                        user_location(), INSTEAD[construct])


def entry_of_list(trace: Trace, items: Any, key: Tracer) -> Any:
    """`items[key]` for a traced key: the items must be numbers or arrays of one shape, and become one array."""
    if not all(isinstance(x, (Tracer, SymInt, int, float, complex, np.ndarray, np.generic))
               for x in items) or key.dtype.kind not in "iu":
        raise key.concrete("an index into a list", "use an array, or a loop over the list itself")
    return trace.apply(operator.getitem,
                       (trace.apply(np.stack, (list(items),)) if len({np.ndim(x) for x in items}) == 1 else items, key))


def augment_array(target: Tracer, symbol: str, key: Any, value: Any) -> None:
    """`target[key] op= value`."""
    _, plain = OPERATORS[symbol]
    if isinstance(key, Tracer) and key.dtype.kind == "b" and key.ndim:
        augment_masked(target, key, plain, value)
        return
    if symbol in ("Add", "Sub") and target.trace.accumulate(target, key, value if symbol == "Add" else -value):
        return
    current = target[key]
    target[key] = plain(current, value)


def update(current: Tracer, function: Callable[[Any, Any], Any], value: Any) -> Any:
    """`current op= value`: a new number, or the same array with new contents, as in NumPy."""
    new = function(current, value)
    if not current.ndim:
        return new
    return current.replace(new)
