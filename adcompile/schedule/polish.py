"""Last touches on a loop program: temporaries folded into their only reader, loads that do not move taken out of loops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ..ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Expr,
    Fill,
    For,
    If,
    Load,
    Number,
    SizeOf,
    Statement,
    Store,
    Var,
    While,
    assigned_names,
    bodies,
    expr_text,
    own_expressions,
    subexpressions,
    walk,
    written_arrays,
)

INSTANCE = "__"             # sets off the number of a value that is computed again in several places
UNNAMED = re.compile(r"t(_\d+)?(_bar|_part|_sofar|_sum|_max|_min)*(_\d+|_[ijklpqrs]{1,3})*(_bar|_part|_sofar|_sum)*(_\d+)?_?")
ADJOINT = re.compile(r"(t(?:_\d+)?)_bar")
LONGEST = 80                # characters of an expression that a temporary may be folded into


def polish(body: tuple[Statement, ...], returns: tuple[Expr, ...], taken: set[str]) -> tuple[tuple[Statement, ...], tuple[Expr, ...]]:
    """The program with needless temporaries gone and invariant loads in locals."""
    body = stored_at_once(body)
    reads = count_reads(body, returns)
    writes = Counter(s.name for s in walk(body) if isinstance(s, Assign))
    updated = {s.target.name for s in walk(body) if isinstance(s, Accumulate) and isinstance(s.target, Var)}
    once = {name for name, n in writes.items() if n == 1 and name not in updated}
    body = inline(body, reads, once)
    body = tuple(signed(in_place(s)) for s in hoist(body))
    return shorten_names(body, returns, taken)


def count_reads(body: tuple[Statement, ...], returns: tuple[Expr, ...]) -> Counter[str]:
    """How often each local is read."""
    expressions = [e for s in walk(body) for e in own_expressions(s)] + list(returns)
    return Counter(x.name for e in expressions for x in subexpressions(e) if isinstance(x, Var))


def stored_at_once(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Scalar results are stored right behind what completes them."""
    statements = list(body)
    for s in body:
        if isinstance(s, Store) and not s.index and isinstance(s.expr, Var):
            statements.remove(s)
            made = [k for k, other in enumerate(statements) if s.expr.name in assigned_names((other,))]
            statements.insert(made[-1] + 1 if made else len(statements), s)
    return tuple(statements)


# ------------------------------------------------------------------------------------------------ rewriting
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


def rebuild(s: For | While | If, parts: tuple[tuple[Statement, ...], ...], change: Callable[[Expr], Expr] = lambda e: e) -> Statement:
    """A compound statement with other bodies."""
    if isinstance(s, For):
        start = None if s.start is None else map_expr(s.start, change)
        return For(s.index, map_expr(s.stop, change), parts[0], start, s.step)
    if isinstance(s, While):
        return While(map_expr(s.condition, change), parts[0])
    return If(map_expr(s.condition, change), parts[0], parts[1])


# ------------------------------------------------------------------------------------------------ temporaries
def inline(body: tuple[Statement, ...], reads: Counter[str], once: set[str]) -> tuple[Statement, ...]:
    """Fold temporaries that one later statement of the same list reads once into that statement."""
    statements = [rebuild(s, tuple(inline(b, reads, once) for b in bodies(s))) if isinstance(s, (For, While, If)) else s for s in body]
    at = 0
    while at < len(statements):
        s = statements[at]
        if isinstance(s, Assign) and s.name in once:
            if reads[s.name] == 0:
                del statements[at]
                continue
            if fold(statements, at, s, reads):
                del statements[at]
                continue
        at += 1
    return tuple(statements)


def fold(statements: list[Statement], at: int, s: Assign, reads: Counter[str]) -> bool:
    """Fold the temporary at this place into its reader, if it may be."""
    if isinstance(s.expr, (Number, SizeOf)):
        for k in range(at + 1, len(statements)):
            statements[k] = substituted(statements[k], s, inside=True)
        return not s.keep
    if reads[s.name] != 1:
        return False
    for k in range(at + 1, len(statements)):
        reader = statements[k]
        if any(x == Var(s.name) for e in own_expressions(reader) for x in subexpressions(e)):
            whole = isinstance(reader, (Store, Assign)) and reader.expr == Var(s.name)
            thrice = isinstance(reader, Accumulate) and reader.operator in ("max", "min") and isinstance(s.expr, Apply)
            if isinstance(reader, For) or s.keep and not whole or thrice:
                return False
            folded = substituted(reader, s, inside=False)
            if not whole and max(len(expr_text(e)) for e in own_expressions(folded)) > LONGEST:
                return False
            if isinstance(folded, (Assign, Store, Accumulate)) and folded.location is None:
                folded = replace(folded, location=s.location)
            statements[k] = folded
            return True
        if isinstance(reader, (For, While, If)) or conflicts(reader, s.expr):
            return False
    return False


def substituted(statement: Statement, s: Assign, inside: bool) -> Statement:
    return map_statement(statement, lambda e: s.expr if e == Var(s.name) else e, inside)


def conflicts(statement: Statement, expr: Expr) -> bool:
    """Whether the statement changes something the expression reads."""
    arrays, names = written_arrays((statement,)), assigned_names((statement,))
    return any(isinstance(x, Load) and x.array in arrays or isinstance(x, Var) and x.name in names for x in subexpressions(expr))


# ------------------------------------------------------------------------------------------------ invariant loads
def hoist(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Before every innermost loop that writes arrays, load what does not move with it: the compiler must assume that the
    writes could change it, and would neither keep it in a register nor vectorise."""
    result: list[Statement] = []
    for s in body:
        if isinstance(s, For) and not any(isinstance(x, (For, While)) for x in s.body) and written_arrays(s.body):
            result += hoisted(s)
        elif isinstance(s, (For, While, If)):
            result.append(rebuild(s, tuple(hoist(b) for b in bodies(s))))
        else:
            result.append(s)
    return tuple(result)


def hoisted(loop: For) -> list[Statement]:
    written, moving = written_arrays((loop,)), assigned_names((loop,))
    names: dict[Load, str] = {}
    for s in loop.body:
        for e in own_expressions(s):
            for x in subexpressions(e):
                if isinstance(x, Load) and x.array not in written and x.index and \
                        not any(isinstance(v, Var) and v.name in moving for v in subexpressions(x)):
                    letters = "".join(v.name for i in x.index for v in subexpressions(i) if isinstance(v, Var)) or "0"
                    names.setdefault(x, f"{x.array}_{letters}")
    if len(set(names.values())) < len(names):
        names = {x: f"{name}_{k}" for k, (x, name) in enumerate(names.items())}
    local = {x: Var(f"{name}_") for x, name in names.items()}
    body = tuple(map_statement(s, lambda e: local.get(e, e)) for s in loop.body)     # type: ignore[arg-type]
    return [*(Assign(v.name, x) for x, v in local.items()), replace(loop, body=body)]


# ------------------------------------------------------------------------------------------------ in place
def positive(e: Expr) -> Expr | None:
    """The expression without its minus, if it starts with one: -x, -2.0, -2.0 * x, x * -y, -2.0 / x."""
    if isinstance(e, Number) and not isinstance(e.value, (bool, complex)) and e.value < 0:
        return Number(-e.value, e.dtype)
    if not isinstance(e, Apply):
        return None
    if e.code == "-{0}":
        return e.operands[0]
    if e.code in ("{0} * {1}", "{0} / {1}"):
        first, second = e.operands
        flipped = positive(first)
        if flipped is not None:
            return Apply(e.code, (flipped, second))
        flipped = positive(second)
        return None if flipped is None else Apply(e.code, (first, flipped))
    return None


def signed_sum(e: Expr) -> Expr:
    """`a + -b` as `a - b`, `a - -b` as `a + b`, and `-a + b` as `b - a`."""
    if isinstance(e, Apply) and e.code in ("{0} + {1}", "{0} - {1}"):
        first, second = e.operands
        without = positive(second)
        if without is not None:
            return Apply("{0} - {1}" if e.code == "{0} + {1}" else "{0} + {1}", (first, without))
        without = positive(first)
        if without is not None and e.code == "{0} + {1}":
            return Apply("{0} - {1}", (second, without))
    return e


def signed(s: Statement) -> Statement:
    """Sums and accumulations without needless signs: `a += -b` as `a -= b`."""
    if isinstance(s, (For, While, If)):
        return rebuild(s, tuple(tuple(map(signed, b)) for b in bodies(s)), signed_sum)
    s = map_statement(s, signed_sum)
    if isinstance(s, Accumulate) and s.operator in ("+", "-"):
        without = positive(s.expr)
        if without is not None:
            return replace(s, operator="-" if s.operator == "+" else "+", expr=without)
    return s


def in_place(s: Statement) -> Statement:
    """`a[i] = a[i] + x` as `a[i] += x`, and so for -, * and /."""
    if isinstance(s, (For, While, If)):
        return rebuild(s, tuple(tuple(map(in_place, b)) for b in bodies(s)))
    if not isinstance(s, Store) or not isinstance(s.expr, Apply) or len(s.expr.operands) != 2:
        return s
    operator = {f"{{0}} {o} {{1}}": o for o in "+-*/"}.get(s.expr.code)
    first, second = s.expr.operands
    target = Load(s.array, s.index)
    if operator in ("+", "*") and second == target:
        first, second = second, first
    if operator is None or first != target or any(x == target for x in subexpressions(second)):
        return s
    return Accumulate(target, operator, second, s.location)


# ------------------------------------------------------------------------------------------------ names
def shorten_names(body: tuple[Statement, ...], returns: tuple[Expr, ...], taken: set[str]) -> tuple[tuple[Statement, ...], tuple[Expr, ...]]:
    """Take numbers and trailing underscores off names where the short form is free; number unnamed temporaries in order."""
    locals_ = ordered_locals(body)
    arrays = {x.array for s in walk(body) for e in own_expressions(s) for x in subexpressions(e) if isinstance(x, Load)} | written_arrays(body)
    everything = {*taken, *locals_, *arrays, *count_reads(body, returns)}
    everything |= {x.name for e in returns for x in subexpressions(e) if isinstance(x, Var)}
    everything -= {name for name in locals_ if is_unnamed(name)}
    new: dict[str, str] = {}
    if returns and isinstance(returns[0], Var) and returns[0].name in locals_ and is_unnamed(returns[0].name) and "value" not in everything:
        new[returns[0].name] = "value"
        everything.add("value")
    latest: dict[str, str] = {}                 # what a value's local is called where it was set last
    scopes = scopes_of(body)
    shared: dict[str, list[tuple[int, ...]]] = {}
    for name in locals_:
        if name in new:
            continue
        wish = name
        if is_unnamed(name):
            wish = adjoint_name(name, latest, everything) or next(w for w in (f"t{k}" for k in range(1, len(locals_) + len(everything) + 2)) if w not in everything)
        elif INSTANCE in name:
            wish = name.split(INSTANCE)[0]
            apart = all(not within(scope, other) and not within(other, scope)
                        for scope in scopes[name] for other in shared.get(wish, []))
            if apart and (wish in shared or wish not in everything):
                shared.setdefault(wish, []).extend(scopes[name])
            else:
                wish = name.replace(INSTANCE, "_")
                wish = wish if wish not in everything else name
        elif name[-1] == "_" or name[-1].isdigit() and "_" in name:
            stem = name.rstrip("0123456789").rstrip("_")
            wish = stem if stem not in everything else name
        new[name] = wish
        latest[name.split(INSTANCE)[0]] = wish
        everything.add(wish)

    def change(e: Expr) -> Expr:
        return Var(new.get(e.name, e.name)) if isinstance(e, Var) else e

    return tuple(renamed(s, new, change) for s in body), tuple(map_expr(e, change) for e in returns)


def is_unnamed(name: str) -> bool:
    """Whether a local has no name of the user's: t, t_3, t_3_sum, t_3_bar."""
    return UNNAMED.fullmatch(name.split(INSTANCE)[0]) is not None


def adjoint_name(name: str, latest: dict[str, str], taken: set[str]) -> str | None:
    """`t3_bar` for the cotangent of the local that is called t3 now."""
    found = ADJOINT.match(name)
    primal = latest.get(found[1]) if found else None
    wish = f"{primal}_bar"
    return wish if primal and wish not in taken else None


def within(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    """Whether one place in the program is inside another."""
    return inner[:len(outer)] == outer


def scopes_of(body: tuple[Statement, ...], path: tuple[int, ...] = ()) -> dict[str, list[tuple[int, ...]]]:
    """Per local, the statement lists in which it is set, as paths through the program."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for k, s in enumerate(body):
        if isinstance(s, Assign):
            found.setdefault(s.name, []).append(path)
        for j, inner in enumerate(bodies(s)):
            for name, places in scopes_of(inner, (*path, k, j)).items():
                found.setdefault(name, []).extend(places)
    return found


def ordered_locals(body: tuple[Statement, ...]) -> list[str]:
    """The local scalars, in the order in which they are set."""
    return list(dict.fromkeys(s.name for s in walk(body) if isinstance(s, Assign)))


def renamed(s: Statement, new: dict[str, str], change: Callable[[Expr], Expr]) -> Statement:
    """The statement with locals renamed, where they are set too."""
    if isinstance(s, (For, While, If)):
        return rebuild(s, tuple(tuple(renamed(x, new, change) for x in b) for b in bodies(s)), change)
    s = map_statement(s, change)
    if isinstance(s, Assign):
        return replace(s, name=new.get(s.name, s.name))
    if isinstance(s, Accumulate) and isinstance(s.target, Var):
        return replace(s, target=Var(new.get(s.target.name, s.target.name)))
    return s
