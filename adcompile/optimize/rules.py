"""The algebra: one line per rule. A rule is exact, exact up to the sign of a zero, or regroups sums and products.

Not here on purpose, because they are wrong for some numbers: x - x and x * 0 (inf, NaN), log(exp(x)) (overflow),
sqrt(x * x), x / x, not(a < b) (NaN), exp(a) * exp(b). The one product that is 0 whatever the other factor is strong_mul.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.core import Literal, Value
from ..ir.types import DType
from .rewrite import EXACT, REASSOCIATES, SIGN_OF_ZERO, Any_, Bindings, Exactness, Number, PatternLike, Rule, Use, once, use

x, y, z, c, d, e = Any_("x"), Any_("y"), Any_("z"), Number("c"), Number("d"), Number("e")

neg, cos, cosh = use("neg"), use("cos"), use("cosh")
absolute, power, powi = use("abs"), use("pow"), use("powi")
sin, tan, asin, atan, sinh, tanh, asinh, atanh, erf, sign = (
    use(name) for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "sign"))
maximum, minimum, select, strong_mul = use("maximum"), use("minimum"), use("select"), use("strong_mul")
not_, and_, or_, eq, ne = use("not"), use("and"), use("or"), use("eq"), use("ne")
lt, le, gt, ge = use("lt"), use("le"), use("gt"), use("ge")


Condition = Callable[[Bindings], bool]


def literal(bindings: Bindings, name: str) -> float:
    """The number that a variable matched."""
    found = bindings[name]
    assert isinstance(found, Literal)
    return found.value.real


def negative(name: str) -> Condition:
    """A condition: this number is negative (and not -0.0, NaN or an unsigned integer's zero)."""
    return lambda bindings: literal(bindings, name) < 0


def rewrite(name: str, left: Use, right: PatternLike, exactness: Exactness, when: Condition | None = None) -> Rule:
    """One line of the algebra."""
    return Rule(name, left, right, exactness, when)


def usual(bindings: Bindings) -> bool:
    """c is a number other than zero, infinities and NaN."""
    value = literal(bindings, "c")
    return math.isfinite(value) and value != 0


def not_literal(name: str) -> Condition:
    """A condition: the variable matched a value."""
    return lambda bindings: isinstance(bindings[name], Value)


def power_of_two(bindings: Bindings) -> bool:
    """c and 1/c are powers of two, so that dividing by c and multiplying by 1/c round alike."""
    value = literal(bindings, "c")
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100


def is_float(name: str) -> Condition:
    """A condition: a variable is of floating point type."""
    return lambda bindings: bindings[name].type.dtype.is_float


def is_integer(name: str) -> Condition:
    """A condition: a variable is a signed integer."""
    return lambda bindings: bindings[name].type.dtype is DType.i64


def positive_or_nonzero(bindings: Bindings) -> bool:
    """The product c * d is not -0.0, which nobody would write."""
    return literal(bindings, "c") > 0 or literal(bindings, "d") != 0


IDENTITIES = (
    rewrite("x + 0", x + 0.0, x, SIGN_OF_ZERO),
    rewrite("x + -0", x + -0.0, x, EXACT),
    rewrite("x - 0", x - 0.0, x, EXACT),
    rewrite("x - -0", x - -0.0, x, SIGN_OF_ZERO),
    rewrite("0 - x", 0.0 - x, -x, SIGN_OF_ZERO),
    rewrite("x * 1", x * 1.0, x, EXACT),
    rewrite("x * -1", x * -1.0, -x, EXACT),
    rewrite("x / 1", x / 1.0, x, EXACT, is_float("x")),
    rewrite("x / -1", x / -1.0, -x, EXACT, is_float("x")),
    rewrite("x + x", x + x, 2.0 * x, EXACT, is_float("x")),
    rewrite("(x + y) + y", once(x + y) + y, x + 2.0 * y, REASSOCIATES, is_float("y")),
    rewrite("(x - y) - y", once(x - y) - y, x - 2.0 * y, REASSOCIATES, is_float("y")),
    rewrite("(x + c) - d, integers", (x + c) - d, x + (c - d), EXACT, is_integer("x")),
    rewrite("(x - c) - d, integers", (x - c) - d, x - (c + d), EXACT, is_integer("x")),
    rewrite("(x + c) + d, integers", (x + c) + d, x + (c + d), EXACT, is_integer("x")),
    rewrite("(x - c) + d, integers", (x - c) + d, x + (d - c), EXACT, is_integer("x")),
)

SIGNS = (
    rewrite("-(-x)", neg(neg(x)), x, EXACT),
    rewrite("x + -y", x + neg(y), x - y, EXACT),
    rewrite("x - -y", x - neg(y), x + y, EXACT),
    rewrite("-x - y", once(neg(x)) - y, neg(x + y), SIGN_OF_ZERO),
    rewrite("-(x - y)", neg(once(x - y)), y - x, SIGN_OF_ZERO),
    rewrite("-(x * c)", neg(once(x * c)), neg(c) * x, EXACT),
    rewrite("-(c / x)", neg(once(c / x)), neg(c) / x, EXACT),
    rewrite("-(x / c)", neg(once(x / c)), x / neg(c), EXACT),
    rewrite("-x * c", neg(x) * c, neg(c) * x, EXACT),
    rewrite("-x * -y", neg(x) * neg(y), x * y, EXACT),
    rewrite("-x * y", neg(x) * y, neg(x * y), EXACT),
    rewrite("-x / c", neg(x) / c, x / neg(c), EXACT),
    rewrite("-x / -y", neg(x) / neg(y), x / y, EXACT),
    rewrite("-x / y", neg(x) / y, neg(x / y), EXACT),
    rewrite("c / -x", c / neg(x), neg(c) / x, EXACT),
    rewrite("x / -y", x / neg(y), neg(x / y), EXACT),
    rewrite("x + -c", x + c, x - neg(c), EXACT, negative("c")),
    rewrite("x - -c", x - c, x + neg(c), EXACT, negative("c")),
    rewrite("strong -x * y", strong_mul(neg(x), y), neg(strong_mul(x, y)), SIGN_OF_ZERO),
    rewrite("strong x * -y", strong_mul(x, neg(y)), neg(strong_mul(x, y)), SIGN_OF_ZERO),
    rewrite("abs(-x)", absolute(neg(x)), absolute(x), EXACT),
    rewrite("abs(abs(x))", absolute(absolute(x)), absolute(x), EXACT),
    rewrite("cos(-x)", cos(neg(x)), cos(x), EXACT),
    rewrite("cosh(-x)", cosh(neg(x)), cosh(x), EXACT),
    *(rewrite(f"{f(x).op}(-x)", f(neg(x)), neg(f(x)), SIGN_OF_ZERO)
      for f in (sin, tan, asin, atan, sinh, tanh, asinh, atanh, erf, sign)),
)

PRODUCTS = (
    rewrite("c * (d * x)", c * (d * x), (c * d) * x, REASSOCIATES, lambda b: regular(literal(b, "c"), literal(b, "d"))),
    rewrite("(c * x) * y", once(c * x) * y, c * (x * y), REASSOCIATES, lambda b: both(b, "x", "y")),
    rewrite("x * (1 / y)", x * once(1.0 / y), x / y, REASSOCIATES, not_literal("x")),
    rewrite("c * (x / d)", c * once(x / d), (c / d) * x, REASSOCIATES, lambda b: regular(literal(b, "c"), literal(b, "d"))),
    rewrite("c * (d / x)", c * once(d / x), (c * d) / x, REASSOCIATES, lambda b: regular(literal(b, "c"), literal(b, "d"))),
    rewrite("x / 2", x / c, (1.0 / c) * x, EXACT, power_of_two),
    rewrite("pow(x, 1)", power(x, 1.0), x, EXACT),
    rewrite("pow(x, 2)", power(x, 2.0), x * x, EXACT),
    rewrite("pow(x, -1)", power(x, -1.0), 1.0 / x, EXACT),
    rewrite("powi(x, 0)", powi(x, 0), 1.0, EXACT),
    rewrite("powi(x, 1)", powi(x, 1), x, EXACT),
    rewrite("powi(x, 2)", powi(x, 2), x * x, EXACT),
    rewrite("powi(x, 3)", powi(x, 3), x * (x * x), REASSOCIATES),
    rewrite("powi(x, 4)", powi(x, 4), (x * x) * (x * x), REASSOCIATES),
    rewrite("powi(x, -2)", powi(x, -2), 1.0 / (x * x), REASSOCIATES),
    rewrite("powi(x, -1)", powi(x, -1), 1.0 / x, EXACT),
)

STRONG = (
    rewrite("strong x * 0", strong_mul(x, 0.0), 0.0, EXACT),
    rewrite("strong 0 * x", strong_mul(0.0, x), 0.0, EXACT),
    rewrite("strong x * c", strong_mul(x, c), x * c, SIGN_OF_ZERO, usual),
    rewrite("strong c * x", strong_mul(c, x), c * x, SIGN_OF_ZERO, usual),
    rewrite("strong x * (c * y)", strong_mul(x, once(c * y)), c * strong_mul(x, y), REASSOCIATES, lambda b: both(b, "x", "y")),
    rewrite("strong (c * x) * y", strong_mul(once(c * x), y), c * strong_mul(x, y), REASSOCIATES, lambda b: both(b, "x", "y")),
    rewrite("strong x * mask", strong_mul(x, once(select(y, c, d))),
            select(y, strong_mul(x, c), strong_mul(x, d)), SIGN_OF_ZERO, not_literal("x")),
    rewrite("strong x * three-way mask", strong_mul(x, once(select(y, c, once(select(z, d, e))))),
            select(y, strong_mul(x, c), select(z, strong_mul(x, d), strong_mul(x, e))), SIGN_OF_ZERO, not_literal("x")),
    rewrite("strong (0 or x) * y", strong_mul(once(select(z, 0.0, x)), y), select(z, 0.0, strong_mul(x, y)), SIGN_OF_ZERO),
    rewrite("strong (x or 0) * y", strong_mul(once(select(z, x, 0.0)), y), select(z, strong_mul(x, y), 0.0), SIGN_OF_ZERO),
)

CHOICES = (
    rewrite("select(true)", select(True, x, y), x, EXACT),
    rewrite("select(false)", select(False, x, y), y, EXACT),
    rewrite("select(c, x, x)", select(z, x, x), x, EXACT),
    rewrite("select(not c)", select(not_(z), x, y), select(z, y, x), EXACT),
    rewrite("nested select, then", select(z, select(z, x, y), c), select(z, x, c), EXACT),
    rewrite("nested select, else", select(z, c, select(z, x, y)), select(z, c, y), EXACT),
    rewrite("c * select(z, x, d)", c * once(select(z, x, d)), select(z, c * x, c * d), EXACT, positive_or_nonzero),
    rewrite("c * select(z, d, x)", c * once(select(z, d, x)), select(z, c * d, c * x), EXACT, positive_or_nonzero),
    rewrite("the two halves of a choice", once(select(z, x, 0.0)) + once(select(z, 0.0, y)), select(z, x, y), SIGN_OF_ZERO),
    rewrite("maximum(x, x)", maximum(x, x), x, EXACT),
    rewrite("minimum(x, x)", minimum(x, x), x, EXACT),
)

LOGIC = (
    *(rewrite(f"integers x - y {f(x, y).op} 0", f(x - y, 0), f(x, y), EXACT, is_integer("x")) for f in (eq, ne, lt, le, gt, ge)),
    rewrite("not not x", not_(not_(x)), x, EXACT),
    rewrite("not x == y", not_(eq(x, y)), ne(x, y), EXACT),
    rewrite("not x != y", not_(ne(x, y)), eq(x, y), EXACT),
    rewrite("x and true", and_(x, True), x, EXACT),
    rewrite("x and false", and_(x, False), False, EXACT),
    rewrite("x or false", or_(x, False), x, EXACT),
    rewrite("x or true", or_(x, True), True, EXACT),
    rewrite("x and x", and_(x, x), x, EXACT),
    rewrite("x or x", or_(x, x), x, EXACT),
)


def regular(*numbers: float) -> bool:
    """Whether products and quotients of these numbers neither overflow, underflow nor divide by zero."""
    return all(math.isfinite(n) and 1e-30 < abs(n) < 1e30 for n in numbers)


def both(bindings: Bindings, *names: str) -> bool:
    """Whether all of these matched values, not numbers, and the number c is of ordinary size."""
    return all(isinstance(bindings[name], Value) for name in names) and regular(literal(bindings, "c"))


ALGEBRA: tuple[Rule, ...] = (*IDENTITIES, *SIGNS, *STRONG, *PRODUCTS, *CHOICES, *LOGIC)
