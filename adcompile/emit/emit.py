"""From loops to the text of a Python module that needs numpy and numba alone."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ir.core import Location
from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Break,
    Buffer,
    Expr,
    Fill,
    For,
    If,
    Load,
    Number,
    Program,
    Raise,
    Rename,
    Section,
    SizeOf,
    Statement,
    Store,
    Var,
    While,
    own_expressions,
    subexpressions,
    walk,
)
from ..ir.types import DType, Type
from .vectorise import has_fma, is_vectorised, vector_code, with_prelude

LINE = 118                  # generated lines with their comments stay this short where possible
FASTMATH_FLAGS = ("reassoc", "contract", "nsz")


class Printer:
    """Prints one program."""

    def __init__(self, program: Program, fastmath: bool, header: str) -> None:
        self.program, self.fastmath, self.header = program, fastmath, header
        self.shown: set[tuple[str, int]] = set()
        self.symbols = program.sizes
        self.has_loops = any(isinstance(s, For) for s in program.body)
        self.vectorised = False                     # inside a loop that LLVM vectorises
        self.vector_functions: set[str] = set()     # what such loops call

    def module(self) -> str:
        """The whole module."""
        return self.assemble([self.kernel(), self.entry()])

    def assemble(self, functions: list[str]) -> str:
        """A module of these functions, with what they need before them."""
        parts = [self.docstring(), "import math\n\nimport numba as nb\nimport numpy as np\n", self.settings()]
        parts += [support_source(f) for f in support_closure(self.program.support) if f.__name__ not in self.vector_functions]
        text = "\n\n\n".join(part.strip("\n") for part in (*parts, *functions) if part) + "\n"
        text = text.replace(self.docstring() + "\n\n\n",
                            self.docstring() + "\n\n").replace("import numpy as np\n\n\n", "import numpy as np\n\n")
        if self.vector_functions:
            text = with_prelude(text, self.vector_functions)
        if "math." not in text.split("import math", 1)[1]:
            text = text.replace("import math\n\n", "", 1)
        return text

    def docstring(self) -> str:
        program = self.program
        lines = [f'"""{program.interface.name}: {self.header}', ""]
        width = max([len(name) for name, _ in program.parameters], default=0)
        lines += [f"    {name:{width}}  {self.type_text(type)}" for name, type in program.parameters]
        if program.function.guards:
            lines += ["", "assumes "
                      + ", ".join(f"{self.dim(g.left)} {g.relation} {self.dim(g.right)}" for g in program.function.guards)]
        return "\n".join([*lines, '"""'])

    def settings(self) -> str:
        flags = "{" + ", ".join(f'"{flag}"' for flag in FASTMATH_FLAGS) + "}" if self.fastmath else "False"
        lines = [f"FASTMATH = {flags}"]
        for name, constant in self.program.constants:
            array = np.frombuffer(constant.data, constant.dtype.numpy).reshape(constant.shape)
            values = "[" + ", ".join(map(number_text, array.ravel().tolist())) + "]"
            shape = "" if array.ndim == 1 else f".reshape({array.shape})"
            lines.append(f"{name} = np.array({values}, dtype=np.{array.dtype.name}){shape}")
        return "\n".join(lines)

    def type_text(self, type: Type) -> str:
        dims = "".join(f"{self.dim(d)}, " for d in type.dims)
        return f"{type.dtype.value}[{dims[:-2]}]" if type.dims else type.dtype.value

    # ------------------------------------------------------------------------------------------------ functions
    def kernel(self) -> str:
        """The function that writes gradients into buffers and returns the value."""
        arguments = [name for name, _ in (*self.program.parameters, *self.program.gradients)]
        return self.function(self.program.interface.kernel, arguments)

    def function(self, name: str, arguments: list[str]) -> str:
        """A numba function that runs the program's body."""
        program = self.program
        lines = ["@nb.njit(fastmath=FASTMATH, error_model=\"numpy\", nogil=True)", f"def {name}({', '.join(arguments)}):"]
        body = [*self.size_reads()]
        rest = program.body
        while rest and isinstance(rest[0], If) and isinstance(rest[0].body[0], Raise):
            body += self.statement(rest[0], 0)
            rest = rest[1:]
        body += map(self.allocation, program.buffers)
        body += [line for s in rest for line in self.statement(s, 0)]
        if program.returns:
            body.append("return " + ", ".join(self.expr(e) for e in program.returns))
        return "\n".join(lines + ["    " + line if line else "" for line in body or ["pass"]])

    def allocation(self, buffer: Buffer) -> str:
        """The line that makes a buffer."""
        shape = ", ".join(self.dim(d) for d in buffer.type.dims)
        shape = shape if len(buffer.type.dims) == 1 else f"({shape})"
        dtype = "" if buffer.type.dtype is DType.f64 else f", dtype=np.{buffer.type.dtype.numpy.name}"
        return f"{buffer.name} = np.empty({shape}{dtype})"

    def size_reads(self) -> Iterator[str]:
        """`n, d = X.shape`, for the parameters that sizes in use come from."""
        used = self.used_symbols()
        for k, (name, type) in enumerate(self.program.parameters):
            own: dict[int, str] = {size.axis: self.symbols[s] for s, size in self.program.function.sizes.items()
                   if size.parameter == k and size.axis is not None and s in used}
            if own and len(own) == len(type.dims):
                lengths = ", ".join(own[axis] for axis in range(len(own)))
                yield f"{lengths} = {name}.shape" if len(own) > 1 else f"{lengths} = {name}.shape[0]"
            else:
                for axis, size_name in sorted(own.items()):
                    yield f"{size_name} = {name}.shape[{axis}]"

    def used_symbols(self) -> set[str]:
        dims = [x.dim for s in walk(self.program.body) for e in own_expressions(s) for x in subexpressions(e)
                if isinstance(x, SizeOf)]
        dims += [x.dim for e in self.program.returns for x in subexpressions(e) if isinstance(x, SizeOf)]
        dims += [d for b in self.program.buffers for d in b.type.dims]
        return {symbol for d in dims for symbol in d.symbols}

    def entry(self) -> str:
        """The function that allocates the gradients and returns everything."""
        program = self.program
        arguments = ", ".join(name for name, _ in program.parameters)
        lines = ["@nb.njit(fastmath=FASTMATH, error_model=\"numpy\", nogil=True)", f"def {program.interface.name}({arguments}):"]
        parameters = program.interface.gradients
        for (name, type), k in zip(program.gradients, parameters, strict=True):
            source = program.parameters[k][0]
            lines.append(f"    {name} = np.empty_like({source})" if type.dims
                         else f"    {name} = np.empty((), dtype=np.{type.dtype.numpy.name})")
        call = f"{program.interface.kernel}({', '.join(n for n, _ in (*program.parameters, *program.gradients))})"
        results = [name if type.dims else f"{name}[()]" for name, type in program.gradients]
        if len(program.returns) == 1:
            lines.append(f"    value = {call}" if results else f"    return ({call},)")
            results = ["value", *results] if results else []
        elif program.returns:
            values = [f"value_{k}" for k in range(len(program.returns))]
            lines.append(f"    {', '.join(values)} = {call}")
            results = values + results
        else:
            lines.append(f"    {call}")
        if results:
            lines.append(f"    return {', '.join(results)}{',' * (len(results) == 1)}")
        return "\n".join(lines)

    # ------------------------------------------------------------------------------------------------ statements
    def statement(self, s: Statement, depth: int) -> list[str]:
        """The lines of a statement."""
        pad = "    " * depth
        if isinstance(s, Section):
            return [f"{pad}# {s.text}"]
        if isinstance(s, For):
            return self.loop(s, depth)
        if isinstance(s, While):
            return [f"{pad}while {self.expr(s.condition)}:", *self.block(s.body, depth + 1)]
        if isinstance(s, If):
            orelse = [f"{pad}else:", *self.block(s.orelse, depth + 1)] if s.orelse else []
            return [f"{pad}if {self.expr(s.condition)}:", *self.block(s.body, depth + 1), *orelse]
        if isinstance(s, Break):
            return [f"{pad}break"]
        if isinstance(s, Alloc):
            lengths = ", ".join(map(self.expr, s.lengths))
            dtype = "" if s.dtype is DType.f64 else f", dtype=np.{s.dtype.numpy.name}"
            return [f"{pad}{s.array} = np.empty({lengths if len(s.lengths) == 1 else f'({lengths})'}{dtype})"]
        if isinstance(s, Rename):
            return [f"{pad}{', '.join(s.arrays)} = {', '.join(s.others)}"]
        if isinstance(s, Raise):
            return [f"{pad}raise {s.exception}({quoted(s.text)})"]
        setup = isinstance(s, Assign) and not depth and not s.keep and self.has_loops
        return self.commented(pad + self.simple(s), None if setup else getattr(s, "location", None), pad)

    def loop(self, s: For, depth: int) -> list[str]:
        """A counted loop; in one that LLVM vectorises, functions are those that it can."""
        around = self.vectorised
        self.vectorised = self.fastmath and has_fma() and is_vectorised(s)
        lines = ["    " * depth + f"for {s.index} in range({self.bounds(s)}):", *self.block(s.body, depth + 1)]
        self.vectorised = around
        return lines

    def bounds(self, s: For) -> str:
        """The arguments of `range`."""
        bounds = [*([] if s.start is None else [s.start]), s.stop]
        return ", ".join([*map(self.expr, bounds), *([str(s.step)] if s.step != 1 else [])])

    def block(self, body: tuple[Statement, ...], depth: int) -> list[str]:
        return [line for s in body for line in self.statement(s, depth)] or ["    " * depth + "pass"]

    def simple(self, s: Statement) -> str:
        if isinstance(s, Assign):
            return f"{s.name} = {self.expr(s.expr)}"
        if isinstance(s, (Store, Fill)):            # the array's dtype is that of the number
            value = number_text(s.expr.value) if isinstance(s.expr, Number) else self.expr(s.expr)
            return f"{self.element(s.array, s.index) if isinstance(s, Store) else s.array + '[:]'} = {value}"
        assert isinstance(s, Accumulate)
        target = s.target.name if isinstance(s.target, Var) else self.element(s.target.array, s.target.index)
        value = self.expr(s.expr)
        if s.operator in ("+", "-", "*", "/"):
            return f"{target} {s.operator}= {value}"
        if s.operator in ("max", "min"):
            sign = ">" if s.operator == "max" else "<"
            return f"{target} = {value} if {atom(value)} {sign} {target} or {atom(value)} != {atom(value)} else {target}"
        return f"{target} = {target} {s.operator} {atom(value)}"

    def commented(self, line: str, location: Location | None, pad: str) -> list[str]:
        """A line with the user's line behind it (or before it), the first time that line comes up."""
        if location is None or (location.file, location.line) in self.shown or not location.source:
            return [line]
        self.shown.add((location.file, location.line))
        room = LINE - len(pad) - 2
        comment = f"# {location.source if len(location.source) <= room else shortened(location.source, room)}"
        return [f"{line}  {comment}"] if len(line) + len(comment) + 2 <= LINE - 4 else [f"{pad}{comment}", line]

    # ------------------------------------------------------------------------------------------------ expressions
    def element(self, array: str, index: tuple[Expr, ...]) -> str:
        return f"{array}[{', '.join(self.expr(i) for i in index)}]" if index else f"{array}[()]"

    def expr(self, e: Expr) -> str:
        """An expression with the fewest parentheses."""
        text = self.full(e)
        return ast.unparse(ast.parse(text, mode="eval").body) if "(" in text else text

    def full(self, e: Expr) -> str:
        """An expression with all its parentheses."""
        if isinstance(e, Var):
            return e.name
        if isinstance(e, SizeOf):
            plain = len(e.dim.terms) == 1 and (e.dim.bare_symbol or e.dim.constant is not None)
            return self.dim(e.dim) if plain else f"({self.dim(e.dim)})"
        if isinstance(e, Number):
            return typed_number(e)
        if isinstance(e, Load):
            return self.element(e.array, e.index)
        code = vector_code(e.code, self.vector_functions) if self.vectorised else e.code
        return "(" + code.format(*map(self.full, e.operands)) + ")"

    def dim(self, dim: Dim) -> str:
        """A size in the kernel's names."""
        return ast.unparse(ast.parse(str(dim.substitute(lambda s: Dim.symbol(self.symbols.get(s, s)))), mode="eval").body)


def quoted(text: str) -> str:
    """A string literal in double quotes where that is as short."""
    literal = repr(text)
    return literal if '"' in literal or "\\'" in literal else f'"{literal[1:-1]}"'


def shortened(text: str, room: int) -> str:
    """The beginning of a text, up to the end of a word."""
    return text[:room - 4].rsplit(" ", 1)[0] + " ..."


def atom(text: str) -> str:
    return text if text.isidentifier() or text.replace("[", "").replace("]", "").replace(", ", "").isidentifier() else f"({text})"


def typed_number(x: Number) -> str:
    """A literal of its dtype: plain for float64, int64 and bool, else through NumPy's constructor."""
    text = number_text(x.value)
    if x.dtype in (DType.f64, DType.i64, DType.bool, DType.c128):
        return f"({text})" if text.startswith("-") else text
    return f"np.{x.dtype.numpy.name}({text})"


def number_text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"
    return repr(value)


def support_closure(functions: tuple[object, ...]) -> list[Any]:
    """The support functions and those they call, each after what it calls."""
    found: dict[str, Any] = {}

    def add(function: Any) -> None:
        if function.__name__ in found:
            return
        for name in function.__code__.co_names:
            other = function.__globals__.get(name)
            if inspect.isfunction(other):
                add(other)
        found[function.__name__] = function

    for function in functions:
        add(function)
    return list(found.values())


def support_source(function: Any) -> str:
    """The source of a support function, without annotations, compiled as the kernel is."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.returns, tree.decorator_list = None, []
    for argument in tree.args.args:
        argument.annotation = None
    return "@nb.njit(error_model=\"numpy\", nogil=True)\n" + ast.unparse(tree)


def emit(program: Program, *, fastmath: bool = True, header: str = "generated by adcompile") -> str:
    """The module text of a program. `header` ends the first line of its docstring."""
    return Printer(program, fastmath, header).module()
