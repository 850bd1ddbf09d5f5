"""How a Python call becomes kernel parameters and how kernel results become Python values again. Plain data: capture
makes it, the runtime turns it into the code of the fast call.

A function's parameters are, in order: the array and number leaves of the arguments, then captured values (globals,
closure cells, attributes), which are read anew at every call by following an `Access`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from .core import Location


@dataclass(frozen=True)
class Argument:
    """Root of an access: the argument of this name."""

    name: str


@dataclass(frozen=True, eq=False)
class Captured:
    """Root of an access: a Python object that the function holds on to (a globals dict, a closure cell, a bound self,
    a constant array). Compared by identity."""

    object: Any


@dataclass(frozen=True)
class Access:
    """A path to a value: a root, then steps `("item", key)`, `("attr", name)`, `("cell", "")` (a cell's contents) or
    `("len", "")` (a container's length: only in checks)."""

    root: Argument | Captured
    steps: tuple[tuple[str, Any], ...] = ()

    def item(self, key: Any) -> Access:
        """This, then `[key]`."""
        return Access(self.root, (*self.steps, ("item", key)))

    def attribute(self, name: str) -> Access:
        """This, then `.name`."""
        return Access(self.root, (*self.steps, ("attr", name)))

    def cell(self) -> Access:
        """The contents of the closure cell that this is."""
        return Access(self.root, (*self.steps, ("cell", "")))

    def length(self) -> Access:
        """The number of entries of the container that this is."""
        return Access(self.root, (*self.steps, ("len", "")))

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """The value there now."""
        value = arguments[self.root.name] if isinstance(self.root, Argument) else self.root.object
        for kind, key in self.steps:
            if kind == "item":
                value = value[key]
            elif kind == "attr":
                value = getattr(value, key)
            elif kind == "len":
                value = len(value)
            else:
                value = value.cell_contents
        return value


@dataclass(frozen=True)
class Input:
    """One parameter of the function: its name, where it comes from, and how it is written in the user's code."""

    name: str
    access: Access
    text: str                       # "w", "params['b']", "self.scale", "lam"


@dataclass(frozen=True)
class Leaf:
    """In a tree: the parameter (or, in a result tree, the result) of this index."""

    index: int


@dataclass(frozen=True)
class Static:
    """In a tree: a Python object that is part of the call's structure (a string, None, a bool, a function)."""

    value: Any


@dataclass(frozen=True)
class Node:
    """In a tree: a container. `kind` is its type (tuple, list, dict, a NamedTuple or dataclass type); `keys` are dict
    keys or field names, None for sequences."""

    kind: type
    keys: tuple[Any, ...] | None
    children: tuple[Tree, ...]


Tree = Union[Leaf, Static, Node]


def leaves(tree: Tree) -> list[int]:
    """The indices of all leaves, in order."""
    if isinstance(tree, Leaf):
        return [tree.index]
    if isinstance(tree, Node):
        return [i for child in tree.children for i in leaves(child)]
    return []


@dataclass(frozen=True)
class Check:
    """Something that must be as it was at capture for the kernel to be right: the object found by `access` is the same
    object (`identity`: functions, modules, classes), or equal to it and of the same type (strings, bools, None)."""

    access: Access
    expected: Any
    identity: bool
    text: str


@dataclass(frozen=True)
class Failure:
    """An error of the user's that the compiled function raises as `exception(text)`, both of which tell which one it is."""

    exception: str
    text: str
    kind: type[Exception]
    arguments: tuple[Any, ...]
    state: Mapping[str, Any]                        # its attributes
    location: Location | None

    def is_like(self, other: Failure) -> bool:
        """Whether the compiled function raises the same."""
        return (self.exception, self.text) == (other.exception, other.text)

    def make(self) -> Exception:
        """The user's own exception, anew; a note says which line raises it."""
        error = self.kind.__new__(self.kind, *self.arguments)
        error.args = self.arguments
        vars(error).update(self.state)
        if self.location is not None:
            error.add_note(f"  {self.location}, in {self.location.function}\n    {self.location.source}")
        return error


@dataclass(frozen=True)
class Signature:
    """All that is needed to call a specialisation from Python."""

    name: str                                       # the user function's name
    python: inspect.Signature                       # of the user's callable, as it is called
    inputs: tuple[Input, ...]                       # one per parameter of the IR function, in order
    arguments: Mapping[str, Tree]                   # per argument of `python`: where its leaves are
    result: Tree                                    # of the function's return value; leaves index the function's results
    checks: tuple[Check, ...] = ()
    wrt: tuple[Tree, ...] = ()                      # per differentiated argument, as in `arguments`
    single_wrt: bool = True                         # `wrt` was one name, not a tuple: the gradient is not a tuple either
    has_aux: bool = False
    constants: tuple[str, ...] = field(default=())  # texts of inputs that take no gradient
    failures: tuple[Failure, ...] = ()              # that the user's code raises where traced values say so
    retain: tuple[str, ...] = ()                    # names of values whose gradients are returned as well

    def failure(self, error: Exception) -> Failure | None:
        """Which of the user's errors the compiled function means by one that it raised."""
        text = error.args[0] if error.args else ""
        return next((f for f in self.failures if (f.exception, f.text) == (type(error).__name__, text)), None)
