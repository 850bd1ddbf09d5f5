"""Gradients inside traced code: `ad.grad(f)(x)`, `ad.value_and_grad(f)(x)`, and `compile_grad` functions it calls.

The inner function is traced on new values in the place of the arguments that it is differentiated in, as a graph of its own
that reads the values around it. The adjoint is appended to that graph at once, and the whole becomes part of the traced code,
as if the user had written the derivative out. So derivatives of any order nest, and an outer derivative is never mixed up
with an inner one.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import CaptureError, DifferentiationError, ShapeError
from ..ir.analysis import free_values, live_operations
from ..ir.core import Block, Function, Operand, Size, Value, walk
from ..ir.rebuild import copy_block
from ..ir.types import DType, Type, dtype_of
from .arguments import Place, bind, cast_floats, python_signature, wrt_places
from .inputs import identifier
from .state import LeafType, Spec, build, flatten, leaf_operand, leaf_type
from .symint import SymInt
from .trace import Trace
from .tracer import Tracer
from .where import user_location

Call = Callable[..., Any]


def is_compiled(function: Any) -> bool:
    """Whether a callable is one of adcompile's own: a compiled function, the gradient of one, or the method that gives it."""
    if isinstance(function, types.MethodType):
        return function.__name__ == "grad" and is_compiled(function.__self__)
    return type(function).__module__ == "adcompile.api" and hasattr(function, "gradient")


def call_compiled(trace: Trace, call: Call, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a compiled function in traced code: its value, (value, gradient) or gradient."""
    gradient_only = isinstance(function, types.MethodType) or function.gradient_only
    function = function.__self__ if isinstance(function, types.MethodType) else function
    inner = function.function
    if not callable(inner):
        raise CaptureError("a compiled SymPy expression is called inside a compiled function", user_location(),
                           "write the expression as a Python function, or call it outside and pass its result")
    if hasattr(function, "instance"):
        inner = types.MethodType(inner, function.instance)
    elif getattr(function, "is_method", False) and arguments:
        inner, arguments = types.MethodType(inner, arguments[0]), arguments[1:]
    if not function.gradient:
        return call(inner, *arguments, **keywords)
    if "out" in keywords and "out" not in python_signature(inner).parameters:
        raise CaptureError("out= of a gradient inside a compiled function", user_location(), "use the gradient that it returns")
    if function.options.retain:
        raise CaptureError("a gradient with retain= inside a compiled function", user_location(),
                           "leave out retain=, or take the gradient outside of the function")
    value, gradient = Nested(trace, call, inner, function.options).run(arguments, keywords)
    return gradient if gradient_only else (value, gradient)


class Nested:
    """One gradient of a function inside of another."""

    def __init__(self, trace: Trace, call: Call, function: Any, options: Any) -> None:
        self.trace, self.call, self.function, self.options = trace, call, function, options
        self.name = getattr(function, "__name__", type(function).__name__)
        self.location = user_location()
        self.outer: list[Operand] = []                      # the values that it is differentiated at
        self.inner: list[Tracer] = []                       # what stands for them inside

    def run(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Any]:
        """The value (with has_aux: the value and the other result), and the gradient."""
        trace = self.trace
        trace.check_open()
        python = python_signature(self.function)
        bound = bind(python, self.name, arguments, keywords)
        places = wrt_places(python, bound.arguments, self.options.wrt, self.name)
        region = trace.region()
        specs = [self.take(entry(bound, place), place) for place in places]
        region.arguments.extend(tracer.value for tracer in self.inner)          # type: ignore[misc]
        with trace.inside(region):
            standing = iter(self.inner)
            for place, given in zip(places, specs, strict=True):
                put(bound, place, build(given, standing))
            leave_defaults(bound, python, arguments, keywords, places)
            if self.options.dtype is not None:
                wanted = dtype_of(np.dtype(self.options.dtype))
                bound.arguments.update({k: cast_floats(a, wanted) for k, a in bound.arguments.items()})
            result = self.traced(bound)
            spec, leaves, operands = self.results(result)
        if region.before:
            raise CaptureError(f"`{self.name}` changes an array in place that exists outside of it, and its gradient is taken",
                               self.location, "take a copy first: x = x.copy()")
        values = iter(self.inline(region.operations, operands))
        made = [trace.wrap(next(values), weak) if weak is not None else leaf for leaf, weak in leaves]
        gradients = iter([trace.wrap(next(values), tracer.weak) for tracer in self.inner])
        trees = [build(given, gradients) for given in specs]
        if isinstance(self.options.wrt, (int, str)):
            return build(spec, iter(made)), trees[0]
        return build(spec, iter(made)), tuple(trees)

    def traced(self, bound: inspect.BoundArguments) -> Any:
        """Call the function. What it computes is differentiated, even where its gradient is taken as a constant."""
        outside, self.trace.no_grad = self.trace.no_grad, 0
        try:
            return self.call(self.function, *bound.args, **bound.kwargs)
        finally:
            self.trace.no_grad = outside

    def take(self, x: Any, place: Place) -> Spec:
        """The structure of a differentiated argument; for each of its leaves a value stands inside."""
        leaves: list[Any] = []
        spec = flatten(self.trace.inputs.materialise(x), leaves)
        text = place[0] if place[1] is None else f"{place[0]}[{place[1]!r}]"
        if not leaves:
            raise DifferentiationError(f"the argument `{text}` holds no numbers to differentiate with respect to", self.location)
        for leaf in leaves:
            found = leaf_type(self.trace, leaf)
            if not found.type.dims and found.type.dtype.is_integer and isinstance(leaf, (int, SymInt)):
                found = LeafType(Type(DType.f64), True)
            if not (found.type.dtype.is_float or found.type.dtype.is_complex):
                raise DifferentiationError(f"no derivative with respect to `{text}`: it is made of {found.type.dtype.value}, "
                                           "not of floats", self.location,
                                           f"pass {text} as floats, or choose another argument with wrt=")
            self.outer.append(leaf_operand(self.trace, leaf, found))
            self.inner.append(Tracer(self.trace, self.trace.builder.value(identifier(place[0]), found.type), found.weak))
            self.trace.protect(self.inner[-1], text)
        return spec

    def results(self, result: Any) -> tuple[Spec, list[tuple[Any, bool | None]], list[Operand]]:
        """The structure of the function's result, its leaves with their weakness (None: a number or array that is known),
        and the operands of those that are not known."""
        trace = self.trace
        leaves: list[Any] = []
        if self.options.has_aux and not (isinstance(result, tuple) and len(result) == 2):
            raise CaptureError("with has_aux=True the function must return (value, aux)", self.location)
        value = result[0] if self.options.has_aux else result
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Tracer, SymInt, int, float, np.floating)):
            raise DifferentiationError(f"the gradient needs a function that returns one number; `{self.name}` returns "
                                       f"{value.kind() if isinstance(value, Tracer) else 'a ' + type(value).__name__}",
                                       self.location)
        kind = leaf_type(trace, value).type
        if kind.dims:
            raise ShapeError(f"the gradient needs a function that returns one number; `{self.name}` returns an array {kind}",
                             self.location, "reduce it, for example with np.sum")
        if isinstance(value, Tracer) and not kind.dtype.is_float:
            raise DifferentiationError(f"the gradient needs a function that returns a real float; `{self.name}` returns "
                                       f"{kind.dtype.value}", self.location)
        spec = flatten(result, leaves)
        operands, marked = [], []
        for k, leaf in enumerate(leaves):
            known = k > 0 and not isinstance(leaf, Tracer)
            wanted = LeafType(Type(DType.f64), True) if isinstance(leaf, (int, SymInt)) and k == 0 else leaf_type(trace, leaf)
            marked.append((leaf, None if known else wanted.weak))
            if not known:
                operands.append(leaf_operand(trace, leaf, wanted))
        return spec, marked, operands

    def inline(self, operations: list[Any], operands: list[Operand]) -> list[Operand]:
        """Append the adjoint to the graph that was traced, and emit the whole where the gradient is taken."""
        trace = self.trace
        if trace.gradient is None:
            raise CaptureError("a gradient inside of this function", self.location,
                               "compile it with compile_grad or compile_value")
        wrt = [tracer.value for tracer in self.inner]
        body = Block(tuple(wrt), tuple(live_operations(operations, operands)), tuple(operands))         # type: ignore[arg-type]
        known = [Value(symbol, Type(DType.i64)) for symbol in trace.symbols]          # keeps new size symbols apart from these
        params = (*wrt, *free_values(body), *known)
        sizes: dict[str, Size] = dict(trace.inputs.sizes)
        graph = Function(identifier(self.name), Block(params, body.operations, body.yields), sizes, ())  # type: ignore[arg-type]
        graph = trace.gradient(graph, tuple(range(len(wrt))), self.options.checkpoint, dict(trace.sizes.hints))
        trace.sizes.guards.extend(guard for guard in graph.guards if guard not in trace.sizes.guards)
        trace.symbols.extend(o.attributes["symbol"] for o in walk(graph.body) if o.op == "extent")
        values: dict[Value, Operand] = dict(zip(graph.params, (*self.outer, *params[len(wrt):]), strict=True))
        inlined = copy_block(Block((), graph.body.operations, graph.results), values)
        for old, new in values.items():
            if old in trace.names and isinstance(new, Value):
                trace.names.setdefault(new, trace.names[old])
        for operation in inlined.operations:
            trace.builder.append(operation)
        return list(inlined.yields)


def entry(bound: inspect.BoundArguments, place: Place) -> Any:
    """A differentiated argument."""
    name, key = place
    return bound.arguments[name] if key is None else bound.arguments[name][key]


def put(bound: inspect.BoundArguments, place: Place, value: Any) -> None:
    """Set a differentiated argument."""
    name, key = place
    if key is None:
        bound.arguments[name] = value
    elif isinstance(bound.arguments[name], dict):
        bound.arguments[name] = {**bound.arguments[name], key: value}
    else:
        items = list(bound.arguments[name])
        items[key] = value
        bound.arguments[name] = tuple(items)


def leave_defaults(bound: inspect.BoundArguments, python: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any],
                   places: list[Place]) -> None:
    """Leave out arguments that were not given, so that the call reads the defaults as the function's own."""
    given = {*python.bind(*arguments, **keywords).arguments, *(name for name, _ in places)}
    for name, parameter in python.parameters.items():
        if name not in given and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            del bound.arguments[name]
