"""Elementwise ops: one row each. Partials are written from the input where the output has lost digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.core import Literal, Operand
from ..ir.dims import Dim
from ..ir.op import AND, COMPARE, NOT, OR, POWER, PRODUCT, SUM, TERNARY, UNARY, Op, elements
from ..ir.types import DType, Type
from . import support
from .op import (
    bool_type,
    elementwise,
    float_type,
    linear,
    nondifferentiable,
    number,
    number_type,
    plus,
    power_type,
    predicate_type,
    real_type,
    same_type,
    shared_dims,
)

INF, NAN = math.inf, math.nan
REAL, POSITIVE, UNIT = (-3.0, 3.0), (0.1, 6.0), (-0.95, 0.95)
STEP = "piecewise constant: derivative 0 wherever it exists"


# ---------------------------------------------------------------------------------------------------- choices and logic
def select_type(c: Type, a: Type, b: Type) -> Type:
    """A boolean and two operands of one dtype."""
    if c.dtype is not DType.bool:
        raise TypeError(f"the condition of a select is {c}, not boolean")
    return Type(same_type(a, b).dtype, shared_dims(c, a, b))


select: Op = linear("select", np.where, select_type,
                    {1: lambda ct, c, a, b: select(c, ct, number(0.0, ct)),
                     2: lambda ct, c, a, b: select(c, number(0.0, ct), ct)},
                    joint=True, code="{1} if {0} else {2}", precedence=TERNARY, masking=True)

not_: Op = nondifferentiable("not", np.logical_not, infer=bool_type, why=STEP, code="not {0}", precedence=NOT, involution=True)
and_: Op = nondifferentiable("and", np.logical_and, infer=bool_type, why=STEP, code="{0} and {1}", precedence=AND,
                             commutative=True, associative=True)
or_: Op = nondifferentiable("or", np.logical_or, infer=bool_type, why=STEP, code="{0} or {1}", precedence=OR, commutative=True,
                            associative=True)
xor: Op = nondifferentiable("xor", np.logical_xor, infer=bool_type, why=STEP, code="{0} != {1}", precedence=COMPARE,
                            commutative=True)


def comparison(name: str, reference: Any, sign: str, **fields: Any) -> Any:
    """A comparison of two operands."""
    return nondifferentiable(name, reference, infer=predicate_type, why=STEP, code=f"{{0}} {sign} {{1}}", precedence=COMPARE,
                             domain=(REAL, REAL), edges=((0.0, 0.0), (NAN, 0.0), (0.0, NAN), (INF, INF)), **fields)


lt, le = comparison("lt", np.less, "<"), comparison("le", np.less_equal, "<=")
gt, ge = comparison("gt", np.greater, ">"), comparison("ge", np.greater_equal, ">=")
eq, ne = comparison("eq", np.equal, "==", commutative=True), comparison("ne", np.not_equal, "!=", commutative=True)

isnan: Op = nondifferentiable("isnan", np.isnan, infer=lambda x: predicate_type(float_type(x)), why=STEP, code="math.isnan({0})",
                              domain=(REAL,), edges=(NAN, INF, 0.0))
isinf: Op = nondifferentiable("isinf", np.isinf, infer=lambda x: predicate_type(float_type(x)), why=STEP, code="math.isinf({0})",
                              domain=(REAL,), edges=(NAN, INF, -INF, 0.0))
isfinite: Op = nondifferentiable("isfinite", np.isfinite, infer=lambda x: predicate_type(float_type(x)), why=STEP,
                                 code="math.isfinite({0})", domain=(REAL,), edges=(NAN, INF, -INF, 0.0))

# ---------------------------------------------------------------------------------------------------- arithmetic
add: Op = elementwise("add", np.add, lambda y, a, b: (1.0, 1.0), infer=number_type, code="{0} + {1}", precedence=SUM,
                      commutative=True, associative=True, identity=0.0, domain=(REAL, REAL))
sub: Op = elementwise("sub", np.subtract, lambda y, a, b: (1.0, -1.0), infer=number_type, code="{0} - {1}", precedence=SUM,
                      domain=(REAL, REAL))
mul: Op = elementwise("mul", np.multiply, lambda y, a, b: (b, a), infer=number_type, code="{0} * {1}", precedence=PRODUCT,
                      commutative=True, associative=True, identity=1.0, domain=(REAL, REAL))
div: Op = elementwise("div", np.divide, lambda y, a, b: (1.0 / b, -y / b), infer=lambda a, b: inexact_type(a, b),
                      code="{0} / {1}", precedence=PRODUCT, cost=4, domain=(REAL, POSITIVE),
                      edges=((1.0, 0.0), (-1.0, 0.0), (0.0, 2.0), (1e200, 1e200)))
neg: Op = elementwise("neg", np.negative, lambda y, x: (-1.0,), infer=number_type, code="-{0}", precedence=UNARY, involution=True,
                      domain=(REAL,))
strong_mul: Op = elementwise("strong_mul", lambda ct, p: np.where((ct == 0) | (p == 0), np.zeros_like(ct * p), ct * p),
                             lambda y, ct, p: (p, ct), code="strong_mul({0}, {1})", support=(support.strong_mul,), promotes=True,
                             commutative=True, cost=2, singular=True, domain=(REAL, REAL),
                             edges=((0.0, INF), (0.0, NAN), (INF, 0.0), (2.0, INF), (NAN, 1.0)))


def inexact_type(*types: Type) -> Type:
    """Real or complex floating point."""
    result = same_type(*types)
    if not (result.dtype.is_float or result.dtype.is_complex):
        raise TypeError(f"a division of {result}: integers are cast first")
    return result


def cast_reference(x: Any, *, dtype: DType) -> Any:
    """Conversion to another element type, as `astype`."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x).astype(dtype.numpy)


# The conversion in the generated source depends on both dtypes: the scheduler writes it.
cast: Op = linear("cast", cast_reference, lambda x, *, dtype: x.with_dtype(dtype),
                  {0: lambda ct, x, *, dtype: cast(ct, dtype=x.type.dtype)}, code="{0}", domain=(REAL,))


# ---------------------------------------------------------------------------------------------------- kinks
def share(a: Operand, b: Operand) -> Operand:
    """How much of maximum(a, b) is a: 1, 1/2 at a tie, or 0."""
    one, half, zero = number(1.0, a), number(0.5, a), number(0.0, a)
    result: Operand = select(gt(a, b), one, select(eq(a, b), half, zero))
    return result


TIES = ((1.0, 1.0), (0.0, 0.0), (NAN, 1.0), (1.0, NAN), (INF, 1.0), (-INF, -INF))
sign: Op = nondifferentiable("sign", np.sign, infer=real_type, why=STEP, code="np.sign({0})", domain=(REAL,),
                             edges=(0.0, NAN, INF, -INF))
abs_: Op = elementwise("abs", np.abs, lambda y, x: (sign(x),), infer=real_type, code="abs({0})", domain=(REAL,),
                       edges=(0.0, -0.0, INF, -INF, NAN))
maximum: Op = elementwise("maximum", np.maximum, lambda y, a, b: (share(a, b), share(b, a)), infer=same_type,
                          code="maximum({0}, {1})", support=(support.maximum,), commutative=True, cost=2, domain=(REAL, REAL),
                          edges=TIES, masking=True)
minimum: Op = elementwise("minimum", np.minimum, lambda y, a, b: (share(b, a), share(a, b)), infer=same_type,
                          code="minimum({0}, {1})", support=(support.minimum,), commutative=True, cost=2, domain=(REAL, REAL),
                          edges=TIES, masking=True)
copysign: Op = elementwise("copysign", np.copysign, lambda y, a, b: (sign(a) * copysign(1.0, b), 0.0),
                           code="math.copysign({0}, {1})", cost=2, domain=(REAL, REAL),
                           edges=((0.0, 1.0), (1.0, -INF), (INF, 1.0)))
floor: Op = nondifferentiable("floor", np.floor, infer=float_type, why=STEP, code="np.floor({0})", domain=(REAL,),
                              edges=(NAN, INF, 1.0))
ceil: Op = nondifferentiable("ceil", np.ceil, infer=float_type, why=STEP, code="np.ceil({0})", domain=(REAL,),
                             edges=(NAN, INF, 1.0))
rint: Op = nondifferentiable("rint", np.rint, infer=float_type, why=STEP, code="np.rint({0})", domain=(REAL,),
                             edges=(NAN, INF, 0.5, 1.5, -0.5))
trunc: Op = nondifferentiable("trunc", np.trunc, infer=float_type, why=STEP, code="np.trunc({0})", domain=(REAL,),
                              edges=(NAN, INF, -1.5))
DIVISIONS = ((5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (5.0, 0.0), (5.0, INF), (-5.0, INF), (INF, 2.0), (NAN, 1.0))
floordiv: Op = nondifferentiable("floordiv", np.floor_divide, infer=real_type, why=STEP, code="{0} // {1}", precedence=PRODUCT,
                                 cost=10, domain=(REAL, POSITIVE), edges=DIVISIONS)
mod: Op = elementwise("mod", np.remainder, lambda y, a, b: (1.0, -floor(a / b)), infer=real_type, code="{0} % {1}",
                      precedence=PRODUCT, cost=10, domain=(REAL, POSITIVE), edges=DIVISIONS)
fmod: Op = elementwise("fmod", np.fmod, lambda y, a, b: (1.0, -trunc(a / b)), infer=real_type, code="np.fmod({0}, {1})", cost=10,
                       domain=(REAL, POSITIVE), edges=DIVISIONS)

# ---------------------------------------------------------------------------------------------------- powers and roots
sqrt: Op = elementwise("sqrt", np.sqrt, lambda y, x: (0.5 / y,), code="np.sqrt({0})", cost=5, singular=True, domain=(POSITIVE,),
                       edges=(0.0, INF, -1.0, 1e-300, 1e300))
# The root of a sum of squares: norm, std and the like, whose slope at 0 is 0 by convention.
sqrt0: Op = elementwise("sqrt0", np.sqrt, lambda y, x: (select(eq(y, 0.0), number(0.0, y), 0.5 / y),), code="np.sqrt({0})",
                        cost=5, domain=(POSITIVE,), edges=(0.0, INF, -1.0))
cbrt: Op = elementwise("cbrt", np.cbrt, lambda y, x: (1.0 / (3.0 * y * y),),
                       code="np.cbrt({0})", vector="cbrt", cost=20, singular=True,
                       domain=(POSITIVE,), edges=(0.0, -8.0, INF, -INF))
hypot: Op = elementwise("hypot", np.hypot, lambda y, a, b: (towards(a, y), towards(b, y)), code="np.hypot({0}, {1})", cost=10,
                        commutative=True, domain=(REAL, REAL),
                        edges=((0.0, 0.0), (3.0, -4.0), (1e200, 1e200), (1e-200, 0.0), (INF, NAN)))


def towards(a: Operand, y: Operand) -> Operand:
    """a / y, and 0 where y is 0."""
    result: Operand = select(eq(y, 0.0), number(0.0, y), a / y)
    return result


def power_partials(y: Operand, a: Operand, b: Operand) -> tuple[Any, Any]:
    """Of a ** b. In a: b * a**(b-1), 0 for b == 0 even at a == 0. In b: y * log(a), 0 at a == 0 where b > 0."""
    in_b = select(and_(eq(a, 0.0), gt(b, 0.0)), number(0.0, y), y * log(a))
    if isinstance(b, Literal):
        exponent = b.value.real
        return {0.0: 0.0, 1.0: 1.0}.get(exponent, 2.0 * a if exponent == 2.0 else exponent * power(a, exponent - 1.0)), in_b
    return select(eq(b, 0.0), number(0.0, y), b * power(a, b - 1.0)), in_b


def integer_power_partials(y: Operand, x: Operand, k: Operand) -> tuple[Any, None]:
    """Of x ** k, in x: k * x**(k-1), 0 for k == 0 even at x == 0."""
    if isinstance(k, Literal):
        exponent = int(k.value.real)
        if exponent in (0, 1):
            return float(exponent), None
        return float(exponent) * (x if exponent == 2 else powi(x, plus(k, -1))), None
    slope = cast(k, dtype=x.type.dtype) * powi(x, plus(k, -1))
    return select(eq(k, 0), number(0.0, x), slope), None


def integer_power_reference(x: Any, k: Any) -> Any:
    """x ** k in the dtype of x."""
    x = np.asarray(x)
    return np.power(x, k, dtype=x.dtype) if x.dtype.kind in "iu" else np.power(x, np.asarray(k).astype(x.dtype))


def multiplications(operands: tuple[Operand, ...], result: Type, attributes: Any) -> Dim:
    """The products (and the division) in an integer power by squaring; three where the exponent is not known."""
    k = operands[1]
    exponent = abs(int(k.value.real)) if isinstance(k, Literal) else 4
    each = max(exponent.bit_length() + exponent.bit_count() - 2, 0) + int(isinstance(k, Literal) and k.value.real < 0)
    return elements(result) * each


power: Op = elementwise("pow", np.power, power_partials, code="np.power({0}, {1})", vector="pow", cost=40, singular=True,
                        domain=(POSITIVE, REAL),
                        edges=((0.0, 2.0), (0.0, 0.0), (0.0, 1.0), (0.0, 0.5), (0.0, -1.0), (-2.0, 3.0), (-2.0, 0.5), (INF, 2.0),
                               (NAN, 0.0)))
powi: Op = elementwise("powi", integer_power_reference, integer_power_partials, infer=power_type, code="{0} ** {1}",
                       precedence=POWER, promotes=True, cost=3, domain=(REAL, (0.0, 4.0)), flops=multiplications,
                       edges=((0.0, 0), (0.0, 1), (0.0, 2), (0.0, 3), (-2.0, 3), (-2.0, -3), (2.0, -1), (INF, 2)))

# ---------------------------------------------------------------------------------------------------- exponentials, logarithms
exp: Op = elementwise("exp", np.exp, lambda y, x: (y,), code="np.exp({0})", vector="exp", cost=20, domain=(REAL,),
                      edges=(0.0, 700.0, 710.0, -745.0, -800.0, INF, -INF, NAN))
# The slope of exp2 is smaller than its value, so it is finite a little longer.
exp2: Op = elementwise("exp2", np.exp2,
                       lambda y, x: (select(eq(y, INF), 2.0 * math.log(2.0) * exp2(x - 1.0), y * math.log(2.0)),),
                       code="np.exp2({0})", vector="exp2", cost=20, domain=(REAL,),
                       edges=(0.0, 1000.0, 1024.0, -1070.0, INF, -INF))
expm1: Op = elementwise("expm1", np.expm1, lambda y, x: (exp(x),), code="np.expm1({0})", vector="expm1", cost=25, domain=(REAL,),
                        edges=(0.0, 1e-20, -40.0, 700.0, INF, -INF))
log: Op = elementwise("log", np.log, lambda y, x: (1.0 / x,), code="np.log({0})", vector="log", cost=20, domain=(POSITIVE,),
                      edges=(0.0, -1.0, 1.0, 1e-300, 1e300, INF, NAN))
# The log of a sum of exponentials that is 0 only if all exponents are -inf: its slope there is 0 by convention.
log0: Op = elementwise("log0", np.log, lambda y, x: (select(eq(x, 0.0), number(0.0, x), 1.0 / x),), code="np.log({0})",
                       cost=20, domain=(POSITIVE,), edges=(0.0, -1.0, 1e-300, INF, NAN))
log2: Op = elementwise("log2", np.log2, lambda y, x: (1.0 / math.log(2.0) / x,),
                       code="np.log2({0})", vector="log2", cost=20, domain=(POSITIVE,),
                       edges=(0.0, -1.0, 1.0, 1e-300, INF))
log10: Op = elementwise("log10", np.log10, lambda y, x: (1.0 / math.log(10.0) / x,),
                        code="np.log10({0})", vector="log10", cost=20,
                        domain=(POSITIVE,), edges=(0.0, -1.0, 1.0, 1e-300, INF))
log1p: Op = elementwise("log1p", np.log1p, lambda y, x: (1.0 / (1.0 + x),),
                        code="np.log1p({0})", vector="log1p", cost=25, domain=(POSITIVE,),
                        edges=(0.0, 1e-20, -1.0, -0.9999999, 1e300, INF))


def odds_to_share(e: Operand) -> Operand:
    """e / (1 + e), and 1 at infinity."""
    result: Operand = select(eq(e, INF), number(1.0, e), e / (1.0 + e))
    return result


# What users write out with an exponential that overflows: the values are those of what they wrote, the slopes are finite.
softplus: Op = elementwise("softplus", lambda x: np.log1p(np.exp(x)), lambda y, x: (odds_to_share(exp(x)),),
                           code="np.log1p(np.exp({0}))", cost=45, domain=(REAL,),
                           edges=(0.0, 700.0, 710.0, -745.0, -800.0, INF, -INF, NAN))
odds_against: Op = elementwise("odds_against", lambda x: 1 / (1 + np.exp(x)), lambda y, x: (-(y * odds_to_share(exp(x))),),
                               code="1.0 / (1.0 + np.exp({0}))", precedence=PRODUCT, promotes=True, cost=25, domain=(REAL,),
                               edges=(0.0, 700.0, 710.0, -745.0, -800.0, INF, -INF, NAN))


def equal_infinities(a: Operand, b: Operand) -> Operand:
    """Whether a and b are the same infinity, where their difference is NaN."""
    result: Operand = and_(eq(a, b), isinf(a))
    return result


def logaddexp_partials(y: Operand, a: Operand, b: Operand) -> tuple[Any, Any]:
    """Of log(exp(a) + exp(b)): sigmoid(a - b) and sigmoid(b - a), 1/2 each for equal infinities."""
    tie, half = equal_infinities(a, b), number(0.5, a)
    return select(tie, half, sigmoid(a - b)), select(tie, half, sigmoid(b - a))


logaddexp: Op = elementwise("logaddexp", np.logaddexp, logaddexp_partials, code="logaddexp({0}, {1})", vector="logaddexp",
                            support=(support.logaddexp,), promotes=True, cost=50, commutative=True, domain=(REAL, REAL),
                            edges=((0.0, 0.0), (1000.0, 0.0), (-1000.0, -1001.0), (-INF, -INF), (-INF, 1.0), (INF, 1.0),
                                   (NAN, 0.0)))


def sigmoid_reference(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, np.ones_like(e), e) / (1 + e)


sigmoid: Op = elementwise("sigmoid", sigmoid_reference, lambda y, x: (y * sigmoid(-x),), code="sigmoid({0})", vector="sigmoid",
                          support=(support.sigmoid,), promotes=True, cost=30, domain=(REAL,),
                          edges=(0.0, 40.0, -40.0, 800.0, -800.0, INF, -INF, NAN))

# ---------------------------------------------------------------------------------------------------- trigonometric, hyperbolic
sin: Op = elementwise("sin", np.sin, lambda y, x: (cos(x),), code="np.sin({0})", vector="sin", cost=20, domain=(REAL,),
                      edges=(0.0, 1e10, INF))
cos: Op = elementwise("cos", np.cos, lambda y, x: (-sin(x),), code="np.cos({0})", vector="cos", cost=20, domain=(REAL,),
                      edges=(0.0, 1e10, INF))
tan: Op = elementwise("tan", np.tan, lambda y, x: (1.0 + y * y,),
                      code="np.tan({0})", vector="tan", cost=30, domain=((-1.4, 1.4),),
                      edges=(0.0, 1.5707))
asin: Op = elementwise("asin", np.arcsin, lambda y, x: (1.0 / sqrt((1.0 - x) * (1.0 + x)),), code="np.arcsin({0})", cost=30,
                       singular=True, domain=(UNIT,), edges=(0.0, 1.0, -1.0, 2.0, 0.9999999999))
acos: Op = elementwise("acos", np.arccos, lambda y, x: (-1.0 / sqrt((1.0 - x) * (1.0 + x)),), code="np.arccos({0})", cost=30,
                       singular=True, domain=(UNIT,), edges=(0.0, 1.0, -1.0, 2.0, 0.9999999999))
atan: Op = elementwise("atan", np.arctan, lambda y, x: (1.0 / (1.0 + x * x),),
                       code="np.arctan({0})", vector="atan", cost=30, domain=(REAL,),
                       edges=(0.0, 1e100, INF))
atan2: Op = elementwise("atan2", np.arctan2, lambda y, a, b: (b / hypot(a, b) / hypot(a, b), -(a / hypot(a, b) / hypot(a, b))),
                        code="np.arctan2({0}, {1})", cost=40, domain=(REAL, REAL),
                        edges=((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (1e200, 1e200), (1e-200, 1e-200)))
sinh: Op = elementwise("sinh", np.sinh, lambda y, x: (cosh(x),), code="np.sinh({0})", vector="sinh", cost=30, domain=(REAL,),
                       edges=(0.0, 700.0, -800.0))
cosh: Op = elementwise("cosh", np.cosh, lambda y, x: (sinh(x),), code="np.cosh({0})", vector="cosh", cost=30, domain=(REAL,),
                       edges=(0.0, 700.0, -800.0))
tanh: Op = elementwise("tanh", np.tanh, lambda y, x: (1.0 / (cosh(x) * cosh(x)),),
                       code="np.tanh({0})", vector="tanh", cost=30, domain=(REAL,),
                       edges=(0.0, 20.0, -20.0, 400.0, INF))
asinh: Op = elementwise("asinh", np.arcsinh, lambda y, x: (1.0 / hypot(x, 1.0),), code="np.arcsinh({0})", cost=30, domain=(REAL,),
                        edges=(0.0, 1e10, 1e200, -1e200))
acosh: Op = elementwise("acosh", np.arccosh, lambda y, x: (1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)),), code="np.arccosh({0})",
                        cost=30, singular=True, domain=((1.1, 6.0),), edges=(1.0, 1.0000001, 1e200, 0.5))
atanh: Op = elementwise("atanh", np.arctanh, lambda y, x: (1.0 / ((1.0 - x) * (1.0 + x)),), code="np.arctanh({0})", cost=30,
                        domain=(UNIT,), edges=(0.0, 1.0, -1.0, 2.0, 0.9999999999))
