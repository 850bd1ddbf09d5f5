"""What a piece of Python code can change: variables, lists, dicts, attributes. A `Snapshot` finds all that a block's function
can reach, tells what changed while it ran, and puts it back; `flatten` takes values apart into traced leaves."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Literal, Operand
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType, Type
from ..library.core import as_value, broadcast_to, cast
from .inputs import is_dataclass_instance, is_user_module
from .rewriter import HOOK
from .symint import SymInt
from .text import written
from .trace import Trace
from .tracer import Tracer
from .where import user_location

NUMBERS = (bool, int, float, complex, np.generic)


# --------------------------------------------------------------------------------------------------------- placeholders
class Undefined:
    """In the place of a variable whose value is not known, because it differs in a way that cannot be traced."""

    def __init__(self, why: str, do: str) -> None:
        self.why, self.do, self.location = why, do, user_location()

    def read(self, name: str) -> Any:
        """Reading it is an error."""
        raise CaptureError(f"`{name}` {self.why}", user_location(), self.do)


class Late:
    """A variable that a loop's body defines: after the loop it has the last turn's value, if there was one."""

    def __init__(self, value: Any, check: Callable[[str], None]) -> None:
        self.value, self.check = value, check

    def read(self, name: str) -> Any:
        """The value; a guard says that there was a turn."""
        self.check(name)
        return self.value


class Maybe:
    """A variable that has a value on some paths only: `defined`, a bool that may be traced, tells whether it has one."""

    def __init__(self, value: Any, defined: Any) -> None:
        self.value, self.defined = value, defined

    def read(self, name: str) -> Any:
        """The value; where there is none, the compiled function raises what Python does."""
        from .failure import fail

        if isinstance(self.defined, Tracer):
            trace = self.defined.trace
            missing = trace.operator(np.logical_not, self.defined)
            text = f"cannot access local variable {name!r} where it is not associated with a value"
            fail(trace, missing.value, UnboundLocalError(text), user_location())
        elif not self.defined:
            Undefined("has no value", "assign it first").read(name)
        return self.value


PLACEHOLDERS = (Undefined, Late, Maybe)


def as_maybe(x: Any) -> Any:
    """A value that is there for sure, in the form of one that may be missing."""
    return x if isinstance(x, PLACEHOLDERS) else Maybe(x, True)


# --------------------------------------------------------------------------------------------------------- taking apart
Spec = tuple[Any, ...]


def flatten(x: Any, leaves: list[Any]) -> Spec:
    """The structure of a value; its numbers and arrays are appended to `leaves`."""
    if isinstance(x, (Tracer, SymInt, *NUMBERS, np.ndarray)):
        leaves.append(x)
        return ("leaf",)
    if isinstance(x, (tuple, list)):
        return (type(x), None, tuple(flatten(a, leaves) for a in x))
    if isinstance(x, Maybe):
        return (Maybe, None, (flatten(x.value, leaves), flatten(x.defined, leaves)))
    if isinstance(x, dict):
        return (type(x), tuple(x), tuple(flatten(a, leaves) for a in x.values()))
    if is_dataclass_instance(x) or is_user_object(x):
        return (type(x), tuple(vars(x)), tuple(flatten(a, leaves) for a in vars(x).values()))
    return ("static", x)


def is_user_object(x: Any) -> bool:
    """Whether a value is an instance of a class of the user's own with plain attributes."""
    return (
        is_user_module(type(x).__module__)
        and hasattr(x, "__dict__")
        and not isinstance(x, (type, *PLACEHOLDERS))
        and not callable(x)
    )


def build(spec: Spec, leaves: Iterator[Any]) -> Any:
    """The value of a structure, with other leaves."""
    if spec[0] == "leaf":
        return next(leaves)
    if spec[0] == "static":
        return spec[1]
    kind, keys, parts = spec
    items = [build(part, leaves) for part in parts]
    if kind is Maybe:
        return Maybe(*items)
    if keys is None:
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if issubclass(kind, dict):
        return dict(zip(keys, items, strict=True))
    made = object.__new__(kind)
    made.__dict__.update(zip(keys, items, strict=True))
    return made


def same_structure(a: Spec, b: Spec) -> bool:
    """Whether two values differ in their leaves only."""
    if a[0] != b[0]:
        return False
    if a[0] == "leaf":
        return True
    if a[0] == "static":
        return a[1] is b[1] or type(a[1]) is type(b[1]) and bool(a[1] == b[1])
    return a[1] == b[1] and len(a[2]) == len(b[2]) and all(map(same_structure, a[2], b[2]))


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are certainly the same: one object, or equal concrete numbers."""
    if a is b:
        return True
    if isinstance(a, (*NUMBERS, str)) and type(a) is type(b):
        return bool(a == b)
    if isinstance(a, SymInt) and isinstance(b, SymInt):
        return bool(a.dim == b.dim)
    if isinstance(a, tuple) and type(a) is type(b) and len(a) == len(b):
        return all(map(is_same, a, b))
    return False


def describe(x: Any) -> str:
    """A value in an error message."""
    if isinstance(x, Tracer):
        return f"a traced {x.kind()}"
    return f"a list of length {len(x)}" if isinstance(x, list) else f"the {type(x).__name__} {written(x)}"[:60]


# --------------------------------------------------------------------------------------------------------- leaves in the IR
@dataclass(frozen=True)
class LeafType:
    """The IR type of a leaf, and whether it counts as a Python number."""

    type: Type
    weak: bool


def leaf_type(trace: Trace, x: Any) -> LeafType:
    """The type of a leaf."""
    if isinstance(x, Tracer):
        return LeafType(x.type, x.weak and not x.ndim)
    if isinstance(x, SymInt):
        return LeafType(Type(DType.i64), x.weak)
    if isinstance(x, (np.ndarray, np.generic)):
        return LeafType(Type(trace.inputs.dtype(x, "a variable"), tuple(map(Dim.of, np.shape(x)))), False)
    kind = next(k for k in (bool, int, float, complex) if isinstance(x, k))
    return LeafType(Type({bool: DType.bool, int: DType.i64, float: DType.f64, complex: DType.c128}[kind]), True)


def leaf_operand(trace: Trace, x: Any, wanted: LeafType) -> Operand:
    """A leaf as an operand of a type: cast, and broadcast where it is one number."""
    trace.builder.location = user_location()
    value = (
        x.value
        if isinstance(x, Tracer)
        else as_value(trace.unwrap(x))
        if not isinstance(x, NUMBERS) or isinstance(x, np.generic)
        else literal_like(x, leaf_type(trace, x).type.dtype)
    )
    if isinstance(x, Tracer):
        trace.check_home(value)
    value = cast(value, wanted.type.dtype)
    if wanted.type.dims and (not value.type.dims or isinstance(value, Literal)):
        return broadcast_to(value, wanted.type.dims)
    return value


def join(trace: Trace, a: LeafType, b: LeafType) -> LeafType | None:
    """The type that holds values of two types; None where their shapes differ."""
    dims = a.type.dims or b.type.dims
    for one in (a, b):
        if one.type.dims and (one.type.rank != len(dims) or not all(map(trace.sizes.equal, one.type.dims, dims))):
            return None
    scalars: dict[str, Any] = {"i": 0, "u": 0, "f": 0.0, "c": 0j}
    given = [one.type.dtype.numpy for one in (a, b)]
    if a.weak != b.weak and given[0] != given[1]:
        found = np.result_type(
            *[scalars[d.kind] if one.weak and d.kind != "b" else d for one, d in zip((a, b), given, strict=True)]
        )
    else:
        found = np.result_type(*given)
    dtype = DType(found.name)
    return LeafType(Type(dtype, tuple(map(trace.sizes.resolve, dims))), a.weak and b.weak)


# --------------------------------------------------------------------------------------------------------- reachable state
class Slot:
    """A place that holds values by key: a variable's cell, a list, a dict, an object's attributes."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def read(self) -> dict[Any, Any]:
        """The values now."""
        owner = self.owner
        if isinstance(owner, types.CellType):
            try:
                return {self.name: owner.cell_contents}
            except ValueError:
                return {}
        if isinstance(owner, list):
            return dict(enumerate(owner))
        return dict(owner) if isinstance(owner, dict) else dict(vars(owner))

    def write(self, values: dict[Any, Any]) -> None:
        """Make it hold these values."""
        owner = self.owner
        if isinstance(owner, types.CellType):
            if values:
                (owner.cell_contents,) = values.values()
            elif self.read():
                del owner.cell_contents
        elif isinstance(owner, list):
            owner[:] = [values[k] for k in range(len(values))]
        else:
            target = owner if isinstance(owner, dict) else vars(owner)
            if list(target) != list(values) or any(target[k] is not values[k] for k in values):
                target.clear()
                target.update(values)

    def text(self, key: Any) -> str:
        """An entry as the user writes it."""
        if isinstance(self.owner, types.CellType):
            return self.name
        return f"{self.name}[{key!r}]" if isinstance(self.owner, (list, dict)) else f"{self.name}.{key}"


Entry = tuple[int, Any]  # a slot's position and a key in it


class Snapshot:
    """All slots that functions can reach, with their values."""

    def __init__(self, trace: Trace, functions: Iterable[Any]) -> None:
        self.trace = trace
        self.slots: list[Slot] = []
        self.before: list[dict[Any, Any]] = []
        self.seen: set[int] = set()
        for function in functions:
            self.visit(function, "")

    def visit(self, x: Any, name: str) -> None:
        """Find the slots in a value."""
        if isinstance(x, (Tracer, SymInt, np.ndarray, str, type, types.ModuleType, *NUMBERS)) or x is None or id(x) in self.seen:
            return
        self.seen.add(id(x))
        if isinstance(x, types.FunctionType):
            if HOOK in x.__code__.co_freevars or x.__code__.co_name.startswith(HOOK):
                for variable, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
                    if not variable.startswith(HOOK):
                        self.add(cell, variable)
            else:
                for cell in x.__closure__ or ():
                    self.visit(contents_of(cell), name)
        elif isinstance(x, types.MethodType):
            self.visit(x.__self__, name)
            self.visit(x.__func__, name)
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args, *x.keywords.values()):
                self.visit(part, name)
        elif isinstance(x, tuple):
            for k, item in enumerate(x):
                self.visit(item, f"{name}[{k}]")
        elif self.trace.inputs.origin(x) is None and (isinstance(x, (list, dict)) or is_dataclass_instance(x) or is_state(x)):
            self.add(x, name)

    def add(self, owner: Any, name: str) -> None:
        """Note a slot, and those in its values."""
        if any(slot.owner is owner for slot in self.slots):
            return
        slot = Slot(owner, name)
        values = slot.read()
        self.slots.append(slot)
        self.before.append(values)
        for key, value in values.items():
            self.visit(value, slot.text(key))

    def restore(self) -> None:
        """Put everything back."""
        for slot, values in zip(self.slots, self.before, strict=True):
            slot.write(values)

    @contextmanager
    def at(self, values: list[dict[Any, Any]]) -> Iterator[None]:
        """With everything as it was at some time."""
        now = self.after()
        for slot, entries in zip(self.slots, values, strict=True):
            slot.write(entries)
        try:
            yield
        finally:
            for slot, entries in zip(self.slots, now, strict=True):
                slot.write(entries)

    def after(self) -> list[dict[Any, Any]]:
        """The values now."""
        return [slot.read() for slot in self.slots]

    def changed(self, since: list[dict[Any, Any]]) -> dict[Entry, tuple[Any, Any]]:
        """The entries that are other objects now, with what they were and are; `MISSING` where there was or is none."""
        found: dict[Entry, tuple[Any, Any]] = {}
        for place, (slot, old) in enumerate(zip(self.slots, since, strict=True)):
            new = slot.read()
            for key in dict.fromkeys((*old, *new)):
                a, b = old.get(key, MISSING), new.get(key, MISSING)
                if not is_same(a, b):
                    found[place, key] = a, b
        return found

    def text(self, entry: Entry) -> str:
        """An entry as the user writes it."""
        return self.slots[entry[0]].text(entry[1])

    def is_variable(self, entry: Entry) -> bool:
        """Whether an entry is a variable (and not in a list, a dict or an object)."""
        return isinstance(self.slots[entry[0]].owner, types.CellType)

    def put(self, values: dict[Entry, Any]) -> None:
        """Set entries; `MISSING` removes them."""
        for place in dict.fromkeys(place for place, _ in values):
            new = self.slots[place].read()
            for (where, key), value in values.items():
                if where == place and value is MISSING:
                    new.pop(key, None)
                elif where == place:
                    new[key] = value
            self.slots[place].write(new)


MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()


def contents_of(cell: types.CellType) -> Any:
    """What a variable holds; None where it has no value."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def is_state(x: Any) -> bool:
    """Whether a value is an object whose attributes the user's code may change."""
    return is_user_module(type(x).__module__) and hasattr(x, "__dict__") and not isinstance(x, (type, *PLACEHOLDERS))
