"""The computation counted: arithmetic, calls of functions, bytes; per operation and per line, forward and backward apart.

What is counted is the graph after all passes: what the kernel computes. Sizes stay symbols, so counts are polynomials in them;
with arguments they are numbers too. A sum of n numbers is n - 1 operations, a product of matrices 2 n m k, exp one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.analysis import live_operations
from ..ir.core import Block, Function, Literal, Location, Operation, Value, walk
from ..ir.dims import Dim
from ..ir.interpreter import interpret
from ..ir.loops import Load as LoadExpr
from ..ir.loops import Program, Statement, own_expressions, subexpressions, written_arrays
from ..ir.loops import walk as walk_statements
from ..ir.op import TABLE, elements
from ..ir.types import Type
from .view import View

ZERO = Dim.of(0)
CALLS = "exp, log, ..."


@dataclass(frozen=True)
class Count:
    """Arithmetic operations, calls of functions such as exp, and the bytes of all operands and results (as if each operation
    ran alone)."""

    flops: Dim = ZERO
    calls: Dim = ZERO
    bytes: Dim = ZERO

    def __add__(self, other: Count) -> Count:
        return Count(self.flops + other.flops, self.calls + other.calls, self.bytes + other.bytes)

    def times(self, number: Dim) -> Count:
        """So many of it."""
        return Count(self.flops * number, self.calls * number, self.bytes * number)

    def renamed(self, rename: Callable[[Dim], Dim]) -> Count:
        """In terms of other sizes."""
        return Count(rename(self.flops), rename(self.calls), rename(self.bytes))


@dataclass
class Machine:
    """What this machine reaches on one thread, and what a call reached."""

    flops: float                # a second, in a product of matrices
    bytes: float                # a second, in a copy of a large array
    seconds: float              # a call of the kernel took


@dataclass
class Cost:
    """The counts. All are polynomials (`Dim`) in the sizes; `number(x)` is one for the given arguments."""

    name: str
    forward: Count
    backward: Count
    by_op: dict[str, Count]
    by_line: dict[Location | None, tuple[Count, Count]]
    moved: Dim                                      # bytes that loops read and write, each array once a loop nest
    residuals: Dim                                  # bytes of forward values that the backward pass reads
    buffers: tuple[tuple[str, Dim, str], ...]       # what the kernel allocates: name, bytes, why
    gradients: Dim
    sizes: dict[str, int] | None = None
    notes: tuple[str, ...] = ()
    machine: Machine | None = None

    @property
    def total(self) -> Count:
        """Forward and backward."""
        return self.forward + self.backward

    @property
    def peak_memory(self) -> Dim:
        """Bytes that a call allocates at most: buffers and gradients."""
        return sum((size for _, size, _ in self.buffers), self.gradients)

    def number(self, count: Dim) -> int | None:
        """A count for the given arguments; None without them."""
        if count.constant is not None:
            return count.constant
        return None if self.sizes is None or not count.symbols <= set(self.sizes) else count.evaluate(self.sizes)

    @property
    def ratio(self) -> float | None:
        """Backward over forward, arithmetic and calls alike; None without arguments."""
        forward, backward = (self.number(c.flops + c.calls) for c in (self.forward, self.backward))
        return backward / forward if forward and backward is not None else None

    @property
    def intensity(self) -> float | None:
        """Arithmetic operations and calls for each byte moved; None without arguments."""
        work, moved = self.number(self.total.flops + self.total.calls), self.number(self.moved)
        return work / moved if work is not None and moved else None

    def __str__(self) -> str:
        return "\n".join(cost_lines(self))

    __repr__ = __str__


# ---------------------------------------------------------------------------------------------------- counting
def cost_of(view: View) -> Cost:
    """The cost of a view's function."""
    function, program = view.compiled.stage("passes"), view.compiled.stage("loops")
    assert isinstance(function, Function) and isinstance(program, Program)
    counter = Counter(function, view)
    primal = len(function.results) - len(view.wrt)
    before = set(live_operations(function.body.operations, function.results[:primal]))
    for operation in function.body.operations:
        counter.operation(operation, Dim.of(1), operation not in before)

    def rename(count: Dim) -> Dim:
        return count.substitute(lambda s: Dim.symbol(program.sizes.get(s, s)))

    sizes = None if counter.sizes is None else {program.sizes.get(s, s): n for s, n in counter.sizes.items()}
    buffers = tuple((b.name, rename(size_in_bytes(b.type)), b.why) for b in program.buffers)
    gradients = sum((size_in_bytes(t) for _, t in program.gradients), ZERO)
    return Cost(view.name, counter.sides[False].renamed(rename), counter.sides[True].renamed(rename),
                {op: c.renamed(rename) for op, c in counter.by_op.items()},
                {place: (a.renamed(rename), b.renamed(rename)) for place, (a, b) in counter.by_line.items()},
                rename(bytes_moved(program)), rename(residual_bytes(function, before)), buffers, rename(gradients), sizes,
                tuple(counter.notes))


def size_in_bytes(type: Type) -> Dim:
    """What a value takes."""
    return elements(type) * type.dtype.numpy.itemsize


@dataclass
class Counter:
    """Adds up the operations of a graph. A loop counts as often as it turns, where that is a size; else (and of branches) what
    happens is counted in a run on the arguments, and without arguments a symbol stands for the turns."""

    function: Function
    view: View
    sides: dict[bool, Count] = field(default_factory=lambda: {False: Count(), True: Count()})
    by_op: dict[str, Count] = field(default_factory=dict)
    by_line: dict[Location | None, tuple[Count, Count]] = field(default_factory=dict)
    integers: dict[Value, Dim] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sizes: dict[str, int] | None = None
    runs: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        function, values = self.function, self.view.values
        if values is None:
            return
        self.sizes = {s: int(values[z.parameter]) if z.axis is None else int(np.shape(values[z.parameter])[z.axis])
                      for s, z in function.sizes.items()}
        if any(o.op in ("while", "cond", "extent") for o in walk(function.body)):
            self.run(values)

    def run(self, values: tuple[Any, ...]) -> None:
        """Count how often each operation runs, and note the sizes that are computed."""
        def observe(operation: Operation, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
            self.runs[operation] = self.runs.get(operation, 0) + 1
            if operation.op == "extent" and self.sizes is not None:
                self.sizes[operation.attributes["symbol"]] = int(results[0])

        interpret(self.function, values, observe)

    def operation(self, operation: Operation, times: Dim | None, backward: bool) -> None:
        """Count an operation that runs so many times; None: as often as in the run."""
        self.learn(operation)
        if operation.regions:
            turns = self.turns(operation)
            inside = None if times is None or turns is None else times * turns
            for region in operation.regions:
                self.region(region, inside, backward)
            return
        found = count_of(operation).times(Dim.of(self.runs.get(operation, 0)) if times is None else times)
        self.sides[backward] += found
        self.by_op[operation.op] = self.by_op.get(operation.op, Count()) + found
        forward_part, backward_part = self.by_line.get(operation.location, (Count(), Count()))
        self.by_line[operation.location] = ((forward_part, backward_part + found) if backward
                                            else (forward_part + found, backward_part))

    def region(self, region: Block, times: Dim | None, backward: bool) -> None:
        """Count a region."""
        for operation in region.operations:
            self.operation(operation, times, backward)

    def learn(self, operation: Operation) -> None:
        """Remember which integers are sizes."""
        if operation.op == "size":
            self.integers[operation.result] = operation.attributes["dim"]
        elif operation.op == "extent":
            self.integers[operation.result] = Dim.symbol(operation.attributes["symbol"])
        elif operation.op in ("add", "sub", "mul") and all(self.known(x) is not None for x in operation.operands):
            a, b = (self.known(x) for x in operation.operands)
            assert a is not None and b is not None
            self.integers[operation.result] = a + b if operation.op == "add" else a - b if operation.op == "sub" else a * b

    def known(self, x: Any) -> Dim | None:
        """The size that an integer is, None where it is not known to be one."""
        if isinstance(x, Literal):
            return Dim.of(int(x.value.real)) if x.dtype.is_integer else None
        if isinstance(x, Value) and x.name in self.function.sizes and self.function.sizes[x.name].axis is None:
            return Dim.symbol(x.name)
        return self.integers.get(x)

    def turns(self, operation: Operation) -> Dim | None:
        """How often the regions of an operation run each time; None: only the run can tell."""
        if operation.op == "for":
            lo, hi = (self.known(x) for x in operation.operands[:2])
            if lo is not None and hi is not None:
                return hi - lo
        if self.runs:
            self.note("Within branches, and loops whose turns are no size, counts are those of this call.")
            return None
        if operation.op == "cond":
            self.note("Both branches of conditions are counted; with arguments, those that run.")
            return Dim.of(1)
        self.note("`turns` stands for how often a loop turns, which its arguments decide.")
        return Dim.symbol("turns")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


def count_of(operation: Operation) -> Count:
    """One operation, once."""
    row = TABLE[operation.op]
    result = operation.results[0].type
    work = row.work(operation.operands, result, operation.attributes)
    moved = sum((size_in_bytes(x.type) for x in operation.operands if isinstance(x, Value)), ZERO)
    moved = sum((size_in_bytes(y.type) for y in operation.results), moved)
    return Count(ZERO, work, moved) if row.is_function else Count(work, ZERO, moved)


def residual_bytes(function: Function, before: set[Operation]) -> Dim:
    """The forward values that the backward pass reads, which a tape would keep."""
    made = {y for o in before for y in o.results}
    read: set[Value] = set()
    for operation in function.body.operations:
        if operation not in before:
            inner = Block((), (operation,), ())
            read.update(x for o in walk(inner) for x in (*o.operands, *(y for r in o.regions for y in r.yields))
                        if isinstance(x, Value) and x in made)
    return sum((size_in_bytes(v.type) for v in read), ZERO)


def bytes_moved(program: Program) -> Dim:
    """Bytes read and written by loops: each array once for each outermost loop that touches it."""
    types: dict[str, Type] = {**dict(program.parameters), **dict(program.gradients), **{b.name: b.type for b in program.buffers}}
    types |= {name: Type.of(constant.dtype, *constant.shape) for name, constant in program.constants}
    total = ZERO
    for statement in program.body:
        total = sum((size_in_bytes(types[a]) for a in touched(statement) if a in types and types[a].dims), total)
    return total


def touched(statement: Statement) -> set[str]:
    """The arrays that a statement and those inside it read or write."""
    found = written_arrays((statement,))
    for inner in walk_statements((statement,)):
        for expr in own_expressions(inner):
            found.update(e.array for e in subexpressions(expr) if isinstance(e, LoadExpr))
    return found


def cost_texts(view: View) -> Callable[[Operation], str]:
    """What to say of an operation's own cost, for each time it runs."""
    program = view.compiled.stage("loops")

    def text(operation: Operation) -> str:
        found = count_of(operation).renamed(lambda d: d.substitute(lambda s: Dim.symbol(program.sizes.get(s, s))))
        parts = [(found.flops, "operations"), (found.calls, "calls"), (found.bytes, "bytes")]
        return ", ".join(f"{count} {word}" for count, word in parts if count != ZERO)

    return text


# ---------------------------------------------------------------------------------------------------- the machine
def measured(seconds: float) -> Machine:
    """The peaks of this machine on one core, in NumPy: a product of matrices, a copy."""
    a = np.random.default_rng(0).random((400, 400))
    source, target = np.ones(4_000_000), np.empty(4_000_000)
    product = fastest(lambda: a @ a)
    copy = fastest(lambda: np.copyto(target, source))
    return Machine(2 * 400**3 / product, 2 * source.nbytes / copy, seconds)


def fastest(call: Callable[[], Any], budget: float = 0.15) -> float:
    """The least time of a call, in seconds."""
    call()
    least, until = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < until:
        started = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - started)
    return max(least, 1e-9)


# ---------------------------------------------------------------------------------------------------- text
def said(cost: Cost, count: Dim) -> str:
    """A count as a polynomial, and as a number where arguments were given."""
    number = cost.number(count)
    return str(count) if count.constant is not None or number is None else f"{count} = {number}"


def cost_lines(cost: Cost) -> Iterator[str]:
    """What `print` shows."""
    sizes = "" if not cost.sizes else " at " + ", ".join(f"{k} = {v}" for k, v in cost.sizes.items())
    yield f"cost of {cost.name}{sizes}"
    rows = [("", "arithmetic", CALLS)]
    rows += [(name, said(cost, c.flops), said(cost, c.calls))
             for name, c in (("forward", cost.forward), ("backward", cost.backward), ("total", cost.total))]
    yield from table(rows)
    if cost.ratio is not None:
        yield f"  backward / forward   {cost.ratio:.2f}"
    yield f"  bytes moved          {said(cost, cost.moved)}" + (
        f", {cost.intensity:.2f} operations a byte" if cost.intensity is not None else "")
    yield f"  residuals            {said(cost, cost.residuals)} bytes of forward values that the backward pass reads"
    yield f"  allocated at most    {said(cost, cost.peak_memory)} bytes, {said(cost, cost.gradients)} of them gradients"
    if cost.buffers:
        yield "buffers, in bytes"
        yield from table([(name, said(cost, size), why) for name, size, why in cost.buffers])
    yield "by line"
    yield from table(list(line_rows(cost)))
    yield "by operation"
    yield from table([(op, said(cost, c.flops), said(cost, c.calls)) for op, c in ranked(cost, cost.by_op)])
    yield from cost.notes
    if cost.machine is not None:
        yield from machine_lines(cost, cost.machine)


def ranked(cost: Cost, counts: Mapping[str, Count]) -> list[tuple[str, Count]]:
    """Those that compute something, the most work first."""
    some = [(name, c) for name, c in counts.items() if c.flops != ZERO or c.calls != ZERO]
    return sorted(some, key=lambda item: -(cost.number(item[1].flops + item[1].calls) or 0))


def line_rows(cost: Cost) -> Iterator[tuple[str, str, str, str]]:
    """Forward and backward work of every line."""
    yield "", "forward", "backward", ""
    for place, (forward, backward) in sorted(cost.by_line.items(), key=lambda item: item[0].line if item[0] else 0):
        if forward + backward != Count(ZERO, ZERO, (forward + backward).bytes):
            yield (f"line {place.line}" if place else "elsewhere", said(cost, forward.flops + forward.calls),
                   said(cost, backward.flops + backward.calls), place.source if place else "")


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  " + "   ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip()


def machine_lines(cost: Cost, machine: Machine) -> Iterator[str]:
    """A call compared with what the machine can do."""
    work, moved = cost.number(cost.total.flops + cost.total.calls), cost.number(cost.moved)
    if work is None or moved is None:
        return
    least = max(work / machine.flops, moved / machine.bytes)
    bound = "arithmetic" if work / machine.flops >= moved / machine.bytes else "memory"
    peaks = f"{machine.flops / 1e9:.1f} GFLOP/s in a product of matrices, {machine.bytes / 1e9:.1f} GB/s in a copy"
    yield f"on this machine ({peaks})"
    yield f"  a call takes {machine.seconds * 1e6:.1f} us: {work / machine.seconds / 1e9:.2f} GFLOP/s, " \
          f"{moved / machine.seconds / 1e9:.2f} GB/s"
    yield f"  by {bound} it could take {least * 1e6:.1f} us: {100 * least / machine.seconds:.0f} % of the peak is reached"
