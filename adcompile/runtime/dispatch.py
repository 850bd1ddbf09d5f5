"""Which kernel answers a call: specialisations, their guards, and the slow path that finds or makes the right one.

The fast path is a generated function (see `call`). It falls to `Dispatch.slow` when a type, a structure, a captured object
or a guard is not as it was at capture. There the arguments are brought into the form kernels take, the specialisations are
tried in turn, and if none fits, a new one is made. What a call means never depends on which specialisations exist.
"""

from __future__ import annotations

import enum
import inspect
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import GuardError, ShapeError
from ..ir.core import Function
from ..ir.signature import Access, Argument, Check, Leaf, Node, Signature, Static, Tree
from ..ir.types import DType, Type
from .call import CallWriter, child_steps, is_record, wrt_leaves
from .compile import CompiledModule
from .convert import LeafKey, Mismatch, convert, leaf_key
from .tape import TapeModule

COMPARABLE = (bool, int, float, complex, str, bytes, enum.Enum, np.dtype, np.bool_)
NARROW = (DType.f32, DType.c64)              # what Python numbers adapt to, so that their class decides on dtypes
LOCK = threading.RLock()                    # around everything that makes or installs a specialisation


def fresh_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global LOCK
    LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=fresh_lock)


@dataclass(eq=False)
class Specialisation:
    """One compiled meaning of the function: for these types, structures, captured objects and guards."""

    signature: Signature
    head: Function                          # of the graph that the kernel computes: all but its operations
    module: CompiledModule | TapeModule
    has_gradient: bool
    remake: Callable[[], Any]               # gives what the pipeline keeps for inspection
    keys: set[tuple[LeafKey, ...]] = field(default_factory=set)      # of the calls it was made for
    any_number: bool = False                # its types do not come from a call: integers are cast to floats in every call
    finish: Callable[[], Specialisation] | None = None      # makes the machine code for which another module stands in

    def __post_init__(self) -> None:
        self.wrt_order = wrt_leaves(self.signature) if self.has_gradient else []
        self.wrt = frozenset(self.wrt_order)
        self.primal = len(self.head.results) - len(self.wrt_order)
        self.mixed = any(p.type.dtype in NARROW for p in self.head.params)
        self.writer = CallWriter(self.signature, has_gradient=self.has_gradient)
        self.rebuild = self.make_rebuild()

    def __repr__(self) -> str:
        types = ", ".join(f"{v.name}: {v.type}" for v in self.head.params)
        guards = f" if {' and '.join(self.guards)}" if self.guards else ""
        return f"<{self.head.name}({types}){guards}>"

    @cached_property
    def stages(self) -> Any:
        """What the pipeline keeps for inspection."""
        return self.remake()

    @property
    def function(self) -> Function:
        """The graph that the kernel computes: primal results, then gradients."""
        graph: Function = self.stages.final
        return graph

    @property
    def source(self) -> str:
        """The generated Python; of what waits for its machine code, that which it will be made of."""
        return self.module.source if self.finish is None else str(self.remake().stage("source"))

    @property
    def guards(self) -> tuple[str, ...]:
        """What was assumed at capture, as expressions of sizes and captured objects."""
        sizes = size_names(self.head)
        relations = [name_sizes(str(g), sizes) for g in self.head.guards]
        for k, value in enumerate(self.head.params):
            for axis, dim in enumerate(value.type.dims):
                own = f"{self.signature.inputs[k].text}.shape[{axis}]"
                if name_sizes(str(dim), sizes) != own:
                    relations.append(f"{own} == {name_sizes(str(dim), sizes)}")
        return tuple(relations) + tuple(f"{c.text} is {describe(c.expected)}" for c in self.signature.checks)

    def make_fast(self, slow: Callable[..., Any]) -> Callable[..., Any]:
        """The function that calls it."""
        text = self.writer.write(self.head.name, self.primal, self.classes(), self.buffers() if self.module.direct else (),
                                 self.small(), self.floats() if self.any_number else ())
        if self.module.direct:
            return self.writer.make(self.head.name, text, None, self.module.called, slow)
        kernel = LazyKernel(self.module)
        fast = self.writer.make(self.head.name, text, self.module.called, kernel, slow)
        kernel.namespace = fast.__globals__
        return fast

    def small(self) -> str | None:
        """The condition under which a call has too little to do for threads."""
        if self.module.sharing is None:
            return None
        where = {symbol: self.writer.read(self.signature.inputs[s.parameter].access)
                 + ("" if s.axis is None else f".shape[{s.axis}]") for symbol, s in self.head.sizes.items()}
        text: str = self.module.sharing.small_text(where)
        return text

    def buffers(self) -> list[tuple[int, Type]]:
        """For each gradient, in order: the parameter that it has the shape of, and its type."""
        return [(k, self.head.params[k].type) for k in self.wrt_order]

    def floats(self) -> list[str]:
        """The arguments that are float64 numbers."""
        return [i.name for i, p in zip(self.signature.inputs, self.head.params, strict=True)
                if p.type == Type(DType.f64) and i.access == Access(Argument(i.name))]

    def make_rebuild(self) -> Callable[[tuple], Any]:
        """Puts the call's result together from the kernel's flat results."""
        flat = f"{self.writer.prefix}flat"
        text = f"def rebuild({flat}):\n    return {self.writer.result(flat, self.primal)}\n"
        return self.writer.make("rebuild", text, None, None, tuple)

    def classes(self) -> dict[int, type]:
        """What numba does not look at: arrays must be plain arrays, not masked ones; and beside float32 a number must be
        of the class that it had at capture, for a Python float is weak there and a np.float64 is not."""
        found: dict[int, type] = {k: np.ndarray for k, p in enumerate(self.head.params) if p.type.rank}
        if self.mixed:
            (key, *_) = self.keys
            found |= {k: leaf[0] for k, leaf in enumerate(key) if k not in found}
        return found

    # ------------------------------------------------------------------------------------------------ slow path
    def match(self, arguments: Mapping[str, Any], *, fresh: bool = False) -> tuple[Any, ...] | None:
        """The kernel's parameters for these arguments; None where this specialisation is not meant for them.
        `fresh`: it was just made for these arguments."""
        try:
            if not all(same_structure(arguments[name], tree) for name, tree in self.signature.arguments.items()):
                return None
            if not all(check_holds(check, arguments) for check in self.signature.checks):
                return None
            raw = [read(i.access, arguments) for i in self.signature.inputs]
            key = tuple(leaf_key(value) for value in raw)
            if fresh:
                self.keys.add(key)
            lenient = self.any_number or key in self.keys
            if self.mixed and not lenient:
                return None
            values = tuple(convert(value, param.type, wrt=k in self.wrt, lenient=lenient)
                           for k, (value, param) in enumerate(zip(raw, self.head.params)))
        except (Mismatch, LookupError, AttributeError):
            return None
        return values if self.guards_hold(values) else None

    def guards_hold(self, values: tuple[Any, ...]) -> bool:
        """Whether the sizes are as assumed."""
        sizes = self.sizes(values)
        for value, param in zip(values, self.head.params):
            if param.type.rank and any(d.evaluate(sizes) != n for d, n in zip(param.type.dims, value.shape)):
                return False
        return all(guard.holds(sizes) for guard in self.head.guards)

    def sizes(self, values: tuple[Any, ...]) -> dict[str, int]:
        """The sizes that these parameters have."""
        return {symbol: int(values[s.parameter]) if s.axis is None else values[s.parameter].shape[s.axis]
                for symbol, s in self.head.sizes.items()}

    def run(self, values: tuple[Any, ...], out: Any) -> Any:
        """Call the kernel with parameters that match. Errors of the user's code come as the user's."""
        try:
            return self.compute(values, out)
        except Exception as error:
            failure = self.signature.failure(error)
            if failure is None:
                raise
        raise failure.make()

    def compute(self, values: tuple[Any, ...], out: Any) -> Any:
        """Call the kernel and put its results together."""
        sharing = self.module.sharing
        shared = sharing is not None and sharing.is_worth(self.sizes(values))
        if out is None and not self.module.direct and not shared:
            flat = self.module.called(*values)
            return self.rebuild(flat if isinstance(flat, tuple) else (flat,))
        kernel = sharing.module if shared else self.module.kernel
        if out is None:
            made = tuple(np.empty(np.shape(values[k]), type.dtype.numpy) for k, type in self.buffers())
            value = kernel(*values, *made)
            gradients = tuple(m if m.ndim else m.item() for m in made)
            return self.rebuild((value if isinstance(value, tuple) else (value,)) + gradients)
        given = flatten_like(out, self.writer.gradient_tree(), "out")
        buffers = [buffer_for(g, self.head.params[i].type, np.shape(values[i]), [*values, *given[:k]])
                   for k, (g, i) in enumerate(zip(given, self.wrt_order))]
        value = kernel(*values, *buffers)
        for target, buffer in zip(given, buffers):
            if target is not buffer:
                target[...] = buffer
        primal = value if isinstance(value, tuple) else (value,)
        whole = self.rebuild(primal + tuple(given))
        return (whole[0], out, *whole[2:])


class LazyKernel:
    """Stands for the kernel in the fast call until `out=` is first used; then the kernel takes its place."""

    def __init__(self, module: CompiledModule | TapeModule) -> None:
        self.module = module
        self.namespace: dict[str, Any] = {}

    def __call__(self, *args: Any) -> Any:
        """Compile the kernel and call it."""
        for name, value in self.namespace.items():
            if value is self:
                self.namespace[name] = self.module.kernel
                break
        return self.module.kernel(*args)


def read(access: Access, arguments: Mapping[str, Any]) -> Any:
    """The value at an access; a closure cell that is empty counts as a name that is gone."""
    try:
        return access.read(arguments)
    except ValueError:
        raise LookupError("an empty closure cell") from None


def check_holds(check: Check, arguments: Mapping[str, Any]) -> bool:
    """Whether a captured object is as it was."""
    value = read(check.access, arguments)
    return value is check.expected if check.identity else same_value(value, check.expected)


def same_value(value: Any, expected: Any) -> bool:
    """Whether a static value is the same: the same object, or an equal one where equality says all."""
    return value is expected or (type(value) is type(expected) and isinstance(expected, COMPARABLE) and bool(value == expected))


def same_structure(value: Any, tree: Tree) -> bool:
    """Whether an argument has the containers and static values of a tree."""
    if isinstance(tree, Leaf):
        return True
    if isinstance(tree, Static):
        return same_value(value, tree.value)
    if type(value) is not tree.kind or not has_length(value, tree):
        return False
    return all(same_structure(child, t) for child, t in zip(children(value, tree), tree.children))


def has_length(value: Any, tree: Node) -> bool:
    """Whether a container has as many entries as a tree."""
    return is_record(tree.kind) or len(value) == len(tree.children)


def children(value: Any, tree: Node) -> list[Any]:
    """The contents of a container, in the tree's order."""
    if tree.keys is None:
        return list(value)
    return [getattr(value, key) if is_record(tree.kind) else value[key] for key in tree.keys]


def flatten_like(value: Any, tree: Tree, text: str) -> list[Any]:
    """The arrays in `out=`, which must have the gradient's structure."""
    if isinstance(tree, Leaf):
        return [value]
    if isinstance(tree, Static):
        return []
    wanted = tree.kind.__name__
    if not isinstance(value, tree.kind) or not has_length(value, tree):
        raise ShapeError(f"{text} must be a {wanted} of {len(tree.children)} arrays, as the gradient is",
                         do=f"Pass a {wanted} of arrays of the arguments' shapes.")
    steps = child_steps(tree, repr)
    return [leaf for child, t, step in zip(children(value, tree), tree.children, steps)
            for leaf in flatten_like(child, t, text + step)]


def buffer_for(out: Any, type: Type, shape: tuple[int, ...], others: list[Any]) -> np.ndarray:
    """Where the kernel writes a gradient: `out` itself, or a temporary where `out` is strided or shares memory with a
    parameter or another output. Raises on what cannot be written."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an array to write the gradient into, not {out.__class__.__name__}")
    if out.dtype != type.dtype.numpy:
        raise TypeError(f"out has dtype {out.dtype}; the gradient has {type.dtype.numpy}")
    if out.shape != shape:
        raise ShapeError(f"out has shape {out.shape}; the gradient has {shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    overlaps = any(isinstance(other, np.ndarray) and np.may_share_memory(out, other) for other in others)
    direct = out.__class__ is np.ndarray and out.flags.c_contiguous and out.flags.aligned and out.dtype.isnative
    return out if direct and not overlaps else np.empty(shape, type.dtype.numpy)


def size_names(function: Function) -> dict[str, str]:
    """How each size symbol is written in the user's terms."""
    names = {}
    for symbol, size in function.sizes.items():
        param = function.params[size.parameter].name
        names[symbol] = param if size.axis is None else f"{param}.shape[{size.axis}]"
    return names


def name_sizes(text: str, names: Mapping[str, str]) -> str:
    """An expression of size symbols in the user's terms."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m.group(), m.group()), text)


def describe(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return str(name) if name else repr(value)


class Dispatch:
    """The specialisations of one function, and the calls to them.

    `compile(args, kwargs)` makes a specialisation; `install(function)` is told which function answers calls from now on.
    """

    def __init__(self, name: str, signature: inspect.Signature, compile: Callable[[tuple, dict], Specialisation],
                 install: Callable[[Callable[..., Any]], None]) -> None:
        self.name, self.signature, self.compile, self.install = name, signature, compile, install
        self.specialisations: list[Specialisation] = []
        self.fast: dict[int, Callable[..., Any]] = {}
        self.latest: Specialisation | None = None

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """Arguments by name, defaults included. Raises `TypeError` as Python does for a wrong call."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def slow(self, args: tuple, kwargs: dict[str, Any], out: Any = None) -> Any:
        """A call for which the fast path is not made."""
        specialisation, values = self.find_or_make(args, kwargs)
        self.use(specialisation)
        return specialisation.run(values, out)

    def find(self, arguments: Mapping[str, Any]) -> tuple[Specialisation, tuple[Any, ...]] | None:
        """The specialisation that is meant for these arguments, and the kernel's parameters."""
        for specialisation in tuple(self.specialisations):
            values = specialisation.match(arguments)
            if values is not None:
                return specialisation, values
        return None

    def find_or_make(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Specialisation, tuple[Any, ...]]:
        """The specialisation for this call, compiled if there is none."""
        arguments = self.bind(args, kwargs)
        found = self.find(arguments)
        if found is not None:
            return found
        with LOCK:
            found = self.find(arguments)            # another thread may have made it meanwhile
            return found or self.make(args, kwargs, arguments)

    def make(self, args: tuple, kwargs: dict[str, Any],
             arguments: Mapping[str, Any]) -> tuple[Specialisation, tuple[Any, ...]]:
        """Compile for this call."""
        made = self.compile(args, kwargs)
        values = made.match(arguments, fresh=True)
        if values is None:
            raise GuardError(f"{self.name} was compiled for these arguments, yet what was assumed does not hold: "
                             + "; ".join(made.guards), do="Please report this: it is a bug in adcompile.")
        self.specialisations.append(made)
        return made, values

    def finish(self) -> None:
        """Put machine code in the place of what stands in for it."""
        with LOCK:
            for k, old in enumerate(self.specialisations):
                if old.finish is None:
                    continue
                new = self.specialisations[k] = old.finish()
                new.keys, new.any_number = old.keys, old.any_number
                if self.latest is old:
                    self.use(new)

    def use(self, specialisation: Specialisation) -> None:
        """Let this specialisation answer calls first from now on."""
        if specialisation is self.latest:
            return
        with LOCK:
            fast = self.fast.get(id(specialisation))
            if fast is None:
                fast = self.fast[id(specialisation)] = specialisation.make_fast(self.slow)
            self.latest = specialisation
            self.install(fast)
