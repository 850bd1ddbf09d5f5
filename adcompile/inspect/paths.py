"""The gradient as a sum over paths: from an argument to the result, the product of the local derivatives along each path.

Paths are counted by dynamic programming, so a graph with 10**12 of them answers at once; so are the largest ones found, where
all values on the way are numbers (the size of a product is then the product of the sizes). Where arrays are on the way a path
is one through operations, its factors are linear maps, and its product is what the cotangent 1 becomes when it is pulled back
along the path: an array like the argument. The sum of all of them is the gradient in both cases.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..differentiate.activity import active_values, carries_derivative
from ..errors import DifferentiationError
from ..ir.core import Location, Operation, Value, walk
from ..ir.interpreter import interpret
from ..ir.signature import leaves
from ..pipeline import inner_gradient
from .expression import value_text, yielded
from .graph import linear_labels
from .local import partials_block, pull_back_block
from .tape import Entry, Slot, Tape
from .view import View

MOST_MULTIPLIED = 2000              # paths of arrays up to which all products are taken
MOST_SHOWN = 10                     # values on a path that are printed
MOST_WRITTEN = 20                   # paths up to which the sum is written out


@dataclass(frozen=True, eq=False)
class Step:
    """One local derivative: from one value to another. `number` is known where both are numbers of a run."""

    start: Any
    end: Any
    text: str
    number: float | None = None
    entry: Entry | None = None
    place: int = 0


@dataclass(frozen=True)
class Path:
    """One way from the argument to the result. `product` is a number, or an array like the argument; None without values."""

    names: tuple[str, ...]
    factors: tuple[str, ...]
    numbers: tuple[float | None, ...]
    product: Any = None

    @property
    def expression(self) -> str:
        """The product, written out: `b*1`."""
        return "*".join(map(factor_text, self.factors)) or "1"

    def __str__(self) -> str:
        product = "" if self.product is None else f" = {value_text(self.product)}"
        factors = elided([factor_text(f) for f in self.factors])
        return f"{' -> '.join(elided(self.names))}:  {'*'.join(factors) or '1'}{product}"


@dataclass(frozen=True)
class Paths:
    """All paths from one argument to the result. `listed` are the largest (all, where they are few); `total` is the sum over all
    paths and `gradient` what the compiler's reverse mode gives, both None without values."""

    name: str
    wrt: str
    result: str
    count: int
    listed: tuple[Path, ...]
    total: Any = None
    gradient: Any = None
    at: str = ""
    precision: float = 1e-8

    @property
    def expression(self) -> str:
        """The sum of the products, written out: `2*1 + b*1`. Refused where there are too many paths."""
        if self.count > MOST_WRITTEN or self.count > len(self.listed):
            raise DifferentiationError(f"{self.count} paths lead from {self.wrt} to {self.result}: their sum is not written out",
                                       do="Look at .listed, the largest of them, and at .total.")
        return " + ".join(p.expression for p in self.listed) or "0"

    @property
    def agrees(self) -> bool:
        """Whether the sum over all paths is the gradient, up to rounding."""
        if self.total is None:
            return False
        largest = max((float(np.max(np.abs(p.product), initial=0.0)) for p in self.listed), default=0.0)
        tolerance = self.precision * max(largest * 1e-3, 1e-4)                  # what cancels leaves rounding behind
        return bool(np.allclose(self.total, self.gradient, self.precision, tolerance, equal_nan=True))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self) -> Iterator[str]:
        """What `print` shows."""
        some = "" if len(self.listed) == self.count else f", the {len(self.listed)} largest" if self.listed else ""
        counted = f"{self.count} path{'s' * (self.count != 1)}"
        at = f" at {self.at}" if self.at else ""
        yield f"d {self.result} / d {self.wrt}{at}: {counted}{some}"
        yield from (f"  {path}" for path in self.listed)
        if self.count <= MOST_WRITTEN and len(self.listed) == self.count > 0:
            yield f"  sum: {self.expression}" + ("" if self.total is None else f" = {value_text(self.total)}")
        elif self.total is not None:
            yield f"  sum of all: {value_text(self.total)}"
        if self.gradient is not None:
            verdict = "the same as" if self.agrees or self.total is None else "NOT"
            said = "gradient" if self.total is None else f"{verdict} the gradient"
            yield f"  {said}: {value_text(self.gradient)}"


def elided(texts: Sequence[str]) -> list[str]:
    """The first and last of many."""
    return list(texts) if len(texts) <= MOST_SHOWN else [*texts[:MOST_SHOWN // 2], "...", *texts[-MOST_SHOWN // 2 + 1:]]


def factor_text(text: str) -> str:
    """A factor in a product: in parentheses where it is a sum or product itself."""
    simple = text.isidentifier() or text.replace(".", "", 1).isdigit() or text.endswith(")") and text.split("(")[0].isidentifier()
    return text if simple else f"({text})"


# ---------------------------------------------------------------------------------------------------- the steps of a graph
@dataclass
class Steps:
    """All local derivatives between an argument and the result, in the order of computation."""

    source: Any
    target: Any
    into: dict[Any, list[Step]] = field(default_factory=lambda: defaultdict(list))
    order: list[Any] = field(default_factory=list)           # values after the source, each once
    names: Callable[[Any], str] = str

    def add(self, step: Step) -> None:
        """One more."""
        if step.end not in self.into:
            self.order.append(step.end)
        self.into[step.end].append(step)

    def counts(self) -> dict[Any, int]:
        """How many paths lead from the source to each value."""
        found = {self.source: 1}
        for value in self.order:
            found[value] = sum(found.get(s.start, 0) for s in self.into[value])
        return found

    def useful(self) -> set[Any]:
        """The values from which a path leads to the target."""
        found = {self.target}
        for value in reversed(self.order):
            if value in found:
                found.update(s.start for s in self.into[value])
        return found


def partial_texts(operation: Operation) -> list[str]:
    """The local derivative in every operand, as an expression."""
    block = partials_block(operation)
    return linear_labels(operation) if block is None else yielded(block)


def steps_of_run(tape: Tape, source: Slot, target: Slot) -> Steps:
    """The steps of a run: a loop's turns are told apart."""
    number = {id(s): k for slots in tape.slots.values() if len(slots) > 1 for k, s in enumerate(slots)}

    def name(slot: Slot) -> str:
        own = "" if slot.of is None else slot.of.name
        return f"{own}#{number[id(slot)]}" if id(slot) in number else own

    steps = Steps(source, target, names=name)
    for entry in tape.entries:
        if not any(y.varies for y in entry.results):
            continue
        texts, (_, places) = partial_texts(entry.operation), pull_back_block(entry.operation)
        (end,) = entry.results
        for k in places:
            start = entry.operands[k]
            if start.varies:
                steps.add(Step(start, end, texts[k], number_of_step(tape, entry, k), entry, k))
    return steps


def number_of_step(tape: Tape, entry: Entry, place: int) -> float | None:
    """A local derivative between two numbers."""
    if np.ndim(entry.results[0].value) or np.ndim(entry.operands[place].value):
        return None
    wanted = [k == place for k in range(len(entry.operands))]
    return float(tape.pull(entry, [np.ones_like(entry.results[0].value)], wanted)[place])


def steps_of_graph(view: View, source: Value, target: Value) -> Steps:
    """The steps of a graph without values. A loop has as many paths as it has turns, so it is refused."""
    steps = Steps(source, target, names=lambda value: str(value.name))
    active = active_values(view.function.body, [source], [target])
    for operation in view.function.body.operations:
        if not any(y in active for y in operation.results):
            continue
        if operation.regions:
            raise DifferentiationError(f"the paths through a {operation.op} depend on how it runs", operation.location,
                                       "Give arguments: f.paths(at=(...)).")
        texts, (_, places) = partial_texts(operation), pull_back_block(operation)
        for k in places:
            start = operation.operands[k]
            if start in active:
                steps.add(Step(start, operation.result, texts[k]))
    return steps


# ---------------------------------------------------------------------------------------------------- paths
def paths_of(view: View, wrt: Any, most: int) -> Paths:
    """All paths from an argument to the first result; `most`: how many to list."""
    index = argument_index(view, wrt)
    parameter, result = view.function.params[index], view.function.results[0]
    text = view.compiled.signature.inputs[index].text
    if not carries_derivative(parameter) or parameter.type.dtype.is_complex:
        raise DifferentiationError(f"{text} is made of {parameter.type.dtype.value}: no derivative goes through it",
                                   place_of(view), f"Pass {text} as floats.")
    if not isinstance(result, Value) or result.type.dims or not result.type.dtype.is_float:
        raise DifferentiationError(f"{view.name} does not return one real number as its first result", place_of(view))
    if view.values is None:
        steps = steps_of_graph(view, parameter, result)
        return listed(view, steps, text, result.name, most, None)
    tape = Tape(view.function, view.values, (index,))
    steps = steps_of_run(tape, tape.inputs[index], tape.results[0])
    hints = {symbol: size for symbol, size in tape.sizes.items() if symbol in view.function.sizes}
    gradient = interpret(inner_gradient(view.function, (index,), None, hints), view.values)[-1]
    return listed(view, steps, text, result.name, most, (tape, gradient))


def listed(view: View, steps: Steps, wrt: str, result: str, most: int, run: tuple[Tape, Any] | None) -> Paths:
    """Count the paths and list the largest."""
    useful = steps.useful()
    steps.order = [v for v in steps.order if v in useful]
    count = steps.counts().get(steps.target, 0)
    scalar = all(s.number is not None for v in steps.order for s in steps.into[v])
    if run is None:
        return Paths(view.name, wrt, result, count, tuple(found_paths(steps, every_way(steps, most), False)))
    tape, gradient = run
    at = ", ".join(f"{i.text} = {value_text(v)}" for i, v in zip(view.compiled.signature.inputs, view.values or ()))
    if scalar:
        ways = every_way(steps, count) if count <= most else largest(steps, most)
        found = tuple(found_paths(steps, ways, True))
        return Paths(view.name, wrt, result, count, found, total_of(steps), gradient, at, precision(view))
    if count > MOST_MULTIPLIED:
        return Paths(view.name, wrt, result, count, (), None, gradient, at)
    all_ways = list(every_way(steps, count))
    products = [pulled_along(tape, steps, way) for way in all_ways]
    order = list(range(len(all_ways)))
    if count > most:
        order.sort(key=lambda k: -float(np.max(np.abs(products[k]), initial=0.0)))
    found = tuple(path_of(steps, all_ways[k], products[k]) for k in order[:most])
    total = sum(products, np.zeros_like(steps.source.value))
    return Paths(view.name, wrt, result, count, found, total, gradient, at, precision(view))


def precision(view: View) -> float:
    """To how much two orders of computing agree: the root of the unit of the coarsest floats."""
    types = {y.type.dtype.numpy for o in walk(view.function.body) for y in o.results if y.type.dtype.is_float}
    return max((float(np.sqrt(np.finfo(t).eps)) for t in types), default=1e-8)


def total_of(steps: Steps) -> float:
    """The sum over all paths of their products, by dynamic programming."""
    found = {steps.source: 1.0}
    for value in steps.order:
        found[value] = math.fsum(found[s.start] * (s.number or 0.0) for s in steps.into[value] if s.start in found)
    return found.get(steps.target, 0.0)


def every_way(steps: Steps, most: int) -> Iterator[list[Step]]:
    """Paths one by one, up to so many."""
    reaches = {steps.source, *(v for v, n in steps.counts().items() if n)}
    stack: list[tuple[Any, list[Step]]] = [(steps.target, [])]
    while stack and most > 0:
        value, way = stack.pop()
        if value is steps.source:
            most -= 1
            yield way
            continue
        stack += [(s.start, [s, *way]) for s in reversed(steps.into.get(value, ())) if s.start in reaches]


def largest(steps: Steps, most: int) -> Iterator[list[Step]]:
    """The paths with the largest products, by dynamic programming: at each value only the best so far are kept."""
    best: dict[Any, list[tuple[float, int, Step | None, int]]] = {steps.source: [(1.0, 0, None, 0)]}
    for value in steps.order:
        found = [(size * magnitude(s.number), -k, s, rank) for k, s in enumerate(steps.into[value])
                 for rank, (size, *_) in enumerate(best.get(s.start, ()))]
        best[value] = heapq.nlargest(most, found, key=lambda each: each[:2])
    for rank in range(len(best.get(steps.target, ()))):
        way: list[Step] = []
        value, place = steps.target, rank
        while value is not steps.source:
            _, _, step, place = best[value][place]
            assert step is not None
            way.insert(0, step)
            value = step.start
        yield way


def magnitude(number: float | None) -> float:
    """The size of a factor; NaN counts as the largest, since it decides the sum."""
    return math.inf if number is None or math.isnan(number) else abs(number)


def found_paths(steps: Steps, ways: Iterator[list[Step]], numbers: bool) -> Iterator[Path]:
    """Paths of steps, with their products where numbers are known."""
    for way in ways:
        yield path_of(steps, way, math.prod(s.number or 0.0 for s in way) if numbers else None)


def path_of(steps: Steps, way: list[Step], product: Any) -> Path:
    """A path in words."""
    names = (steps.names(steps.source), *(steps.names(s.end) for s in way))
    return Path(names, tuple(s.text for s in way), tuple(s.number for s in way), product)


def pulled_along(tape: Tape, steps: Steps, way: list[Step]) -> Any:
    """What the cotangent 1 of the result becomes along one path."""
    cotangent: Any = np.ones_like(steps.target.value)
    for step in reversed(way):
        assert step.entry is not None
        wanted = [k == step.place for k in range(len(step.entry.operands))]
        cotangent = tape.pull(step.entry, [cotangent], wanted)[step.place]
    return cotangent


# ---------------------------------------------------------------------------------------------------- which argument
def argument_index(view: View, wrt: Any) -> int:
    """The parameter that an argument's name, position or text means; by default the first that is differentiated."""
    signature = view.compiled.signature
    texts = [i.text for i in signature.inputs]
    if wrt is None:
        trees = signature.wrt or tuple(signature.arguments.values())[:1]
        found = [i for tree in trees[:1] for i in leaves(tree)]
    elif isinstance(wrt, str) and wrt in texts:
        found = [texts.index(wrt)]
    else:
        names = list(signature.arguments)
        name = names[wrt] if isinstance(wrt, int) and -len(names) <= wrt < len(names) else wrt
        found = leaves(signature.arguments[name]) if name in signature.arguments else []
    if len(found) != 1:
        known = ", ".join(map(repr, texts))
        what = "is a structure of several" if found else "is no argument"
        raise DifferentiationError(f"wrt={wrt!r} {what}; paths start at one number or array", place_of(view),
                                   f"Use one of {known}.")
    return found[0]


def place_of(view: View) -> Location | None:
    """The first line of the function, for messages."""
    return next((o.location for o in view.function.body.operations if o.location is not None), None)
