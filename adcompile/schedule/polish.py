"""Last touches on a loop program: temporaries folded into their only reader, loads that do not move taken out of loops."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Expr,
    Fill,
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
    expr_text,
    own_expressions,
    subexpressions,
    walk,
    written_arrays,
)
from ..ir.types import DType
from .rename import NUMBER, new_names, rename
from .rewriting import map_statement, rebuild
from .unroll import unrolled

OPERATORS = {f"{{0}} {o} {{1}}": o for o in "+-*/"}
SHORT = 16                  # ... and into the bounds of a loop
LONGEST = 80                # characters of an expression that a temporary may be folded into


@dataclass(frozen=True)
class Polished:
    """A finished program: its statements, its results, and the new names of arrays."""

    body: tuple[Statement, ...]
    returns: tuple[Expr, ...]
    names: dict[str, str]


def polish(body: tuple[Statement, ...], returns: tuple[Expr, ...], taken: set[str], parameters: set[str],
           arrays: Sequence[str]) -> Polished:
    """The program with needless temporaries gone, invariant loads in locals, and its last names. `parameters`: scalars that
    the function gets; `arrays`: the arrays that it allocates."""
    body = stored_at_once(tuple(map(sizes_folded, body)))
    reads = count_reads(body, returns)
    writes = Counter(s.name for s in walk(body) if isinstance(s, Assign))
    updated = {s.target.name for s in walk(body) if isinstance(s, Accumulate) and isinstance(s.target, Var)}
    once = {name for name, n in writes.items() if n == 1 and name not in updated}
    body = inline(body, reads, once)
    body = unrolled(hoist(tuple(map(sizes_folded, body))))
    names = new_names(body, returns, taken, parameters, arrays)
    body, returns = rename(body, returns, names)
    body = tuple(signed(in_place(s)) for s in with_effect(filled_once(body)))
    return Polished(body, returns, names)


def count_reads(body: tuple[Statement, ...], returns: tuple[Expr, ...]) -> Counter[str]:
    """How often each local is read."""
    expressions = [e for s in walk(body) for e in own_expressions(s)] + list(returns)
    return Counter(x.name for e in expressions for x in subexpressions(e) if isinstance(x, Var))


def stored_at_once(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Scalar results are stored right behind what completes them."""
    stored = {name for s in body if (name := result_name(s)) is not None}
    made = {name: k for k, s in enumerate(body) for name in stored & assigned_names((s,))}
    behind: dict[int, list[Statement]] = defaultdict(list)
    for s in body:
        if (name := result_name(s)) is not None:
            behind[made.get(name, len(body))].append(s)
    kept = (x for k, s in enumerate(body) for x in (*([s] if result_name(s) is None else []), *behind[k]))
    return (*kept, *behind[len(body)])


def result_name(s: Statement) -> str | None:
    """The local that a statement stores as a scalar result."""
    return s.expr.name if isinstance(s, Store) and not s.index and isinstance(s.expr, Var) else None


# ------------------------------------------------------------------------------------------------ temporaries
def inline(body: tuple[Statement, ...], reads: Counter[str], once: set[str]) -> tuple[Statement, ...]:
    """Fold temporaries that one later statement of the same list reads once into that statement."""
    statements = tuple(
        rebuild(s, tuple(inline(b, reads, once) for b in bodies(s))) if isinstance(s, (For, While, If)) else s for s in body
    )
    return Inliner(statements, reads, once).run()


class Inliner:
    """Folds the temporaries of one list of statements. What is folded leaves an empty place, so that places stay what they
    are: `readers`, `writers` and `compound` say where a local is read, where a local or an array is set, where blocks are."""

    def __init__(self, statements: tuple[Statement, ...], reads: Counter[str], once: set[str]) -> None:
        self.statements: list[Statement | None] = list(statements)
        self.reads, self.once = reads, once
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.writers: dict[str, list[int]] = defaultdict(list)
        self.compound = [k for k, s in enumerate(statements) if isinstance(s, (For, While, If))]
        for k, s in enumerate(statements):
            for name in {x.name for inner in walk((s,)) for e in own_expressions(inner) for x in subexpressions(e)
                         if isinstance(x, Var)}:
                self.readers[name].append(k)
            for name in written_arrays((s,)) | assigned_names((s,)):
                self.writers[name].append(k)

    def run(self) -> tuple[Statement, ...]:
        """The statements that are left."""
        for at, s in enumerate(self.statements):
            if isinstance(s, Assign) and s.name in self.once and (self.reads[s.name] == 0 or self.fold(at, s)):
                self.statements[at] = None
        return tuple(s for s in self.statements if s is not None)

    def fold(self, at: int, s: Assign) -> bool:
        """Fold the temporary at this place into its reader, if it may be."""
        readers = [k for k in self.readers[s.name] if k > at]
        if isinstance(s.expr, (Number, SizeOf)):
            for k in readers:
                reader = self.statements[k]
                self.statements[k] = None if reader is None else substituted(reader, s, inside=True)
            return not s.keep
        if self.reads[s.name] != 1 or not readers:
            return False
        folded = None if self.conflicts(at, readers[0], s.expr) else folded_into(self.statements[readers[0]], s)
        if folded is not None:
            self.statements[readers[0]] = folded
        return folded is not None

    def conflicts(self, at: int, reader: int, expr: Expr) -> bool:
        """Whether a block or something that changes what the expression reads is between two places."""
        names = {x.array if isinstance(x, Load) else x.name for x in subexpressions(expr) if isinstance(x, (Load, Var))}
        return any(between(places, at, reader) for places in (self.compound, *(self.writers.get(name, []) for name in names)))


def between(places: list[int], low: int, high: int) -> bool:
    """Whether one of some ordered places is between two others."""
    first = bisect_right(places, low)
    return first < len(places) and places[first] < high


def folded_into(reader: Statement | None, s: Assign) -> Statement | None:
    """The reader of a temporary with its expression in it, None where it would not be read better."""
    if reader is None or not any(x == Var(s.name) for e in own_expressions(reader) for x in subexpressions(e)):
        return None
    whole = isinstance(reader, (Store, Assign)) and reader.expr == Var(s.name)
    thrice = isinstance(reader, Accumulate) and reader.operator in ("max", "min") and isinstance(s.expr, Apply)
    long = isinstance(reader, For) and len(expr_text(s.expr)) > SHORT
    if long or s.keep and not whole or thrice:
        return None
    folded = substituted(reader, s, inside=False)
    if not whole and max(len(NUMBER.sub("", expr_text(e))) for e in own_expressions(folded)) > LONGEST:
        return None
    if isinstance(folded, (Assign, Store, Accumulate)) and folded.location is None:
        folded = replace(folded, location=s.location)
    return folded


def substituted(statement: Statement, s: Assign, inside: bool) -> Statement:
    return map_statement(statement, lambda e: s.expr if e == Var(s.name) else e, inside)


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
    """`a = a + x` as `a += x`, and so for -, * and /, with elements of arrays too; `a = a - x - y` as `a -= x + y`."""
    if isinstance(s, (For, While, If)):
        return rebuild(s, tuple(tuple(map(in_place, b)) for b in bodies(s)))
    if not isinstance(s, (Assign, Store)) or not isinstance(s.expr, Apply) or len(s.expr.operands) != 2:
        return s
    target = Var(s.name) if isinstance(s, Assign) else Load(s.array, s.index)
    operator = OPERATORS.get(s.expr.code)
    if operator in ("+", "-"):
        return added(s, target)
    first, second = s.expr.operands
    if operator == "*" and second == target:
        first, second = second, first
    if operator is None or first != target or any(x == target for x in subexpressions(second)):
        return s
    return Accumulate(target, operator, second, s.location)


def added(s: Assign | Store, target: Var | Load) -> Statement:
    """`a = a + x - y` as `a += x - y`."""
    terms = list(terms_of(s.expr))
    if terms.count((1, target)) != 1:
        return s
    terms.remove((1, target))
    if any(x == target for _, e in terms for x in subexpressions(e)):
        return s
    below = all(sign < 0 for sign, _ in terms)
    terms.sort(key=lambda term: term[0] < 0)
    total = terms[0][1]
    for sign, e in terms[1:]:
        total = Apply("{0} + {1}" if sign > 0 or below else "{0} - {1}", (total, e))
    return Accumulate(target, "-" if below else "+", total, s.location)


def terms_of(e: Expr, sign: int = 1) -> Iterator[tuple[int, Expr]]:
    """The terms of a sum, with their signs, as far as the sum goes on to the left."""
    if isinstance(e, Apply) and OPERATORS.get(e.code) in ("+", "-"):
        first, second = e.operands
        yield from terms_of(first, sign)
        yield sign if OPERATORS[e.code] == "+" else -sign, second
    else:
        yield sign, e


# ------------------------------------------------------------------------------------------------ stores
def filled_once(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Behind `a[:] = 0.0`, the first `a[2] += x` as `a[2] = x`."""
    result: list[Statement] = []
    fresh: dict[str, set[tuple[Expr, ...]]] = {}                # per array that is zero but for these elements
    for s in body:
        if isinstance(s, (For, While, If)):
            fresh = {}
            result.append(rebuild(s, tuple(map(filled_once, bodies(s)))))
            continue
        reads = {x.array for e in own_expressions(s) for x in subexpressions(e) if isinstance(x, Load)}
        for array in [a for a in fresh if a in reads or a in written_arrays((s,))]:
            known = fresh.pop(array)
            if array not in reads and isinstance(s, Accumulate) and isinstance(s.target, Load) and s.operator == "+" \
                    and all(is_fixed(i) for i in s.target.index):
                index = s.target.index
                s = s if index in known else Store(array, index, s.expr, s.location)
                known.add(index)
                fresh[array] = known
        if isinstance(s, Fill) and isinstance(s.expr, Number) and s.expr.value == 0:
            fresh[s.array] = set()
        result.append(s)
    return tuple(result)


def is_fixed(index: Expr) -> bool:
    """Whether this is a whole number, written in one way."""
    return isinstance(index, SizeOf) and index.dim.constant is not None


def with_effect(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Without `a = a`, `a[i] = a[i]` and `a += 0.0`, without loops that have nothing to do, and without headings of nothing."""
    result: list[Statement] = []
    for s in body:
        if isinstance(s, (For, While, If)):
            s = rebuild(s, tuple(map(with_effect, bodies(s))))
            if isinstance(s, If) and not s.body and s.orelse:
                s = If(Apply("not {0}", (s.condition,)), s.orelse)
        if not is_idle(s):
            if isinstance(s, Section) and result and isinstance(result[-1], Section):
                result.pop()
            result.append(s)
    return tuple(result[:-1] if result and isinstance(result[-1], Section) else result)


def is_idle(s: Statement) -> bool:
    """Whether a statement changes nothing."""
    if isinstance(s, (For, If)):
        return not s.body
    if isinstance(s, Assign):
        return s.expr == Var(s.name)
    if isinstance(s, Store):
        return s.expr == Load(s.array, s.index)
    return isinstance(s, Accumulate) and s.operator in ("+", "-") and isinstance(s.expr, Number) and s.expr.value == 0


# ------------------------------------------------------------------------------------------------ sizes
def sizes_folded(s: Statement) -> Statement:
    """Sums and differences of sizes and whole numbers as one size."""
    return map_statement(s, size_folded)


def size_folded(e: Expr) -> Expr:
    if not isinstance(e, Apply) or OPERATORS.get(e.code) not in ("+", "-"):
        return e
    first, second = map(whole, e.operands)
    if first is None or second is None or not any(isinstance(x, SizeOf) for x in e.operands):
        return e
    return SizeOf(first + second if e.code == "{0} + {1}" else first - second)


def whole(e: Expr) -> Dim | None:
    """A size or a whole number."""
    if isinstance(e, SizeOf):
        return e.dim
    return Dim.of(int(e.value)) if isinstance(e, Number) and e.dtype is DType.i64 else None     # type: ignore[arg-type]
