"""The last names: those of the user for what stands for the same variable, without numbers, where they are free.

What was x_2 in the graph, x_2_1 where it is computed again, and x_2_saved_1 where it is kept, is called x, x and x_saved.
Two values share a name if neither is needed while the other is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    Rename,
    SizeOf,
    Statement,
    Store,
    Var,
    While,
    bodies,
    subexpressions,
    walk,
)
from ..ir.types import DType
from .liveness import needed_apart
from .names import INSTANCE, LOOP_NAMES, is_unnamed
from .rewriting import map_expr, map_statement, rebuild

ADJOINT = re.compile(r"(t(?:_\d+)?)_bar")
NUMBER = re.compile(r"_\d+(?=_|$)")
WORD = re.compile(r"[^\W\d]\w*")


class Renamer:
    """Finds new names. `taken`: names that mean something else everywhere; `parameters`: scalars that the function gets."""

    def __init__(self, body: Sequence[Statement], returns: Sequence[Expr], taken: set[str], parameters: set[str]) -> None:
        self.body, self.returns = tuple(body), tuple(returns)
        self.parameters = parameters
        self.users = {w for line in set(map(source_of, walk(self.body))) for w in WORD.findall(line)}
        self.locals = list(dict.fromkeys(s.index if isinstance(s, For) else s.name
                                         for s in walk(self.body) if isinstance(s, (For, Assign))))
        self.indices = {s.index for s in walk(self.body) if isinstance(s, For)}
        self.sharers = {*self.indices, *(name for name in (*self.locals, *parameters) if not is_unnamed(name))}
        self.apart = needed_apart(body, returns, parameters & self.sharers, self.sharers)
        self.whole = self.whole_numbers()
        self.taken = taken - {*self.locals} - parameters
        self.new: dict[str, str] = {}
        self.sharing: dict[str, list[str]] = {name: [name] for name in parameters}
        self.temporaries = 0                            # the number of the last temporary
        self.latest: dict[str, str] = {}                # what a value's local is called where it was set last

    def whole_numbers(self) -> set[str]:
        """Indices of loops, and what is computed from nothing else: names are not shared by numbers of different types."""
        found = set(self.indices)
        for s in walk(self.body):
            if isinstance(s, Assign) and all(is_whole(x, found) for x in subexpressions(s.expr)):
                found.add(s.name)
        return found

    def run(self, arrays: Sequence[str]) -> dict[str, str]:
        """Old names to new ones. `arrays`: those that may be renamed."""
        for name in arrays:
            self.taken.discard(name)
        for name in arrays:
            self.new[name] = next(w for w in self.wishes(name) if w not in self.taken and w not in self.parameters)
            self.taken.add(self.new[name])
        first = self.returns[0] if self.returns else None
        if isinstance(first, Var) and first.name in self.locals and is_unnamed(first.name) and self.free("value", first.name):
            self.give(first.name, "value")
        for name in self.locals:
            if name not in self.new:
                self.give(name, next(w for w in self.wishes(name) if self.free(w, name)))
        return self.new

    def give(self, name: str, new: str) -> None:
        self.new[name] = new
        self.sharing.setdefault(new, []).append(name)
        self.latest[name.split(INSTANCE)[0]] = new

    def free(self, wish: str, name: str) -> bool:
        """Whether a local may be called this; temporaries and what is called after one stay apart."""
        others = self.sharing.get(wish, [])
        if wish in self.taken or others and not self.sharers.issuperset((name, *others)):
            return False
        return not any(other in self.apart[name] or (other in self.whole) != (name in self.whole) for other in others)

    def wishes(self, name: str) -> Iterator[str]:
        """Names in the order in which they would suit."""
        if name in self.indices:
            stem = self.stem(name.removesuffix("_turn"))
            named = [other for other in self.apart[name] if other not in self.indices and not is_unnamed(other)]
            if all(self.stem(other) != stem for other in named):
                yield stem
            yield from (letter for letter in LOOP_NAMES if letter != stem)
        elif is_unnamed(name) and name in self.locals:
            found = ADJOINT.match(name)
            primal = self.latest.get(found[1]) if found else None
            if primal:
                yield f"{primal}_bar"
            while True:                                 # what is not free for one is not for the next
                self.temporaries += 1
                yield f"t{self.temporaries}"
        else:
            stem = self.stem(name).replace("_saved_saved", "_saved").removeprefix("t_")
            yield stem
            if stem.endswith("_bar"):
                yield f"{stem}_sum"
        yield from (f"{stem}_{k}" for k in range(1, 2 + len(self.locals) + len(self.taken)))

    def stem(self, name: str) -> str:
        """The name without the numbers that the compiler put on it."""
        name = name.split(INSTANCE)[0] + name.partition(INSTANCE)[2].lstrip("0123456789")
        name = name.rstrip("_")
        while name not in self.users:
            numbers = list(NUMBER.finditer(name))
            if not numbers:
                break
            last = numbers[-1]
            if name[:last.end()] in self.users:
                break
            name = name[:last.start()] + name[last.end():]
        return name


def is_whole(e: Expr, known: set[str]) -> bool:
    """Whether this is a whole number, if what is in it is."""
    if isinstance(e, Apply):
        return e.code in ("{0} + {1}", "{0} - {1}", "{0} * {1}")
    return isinstance(e, SizeOf) or isinstance(e, Var) and e.name in known or isinstance(e, Number) and e.dtype is DType.i64


def source_of(s: Statement) -> str:
    """The user's line that a statement comes from."""
    location = getattr(s, "location", None)
    return "" if location is None else str(location.source)


# ------------------------------------------------------------------------------------------------ applying
def rename(
    body: tuple[Statement, ...], returns: tuple[Expr, ...], new: dict[str, str]
) -> tuple[tuple[Statement, ...], tuple[Expr, ...]]:
    """The program under new names."""

    def name(old: str) -> str:
        return new.get(old, old)

    def change(e: Expr) -> Expr:
        if isinstance(e, Var):
            return Var(name(e.name))
        return Load(name(e.array), e.index) if isinstance(e, Load) else e

    def statement(s: Statement) -> Statement:
        if isinstance(s, (For, While, If)):
            s = rebuild(s, tuple(tuple(map(statement, b)) for b in bodies(s)), change)
            return replace(s, index=name(s.index)) if isinstance(s, For) else s
        s = map_statement(s, change)
        if isinstance(s, Assign):
            return replace(s, name=name(s.name))
        if isinstance(s, (Store, Fill, Alloc)):
            return replace(s, array=name(s.array))
        if isinstance(s, Accumulate):
            target = change(s.target)
            assert isinstance(target, (Var, Load))
            return replace(s, target=target)
        if isinstance(s, Rename):
            return Rename(tuple(map(name, s.arrays)), tuple(map(name, s.others)))
        return s

    return tuple(map(statement, body)), tuple(map_expr(e, change) for e in returns)


def new_names(body: tuple[Statement, ...], returns: tuple[Expr, ...], taken: set[str], parameters: set[str],
              arrays: Sequence[str]) -> dict[str, str]:
    """Old names to new ones, of local scalars, indices of loops and these arrays (and those allocated on the way)."""
    allocated = [s.array for s in walk(body) if isinstance(s, Alloc)]
    return Renamer(body, returns, taken, parameters).run(list(dict.fromkeys([*arrays, *allocated])))
