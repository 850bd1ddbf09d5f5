"""`capture`: a Python function and the arguments of one call become an IR function and the signature to call it by."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CaptureError, DifferentiationError, ShapeError
from ..ir.analysis import live_operations, renamed
from ..ir.builder import Builder
from ..ir.core import Block, Function, Guard, Location, Operand, Size, Value, walk
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.rebuild import resolve_sizes
from ..ir.signature import Access, Argument, Input, Leaf, Node, Signature, Static, Tree, leaves
from ..ir.types import DType, Type, dtype_of
from .arguments import Place, Wrt, bind, cast_floats, python_signature, wrt_places
from .calls import call, python_function
from .grown import GrownList
from .inputs import STATIC, Inputs, identifier, is_dataclass_instance, is_number
from .stores import Retrace
from .symint import SymInt
from .trace import Gradient, Trace
from .tracer import Tracer


@dataclass(frozen=True)
class CapturedFunction:
    """What `capture` gives: the graph, how Python calls it, and the sizes of the call that was captured."""

    function: Function
    signature: Signature
    hints: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Abstract:
    """In the arguments of `capture_types`: an array of which only dtype and rank are known (rank 0: a number)."""

    dtype: DType
    rank: int

    def example(self, length: int) -> Any:
        """An array of this kind with axes of one length, or a number."""
        if self.rank:
            return np.zeros((length,) * self.rank, self.dtype.numpy)
        if self.dtype is DType.i64:
            return EXAMPLE_INTEGER
        return {DType.f64: 1.0, DType.c128: 1j}.get(self.dtype, self.dtype.numpy.type(1))


EXAMPLE_LENGTHS = (5, 3, 2, 4, 6, 1)                # the first with which the function runs is taken
EXAMPLE_INTEGER = 3


def capture_types(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None,
                  **options: Any) -> CapturedFunction:
    """`capture` where only dtypes and ranks are known: `Abstract` entries (also inside tuples, lists and dicts) stand for
    arrays and numbers, everything else is taken as it is. All axes are taken to be equally long, so that lengths that
    must agree do; a call where they differ misses a guard."""
    failure: Exception | None = None
    for length in EXAMPLE_LENGTHS:
        try:
            return capture(f, example(tuple(args), length), example(dict(kwargs or {}), length), **options)
        except (ValueError, IndexError) as error:               # the function wants another length: a, b = p
            failure = failure or error
    assert failure is not None
    raise failure


def example(x: Any, length: int) -> Any:
    """A structure with its `Abstract` entries replaced by example arrays and numbers."""
    if isinstance(x, Abstract):
        return x.example(length)
    if isinstance(x, tuple):
        items = [example(a, length) for a in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [example(a, length) for a in x]
    return {k: example(a, length) for k, a in x.items()} if isinstance(x, dict) else x


def capture(f: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, wrt: Wrt | None = None,
            has_aux: bool = False, dtype: Any = None, name: str | None = None, scalar: bool = False,
            assume_sizes: bool = False, gradient: Gradient | None = None, retain: tuple[str, ...] = ()) -> CapturedFunction:
    """Run `f` once on tracers that stand for the arguments of one call.

    `wrt`: position or name of the differentiated argument, or a tuple of them; None for no derivative. `has_aux`: `f`
    returns `(value, aux)`. `dtype`: float arguments are cast to it first. `scalar`: the value must be one float.
    `assume_sizes`: the arguments' lengths are made up; those that must agree are taken to. `gradient`: appends the adjoint to
    the graph of a function whose gradient `f` takes. `retain`: names of values whose gradients are asked for.
    """
    python = python_signature(f)
    name = name or function_name(f)
    traced_sites: frozenset[Any] = frozenset()
    while True:
        try:
            return trace_function(f, bind(python, name, args, kwargs or {}), python, name, wrt, has_aux, dtype, scalar,
                                  assume_sizes, traced_sites, gradient, retain)
        except Retrace as error:                # a concrete array turned out to hold traced values
            if error.site in traced_sites:
                raise
            traced_sites |= {error.site}


def trace_function(f: Callable[..., Any], bound: inspect.BoundArguments, python: inspect.Signature, name: str, wrt: Wrt | None,
                   has_aux: bool, dtype: Any, scalar: bool, assume_sizes: bool, traced_sites: frozenset[Any],
                   gradient: Gradient | None, retain: tuple[str, ...]) -> CapturedFunction:
    """One run of `f` on tracers. `traced_sites`: where it makes arrays that must be traced from the start."""
    places = wrt_places(python, bound.arguments, wrt, name)
    builder = Builder(identifier(name))
    builder.sizes.assume = assume_sizes
    with builder, Trace(builder) as trace:
        trace.traced_sites, trace.gradient, trace.retain = traced_sites, gradient, retain
        arguments, trees = trace_arguments(trace.inputs, bound.arguments, places)
        wrt_trees = tuple(subtree(trees, place) for place in places)
        check_wrt(trace.inputs, wrt_trees, places, f)
        if dtype is not None:
            arguments = {k: cast_floats(a, dtype_of(np.dtype(dtype))) for k, a in arguments.items()}
        bound.arguments.update(arguments)
        try:
            result = call(with_origin(trace, f), *bound.args, **bound.kwargs)
        except RecursionError as error:
            raise CaptureError(f"`{name}` calls functions without end while it is captured", location_of(f),
                               "a recursion must end by what is known then; where traced values end it, write a loop") from error
        operands, tree = trace_result(trace, result, f, has_aux)
        check_retained(trace, f)
        if scalar:
            check_scalar(operands, tree, f, has_aux)
        function, inputs = finish(trace, operands, leaves(Node(tuple, None, tuple(trees.values()))))
        checks = tuple(trace.inputs.checks.values())
    active = {index for t in wrt_trees for index in leaves(t)}
    signature = Signature(name, python, inputs, trees, tree, checks, wrt_trees, isinstance(wrt, (int, str)), has_aux,
                          tuple(x.text for k, x in enumerate(inputs) if k not in active), tuple(trace.failures), retain)
    return CapturedFunction(function, signature, {} if assume_sizes else dict(trace.sizes.hints))


# --------------------------------------------------------------------------------------------------------- the callable
def function_name(f: Callable[..., Any]) -> str:
    """The name of a callable: of the function in a partial, of the class of an object."""
    while isinstance(f, functools.partial):
        f = f.func
    name = getattr(f, "__name__", None) or type(f).__name__
    return "function" if name == "<lambda>" else name


def location_of(f: Callable[..., Any]) -> Location | None:
    """Where a function is defined."""
    while isinstance(f, functools.partial):
        f = f.func
    inner = python_function(f)
    if inner is None:
        return None
    code = inner[0].__code__
    return Location(code.co_filename, code.co_firstlineno, code.co_name)


def with_origin(trace: Trace, f: Callable[..., Any]) -> Callable[..., Any]:
    """Remember the object that a bound method or a callable object holds on to, so that its attributes become inputs."""
    if isinstance(f, types.MethodType):
        trace.inputs.register(f.__self__, trace.inputs.captured(f.__self__), "self")
    elif not isinstance(f, (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type)):
        trace.inputs.register(f, trace.inputs.captured(f), "self")
    return f


# --------------------------------------------------------------------------------------------------------- wrt
def subtree(trees: Mapping[str, Tree], place: Place) -> Tree:
    """The tree of a differentiated argument."""
    name, key = place
    tree = trees[name]
    if key is None:
        return tree
    assert isinstance(tree, Node)
    return tree.children[tree.keys.index(key) if tree.keys is not None else key]


def place_text(place: Place) -> str:
    """A differentiated argument as users write it."""
    return place[0] if place[1] is None else f"{place[0]}[{place[1]!r}]"


def check_wrt(inputs: Inputs, trees: Sequence[Tree], places: Sequence[Place], f: Callable[..., Any]) -> None:
    """Raises where a differentiated argument is not made of floats."""
    for tree, place in zip(trees, places, strict=True):
        indices = leaves(tree)
        if not indices:
            raise DifferentiationError(f"the argument `{place_text(place)}` holds no numbers to differentiate with respect to",
                                       location_of(f), "choose another argument with wrt=")
        for index in indices:
            dtype = inputs.values[index].type.dtype
            text = inputs.list[index].text
            if dtype.is_complex:
                raise DifferentiationError(f"the gradient with respect to the complex argument `{text}` is not defined",
                                           location_of(f), "pass its real and imaginary parts as two arguments")
            if not dtype.is_float:
                raise DifferentiationError(f"no derivative with respect to `{text}`: it is an array of {dtype.value}, "
                                           "not of floats", location_of(f),
                                           f"pass {text}.astype(float), or choose another argument with wrt=")


# --------------------------------------------------------------------------------------------------------- arguments
def trace_arguments(inputs: Inputs, arguments: Mapping[str, Any],
                    places: Sequence[Place]) -> tuple[dict[str, Any], dict[str, Tree]]:
    """Tracers and trees of all arguments. Python ints in a differentiated argument count as floats."""
    traced: dict[str, Any] = {}
    trees: dict[str, Tree] = {}
    for name, value in arguments.items():
        keys = [key for argument, key in places if argument == name]
        access = Access(Argument(name))
        if keys and None not in keys and isinstance(value, (tuple, dict)):
            traced[name], trees[name] = spread(inputs, name, value, keys)
        else:
            traced[name], trees[name] = inputs.argument(value, access, name, as_float=bool(keys))
    return traced, trees


def spread(inputs: Inputs, name: str, value: Any, keys: Sequence[Any]) -> tuple[Any, Tree]:
    """The arguments of `*args` or `**kwargs`, of which those in `keys` are differentiated."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {k: inputs.argument(v, Access(Argument(name)).item(k), f"{name}[{k!r}]", as_float=k in keys) for k, v in entries}
    trees = tuple(tree for _, tree in parts.values())
    if isinstance(value, dict):
        return {k: x for k, (x, _) in parts.items()}, Node(dict, tuple(parts), trees)
    return tuple(x for x, _ in parts.values()), Node(tuple, None, trees)


# --------------------------------------------------------------------------------------------------------- results
def trace_result(trace: Trace, result: Any, f: Callable[..., Any], has_aux: bool) -> tuple[list[Operand], Tree]:
    """The function's results and the tree they form."""
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise CaptureError("with has_aux=True the function must return (value, aux)", location_of(f),
                           f"it returned {describe(result)}")
    if result is None:
        raise CaptureError("the function returns None", location_of(f), "return the value")
    operands: list[Operand] = []

    def flatten(x: Any) -> Tree:
        x = trace.inputs.materialise(x)
        if isinstance(x, (Tracer, SymInt)) or is_number(x):
            operands.append(as_operand(trace, x))
            return Leaf(len(operands) - 1)
        if isinstance(x, dict):
            return Node(dict, tuple(x), tuple(map(flatten, x.values())))
        if isinstance(x, (list, tuple)):
            return Node(type(x), getattr(x, "_fields", None), tuple(map(flatten, x)))
        if is_dataclass_instance(x):
            fields = tuple(x.__dataclass_fields__)
            return Node(type(x), fields, tuple(flatten(getattr(x, k)) for k in fields))
        if isinstance(x, (*STATIC, type, types.FunctionType)):
            return Static(x)
        if isinstance(x, GrownList):
            raise CaptureError("the function returns a list that a traced loop fills", location_of(f),
                               "return np.array(the_list)")
        raise CaptureError(f"the function returns {describe(x)}", location_of(f),
                           "return numbers, arrays, or tuples, lists, dicts, NamedTuples and dataclasses of them")

    tree = flatten(result)
    return operands, tree


def describe(x: Any) -> str:
    """A result in an error message."""
    return x.kind() if isinstance(x, Tracer) else f"a {type(x).__name__}"


def as_operand(trace: Trace, x: Any) -> Operand:
    """A result leaf as an IR operand."""
    if isinstance(x, Tracer):
        return x.value if x.trace is trace else trace.unwrap(x)
    if isinstance(x, SymInt):
        size: Value = trace.builder.emit("size", (), {"dim": x.dim})
        return size
    if np.ndim(x) == 0:
        kinds = {int: DType.i64, float: DType.f64, complex: DType.c128}
        return literal_like(x, kinds.get(type(x)) or trace.inputs.dtype(x, "the result"))
    constant = trace.inputs.constant(np.asarray(x)).value
    return constant


def check_scalar(operands: Sequence[Operand], tree: Tree, f: Callable[..., Any], has_aux: bool) -> None:
    """Raises unless the value that is differentiated is one float."""
    if has_aux:
        assert isinstance(tree, Node)
        tree = tree.children[0]
    if not isinstance(tree, Leaf):
        kind = tree.kind.__name__ if isinstance(tree, Node) else type(tree.value).__name__
        hint = "; with has_aux=True it may return (value, aux)" if isinstance(tree, Node) and not has_aux else ""
        raise DifferentiationError(f"the gradient needs a function that returns one number; this one returns a {kind}{hint}",
                                   location_of(f))
    type_ = operands[tree.index].type
    if type_.rank:
        raise ShapeError(f"the gradient needs a function that returns one number; this one returns an array {type_}",
                         location_of(f), "reduce it, for example with np.sum, or use compile_jacobian")
    if isinstance(operands[tree.index], Value) and not type_.dtype.is_float:
        kind = "complex" if type_.dtype.is_complex else type_.dtype.value
        raise DifferentiationError(f"the gradient needs a function that returns a real float; this one returns {kind}",
                                   location_of(f))


def check_retained(trace: Trace, f: Callable[..., Any]) -> None:
    """Raises where a gradient is asked for with respect to a name that no value has."""
    for name in trace.retain:
        if name not in trace.retained:
            raise CaptureError(f"retain={name!r}: no value of the function is called so", location_of(f),
                               f"name one: x = ad.named(x, {name!r})")


# --------------------------------------------------------------------------------------------------------- finishing
def finish(trace: Trace, results: Sequence[Operand], kept: Sequence[int]) -> tuple[Function, tuple[Input, ...]]:
    """The IR function with sizes resolved, dead operations and unused captured inputs removed, and user names given."""
    builder, inputs = trace.builder, trace.inputs
    function = builder.finish(tuple(results))
    operations = tuple(live_operations(function.body.operations, results))
    body = Block(function.params, operations, tuple(results))
    function = renamed(Function(builder.name, body), final_names(trace, body))
    function = resolve_sizes(function, trace.sizes)
    pins = integer_guards(inputs, trace)
    guards = (*function.guards, *pins)
    used = used_symbols(function.body, guards)
    read = {x for x in function.results if isinstance(x, Value)}
    read |= {x for operation in walk(function.body) for x in operation.operands if isinstance(x, Value)}
    read |= {x for operation in walk(function.body) for region in operation.regions for x in region.yields
             if isinstance(x, Value)}
    keep = [k for k, parameter in enumerate(function.params)
            if k in set(kept) or parameter in read or used & {s for s, size in inputs.sizes.items() if size.parameter == k}]
    place = {old: new for new, old in enumerate(keep)}
    params = tuple(function.params[k] for k in keep)
    known = used | {s for p in params for d in p.type.dims for s in d.symbols}
    sizes = {s: Size(place[size.parameter], size.axis) for s, size in inputs.sizes.items()
             if size.parameter in place and s in known}
    body = Block(params, function.body.operations, function.results)
    return Function(builder.name, body, sizes, guards), tuple(inputs.list[k] for k in keep)


def integer_guards(inputs: Inputs, trace: Trace) -> tuple[Guard, ...]:
    """An integer argument whose value was found equal to something else is not part of any type: it needs a guard."""
    symbols = [s for s, size in inputs.sizes.items() if size.axis is None and s in trace.sizes.replaced]
    return tuple(Guard(Dim.symbol(s), "==", trace.sizes.resolve(Dim.symbol(s))) for s in symbols)


def used_symbols(body: Block, guards: Sequence[Guard]) -> set[str]:
    """The size symbols that operations and guards mention."""
    found: set[str] = set()
    for guard in guards:
        found |= guard.left.symbols | guard.right.symbols
    for operation in walk(body):
        for value in operation.results:
            found |= type_symbols(value.type)
        for attribute in operation.attributes.values():
            found |= attribute_symbols(attribute)
    return found


def type_symbols(t: Type) -> set[str]:
    return {s for d in t.dims for s in d.symbols}


def attribute_symbols(attribute: Any) -> set[str]:
    """The size symbols in an attribute's value."""
    if isinstance(attribute, Dim):
        return set(attribute.symbols)
    return {s for a in attribute for s in attribute_symbols(a)} if isinstance(attribute, tuple) else set()


def final_names(trace: Trace, body: Block) -> dict[Value, str]:
    """New names for all values but the parameters: the user's where there is one, else t, t_1, ..."""
    taken = {p.name for p in body.arguments} | set(trace.inputs.sizes)
    names: dict[Value, str] = {}

    def fresh(base: str) -> str:
        candidate, count = base, 0
        while candidate in taken:
            count += 1
            candidate = f"{base}_{count}"
        taken.add(candidate)
        return candidate

    values = [v for operation in walk(body) for v in (*operation.results, *(a for r in operation.regions for a in r.arguments))]
    for value in values:
        if value in trace.names:
            names[value] = fresh(identifier(trace.names[value]))
    for value in values:
        if value not in names:
            names[value] = fresh("t")
    return names
