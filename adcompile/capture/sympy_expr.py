"""`capture_sympy`: a SymPy expression becomes an IR function and the signature to call it by.

After this, nothing knows where the IR came from. SymPy is the caller's: it is not imported with this module.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CaptureError, DifferentiationError, ShapeError, UnsupportedOp
from ..ir.analysis import live_operations
from ..ir.builder import Builder
from ..ir.core import Block, Function, Location, Operand
from ..ir.dims import Dim
from ..ir.fold import fold_literals
from ..ir.op import as_operands
from ..ir.signature import Access, Argument, Input, Leaf, Node, Signature, Tree
from ..ir.types import DType, Type
from ..library.core import reshape_to
from ..library.creation import array
from ..library.indexing import getitem
from .driver import CapturedFunction
from .inputs import identifier, is_user_module
from .sympy_convert import Converter, describe, is_a, is_place
from .sympy_functions import UserFunctions


def capture_sympy(expr: Any, wrt: Any = None, args: Any = (), name: str | None = None, *, has_aux: bool = False,
                  dtype: Any = None, functions: Mapping[Any, Any] | None = None) -> CapturedFunction:
    """The graph of an expression, or of a (nested) list, tuple or matrix of them.

    `args`: the call's arguments in order: symbols, each a float64 scalar, and lists, tuples or matrices of symbols, each one
    array. `wrt`: the differentiated ones (as in `args`, or by position or name); one of them gives the gradient alone, a
    list a tuple; None: no derivative. `has_aux`: the expression is `(value, aux)`. `functions`: Python functions for
    undefined ones.
    """
    where = caller()
    if dtype is not None and np.dtype(dtype) != np.dtype("float64"):
        raise UnsupportedOp(f"dtype={dtype!r}: SymPy expressions are computed in float64", where, "Leave dtype=None.")
    name = name or "expression"
    arguments = read_arguments(args, where)
    chosen, single = ([], True) if wrt is None else choose(wrt, arguments, where)
    expressions: list[Any] = []
    layout = flatten(expr, expressions, where)
    if wrt is not None:
        check_scalar(layout, has_aux, where)
    function, tree, given = build(identifier(name), arguments, layout, expressions, functions, where)
    names = [a.name for a in arguments]
    python = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    inputs = (*(Input(n, Access(Argument(n)), n) for n in names), *given.inputs)
    signature = Signature(name, python, inputs, {n: Leaf(k) for k, n in enumerate(names)}, tree, tuple(given.checks),
                          wrt=tuple(map(Leaf, chosen)), single_wrt=single, has_aux=has_aux,
                          constants=tuple(i.text for k, i in enumerate(inputs) if k not in chosen))
    return CapturedFunction(function, signature)


# ---------------------------------------------------------------------------------------------------- arguments
@dataclass(frozen=True)
class Given:
    """One argument of the call: its name, the symbols it holds, and its shape: empty for one symbol, None for the lengths of
    a SymPy array."""

    name: str
    symbols: tuple[Any, ...]
    shape: tuple[Any, ...]


def read_arguments(args: Any, where: Location | None) -> list[Given]:
    """The arguments in order, with names that are unique identifiers."""
    entries = list(args) if isinstance(args, (list, tuple)) else [args]
    taken: set[str] = set()
    found: list[Given] = []
    seen: set[Any] = set()
    for entry in entries:
        symbols, shape = symbols_of(entry, where)
        for symbol in symbols:
            if symbol in seen:
                raise CaptureError(f"{symbol} is in args twice", where, "Name each symbol once.")
            seen.add(symbol)
        base = identifier_of(entry) if not shape or hasattr(entry, "name") else common_name(symbols)
        name, count = base, 0
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        found.append(Given(name, symbols, shape))
    return found


def symbols_of(entry: Any, where: Location | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The symbols of an argument and its shape. Raises on what is no argument."""
    if is_a(entry, "MatrixSymbol", "IndexedBase"):                      # one array, of the axes that its shape has
        return (entry,), (None,) * len(entry.shape or (None,))
    if hasattr(entry, "tolist"):                                        # Matrix, Array
        entry = entry.tolist()
    if isinstance(entry, (list, tuple)):
        inner = [symbols_of(x, where) for x in entry]
        shapes = {shape for _, shape in inner}
        if len(shapes) != 1:
            raise CaptureError(f"{entry!r} in args is {'empty' if not inner else 'ragged'}", where,
                               "Pass symbols, and lists or matrices of symbols.")
        return tuple(s for symbols, _ in inner for s in symbols), (len(inner), *shapes.pop())
    if not (hasattr(entry, "is_Symbol") and is_place(entry)):
        raise CaptureError(f"{entry!r} in args is a {type(entry).__name__}, not a symbol", where,
                           "Pass symbols, and lists or matrices of symbols.")
    return (entry,), ()


def identifier_of(symbol: Any) -> str:
    """A Python name for a symbol: x_1, theta (of \\theta), x_prime (of x'), q(t) -> q, its derivative q_dot."""
    if type(symbol).__name__ == "Derivative":
        return f"{identifier_of(symbol.expr)}_{'d' * (symbol.derivative_count - 1)}dot"
    text: str = getattr(symbol, "name", None) or (symbol.func.__name__ if symbol.is_Function else str(symbol))
    text = unicodedata.normalize("NFKC", text).replace("'", " prime ").replace("*", " star ")
    name: str = identifier("_".join(part.strip("_") for part in re.split(r"\W+", text)))
    return name


def common_name(symbols: Sequence[Any]) -> str:
    """What the names of a vector's symbols have in common, without digits: p of p0, p1, p2; else v."""
    stems = {identifier_of(s).rstrip("0123456789_") for s in symbols}
    return stems.pop() or "v" if len(stems) == 1 else "v"


def declare(builder: Builder, arguments: Sequence[Given]) -> dict[Any, Operand]:
    """The function's parameters, and the operand of each symbol."""
    places: dict[Any, Operand] = {}
    params = [builder.parameter(a.name, Type.of(DType.f64, *a.shape)) for a in arguments]
    for given, value in zip(arguments, params, strict=True):
        if not given.shape:
            places[given.symbols[0]] = value
            continue
        for symbol, index in zip(given.symbols, np.ndindex(given.shape), strict=True):
            places[symbol] = getitem(value, tuple(map(Dim.of, index)))
    return places


# ---------------------------------------------------------------------------------------------------- wrt
def choose(wrt: Any, arguments: Sequence[Given], where: Location | None) -> tuple[list[int], bool]:
    """The arguments to differentiate, and whether `wrt` is one of them rather than a list."""
    whole = position(wrt, arguments)
    if whole is not None:
        return [whole], True
    if not isinstance(wrt, (list, tuple)):
        raise no_argument(wrt, arguments, where)
    if not wrt:
        raise DifferentiationError("wrt is empty: there is nothing to differentiate with respect to", where,
                                   "Name arguments, as they are in args.")
    chosen: list[int] = []
    for entry in wrt:
        place = position(entry, arguments)
        if place is None:
            raise no_argument(entry, arguments, where)
        if place in chosen:
            raise DifferentiationError(f"wrt names {arguments[place].name} twice", where, "Name each argument once.")
        chosen.append(place)
    return chosen, False


def position(entry: Any, arguments: Sequence[Given]) -> int | None:
    """Which argument a position, a name, a symbol or a vector of symbols means; None if none."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        return entry % len(arguments) if -len(arguments) <= entry < len(arguments) else None
    if isinstance(entry, str):
        return next((k for k, a in enumerate(arguments) if a.name == entry), None)
    try:
        symbols, shape = symbols_of(entry, None)
    except CaptureError:
        return None
    return next((k for k, a in enumerate(arguments) if a.symbols == symbols and bool(a.shape) == bool(shape)), None)


def no_argument(entry: Any, arguments: Sequence[Given], where: Location | None) -> DifferentiationError:
    """The error for a `wrt` that is not in args."""
    holder = next((a for a in arguments if a.shape and entry in a.symbols), None)
    do = f"It is part of {holder.name}: differentiate with respect to the whole of it." if holder else \
        f"The arguments are ({', '.join(a.name for a in arguments)})."
    return DifferentiationError(f"wrt={entry!r} is not one of args", where, do)


# ---------------------------------------------------------------------------------------------------- results
@dataclass(frozen=True)
class Several:
    """The layout of a list or tuple."""

    kind: type
    parts: tuple[Layout, ...]


@dataclass(frozen=True)
class Grid:
    """The layout of a matrix or array of expressions. `whole`: what an array is that is one expression."""

    shape: tuple[int, ...]
    whole: str = ""


Layout = Several | Grid                             # the grid of shape () is one expression


def flatten(expr: Any, expressions: list[Any], where: Location | None) -> Layout:
    """The layout of what was passed; its expressions are appended to a list."""
    if is_a(expr, "MatrixExpr"):
        expressions.append(expr)
        return Grid((), f"the matrix expression {describe(expr)}")
    if hasattr(expr, "tolist"):
        if 0 in expr.shape:
            raise ShapeError(f"a matrix of shape {tuple(expr.shape)} has no entries", where, "Pass a matrix with entries.")
        entries = np.array(expr.tolist(), dtype=object)
        expressions += entries.flat
        return Grid(tuple(map(int, expr.shape)))
    if isinstance(expr, (list, tuple)) or type(expr).__name__ == "Tuple":
        kind = list if isinstance(expr, list) else tuple
        return Several(kind, tuple(flatten(x, expressions, where) for x in expr))
    if isinstance(expr, (int, float)) and not isinstance(expr, bool):
        from sympy import sympify
        expr = sympify(expr)
    if not hasattr(expr, "is_Symbol") or not hasattr(expr, "is_Add"):
        raise CaptureError(f"a {type(expr).__name__} is not a SymPy expression", where,
                           "Pass an expression, or lists and matrices of expressions.")
    expressions.append(expr)
    return Grid(())


def check_scalar(layout: Layout, has_aux: bool, where: Location | None) -> None:
    """Raises unless what is differentiated is one expression."""
    if has_aux:
        if not (isinstance(layout, Several) and len(layout.parts) == 2):
            raise CaptureError("with has_aux=True the expression must be a tuple (value, aux)", where)
        layout = layout.parts[0]
    if layout != Grid(()):
        kind = layout.whole or f"a matrix of shape {layout.shape}" if isinstance(layout, Grid) else f"a {layout.kind.__name__}"
        raise ShapeError(f"the gradient needs one expression, not {kind}", where,
                         "Pass a scalar expression; compile_value takes lists and matrices.")


def assemble(layout: Layout, operands: Iterator[Operand], results: list[Operand]) -> Tree:
    """Put the operands together to arrays; the results, and the tree they form."""
    if isinstance(layout, Several):
        return Node(layout.kind, None, tuple(assemble(part, operands, results) for part in layout.parts))
    results.append(nested(layout.shape, operands))
    return Leaf(len(results) - 1)


def nested(shape: tuple[int, ...], operands: Iterator[Operand]) -> Operand:
    """The array of a shape from its entries in C order."""
    if not shape:
        return next(operands)
    flat = array([next(operands) for _ in range(math.prod(shape))])
    return reshape_to(flat, tuple(map(Dim.of, shape)))


# ---------------------------------------------------------------------------------------------------- calls
def check_call(captured: CapturedFunction, call: Mapping[str, Any]) -> None:
    """Raises where the arguments of a call are not what the expression's arguments stand for."""
    where = caller()
    arguments = captured.signature.inputs[:len(captured.signature.arguments)]
    for given, param in zip(arguments, captured.function.params, strict=False):
        value, shape = call[given.name], tuple(d.constant for d in param.type.dims)
        wanted = f"an array of shape {shape}" if shape else "a number"
        what = f"{captured.signature.name}: {given.name} stands for {wanted}"
        if not isinstance(value, np.ndarray if shape else (int, float, np.ndarray, np.generic)):
            kind = type(value).__name__
            raise CaptureError(f"{what}; {'an' if kind[0] in 'aeiou' else 'a'} {kind} was passed", where,
                               f"Pass np.array({given.name})." if shape else "Pass a number.")
        if np.shape(value) != shape:
            raise ShapeError(f"{what}; an array of shape {np.shape(value)} was passed", where,
                             f"Pass {wanted}." if shape else "Call it for each number, or loop in a NumPy function.")
        if np.asarray(value).dtype.kind not in "iuf":
            raise CaptureError(f"{what} of real type; {np.asarray(value).dtype} was passed", where, "Pass float64.")


# ---------------------------------------------------------------------------------------------------- building
class ExpressionBuilder(Builder):
    """A builder that computes operations on literals instead of emitting them."""

    def emit(self, op: str, operands: tuple[Any, ...], attributes: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """As `Builder.emit`; the result is a Literal where all operands are."""
        inputs = as_operands(operands)
        folded = fold_literals(op, inputs, attributes or {})
        return super().emit(op, inputs, attributes, **more) if folded is None else folded


def build(name: str, arguments: Sequence[Given], layout: Layout, expressions: Sequence[Any],
          functions: Mapping[Any, Any] | None, where: Location | None) -> tuple[Function, Tree, UserFunctions]:
    """The function of the expressions, the tree of its results, and the functions that the user gave."""
    with ExpressionBuilder(name) as builder:
        given = UserFunctions(functions, builder, where)
        places = declare(builder, arguments)
        operands = iter(Converter(places, given, where).convert(expressions))
        results: list[Operand] = []
        tree = assemble(layout, operands, results)
        function = builder.finish(tuple(results))
    operations = tuple(live_operations(function.body.operations, results))
    body = Block(function.params, operations, tuple(results))
    return Function(name, body, given.sizes, tuple(given.guards)), tree, given


def caller() -> Location | None:
    """The user's line that asked for the compilation."""
    frame = sys._getframe(1)
    while frame is not None and not is_user_module(frame.f_globals.get("__name__")):
        frame = frame.f_back                        # type: ignore[assignment]
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
