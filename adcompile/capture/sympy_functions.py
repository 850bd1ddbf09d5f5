"""Undefined functions of a SymPy expression that the user gives as Python: `functions={"f": value}` or `{"f": (value, slope)}`.

Each is captured once for its number of arguments, as any user function is, and its graph becomes part of the expression's
wherever it is applied. Globals and closures that it reads are inputs, read anew at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import CaptureError, DifferentiationError, UnsupportedOp
from ..ir.analysis import renamed
from ..ir.builder import Builder
from ..ir.core import Block, Function, Guard, Literal, Location, Operand, Size, Value, walk
from ..ir.dims import Dim
from ..ir.rebuild import copy_block, map_dims
from ..ir.signature import Argument, Check, Input, Leaf, Node, Signature
from ..ir.types import DType, Type
from ..library.core import emit
from .driver import Abstract, CapturedFunction, capture_types

Given = Callable[..., Any]


class UserFunctions:
    """The functions by name, and what they brought into the graph: inputs that they read, sizes, guards, checks."""

    def __init__(self, functions: Mapping[Any, Any] | None, builder: Builder, where: Location | None) -> None:
        self.builder, self.where = builder, where
        self.values: dict[str, Given] = {}
        self.slopes: dict[str, Given] = {}
        self.captured: dict[tuple[Given, int], CapturedFunction] = {}
        self.read: dict[tuple[Given, int], list[Value]] = {}            # the parameters that stand for what it reads
        self.inputs: list[Input] = []
        self.sizes: dict[str, Size] = {}
        self.guards: list[Guard] = []
        self.checks: list[Check] = []
        for key, given in (functions or {}).items():
            self.add(key if isinstance(key, str) else getattr(key, "__name__", str(key)), given)

    def add(self, name: str, given: Any) -> None:
        """Take a function, or (function, derivative)."""
        parts = given if isinstance(given, tuple) else (given,)
        if len(parts) not in (1, 2) or not all(map(callable, parts)):
            raise CaptureError(f"functions[{name!r}] is neither a function nor a pair (function, derivative)", self.where,
                               f"functions={{{name!r}: (value, derivative)}}, each a Python function of numbers.")
        self.values[name] = parts[0]
        if len(parts) == 2:
            self.slopes[name] = parts[1]

    def knows(self, node: Any) -> bool:
        """Whether a node is one of these functions applied, or a derivative of it in one of its arguments."""
        applied = self.applied(node)
        return applied is not None and type(applied).__name__ in self.values

    def applied(self, node: Any) -> Any:
        """f(x), of f(x) itself, of Derivative(f(x), x) and of Subs(Derivative(f(t), t), t, x); None for all else."""
        if type(node).__name__ == "Subs":
            node = node.expr
        if type(node).__name__ == "Derivative":
            node = node.expr
        return node if getattr(node, "is_Function", False) and hasattr(type(node), "name") else None

    def operands_of(self, node: Any) -> list[Any]:
        """What must be computed before such a node: the arguments at which the function is taken."""
        arguments = list(self.applied(node).args)
        if type(node).__name__ != "Subs":
            return arguments
        points = dict(zip(node.variables, node.point, strict=True))
        return [points.get(x, x) for x in arguments]

    def emit(self, node: Any, operands: Sequence[Operand]) -> Operand:
        """The operand of such a node."""
        applied = self.applied(node)
        name = type(applied).__name__
        if applied is node:
            return self.value(name, operands)
        derivative = node.expr if type(node).__name__ == "Subs" else node
        places = [k for k, x in enumerate(applied.args) if x in derivative.variables]
        if derivative.derivative_count != 1 or len(places) != 1:
            raise UnsupportedOp(f"{derivative} is not a first derivative of {name} in one of its arguments", self.where,
                                "Give it as a function of its own.")
        if name not in self.slopes:
            raise UnsupportedOp(f"the expression contains {derivative}, and functions has no derivative for {name}", self.where,
                                f"functions={{{name!r}: (value, derivative)}}")
        return self.partials(name, operands)[places[0]]

    def value(self, name: str, operands: Sequence[Operand]) -> Operand:
        """The function's value, with the derivative that was given, or else that of its own operations."""
        results = self.inline(self.values[name], operands)
        if len(results) != 1:
            raise DifferentiationError(f"{name} gives {len(results)} numbers, not one", self.where,
                                       f"functions={{{name!r}: (value, derivative)}}, each returning what its name says.")
        result: Operand = self.number(name, results[0])
        if name not in self.slopes or all(isinstance(x, Literal) for x in operands):
            return result
        result = emit("stop_gradient", result)
        for x, slope in zip(operands, self.partials(name, operands), strict=True):
            result = emit("with_slope", result, x, slope) if isinstance(x, Value) else result
        return result

    def partials(self, name: str, operands: Sequence[Operand]) -> list[Operand]:
        """The partial derivatives that were given."""
        found = self.inline(self.slopes[name], operands)
        if len(found) != len(operands):
            raise DifferentiationError(f"the derivative of {name} gives {len(found)} numbers for {len(operands)} arguments",
                                       self.where, "Return one partial derivative an argument, as a tuple.")
        return [self.number(f"the derivative of {name}", x) for x in found]

    def number(self, what: str, x: Operand) -> Operand:
        """A result as a float64."""
        if x.type.rank or x.type.dtype is DType.bool or x.type.dtype.is_complex:
            raise DifferentiationError(f"{what} gives {x.type}, not a real number", self.where,
                                       "The function gets numbers, and must return one.")
        if isinstance(x, Literal):
            return Literal(float(x.value.real), DType.f64)
        result: Operand = x if x.type.dtype is DType.f64 else emit("cast", x, dtype=DType.f64)
        return result

    def inline(self, function: Given, operands: Sequence[Operand]) -> list[Operand]:
        """The results of a function, with its operations in the graph."""
        key = function, len(operands)
        if key not in self.captured:
            self.captured[key] = capture_types(function, [Abstract(DType.f64, 0)] * len(operands))
            self.declare(key)
        graph = self.captured[key].function
        values: dict[Value, Operand] = dict(zip(graph.params, [*operands, *self.read[key]], strict=True))
        outside = set(values.values())
        copied = copy_block(Block((), graph.body.operations, graph.results), values, self.rename(graph))
        made = [v for v in values.values() if isinstance(v, Value) and v not in outside]
        copied = renamed(Function(graph.name, copied), {v: self.builder.fresh(v.name) for v in made}).body
        for operation in copied.operations:
            self.builder.append(operation)
        return list(copied.yields)

    def declare(self, key: tuple[Given, int]) -> None:
        """Make parameters of the whole for what a function reads besides its arguments."""
        captured, count = self.captured[key], key[1]
        graph, signature = captured.function, captured.signature
        self.check_result(signature)
        if any(o.op == "extent" for o in walk(graph.body)):
            raise UnsupportedOp(f"{signature.name} makes arrays of lengths that it computes", self.where,
                                "Use arrays of fixed lengths in functions of SymPy expressions.")
        offset = len(self.builder.blocks[0][0]) - count
        rename = self.rename(graph)
        self.read[key] = [self.parameter(v, rename) for v in graph.params[count:]]
        self.inputs += signature.inputs[count:]
        self.checks += signature.checks
        self.guards += [Guard(rename(g.left), g.relation, rename(g.right), g.location) for g in graph.guards]
        for symbol, size in graph.sizes.items():
            (new,) = rename(Dim.symbol(symbol)).symbols
            self.sizes[new] = Size(offset + size.parameter, size.axis)

    def parameter(self, value: Value, rename: Callable[[Dim], Dim]) -> Value:
        """A parameter of the whole."""
        return self.builder.parameter(value.name, Type(value.type.dtype, map_dims(value.type.dims, rename)))

    def check_result(self, signature: Signature) -> None:
        """Raises where a function returns something else than numbers."""
        tree = signature.result
        leaves = tree.children if isinstance(tree, Node) and tree.kind in (tuple, list) else (tree,)
        if not all(isinstance(leaf, Leaf) for leaf in leaves):
            raise CaptureError(f"{signature.name} does not return a number", self.where,
                               "The function must return one number, its derivative one for each argument.")

    def rename(self, graph: Function) -> Callable[[Dim], Dim]:
        """Size symbols of a function's graph -> those of the whole."""
        prefix = f"{graph.name}_{next(k for k, c in enumerate(self.captured.values()) if c.function is graph)}_"
        return lambda dim: dim.substitute(lambda s: Dim.symbol(prefix + s) if s in graph.sizes else Dim.symbol(s))


def is_argument(entry: Input) -> bool:
    """Whether an input is an argument of the call."""
    return isinstance(entry.access.root, Argument)
