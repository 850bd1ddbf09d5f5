"""The loop IR: what a schedule is made of, one step before text.

    program    = (interface, sizes, checks, buffers, body)
    statement  = For(index, stop, start, step){body} | While(condition){body} | If(condition){body}{orelse} | Break
               | Assign(name, expr) | Store(array, index*, expr) | Accumulate(target, operator, expr) | Fill(array, expr)
               | Alloc(array, length*) | Rename(array*, array*) | Raise(text) | Section(text)
    expression = Var | Number | Load(array, index*) | Apply(code, expr*)

`Assign` and `Store` overwrite, `Accumulate` adds to what is there. Buffers are allocated once, before everything else, except
where their lengths are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

from .core import ArrayConstant, Function, Location
from .dims import Dim
from .types import DType, Type


@dataclass(frozen=True)
class Interface:
    """What the function is called and how its results come back: the first `returned` results are returned, every further
    one is written into a buffer shaped like parameter `gradients[k]`."""

    name: str
    returned: int
    gradients: tuple[int, ...] = ()

    @property
    def kernel(self) -> str:
        """The function that writes gradients into buffers; `name` is the one that allocates them."""
        return f"{self.name}_kernel"


# ------------------------------------------------------------------------------------------------ expressions
@dataclass(frozen=True)
class Var:
    """A local scalar, a loop index, or a size."""

    name: str


@dataclass(frozen=True)
class SizeOf:
    """The value of a size polynomial."""

    dim: Dim


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: bool | int | float | complex
    dtype: DType


@dataclass(frozen=True)
class Load:
    """An element of an array; no indices read a zero-dimensional one."""

    array: str
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class Apply:
    """A scalar expression, `code` with its operands in the places {0}, {1}, ..."""

    code: str
    operands: tuple[Expr, ...]


Expr = Union[Var, SizeOf, Number, Load, Apply]


# ------------------------------------------------------------------------------------------------ statements
@dataclass(frozen=True)
class Assign:
    """`name = expr`, a local scalar."""

    name: str
    expr: Expr
    location: Location | None = None
    keep: bool = False                  # a name of the user's: not folded into its reader


@dataclass(frozen=True)
class Store:
    """`array[index] = expr`."""

    array: str
    index: tuple[Expr, ...]
    expr: Expr
    location: Location | None = None


@dataclass(frozen=True)
class Accumulate:
    """`target = target operator expr`. Operators: + - * or and max min."""

    target: Var | Load
    operator: str
    expr: Expr
    location: Location | None = None


@dataclass(frozen=True)
class Fill:
    """`array[:] = expr`, every element."""

    array: str
    expr: Expr


@dataclass(frozen=True)
class For:
    """`for index in range(start, stop, step)`; without a start, from 0. `lanes`: the turns do not need each other, and there are
    as many as a tile has elements. `unrolled`: it does so many turns at a time. `why`: why it is as it is, for the reader of
    `loop_ir`."""

    index: str
    stop: Expr
    body: tuple[Statement, ...]
    start: Expr | None = None
    step: int = 1
    lanes: bool = False
    unrolled: int = 1
    why: str = ""


@dataclass(frozen=True)
class While:
    """`while condition`."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If:
    """`if condition`, perhaps with an `else`."""

    condition: Expr
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Break:
    """`break` out of the innermost loop."""


@dataclass(frozen=True)
class Alloc:
    """An array whose lengths are known only when the function runs."""

    array: str
    lengths: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True)
class Rename:
    """`arrays = others`: arrays change names, all at once."""

    arrays: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Raise:
    """`raise exception(text)`."""

    exception: str
    text: str


@dataclass(frozen=True)
class Section:
    """A heading for the reader: what follows belongs to the forward pass, to the backward pass, or to both."""

    text: str


Statement = Union[Assign, Store, Accumulate, Fill, Alloc, Rename, For, While, If, Break, Raise, Section]


@dataclass(frozen=True)
class Buffer:
    """An array the kernel allocates. `why`: what it keeps, for the reader of `loop_ir`."""

    name: str
    type: Type
    why: str


@dataclass(frozen=True)
class Program:
    """A scheduled function. `parameters` and `gradients` are the kernel's arguments, `returns` its result expressions
    (a Var of an array, or a scalar), `sizes` the name of every size symbol in the code."""

    interface: Interface
    function: Function
    parameters: tuple[tuple[str, Type], ...]
    gradients: tuple[tuple[str, Type], ...]
    sizes: dict[str, str]
    buffers: tuple[Buffer, ...]
    constants: tuple[tuple[str, ArrayConstant], ...]
    body: tuple[Statement, ...]
    returns: tuple[Expr, ...]
    support: tuple[object, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return "\n".join(program_lines(self))


# ------------------------------------------------------------------------------------------------ walking
def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions."""
    if isinstance(expr, Load):
        return expr.index
    if isinstance(expr, Apply):
        return expr.operands
    return ()


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """An expression and everything in it."""
    yield expr
    for child in children(expr):
        yield from subexpressions(child)


def own_expressions(statement: Statement) -> tuple[Expr, ...]:
    """The expressions a statement reads itself, without those of the statements inside it."""
    if isinstance(statement, (Assign, Fill)):
        return (statement.expr,)
    if isinstance(statement, Store):
        return (*statement.index, statement.expr)
    if isinstance(statement, Accumulate):
        target = statement.target
        return (*(target.index if isinstance(target, Load) else ()), statement.expr)
    if isinstance(statement, Alloc):
        return statement.lengths
    if isinstance(statement, For):
        return (statement.stop,) if statement.start is None else (statement.start, statement.stop)
    if isinstance(statement, (While, If)):
        return (statement.condition,)
    return ()


def bodies(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The statement lists inside a statement."""
    if isinstance(statement, (For, While)):
        return (statement.body,)
    if isinstance(statement, If):
        return (statement.body, statement.orelse)
    return ()


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, each before what is inside it."""
    for statement in statements:
        yield statement
        for body in bodies(statement):
            yield from walk(body)


def written_arrays(statements: tuple[Statement, ...]) -> set[str]:
    """The arrays that the statements write."""
    found: set[str] = set()
    for s in walk(statements):
        if isinstance(s, (Store, Fill)):
            found.add(s.array)
        elif isinstance(s, Accumulate) and isinstance(s.target, Load):
            found.add(s.target.array)
        elif isinstance(s, Rename):
            found.update(s.arrays)
        elif isinstance(s, Alloc):
            found.add(s.array)
    return found


def assigned_names(statements: tuple[Statement, ...]) -> set[str]:
    """The local scalars and loop indices that the statements set."""
    found: set[str] = set()
    for s in walk(statements):
        if isinstance(s, Assign):
            found.add(s.name)
        elif isinstance(s, Accumulate) and isinstance(s.target, Var):
            found.add(s.target.name)
        elif isinstance(s, For):
            found.add(s.index)
    return found


# ------------------------------------------------------------------------------------------------ text
def expr_text(expr: Expr) -> str:
    """An expression as compact text, fully parenthesised."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, SizeOf):
        return str(expr.dim) if len(expr.dim.terms) <= 1 else f"({expr.dim})"
    if isinstance(expr, Number):
        return repr(expr.value)
    if isinstance(expr, Load):
        return f"{expr.array}[{', '.join(map(expr_text, expr.index))}]"
    return "(" + expr.code.format(*map(expr_text, expr.operands)) + ")"


def statement_lines(statements: tuple[Statement, ...], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for s in statements:
        if isinstance(s, Section):
            yield f"{pad}-- {s.text}"
        elif isinstance(s, Assign):
            yield f"{pad}{s.name} = {outer_text(s.expr)}"
        elif isinstance(s, Store):
            yield f"{pad}{s.array}[{', '.join(map(outer_text, s.index))}] = {outer_text(s.expr)}"
        elif isinstance(s, Fill):
            yield f"{pad}{s.array}[:] = {outer_text(s.expr)}"
        elif isinstance(s, Accumulate):
            yield f"{pad}{expr_text(s.target)} {s.operator}= {outer_text(s.expr)}"
        elif isinstance(s, Raise):
            yield f"{pad}raise {s.exception}"
        elif isinstance(s, Alloc):
            yield f"{pad}buffer {s.array}: {s.dtype.value}[{', '.join(map(outer_text, s.lengths))}]"
        elif isinstance(s, Break):
            yield f"{pad}break"
        elif isinstance(s, Rename):
            yield f"{pad}{', '.join(s.arrays)} = {', '.join(s.others)}"
        else:
            yield pad + header_text(s)
            yield from statement_lines(bodies(s)[0], depth + 1)
            if isinstance(s, If) and s.orelse:
                yield f"{pad}else"
                yield from statement_lines(s.orelse, depth + 1)


def header_text(s: Statement) -> str:
    if isinstance(s, For):
        fused = [x for x in s.body if not isinstance(x, Section)]
        start = "" if s.start is None else f"{outer_text(s.start)} to "
        step = "" if s.step == 1 else f" step {s.step}"
        why = f"; {s.why}" if s.why else ""
        return f"for {s.index} in {start}{outer_text(s.stop)}{step}  -- {len(fused)} statement{'s' * (len(fused) != 1)}{why}"
    if isinstance(s, While):
        return f"while {outer_text(s.condition)}"
    assert isinstance(s, If)
    return f"if {outer_text(s.condition)}"


def outer_text(expr: Expr) -> str:
    """`expr_text` without the parentheses around the whole."""
    text = expr_text(expr)
    return text[1:-1] if isinstance(expr, Apply) or text.startswith("(") and isinstance(expr, SizeOf) else text


def program_lines(program: Program) -> Iterator[str]:
    """The whole program as text."""
    arguments = [f"{name}: {type}" for name, type in program.parameters]
    arguments += [f"{name}: {type} (result)" for name, type in program.gradients]
    yield f"kernel {program.interface.kernel}({', '.join(arguments)})"
    for name, constant in program.constants:
        yield f"  constant {name}: {constant.dtype}[{', '.join(map(str, constant.shape))}]"
    for buffer in program.buffers:
        yield f"  buffer {buffer.name}: {buffer.type}  -- {buffer.why}"
    yield from statement_lines(program.body, 1)
    yield f"  return {', '.join(map(outer_text, program.returns))}"


# ------------------------------------------------------------------------------------------------ cut for threads
@dataclass(frozen=True)
class Segment:
    """A stretch of a program that one function runs. `takes`: local scalars that come from the stretches before; `gives`:
    those that later ones need."""

    name: str
    body: tuple[Statement, ...]
    takes: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True)
class SharedLoop:
    """A loop whose turns threads share. `sums`: scalars that every thread sums up from 0 and that are added up afterwards;
    `extremes`: scalars with `max` or `min`; `added`: arrays likewise summed; `scratch`: arrays that every thread has for
    itself."""

    name: str
    loop: For
    takes: tuple[str, ...]
    sums: tuple[tuple[str, Number], ...]
    extremes: tuple[tuple[str, str], ...]
    added: tuple[str, ...]
    scratch: tuple[Buffer, ...]


@dataclass(frozen=True)
class Cut:
    """A program in pieces, to be run one after the other. `work`: how much there is to do in the shared loops, in rough
    operations."""

    program: Program
    pieces: tuple[Segment | SharedLoop, ...]
    buffers: tuple[Buffer, ...]
    work: Dim
