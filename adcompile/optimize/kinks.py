"""erase_kinks: squares of functions that have a kink where their square has none: norm(x)**2, abs(x)**2.

The derivative of a norm at 0 is taken to be 0, which makes the first derivative of its square right there, but not the second.
Needs: verified IR. Leaves: the same meaning, and derivatives of every order where the user's function has them. REASSOCIATES.
"""

from __future__ import annotations

from ..ir.core import Function
from .cse import cse
from .rewrite import EXACT, REASSOCIATES, Rewriter, index_rules, use
from .rules import absolute, neg, powi, rewrite, x

root = use("sqrt0")                                             # of a sum of squares: never of a negative number

KINKS = (
    rewrite("norm(x)**2", powi(root(x), 2), x, REASSOCIATES),
    rewrite("norm(x) * norm(x)", root(x) * root(x), x, REASSOCIATES),
    rewrite("-norm(x) * norm(x)", neg(root(x)) * root(x), neg(x), REASSOCIATES),
    rewrite("norm(x) * -norm(x)", root(x) * neg(root(x)), neg(x), REASSOCIATES),
    rewrite("abs(x)**2", powi(absolute(x), 2), x * x, EXACT),
    rewrite("abs(x) * abs(x)", absolute(x) * absolute(x), x * x, EXACT),
)
RULES = index_rules(KINKS)


def erase_kinks(function: Function) -> Function:
    """The function with such squares written without the kink."""
    return Rewriter(cse(function), RULES).run()
