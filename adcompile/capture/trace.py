"""One capture in progress. A `Tracer` (tracer.py) stands for an array or number of the traced function, a `SymInt` (symint.py)
for a size; whatever Python or NumPy does to them comes to their `Trace`, which emits it with the functions of `library`."""

from __future__ import annotations

import difflib
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from ..errors import CaptureError, UnsupportedOp
from ..ir.builder import Builder
from ..ir.core import Block, Function, Literal, Location, Operation, Value
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.signature import Failure
from ..ir.types import DType, Type, dtype_of
from ..library.core import filled
from ..library.indexing import is_inside
from ..library.registry import LIBRARY
from . import stores, text
from .inputs import Inputs
from .storage import Cell, Lost, Path, fitted, follow, is_view, path_to, places_of, shares_memory, written
from .symint import SymInt, TracedRange, as_dim
from .traced import is_weak
from .tracer import Tracer
from .where import user_location

SMALL_CONSTANT = 64                 # entries of a concrete array that becomes part of the code

ACTIVE = threading.local()


def current_trace() -> Trace | None:
    """The trace that is being made in this thread."""
    stack: list[Trace] = getattr(ACTIVE, "stack", [])
    return stack[-1] if stack else None


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
        operands = [self.unwrap(a) for a in arguments], {k: self.unwrap(a) for k, a in keywords.items()}
        result = self.supported(implementation, function, *operands)
        if function in VIEW_FUNCTIONS and isinstance(arguments[0], Tracer) and arguments[0].ndim:
            return self.views(result, arguments[0], operations[before:])
        return self.wrap(result, weak)

    @staticmethod
    def supported(implementation: Callable[..., Any], function: Callable[..., Any], operands: list[Any],
                  keywords: dict[str, Any]) -> Any:
        """What a library function gives; an error that says so where it takes no complex numbers."""
        try:
            return implementation(*operands, **keywords)
        except TypeError as error:
            if not any(isinstance(x, (Value, Literal)) and x.type.dtype.is_complex for x in operands):
                raise
            raise UnsupportedOp(f"{getattr(function, '__name__', function)} of complex numbers is not supported", user_location(),
                                "compute with the real and the imaginary parts") from error

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

    def store_at(self, ufunc: np.ufunc, *arguments: Any) -> None:
        """`ufunc.at(...)`."""
        stores.add_at(self, ufunc, *arguments)

    def store_into(self, compute: Callable[[], Any], out: Any, where: Any) -> Any:
        """`f(..., out=out, where=where)`, where `compute` gives the result."""
        return stores.into(self, compute, out, where)

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


# Functions whose result is a view of their first argument wherever that is possible.
VIEW_FUNCTIONS: frozenset[Any] = frozenset({
    operator.getitem, np.transpose, np.matrix_transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.reshape, np.ravel, np.squeeze,
    np.expand_dims, np.asarray, np.asanyarray, np.ascontiguousarray, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip,
    np.flipud, np.fliplr, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit})


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
