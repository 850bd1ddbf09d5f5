"""Tracers: what stands for an array, a number or a size while a function is captured.

A `Tracer` wraps an IR value and behaves like the array; a `SymInt` wraps a size and behaves like the int. Whatever Python
or NumPy does to them is emitted into the trace's builder by the functions of `adcompile.library`.
"""

from __future__ import annotations

import builtins
import difflib
import math
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from ..errors import CaptureError, ShapeError, UnsupportedOp
from ..ir.builder import Builder
from ..ir.core import Block, Function, Literal, Location, Operation, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.signature import Failure
from ..ir.types import DType, Type, dtype_of
from ..library.core import cast, emit, filled, permuted
from ..library.indexing import is_inside
from ..library.registry import LIBRARY
from . import text
from .inputs import Inputs, is_number
from .rewriter import HOOK
from .storage import Cell, Lost, Path, fitted, follow, is_view, path_to, places_of, shares_memory, written

UNROLL_LIMIT = 64                   # turns of a loop that cannot become a loop of the compiled function are unrolled up to this
SMALL_CONSTANT = 64                 # entries of a concrete array that becomes part of the code

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
EXAMPLES = os.path.join(PACKAGE, "examples") + os.sep
NUMPY_FOLDER = os.path.dirname(np.__file__) + os.sep

CAPTURING = "trace_function"        # the function of the driver that runs the user's
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

ACTIVE = threading.local()


def current_trace() -> Trace | None:
    """The trace that is being made in this thread."""
    stack: list[Trace] = getattr(ACTIVE, "stack", [])
    return stack[-1] if stack else None


def user_location() -> Location | None:
    """The innermost line that belongs neither to this package nor to NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return Location(frame.f_code.co_filename, frame.f_lineno, function_of(frame), calls_of(frame))
        frame = frame.f_back
    return None


def is_users(file: str) -> bool:
    """Whether a file is neither part of this package nor of NumPy; the examples count as the user's."""
    return not file.startswith((PACKAGE, NUMPY_FOLDER, "<frozen", "<adcompile ")) or file.startswith(EXAMPLES)


def calls_of(frame: Any) -> tuple[tuple[str, int, int], ...]:
    """The calls of user functions between the capture and a frame, outermost first. Blocks count as part of their function."""
    calls: list[tuple[str, int, int]] = []
    own = frame.f_code.co_name
    inner = None if own.startswith(HOOK) or own in COMPREHENSIONS else own
    frame = frame.f_back
    while frame is not None and frame.f_code.co_name != CAPTURING:
        if is_users(frame.f_code.co_filename):
            if inner is not None and inner != "<lambda>":
                calls.append((inner, frame.f_lineno, frame.f_lasti))
            name = frame.f_code.co_name
            inner = None if name.startswith(HOOK) or name in COMPREHENSIONS else name
        frame = frame.f_back
    return tuple(reversed(calls)) if frame is not None else ()


def function_of(frame: Any) -> str:
    """The name of the user's function that a frame belongs to: blocks and comprehensions belong to the one around them."""
    file, outer = frame.f_code.co_filename, frame
    while outer is not None:
        name: str = outer.f_code.co_name
        if outer.f_code.co_filename == file and not name.startswith(HOOK) and name not in COMPREHENSIONS \
                and not (name == "<lambda>" and HOOK in "".join(outer.f_code.co_varnames[:1])):
            return name
        outer = outer.f_back
    return str(frame.f_code.co_name)


class Retrace(CaptureError):
    """A concrete array turned out to hold traced values: the capture starts anew, with the array traced from its `site` on."""

    def __init__(self, site: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.site = site


class Region:
    """A region being traced: its block, and the contents that older cells had before it."""

    def __init__(self, born: int) -> None:
        self.arguments: list[Value] = []
        self.operations: list[Operation] = []
        self.before: dict[Cell, Any] = {}
        self.born, self.open = born, False

    def block(self, yields: tuple[Any, ...]) -> Block:
        """The finished block."""
        return Block(tuple(self.arguments), tuple(self.operations), yields)


Gradient = Callable[[Function, tuple[int, ...], Any, Mapping[str, int]], Function]


class Trace:
    """One capture in progress: the builder, the inputs found so far, the user's names for values."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.sizes = builder.sizes
        self.inputs = Inputs(self)
        self.names: dict[Value, str] = {}
        self.no_grad = 0
        self.retain: tuple[str, ...] = ()                                  # names of values whose gradients are asked for
        self.retained: set[str] = set()                                    # those that were found
        self.regions: list[Region] = []                                    # that are open, outermost first
        self.home: dict[Value, Region] = {}                                # where the values of closed regions belong
        self.births = 0                                                    # of cells and regions, to tell which is older
        self.states: dict[Any, Any] | None = None                          # what the loops at a place carried when last traced
        self.made: dict[int, tuple[Any, Any]] = {}                         # concrete arrays made by the function: site and array
        self.traced_sites: frozenset[Any] = frozenset()                    # where arrays are made that hold traced values
        self.outside: dict[Cell, str] = {}  # arrays that the function found outside, with their texts
        self.extents: dict[Any, str] = {}                                  # computed sizes by what they are computed from
        self.lengths: dict[str, tuple[Value, int]] = {}                    # the values of computed sizes, and when they were made
        self.gradient: Gradient | None = None                              # appends the adjoint to an inner function
        self.symbols: list[str] = []                                       # of sizes that inner gradients compute
        builder.extent = self.extent  # type: ignore[method-assign]
        self.sizes.where = user_location
        self.raised: tuple[Exception, Location | None] | None = None       # by the `raise` statement that ran last
        self.handlers: list[Callable[[], Any]] = []                        # what the `try` statements around handle
        self.failures: list[Failure] = []                                  # that the compiled function may raise
        self.open = True

    def __enter__(self) -> Self:
        if not hasattr(ACTIVE, "stack"):
            ACTIVE.stack = []
        ACTIVE.stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        ACTIVE.stack.pop()
        self.open = False

    def location(self) -> Location | None:
        """The user's line that runs now."""
        return user_location()

    # ------------------------------------------------------------------------------------------------ emitting
    def check_open(self) -> None:
        """Raises where a tracer outlived its capture."""
        if not self.open:
            raise CaptureError("a traced value is used after the function that it belongs to was captured",
                               user_location(),
                               "return it from the function; do not keep it in a global, an attribute or a list outside")

    def apply(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None,
              weak: bool = False) -> Any:
        """Apply a function that the library knows; `weak`: the result counts as a Python number in dtype promotion."""
        self.check_open()
        keywords = keywords or {}
        implementation = LIBRARY.get(function)
        location = user_location()
        keywords = {k: self.pinned(a) if k in COUNTS else a for k, a in keywords.items()}
        if implementation is None and function in QUERIES:
            return QUERIES[function](*arguments, **keywords)
        if implementation is None:
            return self.unsupported(function, arguments, keywords, location)
        arguments = self.adapt_weak(function, arguments)
        self.builder.location = location
        operations = self.builder.blocks[-1][1]
        before = len(operations)
        result = implementation(*[self.unwrap(a) for a in arguments], **{k: self.unwrap(a) for k, a in keywords.items()})
        if function in VIEW_FUNCTIONS and isinstance(arguments[0], Tracer) and arguments[0].ndim:
            return self.views(result, arguments[0], operations[before:])
        return self.wrap(result, weak)

    def views(self, result: Any, array: Tracer, operations: list[Operation]) -> Any:
        """Results that are views of an array as such, others as new arrays."""
        if isinstance(result, (list, tuple)):
            return type(result)([self.views(a, array, operations) for a in result])
        if not isinstance(result, Value) or not result.type.dims:
            return self.wrap(result)
        path = path_to(result, array.value, operations)
        if path is not None and self.no_grad == 0:
            whole = (*array.path, *path)
            contents = self.contents(array.cell)
            if is_view(path) and shares_memory(whole, contents.type, self):
                return Tracer(self, result, cell=array.cell, path=whole)
        return self.wrap(result)

    def operator(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a Python operator by its ufunc: Python numbers stay Python numbers."""
        return self.apply(function, arguments, weak=all(is_weak(a) for a in arguments))

    def emit(self, op: str, *operands: Any, weak: bool = False, **attributes: Any) -> Any:
        """Emit one op of the table on unwrapped operands."""
        self.check_open()
        self.builder.location = user_location()
        return self.wrap(self.builder.emit(op, operands, attributes), weak)

    def unsupported(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
                    location: Location | None) -> Any:
        """A function the library lacks: run it if only sizes are symbolic (they become constants), else raise."""
        if not contains(arguments, Tracer) and not contains(keywords, Tracer):
            return function(*self.pinned(arguments), **self.pinned(keywords))
        name = function_name(function)
        known = {function_name(f).rpartition(".")[2]: function_name(f) for f in LIBRARY}
        close = difflib.get_close_matches(name.rpartition(".")[2], known, 1, 0.7)
        hint = f"the nearest supported function is {known[close[0]]}; " if close else ""
        raise UnsupportedOp(f"{name} is not supported on traced values", location,
                            f"{hint}write it with supported functions, or call it outside of the function and pass its result in")

    def adapt_weak(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Traced Python floats take the dtype of the arrays they meet, as NumPy does with Python numbers."""
        if isinstance(function, np.ufunc):
            arguments = tuple(a.number() if isinstance(a, SymInt) and not a.weak else a for a in arguments)
        if not any(isinstance(a, Tracer) and a.weak for a in arguments):
            return arguments
        strong = [d for d in map(strong_dtype, arguments) if d is not None]
        if not strong:
            return arguments
        common = np.result_type(*strong)
        kinds = "fcbi" if function in WEAK_INTEGERS or isinstance(function, np.ufunc) and function is not np.power else "fc"
        return tuple(weaken(a, common) if isinstance(a, Tracer) and a.weak and a.dtype.kind in kinds else a for a in arguments)

    # ------------------------------------------------------------------------------------------------ wrapping
    def tracer(self, value: Value | Literal, weak: bool) -> Tracer:
        """A tracer of this trace."""
        return Tracer(self, value, weak)

    def size(self, dim: Dim, weak: bool) -> SymInt:
        """A size of this trace, symbolic for now."""
        return SymInt(self, dim, weak)

    def is_traced(self, x: Any) -> bool:
        """Whether a value stands for one of the traced function."""
        return isinstance(x, TRACED)

    def unwrap(self, x: Any) -> Any:
        """What the library sees of an argument: IR values, sizes, plain Python."""
        if isinstance(x, Tracer):
            if x.trace is not self:
                x.trace.check_open()
                raise CaptureError("a traced value of another capture is used", user_location())
            value = x.value
            self.check_home(value)
            return value
        if isinstance(x, SymInt):
            x.trace.check_open()
            self.check_lengths((x.dim,))
            return x.dim
        if isinstance(x, (np.ndarray, np.generic)):
            return self.constant(x)
        if isinstance(x, (list, tuple)):
            x = self.inputs.materialise(x)
            return [self.unwrap(a) for a in x] if isinstance(x, list) else tuple(self.unwrap(a) for a in x)
        if isinstance(x, TracedRange):
            return [self.unwrap(a) for a in x]
        if isinstance(x, dict):
            return {k: self.unwrap(a) for k, a in self.inputs.materialise(x).items()}
        if isinstance(x, slice):
            return slice(self.unwrap(x.start), self.unwrap(x.stop), self.unwrap(x.step))
        return x

    def constant(self, array: Any) -> Any:
        """A concrete array: small ones stay, uniform ones are filled, others become hidden inputs."""
        dtype = dtype_of(array.dtype)
        if dtype is None:
            raise CaptureError(f"an array of dtype {array.dtype} cannot be used together with traced values", user_location(),
                               "use arrays of floats, integers or bools")
        if array.ndim == 0:
            return literal_like(array.item(), dtype)
        if array.size <= SMALL_CONSTANT:
            return array
        first = array.flat[0]
        if np.full in LIBRARY and (array == first).all():
            return LIBRARY[np.full](array.shape, first.item(), dtype=array.dtype)
        return self.inputs.constant(array).value

    def wrap(self, x: Any, weak: bool = False) -> Any:
        """What the user sees of a library function's result."""
        if isinstance(x, (Value, Literal)):
            if self.no_grad and isinstance(x, Value) and (x.type.dtype.is_float or x.type.dtype.is_complex):
                x = self.builder.emit("stop_gradient", (x,))
            return Tracer(self, x, weak and not x.type.dims)
        if isinstance(x, Dim):
            return self.integer(x)
        if isinstance(x, tuple):
            items = [self.wrap(a, weak) for a in x]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if isinstance(x, list):
            return [self.wrap(a, weak) for a in x]
        return x

    def integer(self, dim: Dim, weak: bool = True) -> Any:
        """A size as the user sees it: an int where it is known for all calls."""
        dim = self.sizes.resolve(dim)
        if dim.constant is None:
            return SymInt(self, dim, weak)
        return dim.constant if weak else np.int64(dim.constant)

    def pin(self, dim: Dim) -> int:
        """The number that a size is now, assumed for all calls that use this capture."""
        return self.sizes.pin(dim, user_location())

    def pinned(self, x: Any) -> Any:
        """A structure with its sizes replaced by numbers."""
        if isinstance(x, SymInt):
            return int(x)
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            return type(x)(self.pinned(a) for a in x)
        if isinstance(x, dict):
            return {k: self.pinned(a) for k, a in x.items()}
        return x

    # ------------------------------------------------------------------------------------------------ names, storage
    def name(self, x: Any, name: str) -> None:
        """Note that the user calls a value `name`; the first name stays."""
        if isinstance(x, Tracer) and isinstance(x.value, Value) and x.trace is self:
            self.names.setdefault(x.value, name)

    def birth(self) -> int:
        """A number larger than those of all older cells and regions."""
        self.births += 1
        return self.births

    def cell(self, contents: Value | Literal) -> Cell:
        """Memory for a new array."""
        return Cell(contents, self.birth())

    def contents(self, cell: Cell) -> Value | Literal:
        """What a cell holds now."""
        if isinstance(cell.contents, Lost):
            raise CaptureError(cell.contents.why, user_location(), "take a copy of one of the arrays first: x.copy()")
        return cell.contents

    def protect(self, tracer: Any, text: str) -> None:
        """Note that an array exists outside of the function, which must not change it."""
        if isinstance(tracer, Tracer):
            self.outside[tracer.cell] = text

    def write(self, cell: Cell, contents: Any) -> None:
        """Give a cell new contents. Regions remember what it held before; what may be the same memory is lost."""
        if cell in self.outside:
            raise CaptureError(f"the array `{self.outside[cell]}` is changed in place: it exists outside of the function",
                               user_location(), "take a copy first: x = x.copy()")
        for region in self.regions:
            if cell.born < region.born:
                region.before.setdefault(cell, cell.contents)
        cell.contents = contents
        if not isinstance(contents, Lost):
            for relative in list(cell.relatives):
                self.write(relative, Lost("an array is read that may share memory with another one, which was written to since: "
                                          "which names stand for the same array depends on a traced loop or condition"))

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Emit into a region. At the end cells have their contents from before it again; the region can be entered anew."""
        self.builder.blocks.append((region.arguments, region.operations))
        self.regions.append(region)
        region.open = True
        try:
            yield region
        finally:
            self.regions.pop()
            self.builder.blocks.pop()
            region.open = False
            for cell, contents in region.before.items():
                cell.contents = contents
            for value in (*region.arguments, *(y for o in region.operations for y in o.results)):
                self.home[value] = region

    def region(self) -> Region:
        """A new region."""
        return Region(self.birth())

    def adopt(self, region: Region) -> None:
        """Make the operations of a closed region part of the block that is open now."""
        self.builder.blocks[-1][1].extend(region.operations)
        for value in (y for o in region.operations for y in o.results):
            self.home.pop(value, None)

    def extent(self, x: Any, least: Dim, greatest: Dim, key: Any) -> Dim:
        """The size symbol of a traced integer. A region's argument is made one at the region's start, for all that is in it."""
        known = self.extents.get(key)
        if known is not None and self.is_visible(known):
            return Dim.symbol(known)
        symbol = self.builder.fresh("length")
        result = self.builder.value("", Type(DType.i64))
        made = Operation("extent", (x,), (result,), {"symbol": symbol}, location=user_location())
        around = next((r for r in self.regions if x in r.arguments), None)
        (self.builder.blocks[-1][1] if around is None else around.operations).insert(
            len(self.builder.blocks[-1][1]) if around is None else 0, made)
        self.builder.makers[result] = made
        self.extents[key], self.lengths[symbol] = symbol, (result, self.birth())
        self.symbols.append(symbol)
        return self.sizes.compute(symbol, least, greatest)

    def is_visible(self, symbol: str) -> bool:
        """Whether a computed size is known here: its loop or branch is not closed."""
        region = self.home.get(self.lengths[symbol][0]) if symbol in self.lengths else None
        return region is None or region.open

    def check_lengths(self, dims: Iterable[Dim]) -> None:
        """Raises for lengths that are known in a loop's body or a branch only."""
        if self.lengths and not all(map(self.is_visible, {s for d in dims for s in d.symbols})):
            raise CaptureError("an array is used whose length is known only in the traced loop or branch in which it was made",
                               user_location(), "use it there, or store what it holds into an array made with np.zeros")

    def made_since(self, born: int, dims: Iterable[Dim]) -> bool:
        """Whether a length has been computed since."""
        return any(self.lengths[s][1] > born for d in dims for s in d.symbols if s in self.lengths)

    def window(self, part: Any, length: Any) -> Any:
        """The index array for `start:stop` with traced bounds that are a size apart, where that stays inside of an axis."""
        if not isinstance(part, slice) or not isinstance(part.start, Tracer) or not isinstance(part.stop, Tracer) \
                or part.step not in (None, 1):
            return part
        first, last = self.builder.linear(part.start.value), self.builder.linear(part.stop.value)
        least, beyond = self.builder.interval(part.start.value), self.builder.interval(part.stop.value)
        if first[0] != last[0] or least is None or beyond is None:
            return part
        if not is_inside(least[0], beyond[1] - 1, as_dim(length)):
            return part
        places = self.apply(np.add, (part.start, self.apply(np.arange, (self.integer(last[1] - first[1]),))))
        self.builder.intervals[places.value] = least[0], beyond[1] - 1
        return places

    def windows(self, array: Tracer, key: Any) -> tuple[Tracer, Any]:
        """An array and a key for `array[key]`, where slices with traced bounds have become index arrays."""
        parts = key if isinstance(key, tuple) else (key,)
        moving = [k for k, p in enumerate(parts) if isinstance(p, slice)
                  and (isinstance(p.start, Tracer) or isinstance(p.stop, Tracer))]
        if not moving or any(p is None or p is Ellipsis or isinstance(p, (list, np.ndarray, Tracer)) and np.ndim(p)
                             for p in parts):
            return array, key
        rest, cell = list(parts), array.cell
        for k in moving:
            places = self.window(parts[k], array.shape[k])
            if isinstance(places, Tracer):
                array = self.apply(operator.getitem, (array, (*[slice(None)] * k, places)))
                array.cell.relate(cell)                     # it is a view in NumPy: writing to one of them loses the other
                rest[k] = slice(None)
        return array, tuple(rest)

    def check_home(self, value: Any) -> None:
        """Raises for a value of a loop's body or a branch that is used outside of it."""
        region = self.home.get(value) if isinstance(value, Value) else None
        if region is not None and not region.open:
            raise CaptureError("a value from the body of a traced loop or branch is used outside of it, where it was kept in an "
                               "object that capture does not follow", user_location(), "assign it to a local variable")

    def element_store(self, target: Tracer, key: Any, value: Any) -> None:
        """`target[key] = value`."""
        if isinstance(key, Tracer) and key.dtype.kind == "b" and key.ndim:
            if not np.ndim(value):
                self.masked_store(target, key, value)
                return
            key = tuple(self.apply(np.nonzero, (key,)))
        place = self.place(target, key)
        self.builder.location = user_location()
        wanted = follow(target.value, place).type if place else target.value.type
        update = fitted(self.unwrap(value), self.sizes.resolve_type(wanted))
        path = (*target.path, *place)
        self.write(target.cell, written(self.contents(target.cell), path, update) if path else update_of(update, target))

    def place(self, target: Tracer, key: Any) -> Path:
        """The path from an array to what `target[key]` selects."""
        parts = key if isinstance(key, tuple) else (key,)
        full = [isinstance(p, slice) and p == slice(None) for p in parts]
        if sum(full) == len(parts) - 1:
            k = full.index(False)
            if isinstance(parts[k], slice) and k < target.ndim:
                key = (*parts[:k], self.window(parts[k], target.shape[k]), *parts[k + 1:])
        self.builder.location = user_location()
        operations = self.builder.blocks[-1][1]
        before, start = len(operations), target.value
        result = LIBRARY[operator.getitem](start, self.unwrap(key))
        path = path_to(result, start, operations[before:])
        if path is None:
            raise CaptureError("this index cannot be assigned to while the function is captured", user_location(),
                               "assign to a slice, an index or a mask of the array")
        return path

    def accumulate(self, target: Tracer, key: Any, value: Any) -> bool:
        """`target[key] += value` for one entry or row of an array of floats: no old value is read. False where it is not that."""
        if not isinstance(value, (Tracer, SymInt, int, float)) or not target.value.type.dtype.is_float:
            return False
        root = self.contents(target.cell)
        path = (*target.path, *self.place(target, key))
        places = places_of(root.type, path) if path else None
        element = None if places is None else places.element()
        if places is None or element is None:
            return False
        dtype = np.result_type(target.dtype, example_of(value))
        if dtype != target.dtype or isinstance(value, Tracer) and value.ndim > len(places.shape):
            return False
        axes, indices = element
        update = fitted(self.unwrap(value), Type(target.value.type.dtype, places.shape))
        self.write(target.cell, self.builder.emit("scatter_add", (root, *indices, update), {"axes": axes}))
        return True

    def masked_store(self, target: Tracer, mask: Tracer, value: Any) -> None:
        """`target[mask] = value` for a traced mask and a value for every entry of the target, or one for all: a select."""
        if mask.ndim < target.ndim:
            mask = mask[(..., *[None] * (target.ndim - mask.ndim))]
        self.element_store(target, Ellipsis, self.apply(np.where, (mask, value, target)))


def update_of(update: Any, target: Tracer) -> Any:
    """What a cell that is overwritten as a whole holds."""
    return filled(update, target.value.type.dims)


def function_name(function: Any) -> str:
    """`numpy.linalg.norm`, `math.sin`, ... as users know it."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or text.written(function)
    if isinstance(function, np.ufunc):
        module = "numpy" if getattr(np, function.__name__, None) is function else "scipy.special"
    return name if module in ("", "builtins") else f"{module}.{name}"


WEAK_INTEGERS: frozenset[Any] = frozenset({np.where, np.clip})


def weaken(x: Tracer, common: np.dtype) -> Tracer:
    """A traced Python number in the dtype in which it meets arrays of a common dtype."""
    wanted = np.result_type(common, {"b": False, "i": 0, "f": 0.0, "c": 0j}[x.dtype.kind])
    found = dtype_of(wanted)
    if x.dtype.kind == "b" or found is None or found is x.value.type.dtype or wanted.kind == "c" and x.dtype.kind != "c":
        return x.cast(DType.f32, weak=True) if wanted == np.complex64 and x.dtype == np.float64 else x
    return x.cast(found, weak=True)


def is_weak(x: Any) -> bool:
    """Whether an operand is a Python number, traced or not."""
    if isinstance(x, (Tracer, SymInt)):
        return x.weak
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)


def strong_dtype(x: Any) -> np.dtype | None:
    """The dtype of an array or a NumPy scalar, None for Python numbers and other things."""
    if isinstance(x, Tracer):
        return None if x.weak else x.type.dtype.numpy
    return x.dtype if isinstance(x, (np.ndarray, np.generic)) else None


def contains(x: Any, kind: Any) -> bool:
    """Whether a traced value of the given kind is inside nested lists, tuples and dicts."""
    if isinstance(x, kind):
        return True
    if isinstance(x, (list, tuple)):
        return any(contains(a, kind) for a in x)
    if isinstance(x, dict):
        return any(contains(a, kind) for a in x.values())
    return isinstance(x, slice) and any(contains(a, kind) for a in (x.start, x.stop, x.step))


# --------------------------------------------------------------------------------------------------------- operators
def binary(ufunc: Callable[..., Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of a binary operator on tracers: `x + y` and the reflected one."""
    def forward(self: Tracer, other: Any) -> Any:
        return self.trace.operator(ufunc, self, other) if is_operand(other) else NotImplemented

    def reflected(self: Tracer, other: Any) -> Any:
        return self.trace.operator(ufunc, other, self) if is_operand(other) else NotImplemented

    return forward, reflected


def is_operand(x: Any) -> bool:
    """Whether a value can meet a tracer in an operator."""
    return is_number(x) or isinstance(x, (Tracer, SymInt, bool, np.bool_, list, tuple))


def unary(ufunc: Callable[..., Any]) -> Callable[[Any], Any]:
    """The method of a unary operator on tracers."""
    def method(self: Tracer) -> Any:
        return self.trace.operator(ufunc, self)
    return method


class Tracer:
    """An array or number of the traced function."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __init__(self, trace: Trace, value: Value | Literal, weak: bool = False, cell: Cell | None = None,
                 path: Path = ()) -> None:
        self.trace, self.weak, self.path = trace, weak, path
        self.cell = trace.cell(value) if cell is None else cell
        self.seen, self.view = self.cell.contents, value           # the view of the contents that it was computed from

    @property
    def value(self) -> Value | Literal:
        """The array's contents now."""
        if not self.path:
            return self.trace.contents(self.cell)
        contents = self.trace.contents(self.cell)
        region = self.trace.home.get(self.view)  # type: ignore[arg-type]
        if contents is not self.seen or region is not None and not region.open:
            self.trace.check_open()
            self.trace.builder.location = user_location()
            self.trace.check_lengths(d for step in self.path for d in step.sizes)
            self.view, self.seen = follow(contents, self.path), contents
        return self.view

    # ------------------------------------------------------------------------------------------------ what an array knows
    @property
    def type(self) -> Any:
        """The IR type, in terms of the sizes that are known to be different."""
        return self.trace.sizes.resolve_type(self.own_type)

    @property
    def own_type(self) -> Type:
        """The IR type as it was when the value was made. Stores change contents, never types."""
        return self.view.type if self.path else self.value.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.trace.integer(d) for d in self.own_type.dims)

    @property
    def ndim(self) -> int:
        return self.own_type.rank

    @property
    def dtype(self) -> np.dtype:
        return self.own_type.dtype.numpy

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def T(self) -> Any:
        return self.trace.apply(np.transpose, (self,))

    @property
    def mT(self) -> Any:
        return self.trace.apply(np.matrix_transpose, (self,))

    @property
    def real(self) -> Any:
        return self.trace.apply(np.real, (self,)) if self.value.type.dtype.is_complex else self

    @property
    def imag(self) -> Any:
        return self.trace.apply(np.imag, (self,))

    def cast(self, dtype: DType, weak: bool = False) -> Tracer:
        """This value in another dtype."""
        if dtype is self.value.type.dtype and weak == self.weak:
            return self
        self.trace.check_open()
        self.trace.builder.location = user_location()
        return Tracer(self.trace, cast(self.value, dtype), weak)

    # ------------------------------------------------------------------------------------------------ operators
    __add__, __radd__ = binary(np.add)
    __sub__, __rsub__ = binary(np.subtract)
    __truediv__, __rtruediv__ = binary(np.true_divide)
    __floordiv__, __rfloordiv__ = binary(np.floor_divide)
    __mod__, __rmod__ = binary(np.remainder)
    __matmul__, __rmatmul__ = binary(np.matmul)
    __and__, __rand__ = binary(np.bitwise_and)
    __or__, __ror__ = binary(np.bitwise_or)
    __xor__, __rxor__ = binary(np.bitwise_xor)
    __lshift__, __rlshift__ = binary(np.left_shift)
    __rshift__, __rrshift__ = binary(np.right_shift)
    __lt__, __gt__ = binary(np.less)[0], binary(np.greater)[0]
    __le__, __ge__ = binary(np.less_equal)[0], binary(np.greater_equal)[0]
    __neg__, __pos__ = unary(np.negative), unary(np.positive)
    __abs__, __invert__ = unary(np.absolute), unary(np.invert)

    def __mul__(self, other: Any) -> Any:
        return self.trace.operator(np.multiply, self, self.factor(other)) if is_operand(other) else NotImplemented

    def __rmul__(self, other: Any) -> Any:
        return self.trace.operator(np.multiply, self.factor(other), self) if is_operand(other) else NotImplemented

    def factor(self, other: Any) -> Any:
        """What this is multiplied with. An integer does not multiply a list: it repeats it."""
        if isinstance(other, (list, tuple)) and not self.ndim and self.dtype.kind in "biu":
            raise self.concrete("repeating a list", "use np.full or np.tile, or pass the integer as an argument of the function")
        return other

    def __pow__(self, other: Any, modulus: None = None) -> Any:
        return self.trace.operator(np.power, self, other) if is_operand(other) else NotImplemented

    def __rpow__(self, other: Any, modulus: None = None) -> Any:
        return self.trace.operator(np.power, other, self) if is_operand(other) else NotImplemented

    def __eq__(self, other: object) -> Any:
        return self.trace.operator(np.equal, self, other) if is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self.trace.operator(np.not_equal, self, other) if is_operand(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        return self.trace.apply(np.round, (self, digits or 0), weak=self.weak)

    # ------------------------------------------------------------------------------------------------ containers
    def __getitem__(self, index: Any) -> Any:
        array, key = self.trace.windows(self, index)
        if array is not self and all(isinstance(k, slice) and k == slice(None) for k in key):
            return array
        return self.trace.apply(operator.getitem, (array, key))

    def __len__(self) -> int:
        return int(self.length())

    def length(self) -> Any:
        """The first axis length, an int or a SymInt."""
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        count = unroll_count(self.trace, self.shape[0], "an array's first axis")
        return (self[k] for k in range(count))

    def __contains__(self, item: Any) -> bool:
        raise self.concrete("`in`", "use np.any(array == item)")

    def __setitem__(self, index: Any, value: Any) -> None:
        self.trace.check_open()
        if not self.ndim and not (index == () or index is Ellipsis):
            raise TypeError("'numpy.float64' object does not support item assignment" if self.weak else
                            "a traced number does not support item assignment")
        self.trace.element_store(self, index, value)

    # ------------------------------------------------------------------------------------------------ not available
    def concrete(self, what: str, do: str) -> CaptureError:
        """The error for an operation that needs the number itself."""
        self.trace.check_open()
        return CaptureError(f"{what} needs the value of a traced {self.kind()}, which is not known while the function is "
                            "captured", user_location(), do)

    def kind(self) -> str:
        """`array float64[n, 3]` or `number`, for messages."""
        return f"array {self.type}" if self.ndim else f"number ({self.dtype})"

    def __bool__(self) -> bool:
        raise self.concrete("a condition (bool)", "use np.where(condition, a, b) to choose between values")

    def __float__(self) -> float:
        raise self.concrete("float()", "keep the value as it is: it works in all arithmetic")

    def __int__(self) -> int:
        raise self.concrete("int()", "keep the value as it is, or pass the integer as an argument of the function")

    def __complex__(self) -> complex:
        raise self.concrete("complex()", "keep the value as it is")

    def __index__(self) -> int:
        raise self.concrete("an index, a size or a range", "pass the integer as an argument of the function, "
                            "or take it from an array's shape")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.concrete("a conversion to a NumPy array (or a store into one)",
                            "build the array from traced values with np.stack, np.concatenate or np.array([...])")

    def __format__(self, specification: str) -> str:
        return text.shown(self, "a formatted string")

    def __str__(self) -> str:
        return text.shown(self, "str()")

    def __repr__(self) -> str:
        return text.shown(self, "repr()")

    def __reduce__(self) -> Any:
        raise self.concrete("pickling or copying", "use x.copy()")

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    # ------------------------------------------------------------------------------------------------ methods
    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *arguments, **keywords: self.trace.apply(METHODS[name], (self, *arguments), keywords)
        if name in MUTATING:
            raise CaptureError(f"the method `{name}` changes a traced array in place", user_location(), MUTATING[name])
        raise AttributeError(f"{'array' if self.ndim else 'number'} has no attribute {name!r} while it is traced")

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> Any:
        return self.trace.apply(np.reshape, (self, shape[0] if len(shape) == 1 else shape),
                                {} if order == "C" else {"order": order})

    def transpose(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, SymInt)) else axes
        return self.trace.apply(np.transpose, (self, given) if given else (self,))

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        wanted = dtype_of(np.dtype(dtype))
        if wanted is None:
            raise UnsupportedOp(f"astype to {np.dtype(dtype)} is not supported", user_location())
        return self.fresh().cast(wanted)

    def copy(self, order: str = "C") -> Tracer:
        return self.fresh()

    def flatten(self, order: str = "C") -> Any:
        return self.trace.apply(np.ravel, (self,), {} if order == "C" else {"order": order}).fresh()

    def item(self, *index: Any) -> Any:
        if index:
            picked = self.ravel()[index[0]] if len(index) == 1 and not isinstance(index[0], tuple) else self[index]
        else:
            picked = self.reshape(()) if self.ndim else self
        return Tracer(self.trace, picked.value, weak=True)

    def tolist(self) -> Any:
        return [row.tolist() for row in self] if self.ndim else self

    def fresh(self) -> Tracer:
        """The same value as a new array that shares no memory."""
        return Tracer(self.trace, self.value, self.weak)

    def replace(self, new: Any) -> Tracer:
        """Give this array new contents (`x += y`), which all views of it see."""
        new = new if isinstance(new, Tracer) else self.trace.apply(np.asarray, (new,))
        if new.ndim > self.ndim or any(a != b for a, b in zip(self.shape[self.ndim - new.ndim:], new.shape, strict=True)
                                       if b != 1):
            raise ShapeError(f"an array of shape {self.type} is changed in place by a value of shape {new.type}", user_location())
        if not np.can_cast(new.dtype, self.dtype, "same_kind"):
            raise CaptureError(f"an array of {self.dtype} cannot hold the {new.dtype} result of an operation in place",
                               user_location(), "write x = x + y instead of x += y")
        self.trace.element_store(self, Ellipsis, new)
        return self

    def fill(self, value: Any) -> None:
        self.trace.element_store(self, Ellipsis, value)

    def sort(self, axis: int = -1, **keywords: Any) -> None:
        self.trace.element_store(self, Ellipsis, self.trace.apply(np.sort, (self,), {"axis": axis, **keywords}))

    def put(self, indices: Any, values: Any) -> None:
        self.reshape(-1)[indices] = values

    @property
    def flat(self) -> Any:
        return self.reshape(-1)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.reshape(-1)[:] = value

    # ------------------------------------------------------------------------------------------------ NumPy's protocols
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        keywords = {k: v for k, v in keywords.items() if not (k == "out" and v in (None, (None,)))}
        if method == "at":
            return add_at(self.trace, ufunc, *inputs)
        out = keywords.pop("out", None)
        if out is not None:
            return into(self.trace,
                        lambda: self.__array_ufunc__(ufunc, method, *inputs, **keywords), out[0] if len(out) == 1 else out,
                        keywords.pop("where", True))
        if method == "__call__":
            return self.trace.apply(ufunc, inputs, keywords)
        if method == "reduce" and ufunc in REDUCTIONS:
            keywords.setdefault("axis", 0)
            return self.trace.apply(REDUCTIONS[ufunc], inputs, keywords)
        if method == "accumulate" and ufunc in ACCUMULATIONS:
            keywords.setdefault("axis", 0)
            return self.trace.apply(ACCUMULATIONS[ufunc], inputs, keywords)
        if method == "outer" and not keywords:
            left, right = inputs
            ranks = [a.ndim if isinstance(a, Tracer) else np.ndim(a) for a in inputs]
            return self.trace.apply(ufunc, (left[(..., *[None] * ranks[1])] if all(ranks) else left, right))
        raise UnsupportedOp(f"numpy.{ufunc.__name__}.{method} is not supported on traced values", user_location())

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any) -> Any:
        return self.trace.apply(function, arguments, keywords)


METHODS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "std": np.std, "var": np.var, "min": np.min, "max": np.max,
    "argmin": np.argmin, "argmax": np.argmax, "any": np.any, "all": np.all, "cumsum": np.cumsum, "cumprod": np.cumprod,
    "ravel": np.ravel, "squeeze": np.squeeze, "swapaxes": np.swapaxes, "dot": np.dot, "clip": np.clip, "round": np.round,
    "take": np.take, "repeat": np.repeat, "trace": np.trace, "diagonal": np.diagonal, "conj": np.conj,
    "conjugate": np.conj, "nonzero": np.nonzero, "argsort": np.argsort, "choose": np.choose, "compress": np.compress,
    "searchsorted": np.searchsorted,
}

MUTATING = {"partition": "use np.partition(x, k)", "resize": "use np.resize(x, shape)", "setflags": "leave it out"}

# Functions whose result is a view of their first argument wherever that is possible.
VIEW_FUNCTIONS: frozenset[Any] = frozenset({
    operator.getitem, np.transpose, np.matrix_transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.reshape, np.ravel, np.squeeze,
    np.expand_dims, np.asarray, np.asanyarray, np.ascontiguousarray, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip,
    np.flipud, np.fliplr, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit})


def add_at(trace: Trace, ufunc: np.ufunc, target: Any, key: Any, value: Any = None) -> None:
    """`np.add.at(target, key, value)`: every entry counts, also where places repeat."""
    if not isinstance(target, Tracer):
        raise trace_anew(trace, target)
    if ufunc not in (np.add, np.subtract):
        raise UnsupportedOp(f"numpy.{ufunc.__name__}.at is not supported on traced values", user_location(),
                            f"write the loop: for i, v in zip(indices, values): a[i] = np.{ufunc.__name__}(a[i], v)")
    if isinstance(key, Tracer) and key.dtype.kind == "b":
        augment_masked(target, key, ufunc, value)
        return
    place = trace.place(target, key)
    if target.path or len([step for step in place if step.op == "gather"]) != 1:
        if not is_view(place):
            raise UnsupportedOp(f"numpy.{ufunc.__name__}.at on a view is not supported", user_location(),
                                "index the array itself")
        target[key] = ufunc(target[key], value)
        return
    trace.builder.location = user_location()
    root = trace.contents(target.cell)
    update = trace.unwrap(-value if ufunc is np.subtract else value)
    update = fitted(update, trace.sizes.resolve_type(follow(root, place).type))
    trace.write(target.cell, scattered(root, place, update))


def augment_masked(target: Tracer, mask: Tracer, function: Callable[[Any, Any], Any], value: Any) -> None:
    """`target[mask] = function(target[mask], value)`."""
    if np.ndim(value):
        target[mask] = function(target[mask], value)
    else:
        target.trace.masked_store(target, mask, function(target, value))


def scattered(root: Any, place: Path, update: Any) -> Any:
    """The root with updates added at the places of one gather, before and after which there may be other views."""
    first, rest = place[0], place[1:]
    if first.op == "gather":
        for step in reversed(rest):
            before = follow(root, place[:place.index(step)])
            update = emit("reshape", update, dims=before.type.dims) if step.op == "reshape" else \
                permuted(update, [step.attributes["permutation"].index(k) for k in range(update.type.rank)])
        return emit("scatter_add", root, *first.operands, update, axes=first.attributes["axes"])
    inner = follow(root, (first,))
    return written(root, (first,), scattered(inner, rest, update))


def into(trace: Trace, compute: Callable[[], Any], out: Any, where: Any = True) -> Any:
    """`f(..., out=out, where=where)`: the result is written into `out`."""
    if isinstance(out, tuple):
        raise UnsupportedOp("out= with several arrays is not supported", user_location(), "use the function's results")
    if not isinstance(out, Tracer):
        raise trace_anew(trace, out)
    result = compute()
    result = result if isinstance(result, Tracer) else trace.apply(np.asarray, (result,))
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise CaptureError(f"an array of {out.dtype} cannot hold a {result.dtype} result", user_location(),
                           "use the function's result")
    trace.element_store(out, Ellipsis, result if where is True else trace.apply(np.where, (where, result, out)))
    return out


def trace_anew(trace: Trace, array: Any) -> Exception:
    """The exception that starts the capture anew, now with a concrete array traced from where the function made it."""
    owner = array
    while isinstance(owner, np.ndarray) and id(owner) not in trace.made and owner.base is not None:
        owner = owner.base
    if id(owner) in trace.made:
        return Retrace(trace.made[id(owner)][0], "a traced value is stored into a NumPy array", user_location())
    return CaptureError("a traced value is stored into a NumPy array", user_location(),
                        "make the array in the function, for example with np.zeros, or build it with np.stack")


def making_site() -> Any:
    """The place in the user's code that makes an array now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY_FOLDER)) \
            and not frame.f_code.co_filename.startswith(EXAMPLES):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lasti)

REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all, np.logical_or: np.any,
}
ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


def unroll_count(trace: Trace, length: Any, what: str) -> int:
    """How often a loop over a size that Python runs itself goes round, which becomes a constant; raises above the limit."""
    trace.check_open()
    if not isinstance(length, SymInt):
        return int(length)
    actual = trace.sizes.actual(length.dim)
    if actual > UNROLL_LIMIT:
        raise CaptureError(f"a Python loop over {what} runs {actual} times here; at most {UNROLL_LIMIT} are unrolled",
                           user_location(), "write it as a `for` statement, or with whole-array operations (NumPy functions)")
    return int(length)


# --------------------------------------------------------------------------------------------------------- sizes
def size_binary(exact: Callable[[Any, Any], Any], ufunc: Callable[..., Any]) -> tuple[Any, Any]:
    """The two methods of a binary operator on sizes: sizes and ints give a size, anything else is traced arithmetic."""
    def compute(trace: Trace, a: Any, b: Any) -> Any:
        if all(isinstance(x, (SymInt, int)) and not isinstance(x, np.generic) for x in (a, b)):
            return trace.integer(Dim.of(exact(as_dim(a), as_dim(b))), is_weak(a) and is_weak(b))
        if exact is operator.mul and any(isinstance(x, (list, tuple, str)) for x in (a, b)):
            return exact(*(int(x) if isinstance(x, SymInt) else x for x in (a, b)))              # a list repeated so many times
        return trace.operator(ufunc, a, b) if is_operand(a) and is_operand(b) else NotImplemented

    return (lambda self, other: compute(self.trace, self, other)), (lambda self, other: compute(self.trace, other, self))


def as_dim(x: Any) -> Dim:
    return x.dim if isinstance(x, SymInt) else Dim.of(int(x))


def size_comparison(relation: str, ufunc: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A comparison of sizes is decided by their actual values and recorded as a guard."""
    def method(self: SymInt, other: Any) -> Any:
        self.trace.check_open()
        if isinstance(other, (SymInt, int)) and not isinstance(other, np.generic):
            known = self.trace.sizes.decide(self.dim, relation, as_dim(other), user_location())
            return self.trace.operator(ufunc, self.number(), other) if known is None else known
        if isinstance(other, float):
            return self.trace.sizes.compare(self.dim, *integer_relation(relation, other), user_location()) \
                if math.isfinite(other) else COMPARISONS[relation](0, other)
        return self.trace.operator(ufunc, self, other) if is_operand(other) else NotImplemented
    return method


FLOOR_DIVIDE = size_binary(operator.floordiv, np.floor_divide)
REMAINDER = size_binary(operator.mod, np.remainder)


def nonzero(divisor: Any) -> Any:
    """A divisor; a size that is zero raises what Python raises."""
    if isinstance(divisor, (SymInt, int)) and divisor == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return divisor


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def integer_relation(relation: str, bound: float) -> tuple[str, int]:
    """The relation between integers that means the same as `n relation bound`."""
    if bound == int(bound):
        return relation, int(bound)
    if relation in ("<", "<="):
        return "<=", math.floor(bound)
    if relation in (">", ">="):
        return ">=", math.ceil(bound)
    return ("<", -2**62) if relation == "==" else (">=", -2**62)


class SymInt:
    """A size (an axis length or an integer argument) of the traced function: an int to the user, a Dim to the compiler."""

    def __init__(self, trace: Trace, dim: Dim, weak: bool = True) -> None:
        self.trace, self.symbolic, self.weak = trace, dim, weak

    def number(self) -> Any:
        """The size as a traced int64 number."""
        return self.trace.emit("size", dim=self.dim)

    @property
    def dim(self) -> Dim:
        """The size in terms of the symbols that are known to be different."""
        return self.trace.sizes.resolve(self.symbolic)

    __add__, __radd__ = size_binary(operator.add, np.add)
    __sub__, __rsub__ = size_binary(operator.sub, np.subtract)
    __mul__, __rmul__ = size_binary(operator.mul, np.multiply)
    __lt__, __gt__ = size_comparison("<", np.less), size_comparison(">", np.greater)
    __le__, __ge__ = size_comparison("<=", np.less_equal), size_comparison(">=", np.greater_equal)
    __eq__ = size_comparison("==", np.equal)
    __ne__ = size_comparison("!=", np.not_equal)

    def __floordiv__(self, other: Any) -> Any:
        return FLOOR_DIVIDE[0](self, nonzero(other))

    def __rfloordiv__(self, other: Any) -> Any:
        return FLOOR_DIVIDE[1](nonzero(self), other)

    def __mod__(self, other: Any) -> Any:
        return REMAINDER[0](self, nonzero(other))

    def __rmod__(self, other: Any) -> Any:
        return REMAINDER[1](nonzero(self), other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self.trace.operator(np.true_divide, self, other) if is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return self.trace.operator(np.true_divide, other, self) if is_operand(other) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 4:
            return self.trace.integer(math.prod([self.dim] * other, start=Dim.of(1)))
        return self.trace.operator(np.power, self, other) if is_operand(other) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return self.trace.operator(np.power, other, self) if is_operand(other) else NotImplemented

    def __neg__(self) -> Any:
        return self.trace.integer(-self.dim)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __round__(self, digits: int | None = None) -> SymInt:
        return self

    __trunc__ = __floor__ = __ceil__ = __round__

    # Where Python needs the number itself, the size becomes a constant of the capture, with a guard.
    def __index__(self) -> int:
        self.trace.check_open()
        return self.trace.pin(self.dim)

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __hash__(self) -> int:
        return hash(int(self))

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, specification: str) -> str:
        if text.MESSAGES.depth and self.trace.regions:              # a message that is one for all sizes
            return f"<{self.dim}>"
        return format(int(self), specification)

    def __repr__(self) -> str:
        return format(self, "") if self.trace.open and text.is_traced_code(sys._getframe(1)) else f"<size {self.dim}>"

    def bits(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        """Bit operations work on the number."""
        return function(int(self), int(other)) if isinstance(other, (SymInt, int)) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.bits(other, operator.and_)

    def __or__(self, other: Any) -> Any:
        return self.bits(other, operator.or_)

    def __lshift__(self, other: Any) -> Any:
        return self.bits(other, operator.lshift)

    def __rshift__(self, other: Any) -> Any:
        return self.bits(other, operator.rshift)

    def bit_length(self) -> int:
        return int(self).bit_length()

    def is_integer(self) -> bool:
        return True

    real = property(lambda self: self)
    imag = 0
    shape: tuple[Any, ...] = ()
    ndim = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords.get("out") is not None:
            return getattr(ufunc, method)(*self.trace.pinned(inputs), **self.trace.pinned(keywords))
        return self.trace.apply(ufunc, inputs, keywords)

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any) -> Any:
        return self.trace.apply(function, arguments, keywords)


class TracedRange:
    """`range` with traced bounds. A `for` statement over it becomes a loop; other iteration unrolls it."""

    def __init__(self, trace: Trace, start: Any, stop: Any, step: Any) -> None:
        self.trace, self.start, self.stop, self.step = trace, start, stop, step

    def length(self) -> Any:
        """The number of entries: an int, a size or a traced number. Zero or less where there are none."""
        if any(isinstance(x, Tracer) for x in (self.start, self.stop, self.step)) or isinstance(self.step, SymInt):
            return -((self.start - self.stop) // self.step)
        count = -((as_dim(self.start) - as_dim(self.stop)) // as_dim(self.step))
        return self.trace.integer(count)

    def __len__(self) -> int:
        return len(self.pinned())

    def pinned(self) -> builtins.range:
        """The range of numbers that it is now, as constants."""
        return builtins.range(*[int(x) for x in (self.start, self.stop, self.step)])

    def __iter__(self) -> Iterator[int]:
        unroll_count(self.trace, self.length(), "a range of traced length")
        return iter(self.pinned())

    def __reversed__(self) -> Iterator[int]:
        return reversed(list(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.pinned()[index]
        return self.start + self.step * (index if not isinstance(index, int) or index >= 0 else self.length() + index)


TRACED = (Tracer, SymInt, TracedRange)

# Keywords whose integers steer what a function does: they are part of the capture, not sizes.
COUNTS = frozenset({"axis", "axes", "axis1", "axis2", "ddof", "correction", "decimals", "ord", "source", "destination", "offset"})


def example_of(x: Any) -> Any:
    """What stands for a value where only its dtype matters."""
    if isinstance(x, SymInt):
        return 0
    if isinstance(x, Tracer):
        return {"f": 0.0, "c": 0j, "b": False}.get(x.dtype.kind, 0) if x.weak else x.dtype
    return x


def query_size(x: Any, axis: Any = None) -> Any:
    """`np.size`."""
    return x.size if axis is None else x.shape[axis]


QUERIES: dict[Any, Callable[..., Any]] = {
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: query_size,
    np.iscomplexobj: lambda x: x.dtype.kind == "c", np.isrealobj: lambda x: x.dtype.kind != "c",
    np.result_type: lambda *a: np.result_type(*map(example_of, a)),
}
