"""Rewrites the statements that steer. Each block of an `if`, `for` or `while` becomes a local function without arguments
(a loop's body takes the item), which hooks can run once, twice or into a region of the IR:

    for i in range(n):                      def body(item):
        if x[i] < 0.0: break                    nonlocal i, s
        s += x[i]                               i = item
    return s                                    def then(): return H.BREAK
                                                def rest(): nonlocal s; s += x[i]
                                                return H.branch(x[i] < 0.0, then, None, rest)
                                            def rest(): return H.returned(s)
                                            return H.result(H.loop(range(n), body, None, rest))

A block's function returns how it was left: None where it ran to its end, else a `Flow` (break, continue or return). What
follows a statement that may leave its block is a function too (`rest`), so that it can run under a traced condition.
"""

from __future__ import annotations

import ast
import copy
from types import CodeType
from typing import Any

from .rewriter import HOOK, Rewriter, bound_names, collect_bound, load, store, text

Steering = ast.If | ast.For | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
FRAME_NAMES = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"})


def nothing() -> ast.expr:
    return ast.Constant(None)


def own_nodes(nodes: Any) -> Any:
    """Everything inside of nodes that belongs to the same function."""
    for node in nodes:
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from own_nodes(ast.iter_child_nodes(node))


def is_plain(node: Any) -> bool:
    """Whether a function's statements must stay as they are: generators, coroutines, functions that look at their frame."""
    return any(
        isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith))
        or isinstance(n, ast.Name)
        and n.id in FRAME_NAMES
        for n in own_nodes(node.body)
    )


def leaves_block(statement: ast.AST) -> bool:
    """Whether a statement can end the block it stands in: it holds a `return`, or a `break` or `continue` of a loop around it."""
    if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(statement, FUNCTIONS):
        return False
    if isinstance(statement, (ast.For, ast.While)):
        return any(isinstance(n, ast.Return) for n in own_nodes(statement.body)) or any(map(leaves_block, statement.orelse))
    return any(
        leaves_block(n) for n in ast.iter_child_nodes(statement) if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case))
    )


def steering(node: Any) -> list[Any]:
    """The statements of a function whose blocks become functions."""
    return [n for n in own_nodes(node.body) if isinstance(n, (ast.If, ast.For, ast.While))]


def has_walrus(node: ast.AST) -> bool:
    """Whether an expression assigns names."""
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


def tested_in_body(statement: ast.While) -> ast.While:
    """`while True: if not test: break ...`: the names that the condition assigns are the body's then."""
    leaving = ast.If(ast.UnaryOp(ast.Not(), statement.test), [ast.Break()], [])
    return ast.While(ast.Constant(True), [ast.copy_location(leaving, statement.test), *statement.body], [])


class Lowering(Rewriter):
    """The whole rewriting of one function."""

    def __init__(self, code: CodeType) -> None:
        super().__init__(code)
        self.plain = False  # the function's statements stay as they are
        self.in_message = False  # of an error
        self.inside = False  # in a block's function: `return` gives a Flow
        self.outer: dict[str, str] = {}  # names that the user's function declares global or nonlocal
        self.method: tuple[str, ...] = code.co_varnames[:1] if "__class__" in code.co_freevars else ()

    # ------------------------------------------------------------------------------------------------ functions
    def function(self, node: Any) -> Any:
        """Rewrite a function or lambda; its statements in the form described above."""
        saved = self.plain, self.inside, self.outer
        if isinstance(node, ast.Lambda):
            self.plain = False
            self.shared.append(set())
            super().function(node)
        else:
            self.plain, self.inside = is_plain(node), False
            self.outer = {
                name: type(n).__name__.lower()
                for n in own_nodes(node.body)
                if isinstance(n, (ast.Global, ast.Nonlocal))
                for name in n.names
            }
            self.shared.append(set() if self.plain else self.block_names(steering(node)))
            self.scopes.append(bound_names(node))
            own = sorted(self.block_names(node.body) - self.outer.keys())
            bound = [self.bindings(own, node.body[0])] if own and steering(node) else []
            node.body = self.statements(node.body) if self.plain else [*bound, *self.sequence(node.body, True)]
            self.scopes.pop()
        self.shared.pop()
        self.plain, self.inside, self.outer = saved
        return node

    def bindings(self, names: list[str], at: ast.stmt) -> ast.stmt:
        """A statement that does nothing but make names local to the function, so that blocks can share them."""
        dead: ast.stmt = self.at(ast.If(ast.Constant(False), [ast.Assign([store(name) for name in names], nothing())], []), at)
        return dead

    def block_names(self, body: list[Any]) -> set[str]:
        """The names that statements assign, as far as they belong to the function itself."""
        names: set[str] = set()
        for statement in body:
            collect_bound(statement, names, set())
        return {name for name in names if self.outer.get(name) != "global" and not name.startswith(HOOK)}

    def sequence(self, body: list[ast.stmt], tail: bool) -> list[ast.stmt]:
        """Rewritten statements. `tail`: the end of this list is the end of the function that it is in."""
        result: list[ast.stmt] = []
        for k, statement in enumerate(body):
            if not isinstance(statement, (ast.If, ast.For, ast.While)):
                new = self.visit(statement)
                result.extend(new if isinstance(new, list) else [new])
                continue
            if not leaves_block(statement):
                functions, call = self.steer(statement, [])
                result += [*functions, self.at(ast.Expr(call), statement)]
            elif tail:
                functions, call = self.steer(statement, body[k + 1 :])
                value = call if self.inside else self.hook("result", call, at=statement)
                return [*result, *functions, self.at(ast.Return(value), statement)]
            else:
                functions, call = self.steer(statement, [])
                result += [*functions, *self.leave_if(call, statement)]
        return result or [ast.Pass()]

    def leave_if(self, call: ast.expr, at: ast.stmt) -> list[ast.stmt]:
        """Leave the function if a statement was left, which must be known now: in a `with` or a `try` block."""
        name = self.temporary()
        kept = self.at(ast.Assign([store(name)], self.hook("settled", call, at=at)), at)
        value: ast.expr = load(name) if self.inside else self.hook("result", load(name), at=at)
        test = ast.Compare(load(name), [ast.IsNot()], [ast.Constant(None)])
        return [kept, self.at(ast.If(test, [ast.Return(value)], []), at)]

    def at(self, node: Any, place: ast.AST) -> Any:
        """A new node, all of it at the place of another one."""
        for inner in ast.walk(node):
            if not hasattr(inner, "lineno"):
                ast.copy_location(inner, place)
        return node

    def block(self, body: list[ast.stmt], at: ast.stmt, item: ast.expr | None = None) -> tuple[list[ast.stmt], ast.expr]:
        """The local function of a block, and the expression for it: None for an empty block."""
        if not body and item is None:
            return [], nothing()
        self.temporaries += 1
        name, parameter = f"{HOOK}block{self.temporaries}", f"{HOOK}item{self.temporaries}"
        saved, self.inside = self.inside, True
        start = [] if item is None else self.assign(item, self.at(load(parameter), at), at)
        parts = [*body, *([] if item is None else [ast.Assign([item], nothing())])]
        assigned = self.block_names(parts)
        declared = [ast.Nonlocal(sorted(assigned))] if assigned else []
        statements = [*declared, *start, *self.sequence(body, True)]
        self.inside = saved
        arguments = ast.arguments([], [] if item is None else [ast.arg(parameter)], None, [], [], None, [])
        function = ast.FunctionDef(name, arguments, statements, [], None)
        return [self.at(function, at)], load(name)

    def test(self, statement: ast.While) -> tuple[list[ast.stmt], ast.expr]:
        """The local function that evaluates the condition of a `while`."""
        self.temporaries += 1
        name = f"{HOOK}block{self.temporaries}"
        assigned = self.block_names([statement.test])
        declared = [ast.Nonlocal(sorted(assigned))] if assigned else []
        body = [*declared, ast.Return(self.visit(statement.test))]
        function = ast.FunctionDef(name, ast.arguments([], [], None, [], [], None, []), body, [], None)
        return [self.at(function, statement.test)], load(name)

    def steer(self, statement: Steering, following: list[ast.stmt]) -> tuple[list[ast.stmt], ast.expr]:
        """The local functions of an `if`, `for` or `while`, and the call of the hook that runs them."""
        place = statement
        if isinstance(statement, ast.While) and has_walrus(statement.test) and not statement.orelse:
            statement = self.at(tested_in_body(statement), place)
        if isinstance(statement, ast.If):
            test = self.visit(statement.test)
            first, body = self.block(statement.body, place)
            second, orelse = self.block(statement.orelse, place)
            rest, after = self.block(following, place)
            return [*first, *second, *rest], self.hook("branch", test, body, orelse, after, at=place)
        if isinstance(statement, ast.For):
            first, body = self.block(statement.body, place, statement.target)
            name, head = "loop", self.visit(statement.iter)
        else:
            first, body = self.block(statement.body, place)
            tested, head = self.test(statement)
            name, first = "repeat", [*first, *tested]
        second, orelse = self.block(statement.orelse, place)
        rest, after = self.block(following, place)
        return [*first, *second, *rest], self.hook(name, head, body, orelse, after, at=place)

    # ------------------------------------------------------------------------------------------------ leaving
    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        if self.inside and not self.plain:
            node.value = self.hook("returned", node.value or nothing(), at=node)
        return node

    def visit_Break(self, node: ast.Break) -> Any:
        return self.leave(node, "BREAK")

    def visit_Continue(self, node: ast.Continue) -> Any:
        return self.leave(node, "CONTINUE")

    def leave(self, node: ast.stmt, how: str) -> Any:
        """`break` or `continue`: the block's function returns that."""
        if self.plain:
            return node
        return self.at(ast.Return(ast.Attribute(load(HOOK), how, ast.Load())), node)

    # ------------------------------------------------------------------------------------------------ failing
    def visit_Raise(self, node: ast.Raise) -> Any:
        """`raise E(...)`  ->  `raise H.failing(lambda: E(...))`."""
        if node.exc is not None and not has_walrus(node.exc):
            node.exc = self.hook("failing", self.message(node.exc), at=node)
            node.cause = node.cause and self.visit(node.cause)
            return node
        return self.generic_visit(node)

    def message(self, node: ast.expr) -> ast.expr:
        """What makes an error or its message, to be evaluated later: f-strings show traced values as they are written."""
        saved, self.in_message = self.in_message, True
        made = self.thunk(self.visit(node))
        self.in_message = saved
        return made

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        written = ast.unparse(node.value)
        self.generic_visit(node)
        if self.in_message:
            node.value = self.hook("shown", node.value, text(written), at=node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        """`assert test, message`  ->  `H.sure(test, lambda: message)`."""
        if node.msg is not None and has_walrus(node.msg) or not __debug__:
            return super().visit_Assert(node)
        message = [] if node.msg is None else [self.message(node.msg)]
        return self.at(ast.Expr(self.hook("sure", self.visit(node.test), *message, at=node)), node)

    # ------------------------------------------------------------------------------------------------ statements with blocks
    def inner(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """A list of statements inside of a statement that stays."""
        return self.statements(body) if self.plain else self.sequence(body, False)

    def visit_With(self, node: ast.With) -> Any:
        node.items = [self.visit(item) for item in node.items]
        node.body = self.inner(node.body)
        return node

    def visit_Try(self, node: Any) -> Any:
        kinds = [load("BaseException") if h.type is None else self.visit(copy.deepcopy(h.type)) for h in node.handlers]
        node.body, node.handlers = self.inner(node.body), [self.visit(h) for h in node.handlers]
        if kinds and not self.plain:
            handled = self.thunk(self.at(ast.Tuple(kinds, ast.Load()), node))
            node.body = [self.at(ast.With([ast.withitem(self.hook("trying", handled, at=node))], node.body), node)]
        node.orelse = self.inner(node.orelse) if node.orelse else []
        node.finalbody = self.inner(node.finalbody) if node.finalbody else []
        return node

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        """Handlers of the user's code must not swallow what capture has to say."""
        node.type = node.type and self.visit(node.type)
        node.body = [self.at(ast.Expr(self.hook("handled", at=node)), node), *self.inner(node.body)]
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        node.guard = node.guard and self.hook("truth", self.visit(node.guard), text("if"), at=node.guard)
        node.body = self.inner(node.body)
        return node

    # ------------------------------------------------------------------------------------------------ expressions
    def thunk(self, body: ast.expr) -> ast.Lambda:
        """An expression (rewritten already) to be evaluated later."""
        made: ast.Lambda = self.at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), body)
        return made

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if self.plain or has_walrus(node.body) or has_walrus(node.orelse):
            return super().visit_IfExp(node)
        test, body, orelse = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return self.hook("choose", test, self.thunk(body), self.thunk(orelse), at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if self.plain or any(map(has_walrus, node.values[1:])):     # the first operand is evaluated where it stands
            return super().visit_BoolOp(node)
        word = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = [self.visit(v) for v in node.values]
        return self.hook("combine", text(word), first, *map(self.thunk, others), at=node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if self.plain or any(map(has_walrus, node.comparators)) or len(node.ops) == 1:
            return super().visit_Compare(node)
        operands = [self.visit(c) for c in node.comparators]
        names = ast.Tuple([text(type(op).__name__) for op in node.ops], ast.Load())
        return self.hook("compare", self.at(names, node), self.visit(node.left), *map(self.thunk, operands), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if not isinstance(node.op, ast.Not) or self.plain:
            return super().visit_UnaryOp(node)
        return self.hook("negate", self.visit(node.operand), at=node)

    def visit_Call(self, node: ast.Call) -> Any:
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
            and self.method
            and not self.is_local("super")
        ):
            node.args = [self.at(load("__class__"), node), self.at(load(self.method[0]), node)]
            return node
        return super().visit_Call(node)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        return self.gathered(node, "collect")

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self.gathered(node, "generate")

    def gathered(self, node: Any, hook: str) -> Any:
        """`[f(i) for i in items if c]`  ->  `H.collect(items, lambda item: [f(i) for i in (item,) if c])`."""
        first = node.generators[0]
        if self.plain or has_walrus(node) or first.is_async:
            return super().comprehension(node)
        self.temporaries += 1
        parameter = f"{HOOK}item{self.temporaries}"
        iterable = self.visit(first.iter)
        saved = self.shared
        self.shared = [*self.shared, set()]
        self.scopes.append({parameter})
        inner = ast.ListComp(
            node.elt, [ast.comprehension(first.target, self.at(load(parameter), first.iter), first.ifs, 0), *node.generators[1:]]
        )
        body = super().comprehension(self.at(inner, node), wrap_first=False)
        self.scopes.pop()
        self.shared = saved
        body.generators[0].iter = self.at(ast.Tuple([load(parameter)], ast.Load()), first.iter)
        function = ast.Lambda(ast.arguments([], [ast.arg(parameter)], None, [], [], None, []), body)
        single = ast.Constant(len(node.generators) == 1 and not first.ifs)
        return self.hook(hook, iterable, self.at(function, node), self.at(single, node), at=node)
