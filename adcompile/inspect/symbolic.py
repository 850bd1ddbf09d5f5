"""A function and its gradient as formulas: SymPy expressions and LaTeX. What is shared stands in `where` lines.

Arrays are written entry by entry: `X @ w` is Sum(X[i, j]*w[j], (j, 0, d - 1)), so a gradient is one formula with free indices.
A loop that cannot become array operations has no formula, and is refused. Numbers count as real and finite.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from ..differentiate.reverse import value_and_grad
from ..errors import UnsupportedOp
from ..ir.analysis import use_counts
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import TABLE
from ..ir.types import DType
from ..optimize.cse import cse
from ..optimize.dce import dce
from ..optimize.marks import erase_marks
from ..optimize.raise_loops import raise_loops
from .graph import TEMPORARY
from .view import View

Entries = tuple[Any, ...]
MOVES = {"broadcast", "reshape", "transpose", "slice", "size", "iota", "cast", "neg", "constant", "gather"}
INDICES = "ijklmnpq"


@dataclass(frozen=True)
class Formulas:
    """A function in SymPy. `value` and each of `gradient` (by the text of the argument) may contain the symbols on the left of
    `where`; an array's gradient is the entry at the free indices."""

    name: str
    value: Any
    gradient: dict[str, Any]
    where: tuple[tuple[Any, Any], ...]
    left: dict[str, Any] = field(default_factory=dict)          # the entry of the argument that each gradient belongs to

    def whole(self) -> Formulas:
        """With the `where` lines put in, where no arrays are among them."""
        known: dict[Any, Any] = {}
        for symbol, expression in self.where:
            if not isinstance(symbol, sp.Symbol):
                raise UnsupportedOp(f"{symbol} is an entry of an array, which is not put in", do="Use .where as it is.")
            known[symbol] = expression.xreplace(known)
        gradient = {k: e.xreplace(known) for k, e in self.gradient.items()}
        return Formulas(self.name, self.value.xreplace(known), gradient, (), self.left)

    def latex(self) -> str:
        """As an `aligned` environment."""
        result = sp.latex(sp.Symbol(self.name))
        lines = [f"{result} &= {sp.latex(self.value)}"]
        lines += [rf"\frac{{\partial {result}}}{{\partial {sp.latex(self.left[k])}}} &= {sp.latex(e)}"
                  for k, e in self.gradient.items()]
        lines += [(r"\text{where}\quad " if k == 0 else "") + f"{sp.latex(symbol)} &= {sp.latex(expression)}"
                  for k, (symbol, expression) in enumerate(self.where)]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def __str__(self) -> str:
        lines = [f"{self.name} = {self.value}", *(f"d {self.name} / d {self.left[k]} = {e}" for k, e in self.gradient.items())]
        return "\n".join([*lines, *(f"{'where ' if k == 0 else '      '}{s} = {e}" for k, (s, e) in enumerate(self.where))])

    __repr__ = __str__


def formulas_of(view: View) -> Formulas:
    """The formulas of a view."""
    primal = dce(raise_loops(view.function, {}))
    if len(primal.results) != 1:
        raise UnsupportedOp(f"{view.name} returns {len(primal.results)} values: formulas are for one")
    function = cse(erase_marks(value_and_grad(primal, view.wrt) if view.wrt else primal))
    return Writer(view, dce(function)).formulas()


class Writer:
    """Writes the results of one function as formulas."""

    def __init__(self, view: View, function: Function) -> None:
        self.view, self.function = view, function
        self.made: dict[Value, Operation] = {}
        self.collect(function.body)
        self.uses = use_counts(function)
        self.known: dict[tuple[Value, Entries], Any] = {}
        self.fresh = (sp.Symbol(name, integer=True) for name in self.names())
        self.where: dict[Value, tuple[Any, Any]] = {}
        sizes = view.compiled.stage("loops").sizes
        self.sizes = {symbol: sp.Symbol(sizes.get(symbol, symbol), integer=True) for symbol in function.sizes}
        texts = view.compiled.signature.inputs
        self.texts = {p: texts[k].text for k, p in enumerate(function.params)}

    def names(self) -> Iterator[str]:
        """Names of indices that nothing else has."""
        taken = {p.name for p in self.function.params} | set(self.view.compiled.stage("loops").sizes.values())
        taken |= {y.name for y in self.made}
        for count in itertools.count():
            yield from (name for name in (letter + (str(count) if count else "") for letter in INDICES) if name not in taken)

    def collect(self, block: Block) -> None:
        """Which operation makes each value, those in branches included."""
        for operation in block.operations:
            self.made.update(dict.fromkeys(operation.results, operation))
            if operation.op == "cond":
                for region in operation.regions:
                    self.collect(region)

    def formulas(self) -> Formulas:
        """The value and the gradients."""
        value = self.entry(self.function.results[0], ())
        gradient, left = {}, {}
        for k, result in zip(self.view.wrt, self.function.results[1:], strict=True):
            parameter = self.function.params[k]
            indices = self.indices(parameter.type.rank)
            text = self.texts[parameter]
            gradient[text], left[text] = self.entry(result, indices), self.entry(parameter, indices)
        return Formulas(self.view.name, value, gradient, tuple(self.where.values()), left)

    def indices(self, count: int) -> Entries:
        """New indices."""
        return tuple(next(self.fresh) for _ in range(count))

    def size(self, dim: Dim) -> Any:
        """A size."""
        return sp.sympify(str(dim), locals=self.sizes)

    # ------------------------------------------------------------------------------------------------ entries
    def entry(self, x: Operand, at: Entries) -> Any:
        """The entry of a value at some indices."""
        if isinstance(x, Literal):
            return number(x.value)
        if x not in self.made:
            found = named(self.texts.get(x, x.name), at)
            return sp.Ne(found, 0) if x.type.dtype is DType.bool and at else found
        if (x, at) not in self.known:
            self.known[x, at] = self.shared(x, at) if self.is_shared(x) else self.computed(x, at)
        return self.known[x, at]

    def is_shared(self, x: Value) -> bool:
        """Whether a value gets a line of its own: one that the user named, or that is read more than once."""
        operation = self.made[x]
        if operation.op in MOVES or x.type.dtype is DType.bool or any(x is r for r in self.function.results):
            return False                                # an entry of an array is no condition in SymPy
        return self.uses[x] > 1 or not TEMPORARY.fullmatch(x.name) and "_bar" not in x.name

    def shared(self, x: Value, at: Entries) -> Any:
        """The entry by the value's name, which a `where` line defines."""
        if x not in self.where:
            own = self.indices(x.type.rank)
            expression = self.computed(x, own)
            self.where[x] = (named(x.name, own), expression)
        return named(x.name, at)

    def computed(self, x: Value, at: Entries) -> Any:
        """The entry as its operation computes it."""
        operation = self.made[x]
        if operation.op in FORMS:
            return FORMS[operation.op](self, operation, at)
        if operation.op == "cond":
            k = operation.results.index(x)
            then, otherwise = (self.entry(region.yields[k], at) for region in operation.regions)
            return sp.Piecewise((then, self.entry(operation.operands[0], ())), (otherwise, True))
        operands = [self.entry(o, at if o.type.dims else ()) for o in operation.operands]
        if operation.op in FUNCTIONS:
            return FUNCTIONS[operation.op](*operands)
        row = TABLE[operation.op]
        if row.partials is not None and row.code is not None and "(" not in row.code:
            return eval(row.code.format(*(f"x{k}" for k in range(len(operands)))), {f"x{k}": o for k, o in enumerate(operands)})
        raise self.refused(operation)

    def refused(self, operation: Operation) -> UnsupportedOp:
        """What is said of an operation without a formula."""
        return UnsupportedOp(f"{operation.op} has no formula", operation.location, "Look at f.graph() or f.source instead.")


def number(value: Any) -> Any:
    """An exact number where it is a simple one."""
    if isinstance(value, bool):
        return sp.true if value else sp.false
    if isinstance(value, complex) or not np.isfinite(value):
        return sp.sympify(value)
    exact = sp.Rational(value)
    return exact if exact.q <= 64 else sp.Float(value)


def named(name: str, at: Entries) -> Any:
    """A symbol, or an entry of an array."""
    return sp.IndexedBase(name)[at] if at else sp.Symbol(name)


# ---------------------------------------------------------------------------------------------------- arrays
def reduction(kind: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Writer, Operation, Entries], Any]:
    """A reduction: one new index for each axis that goes."""
    def form(w: Writer, o: Operation, at: Entries) -> Any:
        axes, dims = o.attributes["axes"], o.operands[0].type.dims
        kept, new = iter(at), w.indices(len(axes))
        full = tuple(new[axes.index(k)] if k in axes else next(kept) for k in range(len(dims)))
        inside = w.entry(o.operands[0], full)
        for index, axis in reversed(list(zip(new, axes))):
            inside = kind(inside, (index, 0, w.size(dims[axis]) - 1))
        return inside

    return form


def over(name: str) -> Callable[[Any, tuple[Any, ...]], Any]:
    """An extremum over an index, unevaluated."""
    return lambda inside, limits: sp.Function(name)(inside, sp.Tuple(*limits))


def contraction(w: Writer, o: Operation, at: Entries) -> Any:
    """A sum over the labels that are not left."""
    a, b, out = (o.attributes[k] for k in ("a_labels", "b_labels", "out_labels"))
    lengths = dict(zip((*a, *b), (*o.operands[0].type.dims, *o.operands[1].type.dims)))
    place = dict(zip(out, at))
    summed = [label for label in lengths if label not in place]
    place |= dict(zip(summed, w.indices(len(summed))))
    inside = w.entry(o.operands[0], tuple(place[k] for k in a)) * w.entry(o.operands[1], tuple(place[k] for k in b))
    for label in reversed(summed):
        inside = sp.Sum(inside, (place[label], 0, w.size(lengths[label]) - 1))
    return inside


def gathered(w: Writer, o: Operation, at: Entries) -> Any:
    """An entry at computed places."""
    x, *places = o.operands
    lead = max((p.type.rank for p in places), default=0)
    found = dict(zip(o.attributes["axes"], (w.entry(p, at[:lead] if p.type.dims else ()) for p in places)))
    rest = iter(at[lead:])
    return w.entry(x, tuple(found[k] if k in found else next(rest) for k in range(x.type.rank)))


def scattered(w: Writer, o: Operation, at: Entries) -> Any:
    """An entry that was added to, or set."""
    base, *places, updates = o.operands
    axes = o.attributes["axes"]
    lead = max((p.type.dims for p in places), key=len, default=())
    if o.op == "scatter_set" and lead:
        raise w.refused(o)
    new = w.indices(len(lead))
    rest = tuple(index for k, index in enumerate(at) if k not in axes)
    here = [sp.Eq(at[axis], w.entry(p, new if p.type.dims else ())) for axis, p in zip(axes, places)]
    update = w.entry(updates, (*new, *rest) if updates.type.dims else ())
    old = w.entry(base, at)
    if o.op == "scatter_set":
        return sp.Piecewise((update, sp.And(*here)), (old, True))
    added = sp.Piecewise((update, sp.And(*here)), (0, True))
    for index, length in reversed(list(zip(new, lead))):
        added = sp.Sum(added, (index, 0, w.size(length) - 1))
    return old + added


def sliced(w: Writer, o: Operation, at: Entries) -> Any:
    """An entry further on."""
    starts = [w.size(s) for s in o.attributes["starts"]]
    return w.entry(o.operands[0], tuple(s + i * step for s, i, step in zip(starts, at, o.attributes["steps"])))


def padded(w: Writer, o: Operation, at: Entries) -> Any:
    """An entry, or 0 outside."""
    x, steps = o.operands[0], o.attributes["steps"]
    shifted = [i - w.size(s) for i, s in zip(at, o.attributes["starts"])]
    inner = tuple(i / step for i, step in zip(shifted, steps))
    hits = [sp.Eq(sp.Mod(i, step), 0) for i, step in zip(shifted, steps) if abs(step) != 1]
    inside = sp.And(*hits, *(condition for i, d in zip(inner, x.type.dims) for condition in (i >= 0, i < w.size(d))))
    return sp.Piecewise((w.entry(x, inner), inside), (0, True))


def reshaped(w: Writer, o: Operation, at: Entries) -> Any:
    """Where axes of length 1 come or go, and to or from one axis."""
    x = o.operands[0]
    one = Dim.of(1)
    if x.type.rank == 1 and o.result.type.rank > 1:
        flat = sp.Integer(0)
        for i, d in zip(at, o.result.type.dims):
            flat = flat * w.size(d) + i
        return w.entry(x, (flat,))
    if x.type.rank > 1 and o.result.type.rank == 1:
        places, (left,) = [], at
        for d in reversed(x.type.dims[1:]):
            places.append(sp.Mod(left, w.size(d)))
            left = sp.floor(left / w.size(d))
        return w.entry(x, (left, *reversed(places)))
    if [d for d in x.type.dims if d != one] != [d for d in o.result.type.dims if d != one]:
        raise w.refused(o)
    kept = iter(i for i, d in zip(at, o.result.type.dims) if d != one)
    return w.entry(x, tuple(sp.Integer(0) if d == one else next(kept) for d in x.type.dims))


def concatenated(w: Writer, o: Operation, at: Entries) -> Any:
    """The operand in which the index falls."""
    axis, start, cases = o.attributes["axis"], sp.Integer(0), []
    for x in o.operands:
        end = start + w.size(x.type.dims[axis])
        cases.append((w.entry(x, tuple(i - start if k == axis else i for k, i in enumerate(at))), at[axis] < end))
        start = end
    return sp.Piecewise(*cases[:-1], (cases[-1][0], True))


def running_sum(w: Writer, o: Operation, at: Entries) -> Any:
    """A sum up to the index, or from it on."""
    axis, (index,) = o.attributes["axis"], w.indices(1)
    inside = w.entry(o.operands[0], tuple(index if k == axis else i for k, i in enumerate(at)))
    last = w.size(o.operands[0].type.dims[axis]) - 1
    return sp.Sum(inside, (index, at[axis], last) if o.attributes["reverse"] else (index, 0, at[axis]))


def converted(w: Writer, o: Operation, at: Entries) -> Any:
    """A number in another type: booleans count as 0 and 1; nothing is cut off."""
    before, after = o.operands[0].type.dtype, o.result.type.dtype
    if after.is_integer and not before.is_integer:
        raise w.refused(o)
    inside = w.entry(o.operands[0], at)
    return sp.Piecewise((1, inside), (0, True)) if before.value == "bool" else inside


def permuted(w: Writer, o: Operation, at: Entries) -> Any:
    """An entry at permuted indices."""
    order: Sequence[int] = o.attributes["permutation"]
    return w.entry(o.operands[0], tuple(at[order.index(k)] for k in range(len(order))))


FORMS: dict[str, Callable[[Writer, Operation, Entries], Any]] = {
    "reduce_sum": reduction(sp.Sum), "reduce_prod": reduction(sp.Product), "reduce_max": reduction(over("max")),
    "reduce_min": reduction(over("min")), "contract": contraction, "gather": gathered, "scatter_add": scattered,
    "scatter_set": scattered, "slice": sliced, "pad": padded, "reshape": reshaped, "concat": concatenated, "cumsum": running_sum,
    "cast": converted, "transpose": permuted,
    "broadcast": lambda w, o, at: w.entry(o.operands[0], tuple(at[k] for k in o.attributes["axes"])),
    "iota": lambda w, o, at: at[0],
    "size": lambda w, o, at: w.size(o.attributes["dim"]),
    "wrap_index": lambda w, o, at: w.entry(o.operands[0], at if o.operands[0].type.dims else ()),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(sp, name) for name in (
        "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "asinh", "acosh",
        "atanh", "erf", "erfc", "digamma", "sign", "floor", "cbrt")},
    "floordiv": lambda a, b: sp.floor(a / b), "mod": sp.Mod,
    "expm1": lambda x: sp.exp(x) - 1, "log1p": lambda x: sp.log(1 + x), "exp2": lambda x: 2**x, "log2": lambda x: sp.log(x, 2),
    "log10": lambda x: sp.log(x, 10), "abs": sp.Abs, "ceil": sp.ceiling, "maximum": sp.Max, "minimum": sp.Min, "sqrt0": sp.sqrt,
    "pow": sp.Pow, "powi": sp.Pow, "hypot": lambda a, b: sp.sqrt(a**2 + b**2), "strong_mul": lambda a, b: a * b,
    "lgamma": sp.loggamma, "polygamma": lambda x, k: sp.polygamma(k, x), "xlogy": lambda x, y: x * sp.log(y),
    "sigmoid": lambda x: 1 / (1 + sp.exp(-x)), "softplus": lambda x: sp.log(1 + sp.exp(x)),
    "logaddexp": lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    "select": lambda c, a, b: sp.Piecewise((a, c), (b, True)), "eq": sp.Eq, "ne": sp.Ne, "lt": sp.Lt, "le": sp.Le, "gt": sp.Gt,
    "ge": sp.Ge, "and": sp.And, "or": sp.Or, "not": sp.Not, "xor": sp.Xor,
    "isnan": lambda x: sp.false, "isinf": lambda x: sp.false, "isfinite": lambda x: sp.true,
}
