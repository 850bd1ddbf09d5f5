"""Norms, log-sums, scipy.special, math and Python's builtins."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from ..ir.core import Literal, Operand
from ..ir.op import literal_like
from ..ir.types import DType
from . import elementwise as ew
from .core import (
    as_float,
    as_int,
    as_value,
    broadcast_dims,
    broadcast_to,
    cast,
    common_dtype,
    dims_of,
    emit,
    is_concrete,
    normalise_axes,
    normalise_axis,
    promote,
    rank_of,
    refuse,
    unsupported,
)
from .elementwise import number, select, ufunc
from .reduction import max_, min_, root, sum_
from .registry import implements
from .shape import ravel

special = scipy.special


# ---------------------------------------------------------------------------------------------------- norms
@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Operand:
    """np.linalg.norm, without those that need singular values."""
    value = as_float(x)
    order = as_known(ord)
    if axis is None:
        if order is None or order == "fro" and rank_of(value) == 2:
            return euclidean(value, None, keepdims)
        axis = tuple(range(rank_of(value)))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) == 1:
        return vector_norm(value, order, axes[0], keepdims)
    if len(axes) == 2:
        return matrix_norm(value, order, tuple(normalise_axis(k, rank_of(value)) for k in axes), keepdims)
    raise unsupported("Improper number of dimensions to norm.")


def as_known(x: Any) -> Any:
    """A known number of an argument, or the argument."""
    return x.value if isinstance(x, Literal) else x


def euclidean(x: Operand, axis: Any, keepdims: Any) -> Operand:
    """The square root of the sum of squares, with slope 0 at 0."""
    return root(sum_(ew.square(x), axis, keepdims=keepdims))


def vector_norm(x: Operand, ord: Any, axis: Any, keepdims: Any) -> Operand:
    """The norm along one axis."""
    if ord is None or ord == 2:
        return euclidean(x, axis, keepdims)
    if isinstance(ord, str):
        raise unsupported(f"Invalid norm order {ord!r} for vectors")
    sized = ew.absolute(x)
    if ord == math.inf:
        return max_(sized, axis, keepdims=keepdims)
    if ord == -math.inf:
        return min_(sized, axis, keepdims=keepdims)
    if ord == 0:
        return sum_(cast(ew.logical_not(ew.equal_to(x, 0)), x.type.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum_(sized, axis, keepdims=keepdims)
    return ew.power(sum_(ew.power(sized, ord), axis, keepdims=keepdims),
                    ew.true_divide(1.0, ord) if not is_concrete(ord) else 1.0 / ord)


def matrix_norm(x: Operand, ord: Any, axes: tuple[int, ...], keepdims: Any) -> Operand:
    """The norm over two axes."""
    if ord in (None, "fro"):
        return euclidean(x, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise unsupported(f"np.linalg.norm of matrices with ord={ord!r} is not supported: it needs singular values",
                          "use ord='fro'")
    inner, outer = axes if abs(ord) == 1 else axes[::-1]
    sums = sum_(ew.absolute(x), inner, keepdims=True)
    reduce = max_ if ord > 0 else min_
    result = reduce(sums, outer, keepdims=True)
    if keepdims:
        return result
    from .shape import squeeze
    return squeeze(result, axes)


@implements(np.linalg.vector_norm)
def linalg_vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Operand:
    """np.linalg.vector_norm."""
    value = as_float(x)
    return vector_norm(ravel(value) if axis is None else value, as_known(ord), 0 if axis is None else axis, keepdims)


@implements(np.linalg.matrix_norm)
def linalg_matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Operand:
    """np.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


# ---------------------------------------------------------------------------------------------------- log-sums
def steady(x: Operand, axis: Any) -> Operand:
    """The largest entry along the axes, which are kept; finite, and a constant: results do not depend on it."""
    top = max_(x, axis, keepdims=True)
    top = emit("stop_gradient", top) if not isinstance(top, Literal) else top
    return ew.where(ew.isfinite(top), top, literal_like(0.0, x.type.dtype))


@implements(special.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: Any = False, return_sign: bool = False) -> Operand:
    """scipy.special.logsumexp."""
    refuse("scipy.special.logsumexp", return_sign=(return_sign, False))
    x = as_float(a)
    if b is not None:
        x, weights = promote(x, b)
        dims = broadcast_dims(dims_of(x), dims_of(weights))
        x, weights = broadcast_to(x, dims), broadcast_to(weights, dims)
        x = ew.where(ew.equal_to(weights, 0.0), -math.inf, x)
    top = steady(x, axis)
    terms = ew.exp(ew.subtract(x, top))
    terms = terms if b is None else ew.multiply(weights, terms)
    result = ew.add(ew.log(sum_(terms, axis, keepdims=keepdims)), top if keepdims else without(top, x, axis))
    return result


def without(kept: Operand, x: Operand, axis: Any) -> Operand:
    """A reduced operand without the axes that were kept."""
    from .shape import squeeze
    axes = normalise_axes(axis, rank_of(x))
    return squeeze(kept, axes) if axes else kept


@implements(special.softmax)
def softmax(x: Any, axis: Any = None) -> Operand:
    """scipy.special.softmax."""
    value = as_float(x)
    terms = ew.exp(ew.subtract(value, steady(value, axis)))
    return ew.true_divide(terms, sum_(terms, axis, keepdims=True))


@implements(special.log_softmax)
def log_softmax(x: Any, axis: Any = None) -> Operand:
    """scipy.special.log_softmax."""
    value = as_float(x)
    shifted = ew.subtract(value, steady(value, axis))
    return ew.subtract(shifted, ew.log(sum_(ew.exp(shifted), axis, keepdims=True)))


# ---------------------------------------------------------------------------------------------------- scipy.special ufuncs
SAME_OP = {"erf": "erf", "erfc": "erfc", "gammaln": "lgamma", "psi": "digamma", "expit": "sigmoid", "xlogy": "xlogy",
           "expm1": "expm1", "log1p": "log1p", "exp2": "exp2", "cbrt": "cbrt"}
for scipy_name, target in SAME_OP.items():
    ufunc(getattr(special, scipy_name))(ew.op(target))


@ufunc(special.logit)
def logit(p: Operand) -> Operand:
    """log(p / (1 - p))."""
    result: Operand = emit("sub", emit("log", p), emit("log1p", emit("neg", p)))
    return result


@ufunc(special.log_expit)
def log_expit(x: Operand) -> Operand:
    """log(expit(x)) = -log(1 + exp(-x))."""
    result: Operand = emit("neg", emit("logaddexp", number(0, x), emit("neg", x)))
    return result


@ufunc(special.xlog1py)
def xlog1py(x: Operand, y: Operand) -> Operand:
    """x * log1p(y), 0 at x == 0 unless y is NaN."""
    nothing = emit("and", emit("eq", x, number(0, x)), emit("not", emit("isnan", y)))
    return select(nothing, number(0, x), emit("mul", x, emit("log1p", select(nothing, number(0, y), y))))


@ufunc(special.entr)
def entr(x: Operand) -> Operand:
    """-x log(x), -inf for negative x."""
    return select(emit("lt", x, number(0, x)), number(-math.inf, x), emit("neg", emit("xlogy", x, x)))


@ufunc(special.rel_entr)
def rel_entr(x: Operand, y: Operand) -> Operand:
    """x log(x / y); 0 at x == 0 <= y, inf outside of x, y >= 0."""
    zero = number(0, x)
    inside = emit("and", emit("gt", x, zero), emit("gt", y, zero))
    p, q = select(inside, x, number(1, x)), select(inside, y, number(1, y))
    edge = select(emit("and", emit("eq", x, zero), emit("ge", y, zero)), zero, number(math.inf, x))
    edge = select(emit("or", emit("isnan", x), emit("isnan", y)), number(math.nan, x), edge)
    return select(inside, emit("mul", p, emit("log", emit("div", p, q))), edge)


@ufunc(special.kl_div)
def kl_div(x: Operand, y: Operand) -> Operand:
    """rel_entr(x, y) - x + y."""
    result: Operand = emit("add", emit("sub", rel_entr(x, y), x), y)
    return result


@ufunc(special.ndtr)
def ndtr(x: Operand) -> Operand:
    """The normal distribution function."""
    result: Operand = emit("mul", emit("erfc", emit("mul", x, number(-math.sqrt(0.5), x))), number(0.5, x))
    return result


@ufunc(special.log_ndtr)
def log_ndtr(x: Operand) -> Operand:
    """log(ndtr(x)): direct where it does not underflow, the asymptotic series of the tail below -20."""
    half = number(0.5, x)
    far, right = emit("lt", x, number(-20, x)), emit("gt", x, number(-1, x))
    scaled = emit("mul", x, number(math.sqrt(0.5), x))
    upper = emit("log1p", emit("neg", emit("mul", half, emit("erfc", select(right, scaled, number(0, x))))))
    lower = emit("log", emit("mul", half, emit("erfc", emit("neg", select(emit("or", far, right), number(0, x), scaled)))))
    tail = select(far, x, number(-20, x))
    w = emit("div", number(1, x), emit("mul", tail, tail))
    series = number(1, x)
    for k in range(19, 0, -2):
        series = emit("sub", number(1, x), emit("mul", emit("mul", w, number(k, x)), series))
    log_density = emit("sub", emit("mul", emit("mul", tail, tail), number(-0.5, x)), number(0.5 * math.log(2 * math.pi), x))
    asymptotic = emit("add", emit("sub", log_density, emit("log", emit("neg", tail))), emit("log", series))
    return select(far, asymptotic, select(right, upper, lower))


@ufunc(special.exp10)
def exp10(x: Operand) -> Operand:
    """10**x."""
    result: Operand = emit("pow", number(10, x), x)
    return result


@ufunc(special.gamma)
def gamma(x: Operand) -> Operand:
    """The gamma function, through the logarithm of its size."""
    zero, one = number(0, x), number(1, x)
    even = emit("eq", emit("mod", emit("floor", x), number(2, x)), zero)
    sign = select(emit("or", emit("gt", x, zero), even), one, number(-1, x))
    pole = emit("and", emit("lt", x, zero), emit("eq", x, emit("floor", x)))
    return select(pole, number(math.nan, x), emit("mul", sign, emit("exp", emit("lgamma", x))))


@ufunc(special.betaln)
def betaln(a: Operand, b: Operand) -> Operand:
    """log |beta(a, b)|."""
    result: Operand = emit("sub", emit("add", emit("lgamma", a), emit("lgamma", b)), emit("lgamma", emit("add", a, b)))
    return result


@implements(special.polygamma)
def polygamma(n: Any, x: Any) -> Operand:
    """The n-th derivative of digamma, for a known n."""
    order, value = as_int(n, "the order of polygamma"), as_float(x)
    if order == 0:
        digamma: Operand = emit("digamma", value)
        return digamma
    result: Operand = emit("polygamma", value, Literal(order, DType.i64))
    return result


# ---------------------------------------------------------------------------------------------------- math
MATH: dict[str, str] = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log2": "log2", "log10": "log10", "log1p": "log1p", "sqrt": "sqrt",
    "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "fabs": "abs",
    "copysign": "copysign", "fmod": "fmod", "erf": "erf", "erfc": "erfc", "lgamma": "lgamma", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite",
}


def scalars(name: str, *xs: Any) -> list[Operand]:
    """Arguments of a function of math: numbers, in double precision."""
    values = [as_value(x, DType.f64) for x in xs]
    if any(rank_of(x) for x in values):
        raise unsupported(f"math.{name} takes numbers, not arrays", f"use the function of NumPy: np.{name}")
    return values


def math_function(name: str, target: str) -> Callable[..., Operand]:
    """A function of math that is one op."""
    def apply(*xs: Any) -> Operand:
        result: Operand = emit(target, *scalars(name, *xs))
        return result

    apply.__name__ = apply.__qualname__ = name
    return apply


for math_name, target in MATH.items():
    if hasattr(math, math_name):
        implements(getattr(math, math_name))(math_function(math_name, target))


@implements(math.pow)
def math_pow(x: Any, y: Any) -> Operand:
    """x ** y of numbers."""
    base, exponent = scalars("pow", x, y)
    return ew.raised(base, exponent, DType.f64)


@implements(math.log)
def math_log(x: Any, base: Any = None) -> Operand:
    """The logarithm, to any base."""
    (value,) = scalars("log", x)
    result: Operand = emit("log", value)
    return result if base is None else ew.true_divide(result, emit("log", *scalars("log", base)))


@implements(math.hypot)
def math_hypot(*coordinates: Any) -> Operand:
    """The length of a vector."""
    values = scalars("hypot", *coordinates)
    result = emit("abs", values[0]) if len(values) == 1 else emit("hypot", values[0], values[1])
    for x in values[2:]:
        result = emit("hypot", result, x)
    out: Operand = result
    return out


@implements(math.degrees)
def math_degrees(x: Any) -> Operand:
    """Radians to degrees."""
    return ew.rad2deg(*scalars("degrees", x))


@implements(math.radians)
def math_radians(x: Any) -> Operand:
    """Degrees to radians."""
    return ew.deg2rad(*scalars("radians", x))


@implements(math.gamma)
def math_gamma(x: Any) -> Operand:
    """The gamma function."""
    return gamma(*scalars("gamma", x))


def to_integer(name: str) -> Callable[..., Operand]:
    """math.floor, ceil or trunc: an integer."""
    def apply(x: Any) -> Operand:
        result: Operand = emit("cast", emit(name, *scalars(name, x)), dtype=DType.i64)
        return result
    return apply


for function in (math.floor, math.ceil, math.trunc):
    implements(function)(to_integer(function.__name__))


@implements(math.prod)
def math_prod(iterable: Any, *, start: Any = 1) -> Any:
    """The product of the entries."""
    return product(items_of(iterable), start)


@implements(math.fsum)
def math_fsum(seq: Any) -> Any:
    """The sum of the entries."""
    return as_value(builtin_sum(items_of(seq)), DType.f64)


@implements(math.dist)
def math_dist(p: Any, q: Any) -> Operand:
    """The distance of two points."""
    return euclidean(ew.subtract(as_float(p), as_float(q)), None, False)


# ---------------------------------------------------------------------------------------------------- builtins
def items_of(x: Any) -> list[Any]:
    """The entries of a list, or of an array along its first axis."""
    if isinstance(x, (list, tuple)):
        return list(x)
    from .shape import unstack
    return list(unstack(as_value(x)))


def product(items: list[Any], start: Any) -> Any:
    """The product of numbers and operands."""
    for x in items:
        start = ew.multiply(start, x)
    return start


@implements(builtins.sum)
def builtin_sum(iterable: Any, /, start: Any = 0) -> Any:
    """sum()."""
    if not isinstance(iterable, (list, tuple)):
        return ew.add(sum_(iterable, 0), start)
    result = start
    for x in iterable:
        result = ew.add(result, x)
    return result


def builtin_extremum(pair: Callable[..., Operand], reduce: Callable[..., Operand]) -> Callable[..., Any]:
    """min() or max() of an array with one axis, or of numbers."""
    def apply(*items: Any) -> Operand:
        if len(items) == 1 and not isinstance(items[0], (list, tuple)):
            return reduce(items[0])
        given = list(items[0]) if len(items) == 1 else list(items)
        result = as_value(given[0], common_dtype(*given))
        for x in given[1:]:
            result = pair(result, x)
        return result
    return apply


implements(builtins.min)(builtin_extremum(ew.minimum, min_))
implements(builtins.max)(builtin_extremum(ew.maximum, max_))
implements(builtins.abs)(lambda x, /: ew.absolute(x))
implements(builtins.pow)(lambda base, exp: ew.power(base, exp))


@implements(builtins.round)
def builtin_round(number: Any, ndigits: Any = None) -> Operand:
    """round(): an integer without digits."""
    result = ew.round_(number, 0 if ndigits is None else ndigits)
    return cast(result, DType.i64) if ndigits is None else result


@implements(builtins.float)
def builtin_float(x: Any, /) -> Operand:
    """float()."""
    return scalars("float", x)[0]


@implements(builtins.int)
def builtin_int(x: Any, /) -> Any:
    """int(): towards zero."""
    value = as_value(x)
    return cast(value, DType.i64)


@implements(builtins.len)
def builtin_len(x: Any, /) -> Any:
    """len()."""
    return len(x) if isinstance(x, (list, tuple)) else dims_of(x)[0]
