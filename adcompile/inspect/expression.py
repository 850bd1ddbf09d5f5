"""Operations as a user would write them."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.core import ArrayConstant, Block, Literal, Operand, Operation, Value
from ..ir.op import TABLE
from ..ir.types import DType

Spell = Callable[[Operand], str]
TIMES = "\N{MULTIPLICATION SIGN}"


def name_of(x: Operand) -> str:
    """A value's name, or a number as it is written by hand."""
    return x.name if isinstance(x, Value) else number_text(x.value)


def number_text(value: Any) -> str:
    """A number without what says nothing: 2 for 2.0."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, complex):
        return repr(value)
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def value_text(value: Any) -> str:
    """A value in a few characters: a number, a short array, or the range of a long one."""
    array = np.asarray(value)
    if array.ndim == 0:
        return short(array[()])
    shape = "" if array.ndim == 1 else TIMES.join(map(str, array.shape)) + " "
    if array.size <= 3:
        return f"{shape}[{', '.join(map(short, array.ravel()))}]"
    if array.dtype.kind == "b":
        return f"{shape}[{int(array.sum())} of {array.size} True]"
    if array.dtype.kind not in "fiu":
        return f"{shape}[…]"
    if not np.isfinite(array).all():
        return f"{shape}[{int(array.size - np.isfinite(array).sum())} not finite]"
    low, high = short(array.min()), short(array.max())
    return f"{shape}[all {low}]" if low == high else f"{shape}[{low} … {high}]"


def short(number: Any) -> str:
    """A number to four digits."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if isinstance(number, (complex, np.complexfloating)):
        return f"{number:.4g}"
    return str(int(number)) if isinstance(number, (int, np.integer)) else f"{float(number):.4g}"


def plain(text: str) -> str:
    """An expression with the fewest parentheses, and functions by their own names."""
    with contextlib.suppress(SyntaxError):                  # a name may be anything: params['b'], *args
        text = ast.unparse(ast.parse(text, mode="eval").body)
    return re.sub(r"\b(?:math|np)\.", "", text)


def full(operation: Operation, spell: Spell) -> str:
    """One operation as a Python expression with all its parentheses."""
    row = TABLE[operation.op]
    operands = [spell(x) for x in operation.operands]
    if operation.op in FORMS:
        return f"({FORMS[operation.op](operation, operands)})"
    if row.code is None or operation.op == "wrap_index":
        return f"{operation.op}({', '.join(operands)})"
    return "(" + row.code.format(*(f"({x})" for x in operands)) + ")"


def expression(operation: Operation, spell: Spell = name_of) -> str:
    """One operation as a user would write it."""
    return plain(full(operation, spell))


def yielded(block: Block, spell: Spell = name_of) -> list[str]:
    """What a block of elementwise operations yields, each as one expression of the block's arguments."""
    known: dict[Operand, str] = {}

    def text(x: Operand) -> str:
        return known[x] if x in known else spell(x)

    for operation in block.operations:
        known[operation.result] = full(operation, text)
    return [plain(text(x)) for x in block.yields]


def axis_text(operation: Operation) -> str:
    """The axes of a reduction, where it is not over all of them."""
    axes = operation.attributes.get("axes", ())
    if len(axes) == operation.operands[0].type.rank:
        return ""
    return f", axis={axes[0] if len(axes) == 1 else axes}"


def reduced(name: str) -> Callable[[Operation, list[str]], str]:
    """A reduction."""
    return lambda operation, x: f"{name}({x[0]}{axis_text(operation)})"


def along(name: str) -> Callable[[Operation, list[str]], str]:
    """A function along one axis."""
    return lambda operation, x: f"{name}({', '.join(x)}, axis={operation.attributes['axis']})"


def contraction(operation: Operation, x: list[str]) -> str:
    """A product of arrays: @ where it is one, else einsum."""
    a, b, out = (operation.attributes[k] for k in ("a_labels", "b_labels", "out_labels"))
    summed = [k for k in a if k not in out]
    if len(summed) == 1 and a[-1] == summed[0] and len(b) <= 2 and b[0] == summed[0] and out == (*a[:-1], *b[1:]):
        return f"{x[0]} @ {x[1]}"
    letters = {label: "ijklmnopqrstuvw"[k] for k, label in enumerate(dict.fromkeys((*a, *b, *out)))}
    spec = ",".join("".join(letters[k] for k in labels) for labels in (a, b))
    return f"einsum({spec + '->' + ''.join(letters[k] for k in out)!r}, {x[0]}, {x[1]})"


def indexed(operation: Operation, x: list[str]) -> str:
    """Entries of an array at computed places."""
    places = dict(zip(operation.attributes["axes"], x[1:]))
    rank = operation.operands[0].type.rank
    index = [places.get(k, ":") for k in range(rank)]
    while index and index[-1] == ":":
        index.pop()
    return f"{x[0]}[{', '.join(index)}]"


def sliced(operation: Operation, x: list[str]) -> str:
    """A part of an array."""
    parts = []
    for start, step, length, whole in zip(operation.attributes["starts"], operation.attributes["steps"],
                                          operation.attributes["dims"], operation.operands[0].type.dims):
        everything = start.constant == 0 and step == 1 and length == whole
        parts.append(":" if everything else f"{start}:{start + length * step}" + (f":{step}" if step != 1 else ""))
    return f"{x[0]}[{', '.join(parts)}]"


def written(operation: Operation, x: list[str]) -> str:
    """An array with some entries replaced or added to."""
    word = "added" if operation.op == "scatter_add" else "set"
    return f"{word}({', '.join(x)})"


def spread(operation: Operation, x: list[str]) -> str:
    """A number or array repeated."""
    shape = ", ".join(map(str, operation.attributes["dims"]))
    if isinstance(operation.operands[0], Literal) and operation.operands[0].value in (0, 1):
        return f"{'ones' if operation.operands[0].value else 'zeros'}({shape})"
    return f"broadcast({x[0]})"


def constant(operation: Operation, x: list[str]) -> str:
    """A known array."""
    found: ArrayConstant = operation.attributes["value"]
    entries = np.frombuffer(found.data, found.dtype.numpy)
    return f"array([{', '.join(map(short, entries))}])" if 0 < len(entries) <= 4 and np.isfinite(entries).all() \
        else f"constant({', '.join(map(str, found.shape))})"


FORMS: dict[str, Callable[[Operation, list[str]], str]] = {
    "reduce_sum": reduced("sum"), "reduce_max": reduced("max"), "reduce_min": reduced("min"), "reduce_prod": reduced("prod"),
    "reduce_any": reduced("any"), "reduce_all": reduced("all"), "argmax": along("argmax"), "argmin": along("argmin"),
    "cumsum": along("cumsum"), "cumprod": along("cumprod"), "concat": along("concatenate"),
    "contract": contraction, "gather": indexed, "slice": sliced, "scatter_set": written, "scatter_add": written,
    "slice_set": written, "broadcast": spread, "constant": constant,
    "reshape": lambda operation, x: f"reshape({x[0]})", "transpose": lambda operation, x: f"transpose({x[0]})",
    "iota": lambda operation, x: f"arange({operation.attributes['dim']})",
    "size": lambda operation, x: str(operation.attributes["dim"]),
    "raise_if": lambda operation, x: f"raises_{operation.attributes['exception']}_if({x[0]})",
    "stop_gradient": lambda operation, x: f"stop_gradient({x[0]})",
    "named": lambda operation, x: x[0],
    "wrap_index": lambda operation, x: x[0],
    "cast": lambda operation, x: f"{operation.result.type.dtype.numpy.name}({x[0]})"
            if operation.result.type.dtype is not DType.f64 else f"float({x[0]})",
}
