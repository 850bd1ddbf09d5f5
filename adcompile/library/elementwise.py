"""Ufuncs: one line each where an op has the same meaning, a short function where one is composed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.core import Literal, Operand
from ..ir.dims import Dim
from ..ir.op import literal_like
from ..ir.types import DType
from .core import (
    as_float,
    as_int,
    as_size,
    as_value,
    broadcast_together,
    cast,
    common_dtype,
    compare,
    emit,
    filled,
    loop_dtypes,
    promote,
    rank_of,
    refuse,
    shape_error,
    unsupported,
    wanted_dtype,
)
from .indexing import nonzero
from .registry import implements

Implementation = Callable[..., Operand]
POWI_LIMIT = 64                     # larger integer exponents go to pow, which does not lose digits


# ---------------------------------------------------------------------------------------------------- the frame
def ufunc(*functions: np.ufunc | None) -> Callable[[Implementation], Implementation]:
    """Registers an implementation of ufuncs that gets its operands in NumPy's loop dtype and in one shape."""
    def register(body: Implementation) -> Implementation:
        known = [f for f in functions if f is not None]
        function = known[0]

        def apply(*xs: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
                  subok: bool = True) -> Any:
            refuse(f"np.{function.__name__}", out=(out, None), where=(where, True))
            if len(xs) != function.nin:
                raise TypeError(f"{function.__name__}() takes {function.nin} positional arguments but {len(xs)} were given")
            loop = loop_dtypes(function, *xs)
            wanted = wanted_dtype(dtype)
            inputs = [wanted] * function.nin if wanted is not None and not predicate(function) else loop
            operands = broadcast_together(*(as_value(x, d) for x, d in zip(xs, inputs, strict=False)))
            try:
                return body(*operands)
            except TypeError as error:
                raise unsupported(f"np.{function.__name__} is not supported on {operands[0].type.dtype.numpy}: {error}") from None

        apply.__name__ = apply.__qualname__ = function.__name__
        implements(*known)(apply)
        return apply

    return register


def predicate(function: np.ufunc) -> bool:
    """Whether a ufunc's result is boolean whatever its inputs are."""
    return all(signature.endswith("?") for signature in function.types if "O" not in signature)


def op(name: str) -> Implementation:
    """The ops of the table as functions of operands in one shape."""
    return lambda *operands: emit(name, *operands)


def number(value: Any, like: Operand) -> Literal:
    """A literal of an operand's dtype."""
    return literal_like(value, like.type.dtype)


def select(condition: Operand, a: Any, b: Any) -> Operand:
    """The select op; plain numbers take the other side's dtype."""
    dtype = next(x.type.dtype for x in (a, b) if not isinstance(x, (int, float)))
    a, b = (x if not isinstance(x, (int, float)) else literal_like(x, dtype) for x in (a, b))
    result: Operand = emit("select", condition, a, b)
    return result


def is_bool(x: Operand) -> bool:
    """Whether an operand is boolean."""
    return x.type.dtype is DType.bool


def is_real_integer(x: Operand) -> bool:
    """Whether an operand is an integer or boolean."""
    return x.type.dtype.is_integer or is_bool(x)


def same(x: Operand) -> Operand:
    """x."""
    return x


# ---------------------------------------------------------------------------------------------------- one op each
SMOOTH: dict[str, str] = {
    "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "rint": "rint", "true_divide": "div", "arctan2": "atan2", "hypot": "hypot", "logaddexp": "logaddexp", "copysign": "copysign",
    "fmod": "fmod", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "maximum": "maximum", "minimum": "minimum", "subtract": "sub",
}
FUNCTIONS: dict[str, Implementation] = {name: ufunc(getattr(np, name))(op(target)) for name, target in SMOOTH.items()}
sqrt, exp, log, sin, cos = (FUNCTIONS[name] for name in ("sqrt", "exp", "log", "sin", "cos"))
true_divide, maximum, minimum, subtract = (FUNCTIONS[name] for name in ("true_divide", "maximum", "minimum", "subtract"))
less, less_equal, greater, equal_to = (FUNCTIONS[name] for name in ("less", "less_equal", "greater", "equal"))


@ufunc(np.add)
def add(a: Operand, b: Operand) -> Operand:
    """a + b; of booleans their `or`."""
    result: Operand = emit("or" if is_bool(a) else "add", a, b)
    return result


@ufunc(np.multiply)
def multiply(a: Operand, b: Operand) -> Operand:
    """a * b; of booleans their `and`."""
    result: Operand = emit("and" if is_bool(a) else "mul", a, b)
    return result


def divides_integers(name: str) -> Implementation:
    """An op on numbers that NumPy defines for a zero integer divisor (as 0) and Python does not: literals are checked."""
    def apply(a: Operand, b: Operand) -> Operand:
        if isinstance(b, Literal) and b.dtype.is_integer and b.value == 0:
            raise unsupported(f"an integer {name} by zero")
        result: Operand = emit(name, a, b)
        return result
    return apply


floor_divide = ufunc(np.floor_divide)(divides_integers("floordiv"))
remainder = ufunc(np.remainder)(divides_integers("mod"))
negative = ufunc(np.negative)(op("neg"))
positive = ufunc(np.positive, np.conjugate)(same)


@ufunc(np.absolute)
def absolute(x: Operand) -> Operand:
    """|x|."""
    result: Operand = x if is_bool(x) or x.type.dtype.value.startswith("u") else emit("abs", x)
    return result


@ufunc(np.fabs)
def fabs(x: Operand) -> Operand:
    """|x| in floating point."""
    result: Operand = emit("abs", x)
    return result


@ufunc(np.sign)
def sign(x: Operand) -> Operand:
    """-1, 0 or 1."""
    result: Operand = emit("sign", x)
    return result


def rounding(name: str) -> Implementation:
    """floor, ceil, trunc: integers stay as they are."""
    return lambda x: x if is_real_integer(x) else emit(name, x)


floor, ceil, trunc = ufunc(np.floor)(rounding("floor")), ufunc(np.ceil)(rounding("ceil")), ufunc(np.trunc)(rounding("trunc"))
implements(np.fix)(lambda x, out=None: trunc(x))


def float_test(name: str) -> Implementation:
    """isnan, isinf, isfinite: plain on integers."""
    def test(x: Operand) -> Operand:
        if is_real_integer(x):
            return filled(Literal(name == "isfinite", DType.bool), x.type.dims)
        result: Operand = emit(name, x)
        return result
    return test


isnan, isinf, isfinite = (ufunc(f)(float_test(f.__name__)) for f in (np.isnan, np.isinf, np.isfinite))


@ufunc(np.square)
def square(x: Operand) -> Operand:
    """x * x."""
    result: Operand = emit("mul", x, x)
    return result


@ufunc(np.reciprocal)
def reciprocal(x: Operand) -> Operand:
    """1 / x."""
    if is_real_integer(x):
        raise unsupported("np.reciprocal of integers is not supported", "use 1 / x")
    result: Operand = emit("div", number(1, x), x)
    return result


@ufunc(np.deg2rad, np.radians)
def deg2rad(x: Operand) -> Operand:
    """Degrees to radians."""
    result: Operand = emit("mul", x, number(math.pi / 180, x))
    return result


@ufunc(np.rad2deg, np.degrees)
def rad2deg(x: Operand) -> Operand:
    """Radians to degrees."""
    result: Operand = emit("mul", x, number(180 / math.pi, x))
    return result


@ufunc(np.signbit)
def signbit(x: Operand) -> Operand:
    """Whether the sign is negative, -0.0 included."""
    result: Operand = emit("lt", x if is_real_integer(x) else emit("copysign", number(1, x), x), number(0, x))
    return result


# ---------------------------------------------------------------------------------------------------- logic
def logical(name: str) -> Implementation:
    """A logical op on operands of any dtype, which are compared with zero first."""
    return lambda *xs: emit(name, *(cast(x, DType.bool) for x in xs))


def bitwise(name: str) -> Implementation:
    """A bit operation: of booleans the logical op."""
    def apply(*xs: Operand) -> Operand:
        if not is_bool(xs[0]):
            raise unsupported("bit operations on integers are not supported",
                              "use arithmetic, or compute it outside of the function")
        result: Operand = emit(name, *xs)
        return result
    return apply


logical_not, logical_and = ufunc(np.logical_not)(logical("not")), ufunc(np.logical_and)(logical("and"))
logical_or, logical_xor = ufunc(np.logical_or)(logical("or")), ufunc(np.logical_xor)(logical("xor"))
ufunc(np.bitwise_and)(bitwise("and"))
ufunc(np.bitwise_or)(bitwise("or"))
ufunc(np.bitwise_xor)(bitwise("xor"))


@ufunc(np.invert)
def invert(x: Operand) -> Operand:
    """`not` of booleans, -x - 1 of integers."""
    result: Operand = emit("not", x) if is_bool(x) else emit("sub", emit("neg", x), number(1, x))
    return result


# ---------------------------------------------------------------------------------------------------- selections
@implements(np.where)
def where_(condition: Any, *branches: Any) -> Any:
    """np.where."""
    if not branches:
        return nonzero(condition)
    if len(branches) != 2:
        raise shape_error("either both or neither of x and y should be given")
    return where(condition, *branches)


def where(condition: Any, x: Any, y: Any) -> Operand:
    """np.where(condition, x, y)."""
    a, b = promote(x, y)
    chosen, a, b = broadcast_together(as_value(condition, DType.bool), a, b)
    result: Operand = emit("select", chosen, a, b)
    return result


@implements(np.select)
def select_first(condlist: Any, choicelist: Any, default: Any = 0) -> Operand:
    """np.select: the choice of the first condition that holds."""
    result: Any = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = where(condition, choice, result)
    return as_value(result, common_dtype(*choicelist, default))


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None,
         **keywords: Any) -> Any:
    """np.clip."""
    refuse("np.clip", out=(out, None), **{k: (v, None) for k, v in keywords.items()})
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    result = as_value(a)
    if low is not None:
        result = maximum(result, low)
    return result if high is None else minimum(result, high)


@ufunc(np.fmax)
def fmax(a: Operand, b: Operand) -> Operand:
    """The larger one, ignoring NaN."""
    return ignoring_nan("maximum", a, b)


@ufunc(np.fmin)
def fmin(a: Operand, b: Operand) -> Operand:
    """The smaller one, ignoring NaN."""
    return ignoring_nan("minimum", a, b)


def ignoring_nan(name: str, a: Operand, b: Operand) -> Operand:
    """maximum or minimum; the other operand where one is NaN."""
    result: Operand = emit(name, a, b)
    if is_real_integer(a):
        return result
    return select(emit("isnan", a), b, select(emit("isnan", b), a, result))


@ufunc(np.heaviside)
def heaviside(x: Operand, h: Operand) -> Operand:
    """0 for x < 0, h at 0, 1 for x > 0."""
    zero = number(0, x)
    step = select(emit("lt", x, zero), zero, select(emit("eq", x, zero), h, number(1, x)))
    return select(emit("isnan", x), x, step)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Operand:
    """np.nan_to_num."""
    value = as_value(x)
    if is_real_integer(value):
        return value
    limits = np.finfo(value.type.dtype.numpy)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = where(equal_to(value, math.inf), high, where(equal_to(value, -math.inf), low, value))
    return as_value(where(isnan(value), nan, finite), value.type.dtype)


# ---------------------------------------------------------------------------------------------------- powers
@implements(np.power, operator.pow)
def power(x: Any, y: Any, out: Any = None, where: Any = True, dtype: Any = None) -> Operand:
    """x ** y: known exponents become multiplications, square roots or integer powers."""
    refuse("np.power", out=(out, None), where=(where, True))
    given = loop_dtypes(np.power, x, y)[0]
    wanted = wanted_dtype(dtype) or given
    return cast(raised(x, y, DType.i64 if is_small_integer(wanted) else wanted), wanted)       # narrow integers wrap around


def is_small_integer(dtype: DType) -> bool:
    """Whether a dtype is an integer of less than 64 bits."""
    return dtype in (DType.i8, DType.i16, DType.i32, DType.u8, DType.u16, DType.u32, DType.bool)


@implements(np.float_power)
def float_power(x: Any, y: Any, out: Any = None, where: Any = True, dtype: Any = None) -> Operand:
    """x ** y in double precision."""
    refuse("np.float_power", out=(out, None), where=(where, True))
    return raised(x, y, wanted_dtype(dtype) or DType.f64)


def raised(x: Any, y: Any, dtype: DType) -> Operand:
    """x ** y in a dtype."""
    base = as_value(x, dtype)
    exponent = as_value(y)
    if isinstance(exponent, Literal):
        return known_power(base, exponent.value, dtype)
    if dtype.is_integer:
        if not (isinstance(y, Dim) and compare(y, ">=", 0)):
            raise unsupported("an integer power with a traced exponent: negative exponents have no integer result",
                              "make the base a float")
        return integer_power(base, as_size(y))
    if is_real_integer(exponent):
        return integer_power(base, as_value(exponent, DType.i64))
    result: Operand = emit("pow", *broadcast_together(base, cast(exponent, dtype)))
    return result


def known_power(base: Operand, exponent: Any, dtype: DType) -> Operand:
    """x ** y for a number y."""
    if dtype.is_integer and exponent < 0:
        raise negative_power_error()
    if exponent == 1:
        return base
    if exponent == 0.5:
        root: Operand = emit("sqrt", base)
        return root
    if exponent == int_or_none(exponent) and abs(exponent) <= POWI_LIMIT:
        return integer_power(base, Literal(int(exponent), DType.i64))
    result: Operand = emit("pow", base, literal_like(exponent, dtype))
    return result


def int_or_none(x: Any) -> int | None:
    """x as an int, where it is one."""
    return int(x) if math.isfinite(x) and x == int(x) else None


def negative_power_error() -> Exception:
    """NumPy's refusal of negative integer powers."""
    return unsupported("integers to negative integer powers are not allowed", "make the base a float")


def integer_power(base: Operand, exponent: Operand) -> Operand:
    """The powi op."""
    result: Operand = emit("powi", *broadcast_together(base, exponent))
    return result


# ---------------------------------------------------------------------------------------------------- composed
@implements(np.sinc)
def sinc(x: Any) -> Operand:
    """sin(pi x) / (pi x), by its series near 0 so that derivatives are accurate there too."""
    y = multiply(as_float(x), math.pi)
    near = less(absolute(y), 0.5)
    w = multiply(y, y)
    series: Operand = literal_like(1.0, y.type.dtype)
    for k in range(8, 0, -1):
        series = subtract(1.0, multiply(true_divide(w, 2.0 * k * (2 * k + 1)), series))
    away = where(near, 1.0, y)
    return where(near, series, true_divide(sin(away), away))


@ufunc(np.logaddexp2)
def logaddexp2(a: Operand, b: Operand) -> Operand:
    """log2(2**a + 2**b)."""
    scale = math.log(2.0)
    result: Operand = emit("div", emit("logaddexp", emit("mul", a, number(scale, a)), emit("mul", b, number(scale, b))),
                           number(scale, a))
    return result


@implements(np.divmod, divmod)
def divmod_(a: Any, b: Any) -> tuple[Operand, Operand]:
    """(a // b, a % b)."""
    return floor_divide(a, b), remainder(a, b)


@implements(np.modf)
def modf(x: Any) -> tuple[Operand, Operand]:
    """The fractional and the integral part."""
    value = as_float(x)
    whole = trunc(value)
    return subtract(value, whole), whole


@implements(np.ldexp)
def ldexp(x: Any, i: Any) -> Operand:
    """x * 2**i."""
    value = as_float(x)
    return multiply(value, raised(2.0, as_value(i, DType.i64), value.type.dtype))


@implements(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Operand:
    """Rounded to a number of decimals, halves to even."""
    refuse("np.round", out=(out, None))
    digits, value = as_int(decimals, "decimals"), as_value(a)
    if is_real_integer(value):
        if digits < 0:
            raise unsupported("np.round of integers to negative decimals is not supported")
        return value
    if digits == 0:
        result: Operand = emit("rint", value)
        return result
    scale = 10.0**abs(digits)
    scaled = multiply(value, scale) if digits > 0 else true_divide(value, scale)
    result = emit("rint", scaled)
    return true_divide(result, scale) if digits > 0 else multiply(result, scale)


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Operand:
    """Whether entries are -inf."""
    return equal_to(as_float(x), -math.inf)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Operand:
    """Whether entries are +inf."""
    return equal_to(as_float(x), math.inf)


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Operand:
    """np.isclose."""
    a, b = as_float(a), as_float(b)
    close = logical_and(less_equal(absolute(subtract(a, b)), add(atol, multiply(rtol, absolute(b)))), isfinite(b))
    result = logical_or(close, equal_to(a, b))
    return logical_or(result, logical_and(isnan(a), isnan(b))) if equal_nan else result


@implements(np.real)
def real(val: Any) -> Operand:
    """The real part: real numbers themselves."""
    return real_number(val, "np.real")


@implements(np.imag)
def imag(val: Any) -> Operand:
    """The imaginary part of real numbers: 0."""
    value = real_number(val, "np.imag")
    return filled(number(0, value), value.type.dims) if rank_of(value) else number(0, value)


@implements(np.real_if_close)
def real_if_close(a: Any, tol: Any = 100) -> Operand:
    """Real numbers as they are."""
    return real_number(a, "np.real_if_close")


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Operand:
    """The angle of real numbers: 0 or pi."""
    value = cast(real_number(z, "np.angle"), DType.f64)
    result = where(isnan(value), value, where(less(value, 0.0), 180.0 if deg else math.pi, 0.0))
    return result


def real_number(x: Any, name: str) -> Operand:
    """An operand that is not complex."""
    value = as_value(x)
    if value.type.dtype.is_complex:
        raise unsupported(f"{name} of complex numbers is not supported")
    return value
