"""Statements and expressions of the loop IR with parts of them replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.loops import Accumulate, Alloc, Apply, Assign, Expr, Fill, For, If, Load, Statement, Store, While, bodies


def map_expr(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to every node, from the leaves up."""
    if isinstance(expr, Load):
        expr = Load(expr.array, tuple(map_expr(i, change) for i in expr.index))
    elif isinstance(expr, Apply):
        expr = Apply(expr.code, tuple(map_expr(x, change) for x in expr.operands))
    return change(expr)


def map_statement(s: Statement, change: Callable[[Expr], Expr], inside: bool = True) -> Statement:
    """The statement with its expressions changed; with `inside`, those of the statements in it too."""
    if isinstance(s, (Assign, Fill)):
        return replace(s, expr=map_expr(s.expr, change))
    if isinstance(s, Alloc):
        return replace(s, lengths=tuple(map_expr(e, change) for e in s.lengths))
    if isinstance(s, Store):
        return replace(s, index=tuple(map_expr(i, change) for i in s.index), expr=map_expr(s.expr, change))
    if isinstance(s, Accumulate):
        target = s.target
        if isinstance(target, Load):
            target = Load(target.array, tuple(map_expr(i, change) for i in target.index))
        return replace(s, target=target, expr=map_expr(s.expr, change))
    if isinstance(s, (For, While, If)):
        return rebuild(s, tuple(tuple(map_statement(x, change) for x in b) if inside else b for b in bodies(s)), change)
    return s


def rebuild(
    s: For | While | If, parts: tuple[tuple[Statement, ...], ...], change: Callable[[Expr], Expr] = lambda e: e
) -> For | While | If:
    """A compound statement with other bodies."""
    if isinstance(s, For):
        start = None if s.start is None else map_expr(s.start, change)
        return replace(s, stop=map_expr(s.stop, change), body=parts[0], start=start)
    if isinstance(s, While):
        return While(map_expr(s.condition, change), parts[0])
    return If(map_expr(s.condition, change), parts[0], parts[1])
