"""Cuts a program at its heavy loops, so that threads can share their turns.

Turns can be shared where they do not need each other. What a loop writes decides:

    a scalar that only grows by += or -=, max= or min=     every thread has its own, put together afterwards
    an array that only grows by += or -=                   likewise
    an array that is used nowhere else                     every thread has its own
    an array whose entries carry the loop's index          all threads write into it, each its entries

Everything else stays on one thread. Parts are put together in their order: results depend on the number of threads alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Break,
    Buffer,
    Cut,
    Expr,
    Fill,
    For,
    If,
    Load,
    Number,
    Program,
    Rename,
    Segment,
    SharedLoop,
    SizeOf,
    Statement,
    Store,
    Var,
    assigned_names,
    bodies,
    own_expressions,
    subexpressions,
    walk,
    written_arrays,
)

SHARE = 0.1                 # a loop with less than this part of all work is not worth a piece of its own
COSTLY = 10                 # rough operations in a call of exp, log and the like


def cut(program: Program, sizes: Mapping[str, int]) -> Cut | None:
    """The program in pieces, for calls of about these sizes; None where threads would have nothing to share."""
    if any(isinstance(s, (Alloc, Rename)) for s in walk(program.body)):
        return None
    total = work_of(program.body).evaluate(sizes)
    pieces: list[Segment | SharedLoop] = []
    serial: list[Statement] = []
    for statement in program.body:
        shared = None
        if isinstance(statement, For) and work_of((statement,)).evaluate(sizes) >= SHARE * total:
            shared = Sharing(program, statement).found()
        if shared is None:
            serial.append(statement)
        else:
            pieces += [segment(serial), shared]
            serial = []
    pieces.append(segment(serial))
    loops = [p for p in pieces if isinstance(p, SharedLoop)]
    work = sum((work_of((p.loop,)) for p in loops), start=Dim.of(0))
    if 2 * work.evaluate(sizes) < total:
        return None
    scratch = {b for p in loops for b in p.scratch}
    return Cut(program, connected(program, pieces), tuple(b for b in program.buffers if b not in scratch), work)


# ------------------------------------------------------------------------------------------------ work
def work_of(statements: Iterable[Statement]) -> Dim:
    """Roughly how many operations statements take, as a polynomial in the sizes. A loop over a computed range, or over the
    lanes of a tile, counts as one turn: the tiles' own loop counts every lane."""
    total = Dim.of(0)
    for s in statements:
        own = Dim.of(sum(weight(e) for x in own_expressions(s) for e in subexpressions(x)) + 1)
        inside = sum((work_of(body) for body in bodies(s)), start=Dim.of(0))
        total = total + own + inside * turns_of(s)
    return total


def turns_of(s: Statement) -> Dim:
    """Roughly how often a statement's body runs; where several turns are done at once, the loop over those left over counts."""
    if not isinstance(s, For) or not isinstance(s.stop, SizeOf) or s.unrolled > 1:
        return Dim.of(1)
    return s.stop.dim


def weight(expr: Expr) -> int:
    """Rough operations of one node."""
    code = getattr(expr, "code", None)
    return 0 if code is None else COSTLY if "(" in code.replace("({", "") and "." in code else 1


# ------------------------------------------------------------------------------------------------ one loop
@dataclass
class Sharing:
    """Finds out how threads could share the turns of one loop."""

    program: Program
    loop: For
    sums: dict[str, Number] = field(default_factory=dict)
    extremes: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)

    def found(self) -> SharedLoop | None:
        """The shared loop; None where its turns need each other."""
        if self.loop.step < 1 or leaves(self.loop.body):
            return None
        if not all(self.takes_scalar(name) for name in sorted(self.carried_scalars())):
            return None
        if not all(self.takes_array(name) for name in sorted(written_arrays(self.loop.body))):
            return None
        return SharedLoop("", self.loop, (), tuple(self.sums.items()), tuple(self.extremes.items()), tuple(self.added),
                          tuple(self.scratch))

    # -------------------------------------------------------------------------------------------- scalars
    def carried_scalars(self) -> set[str]:
        """Scalars set in a turn that outlive it: read before they are set, added to without being set, or read after the loop."""
        carried: set[str] = set()
        trace_scalars(self.loop.body, set(), carried)
        after = names_read(self.following())
        return (carried | after) & assigned_names(self.loop.body) - indices(self.loop.body)

    def following(self) -> list[Statement]:
        """What runs after the loop."""
        body = self.program.body
        rest: list[Statement] = list(body[next(k for k, s in enumerate(body) if s is self.loop) + 1:])
        return [*rest, *(Assign("", e) for e in self.program.returns)]

    def takes_scalar(self, name: str) -> bool:
        """Whether a carried scalar only grows in the loop."""
        grown = [s for s in walk(self.loop.body) if isinstance(s, Accumulate) and s.target == Var(name)]
        if any(isinstance(s, Assign) and s.name == name for s in walk(self.loop.body)) or name in names_read(self.loop.body):
            return False
        operators = {s.operator for s in grown}
        if operators <= {"+", "-"}:
            start = self.start_of(name)
            if start is None:
                return False
            self.sums[name] = Number(type(start.value)(0), start.dtype)
            return True
        if operators in ({"max"}, {"min"}):
            self.extremes[name] = operators.pop()
            return True
        return False

    def start_of(self, name: str) -> Number | None:
        """The number that a sum starts from, which tells its type."""
        starts = [s.expr for s in self.program.body if isinstance(s, Assign) and s.name == name]
        return starts[0] if len(starts) == 1 and isinstance(starts[0], Number) else None

    # -------------------------------------------------------------------------------------------- arrays
    def takes_array(self, name: str) -> bool:
        """Whether threads can write an array side by side, or have one each."""
        own = [b for b in self.program.buffers if b.name == name]
        outside = [s for s in self.program.body if s is not self.loop]
        if own and name not in arrays_used(outside) and Var(name) not in self.program.returns:
            self.scratch += own
            return True
        if self.entries_are_apart(name):
            return True
        writers = [s for s in walk(self.loop.body) if name in written_arrays((s,)) and not bodies(s)]
        grown = all(isinstance(s, Accumulate) and s.operator in ("+", "-") for s in writers)
        if grown and name not in arrays_read(self.loop.body):
            self.added.append(name)
            return True
        return False

    def entries_are_apart(self, name: str) -> bool:
        """Whether no two turns touch the same entry: along some axis, all touch the one with the loop's own index."""
        places = list(touched(self.loop.body, name))
        if not places or any(p is None for p in places):
            return False
        rank = min(len(p) for p in places if p is not None)
        return any(all(p is not None and self.is_own(p[axis]) and p[axis] == places[0][axis] for p in places)
                   for axis in range(rank) if places[0] is not None)

    def is_own(self, index: Expr) -> bool:
        """Whether an index is different in every turn: the loop's, or that of a lane in the loop's tile."""
        if index == Var(self.loop.index):
            return True
        operands = getattr(index, "operands", ())
        if getattr(index, "code", "") != "{0} + {1}" or Var(self.loop.index) not in operands:
            return False
        lane = next((o for o in operands if o != Var(self.loop.index)), None)
        loops = [s for s in walk(self.loop.body) if isinstance(s, For) and Var(s.index) == lane]
        return bool(loops) and all(s.start is None and s.step == 1 and self.stays_in_tile(s.stop) for s in loops)

    def stays_in_tile(self, stop: Expr) -> bool:
        """Whether a lane index below `stop` is below the tile's length: `min(tile, ...)`, or a name for that."""
        if isinstance(stop, Var):
            named = [s.expr for s in walk(self.loop.body) if isinstance(s, Assign) and s.name == stop.name]
            return len(named) == 1 and self.stays_in_tile(named[0])
        operands = getattr(stop, "operands", ())
        return getattr(stop, "code", "").startswith("min(") and any(
            isinstance(o, Number) and o.value == self.loop.step for o in operands)


def leaves(body: Iterable[Statement]) -> bool:
    """Whether a `break` in these statements leaves the loop around them."""
    return any(isinstance(s, Break) or isinstance(s, If) and any(map(leaves, bodies(s))) for s in body)


def trace_scalars(body: Iterable[Statement], known: set[str], carried: set[str]) -> set[str]:
    """Follow a turn: names that are read or added to before they are set go into `carried`; the names that are set."""
    known = set(known)
    for s in body:
        carried |= {e.name for x in own_expressions(s) for e in subexpressions(x) if isinstance(e, Var)} - known
        if isinstance(s, Accumulate) and isinstance(s.target, Var) and s.target.name not in known:
            carried.add(s.target.name)
        inner = [trace_scalars(b, known | ({s.index} if isinstance(s, For) else set()), carried) for b in bodies(s)]
        if isinstance(s, Assign):
            known.add(s.name)
        elif inner and len(inner) == 2:                                     # an `if` with both branches
            known |= set.intersection(*inner)
    return known


def indices(body: tuple[Statement, ...]) -> set[str]:
    return {s.index for s in walk(body) if isinstance(s, For)}


def names_read(statements: Iterable[Statement]) -> set[str]:
    return {e.name for s in walk(tuple(statements)) for x in own_expressions(s) for e in subexpressions(x) if isinstance(e, Var)}


def arrays_read(statements: Iterable[Statement]) -> set[str]:
    read = [e for s in walk(tuple(statements)) for x in own_expressions(s) for e in subexpressions(x)]
    return {e.array for e in read if isinstance(e, Load)} | names_read(statements)


def arrays_used(statements: Iterable[Statement]) -> set[str]:
    return arrays_read(statements) | written_arrays(tuple(statements))


def touched(body: tuple[Statement, ...], array: str) -> Iterable[tuple[Expr, ...] | None]:
    """The places of an array that statements read or write; None for the whole of it."""
    for s in walk(body):
        if isinstance(s, Fill) and s.array == array:
            yield None
        if isinstance(s, Store) and s.array == array:
            yield s.index
        if isinstance(s, Accumulate) and isinstance(s.target, Load) and s.target.array == array:
            yield s.target.index
        for expr in own_expressions(s):
            for e in subexpressions(expr):
                if isinstance(e, Load) and e.array == array:
                    yield e.index
                elif e == Var(array):
                    yield None


# ------------------------------------------------------------------------------------------------ pieces
def segment(body: list[Statement]) -> Segment:
    return Segment("", tuple(body), (), ())


def connected(program: Program, pieces: list[Segment | SharedLoop]) -> tuple[Segment | SharedLoop, ...]:
    """The pieces with names, and with the scalars that they hand to each other."""
    made: list[Segment | SharedLoop] = []
    known: set[str] = set()
    last = len(pieces) - 1
    for k, piece in enumerate(pieces):
        name = f"{program.interface.name}_{k + 1}"
        if isinstance(piece, SharedLoop):
            needed = names_read((piece.loop,)) | {n for n, _ in piece.extremes}
            made.append(SharedLoop(name, piece.loop, tuple(sorted((needed - {n for n, _ in piece.sums}) & known)), piece.sums,
                                   piece.extremes, piece.added, piece.scratch))
            continue
        grown = {s.target.name for s in walk(piece.body) if isinstance(s, Accumulate) and isinstance(s.target, Var)}
        takes = (names_read(piece.body) | grown) & known
        if k == last:
            takes |= {e.name for x in program.returns for e in subexpressions(x) if isinstance(e, Var)} & known
        later = {n for p in pieces[k + 1:] for n in needed_by(p)} | names_read([Assign("", e) for e in program.returns])
        gives = (assigned_names(piece.body) - indices(piece.body)) & later if k != last else set()
        known |= gives
        made.append(Segment(name, piece.body, tuple(sorted(takes)), tuple(sorted(gives))))
    return tuple(made)


def needed_by(piece: Segment | SharedLoop) -> set[str]:
    """The scalars that a piece reads or adds to."""
    body = (piece.loop,) if isinstance(piece, SharedLoop) else piece.body
    grown = {s.target.name for s in walk(body) if isinstance(s, Accumulate) and isinstance(s.target, Var)}
    return names_read(body) | grown
