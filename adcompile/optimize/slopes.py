"""keep_slopes: exponentials that overflow or vanish keep the slope of what is computed from them.

    log1p(exp(x))                      has slope 1 where exp(x) is infinite, not inf / inf
    1 / (1 + exp(x))                   has slope 0 there
    log(sum(exp(x - top)))             has slope 0 where all of x is -inf, if top is max(x) where that is finite

Each becomes a row of the same value whose derivative says so; `simplify` writes the value as the user did. Where the shift is
the maximum itself, or none, a sum of 0 is NaN or an underflow, and the plain log is right.

Needs: verified IR, before differentiation. Leaves: values, bit for bit.
"""

from __future__ import annotations

from ..ir.core import Function, Literal, Operand, Operation
from ..ir.dims import Dim
from .rewrite import EXACT, Rewriter, Rule, StructuralRule, index_rules, use
from .rules import rewrite, x

exp, log, log0, log1p = use("exp"), use("log"), use("log0"), use("log1p")
softplus, odds_against = use("softplus"), use("odds_against")
ONE = Dim.of(1)
Places = list[int | None]       # for each axis of a value the axis of an array along which it runs, None where its length is 1

# What keep_slopes writes on the left, what the user wrote on the right.
AS_WRITTEN: tuple[Rule, ...] = (
    rewrite("softplus", softplus(x), log1p(exp(x)), EXACT),
    rewrite("odds against", odds_against(x), 1.0 / (exp(x) + 1.0), EXACT),
    rewrite("log0", log0(x), log(x), EXACT),
)


def keep_slopes(function: Function) -> Function:
    """The function with such exponentials in rows of their own."""
    return Rewriter(function, RULES).run()


def log_of_shifted_sum(driver: Rewriter, o: Operation) -> Operand | None:
    """log0 of a sum of exponentials that is 0 only where all of them are of -inf."""
    total = driver.definition(skip(driver, o.operands[0]))
    term = driver.definition(total.operands[0]) if total is not None and total.op == "reduce_sum" else None
    shifted = driver.definition(term.operands[0]) if term is not None and term.op == "exp" else None
    if total is None or shifted is None or shifted.op != "sub":
        return None
    array, shift = shifted.operands
    if not is_finite_maximum(driver, shift, array, total.attributes["axes"]):
        return None
    result: Operand = driver.emit("log0", o.operands)
    return result


def skip(driver: Rewriter, x: Operand) -> Operand:
    """What a value is a reshaped or marked form of."""
    made = driver.definition(x)
    while made is not None and made.op in ("reshape", "stop_gradient"):
        x = made.operands[0]
        made = driver.definition(x)
    return x


def is_finite_maximum(driver: Rewriter, shift: Operand, array: Operand, axes: tuple[int, ...]) -> bool:
    """Whether `shift` is, at each place, the maximum of `array` over some of the axes, and a number where that is infinite."""
    places: Places = list(range(array.type.rank))
    shift, places = source(driver, shift, places)
    made = driver.definition(shift)
    if made is None or made.op != "select":
        return False
    condition = driver.definition(made.operands[0])
    if condition is None or condition.op not in ("isfinite", "isinf"):
        return False
    top, number = made.operands[1:] if condition.op == "isfinite" else made.operands[:0:-1]
    if top is not condition.operands[0] or not isinstance(number, Literal):
        return False
    top, places = source(driver, top, places)
    maximum = driver.definition(top)
    if maximum is None or maximum.op != "reduce_max" or maximum.operands[0] is not array:
        return False
    reduced = maximum.attributes["axes"]
    kept = [k for k in range(array.type.rank) if k not in reduced]
    long = [k for k in kept if array.type.dims[k] != ONE]
    return set(reduced) <= set(axes) and [p for p in places if p is not None] == long


def source(driver: Rewriter, x: Operand, places: Places) -> tuple[Operand, Places]:
    """What x is spread from, and along which axes of the array its axes run."""
    made = driver.definition(x)
    while made is not None and made.op in ("broadcast", "reshape", "stop_gradient"):
        below = made.operands[0]
        if made.op == "broadcast":
            places = [places[a] for a in made.attributes["axes"]]
        elif made.op == "reshape":
            moved = [p for p, d in zip(places, x.type.dims, strict=True) if d != ONE]
            if [d for d in x.type.dims if d != ONE] != [d for d in below.type.dims if d != ONE]:
                return x, places
            remaining = iter(moved)
            places = [None if d == ONE else next(remaining) for d in below.type.dims]
        x = below
        made = driver.definition(x)
    return x, [None if d == ONE else p for p, d in zip(places, x.type.dims, strict=True)]


RULES = index_rules([
    rewrite("log1p(exp(x))", log1p(exp(x)), softplus(x), EXACT),
    rewrite("1 / (1 + exp(x))", 1.0 / (exp(x) + 1.0), odds_against(x), EXACT),
    StructuralRule("log(sum(exp(x - top)))", ("log",), log_of_shifted_sum, EXACT),
])
