"""Rewrites a Python function so that everything a trace must see goes through hooks.

    z = scale * f(x)[0]      becomes     z = H.named("z", H.load("scale") * H.subscript(H.call(H.load("f"), x), 0))

where `H` is a `Scope` of hook.py, reached through a closure cell. Only what is needed is rewritten: reads of names from
outside the function, attributes, subscripts, calls, assignments, conditions and iterations. File name, line numbers and
columns stay the user's, so that tracebacks, debuggers and IR locations show the user's own code.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

HOOK = "__adcompile__"                              # the name of the cell that holds the Scope
FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names} - {0x10})
FunctionNode = ast.FunctionDef | ast.Lambda
Nodes = dict[int, list[FunctionNode]]               # functions by their first line

# Names that Python's compiler or frame inspection treats specially: left as they are.
SPECIAL_NAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__class__", "breakpoint"})


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


def parameter_names(arguments: ast.arguments) -> tuple[str, ...]:
    """All parameter names, in the order of a code object's variables."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return tuple(a.arg for a in every)


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
    Rewriter(code).function(node)
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


# ---------------------------------------------------------------------------------------------------- scopes
def bound_names(node: ast.AST) -> set[str]:
    """The local names of a function: its parameters and all that its body binds, without nested scopes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        names = set(parameter_names(node.args))
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        outside: set[str] = set()
        for child in body:
            collect_bound(child, names, outside)
        return names - outside
    names = set()
    for generator in getattr(node, "generators", []):
        collect_bound(generator.target, names, set())
    return names


def collect_bound(node: ast.AST, names: set[str], outside: set[str]) -> None:
    """Add the names that a node binds in its own scope to `names`, those declared global or nonlocal to `outside`."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names.add(node.name)
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        outside.update(node.names)
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        names.add(node.id)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        names.add(node.name)
    elif isinstance(node, ast.alias):
        names.add((node.asname or node.name).split(".")[0])
    elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
        names.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        names.add(node.rest)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                names.add(inner.target.id)
        return
    for child in ast.iter_child_nodes(node):
        collect_bound(child, names, outside)


# ---------------------------------------------------------------------------------------------------- the rewriting itself
def text(value: str) -> ast.Constant:
    return ast.Constant(value)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


class Rewriter(ast.NodeTransformer):
    """Replaces the nodes of one function (nested functions included) by calls of hooks."""

    def __init__(self, code: CodeType) -> None:
        self.free = frozenset(code.co_freevars)
        self.scopes: list[set[str]] = []
        self.temporaries = 0
        parts = code.co_qualname.split(".")
        owner = parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else ""
        self.owner = owner.lstrip("_")              # the class whose private names (`self.__x`) are mangled

    def hook(self, method: str, *arguments: ast.expr, at: ast.AST) -> Any:
        """The call `H.method(*arguments)` at the place of a node."""
        call = ast.Call(ast.Attribute(load(HOOK), method, ast.Load()), list(arguments), [])
        located = ast.copy_location(call, at)
        for node in (call.func, call.func.value, *[a for a in arguments if not hasattr(a, "lineno")]):  # type: ignore[attr-defined]
            ast.copy_location(node, at)
        return located

    def is_local(self, name: str) -> bool:
        """Whether a name belongs to the function or one nested in it."""
        return any(name in scope for scope in self.scopes)

    # ------------------------------------------------------------------------------------------------ scopes
    def function(self, node: Any) -> Any:
        """Rewrite the body of a function or lambda in its own scope; defaults belong to the scope around it."""
        self.scopes.append(bound_names(node))
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = self.statements(node.body)
        self.scopes.pop()
        return node

    def nested(self, node: Any) -> Any:
        """A function defined inside the function."""
        if hasattr(node, "decorator_list"):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        return self.function(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = nested

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """A class is left as it is; its methods are rewritten when they are called."""
        return node

    def comprehension(self, node: Any) -> Any:
        """A comprehension: its first iterable belongs to the scope around it."""
        first = self.visit(node.generators[0].iter)
        self.scopes.append(bound_names(node))
        for k, generator in enumerate(node.generators):
            iterable = first if k == 0 else self.visit(generator.iter)
            generator.iter = self.hook("iterate", iterable, at=iterable)
            generator.ifs = [self.hook("truth", self.visit(test), text("if"), at=test) for test in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewritten statements, where one may have become several."""
        result: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    # ------------------------------------------------------------------------------------------------ reads
    def visit_Name(self, node: ast.Name) -> Any:
        if not isinstance(node.ctx, ast.Load) or self.is_local(node.id) or node.id in SPECIAL_NAMES:
            return node
        return self.hook("cell" if node.id in self.free else "load", text(node.id), at=node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.attr = self.mangled(node.attr)
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            return node
        return self.hook("attribute", node.value, text(node.attr), at=node)

    def mangled(self, name: str) -> str:
        """A private attribute's real name, as Python's compiler makes it inside a class."""
        private = name.startswith("__") and not name.endswith("__") and self.owner
        return f"_{self.owner}{name}" if private else name

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            node.slice = self.visit(node.slice)
            return node
        return self.hook("subscript", node.value, self.key(node.slice), at=node)

    def key(self, node: ast.expr) -> ast.expr:
        """The expression in the brackets of a subscript as a value: slices become slice objects."""
        if isinstance(node, ast.Slice):
            parts = [self.visit(p) if p is not None else ast.Constant(None) for p in (node.lower, node.upper, node.step)]
            result: ast.expr = self.hook("slice", *parts, at=node)
        elif isinstance(node, ast.Tuple):
            result = ast.copy_location(ast.Tuple([self.key(e) for e in node.elts], ast.Load()), node)
        else:
            result = self.visit(node)
        return result

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in SPECIAL_NAMES and not self.is_local(node.func.id):
            return self.generic_visit(node)
        arguments = [self.visit(node.func), *map(self.visit, node.args)]
        call = self.hook("call", *arguments, at=node)
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            keyword.value = value if keyword.arg else self.hook("mapping", value, at=value)
        call.keywords = node.keywords
        return call

    def visit_Starred(self, node: ast.Starred) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            node.value = self.hook("iterate", node.value, at=node.value)
        return node

    # ------------------------------------------------------------------------------------------------ conditions, iteration
    def tested(self, node: Any, construct: str) -> Any:
        """Rewrite the children of a node and send its test through `truth`."""
        self.generic_visit(node)
        node.test = self.hook("truth", node.test, text(construct), at=node.test)
        return node

    def visit_If(self, node: ast.If) -> Any:
        return self.tested(node, "if")

    def visit_While(self, node: ast.While) -> Any:
        return self.tested(node, "while")

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.tested(node, "if-else")

    def visit_Assert(self, node: ast.Assert) -> Any:
        return self.tested(node, "assert")

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        word = "and" if isinstance(node.op, ast.And) else "or"
        values = [self.visit(v) for v in node.values]
        node.values = [self.hook("operand", v, text(word), at=v) for v in values[:-1]] + values[-1:]
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        node.left, operands = self.visit(node.left), [self.visit(c) for c in node.comparators]
        node.comparators = [self.hook("iterate", c, at=c) if isinstance(op, (ast.In, ast.NotIn)) else c
                            for op, c in zip(node.ops, operands, strict=True)]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        node.operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            node.operand = self.hook("truth", node.operand, text("not"), at=node.operand)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        """Handlers of the user's code must not swallow what capture has to say."""
        self.generic_visit(node)
        node.body.insert(0, ast.copy_location(ast.Expr(self.hook("handled", at=node)), node))
        return node

    def visit_For(self, node: ast.For) -> Any:
        iterable = self.visit(node.iter)
        node.iter = self.hook("iterate", iterable, at=iterable)
        node.target = self.visit(node.target)
        node.body, node.orelse = self.statements(node.body), self.statements(node.orelse)
        return node

    # ------------------------------------------------------------------------------------------------ assignments
    def visit_Global(self, node: Any) -> Any:
        """Assigning a name outside the function is a side effect: the hook raises."""
        outer = [name for name in node.names if not self.is_local(name)]
        return [node, *[ast.copy_location(ast.Expr(self.hook("outside", text(name), at=node)), node) for name in outer]]

    visit_Nonlocal = visit_Global

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.assign(node.targets[0], value, node)
        name = self.temporary()
        first = next((t.id for t in node.targets if isinstance(t, ast.Name)), name)
        result = self.assign(store(first), value, node)
        for target in node.targets:
            if not (isinstance(target, ast.Name) and target.id == first):
                result += self.assign(target, ast.copy_location(load(first), node), node)
        return result

    def temporary(self) -> str:
        """A fresh local name that no user has."""
        self.temporaries += 1
        name = f"{HOOK}{self.temporaries}"
        self.scopes[-1].add(name)
        return name

    def assign(self, target: ast.expr, value: ast.expr, at: ast.AST) -> list[ast.stmt]:
        """The statements of one assignment `target = value`, the value rewritten already."""
        if isinstance(target, ast.Name):
            if not target.id.startswith(HOOK):
                value = self.hook("named", text(target.id), value, at=value)
            return [ast.copy_location(ast.Assign([ast.copy_location(target, at)], value), at)]
        if isinstance(target, ast.Subscript):
            call = self.hook("store", value, self.visit(target.value), self.key(target.slice), at=at)
            return [ast.copy_location(ast.Expr(call), at)]
        if isinstance(target, ast.Attribute):
            name = text(self.mangled(target.attr))
            return [ast.copy_location(ast.Expr(self.hook("store_attribute", value, self.visit(target.value), name, at=at)), at)]
        assert isinstance(target, (ast.Tuple, ast.List))
        return self.assign_several(target, value, at)

    def assign_several(self, target: ast.Tuple | ast.List, value: ast.expr, at: ast.AST) -> list[ast.stmt]:
        """Unpacking: targets that are not plain names get their values through temporaries, left to right."""
        names: list[ast.expr] = []
        later: list[tuple[ast.expr, str]] = []
        for element in target.elts:
            starred = isinstance(element, ast.Starred)
            inner: ast.expr = element.value if isinstance(element, ast.Starred) else element
            if isinstance(inner, ast.Name):
                name = inner.id
            else:
                name = self.temporary()
                later.append((inner, name))
            plain: ast.expr = store(name)
            names.append(ast.Starred(plain, ast.Store()) if starred else plain)
        labels = [text("" if isinstance(n, ast.Starred) else n.id) for n in names if isinstance(n, (ast.Starred, ast.Name))]
        if any(isinstance(n, ast.Starred) for n in names):
            value = self.hook("iterate", value, at=at)
        else:
            value = self.hook("unpack", value, *labels, at=at)
        first = ast.copy_location(ast.Assign([ast.Tuple(names, ast.Store())], value), at)
        result: list[ast.stmt] = [first]
        for inner, name in later:
            result += self.assign(inner, ast.copy_location(load(name), at), at)
        return result

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        return self.assign(node.target, self.visit(node.value), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        node.value = self.hook("named", text(node.target.id), self.visit(node.value), at=node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        operator, target = text(type(node.op).__name__), node.target
        if isinstance(target, ast.Name):
            current = ast.copy_location(load(target.id), node)
            value = self.hook("augment", operator, self.visit(current), self.visit(node.value), at=node)
            return self.assign(store(target.id), value, node)
        if isinstance(target, ast.Subscript):
            key = self.key(target.slice)
            call = self.hook("augment_item", operator, self.visit(target.value), key, self.visit(node.value), at=node)
        else:
            name = text(self.mangled(target.attr))
            call = self.hook("augment_attribute", operator, self.visit(target.value), name, self.visit(node.value), at=node)
        return ast.copy_location(ast.Expr(call), node)
