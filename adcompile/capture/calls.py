"""`call`: what happens when rewritten code calls something. Library functions emit IR, user functions are rewritten and
traced into, what cannot be compiled (random numbers, files, clocks) raises, everything else is called as it is."""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..ir.types import DType, dtype_of
from ..library.registry import LIBRARY
from . import source
from .branch import condition
from .grown import GrownList
from .hook import Scope, read_attribute
from .inputs import is_user_module
from .iterables import builtin_enumerate, builtin_reversed, builtin_zip
from .nested import call_compiled, is_compiled
from .rewriter import HOOK
from .stores import into, trace_anew
from .symint import SymInt, TracedRange
from .text import MESSAGES, refuse_text
from .trace import TRACED, Trace, contains, current_trace, function_name
from .tracer import Tracer
from .where import making_site, user_location

RANDOM_MODULES = ("numpy.random", "random", "secrets")
CLOCK_MODULES = ("time", "datetime")
INPUT_OUTPUT = frozenset({builtins.open, builtins.input, np.load, np.save, np.loadtxt, np.savetxt, np.genfromtxt})
CALL = "__call__"
CACHED = type(functools.lru_cache(abs))
CHANGING = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault",
                      "popitem", "add", "discard", "__setitem__", "__delitem__"})


def call(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
    """`function(*arguments, **keywords)` in traced code."""
    trace = current_trace()
    if trace is None:
        return function(*arguments, **keywords)
    if isinstance(function, functools.partial):
        arguments, keywords = (*partial_arguments(trace, function), *arguments), {**partial_keywords(trace, function), **keywords}
        return call(function.func, *arguments, **keywords)
    if hashable(function):
        if function in BUILTINS:
            return BUILTINS[function](trace, *arguments, **keywords)
        if function in LIBRARY or is_numeric_function(function):
            return numeric(trace, function, arguments, keywords)
    if is_compiled(function):
        return call_compiled(trace, call, function, arguments, keywords)
    refuse_effects(function)
    inner = python_function(function)
    if inner is not None:
        target, extra = inner
        return run(target, (*extra, *arguments), keywords)
    return call_other(trace, function, arguments, keywords)


class Hooks(Scope):
    """All hooks of one function."""

    call = staticmethod(call)


def hashable(function: Any) -> bool:
    """Whether a callable can be looked up in tables."""
    try:
        hash(function)
    except TypeError:
        return False
    return not isinstance(function, TRACED)


def is_numeric_function(function: Any) -> bool:
    """Whether a callable is a function of NumPy, SciPy or math that computes on numbers."""
    if isinstance(function, np.ufunc) or isinstance(function, type) and issubclass(function, np.generic):
        return True
    if isinstance(function, type) or isinstance(getattr(function, "__self__", None), np.random.RandomState):
        return False
    module = getattr(function, "__module__", None) or ""
    return module.split(".")[0] in ("numpy", "scipy", "math", "cmath") and not module.startswith("numpy.random")


def numeric(trace: Trace, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A NumPy, SciPy or math function: plain on concrete arguments, through the library on traced ones."""
    arguments = tuple(map(trace.inputs.materialise, arguments))
    keywords = {k: trace.inputs.materialise(a) for k, a in keywords.items()}
    if function in INPUT_OUTPUT:
        refuse_effects(function)
    if function in NEW_ARRAYS and function in LIBRARY and makes_floats(function, arguments, keywords):
        return trace.apply(function, arguments, keywords)
    if not contains(arguments, (*TRACED, GrownList)) and not contains(keywords, TRACED):
        return made(trace, function(*map(callback, arguments), **{k: callback(a) for k, a in keywords.items()}))
    writer = WRITERS.get(function)
    if writer is not None:
        return writer(trace, *arguments, **keywords)
    if isinstance(function, np.ufunc) and len(arguments) == function.nin + 1 and function.nout == 1:
        *arguments_, keywords["out"] = arguments
        arguments = tuple(arguments_)
    out = keywords.pop("out", None)
    if out is not None:
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        where = keywords.pop("where", True) if isinstance(function, np.ufunc) else True
        return into(trace, lambda: numeric(trace, function, arguments, keywords), out, where)
    original = arguments[0] if arguments and isinstance(arguments[0],
                                                        GrownList) and not keywords and len(arguments) == 1 else None
    arguments = tuple(map(grown_as_array, arguments))
    if function not in LIBRARY and isinstance(function, type) and len(arguments) == 1 and not keywords:
        return convert(trace, arguments[0], np.dtype(function))
    weak = function_name(function).startswith("math.")
    if function in COPYING and arguments and isinstance(arguments[0], Tracer) and len(arguments) == 1 and not keywords:
        return arguments[0].fresh()
    if function in STACKING and isinstance(arguments[0], Tracer) and original is not None:
        return trace.apply(np.reshape,
                           (arguments[0], (-1, *arguments[0].shape[2:]))) if function is np.concatenate else arguments[0].fresh()
    return trace.apply(function, arguments, keywords, weak=weak)


def grown_as_array(x: Any) -> Any:
    """A list that a loop filled, also within plain lists, as an array."""
    if isinstance(x, GrownList):
        return x.array()
    return type(x)(map(grown_as_array, x)) if type(x) in (list, tuple) and contains(x, (GrownList,)) else x


def made(trace: Trace, result: Any) -> Any:
    """A concrete array that the function makes; traced if it turned out that it holds traced values later."""
    if isinstance(result, np.ndarray) and result.dtype.kind in "biufc":
        site = making_site()
        if site in trace.traced_sites:
            return trace.apply(np.asarray, (result,)).fresh()
        trace.made[id(result)] = site, result
    return result


def copy_to(trace: Trace, destination: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    """`np.copyto`."""
    into(trace, lambda: trace.apply(np.asarray, (source,)), destination, where)


def fill_diagonal(trace: Trace, array: Any, value: Any, wrap: bool = False) -> None:
    """`np.fill_diagonal`."""
    if not isinstance(array, Tracer):
        raise trace_anew(trace, array)
    rows, columns = array.shape if array.ndim == 2 else (None, None)
    if rows is None:
        raise CaptureError("np.fill_diagonal of an array that has not two axes", user_location())
    length = rows if rows <= columns else columns
    places = trace.apply(np.arange, (length,))
    array[places, places] = value


def put_mask(trace: Trace, array: Any, mask: Any, values: Any) -> None:
    """`np.putmask`, `np.place` with one value or an array of the same shape."""
    if not isinstance(array, Tracer):
        raise trace_anew(trace, array)
    array[mask] = values


WRITERS: dict[Any, Callable[..., Any]] = {np.copyto: copy_to, np.fill_diagonal: fill_diagonal, np.putmask: put_mask}
STACKING: frozenset[Any] = frozenset({np.stack, np.vstack, np.concatenate})
COPYING = frozenset({np.copy, np.array})
NEW_ARRAYS: frozenset[Any] = frozenset({np.zeros, np.ones, np.empty, np.full})


def makes_floats(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a creation function makes an array to compute in. It is traced even where its size is known, so that traced
    values can be put into it; arrays of integers and bools stay concrete, so that they can steer Python code."""
    place = 2 if function is np.full else 1
    dtype = keywords.get("dtype", arguments[place] if len(arguments) > place else None)
    if dtype is None and function is np.full:
        fill = keywords.get("fill_value", arguments[1] if len(arguments) > 1 else 0.0)
        return not isinstance(fill, (int, np.integer, np.bool_))
    return dtype is None or np.dtype(dtype).kind in "fc"


def convert(trace: Trace, x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """`np.float64(x)`, `float(x)` on a traced value."""
    wanted = dtype_of(dtype)
    if wanted is None:
        raise CaptureError(f"a traced value cannot be converted to {dtype}", user_location())
    if isinstance(x, SymInt):
        return trace.emit("cast", trace.builder.emit("size", (), {"dim": x.dim}), dtype=wanted, weak=weak)
    if not isinstance(x, Tracer):
        x = trace.apply(np.asarray, (x,))
    return x.cast(wanted, weak)


# --------------------------------------------------------------------------------------------------------- user functions
def python_function(function: Any) -> tuple[types.FunctionType, tuple[Any, ...]] | None:
    """The user's Python function behind a callable, and the arguments that are bound to it; None where there is none."""
    if isinstance(function, types.MethodType):
        inner = python_function(function.__func__)
        return None if inner is None else (inner[0], (*inner[1], function.__self__))
    if isinstance(function, types.FunctionType):
        return (function, ()) if is_user_function(function) else None
    if isinstance(function, type):
        return None
    inner_function = getattr(function, "py_func", None)         # numba's dispatchers
    if isinstance(function, CACHED):
        inner_function = function.__wrapped__
    if isinstance(inner_function, types.FunctionType):
        return python_function(inner_function)
    method = getattr(type(function), CALL, None)
    if isinstance(method, types.FunctionType) and is_user_function(method):
        return method, (function,)
    return None


def is_user_function(function: types.FunctionType) -> bool:
    """Whether a function is the user's: not of NumPy and its kind, not of Python's library, not of adcompile."""
    return is_user_module(function.__module__)


def run(function: types.FunctionType, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a user function in its rewritten form."""
    return traceable(function)(*arguments, **keywords)


def traceable(function: types.FunctionType) -> Callable[..., Any]:
    """A function that does the same through hooks. Without source it runs as it is, with what it reads from outside replaced
    by tracers."""
    if source.is_rewritten(function):
        return function
    new = source.rewritten(function)
    if new is None:
        return without_source(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOK] = types.CellType(Hooks(function))
    result = types.FunctionType(new.code, function.__globals__, function.__name__, read_defaults(function),
                                tuple(cells[name] for name in new.free))
    result.__kwdefaults__ = function.__kwdefaults__
    return result


def read_defaults(function: types.FunctionType) -> tuple[Any, ...] | None:
    """The default values of a function's parameters. Arrays among them can change in place, so they are inputs."""
    trace = current_trace()
    if trace is None or not any(isinstance(d, np.ndarray) for d in function.__defaults__ or ()):
        return function.__defaults__
    access = trace.inputs.captured(function).attribute("__defaults__")
    return tuple(trace.inputs.read(d, access.item(k), f"default {k} of {function.__name__}") if isinstance(d, np.ndarray) else d
                 for k, d in enumerate(function.__defaults__ or ()))


def without_source(function: types.FunctionType) -> Callable[..., Any]:
    """A copy of a function whose globals and cells hold tracers where they held numbers and arrays."""
    trace = current_trace()
    assert trace is not None
    names = {name for code in source.all_codes(function.__code__) for name in code.co_names}
    replaced = dict(function.__globals__)
    for name in names & set(function.__globals__):
        value = function.__globals__[name]
        replaced[name] = trace.inputs.materialise(trace.inputs.read(value,
                                                                    trace.inputs.captured(function.__globals__).item(name), name))
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = trace.inputs.read(cell.cell_contents, trace.inputs.captured(cell).cell(), name)
        cells.append(types.CellType(trace.inputs.materialise(value)))
    result = types.FunctionType(function.__code__, replaced, function.__name__, function.__defaults__, tuple(cells))
    result.__kwdefaults__ = function.__kwdefaults__
    return result


def partial_arguments(trace: Trace, function: functools.partial[Any]) -> tuple[Any, ...]:
    """The positional arguments stored in a partial, as inputs."""
    access = trace.inputs.captured(function).attribute("args")
    return tuple(trace.inputs.read(a, access.item(k), f"argument {k}") for k, a in enumerate(function.args))


def partial_keywords(trace: Trace, function: functools.partial[Any]) -> dict[str, Any]:
    """The keyword arguments stored in a partial, as inputs."""
    access = trace.inputs.captured(function).attribute("keywords")
    return {k: trace.inputs.read(a, access.item(k), k) for k, a in function.keywords.items()}


# --------------------------------------------------------------------------------------------------------- everything else
def refuse_effects(function: Any) -> None:
    """Raises for random numbers, clocks and files: a compiled function would see what they gave at capture."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    if owner is not None and not isinstance(owner, types.ModuleType):
        module = (owner if isinstance(owner, type) else type(owner)).__module__ or module
    name = getattr(function, "__name__", type(function).__name__)
    if hashable(function) and function in INPUT_OUTPUT:
        raise CaptureError(f"`{name}` reads or writes files or the terminal inside a compiled function", user_location(),
                           "do it before the call and pass what was read as an argument")
    if module.startswith(RANDOM_MODULES):
        raise CaptureError(f"`{name}` draws random numbers inside a compiled function", user_location(),
                           "draw them before the call and pass them as an argument")
    if module in CLOCK_MODULES:
        raise CaptureError(f"`{name}` reads the clock inside a compiled function", user_location(),
                           "call it outside of the function")


def call_other(trace: Trace, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A class, a method of a builtin type, a function of another library: called as it is."""
    plain: Any = object.__new__
    if isinstance(function, type) and function.__new__ is plain:
        initialise = vars(function).get("__init__")
        if isinstance(initialise, types.FunctionType) and is_user_function(initialise):
            made: Any = object.__new__(function)
            run(initialise, (made, *arguments), keywords)
            return made
    owner = getattr(function, "__self__", None)
    origin = None if owner is None or isinstance(owner, types.ModuleType) else trace.inputs.outside(owner)
    if origin is not None:
        name = function.__name__
        if name in CHANGING:
            raise CaptureError(f"`{origin.text}.{name}()` changes an object outside of the function", user_location(),
                               "return the new value from the function instead")
        copy = trace.inputs.materialise(owner)
        function = getattr(copy, name) if copy is not owner else function
    keywords = {k: callback(trace.inputs.materialise(a)) for k, a in keywords.items()}
    if isinstance(owner, str):
        refuse_text(trace, (arguments, keywords), f"str.{function.__name__}()")
    return function(*[callback(trace.inputs.materialise(a)) for a in arguments], **keywords)


def callback(x: Any) -> Any:
    """An argument as a function that calls it back gets it: user functions in their traceable form."""
    return traceable(x) if isinstance(x, types.FunctionType) and is_user_function(x) else x


# --------------------------------------------------------------------------------------------------------- builtins
def builtin_isinstance(trace: Trace, x: Any, classes: Any) -> bool:
    """Traced values are instances of what they stand for."""
    kind = stands_for(x)
    return isinstance(x, classes) if kind is None else issubclass(kind, classes)


def stands_for(x: Any) -> type | None:
    """The Python or NumPy type of the value that a tracer stands for, None for other things."""
    if isinstance(x, SymInt):
        return int
    if isinstance(x, TracedRange):
        return range
    if not isinstance(x, Tracer):
        return None
    if x.ndim:
        return np.ndarray
    dtype = x.value.type.dtype
    if x.weak:
        return bool if dtype is DType.bool else int if dtype.is_integer else complex if dtype.is_complex else float
    return x.dtype.type


def builtin_type(trace: Trace, *arguments: Any) -> Any:
    """`type(x)`."""
    kind = stands_for(arguments[0]) if len(arguments) == 1 else None
    return builtins.type(*arguments) if kind is None else kind


def builtin_len(trace: Trace, x: Any) -> Any:
    """`len(x)`."""
    if isinstance(x, GrownList):
        return x.length
    if isinstance(x, (Tracer, TracedRange)):
        return x.length()
    return len(trace.inputs.materialise(x))


def builtin_range(trace: Trace, *bounds: Any) -> Any:
    """`range(...)`, traced where a bound is."""
    if not any(isinstance(b, TRACED) for b in bounds):
        return range(*bounds)
    if any(isinstance(b, Tracer) and (b.ndim or b.dtype.kind not in "iu") for b in bounds):
        raise TypeError("'float' object cannot be interpreted as an integer")
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1)}.get(len(bounds), bounds)
    return TracedRange(trace, start, stop, step)


def builtin_float(trace: Trace, *arguments: Any) -> Any:
    """`float(x)`."""
    if arguments and isinstance(arguments[0], (Tracer, SymInt)):
        return convert(trace, scalar(arguments[0], "float"), np.dtype(np.float64), weak=True)
    return float(*arguments)


def builtin_int(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
    """`int(x)`."""
    x = arguments[0] if arguments else None
    if isinstance(x, SymInt):
        return x
    if isinstance(x, Tracer):
        return convert(trace, scalar(x, "int"), np.dtype(np.int64), weak=True)
    return int(*arguments, **keywords)


def scalar(x: Any, name: str) -> Any:
    """The only entry of a traced array of rank 0."""
    if isinstance(x, Tracer) and x.ndim:
        raise CaptureError(f"{name}() of a traced {x.kind()}: only numbers can be converted", user_location(),
                           "take one entry: x[0]")
    return x


def builtin_bool(trace: Trace, *arguments: Any) -> Any:
    """`bool(x)`."""
    if arguments and isinstance(arguments[0], Tracer):
        return condition(trace, arguments[0], "bool()")
    return bool(*arguments)


def builtin_sum(trace: Trace, iterable: Any, start: Any = 0) -> Any:
    """`sum(iterable)`."""
    if isinstance(iterable, GrownList):
        iterable = iterable.array()
    if isinstance(iterable, Tracer):
        total = trace.apply(np.sum, (iterable,), {"axis": 0})
        return total if isinstance(start, int) and start == 0 else start + total
    items = list(trace.inputs.materialise(iterable))
    if any(isinstance(a, TRACED) for a in items) and isinstance(start, int) and start == 0:
        return functools.reduce(operator.add, items)
    return sum(items, start)


def extremum(plain: Callable[..., Any], pair: np.ufunc, reduction: Callable[..., Any]) -> Callable[..., Any]:
    """`min` or `max` of traced numbers."""
    def apply(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        items = arguments
        if len(arguments) == 1:
            if isinstance(arguments[0], GrownList):
                arguments = (arguments[0].array(),)
            if isinstance(arguments[0], Tracer) and not keywords:
                return trace.apply(reduction, arguments)
            items = tuple(trace.inputs.materialise(arguments[0]))
        if any(isinstance(a, Tracer) for a in items) and not keywords:
            return functools.reduce(lambda a, b: trace.operator(pair, scalar(a, plain.__name__),
                                                                scalar(b, plain.__name__)), items)
        return plain(items, **keywords)
    return apply


def quantifier(plain: Callable[..., Any], reduction: Callable[..., Any]) -> Callable[..., Any]:
    """`any` or `all` of a traced array."""
    def apply(trace: Trace, iterable: Any) -> Any:
        iterable = iterable.array() if isinstance(iterable, GrownList) else iterable
        return trace.apply(reduction, (iterable,)) if isinstance(iterable, Tracer) else plain(trace.inputs.materialise(iterable))
    return apply


def builtin_getattr(trace: Trace, owner: Any, name: str, *default: Any) -> Any:
    """`getattr(owner, name)`."""
    value = getattr(owner, name, *default)
    if isinstance(owner, TRACED) or isinstance(value, TRACED) or not hasattr(owner, name):
        return value
    return read_attribute(trace, owner, name, value)


def making_text(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`str`, `repr`, `format`, `ascii`, `print`."""
    def apply(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        arguments = tuple(map(trace.inputs.materialise, arguments))
        refuse_text(trace, arguments, f"{plain.__name__}()")
        return plain(*(arguments if MESSAGES.depth else trace.pinned(arguments)), **keywords)
    return apply


def builtin_map(trace: Trace, function: Any, *iterables: Any) -> Any:
    """`map(function, ...)`."""
    return map(functools.partial(call, function), *map(trace.inputs.materialise, iterables))


def builtin_dict(trace: Trace, *arguments: Any, **keywords: Any) -> dict[Any, Any]:
    """`dict(...)`."""
    return dict(*map(trace.inputs.materialise, arguments), **keywords)


BUILTINS: dict[Any, Callable[..., Any]] = {
    isinstance: builtin_isinstance, type: builtin_type, len: builtin_len, range: builtin_range, float: builtin_float,
    int: builtin_int, bool: builtin_bool, sum: builtin_sum, min: extremum(min, np.minimum, np.min),
    max: extremum(max, np.maximum, np.max), any: quantifier(any, np.any), all: quantifier(all, np.all),
    **{f: making_text(f) for f in (str, repr, format, ascii, print)}, map: builtin_map,
    getattr: builtin_getattr, dict: builtin_dict, enumerate: builtin_enumerate, zip: builtin_zip,
    reversed: builtin_reversed,
}
