"""`raise` and `assert`. Where a traced value decides whether they happen, the compiled function raises: a `raise_if` of the IR,
and in the signature what the error was, so that the caller gets the user's own exception. The text of its message is made at
capture; traced values stand in it by their names."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Literal, Location
from ..ir.signature import Failure
from ..ir.types import DType
from .state import MISSING, Snapshot
from .text import MESSAGES
from .trace import Trace
from .tracer import Tracer

if TYPE_CHECKING:
    from .branch import Side


def fail(trace: Trace, failed: Any, error: Exception, location: Location | None) -> None:
    """Emit a check: where `failed` (an operand) is true, the compiled function raises."""
    refuse_handled(trace, error, location)
    failure = known_failure(trace, error, location)
    trace.builder.location = location
    trace.builder.emit("raise_if", (failed,), {"exception": failure.exception, "text": failure.text})


def refuse_handled(trace: Trace, error: Exception, location: Location | None) -> None:
    """Raises where the user's code handles the error: the compiled function has no handlers."""
    for kinds in trace.handlers:
        found = kinds()
        if any(isinstance(error, kind) for kind in (found if isinstance(found, tuple) else (found,))):
            raise CaptureError(f"a {type(error).__name__} that depends on a traced condition is handled by a `try` around it",
                               location, "use `if` and `else` for what is to happen in each case")


def known_failure(trace: Trace, error: Exception, location: Location | None) -> Failure:
    """The entry of the signature's table for an error. What the compiled function raises tells the entries apart."""
    kind = type(error)
    arguments = tuple(plain(trace, a) for a in error.args)
    state = {key: plain(trace, a) for key, a in vars(error).items() if not key.startswith("__")}
    text = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], str) else ", ".join(map(repr, arguments))
    own = getattr(builtins, kind.__name__, None) is kind
    text = text or (location.source if location is not None else "")
    text = text if own else f"{kind.__name__}: {text}"
    failure = Failure(kind.__name__ if own else "RuntimeError", text, kind, arguments, state, location)
    same = next((f for f in trace.failures if f.is_like(failure)), None)
    while same is not None and not (same.kind is kind and same.arguments == arguments):
        failure = replace(failure, text=f"{failure.text} ")
        same = next((f for f in trace.failures if f.is_like(failure)), None)
    if same is not None and same.location != location:          # the same error at several lines
        trace.failures.remove(same)
        failure = replace(failure, location=None)
    elif same is not None:
        return same
    trace.failures.append(failure)
    return failure


def plain(trace: Trace, x: Any) -> Any:
    """What an exception keeps: traced values by their names."""
    if trace.is_traced(x):
        with MESSAGES:
            return str(x)
    if type(x) in (list, tuple, set, frozenset):
        return type(x)(plain(trace, a) for a in x)
    return {k: plain(trace, a) for k, a in x.items()} if type(x) is dict else x


# --------------------------------------------------------------------------------------------------------- branches
def settle_failures(trace: Trace, predicate: Tracer, snapshot: Snapshot, sides: Sequence[Side]) -> Side | None:
    """After both sides of a condition were traced: where one raises, what follows is the other, and the condition is checked
    before. Returns that side; None where no side raises."""
    failed = [(side, side.failure) for side in sides if side.failure is not None]
    if not failed:
        return None
    (first, failure), *more = failed
    truth = predicate if first is sides[0] else trace.operator(np.logical_not, predicate)
    if first.region.operations and any(o.op == "raise_if" or o.regions for o in first.region.operations):
        raise_in_branch(trace, truth, first, failure)
    else:
        fail(trace, truth.value, *failure)
    for _, trace.raised in more:
        raise trace.raised[0]
    other = next(side for side in sides if side is not first)
    trace.adopt(other.region)
    for cell, contents in other.cells.items():
        trace.write(cell, contents)
    snapshot.put({(place, key): values.get(key, MISSING) for place, values in enumerate(other.values)
                  for key in dict.fromkeys((*snapshot.before[place], *values))})
    return other


def raise_in_branch(trace: Trace, truth: Tracer, side: Side, failure: tuple[Exception, Location | None]) -> None:
    """A branch that may raise otherwise before it raises in the end."""
    no = Literal(False, DType.bool)
    with trace.inside(side.region):
        fail(trace, Literal(True, DType.bool), *failure)
    empty = trace.region()
    trace.builder.emit("cond", (trace.unwrap(truth),), regions=(side.region.block((no,)), empty.block((no,))),
                       location=failure[1])
