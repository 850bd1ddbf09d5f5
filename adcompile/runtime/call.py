"""Writes the Python function that a call of a specialisation runs: the user's own signature, then straight into numba.

For a loss of arrays it reads

    def loss(w, X, y, *, out=None):
        try:
            if out is None:
                _w = _empty(w.size)
                return _kernel(w, X, y, _w), _w
        except Exception:
            pass
        return _slow((w, X, y), {}, out)

Where a gradient is a number, the entry is called instead, which returns value and gradients together. Arguments that are
trees are taken apart, captured values are read, results are put together, all in straight code. A miss (other types or
structure, a guard, a name that is gone) is an exception, which costs nothing as long as there is none; the slow path starts
again from the user's own arguments and raises what is to be raised.
"""

from __future__ import annotations

import dataclasses
import inspect
import linecache
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir.signature import Access, Argument, Check, Leaf, Node, Signature, Static, Tree, leaves
from ..ir.types import DType, Type
from .compile import Miss

SIMPLE = (bool, int, float, complex, str, bytes, type(None))


class CallWriter:
    """Writes the fast call of one specialisation, and the objects that its text names."""

    def __init__(self, signature: Signature, *, has_gradient: bool) -> None:
        self.signature, self.has_gradient = signature, has_gradient
        self.prefix = "_"
        while any(name.startswith(self.prefix) for name in signature.python.parameters):
            self.prefix += "_"
        self.namespace: dict[str, Any] = {}

    # ------------------------------------------------------------------------------------------------ names
    def constant(self, value: Any) -> str:
        """An expression for an object: its literal, or a name in the namespace."""
        if type(value) in SIMPLE and not isinstance(value, (float, complex)):
            return repr(value)
        for name, known in self.namespace.items():
            if known is value:
                return name
        return self.bind(f"object{len(self.namespace)}", value)

    def bind(self, name: str, value: Any) -> str:
        """Give an object a name that no argument has."""
        self.namespace[self.prefix + name] = value
        return self.prefix + name

    # ------------------------------------------------------------------------------------------------ reading
    def read(self, access: Access) -> str:
        """The expression that reads an access."""
        text = access.root.name if isinstance(access.root, Argument) else self.constant(access.root.object)
        for kind, key in access.steps:
            if kind == "len":
                text = f"{self.constant(len)}({text})"
            else:
                text += {"item": f"[{self.constant(key)}]" if kind == "item" else "", "attr": f".{key}",
                         "cell": ".cell_contents"}[kind]
        return text

    def conditions(self, text: str, tree: Tree) -> list[str]:
        """What must hold for the value of `text` to have the structure of `tree`."""
        if isinstance(tree, Leaf):
            return []
        if isinstance(tree, Static):
            return [self.same(text, tree.value, identity=not isinstance(tree.value, SIMPLE))]
        found = [f"{self.constant(type)}({text}) is {self.constant(tree.kind)}"]
        if not is_record(tree.kind):
            found.append(f"{self.constant(len)}({text}) == {len(tree.children)}")
        for step, child in zip(child_steps(tree, self.constant), tree.children):
            found += self.conditions(text + step, child)
        return found

    def same(self, text: str, expected: Any, *, identity: bool) -> str:
        """What must hold for the value of `text` to be as it was at capture."""
        if identity or expected is None or isinstance(expected, bool):
            return f"{text} is {self.constant(expected)}"
        return f"{self.constant(type)}({text}) is {self.constant(type(expected))} and {text} == {self.constant(expected)}"

    def check(self, check: Check) -> str:
        """The condition of a check."""
        return self.same(self.read(check.access), check.expected, identity=check.identity)

    def all_conditions(self) -> list[str]:
        """All that must hold, besides what the kernel checks itself."""
        found = [c for name, tree in self.signature.arguments.items() for c in self.conditions(name, tree)]
        return found + [self.check(c) for c in self.signature.checks]

    # ------------------------------------------------------------------------------------------------ results
    def build(self, tree: Tree, leaf: Callable[[int], str]) -> str:
        """The expression that makes a tree out of leaves."""
        if isinstance(tree, Leaf):
            return leaf(tree.index)
        if isinstance(tree, Static):
            return self.constant(tree.value)
        children = [self.build(child, leaf) for child in tree.children]
        if tree.kind is tuple:
            return "(" + "".join(c + ", " for c in children).strip() + ")"
        if tree.kind is list:
            return "[" + ", ".join(children) + "]"
        assert tree.keys is not None
        if issubclass(tree.kind, dict):
            items = "{" + ", ".join(f"{self.constant(k)}: {c}" for k, c in zip(tree.keys, children)) + "}"
            return items if tree.kind is dict else f"{self.constant(mapping_like)}({self.constant(tree.kind)}, {items})"
        fields = ", ".join(f"{k}={c}" for k, c in zip(tree.keys, children))
        if dataclasses.is_dataclass(tree.kind) and not all(f.init for f in dataclasses.fields(tree.kind)):
            return f"{self.constant(record_like)}({self.constant(tree.kind)}, {fields})"
        return f"{self.constant(tree.kind)}({fields})"

    def gradient_tree(self) -> Tree:
        """The structure of the gradient; leaves index the gradients."""
        order = {index: k for k, index in enumerate(wrt_leaves(self.signature))}
        trees = tuple(renumber(tree, order) for tree in self.signature.wrt)
        return trees[0] if self.signature.single_wrt else Node(tuple, None, trees)

    def result(self, name: str, primal: int) -> str:
        """The expression of what the call returns, given that `name` holds the flat results."""
        parts = self.parts(primal, lambda i: f"{name}[{i}]")
        return f"({', '.join(parts)})" if self.has_gradient else parts[0]

    def parts(self, primal: int, leaf: Callable[[int], str]) -> list[str]:
        """The expressions of the value, the gradient and (where they are asked for) the gradients of named values by name.
        `leaf(i)` is flat result i; of the `primal` results that are not gradients of arguments, retained ones come last."""
        value = self.build(self.signature.result, leaf)
        if not self.has_gradient:
            return [value]
        retain = self.signature.retain
        first = primal - len(retain)
        named = [f"{{{', '.join(f'{label!r}: {leaf(first + k)}' for k, label in enumerate(retain))}}}"] if retain else []
        return [value, self.build(self.gradient_tree(), lambda i: leaf(primal + i)), *named]

    # ------------------------------------------------------------------------------------------------ the whole
    @staticmethod
    def stub(name: str, signature: inspect.Signature) -> Callable[..., Any]:
        """A function of this name and signature that does nothing."""
        writer = CallWriter(Signature(name, signature, (), {}, Static(None)), has_gradient=False)
        return writer.make(name, f"def {name}{writer.header()}:\n    pass\n", None, None, tuple)

    def header(self) -> str:
        """The user's signature, its defaults by name; with a gradient, `out` is added."""
        parameters = []
        for p in self.signature.python.parameters.values():
            default = p.default if p.default is p.empty else Name(self.bind(f"default_{p.name}", p.default))
            parameters.append(p.replace(default=default, annotation=p.empty))
        if self.takes_out():
            out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
            at = len(parameters) - any(p.kind is p.VAR_KEYWORD for p in parameters)
            parameters.insert(at, out)
        return str(inspect.Signature(parameters))

    def takes_out(self) -> bool:
        """Whether the call has the keyword `out`."""
        return self.has_gradient and "out" not in self.signature.python.parameters

    def same_arguments(self) -> tuple[str, str]:
        """The call's own arguments, passed on: a tuple and a dict."""
        positional, keywords = [], []
        for p in self.signature.python.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                positional.append(f"*{p.name}")
            elif p.kind is p.VAR_KEYWORD:
                keywords.append(f"**{p.name}")
            elif p.kind is p.KEYWORD_ONLY:
                keywords.append(f"{p.name!r}: {p.name}")
            else:
                positional.append(p.name)
        return "(" + "".join(p + ", " for p in positional).strip() + ")", "{" + ", ".join(keywords) + "}"

    def write(self, name: str, primal: int, classes: Mapping[int, type] = MappingProxyType({}),
              buffers: Sequence[tuple[int, Type]] = (), small: str | None = None, floats: Sequence[str] = ()) -> str:
        """The text of the function. `primal`: how many results are not gradients; `classes`: of some parameters, the
        class that their values must have (numba takes a masked array for an array); `buffers`: where the kernel is called
        and not the entry, for each gradient the parameter that has its shape, and its type; `small`: what must hold for a
        call to stay on one thread; `floats`: the arguments for which a Python integer means the float of this value."""
        reads = [self.read(i.access) for i in self.signature.inputs]
        inputs = ", ".join(reads)
        conditions = self.all_conditions()
        conditions += [f"{self.constant(type)}({reads[k]}) is {self.constant(c)}" for k, c in classes.items()]
        conditions += [small] if small else []
        body = [f"if not ({' and '.join(conditions)}):", f"    raise {self.prefix}Miss"] if conditions else []
        body += self.write_kernel(reads, primal, buffers) if buffers else self.write_entry(inputs, primal)
        if self.takes_out():
            body = ["if out is None:", *("    " + line for line in body), *self.write_out(inputs, conditions)]
        args, kwargs = self.same_arguments()
        out = "out" if self.takes_out() else "None"
        lines = [f"def {name}{self.header()}:", "    try:", *("        " + line for line in body),
                 "    except Exception:", "        pass", *self.write_floats(floats),
                 f"    return {self.prefix}slow({args}, {kwargs}, {out})"]
        return "\n".join(lines) + "\n"

    def write_floats(self, floats: Sequence[str]) -> list[str]:
        """Behind a miss: the call once more, with integers as floats."""
        if not floats:
            return []
        kind, whole, number = (self.bind(c.__name__, c) for c in (type, int, float))     # an argument may be called `float`
        positional = [f"{number}({x}) if {kind}({x}) is {whole} else {x}" if x in floats else x
                      for x in self.signature.python.parameters]
        again = ", ".join(positional + ["out=out"] * self.takes_out())
        return [f"    if {whole} in map({kind}, ({', '.join(floats)},)):", f"        return {self.prefix}again({again})"]

    def write_entry(self, inputs: str, primal: int) -> list[str]:
        """The call of the entry, and what is made of its results."""
        call, name = f"{self.prefix}entry({inputs})", f"{self.prefix}results"
        result = self.result(name, primal)
        if result == f"({name}[0], {name}[1])":
            return [f"return {call}"]
        return [f"{name} = {call}", f"return {result}"]

    def write_kernel(self, reads: list[str], primal: int, buffers: Sequence[tuple[int, Type]]) -> list[str]:
        """Arrays for the gradients, and the call of the kernel that fills them."""
        self.bind("empty", np.empty)
        names = [f"{self.prefix}bar{k}" for k in range(len(buffers))]
        lines = []
        for name, (k, type) in zip(names, buffers):
            dtype = "" if type.dtype is DType.f64 else f", {self.constant(type.dtype.numpy)}"
            lines.append(f"{name} = {self.prefix}empty({reads[k]}.{'size' if type.rank == 1 else 'shape'}{dtype})")
        call, value = f"{self.prefix}kernel({', '.join([*reads, *names])})", f"{self.prefix}value"
        primals = [call] if primal == 1 else [f"{value}[{k}]" for k in range(primal)]
        if primal != 1:
            lines.append(f"{value} = {call}")
        flat = dict(enumerate([*primals, *names]))
        return [*lines, f"return {', '.join(self.parts(primal, flat.__getitem__))}"]

    def write_out(self, inputs: str, conditions: list[str]) -> list[str]:
        """The branch for `out=`, where the gradient is one array: straight into the kernel if nothing overlaps."""
        if self.gradient_tree() != Leaf(0) or self.signature.has_aux or self.signature.result != Leaf(0) or self.signature.retain:
            return []
        self.bind("overlap", np.may_share_memory)
        apart = [f"not {self.prefix}overlap(out, {self.read(i.access)})" for i in self.signature.inputs]
        return [f"if {' and '.join([*conditions, *apart])}:", f"    return {self.prefix}kernel({inputs}, out), out"]

    def make(self, name: str, text: str, entry: Any, kernel: Any, slow: Callable[..., Any]) -> Callable[..., Any]:
        """The function of this text."""
        namespace = {"__name__": "adcompile.runtime.call", **self.namespace}
        for key, value in (("entry", entry), ("kernel", kernel), ("slow", slow), ("Miss", Miss)):
            namespace[self.prefix + key] = value
        filename = f"<adcompile call of {name} {id(entry):x}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        namespace[self.prefix + "again"] = function
        return function


def mapping_like(kind: Any, items: dict[Any, Any]) -> Any:
    """A dict of a subclass whose constructor may want something else than the items (a defaultdict wants its default)."""
    made = kind.__new__(kind)
    made.update(items)
    return made


def record_like(kind: type, /, **fields: Any) -> Any:
    """A dataclass instance with these fields, where its constructor does not take all of them."""
    made: Any = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


class Name:
    """Prints as a name, for defaults in a signature's text."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def is_record(kind: type) -> bool:
    """Whether a container has fields (a NamedTuple or a dataclass)."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def child_steps(tree: Node, constant: Callable[[Any], str]) -> list[str]:
    """How each child is read from its container."""
    if tree.keys is None:
        return [f"[{i}]" for i in range(len(tree.children))]
    if is_record(tree.kind):
        return [f".{key}" for key in tree.keys]
    return [f"[{constant(key)}]" for key in tree.keys]


def wrt_leaves(signature: Signature) -> list[int]:
    """The parameters that are differentiated, in the order of their gradients."""
    return [index for tree in signature.wrt for index in leaves(tree)]


def renumber(tree: Tree, order: dict[int, int]) -> Tree:
    """A tree with other leaf numbers."""
    if isinstance(tree, Leaf):
        return Leaf(order[tree.index])
    if isinstance(tree, Node):
        return Node(tree.kind, tree.keys, tuple(renumber(child, order) for child in tree.children))
    return tree
