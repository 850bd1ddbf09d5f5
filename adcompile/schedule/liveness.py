"""Which local scalars are needed at the same time, and so cannot share a name."""

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
    """Goes through a program backwards. `apart`: per name, those that are needed while it is set."""

    def __init__(self) -> None:
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
            return self.block(s.body, live) | self.block(s.orelse, live) | read((s.condition,))
        if isinstance(s, Break):
            return self.exits[-1]
        reads = read(own_expressions(s))
        if isinstance(s, Assign):
            copied = {s.expr.name} if isinstance(s.expr, Var) else set()
            self.keep_apart(s.name, live - {s.name} - copied)
            return live - {s.name} | reads
        if isinstance(s, Accumulate) and isinstance(s.target, Var):
            self.keep_apart(s.target.name, live - {s.target.name})
            return live | reads | {s.target.name}
        return live | reads

    def loop(self, s: For | While, behind: Names) -> Names:
        """A loop: what its next turn needs is needed behind its body."""
        index = {s.index} if isinstance(s, For) else set()
        test = read((s.condition,)) if isinstance(s, While) else frozenset()
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
            self.keep_apart(s.index, live | inside | read(e for x in walk(s.body) for e in own_expressions(x)) - index)
        return live | (read(own_expressions(s)) if isinstance(s, For) else frozenset())

    def keep_apart(self, name: str, others: Iterable[str]) -> None:
        for other in others:
            self.apart[name].add(other)
            self.apart[other].add(name)


def read(expressions: Iterable[Expr]) -> Names:
    """The local scalars that expressions read."""
    return frozenset(x.name for e in expressions for x in subexpressions(e) if isinstance(x, Var))


def needed_apart(body: Sequence[Statement], returns: Sequence[Expr], parameters: Iterable[str]) -> dict[str, set[str]]:
    """Per local scalar, those that it cannot share a name with; parameters are set at the start."""
    liveness = Liveness()
    live = liveness.block(body, read(returns))
    for name in parameters:
        liveness.keep_apart(name, live - {name})
    return liveness.apart
