"""The inputs of a capture: leaves of the arguments, and what the function reads from outside while it runs.

Every Python object that was reached through a known path (a global, a closure cell, an attribute of one of those, ...)
is remembered by identity with its `Access`. A number or an array found there becomes a hidden input, which is read anew at
each call; a string, a bool, a function becomes a check.
"""

from __future__ import annotations

import dataclasses
import enum
import keyword
import re
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Size, Value
from ..ir.signature import Access, Captured, Check, Input, Leaf, Node, Static, Tree
from ..ir.types import DType, Type, dtype_of

if TYPE_CHECKING:
    from .trace import Trace
    from .tracer import Tracer

STATIC = (bool, str, bytes, type(None), enum.Enum, np.dtype, type(Ellipsis), np.bool_)
MOST_NUMBERS = 1000                                 # in one container read from outside
STANDARD = frozenset({"numpy", "scipy", "math", "cmath", "builtins", "operator", "functools", "itertools", "typing", "numba",
                      "collections", "dataclasses", "adcompile"})


def is_number(x: Any) -> bool:
    """Whether a value becomes an input: a Python or NumPy number or an array (not a bool)."""
    return isinstance(x, (int, float, complex, np.number, np.ndarray)) and not isinstance(x, bool)


def is_container(x: Any) -> bool:
    """Whether a value is a tuple, list or dict."""
    return isinstance(x, (tuple, list, dict))


def is_dataclass_instance(x: Any) -> bool:
    """Whether a value is an instance (not the class) of a dataclass."""
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


@dataclass(frozen=True)
class Origin:
    """Where an object was found, and how the user writes that."""

    object: Any
    access: Access
    text: str


class Inputs:
    """The parameters of the function being captured, and the checks."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.list: list[Input] = []
        self.values: list[Value] = []
        self.sizes: dict[str, Size] = {}
        self.checks: dict[Access, Check] = {}
        self.origins: dict[int, Origin] = {}
        self.found: dict[Access, Any] = {}          # access -> the tracer that stands for it
        self.copies: dict[int, Any] = {}            # id of a container -> its copy with tracers
        self.roots: dict[int, Captured] = {}        # id of an object -> the root for it, one for each
        self.copied: dict[int, Origin] = {}         # id of such a copy -> where the container was found

    # ------------------------------------------------------------------------------------------------ parameters
    def add(self, value: Any, access: Access, text: str, *, as_float: bool = False) -> Any:
        """A new parameter for a number or array, and the tracer for it."""
        dtype = self.dtype(value, text)
        integer = dtype is DType.i64 and np.ndim(value) == 0 and not as_float
        if as_float and np.ndim(value) == 0 and dtype.is_integer:
            dtype = DType.f64
        name = self.trace.builder.fresh(identifier(text))
        index = len(self.list)
        sizes = self.trace.sizes
        dims = []
        for axis, length in enumerate(np.shape(value)):
            symbol = self.trace.builder.fresh(f"{name}_{axis}")
            dims.append(sizes.symbol(symbol, length))
            self.sizes[symbol] = Size(index, axis)
        parameter = Value(name, Type(dtype, tuple(dims)))
        self.trace.builder.blocks[0][0].append(parameter)
        self.list.append(Input(name, access, text))
        self.values.append(parameter)
        if integer:
            self.sizes[name] = Size(index, None)
            return self.trace.size(sizes.symbol(name, int(value), integer=True), isinstance(value, int))
        weak = isinstance(value, (int, float, complex)) and not isinstance(value, np.generic)
        return self.trace.tracer(parameter, weak)

    def dtype(self, value: Any, text: str) -> DType:
        """The IR dtype of a number or array; raises for those that have none."""
        location = self.trace.location()
        if isinstance(value, np.ndarray) and not isinstance(value, np.memmap) and type(value) is not np.ndarray:
            raise CaptureError(f"`{text}` is a {type(value).__name__}, which does not compute as a plain array does",
                               location, f"pass np.asarray({text})")
        dtype = DType.i64 if isinstance(value, int) else dtype_of(np.asarray(value).dtype.newbyteorder("="))
        if dtype is None:
            given = "Python objects" if np.asarray(value).dtype == object else f"dtype {np.asarray(value).dtype}"
            raise CaptureError(f"`{text}` is an array of {given}; only bool, integer, float32/64 and complex64/128 "
                               "arrays can be compiled",
                               location, f"convert it: np.asarray({text}, dtype=float)")
        if isinstance(value, int) and not -2**63 <= value < 2**63:
            raise CaptureError(f"`{text}` = {value} does not fit into 64 bits", location, "use a float")
        return dtype

    def constant(self, array: np.ndarray) -> Tracer:
        """A concrete array that is too large for the code, as a hidden input."""
        key = id(array)
        if key not in self.copies:
            self.origins[key] = Origin(array, self.captured(array), "constant")
            self.copies[key] = self.add(array, self.captured(array), "constant")
            self.trace.protect(self.copies[key], "constant")
        tracer: Tracer = self.copies[key]
        return tracer

    # ------------------------------------------------------------------------------------------------ reading from outside
    def captured(self, value: Any) -> Access:
        """The access to an object that the function holds on to; equal for the same object."""
        return Access(self.roots.setdefault(id(value), Captured(value)))

    def read(self, value: Any, access: Access, text: str) -> Any:
        """What the traced function sees of a value that was found outside of it at `access`."""
        if self.trace.is_traced(value):
            return value
        if isinstance(value, STATIC):
            self.check(value, access, text)
            return value
        if is_number(value) and (not isinstance(value, np.ndarray) or value.dtype.kind in "biufc"):
            if access not in self.found:
                self.found[access] = self.add(value, access, text)
                self.trace.protect(self.found[access], text)
            return self.found[access]
        if isinstance(value, types.ModuleType):
            return value
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)):
            self.check_callable(value, access, text)
            return value
        self.register(value, access, text)
        return self.materialise(value) if isinstance(value, tuple) and all(map(is_number, value)) else value

    def register(self, value: Any, access: Access, text: str) -> None:
        """Remember where an object was found; the first place stays."""
        self.origins.setdefault(id(value), Origin(value, access, text))

    def origin(self, value: Any) -> Origin | None:
        """Where an object was found, None for objects made by the traced function itself."""
        return self.origins.get(id(value))

    def outside(self, value: Any) -> Origin | None:
        """Where an object that exists outside of the function was found, also for the copies made of containers."""
        return self.origins.get(id(value)) or self.copied.get(id(value))

    def check(self, value: Any, access: Access, text: str, identity: bool = False) -> None:
        """Note that the capture is right only while this value stays."""
        if access not in self.checks:
            self.checks[access] = Check(access, value, identity, text)

    def check_callable(self, value: Any, access: Access, text: str) -> None:
        """A function or class is checked by identity, except under its own name from a standard module."""
        module = (getattr(value, "__module__", None) or "builtins").split(".")[0]
        if isinstance(value, np.ufunc):
            module = "numpy"
        own_name = access.steps and access.steps[-1][1] == getattr(value, "__name__", None)
        if not (module in STANDARD and own_name):
            self.check(value, access, text, identity=True)

    def materialise(self, value: Any) -> Any:
        """A container that was found outside, as a copy with everything in it read; other values as they are."""
        origin = self.origins.get(id(value))
        if origin is None or not is_container(value):
            return value
        if id(value) not in self.copies:
            if len(value) > MOST_NUMBERS:
                raise CaptureError(f"`{origin.text}` holds {len(value)} entries, too many to be read one by one",
                                   self.trace.location(), "make it a NumPy array outside of the function")
            self.check(len(value), origin.access.length(), f"len({origin.text})")
            copy = self.copies[id(value)] = self.copy(value, origin)
            self.copied[id(copy)] = Origin(copy, origin.access, origin.text)
        return self.copies[id(value)]

    def copy(self, value: Any, origin: Origin) -> Any:
        """The copy of a container with its entries read, containers inside included."""
        def entry(key: Any, item: Any) -> Any:
            return self.materialise(self.read(item, origin.access.item(key), f"{origin.text}[{key!r}]"))

        if isinstance(value, dict):
            return {key: entry(key, item) for key, item in value.items()}
        items = [entry(k, item) for k, item in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return items if isinstance(value, list) else tuple(items)

    # ------------------------------------------------------------------------------------------------ arguments
    def argument(self, value: Any, access: Access, text: str, as_float: bool = False) -> tuple[Any, Tree]:
        """What the function sees of an argument, and the tree of its parameters."""
        if is_number(value):
            index = len(self.list)
            return self.add(value, access, text, as_float=as_float), Leaf(index)
        if is_container(value) or (is_dataclass_instance(value)):
            return self.container(value, access, text, as_float)
        if hasattr(value, "__array__") and not isinstance(value, STATIC):
            raise CaptureError(f"`{text}` is a {type(value).__name__}", self.trace.location(),
                               f"pass an array: np.asarray({text})")
        if not isinstance(value, (*STATIC, type, types.FunctionType, types.ModuleType)):
            self.register(value, access, text)
        return value, Static(value)

    def container(self, value: Any, access: Access, text: str, as_float: bool) -> tuple[Any, Tree]:
        """The argument's tree and its copy with tracers, for tuples, lists, dicts, NamedTuples and dataclasses."""
        kind = type(value)
        if isinstance(value, dict):
            keys: tuple[Any, ...] | None = tuple(value)
            parts = [self.argument(value[k], access.item(k), f"{text}[{k!r}]", as_float) for k in value]
        elif is_dataclass_instance(value):
            keys = tuple(f.name for f in dataclasses.fields(value))
            parts = [self.argument(getattr(value, k), access.attribute(k), f"{text}.{k}", as_float) for k in keys]
        else:
            keys = getattr(kind, "_fields", None)
            names = [f".{k}" for k in keys] if keys else [f"[{k}]" for k in range(len(value))]
            parts = [self.argument(v, access.item(k), text + names[k], as_float) for k, v in enumerate(value)]
        tree = Node(kind, keys, tuple(part[1] for part in parts))
        return rebuild(tree, [part[0] for part in parts], value), tree


def rebuild(node: Node, children: list[Any], like: Any = None) -> Any:
    """A container of a node's kind from its children."""
    if issubclass(node.kind, dict):
        assert node.keys is not None
        return dict(zip(node.keys, children, strict=True))
    if dataclasses.is_dataclass(node.kind):
        assert node.keys is not None
        result = object.__new__(node.kind)
        for name, value in getattr(like, "__dict__", {}).items():
            object.__setattr__(result, name, value)
        for name, value in zip(node.keys, children, strict=True):
            object.__setattr__(result, name, value)
        return result
    if node.keys is not None:
        return node.kind(*children)
    return list(children) if issubclass(node.kind, list) else tuple(children)


def identifier(text: str) -> str:
    """A Python name for an input: `params['b']` -> `params_b`."""
    name = re.sub(r"\W+", "_", text).strip("_") or "x"
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"x_{name}"
    return name


def is_user_module(name: str | None) -> bool:
    """Whether a module is the user's own: neither NumPy and its kind nor Python's standard library."""
    root = (name or "").split(".")[0]
    if root == "adcompile":
        return bool(name and name.startswith("adcompile.examples"))
    return root not in STANDARD and root not in sys.stdlib_module_names
