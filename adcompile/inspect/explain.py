"""One page about a compiled function: what was captured, what became of each line, loops, memory, guards, time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.analysis import live_operations
from ..ir.core import Function, Location, Operation, walk
from ..ir.loops import Accumulate, Assign, For, Program, Section, Statement, Store, While
from ..ir.loops import walk as walk_statements
from .cost import CALLS, cost_of, said, table
from .inactive import inactive_lines
from .view import View

LOOPS = ("for", "while")


def explain(view: View, specialisations: Sequence[Any]) -> str:
    """The page. `specialisations`: all that the function has so far."""
    parts = [
        ("captured", captured(view)), ("loops of yours", own_loops(view)), ("lines", lines(view)),
        ("loops of the kernel", kernel_loops(view)), ("kept between loops", kept(view)), ("work and memory", work(view)),
        ("assumed", assumed(view)), ("specialisations", specialised(view, specialisations)), ("time", seconds(view))]
    page = [f"{view.name}{view.compiled.signature.python}"]
    for title, found in parts:
        body = list(found)
        if body:
            page += ["", title, *(f"  {line}".rstrip() for line in body)]
    return "\n".join(page)


def captured(view: View) -> Iterator[str]:
    """Inputs and what they are; how large the graph is."""
    function = view.function
    for k, (parameter, each) in enumerate(zip(function.params, view.compiled.signature.inputs)):
        kind = "differentiated" if k in view.wrt else "constant"
        outside = "" if each.text.split("[")[0].split(".")[0] in view.compiled.signature.arguments else ", read at every call"
        yield f"{each.text}: {in_code(view, str(parameter.type))}, {kind}{outside}"
    operations = list(walk(function.body))
    yield f"{len(operations)} operations on {len({o.location for o in operations if o.location})} lines"
    yield from inactive_lines(view)


def stage(view: View, name: str) -> Function:
    """The graph after a pass."""
    found: Function = next(s.value for s in view.compiled.stages if s.name == name)
    return found


def own_loops(view: View) -> Iterator[str]:
    """What became of the user's loops."""
    left = {o.location for o in walk(stage(view, "dce raised").body) if o.op in LOOPS}
    for operation in walk(view.function.body):
        if operation.op in LOOPS:
            verdict = "stays a loop: a turn needs the one before, or ends it" if operation.location in left \
                else "became array operations: its turns do not need each other"
            yield f"{place(operation.location)}  -> {verdict}"


def place(location: Location | None) -> str:
    """A line of the user's."""
    return f"line {location.line}  {location.source}" if location else "elsewhere"


def lines(view: View) -> Iterator[str]:
    """What each line became, forward and backward, after all passes."""
    function = stage(view, "dce")
    primal = len(function.results) - len(view.wrt)
    before = set(live_operations(function.body.operations, function.results[:primal]))
    sides: dict[Location | None, tuple[Counter[str], Counter[str]]] = {}

    def note(operation: Operation, backward: bool) -> None:
        if operation.op not in ("size", "constant", "iota"):
            sides.setdefault(operation.location, (Counter(), Counter()))[backward][operation.op] += 1
        for region in operation.regions:
            for inner in region.operations:
                note(inner, backward)

    for operation in function.body.operations:
        note(operation, operation not in before)
    for location in sorted(sides, key=lambda x: (x.file, x.line) if x else ("", 0)):
        forward, backward = sides[location]
        yield place(location)
        yield f"    forward   {counted(forward)}"
        if view.wrt:
            yield f"    backward  {counted(backward)}"


def counted(found: Counter[str]) -> str:
    """Operations with how often they occur."""
    return ", ".join(op if n == 1 else f"{n} {op}" for op, n in found.items()) or "nothing"


def kernel_loops(view: View) -> Iterator[str]:
    """The loop nests: what runs together. What is kept in an array between them says why they are apart."""
    program: Program = view.compiled.stage("loops")
    section = ""
    for statement in program.body:
        if isinstance(statement, Section):
            section = statement.text
        elif isinstance(statement, (For, While)):
            head = f"for {statement.index}" if isinstance(statement, For) else "while"
            together = sorted({s.location.line for s in walk_statements((statement,))
                               if isinstance(s, (Assign, Store, Accumulate)) and s.location})
            numbers = ", ".join(map(str, together))
            where = f"line{'s' * (len(together) != 1)} {numbers}" if together else "no line of yours"
            yield f"{head}, {nesting(statement)} deep: {where}" + (f"  ({section})" if section else "")


def kept(view: View) -> Iterator[str]:
    """The arrays between loops: what did not run together, and why."""
    for buffer in view.compiled.stage("loops").buffers:
        yield f"{buffer.name}: {in_code(view, str(buffer.type))}, {in_code(view, buffer.why)}"


def in_code(view: View, text: str) -> str:
    """A text with sizes as the kernel calls them."""
    sizes = view.compiled.stage("loops").sizes
    return re.sub(r"\w+", lambda m: sizes.get(m.group(), m.group()), text)


def nesting(statement: Statement) -> int:
    """How deep loops are nested in a statement."""
    inner = [nesting(s) for s in walk_statements((statement,)) if s is not statement]
    return isinstance(statement, (For, While)) + max(inner, default=0)


def work(view: View) -> Iterator[str]:
    """The sums of f.cost."""
    cost = cost_of(view)
    yield from (line.removeprefix("  ") for line in table(
        [("", "arithmetic", CALLS), *((name, said(cost, c.flops), said(cost, c.calls))
                                      for name, c in (("forward", cost.forward), ("backward", cost.backward)))]))
    yield f"residuals: {said(cost, cost.residuals)} bytes; allocated at most: {said(cost, cost.peak_memory)} bytes"


def assumed(view: View) -> Iterator[str]:
    """Guards, and the types of the inputs."""
    yield from (in_code(view, str(guard)) for guard in stage(view, "dce").guards)
    yield from (f"{check.text} is the object that it was" for check in view.compiled.signature.checks)


def specialised(view: View, specialisations: Sequence[Any]) -> Iterator[str]:
    """All meanings compiled so far, and where their machine code came from."""
    for each in specialisations:
        this = "  <- this page" if each.stages is view.compiled else ""
        origin = "machine code from the disk cache" if each.module.loaded_from_cache else "compiled in this process"
        yield f"{each!r}: {origin}{this}"


def seconds(view: View) -> Iterator[str]:
    """How long each stage took."""
    names = {"capture": "capture", "autodiff": "differentiate", "passes": "optimize", "loops": "schedule", "source": "emit",
             "kernel": "machine code"}
    total: Counter[str] = Counter()
    for s in view.compiled.stages:
        total[names.get(s.kept_as, s.kept_as)] += s.seconds       # type: ignore[assignment]
    yield ", ".join(f"{name} {1e3 * spent:.1f} ms" for name, spent in total.items())
