"""What takes no gradient, and why: constants, arguments that do not reach the result, operations that are not differentiated."""

from __future__ import annotations

from ..differentiate.activity import carries_derivative, useful, varied
from ..ir.analysis import symbols_of, use_counts
from ..ir.core import walk
from ..ir.op import TABLE
from .expression import expression
from .view import View


def inactive_lines(view: View) -> tuple[str, ...]:
    """One line for each argument that does not reach the result, and for each operation that a gradient arrives at and that
    lets none through."""
    return (*unused(view), *stopped(view))


def unused(view: View) -> list[str]:
    """The inputs that the result does not depend on."""
    function, inputs = view.function, view.compiled.signature.inputs
    uses = use_counts(function)
    symbols = {s for operation in walk(function.body) for s in symbols_of(operation)}
    read = [size for symbol, size in function.sizes.items() if symbol in symbols]
    numbers, measured = ({s.parameter for s in read if (s.axis is None) == number} for number in (True, False))
    found = []
    for k, parameter in enumerate(function.params):
        if not uses[parameter] and k not in numbers:
            found.append(f"{inputs[k].text}: {'only its size is used' if k in measured else 'it does not reach the result'}")
    return found


def stopped(view: View) -> list[str]:
    """The operations that depend on what is differentiated, that the result depends on, and that have derivative zero."""
    function = view.function
    seeds = [function.params[k] for k in view.wrt]
    depends = varied(function.body, seeds)
    needed = useful(function.body, [function.results[k] for k in view.results])
    found = []
    for operation in walk(function.body):
        row = TABLE[operation.op]
        arrives = any(y in needed and carries_derivative(y) for y in operation.results)
        if row.kind == "nondifferentiable" and arrives and any(x in depends for x in operation.operands):
            place = f", line {operation.location.line}" if operation.location else ""
            found.append(f"{operation.results[0].name} = {expression(operation)}{place}: {row.why}")
    return found
