"""Which loops LLVM vectorises, and the functions that they call then: `exp(x)` of ops/vector_math.py in place of `np.exp(x)`.

A call of libm keeps a loop from being vectorised. Without any, an innermost loop is vectorised if its turns need nothing of each
other but sums. In other places libm is as fast, and has fewer digits to answer for.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from llvmlite import binding
from numba import config

from ..ir.dims import Dim
from ..ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Expr,
    For,
    If,
    Load,
    Number,
    SizeOf,
    Statement,
    Store,
    Var,
    assigned_names,
    bodies,
    own_expressions,
    subexpressions,
    walk,
)
from ..ir.op import TABLE
from ..ops import vector_math

CALL = re.compile(r"(?<![\w.])([a-z][\w.]*)\(")
FUNCTIONS = {CALL.search(row.code)[1]: row.vector for row in TABLE.values() if row.vector and row.code}    # type: ignore[index]
INLINE = {"abs", "float", "maximum", "minimum", "strong_mul", "np.sqrt", "np.floor", "np.ceil", "np.rint", "np.trunc", "np.sign",
          "np.float32", "np.float64", "math.copysign", "math.isnan", "math.isinf", "math.isfinite"}     # no calls in machine code
HEADING = "# " + "-" * 88 + " functions that LLVM vectorises"
IMPORTS = {"ir": "from llvmlite import ir", "cgutils": "from numba.core import cgutils",
           "intrinsic": "from numba.extending import intrinsic"}
CONFIG: Any = config
FEW = 4                     # a loop of fewer turns than lanes, if that is known, is none


@functools.cache
def has_fma() -> bool:
    """Whether numba's processor multiplies and adds in one instruction. Without, a function here is slower than libm's."""
    if CONFIG.CPU_FEATURES is not None:
        return "+fma" in CONFIG.CPU_FEATURES
    return CONFIG.CPU_NAME != "generic" and bool(binding.get_host_cpu_features().get("fma", True))       # ARM has no such entry


# ------------------------------------------------------------------------------------------------ loops
def is_vectorised(loop: For) -> bool:
    """Whether LLVM can do several turns of this loop at once, once its functions are inline."""
    return (loop.step in (1, -1) and not is_short(loop.stop) and all(map(is_plain, walk(loop.body)))
            and turns_are_independent(loop) and accesses_are_apart(loop))


def is_short(stop: Expr) -> bool:
    length = stop.dim if isinstance(stop, SizeOf) else Dim.of(int(stop.value.real)) if isinstance(stop, Number) else None
    return length is not None and length.constant is not None and length.constant < FEW


def is_plain(s: Statement) -> bool:
    """Whether a statement computes numbers, without calls, and no loop or jump is in it."""
    if isinstance(s, Accumulate) and s.operator in ("max", "min") and isinstance(s.target, Var):
        return False
    return isinstance(s, (Assign, Store, Accumulate, If)) and all(
        is_inline(x) for e in own_expressions(s) for x in subexpressions(e) if isinstance(x, Apply))


def is_inline(x: Apply) -> bool:
    """Whether an expression becomes instructions."""
    if "//" in x.code or "%" in x.code or "**" in x.code and not isinstance(x.operands[1], Number):
        return False
    return all(name in FUNCTIONS or name in INLINE for name in CALL.findall(x.code))


def turns_are_independent(loop: For) -> bool:
    """Whether no scalar goes from one turn to the next, except sums that nothing else touches."""
    sums: set[str] = set()
    carried = set(read_before_set(loop.body, set(), sums))
    changing = assigned_names(loop.body)
    assigned = {s.name for s in walk(loop.body) if isinstance(s, Assign)}
    return not carried & changing and not sums & assigned


def read_before_set(body: tuple[Statement, ...], known: set[str], sums: set[str]) -> Iterator[str]:
    """The scalars that a turn reads before it sets them. What it sets is added to `known`, what it only adds to, to `sums`."""
    for s in body:
        yield from (x.name for e in own_expressions(s) for x in subexpressions(e) if isinstance(x, Var) and x.name not in known)
        if isinstance(s, Assign):
            known.add(s.name)
        elif isinstance(s, Accumulate) and isinstance(s.target, Var) and s.target.name not in known:
            sums.add(s.target.name)
        elif isinstance(s, If):
            branches = [set(known), set(known)]
            for branch, set_there in zip(bodies(s), branches, strict=True):
                yield from read_before_set(branch, set_there, sums)
            known |= branches[0] & branches[1]


def accesses_are_apart(loop: For) -> bool:
    """Whether every turn has entries of its own in the arrays that the loop writes, and finds its places by counting."""
    changing = assigned_names(loop.body)
    written = [x for s in walk(loop.body) if (x := target(s)) is not None]
    read = [x for s in walk(loop.body) for e in own_expressions(s) for x in subexpressions(e) if isinstance(x, Load)]
    for x in (*written, *read):
        inner = [y for i in x.index for y in subexpressions(i)]
        if any(isinstance(y, Load) or isinstance(y, Var) and y.name in changing for y in inner):
            return False
    moving = all(any(y == Var(loop.index) for i in x.index for y in subexpressions(i)) for x in written)
    places = {x.array: x.index for x in written}
    return moving and all(places.get(x.array, x.index) == x.index for x in (*written, *read))


def target(s: Statement) -> Load | None:
    """The entry of an array that a statement writes."""
    if isinstance(s, Store):
        return Load(s.array, s.index)
    return s.target if isinstance(s, Accumulate) and isinstance(s.target, Load) else None


# ------------------------------------------------------------------------------------------------ source
@functools.cache
def definitions() -> dict[str, str]:
    """The source of everything in ops/vector_math.py by name, without annotations, in its order."""
    source = without_annotations(inspect.getsource(vector_math))
    lines = source.splitlines()
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names, first = [node.name], min([node.lineno, *(d.lineno for d in node.decorator_list)])
        elif isinstance(node, ast.Assign):
            names, first = [x.id for t in node.targets for x in ast.walk(t) if isinstance(x, ast.Name)], node.lineno
        else:
            continue
        found |= dict.fromkeys(names, "\n".join(lines[first - 1:node.end_lineno]))
    return found


def without_annotations(source: str) -> str:
    """Python source without the annotations of functions and variables."""
    lines = source.splitlines()
    spans: list[tuple[int, int, int]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg) and node.annotation is not None:
            spans.append((node.lineno, node.col_offset + len(node.arg), node.annotation.end_col_offset or 0))
        elif isinstance(node, ast.AnnAssign):
            spans.append((node.lineno, node.target.end_col_offset or 0, node.annotation.end_col_offset or 0))
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            spans.append((node.returns.lineno, node.returns.col_offset - len(" -> "), node.returns.end_col_offset or 0))
    for line, start, end in sorted(spans, reverse=True):
        rest = lines[line - 1][end:]
        default = "def " in lines[line - 1] and rest.startswith(" = ")
        lines[line - 1] = lines[line - 1][:start] + ("=" + rest[len(" = "):] if default else rest)
    return "\n".join(lines) + "\n"


def closure(names: Iterable[str]) -> dict[str, str]:
    """The definitions of these names and of what they use, in the order of the module."""
    known, needed, pending = definitions(), set(), list(names)
    while pending:
        name = pending.pop()
        if name in known and name not in needed:
            needed.add(name)
            pending += [x.id for x in ast.walk(ast.parse(known[name])) if isinstance(x, ast.Name)]
    return {name: text for name, text in known.items() if name in needed}


def with_prelude(module: str, names: Iterable[str]) -> str:
    """A module with the source of these functions, and of what they use, behind it. What it defines too is renamed there."""
    needed = closure(names)
    own = "\n\n\n".join(blocks(dict.fromkeys(needed.values())))
    for name in sorted(needed.keys() & set(names_set(module))):
        module = re.sub(rf"(?<![\w.])(?<!def ){name}\(", f"{name}_(", module)
        own = re.sub(rf"(?<![\w.]){name}\b", f"{name}_", own)
    imports = [line for name, line in IMPORTS.items() if re.search(rf"\b{name}\b", own)]
    module = module.replace("import numpy as np\n", "\n".join(["import numpy as np", *imports, ""]), 1)
    return f"{module}\n\n{HEADING}\n{own}\n"


def blocks(definitions: Iterable[str]) -> list[str]:
    """Functions and classes one by one, constants that follow one another together."""
    found: list[str] = []
    for text in definitions:
        if found and is_constant(text) and is_constant(found[-1]):
            found[-1] += "\n" + text
        else:
            found.append(text)
    return found


def is_constant(text: str) -> bool:
    return not text.startswith(("def", "class", "@"))


def names_set(source: str) -> Iterator[str]:
    """The names of functions, parameters and variables in Python source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def vector_code(code: str, used: set[str]) -> str:
    """An expression with vector functions for those that have one; their names are added to `used`."""
    def call(match: re.Match[str]) -> str:
        if match[1] not in FUNCTIONS:
            return match[0]
        used.add(FUNCTIONS[match[1]])
        return f"{FUNCTIONS[match[1]]}("
    return CALL.sub(call, code)
