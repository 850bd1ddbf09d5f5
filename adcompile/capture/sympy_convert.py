"""SymPy expressions -> operations: every object once, operands first, with a stack of its own whatever the depth.

Classes are recognised by their names, so nothing here imports SymPy. Objects are remembered by identity: SymPy hands out the
same object for the same subexpression, and what it does not, `cse` finds. Sums, products and powers are written as a person
would: `a - b`, `a / b`, `sqrt(x)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import AdcompileError, CaptureError, UnsupportedOp
from ..ir.core import Literal, Location, Operand, Value
from ..ir.types import DType
from ..library import elementwise as library
from ..library import special
from ..library.core import emit
from .sympy_functions import UserFunctions

LARGEST_POWER = 2**31                               # of the exponents of `powi`; beyond, `pow`
LARGEST_SHOWN = 30                                  # nodes of an expression that is shown whole in an error message
NAN = Literal(math.nan, DType.f64)
NAMES: MutableMapping[type, tuple[str, ...]] = WeakKeyDictionary()          # of sympy_names


def number(value: float) -> Literal:
    """A float64 literal."""
    return Literal(float(value), DType.f64)


def select(condition: Operand, a: Operand | float, b: Operand | float) -> Operand:
    """`a` where the condition holds, else `b`."""
    choices = [number(x) if isinstance(x, (int, float)) else x for x in (a, b)]
    result: Operand = emit("select", condition, *choices)
    return result


# ---------------------------------------------------------------------------------------------------- functions
UNARY = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "Abs": "abs", "sign": "sign", "floor": "floor", "ceiling": "ceil", "erf": "erf", "erfc": "erfc", "digamma": "digamma",
    "expm1": "expm1", "log1p": "log1p", "log2": "log2", "log10": "log10", "exp2": "exp2", "Cbrt": "cbrt", "Sqrt": "sqrt",
    "Not": "not",
}
BINARY = {
    "atan2": "atan2", "Mod": "mod", "Rem": "fmod", "hypot": "hypot",
    "StrictLessThan": "lt", "LessThan": "le", "StrictGreaterThan": "gt", "GreaterThan": "ge",
}
FOLDED = {"Max": "maximum", "Min": "minimum", "And": "and", "Or": "or", "Xor": "xor"}


def sech(x: Any) -> Any:
    """1 / cosh(x), without overflow in its derivative."""
    e = emit("exp", -emit("abs", x))
    return 2.0 * e / (1.0 + e * e)


def csch(x: Any) -> Any:
    """1 / sinh(x), without overflow in its derivative."""
    size = emit("abs", x)
    return select(x < 0.0, -2.0, 2.0) * emit("exp", -size) / -emit("expm1", -2.0 * size)


def acot(x: Any) -> Any:
    """atan(1 / x), regular at 0."""
    side = select(x < 0.0, -1.0, 1.0)
    return emit("atan2", side, side * x)


def loggamma(x: Any) -> Any:
    """log(gamma(x)); for negative x it is not real."""
    return select(x < 0.0, NAN, emit("lgamma", x))


def heaviside(x: Any, at_zero: Any) -> Any:
    """0 below 0, 1 above."""
    return select(x < 0.0, 0.0, select(x > 0.0, 1.0, select(emit("eq", x, 0.0), at_zero, NAN)))


def polygamma(order: Any, x: Any) -> Any:
    """The derivative of digamma of a known order."""
    if not isinstance(order, Literal) or order.value != int(order.value.real) or order.value.real < 0:
        raise UnsupportedOp("polygamma(n, x) needs a whole number n >= 0")
    return special.polygamma(int(order.value.real), x)


def equality(a: Operand, b: Operand) -> Any:
    """a == b, of numbers or truths."""
    return emit("not", emit("xor", a, b)) if a.type.dtype is DType.bool else emit("eq", a, b)


def inequality(a: Operand, b: Operand) -> Any:
    """a != b, of numbers or truths."""
    return emit("xor" if a.type.dtype is DType.bool else "ne", a, b)


def beta(a: Any, b: Any) -> Any:
    """gamma(a) * gamma(b) / gamma(a + b), without overflow where both are positive."""
    positive = emit("exp", emit("lgamma", a) + emit("lgamma", b) - emit("lgamma", a + b))
    return select(emit("and", a > 0.0, b > 0.0), positive, special.gamma(a) / special.gamma(a + b) * special.gamma(b))


def bracket(x: Any, a: Any, n: Any) -> Any:
    """Macaulay's <x - a>**n: 0 left of a, then a power."""
    if not isinstance(n, Literal) or n.value.real < 0:
        raise UnsupportedOp("SingularityFunction(x, a, n) needs a number n >= 0")
    power = select(x >= a, 1.0, NAN) if n.value == 0 else emit("pow", x - a, n)
    return select(x < a, 0.0, power)


def equivalent(*conditions: Operand) -> Any:
    """Whether all conditions are the same."""
    return reduce(lambda a, b: emit("and", a, b), [equality(conditions[0], x) for x in conditions[1:]])


def same(x: Operand) -> Operand:
    """What is x itself for real numbers."""
    return x


COMPOSED: dict[str, Callable[..., Any]] = {
    "sec": lambda x: 1.0 / emit("cos", x), "csc": lambda x: 1.0 / emit("sin", x), "cot": lambda x: 1.0 / emit("tan", x),
    "asec": lambda x: emit("acos", 1.0 / x), "acsc": lambda x: emit("asin", 1.0 / x), "acot": acot,
    "sech": sech, "csch": csch, "coth": lambda x: 1.0 / emit("tanh", x),
    "asech": lambda x: emit("acosh", 1.0 / x), "acsch": lambda x: emit("asinh", 1.0 / x),
    "acoth": lambda x: emit("atanh", 1.0 / x), "sinc": lambda x: library.sinc(x * (1.0 / math.pi)),
    "gamma": special.gamma, "factorial": lambda n: special.gamma(n + 1.0), "loggamma": loggamma,
    "polygamma": polygamma, "trigamma": lambda x: polygamma(number(1), x),
    "erf2": lambda a, b: emit("erf", b) - emit("erf", a), "Heaviside": heaviside,
    "frac": lambda x: x - emit("floor", x), "ITE": lambda c, a, b: emit("select", c, a, b),
    "Implies": lambda a, b: emit("or", emit("not", a), b), "Equivalent": equivalent,
    "KroneckerDelta": lambda a, b, *bounds: select(emit("eq", a, b), 1.0, 0.0), "SingularityFunction": bracket,
    "beta": beta, "binomial": lambda n, k: 1.0 / ((n + 1.0) * beta(n - k + 1.0, k + 1.0)),
    "RisingFactorial": lambda x, k: special.gamma(x + k) / special.gamma(x),
    "FallingFactorial": lambda x, k: special.gamma(x + 1.0) / special.gamma(x - k + 1.0),
    "Equality": equality, "Unequality": inequality,
    "re": same, "conjugate": same, "UnevaluatedExpr": same, "im": lambda x: number(0),
}
HINTS = {
    **dict.fromkeys(("Integral", "Derivative", "Limit", "Subs"), "Evaluate it first: expr.doit()."),
    "AppliedUndef": "Give its Python function with functions={{{name!r}: f}}, or name it in args to pass its value.",
    "DiracDelta": "It has no value as a number; leave it out, or replace it by a narrow smooth function.",
    "Lambda": "Pass its expression, with its variables in args.",
}
DEFAULT_HINT = "Express it by supported functions, for example with expr.rewrite(gamma) or expr.doit()."


def sympy_names(kind: type) -> tuple[str, ...]:
    """The names of SymPy's classes that a class is or derives from."""
    found = NAMES.get(kind)
    if found is None:
        found = tuple(base.__name__ for base in kind.__mro__ if (base.__module__ or "").startswith("sympy."))
        NAMES[kind] = found
    return found


def is_a(node: Any, *names: str) -> bool:
    """Whether a node belongs to one of SymPy's classes of these names."""
    return not set(names).isdisjoint(sympy_names(type(node)))


def known_name(node: Any, names: Mapping[str, Any]) -> str | None:
    """The name of the first of a node's classes that is in a table."""
    return next((name for name in sympy_names(type(node)) if name in names), None)


def describe(node: Any) -> str:
    """A node in an error message: small ones whole, others by their function's name (their text could be endless)."""
    size, stack = 0, [node]
    while stack and size <= LARGEST_SHOWN:
        size += 1
        stack += stack.pop().args
    return str(node) if size <= LARGEST_SHOWN else f"{type(node).__name__}(...)"


# ---------------------------------------------------------------------------------------------------- structure
def is_place(node: Any) -> bool:
    """Whether a node can be an argument: a symbol, or what stands for one (q(t) and its derivatives, x[0])."""
    return is_a(node, "Symbol", "AppliedUndef", "Indexed", "MatrixElement") or (
        is_a(node, "Derivative") and is_a(node.expr, "AppliedUndef"))


def is_negative_number(node: Any) -> bool:
    """Whether it is a number below zero."""
    return bool(node.is_Number and node.is_negative)


def is_reciprocal(factor: Any) -> bool:
    """Whether a factor belongs below the fraction line: x**-1, x**-2, x**(-1/2)."""
    return bool(factor.is_Pow and is_negative_number(factor.exp))


def is_subtracted(term: Any) -> bool:
    """Whether a term of a sum is written with a minus."""
    return is_negative_number(term) or bool(term.is_Mul and is_negative_number(term.args[0]))


def is_one_plus(node: Any) -> bool:
    """Whether a node is the sum of 1 and one other term."""
    return bool(node.is_Add and len(node.args) == 2 and is_a(node.args[0], "One"))


def factor_operands(factor: Any) -> list[Any]:
    """What must be computed before a factor of a product."""
    return [] if factor.is_Number else [factor.base] if is_reciprocal(factor) else [factor]


def operands_of(node: Any) -> list[Any]:
    """What must be computed before a node."""
    if node.is_Mul:
        return [x for factor in node.args for x in factor_operands(factor)]
    if node.is_Add:
        return [x for term in node.args for x in (operands_of(term) if is_subtracted(term) and term.is_Mul else [term])]
    if node.is_Pow:
        return [node.base] if node.exp.is_Number else [node.base, node.exp]
    if is_a(node, "Piecewise"):
        return [x for pair in node.args for x in pair.args]
    if is_a(node, "log") and is_one_plus(node.args[0]):
        return [node.args[0].args[1]]
    return list(node.args)


class Converter:
    """Emits expressions into the current builder. `places`: the operands of the arguments; `functions`: what the user gave
    for undefined functions."""

    def __init__(self, places: Mapping[Any, Operand], functions: UserFunctions, where: Location | None) -> None:
        self.places, self.functions, self.where = places, functions, where
        self.values: dict[int, Operand] = {}
        self.given: dict[int, list[Any]] = {}               # the arguments of each applied function that the user gave

    def convert(self, expressions: Sequence[Any]) -> list[Operand]:
        """The operands of some expressions."""
        for node in self.in_order(expressions):
            try:
                self.values[id(node)] = self.emit(node)
            except AdcompileError as error:
                raise type(error)(error.what, error.where or self.where, error.do) from None
            except TypeError as error:
                raise CaptureError(f"{describe(node)} cannot be computed: {error}", self.where,
                                   "Use conditions as conditions and numbers as numbers.") from None
        return [self.values[id(x)] for x in expressions]

    def in_order(self, expressions: Sequence[Any]) -> list[Any]:
        """All nodes, each once, after its operands. Raises where symbols are no arguments."""
        order: list[Any] = []
        seen: set[int] = set()
        missing: set[str] = set()
        stack = [(x, False) for x in reversed(expressions)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                operands = self.operands(node)
                if operands is not None:
                    stack += [(x, False) for x in reversed(operands)]
                elif node not in self.places:
                    self.check_place(node)
                    missing.add(str(node))
        if missing:
            names = ", ".join(sorted(missing))
            raise CaptureError(f"the expression contains {names}, which {'is' if len(missing) == 1 else 'are'} not in args",
                               self.where, f"Add {names} to args, or substitute numbers: expr.subs(...).")
        return order

    def operands(self, node: Any) -> list[Any] | None:
        """What must be computed before a node; None for an argument."""
        if self.is_given(node):
            self.given[id(node)] = self.functions.operands_of(node)
            return self.given[id(node)]
        if is_place(node):
            return None
        self.check(node)
        return operands_of(node)

    def is_given(self, node: Any) -> bool:
        """Whether a node is a function that the user gave, applied, or its derivative."""
        return bool(self.functions.values) and not node.is_Symbol and self.functions.knows(node) and node not in self.places

    # ------------------------------------------------------------------------------------------------ refusals
    def check(self, node: Any) -> None:
        """Raises for what cannot be computed."""
        if type(node).__name__ in ("ImaginaryUnit", "ComplexInfinity"):
            raise UnsupportedOp(f"the expression contains {node}: it is complex, and only real expressions are supported",
                                self.where, "Split it into real expressions: expr.as_real_imag().")
        known = node.is_Add or node.is_Mul or node.is_Pow or not node.args or is_a(node, "Piecewise")
        if not known and not any(known_name(node, table) for table in (UNARY, BINARY, FOLDED, COMPOSED)):
            self.refuse(node)

    def check_place(self, node: Any) -> None:
        """Raises for undefined functions; what else could be an argument is reported as missing."""
        if not is_a(node, "Symbol"):
            self.refuse(node)

    def refuse(self, node: Any) -> None:
        """Raise for a function that has no op."""
        hint = HINTS.get(known_name(node, HINTS) or "", DEFAULT_HINT).format(name=type(node).__name__)
        raise UnsupportedOp(f"the SymPy function {type(node).__name__} is not supported: {describe(node)}", self.where, hint)

    # ------------------------------------------------------------------------------------------------ nodes
    def emit(self, node: Any) -> Any:
        """The operand of one node whose operands are there."""
        if id(node) in self.given:
            return self.functions.emit(node, [self.value(x) for x in self.given[id(node)]])
        if is_place(node):
            return self.places[node]
        if not node.args:
            return self.constant(node)
        if node.is_Add:
            return self.sum(node)
        if node.is_Mul:
            return self.product(node.args)
        if node.is_Pow:
            return self.power(node)
        if is_a(node, "Piecewise"):
            return self.piecewise(node)
        if is_a(node, "log") and is_one_plus(node.args[0]):
            return emit("log1p", self.value(node.args[0].args[1]))
        return self.function(node)

    def value(self, node: Any) -> Operand:
        """The operand of a node that was emitted."""
        return self.values[id(node)]

    def constant(self, node: Any) -> Operand:
        """A number or a truth."""
        if node.is_Boolean:
            return Literal(bool(node), DType.bool)
        if node.is_Rational and not node.is_infinite:
            return number(quotient(int(node.p), int(node.q)))
        if node.is_number:
            return number(float(node.evalf(25)))
        raise UnsupportedOp(f"{type(node).__name__} {node} is not a real number", self.where, DEFAULT_HINT)

    def sum(self, node: Any) -> Operand:
        """Terms in SymPy's order, but one that is added first if there is one, and the number last."""
        terms = [t for t in node.args if not t.is_Number] + [t for t in node.args if t.is_Number]
        first = next((k for k, t in enumerate(terms) if not is_subtracted(t)), 0)
        total = self.value(terms[first]) if not is_subtracted(terms[first]) else self.product_of(terms[first])
        for term in terms[:first] + terms[first + 1:]:
            total = total - self.size(term) if is_subtracted(term) else total + self.value(term)
        return total

    def product_of(self, term: Any) -> Operand:
        """A term that is written with a minus, with its sign."""
        return self.product(term.args) if term.is_Mul else self.constant(term)

    def size(self, term: Any) -> Operand:
        """A term that is written with a minus, without it."""
        return self.product((-term.args[0], *term.args[1:])) if term.is_Mul else self.constant(-term)

    def product(self, factors: Sequence[Any]) -> Operand:
        """A fraction: the number first, what has negative powers below the line."""
        above: list[Operand] = []
        below: list[Operand] = []
        negated = False
        for factor in factors:
            if factor.is_Rational and factor.is_finite and float_exact(factor.p) and float_exact(factor.q):
                negated = factor.p == -1
                above += [] if abs(factor.p) == 1 else [number(factor.p)]
                below += [] if factor.q == 1 else [number(factor.q)]
            elif factor.is_Number:
                above.append(self.constant(factor))
            elif is_reciprocal(factor):
                below.append(self.raised(self.value(factor.base), -factor.exp))
            else:
                above.append(self.value(factor))
        result = reduce(times, above) if above else number(1)
        result = result / reduce(times, below) if below else result
        return -result if negated else result

    def power(self, node: Any) -> Any:
        """A power, by the best op for its exponent."""
        base, exponent = self.value(node.base), node.exp
        if is_negative_number(exponent) and exponent.is_finite:
            return 1.0 / self.raised(base, -exponent)
        if exponent.is_Number:
            return self.raised(base, exponent)
        if is_a(node.base, "Exp1"):
            return emit("exp", self.value(exponent))
        if is_a(node.base, "Integer") and int(node.base) == 2:
            return emit("exp2", self.value(exponent))
        return emit("pow", base, self.value(exponent))

    def raised(self, base: Operand, exponent: Any) -> Any:
        """base ** exponent for a number that is not negative."""
        known = float(exponent)
        if known == 1:
            return base
        if known == 0.5:
            return emit("sqrt", base)
        if known.is_integer() and known < LARGEST_POWER:
            return emit("powi", base, Literal(int(known), DType.i64))
        return emit("pow", base, self.constant(exponent))

    def piecewise(self, node: Any) -> Operand:
        """Nested choices: the first condition that holds decides; value and derivative are NaN where none does."""
        always = self.value(node.args[-1].args[1])
        total = isinstance(always, Literal) and always.value
        result = self.value(node.args[-1].args[0]) if total else self.nowhere(node)
        for pair in reversed(node.args[:-1] if total else node.args):
            value, condition = map(self.value, pair.args)
            result = select(condition, value, result)
        return result

    def nowhere(self, node: Any) -> Operand:
        """NaN, also as its derivative in all that the values and conditions of a Piecewise depend on."""
        numbers = [pair.args[0] for pair in node.args]
        conditions = [pair.args[1] for pair in node.args]
        while conditions:
            condition = conditions.pop()
            if not is_place(condition):
                (numbers if is_a(condition, "Relational") else conditions).extend(condition.args)
        known = {id(x): x for x in map(self.value, numbers) if isinstance(x, Value)}
        return reduce(plus, [NAN * x for x in known.values()]) if known else NAN

    def function(self, node: Any) -> Operand:
        """An applied function, a comparison or a logical connective."""
        operands = [self.value(x) for x in node.args]
        result: Operand
        if (name := known_name(node, FOLDED)) is not None:
            op = FOLDED[name]
            last = sorted(operands, key=lambda x: isinstance(x, Literal))        # maximum(x, 0.0)
            result = reduce(lambda a, b: emit(op, a, b), last)
        elif (name := known_name(node, UNARY)) is not None:
            result = emit(UNARY[name], *operands)
        elif (name := known_name(node, BINARY)) is not None:
            result = emit(BINARY[name], *operands)
        else:
            name = known_name(node, COMPOSED)
            assert name is not None
            result = COMPOSED[name](*operands)
        return result


def plus(a: Operand, b: Operand) -> Operand:
    """a + b."""
    result: Operand = a + b
    return result


def times(a: Operand, b: Operand) -> Operand:
    """a * b."""
    result: Operand = a * b
    return result


def float_exact(integer: int) -> bool:
    """Whether an integer is a float64 without rounding."""
    return abs(integer) <= 2**53


def quotient(p: int, q: int) -> float:
    """p / q, rounded once; infinite beyond the range of floats."""
    try:
        return p / q
    except OverflowError:
        return math.copysign(math.inf, p)
