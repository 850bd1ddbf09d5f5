"""What stands for an array or a number: a `Tracer` wraps an IR value and behaves like the array. Whatever Python or NumPy does to
it goes to the trace, which emits it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError, ShapeError, UnsupportedOp
from ..ir.core import Literal, Value
from ..ir.types import DType, Type, dtype_of
from ..library.core import cast
from . import text
from .storage import Cell, Path, follow
from .symint import SymInt, unroll_count
from .traced import Traced, is_operand
from .where import user_location

if TYPE_CHECKING:
    from .trace import Trace

# --------------------------------------------------------------------------------------------------------- operators
def binary(ufunc: Callable[..., Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of a binary operator on tracers: `x + y` and the reflected one."""
    def forward(self: Tracer, other: Any) -> Any:
        return self.trace.operator(ufunc, self, other) if is_operand(other) else NotImplemented

    def reflected(self: Tracer, other: Any) -> Any:
        return self.trace.operator(ufunc, other, self) if is_operand(other) else NotImplemented

    return forward, reflected


def unary(ufunc: Callable[..., Any]) -> Callable[[Any], Any]:
    """The method of a unary operator on tracers."""
    def method(self: Tracer) -> Any:
        return self.trace.operator(ufunc, self)
    return method


class Tracer(Traced):
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
            return self.trace.store_at(ufunc, *inputs)
        out = keywords.pop("out", None)
        if out is not None:
            return self.trace.store_into(lambda: self.__array_ufunc__(ufunc, method, *inputs, **keywords),
                                         out[0] if len(out) == 1 else out, keywords.pop("where", True))
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

REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all, np.logical_or: np.any,
}
ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}
