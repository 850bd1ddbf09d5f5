"""Sums in lanes, four turns at a time: what is added to is loaded and stored once for four products instead of once for each.

    for j in d:  for b in lanes:  y[b] += Q[j] * x[j, b]        becomes     for j in d - 3 step 4:  for b in lanes:
                                                                               t = y[b];  t += ...  four times;  y[b] = t
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Expr,
    For,
    If,
    Load,
    Number,
    Section,
    SizeOf,
    Statement,
    Store,
    Var,
    While,
    assigned_names,
    bodies,
    own_expressions,
    subexpressions,
    walk,
    written_arrays,
)
from ..ir.types import DType
from .names import INSTANCE
from .rewriting import map_statement, rebuild

TURNS = 4


def unrolled(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements with the loops around lanes unrolled that gain by it."""
    return Unroller(body).block(body)


@dataclass(frozen=True)
class Turn:
    """One turn of a loop around lanes: what comes before the lanes, the loop over them, what comes behind."""

    before: tuple[Assign, ...]
    lanes: For
    behind: tuple[Accumulate, ...]


class Unroller:
    """Unrolls the loops of one program."""

    def __init__(self, body: tuple[Statement, ...]) -> None:
        self.taken = assigned_names(body)
        self.copies: Counter[str] = Counter()

    def block(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for s in body:
            turn = turn_of(s) if isinstance(s, For) else None
            if turn is not None and isinstance(s, For):
                result += self.loop(s, turn)
            else:
                result.append(rebuild(s, tuple(map(self.block, bodies(s)))) if isinstance(s, (For, While, If)) else s)
        return tuple(result)

    def fresh(self, name: str) -> str:
        """A name that the last renaming brings back to this one."""
        stem = name.split(INSTANCE)[0].rstrip("_")
        while True:
            self.copies[stem] += 1
            found = f"{stem}{INSTANCE}{self.copies[stem]}"
            if found not in self.taken:
                self.taken.add(found)
                return found

    def loop(self, loop: For, turn: Turn) -> Iterator[Statement]:
        """The loop over four turns at a time, and that over those left over."""
        assert isinstance(loop.stop, SizeOf)
        whole, length = loop.stop.dim, loop.stop.dim.constant
        start: Expr = Apply(f"{{0}} // {TURNS} * {TURNS}", (loop.stop,))
        if length is not None:
            whole, start = Dim.of(length // TURNS * TURNS + TURNS - 1), Number(length // TURNS * TURNS, DType.i64)
        yield Section(f"{TURNS} turns at a time: what they add to is loaded and stored once for all of them")
        first, stop = Number(0, DType.i64), SizeOf(whole - (TURNS - 1))
        yield replace(loop, start=first, stop=stop, step=TURNS, body=self.together(loop, turn), unrolled=TURNS)
        if length is None or length % TURNS:
            yield replace(loop, start=start, why="the turns left over")

    def together(self, loop: For, turn: Turn) -> tuple[Statement, ...]:
        """Four turns as one."""
        before: list[Statement] = []
        behind: list[Statement] = []
        inner: list[Statement] = []
        sums = {s.target: self.fresh("t") for s in turn.lanes.body if isinstance(s, Accumulate) and stays(s.target, loop.index)}
        inner += [Assign(name, target) for target, name in sums.items()]
        for k in range(TURNS):
            names = {name: self.fresh(name) for name in assigned_names((*turn.before, *turn.lanes.body)) - {turn.lanes.index}
                     if is_set(name, turn)}
            before += [copied(s, loop.index, k, names) for s in turn.before]
            behind += [copied(s, loop.index, k, names) for s in turn.behind]
            for s in turn.lanes.body:
                if isinstance(s, Accumulate) and s.target in sums:
                    s = replace(s, target=Var(sums[s.target]))
                inner.append(copied(s, loop.index, k, names))
        inner += [Store(target.array, target.index, Var(name)) for target, name in sums.items() if isinstance(target, Load)]
        return (*before, replace(turn.lanes, body=tuple(inner)), *behind)


def is_set(name: str, turn: Turn) -> bool:
    """Whether every turn sets a scalar anew."""
    return any(isinstance(s, Assign) and s.name == name for s in (*turn.before, *turn.lanes.body))


def stays(target: Var | Load, index: str) -> bool:
    """Whether this is an array's element that is the same in every turn."""
    return isinstance(target, Load) and Var(index) not in subexpressions(target)


def copied(s: Statement, index: str, k: int, names: dict[str, str]) -> Statement:
    """A statement of the turn `k` after this one, with the turn's own scalars."""
    def change(e: Expr) -> Expr:
        if e == Var(index) and k:
            return Apply("{0} + {1}", (e, Number(k, DType.i64)))
        return Var(names.get(e.name, e.name)) if isinstance(e, Var) else e

    s = map_statement(s, change)
    if isinstance(s, Assign):
        return replace(s, name=names[s.name])
    if isinstance(s, Accumulate) and isinstance(s.target, Var):
        return replace(s, target=Var(names.get(s.target.name, s.target.name)))
    return s


def turn_of(loop: For) -> Turn | None:
    """The parts of a loop's turn, if it is one around lanes whose turns only add, some of them to the same elements."""
    lanes = [s for s in loop.body if isinstance(s, For)]
    short = isinstance(loop.stop, SizeOf) and loop.stop.dim.constant is not None and loop.stop.dim.constant < TURNS
    if len(lanes) != 1 or not lanes[0].lanes or loop.start is not None or not isinstance(loop.stop, SizeOf) or short:
        return None
    at = loop.body.index(lanes[0])
    before, behind = loop.body[:at], loop.body[at + 1:]
    if not all(isinstance(s, Assign) for s in before) or not all(map(adds, behind)):
        return None
    if not all(isinstance(s, Assign) or adds(s) for s in lanes[0].body) or reads_what_it_writes(loop):
        return None
    turn = Turn(before, lanes[0], behind)                                           # type: ignore[arg-type]
    return turn if any(isinstance(s, Accumulate) and stays(s.target, loop.index) for s in lanes[0].body) else None


def adds(s: Statement) -> bool:
    return isinstance(s, Accumulate) and s.operator in ("+", "-")


def reads_what_it_writes(loop: For) -> bool:
    """Whether a turn reads what another one, or an earlier statement of its own, has written to an array; or a scalar that it
    adds to before its own turn is over."""
    written = written_arrays((loop,))
    grown = {s.target.name for s in walk(loop.body) if isinstance(s, Accumulate) and isinstance(s.target, Var)}
    for s in walk(loop.body):
        expressions = [s.expr] if isinstance(s, Accumulate) else list(own_expressions(s))
        for e in (x for expr in expressions for x in subexpressions(expr)):
            behind = s in loop.body and isinstance(s, Accumulate)
            if isinstance(e, Load) and e.array in written or isinstance(e, Var) and e.name in grown and not behind:
                return True
    return False
