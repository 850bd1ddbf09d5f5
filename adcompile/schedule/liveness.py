"""Which local scalars are needed at the same time, and so cannot share a name.

Only scalars that may share one count: temporaries never do, and straight-line code can hold very many of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..ir.loops import (
    Accumulate,
    Assign,
    Break,
    Expr,
    For,
    If,
    Statement,
    Var,
    While,
    own_expressions,
    subexpressions,
    walk,
)

Names = frozenset[str]


class Liveness:
    """Goes through a program backwards. `names`: the scalars that count; `apart`: per name, those that are needed while it
    is set."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.apart: dict[str, set[str]] = defaultdict(set)
        self.exits: list[Names] = []                    # what is needed behind each open loop

    def block(self, statements: Sequence[Statement], live: Names) -> Names:
        """What is needed before statements, given what is needed behind them."""
        for s in reversed(statements):
            live = self.statement(s, live)
        return live

    def statement(self, s: Statement, live: Names) -> Names:
        if isinstance(s, (For, While)):
            return self.loop(s, live)
        if isinstance(s, If):
            return self.block(s.body, live) | self.block(s.orelse, live) | self.read((s.condition,))
        if isinstance(s, Break):
            return self.exits[-1]
        reads = self.read(own_expressions(s))
        if isinstance(s, Assign) and s.name in self.names:
            copied = {s.expr.name} if isinstance(s.expr, Var) else set()
            self.keep_apart(s.name, live - {s.name} - copied)
            return live - {s.name} | reads
        if isinstance(s, Accumulate) and isinstance(s.target, Var) and s.target.name in self.names:
            self.keep_apart(s.target.name, live - {s.target.name})
            return live | reads | {s.target.name}
        return live if reads <= live else live | reads

    def read(self, expressions: Iterable[Expr]) -> Names:
        """The scalars that count among those that expressions read."""
        return frozenset(x.name for e in expressions for x in subexpressions(e) if isinstance(x, Var) and x.name in self.names)

    def loop(self, s: For | While, behind: Names) -> Names:
        """A loop: what its next turn needs is needed behind its body."""
        index = {s.index} if isinstance(s, For) else set()
        test = self.read((s.condition,)) if isinstance(s, While) else frozenset()
        self.exits.append(behind)
        live = behind | test
        while True:
            grown = live | self.block(s.body, live) - index
            if grown == live:
                break
            live = grown
        self.exits.pop()
        if isinstance(s, For):                          # an index is nothing else inside its loop
            inside = {x.index if isinstance(x, For) else x.name for x in walk(s.body) if isinstance(x, (For, Assign))}
            inside &= self.names
            self.keep_apart(s.index, live | inside | self.read(e for x in walk(s.body) for e in own_expressions(x)) - index)
        return live | (self.read(own_expressions(s)) if isinstance(s, For) else frozenset())

    def keep_apart(self, name: str, others: Iterable[str]) -> None:
        for other in others:
            self.apart[name].add(other)
            self.apart[other].add(name)


def needed_apart(body: Sequence[Statement], returns: Sequence[Expr], parameters: Iterable[str],
                 names: Iterable[str]) -> dict[str, set[str]]:
    """Per local scalar that may share its name, those that it cannot share it with; parameters are set at the start.
    `names`: all scalars that may."""
    liveness = Liveness(frozenset(names))
    live = liveness.block(body, liveness.read(returns))
    for name in parameters:
        liveness.keep_apart(name, live - {name})
    return liveness.apart
