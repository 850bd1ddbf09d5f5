"""SymPy expressions over arrays: sums and products over indices, and matrix expressions.

Sizes are known at a call only, so such an expression becomes a function that is captured at each new kind of call, as a user's
Python function is: `Sum(x[i]*y[i], (i, 0, n - 1))` emits the loop that a person would write, which is raised to array
operations where its turns do not need each other; `A*x + b` emits the products and sums of NumPy. Indices count from 0.
"""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..errors import CaptureError, ShapeError, UnsupportedOp
from ..ir.core import Location, Operand, Value
from ..ir.dims import Dim
from ..ir.interpreter import interpret
from ..ir.signature import Leaf, Tree
from ..ir.types import DType, Type
from ..library.core import as_value, emit
from ..library.indexing import getitem
from ..library.registry import LIBRARY
from .driver import capture
from .symint import SymInt
from .sympy_convert import Converter, describe, is_a, known_name, number
from .sympy_expr import Given, assemble, caller, choose, flatten, nested, read_arguments
from .sympy_functions import UserFunctions
from .trace import Trace, current_trace
from .tracer import Tracer

ARRAYS = ("IndexedBase", "MatrixSymbol")            # arguments that are arrays
LOOPS = {"Sum": ("add", 0.0), "Product": ("mul", 1.0)}
MATRICES: dict[str, Callable[..., Any]] = {
    "MatAdd": LIBRARY[np.add], "HadamardProduct": LIBRARY[np.multiply],
    "Transpose": LIBRARY[np.transpose], "DotProduct": LIBRARY[np.vdot],
}
MATRIX_WORDS = (*MATRICES, "MatMul", "Trace")
FILLED: dict[str, Any] = {"ZeroMatrix": np.zeros, "OneMatrix": np.ones, "Identity": np.eye}
NO_ALGEBRA = "Linear algebra beyond sums and products is not supported yet; for matrices of known shape, use A.as_explicit()."


def needs_arrays(expr: Any, args: Any) -> bool:
    """Whether an expression is one over arrays."""
    entries = args if isinstance(args, (list, tuple)) else [args]
    if any(is_array(x) for x in entries if hasattr(x, "args")):
        return True
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (list, tuple)):
            stack += node
        elif hasattr(node, "args"):
            if is_a(node, *LOOPS):
                return True
            stack += node.args
    return False


def is_array(x: Any) -> bool:
    """Whether an argument is an array."""
    return is_a(x, *ARRAYS)


def array_function(expr: Any, wrt: Any, args: Any, name: str | None) -> tuple[Callable[..., Any], Any]:
    """The function of an expression over arrays, to be captured as any Python function, and the positions of its `wrt`."""
    where = caller()
    arguments = read_arguments(args, where)
    chosen, single = ([], True) if wrt is None else choose(wrt, arguments, where)
    expressions: list[Any] = []
    layout = flatten(expr, expressions, where)

    def function(*values: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return interpreted(function, dict(zip((a.name for a in arguments), values, strict=True)))
        places: dict[Any, Any] = {}
        for given, value in zip(arguments, values, strict=True):
            places.update(placed(trace, given, value, where))
        check_shapes(trace, arguments, places, where)
        converter = ArrayConverter(places, trace, where)
        results: list[Operand] = []
        operands = converter.convert(expressions)
        if wrt is not None and operands[0].type.dims == (Dim.of(1), Dim.of(1)):         # x.T*A*x is a number
            operands[0] = getitem(operands[0], (Dim.of(0), Dim.of(0)))
        tree = assemble(layout, iter(operands), results)
        return rebuilt(tree, [Tracer(trace, x, weak=False) for x in results])

    function.__name__ = function.__qualname__ = name or "expression"
    parameters = [inspect.Parameter(a.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a in arguments]
    function.__signature__ = inspect.Signature(parameters)                          # type: ignore[attr-defined]
    return function, chosen[0] if single and chosen else tuple(chosen)


def interpreted(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The function's value outside of all captures."""
    captured = capture(function, tuple(arguments.values()))
    leaves = interpret(captured.function, [i.access.read(arguments) for i in captured.signature.inputs])
    return rebuilt(captured.signature.result, leaves)


def rebuilt(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The structure of the results."""
    if isinstance(tree, Leaf):
        return leaves[tree.index]
    return tree.kind(rebuilt(child, leaves) for child in tree.children)             # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------------- arguments
def placed(trace: Trace, given: Given, value: Any, where: Location | None) -> dict[Any, Any]:
    """What stands for the symbols of an argument: a Dim for a whole number, else an operand."""
    (symbol, *_) = given.symbols
    if isinstance(value, SymInt) and not given.shape:
        return {symbol: value.dim}
    operand = as_value(trace.unwrap(value)) if isinstance(value, (Tracer, int, float)) else None
    of_any_rank = is_array(symbol) and not symbol.shape
    if operand is None or not of_any_rank and operand.type.rank != len(given.shape):
        wanted = "an array" if of_any_rank else in_words(len(given.shape))
        passed = "something else" if operand is None else in_words(operand.type.rank)
        raise ShapeError(f"{given.name} stands for {wanted}; {passed} was passed", where,
                         "Pass NumPy arrays for arrays, and numbers for symbols.")
    if operand.type.dtype.is_complex or operand.type.dtype is DType.bool:
        raise CaptureError(f"{given.name} stands for real numbers; {operand.type.dtype.value} was passed", where, "Pass floats.")
    if is_array(symbol):
        return {symbol: LIBRARY[np.asarray](operand, dtype=np.float64) if operand.type.dtype is not DType.f64 else operand}
    if not given.shape:
        return {symbol: operand}
    return {s: getitem(operand, tuple(map(Dim.of, k))) for s, k in zip(given.symbols, np.ndindex(given.shape), strict=True)}


def in_words(rank: int) -> str:
    """What has so many axes."""
    return f"an array of {rank} {'axis' if rank == 1 else 'axes'}" if rank else "a number"


def check_shapes(trace: Trace, arguments: Iterable[Given], places: dict[Any, Any], where: Location | None) -> None:
    """Give the symbols in the shapes of arrays their sizes; raises where a shape is another one than its symbol says."""
    axes = [(given, entry, dim) for given in arguments if is_array(given.symbols[0]) and given.symbols[0].shape
            for entry, dim in zip(given.symbols[0].shape, places[given.symbols[0]].type.dims, strict=True)]
    for _, entry, dim in axes:
        if entry.is_Symbol:
            places.setdefault(entry, dim)
    for given, entry, dim in axes:
        wanted = ArrayConverter(places, trace, where).integer(entry)
        if not isinstance(wanted, Dim) or not trace.sizes.equal(wanted, dim):
            raise ShapeError(f"{given.name} stands for an array of shape {given.symbols[0].shape}; an array of shape "
                             f"({', '.join(str(trace.sizes.actual(d)) for d in places[given.symbols[0]].type.dims)}) was passed",
                             where)


# ---------------------------------------------------------------------------------------------------- conversion
def product_of(matrices: Sequence[Operand]) -> Any:
    """The product of matrices, in the order that is cheapest."""
    return matrices[0] if len(matrices) == 1 else LIBRARY[np.linalg.multi_dot](list(matrices))


def trace_of(matrices: Sequence[Operand]) -> Any:
    """The trace of a product, without the last product's entries beside the diagonal."""
    if len(matrices) == 1:
        return LIBRARY[np.trace](matrices[0])
    first = product_of(matrices[:-1])
    return LIBRARY[np.sum](LIBRARY[np.multiply](first, LIBRARY[np.transpose](matrices[-1])))


class ArrayConverter(Converter):
    """Emits expressions over arrays. `places`: Dims for whole numbers that are known at a call, operands for all else."""

    def __init__(self, places: Mapping[Any, Any], trace: Trace, where: Location | None) -> None:
        super().__init__(places, UserFunctions(None, trace.builder, where), where)
        self.trace = trace

    def operands(self, node: Any) -> list[Any] | None:
        """What must be computed before a node, without what loops compute for themselves; None for an argument."""
        if node in self.places:
            return None
        if is_a(node, *LOOPS) or is_a(node, "Indexed") and node.base in self.places or is_a(node, *FILLED):
            return []
        if is_a(node, "MatrixElement"):
            return [node.parent]
        if is_a(node, "HadamardPower") or is_a(node, "MatPow") and node.exp.is_Integer and node.exp.is_positive:
            return [node.args[0]]
        if is_a(node, "ElementwiseApplyFunction"):
            return [node.expr]
        if is_a(node, "MatrixBase"):
            return list(node.flat())
        if is_a(node, "Trace") and is_a(node.arg, "MatMul"):
            return list(node.arg.args)
        if is_a(node, "MatrixExpr", "Determinant", *MATRIX_WORDS):
            if not is_a(node, *MATRIX_WORDS):
                raise UnsupportedOp(f"the SymPy expression {describe(node)} ({type(node).__name__}) is not supported", self.where,
                                    NO_ALGEBRA)
            return list(node.args)
        return super().operands(node)

    def emit(self, node: Any) -> Any:
        """The operand of one node whose operands are there."""
        if node in self.places:
            return self.as_number(self.places[node])
        if (name := known_name(node, LOOPS)) is not None:
            return self.loop(node.function, node.limits, *LOOPS[name])
        if is_a(node, "Indexed"):
            return getitem(self.places[node.base], tuple(map(self.integer, node.indices)))
        if is_a(node, "MatrixElement"):
            return getitem(self.value(node.parent), (self.integer(node.i), self.integer(node.j)))
        if is_a(node, "MatrixBase"):
            return nested(node.shape, map(self.value, node.flat()))
        if is_a(node, "MatrixExpr", *MATRIX_WORDS):
            return self.matrix(node)
        return super().emit(node)

    def as_number(self, x: Any) -> Operand:
        """A place as a float64 operand."""
        if isinstance(x, Dim):
            return number(x.constant) if x.constant is not None else emit("cast", emit("size", dim=x), dtype=DType.f64)
        result: Operand = x if x.type.dtype is DType.f64 else emit("cast", x, dtype=DType.f64)
        return result

    # ------------------------------------------------------------------------------------------------ matrices
    def matrix(self, node: Any) -> Any:
        """A matrix expression, or the trace of one."""
        if (name := known_name(node, FILLED)) is not None:
            shape = tuple(map(self.integer, node.shape))
            return LIBRARY[FILLED[name]](shape[0]) if name == "Identity" else LIBRARY[FILLED[name]](shape)
        if is_a(node, "HadamardPower"):
            return LIBRARY[np.power](self.value(node.args[0]), float(node.args[1]))
        if is_a(node, "MatPow"):
            return LIBRARY[np.linalg.matrix_power](self.value(node.args[0]), int(node.args[1]))
        if is_a(node, "ElementwiseApplyFunction"):
            return self.applied(node.function, self.value(node.expr))
        operands = [self.value(x) for x in (node.arg if is_a(node, "Trace") and is_a(node.arg, "MatMul") else node).args]
        scalars, matrices = [x for x in operands if not x.type.rank], [x for x in operands if x.type.rank]
        if is_a(node, "Trace"):
            product = trace_of(matrices)
        elif is_a(node, "MatMul"):
            product = product_of(matrices)
        else:
            name = known_name(node, MATRICES)
            assert name is not None
            product = MATRICES[name](*matrices) if len(matrices) == 1 else reduce(MATRICES[name], matrices)
        return reduce(LIBRARY[np.multiply], scalars, product)

    def applied(self, function: Any, x: Operand) -> Operand:
        """A function of one number, applied to every entry."""
        if not is_a(function, "Lambda") or function.expr.free_symbols - set(function.variables):
            raise UnsupportedOp(f"{function} is not a function of one number alone", self.where,
                                "Use A.applyfunc(sin) and the like.")
        result: Operand = self.inside(function.variables[0], x).convert([function.expr])[0]
        return result

    # ------------------------------------------------------------------------------------------------ loops
    def loop(self, body: Any, limits: Sequence[Any], op: str, start: float) -> Operand:
        """A sum or product over indices, the last of the limits outermost."""
        if not limits:
            (term,) = self.convert([body])
            if term.type.rank:
                raise UnsupportedOp(f"a sum or product of matrices: {describe(body)}", self.where, "Sum the entries.")
            return term
        *inner, (index, least, greatest) = limits
        low, high = self.integer(least), self.integer(greatest)
        beyond = high + 1 if isinstance(high, Dim) else emit("add", high, 1)
        lo, hi = as_value(low, DType.i64), as_value(beyond, DType.i64)
        region = self.trace.region()
        turn, total = self.trace.builder.value("t", Type(DType.i64)), self.trace.builder.value("t", Type(DType.f64))
        self.trace.names[turn] = getattr(index, "name", str(index))
        region.arguments += [turn, total]
        ends = self.trace.builder.interval(lo), self.trace.builder.interval(hi)
        if ends[0] is not None and ends[1] is not None:
            self.trace.builder.intervals[turn] = ends[0][0], ends[1][1] - 1
        with self.trace.inside(region):
            following = emit(op, total, self.inside(index, turn).loop(body, inner, op, start))
        result: Operand
        (result,) = self.trace.builder.emit("for", (lo, hi, number(start)), regions=(region.block((following,)),))
        return result

    def inside(self, index: Any, value: Value | Operand) -> ArrayConverter:
        """For the body of a loop: what is computed there stays there. An index of the same name hides the one outside."""
        converter = ArrayConverter(ChainMap({index: value}, self.places), self.trace, self.where)       # type: ignore[arg-type]
        if index not in self.places:
            converter.values = ChainMap({}, self.values)                            # type: ignore[assignment]
        return converter

    def integer(self, node: Any) -> Any:
        """A whole number: a Dim where a call says it, else an operand."""
        if isinstance(node, int) or node.is_Integer:
            return Dim.of(int(node))
        if node in self.places:
            place = self.places[node]
            if isinstance(place, Dim) or isinstance(place, Value) and place.type == Type(DType.i64):
                return place
            raise CaptureError(f"{node} is used as an index or a bound, and is not a whole number", self.where,
                               f"Pass an int for {node}.")
        if node.is_Add or node.is_Mul:
            parts = [self.integer(x) for x in node.args]
            if all(isinstance(x, Dim) for x in parts):
                return reduce(lambda a, b: a + b if node.is_Add else a * b, parts)
            return reduce(lambda a, b: emit("add" if node.is_Add else "mul", a, b), [as_value(x, DType.i64) for x in parts])
        if node.is_Symbol:
            raise CaptureError(f"the expression contains {node}, which is not in args", self.where,
                               f"Add {node} to args, or use it in the shape of an array.")
        raise UnsupportedOp(f"{describe(node)} is not a sum or product of whole numbers: it cannot be an index or a bound",
                            self.where)
