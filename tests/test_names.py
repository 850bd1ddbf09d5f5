"""The last names of generated code, and the last touches on its statements: on loop programs written by hand."""

from __future__ import annotations

import numpy as np
from graphs import graph, loop, number, ops

from adcompile.ir.builder import Builder
from adcompile.ir.core import Value, walk
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.loops import Apply, Assign, Expr, Fill, For, Load, Number, SizeOf, Statement, Store, Var, statement_lines
from adcompile.ir.types import DType
from adcompile.ir.verifier import verify
from adcompile.optimize.settle import settle
from adcompile.schedule.polish import polish

n = SizeOf(Dim.symbol("n"))


def apply(code: str, *operands: Expr) -> Apply:
    return Apply(code, operands)


def text(*body: Statement, returns: tuple[Expr, ...] = (), parameters: tuple[str, ...] = (), arrays: tuple[str, ...] = ()) -> str:
    done = polish(body, returns, {"n"}, set(parameters), arrays)
    return "\n".join(statement_lines(done.body, 0))


def test_what_is_never_needed_together_shares_a_name() -> None:
    body = [
        For("t_1", n, (Store("x_2_saved_1", (Var("t_1"),), Var("x_1")),
                       Assign("x_1", apply("{0} * {1}", Var("x_1"), Var("r")), keep=True))),
        For("t_1_turn", n, (Assign("x_2_1", Load("x_2_saved_1", (Var("t_1_turn"),)), keep=True),
                            Store("x_bar", (Var("t_1_turn"),), apply("{0} * {0}", Var("x_2_1"))))),
    ]
    found = text(Assign("x_1", Var("x"), keep=True), *body, parameters=("x", "r"), arrays=("x_2_saved_1",))
    assert "x_1" not in found and "x_2" not in found and "x = x" not in found.splitlines()
    assert "x_saved[" in found and "x *= r" in found and "_turn" not in found


def test_what_is_needed_together_does_not() -> None:
    body = (Assign("x_1", apply("{0} + {1}", Var("x"), Var("r")), keep=True),)
    found = text(*body, returns=(Var("x_1"), Var("x")), parameters=("x", "r"))
    assert found == "x_1 = x + r"


def test_an_index_is_nothing_else_inside_its_loop() -> None:
    inner = For("i_1", n, (Store("a", (Var("i_1"),), Number(1.0, DType.f64)),))
    found = text(For("i", n, (inner, Store("b", (Var("i"),), Number(1.0, DType.f64)))))
    assert found.splitlines()[0].startswith("for i in") and found.splitlines()[1].strip().startswith("for j in")


def test_sums_are_taken_in_place() -> None:
    expr = apply("{0} - {1}", apply("{0} - {1}", Var("s"), Var("a")), Var("b"))
    assert text(Assign("s", expr, keep=True), returns=(Var("s"),), parameters=("s", "a", "b")) == "s -= a + b"
    expr = apply("{0} + {1}", apply("{0} - {1}", Var("s"), Var("a")), Var("b"))
    assert text(Assign("s", expr, keep=True), returns=(Var("s"),), parameters=("s", "a", "b")) == "s += b - a"


def test_statements_without_effect_go() -> None:
    same = Store("a", (Var("i"),), Load("a", (Var("i"),)))
    assert text(For("i", n, (same,)), Fill("b", Number(0.0, DType.f64))) == "b[:] = 0.0"


@graph(x=np.linspace(-1.0, 2.0, 4))
def scaled_sum(b: Builder, x: Value) -> Value:
    def turn(i: Value, total: Value, factor: Value) -> tuple[Value, ...]:
        return ops.add(total, ops.mul(factor, ops.gather(x, i, axes=(0,)))), factor

    return loop(b, 0, ops.size(dim=x.type.dims[0]), (number(0.0), number(2.0)), turn)[0]


def test_what_a_loop_never_changes_is_not_carried() -> None:
    made = scaled_sum()
    function = settle(made.function)
    verify(function)
    (each,) = [o for o in walk(function.body) if o.op == "for"]
    assert len(each.results) == 1
    assert interpret(function, made.args) == interpret(made.function, made.args)
