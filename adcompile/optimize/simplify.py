"""simplify: the algebra of `rules` and `structure`, bottom up, with equal operations shared as they arise.

Needs: verified IR. Leaves: no operation that a rule applies to, none twice and none dead. How exact: as
exact as the least exact rule that `allow` lets in. Users' names win over temporaries; locations stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ..ir.core import Function, Literal, Operand, Operation, walk
from .cse import cse
from .dce import dce
from .rewrite import EXACT, REASSOCIATES, AnyRule, Exactness, Rewriter, StructuralRule, index_rules
from .rules import ALGEBRA
from .settle import settle
from .slopes import AS_WRITTEN
from .structure import STRUCTURE, pointwise_rules

RANK = {exactness: rank for rank, exactness in enumerate(Exactness)}
MAXIMUM_ROUNDS = 8


def simplify(function: Function, allow: Exactness = REASSOCIATES) -> Function:
    """The function with every rule applied that is at least as exact as `allow`. Rounds are repeated while one changes
    something, as a rewrite can free an operand from its last other use; two or three is usual."""
    for _ in range(MAXIMUM_ROUNDS):
        driver = Rewriter(settle(function), rules_for(allow))
        rewritten = driver.run()
        function = dce(cse(rewritten))
        if not driver.statistics.applied and len(list(walk(function.body))) == len(list(walk(rewritten.body))):
            break
    return function


@cache
def rules_for(allow: Exactness) -> Mapping[str, Sequence[AnyRule]]:
    """All rules that are exact enough, by op, in the order in which they are tried."""
    literals, broadcasts = pointwise_rules()
    ordered: tuple[AnyRule, ...] = (literals, *AS_WRITTEN, *ALGEBRA, *STRUCTURE, broadcasts, LITERAL_ORDER)
    return index_rules(rule for rule in ordered if RANK[rule.exactness] <= RANK[allow])


def order_literal(driver: Rewriter, o: Operation) -> Operand | None:
    """Numbers where a person writes them: 2.0 * x and x + 2.0."""
    a, b = o.operands
    misplaced = (a, b) if o.op == "add" else (b, a)
    if not isinstance(misplaced[0], Literal) or isinstance(misplaced[1], Literal):
        return None
    swapped: Operand = driver.emit(o.op, (b, a), o.attributes)
    return swapped


LITERAL_ORDER = StructuralRule("numbers where a person writes them", ("add", "mul"), order_literal, EXACT)
