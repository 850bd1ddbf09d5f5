"""Rewrites expressions and assignments of a Python function so that everything a trace must see goes through hooks.

    z = scale * f(x)[0]      becomes     z = H.named("z", H.load("scale") * H.subscript(H.call(H.load("f"), x), 0))

where `H` is a `Scope` of hook.py, reached through a closure cell. Only what is needed is rewritten: reads of names from
outside the function, attributes, subscripts, calls, assignments, conditions and iterations. File name, line numbers and
columns stay the user's, so that tracebacks, debuggers and IR locations show the user's own code. Statements that steer
(`if`, `for`, `while`, `return`, ...) are done by lowering.py.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

HOOK = "__adcompile__"                              # the name of the cell that holds the Scope
FunctionNode = ast.FunctionDef | ast.Lambda

# Names that Python's compiler or frame inspection treats specially: left as they are.
SPECIAL_NAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__class__", "breakpoint"})


def parameter_names(arguments: ast.arguments) -> tuple[str, ...]:
    """All parameter names, in the order of a code object's variables."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return tuple(a.arg for a in every)


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
        self.shared: list[set[str]] = []            # of these, the names that blocks assign: they may be undefined when read
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
        # Python places a call where the name of its method ends: that must not be the last line of a statement.
        call.func.end_lineno, call.func.end_col_offset = call.func.lineno, call.func.col_offset + 1
        return located

    def is_local(self, name: str) -> bool:
        """Whether a name belongs to the function or one nested in it."""
        return any(name in scope for scope in self.scopes)

    def is_shared(self, name: str) -> bool:
        """Whether a local name is assigned in a block that becomes a function."""
        innermost = next(k for k in reversed(range(len(self.scopes))) if name in self.scopes[k])
        return name in self.shared[innermost]

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

    def comprehension(self, node: Any, wrap_first: bool = True) -> Any:
        """A comprehension: its first iterable belongs to the scope around it."""
        first = self.visit(node.generators[0].iter)
        self.scopes.append(bound_names(node))
        self.shared.append(set())
        for k, generator in enumerate(node.generators):
            iterable = first if k == 0 else self.visit(generator.iter)
            generator.iter = self.hook("iterate", iterable, at=iterable) if k or wrap_first else iterable
            generator.ifs = [self.hook("truth", self.visit(test), text("if of a comprehension"), at=test)
                             for test in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self.scopes.pop()
        self.shared.pop()
        return node

    def visit_ListComp(self, node: Any) -> Any:
        return self.comprehension(node)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewritten statements, where one may have become several."""
        result: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    # ------------------------------------------------------------------------------------------------ reads
    def visit_Name(self, node: ast.Name) -> Any:
        if not isinstance(node.ctx, ast.Load) or node.id in SPECIAL_NAMES:
            return node
        if self.is_local(node.id):
            return self.hook("local", text(node.id), node, at=node) if self.is_shared(node.id) else node
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
