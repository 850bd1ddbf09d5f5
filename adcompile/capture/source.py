"""Finds the source of a Python function and compiles its rewritten form (rewriter.py and lowering.py say what is rewritten)."""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from .lowering import Lowering
from .rewriter import HOOK, FunctionNode, parameter_names

FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names} - {0x10})
Nodes = dict[int, list[FunctionNode]]               # functions by their first line


@dataclass(frozen=True)
class Rewritten:
    """The rewritten code of a function. `free` are the names of its cells, the hook's among them."""

    code: CodeType
    free: tuple[str, ...]


CACHE: dict[CodeType, Rewritten | None] = {}        # by original code; None: cannot be rewritten
PRODUCED: set[CodeType] = set()                     # code that came out of a rewriting, nested functions included
PARSED: dict[str, tuple[str, Nodes]] = {}            # by file name: its text and functions


def rewritten(function: FunctionType) -> Rewritten | None:
    """The rewritten code of a function, None where there is no source for it."""
    code = function.__code__
    if code not in CACHE:
        node = find_node(code, function.__globals__)
        CACHE[code] = None if node is None else rewrite(node, code)
    return CACHE[code]


def is_rewritten(function: FunctionType) -> bool:
    """Whether a function was defined by rewritten code, so that its body already calls the hooks."""
    return function.__code__ in PRODUCED


# ---------------------------------------------------------------------------------------------------- finding the source
def find_node(code: CodeType, module_globals: dict[str, Any]) -> FunctionNode | None:
    """The syntax tree of the function whose code this is, None where the source is missing or has changed."""
    nodes = parse_file(code.co_filename, module_globals)
    found = [node for node in nodes.get(code.co_firstlineno, []) if matches(node, code)]
    if isinstance(found[0] if found else None, ast.Lambda) and len(found) > 1:
        found = by_position(found, code)
    return found[0] if len(found) == 1 else None


def parse_file(file: str, module_globals: dict[str, Any]) -> Nodes:
    """The functions of a file (or of an interactive cell that linecache knows); none where there is no source."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, module_globals))
    if file not in PARSED or PARSED[file][0] != text:
        nodes: Nodes = {}
        try:
            tree = ast.parse(text)
        except SyntaxError:
            tree = ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                nodes.setdefault(first_line(node), []).append(node)
        PARSED[file] = text, nodes
    return PARSED[file][1]


def first_line(node: FunctionNode) -> int:
    """The line where Python says that a function starts: that of its first decorator."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(d.lineno for d in decorators)])


def matches(node: FunctionNode, code: CodeType) -> bool:
    """Whether a node has the name and the parameters of a code object."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return (name, parameter_names(node.args)) == (code.co_name, code_parameters(code))


def code_parameters(code: CodeType) -> tuple[str, ...]:
    """The parameter names of a code object."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count]


def by_position(nodes: list[FunctionNode], code: CodeType) -> list[FunctionNode]:
    """Of several lambdas that start on one line, the one whose body spans the code's instructions most tightly."""
    spans = [(line, column, end, end_column) for line, end, column, end_column in code.co_positions()
             if line is not None and column is not None and end is not None and end_column is not None
             and (column, end_column) != (0, 0)]
    if not spans:
        return nodes
    start, stop = min(s[:2] for s in spans), max(s[2:] for s in spans)
    inside = [n for n in nodes if isinstance(n, ast.Lambda) and body_span(n)[0] <= start and stop <= body_span(n)[1]]
    inside.sort(key=lambda n: (body_span(n)[1][0] - body_span(n)[0][0], body_span(n)[1][1] - body_span(n)[0][1]))
    return list(inside[:1])


def body_span(node: ast.Lambda) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last position of a lambda's body."""
    body = node.body
    return (body.lineno, body.col_offset), (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)


# ---------------------------------------------------------------------------------------------------- compiling
def rewrite(node: FunctionNode, code: CodeType) -> Rewritten:
    """Rewrite a function's tree and compile it inside a factory whose parameters are the names of its cells."""
    node = copy.deepcopy(node)
    node.args.defaults = []
    node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
    Lowering(code).function(node)
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
    factory = ast.parse(f"def factory({', '.join([HOOK, *code.co_freevars])}): pass")
    statement: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.Return(node)
    factory.body[0].body = [ast.copy_location(statement, node)]  # type: ignore[attr-defined]
    module = compile(ast.fix_missing_locations(factory), code.co_filename, "exec",
                     flags=code.co_flags & FUTURES, dont_inherit=True)
    (made,) = [c for c in inner_codes(module) if c.co_name == "factory"]
    (result,) = [c for c in inner_codes(made) if c.co_name == code.co_name]
    result = result.replace(co_qualname=code.co_qualname)
    PRODUCED.update(all_codes(result))
    return Rewritten(result, result.co_freevars)


def inner_codes(code: CodeType) -> list[CodeType]:
    """The code objects defined directly inside one."""
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all those inside it."""
    yield code
    for inner in inner_codes(code):
        yield from all_codes(inner)
