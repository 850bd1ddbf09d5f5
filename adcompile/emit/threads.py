"""The module of a program that is cut for threads: a numba function for each piece, and the plain Python that runs them.

    def loss_threads(w, X, y, w_bar, threads, run):

does what `loss_kernel(w, X, y, w_bar)` does. `run(function, calls)` makes the calls, at the same time if it can, and returns
their results in order; `[function(*call) for call in calls]` would do.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Cut,
    Expr,
    Fill,
    For,
    Load,
    Number,
    Segment,
    SharedLoop,
    SizeOf,
    Store,
    Var,
    assigned_names,
    own_expressions,
    subexpressions,
    walk,
)
from ..ir.types import DType, Type
from .emit import Printer

SCALAR = Type(DType.f64, ())            # stands for the type of a local scalar, which numba finds by itself


class CutPrinter:
    """Prints a program in pieces."""

    def __init__(self, cut: Cut, fastmath: bool, header: str) -> None:
        self.cut, self.program = cut, cut.program
        self.printer = Printer(replace(cut.program, buffers=cut.buffers), fastmath, header)
        self.arrays = [name for name, _ in (*self.program.parameters, *self.program.gradients)]
        self.shared = [*self.arrays, *(b.name for b in cut.buffers)]
        self.taken = {*self.shared, *assigned_names(self.program.body), *self.program.sizes.values(), self.program.interface.name}

    def name(self, wish: str) -> str:
        """A name that nothing in the program has."""
        while wish in self.taken:
            wish += "_"
        self.taken.add(wish)
        return wish

    def module(self) -> str:
        """The whole module."""
        self.first, self.last = self.name("first"), self.name("last")
        functions = [self.piece(p) for p in self.cut.pieces if not self.is_plain(p)]
        return self.printer.assemble([*functions, self.driver()])

    def is_plain(self, piece: Segment | SharedLoop) -> bool:
        """Whether a piece is so small that plain Python does it: numbers are set, results handed over."""
        numbers = (isinstance(s, (Assign, Fill)) and isinstance(s.expr, Number) for s in getattr(piece, "body", ()))
        plain = isinstance(piece, Segment) and all(numbers)
        if not plain:
            return False
        return piece is not self.cut.pieces[-1] or all(isinstance(e, Var) for e in self.program.returns)

    # ------------------------------------------------------------------------------------------------ numba functions
    def piece(self, piece: Segment | SharedLoop) -> str:
        """The numba function of a piece."""
        scalars = list(piece.takes)
        if isinstance(piece, Segment):
            returns = self.program.returns if piece is self.cut.pieces[-1] else tuple(map(Var, piece.gives))
            return self.function(piece.name, piece.body, scalars, returns, ())
        start = [Assign(name, zero) for name, zero in piece.sums]
        loop = replace(piece.loop, start=self.bound(piece.loop, self.first), stop=self.bound(piece.loop, self.last))
        returns = tuple(Var(name) for name, _ in (*piece.sums, *piece.extremes))
        return self.function(piece.name, (*start, loop), [*scalars, self.first, self.last], returns, piece.scratch)

    def bound(self, loop: For, name: str) -> Expr:
        """Where a thread begins or ends. An unsigned index cannot count from the end of an array, which numba would ask at every
        access; but it cannot be calculated with either: integers of both kinds make floats."""
        return Apply("np.uint64({0})", (Var(name),)) if loop.step > 0 and is_only_index(loop) else Var(name)

    def function(self, name: str, body: tuple, scalars: list[str], returns: tuple[Expr, ...], buffers: tuple) -> str:
        types = dict((*self.program.parameters, *self.program.gradients, *((b.name, b.type) for b in self.cut.buffers)))
        parameters = tuple((n, types.get(n, SCALAR)) for n in [*self.shared, *scalars])
        part = replace(self.program, parameters=parameters, gradients=(), buffers=buffers, body=body, returns=returns)
        printer = Printer(part, self.printer.fastmath, self.printer.header)
        printer.shown, printer.vector_functions = self.printer.shown, self.printer.vector_functions
        return printer.function(name, [n for n, _ in parameters])

    # ------------------------------------------------------------------------------------------------ the Python around
    def driver(self) -> str:
        """The function that runs the pieces."""
        threads, run, cuts, parts, part = map(self.name, ("threads", "run", "cuts", "parts", "part"))
        lines = [f"def {self.program.interface.name}_threads({', '.join([*self.arrays, threads, run])}):"]
        body = [*self.driver_sizes(), *map(self.printer.allocation, self.cut.buffers)]
        for piece in self.cut.pieces:
            if isinstance(piece, SharedLoop):
                body += self.share(piece, threads, run, cuts, parts, part)
            else:
                body += self.run_segment(piece)
        return "\n".join(lines + ["    " + line for line in body])

    def run_segment(self, piece: Segment) -> list[str]:
        """The lines for a stretch between shared loops; the last one returns the results."""
        last = piece is self.cut.pieces[-1]
        if self.is_plain(piece):
            lines = [line for s in piece.body for line in self.printer.statement(s, 0)]
            return [*lines, "return " + ", ".join(self.printer.expr(e) for e in self.program.returns)] if last else lines
        call = f"{piece.name}({', '.join([*self.shared, *piece.takes])})"
        return [f"return {call}" if last else f"{', '.join(piece.gives)} = {call}" if piece.gives else call]

    def driver_sizes(self) -> list[str]:
        """Reads of the sizes that the driver itself needs."""
        dims = [d for b in self.cut.buffers for d in b.type.dims]
        loops = [p.loop for p in self.cut.pieces if isinstance(p, SharedLoop)]
        body = tuple(Assign("", e) for loop in loops for e in (loop.start, loop.stop) if e is not None)
        body += tuple(Assign("", SizeOf(d)) for d in dims)
        return list(Printer(replace(self.program, body=body, buffers=(), returns=()), False, "").size_reads())

    def share(self, piece: SharedLoop, threads: str, run: str, cuts: str, parts: str, part: str) -> list[str]:
        """The lines that let threads run a loop and put their parts together."""
        own = {name: self.name(f"own_{name}") for name in piece.added}
        lines = [f"{cuts} = {self.bounds(piece.loop, threads)}"]
        lines += [f"{mine} = [{name}, *np.zeros(({threads} - 1, *{name}.shape), {name}.dtype)]" for name, mine in own.items()]
        arguments = [f"{own[n]}[{part}]" if n in own else n for n in (*self.shared, *piece.takes)]
        arguments += [f"{cuts}[{part}]", f"{cuts}[{part} + 1]"]
        results = [name for name, _ in (*piece.sums, *piece.extremes)]
        call = f"{run}({piece.name}, [({', '.join(arguments)}) for {part} in range({threads})])"
        lines.append(f"{parts} = {call}" if results else call)
        whole = len(results) == 1
        for k, (name, _) in enumerate(piece.sums):
            lines.append(f"{name} += sum({parts})" if whole else f"{name} += sum({part}[{k}] for {part} in {parts})")
        for k, (name, operator) in enumerate(piece.extremes, start=len(piece.sums)):
            lines.append(f"{name} = np.{operator}({parts})" if whole
                         else f"{name} = np.{operator}([{part}[{k}] for {part} in {parts}])")
        lines += [line for name, mine in own.items() for line in (f"for {part} in {mine}[1:]:", f"    {name} += {part}")]
        return lines

    def bounds(self, loop: For, threads: str) -> str:
        """Where the parts of a loop begin and end: multiples of its step apart."""
        start = Number(0, DType.i64) if loop.start is None else loop.start
        k = self.name("k")
        self.taken.discard(k)
        length = Apply("{0} - {1}", (loop.stop, start)) if loop.start else loop.stop
        turns = length if loop.step == 1 else Apply("-(-{0} // {1})", (length, Number(loop.step, DType.i64)))
        share: Expr = Apply(f"max({{0}}, 0) * {k} // {threads}" if loop.start else f"{{0}} * {k} // {threads}", (turns,))
        if loop.step > 1:
            share = Apply("min({0} * {1}, {2})", (share, Number(loop.step, DType.i64), length))
        place = Apply("{0} + {1}", (start, share)) if loop.start else share
        return f"[{self.printer.expr(place)} for {k} in range({threads} + 1)]"


def is_only_index(loop: For) -> bool:
    """Whether a loop's index stands alone wherever it is read, as the index of an array."""
    read = [x for s in walk(loop.body) for e in own_expressions(s) for x in subexpressions(e)]
    accesses = [x for x in read if isinstance(x, Load)]
    accesses += [Load(s.array, s.index) for s in walk(loop.body) if isinstance(s, Store)]
    accesses += [s.target for s in walk(loop.body) if isinstance(s, Accumulate) and isinstance(s.target, Load)]
    return read.count(Var(loop.index)) == sum(x.index.count(Var(loop.index)) for x in accesses)


def emit_threads(cut: Cut, *, fastmath: bool = True, header: str = "generated by adcompile") -> str:
    """The module text of a program cut for threads."""
    return CutPrinter(cut, fastmath, header).module()


