"""The hooks for statements that steer (see lowering.py for what calls them). With concrete conditions and iterables they do
what Python does; traced ones become `cond`, `for` and `while` of the IR."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ..errors import AdcompileError, CaptureError
from ..ir.analysis import CAN_RAISE
from .branch import condition, follow, stage_branch
from .failure import fail
from .flow import BREAK, CONTINUE, Flow, returned
from .inputs import is_container
from .iterables import Staged, as_staged, bounds, of_range
from .loop import Loop
from .state import PLACEHOLDERS, Snapshot
from .stores import Retrace
from .symint import UNROLL_LIMIT, SymInt, TracedRange
from .text import MESSAGES, Written
from .trace import Trace, current_trace
from .tracer import Tracer
from .where import user_location

FEW_TURNS = 8  # a loop with a known number of turns is unrolled up to this
MOST_TURNS = 256  # a loop over known numbers whose body cannot be staged is unrolled up to this
Thunk = Callable[[], Any]

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


class ControlHooks:
    """The part of a `Scope` that steers."""

    BREAK, CONTINUE = BREAK, CONTINUE
    returned = staticmethod(returned)

    def local(self, name: str, value: Any) -> Any:
        """The value of a variable that a block of statements assigns."""
        return value.read(name) if isinstance(value, PLACEHOLDERS) else value

    def result(self, flow: Flow | None) -> Any:
        """What the function returns."""
        if flow is None:
            return None
        if flow.returned is not True:
            raise CaptureError(
                "the function returns a value on some paths of a traced condition and none on others",
                user_location(),
                "end every path with a `return`",
            )
        return flow.value

    def settled(self, flow: Flow | None) -> Flow | None:
        """How a statement inside of a `with` or a `try` was left, which must not be traced."""
        if flow is not None and flow.traced:
            raise CaptureError(
                "a `break`, `continue` or `return` under a traced condition leaves a `with`, `try` or `match` statement",
                user_location(),
                "put the `with` or `try` inside of the branch, or around the whole loop",
            )
        return flow

    # ------------------------------------------------------------------------------------------------ failures
    def failing(self, make: Thunk) -> Any:
        """The exception of a `raise` statement."""
        trace = current_trace()
        if trace is None:
            return make()
        with MESSAGES:
            error = make()
            error = error() if isinstance(error, type) and issubclass(error, Exception) else error
        if isinstance(error, Exception):
            trace.raised = error, user_location()
        return error

    def sure(self, test: Any, message: Thunk | None = None) -> None:
        """`assert test, message`."""
        trace = current_trace()
        truth = known(trace, test, "assert")
        if not isinstance(truth, Tracer):
            if not truth:
                raise self.failing(lambda: assertion(message))
            return
        assert trace is not None
        with MESSAGES:
            error = assertion(message)
        fail(trace, trace.operator(np.logical_not, truth).value, error, user_location())

    def shown(self, value: Any, written: str) -> Any:
        """A value in the message of an error."""
        return Written(f"<{written}>") if isinstance(value, Tracer) else value

    @contextmanager
    def trying(self, kinds: Thunk) -> Iterator[None]:
        """The body of a `try` whose handlers are for these exceptions."""
        trace = current_trace()
        if trace is not None:
            trace.handlers.append(kinds)
        try:
            yield
        finally:
            if trace is not None:
                trace.handlers.pop()

    # ------------------------------------------------------------------------------------------------ conditions
    def branch(self, test: Any, body: Thunk | None, orelse: Thunk | None, rest: Thunk | None) -> Flow | None:
        """`if test: body  else: orelse`, then `rest` unless the block was left."""
        trace = current_trace()
        truth = known(trace, test, "if")
        if not isinstance(truth, Tracer):
            chosen = body if truth else orelse
            flow: Flow | None = None if chosen is None else chosen()
            return continued(trace, flow, rest)
        assert trace is not None
        flow, done = stage_branch(trace, truth, [body, orelse], rest, [])
        return flow if done else follow(trace, flow, rest)

    def choose(self, test: Any, body: Thunk, orelse: Thunk) -> Any:
        """`body if test else orelse`."""
        trace = current_trace()
        truth = known(trace, test, "if-else")
        if not isinstance(truth, Tracer):
            return body() if truth else orelse()
        assert trace is not None
        flow, _ = stage_branch(trace, truth, [lambda: returned(body()), lambda: returned(orelse())], None, [body, orelse])
        assert flow is not None
        return flow.value

    def combine(self, word: str, first: Any, *others: Thunk) -> Any:
        """`first and second and ...`, or the same with `or`: from the left, each evaluated only where it decides."""
        trace = current_trace()
        result = first
        for number, other in enumerate(others):
            truth = known(trace, result, word)
            if not isinstance(truth, Tracer):
                if bool(truth) != (word == "and"):
                    return result
                result = other()
                continue
            remaining = others[number:]
            return self.both(
                trace,
                word,
                truth,
                result,
                lambda remaining=remaining: self.combine(word, remaining[0](), *remaining[1:]),  # type: ignore[misc]
                remaining,
            )
        return result

    def both(self, trace: Any, word: str, truth: Tracer, left: Tracer, right: Thunk, roots: Iterable[Any]) -> Any:
        """`left and right` for a traced left side. A right side that can do no harm is always evaluated."""
        if left.dtype.kind == "b":
            region = trace.region()
            snapshot = Snapshot(trace, roots)
            with trace.inside(region):
                value = right()
            harmless = all(o.op not in FAILING and not o.regions for o in region.operations) and not region.before
            plain = isinstance(value, Tracer) and value.dtype.kind == "b" and not value.ndim
            if plain and harmless and not snapshot.changed(snapshot.before):
                trace.adopt(region)
                return trace.operator(np.logical_and if word == "and" else np.logical_or, truth, value)
            snapshot.restore()
        sides = [lambda: returned(right()), lambda: returned(left)]
        flow, _ = stage_branch(trace, truth, sides if word == "and" else sides[::-1], None, list(roots))
        assert flow is not None
        return flow.value

    def compare(self, names: tuple[str, ...], left: Any, *operands: Thunk) -> Any:
        """`a < b < c`: every operand is evaluated once, and only while the comparisons hold."""
        right = operands[0]()
        first = COMPARE[names[0]](left, right)
        if len(names) == 1:
            return first
        return self.combine("and", first, lambda: self.compare(names[1:], right, *operands[1:]))

    def negate(self, value: Any) -> Any:
        """`not value`."""
        truth = known(current_trace(), value, "not")
        return truth.trace.operator(np.logical_not, truth) if isinstance(truth, Tracer) else not truth

    # ------------------------------------------------------------------------------------------------ loops
    def loop(self, iterable: Any, body: Callable[[Any], Any], orelse: Thunk | None, rest: Thunk | None) -> Flow | None:
        """`for item in iterable: body  else: orelse`, then `rest` unless the block was left."""
        trace = current_trace()
        if trace is not None:
            iterable = trace.inputs.materialise(iterable)
        flow = unrolled(trace, iter(iterable), body) if trace is None else run_for(trace, iterable, body)
        return end_of_loop(trace, flow, orelse, rest)

    def repeat(self, test: Thunk, body: Thunk, orelse: Thunk | None, rest: Thunk | None) -> Flow | None:
        """`while test: body  else: orelse`, then `rest` unless the block was left."""
        trace = current_trace()
        if trace is None:
            flow: Flow | None = None
            while flow is None and test():
                flow = body()
                flow = None if flow is CONTINUE else flow
        else:
            flow = While(trace, test, body).run()
        return end_of_loop(trace, flow, orelse, rest)

    def collect(self, iterable: Any, function: Callable[[Any], list[Any]], single: bool) -> Any:
        """`[f(item) for item in iterable]`; `function(item)` gives the list for one item."""
        trace = current_trace()
        iterable = iterable if trace is None else trace.inputs.materialise(iterable)
        if trace is None or not single or not is_long(iterable):
            return [x for item in iterable for x in function(item)]
        return gather_items(trace, iterable, function)

    def generate(self, iterable: Any, function: Callable[[Any], list[Any]], single: bool) -> Any:
        """`(f(item) for item in iterable)`. Over a traced range it is a list."""
        trace = current_trace()
        iterable = iterable if trace is None else trace.inputs.materialise(iterable)
        if trace is None or not single or not isinstance(iterable, (TracedRange, Staged, Tracer)):
            return (x for item in iterable for x in function(item))
        return gather_items(trace, iterable, function)


FAILING = frozenset({*CAN_RAISE, "gather", "scatter_set", "scatter_add", "slice_set", "contract"})


def assertion(message: Thunk | None) -> AssertionError:
    """The error of an `assert`."""
    return AssertionError() if message is None else AssertionError(message())


def known(trace: Trace | None, x: Any, construct: str) -> Any:
    """A condition as Python has it, or a traced bool."""
    if isinstance(x, Tracer):
        x.trace.check_open()
        return condition(x.trace, x, construct)
    return trace.inputs.materialise(x) if trace is not None and is_container(x) else x


def continued(trace: Trace | None, flow: Flow | None, rest: Thunk | None) -> Flow | None:
    """Go on with what follows a statement."""
    if flow is None or trace is None:
        result: Flow | None = rest() if flow is None and rest is not None else flow
        return result
    return follow(trace, flow, rest)


def end_of_loop(trace: Trace | None, flow: Flow | None, orelse: Thunk | None, rest: Thunk | None) -> Flow | None:
    """What follows a loop: its `else` unless it was left by `break`, then `rest`."""
    if flow is None:
        flow = orelse() if orelse is not None else None
    elif flow.broke is True:
        flow = None
    elif isinstance(flow.broke, Tracer):
        assert trace is not None
        after = Flow(returned=flow.returned, value=flow.value) if flow.returned is not False else None
        if orelse is None:
            flow = after
        else:
            flow, _ = stage_branch(trace, flow.broke, [lambda: after, lambda: follow(trace, after, orelse)], None, [orelse])
    elif flow.returned is not True and orelse is not None:
        assert trace is not None
        flow = follow(trace, flow, orelse)
    return continued(trace, flow, rest)


def unrolled(trace: Trace | None, items: Iterator[Any], body: Callable[[Any], Any], limit: int | None = None) -> Flow | None:
    """Run a loop turn by turn. After a turn that may have left it, all others depend on that."""
    for number, item in enumerate(items):
        if limit is not None and number >= limit:
            raise_too_long(number)
        flow = body(item)
        if flow is None or flow is CONTINUE:
            continue
        if not flow.traced:
            return flow  # type: ignore[no-any-return]
        remaining = list(items)
        assert trace is not None
        left = Flow(broke=flow.broke, returned=flow.returned, value=flow.value)
        rest = functools.partial(unrolled, trace, iter(remaining), body)
        after: Flow | None = follow(trace, left, rest) if left.traced else rest()
        return after
    return None


def raise_too_long(number: int) -> NoReturn:
    raise CaptureError(
        f"a loop that cannot become a loop of the compiled function runs more than {number} times",
        user_location(),
        "use whole-array operations (NumPy functions)",
    )


def is_long(iterable: Any) -> bool:
    """Whether a loop over an iterable is to be staged if that is possible."""
    if isinstance(iterable, range):
        return len(iterable) > FEW_TURNS
    trace = current_trace()
    staged = None if trace is None else as_staged(trace, iterable)
    return staged is not None and not (isinstance(staged.count, int) and staged.count <= FEW_TURNS)


def run_for(trace: Trace, iterable: Any, body: Callable[[Any], Any]) -> Flow | None:
    """A `for` statement in traced code."""
    if not is_long(iterable):
        return unrolled(trace, iter(iterable), body)
    if isinstance(iterable, range):
        first = try_turns(trace, [lambda: body(iterable[0])], [body])
        if first is not None:
            flow = first[0]
            if flow is not None and flow is not CONTINUE:
                return flow  # type: ignore[no-any-return]
            return unrolled(trace, iter(iterable[1:]), body)
    staged = of_range(trace, iterable) if isinstance(iterable, range) else as_staged(trace, iterable)
    assert staged is not None
    roots = Snapshot(trace, [body])
    try:
        return Loop(trace, [body], body.__code__, staged.count).run_for(staged, bounds(iterable), body)
    except Retrace:
        raise
    except (AdcompileError, NameError, TypeError, IndexError, KeyError, ValueError) as error:
        roots.restore()
        count = actual_count(trace, staged.count)
        limit = MOST_TURNS if isinstance(iterable, range) else UNROLL_LIMIT
        if count is None or count > limit:
            raise explained(error, count, limit) from error
    return unrolled(trace, iter(iterable), body)


def explained(error: Exception, count: int | None, limit: int) -> Exception:
    """The error of a loop that can neither be staged nor unrolled."""
    if count is not None and isinstance(error, AdcompileError):
        note = f"the loop around it runs {count} times here; up to {limit} turns would be unrolled, with known numbers as index"
        return type(error)(error.what, error.where, f"{error.do}\n  ({note})" if error.do else f"({note})")
    return error


def actual_count(trace: Trace, count: Any) -> int | None:
    """How many turns there are in this call, None where that is traced."""
    if isinstance(count, SymInt):
        return None if trace.sizes.is_computed(count.dim) else trace.sizes.actual(count.dim)
    return None if isinstance(count, Tracer) else int(count)


def try_turns(trace: Trace, turns: list[Thunk], roots: list[Any]) -> list[Any] | None:
    """Run turns that might do nothing traced. If they do, they are undone, and the result is None."""
    snapshot = Snapshot(trace, roots)
    guards, replaced = list(trace.sizes.guards), dict(trace.sizes.replaced)
    region = trace.region()
    flows: list[Any] = []
    with trace.inside(region):
        flows = [turn() for turn in turns]
        quiet = not region.operations and not region.before
    if quiet and not any(isinstance(flow, Flow) and flow.traced for flow in flows):
        return flows
    snapshot.restore()
    trace.sizes.guards[:], trace.sizes.replaced = guards, replaced
    return None


def gather_items(trace: Trace, iterable: Any, function: Callable[[Any], list[Any]]) -> Any:
    """The items of a comprehension over a traced iterable: a list that a loop fills."""
    items: list[Any] = []
    holder = [items]

    def __adcompile__turn(item: Any) -> None:
        holder[0].append(function(item)[0])

    run_for(trace, iterable, __adcompile__turn)
    return holder[0]


class While:
    """A `while` statement in traced code. It runs turn by turn as long as its condition is known, for a few turns; then, or
    where the condition is traced or depends on sizes, it becomes a loop of the compiled function."""

    def __init__(self, trace: Trace, test: Thunk, body: Thunk) -> None:
        self.trace, self.test, self.body = trace, test, body
        self.guards = (list(trace.sizes.guards), dict(trace.sizes.replaced))

    def run(self) -> Flow | None:
        """Run it."""
        trace = self.trace
        snapshot = Snapshot(trace, [self.test, self.body])
        region = trace.region()
        with trace.inside(region):
            finished, flow = self.turns(region)
            contents = {cell: cell.contents for cell in region.before}
        if finished:
            trace.adopt(region)
            for cell, value in contents.items():
                trace.write(cell, value)
            return flow
        snapshot.restore()
        after = (list(trace.sizes.guards), dict(trace.sizes.replaced))
        trace.sizes.guards[:], trace.sizes.replaced = self.guards[0], self.guards[1]
        try:
            return Loop(trace, [self.test, self.body], self.body.__code__).run_while(self.test, self.body)
        except Retrace:
            raise
        except (AdcompileError, NameError, TypeError, IndexError, KeyError, ValueError) as error:
            snapshot.restore()
            trace.sizes.guards[:], trace.sizes.replaced = after
            return self.unrolled(error)

    def sizes_decided(self) -> bool:
        """Whether sizes were compared since the loop began."""
        return len(self.trace.sizes.guards) > len(self.guards[0]) or len(self.trace.sizes.replaced) > len(self.guards[1])

    def turns(self, region: Any) -> tuple[bool, Flow | None]:
        """The first turns as Python runs them. Returns whether the loop is done with that, and how it was left."""
        count = 0
        while True:
            truth = known(self.trace, self.test(), "while")
            if isinstance(truth, Tracer) or self.sizes_decided() and count < FEW_TURNS:
                return False, None
            if not truth:
                return True, None
            if count >= FEW_TURNS and (region.operations or region.before):
                return False, None
            flow = self.body()
            count += 1
            if flow is not None and flow is not CONTINUE:
                return (False, None) if flow.traced else (True, flow)

    def unrolled(self, error: Exception) -> Flow | None:
        """Run it turn by turn, because it cannot be staged."""
        for number in range(UNROLL_LIMIT + 1):
            truth = known(self.trace, self.test(), "while")
            if isinstance(truth, Tracer):
                raise error
            if not truth:
                return None
            if number == UNROLL_LIMIT:
                break
            flow = self.body()
            if flow is not None and flow is not CONTINUE:
                if flow.traced:
                    raise error
                return flow  # type: ignore[no-any-return]
        raise explained(error, None, UNROLL_LIMIT)
