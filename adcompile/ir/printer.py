"""The text form of the graph IR. `parse(text_of(f))` is equal to f; `text_of(parse(s))` is s for text made here.

    func @loss(%w: f64[X_1], %X: f64[X_0, X_1], %y: f64[X_0]) {
      size X_0 = axis 0 of %X
      size X_1 = axis 1 of %X
      guard X_0 != 1                                                          # model.py:12 in loss
      %z: f64[X_0] = contract %X, %w {a_labels=(0, 1), b_labels=(1,), out_labels=(0,)}    # model.py:13 in loss
      %n: i64 = size {dim=<X_0>}
      %s: f64 = for 0, %n, 0.0 do (%i: i64, %t: f64) {
        ...
        yield %t_1
      }
      return %s
    }

A size in an attribute is `<X_0 + 1>`, a tuple of sizes `[X_0, 3]`. Literals of other types than f64, i64 and bool carry
theirs: `1.0:f32`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .core import ArrayConstant, Block, Function, Literal, Location, Operand, Operation, Size, Value
from .dims import Dim
from .types import DType

COMMENT_COLUMN = 88
WRITTEN_OUT = 16                # array constants up to this many entries are printed as numbers
ESCAPED = {ord(c): f"\\x{ord(c):02x}" for c in "{}#"}              # in strings: what the parser looks for in a line


def text_of(function: Function, *, locations: bool = True) -> str:
    """The function as text. Without `locations` it depends on the computation alone."""
    params = ", ".join(declared(p) for p in function.params)
    lines = [f"func @{function.name}({params}) {{"]
    for symbol, size in function.sizes.items():
        lines.append(f"  size {symbol} = {size_text(function, size)}")
    for guard in function.guards:
        lines.append(commented(f"  guard {guard}", guard.location, locations))
    lines += block_lines(function.body, "  ", "return", locations)
    return "\n".join([*lines, "}"]) + "\n"


def size_text(function: Function, size: Size) -> str:
    """Where a size symbol comes from."""
    known = 0 <= size.parameter < len(function.params)
    parameter = f"%{function.params[size.parameter].name}" if known else f"parameter {size.parameter}"
    return f"value of {parameter}" if size.axis is None else f"axis {size.axis} of {parameter}"


def block_lines(block: Block, indent: str, terminator: str, locations: bool) -> Iterator[str]:
    """The operations of a block and what it yields."""
    for operation in block.operations:
        yield from operation_lines(operation, indent, locations)
    yield f"{indent}{terminator} {operands_text(block.yields)}".rstrip()


def operation_lines(operation: Operation, indent: str = "", locations: bool = True) -> Iterator[str]:
    """One operation: one line, and the lines of its regions."""
    head, location = indent + head_text(operation), operation.location
    for region in operation.regions:
        yield commented(f"{head} do ({', '.join(map(declared, region.arguments))}) {{", location, locations)
        yield from block_lines(region, indent + "  ", "yield", locations)
        head, location = indent + "}", None
    yield commented(head, location, locations)


def head_text(operation: Operation) -> str:
    """Results, op, operands and attributes."""
    results = ", ".join(map(declared, operation.results))
    attributes = ", ".join(f"{key}={attribute_text(value)}" for key, value in operation.attributes.items())
    parts = [operation.op, operands_text(operation.operands), f"{{{attributes}}}" if attributes else ""]
    return (f"{results} = " if results else "") + " ".join(filter(None, parts))


def commented(line: str, location: Location | None, locations: bool) -> str:
    """A line with the user's place behind it."""
    if location is None or not locations:
        return line
    return f"{line:<{COMMENT_COLUMN}}  # {location.file}:{location.line} in {location.function}"


def declared(value: Value) -> str:
    """A value where it is defined."""
    return f"%{value.name}: {value.type}"


def operands_text(operands: Iterable[Operand]) -> str:
    return ", ".join(map(operand_text, operands))


def operand_text(x: Operand) -> str:
    """A value's name or a number."""
    if isinstance(x, Value):
        return f"%{x.name}"
    if not isinstance(x, Literal):              # broken IR must print too: the verifier shows it
        return repr(x)
    text = repr(x.value)
    return text if plain_dtype(x) is x.dtype else f"{text}:{x.dtype}"


def plain_dtype(x: Literal) -> DType:
    """The dtype that a number has without saying so."""
    if isinstance(x.value, bool):
        return DType.bool
    return DType.i64 if isinstance(x.value, int) else DType.f64 if isinstance(x.value, float) else DType.c128


def attribute_text(attribute: Any) -> str:
    """An attribute's value."""
    if isinstance(attribute, Dim):
        return f"<{attribute}>"
    if isinstance(attribute, tuple):
        if attribute and all(isinstance(a, Dim) for a in attribute):
            return f"[{', '.join(map(str, attribute))}]"
        inner = ", ".join(map(attribute_text, attribute))
        return f"({inner},)" if len(attribute) == 1 else f"({inner})"
    if isinstance(attribute, ArrayConstant):
        return constant_text(attribute)
    if isinstance(attribute, str):
        return repr(attribute).translate(ESCAPED)
    return str(attribute) if isinstance(attribute, DType) else repr(attribute)


def constant_text(constant: ArrayConstant) -> str:
    """An array: its numbers where they are few, else its bytes."""
    entries = np.frombuffer(constant.data, constant.dtype.numpy)
    shape = attribute_text(constant.shape)
    if len(entries) <= WRITTEN_OUT and np.isfinite(entries).all():
        return f"array({constant.dtype}, {shape}, {entries.tolist()})"
    return f"array({constant.dtype}, {shape}, 0x{constant.data.hex()})"
