"""Passes keep the meaning: each on graphs built by hand, forward and with the adjoint appended, interpreted before and
after. An exact pass must give the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import assert_close, assert_same
from corpus import CORPUS
from graphs import GRAPHS, WHERE, Graph, corpus_graph, loop, number, ops, spread, total

from adcompile.differentiate.reverse import value_and_grad
from adcompile.ir.analysis import all_values
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Size, Value, walk
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify
from adcompile.optimize import cse, dce, erase_marks, hoist, simplify
from adcompile.optimize.rewrite import EXACT, SIGN_OF_ZERO

EXACT_PASSES = {
    "simplify, exact rules": lambda f: simplify(f, EXACT),
    "cse": cse,
    "dce": dce,
    "hoist": hoist,
    "erase_marks": erase_marks,
}
N = Dim.symbol("x_0")


def variants(name: str) -> list[tuple[Graph, Function]]:
    """The graph itself and the graph with its adjoint."""
    graph = GRAPHS[name]()
    return [(graph, graph.function), (graph, value_and_grad(graph.function, graph.wrt))]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("each", EXACT_PASSES)
def test_exact_passes_keep_every_bit(name: str, each: str) -> None:
    for graph, function in variants(name):
        after = EXACT_PASSES[each](function)
        verify(after)
        assert_same(interpret(after, graph.args), interpret(function, graph.args))


@pytest.mark.parametrize("name", GRAPHS)
def test_simplify_keeps_the_value(name: str) -> None:
    for graph, function in variants(name):
        after = simplify(function)
        verify(after)
        tolerance = 1e-5 if graph.name == "single_precision" else 1e-12
        assert_close(interpret(after, graph.args), interpret(function, graph.args), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", GRAPHS)
def test_passes_settle(name: str) -> None:
    """What simplify leaves, simplify leaves alone; no pass changes its input."""
    for _, function in variants(name):
        before = list(walk(function.body))
        once = simplify(function)
        assert [op.op for op in walk(simplify(once).body)] == [op.op for op in walk(once.body)]
        assert before == list(walk(function.body))


@pytest.mark.parametrize("name", GRAPHS)
def test_names_stay_unique_and_locations_stay(name: str) -> None:
    for _, function in variants(name):
        for after in (simplify(function), cse(function), hoist(function), dce(function)):
            names = [v.name for v in all_values(after)]
            assert len(set(names)) == len(names)
            assert all(op.location == WHERE for op in walk(after.body))


@pytest.mark.parametrize("name", CORPUS)
def test_passes_on_the_corpus(name: str) -> None:
    graph = corpus_graph(CORPUS[name])
    tolerance = 1e-4 if any(p.type.dtype is DType.f32 for p in graph.function.params) else 1e-10
    for function in (graph.function, value_and_grad(graph.function, graph.wrt)):
        verify(function)
        before = interpret(function, graph.args)
        for each in EXACT_PASSES.values():
            after = each(function)
            verify(after)
            assert_same(interpret(after, graph.args), before)
        after = simplify(function)
        verify(after)
        assert_close(interpret(after, graph.args), before, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------- single effects
def build(body: object, *names: str) -> Function:
    """A function of f64[x_0] parameters."""
    with Builder("f") as b:
        b.location = WHERE
        result = body(*[b.parameter(name, Type(DType.f64, (N,))) for name in names])    # type: ignore[operator]
        return b.finish(result if isinstance(result, tuple) else (result,), {"x_0": Size(0, 0)})


def op_names(function: Function) -> list[str]:
    return [operation.op for operation in function.body.operations]


def test_signs_come_out_as_a_person_writes_them() -> None:
    assert op_names(simplify(build(lambda x, y: -(-x * y), "x", "y"))) == ["mul"]
    assert op_names(simplify(build(lambda x, y: x + -y, "x", "y"))) == ["sub"]
    assert op_names(simplify(build(lambda x, y: -(x - y), "x", "y"))) == ["sub"]
    function = simplify(build(lambda x: -x * 3.0, "x"))
    (operation,) = function.body.operations
    assert isinstance(operation.operands[0], Literal) and operation.operands[0].value == -3.0


def test_a_users_name_wins_over_a_temporary() -> None:
    function = build(lambda x: ops.mul(ops.neg(ops.neg(x)), ops.exp(x), name="product"), "x")
    assert function.results[0].name == "product"                                         # type: ignore[union-attr]
    assert simplify(function).results[0].name == "product"                               # type: ignore[union-attr]
    shared = build(lambda x: (ops.exp(x), ops.exp(x, name="e")), "x")
    assert [r.name for r in cse(shared).results] == ["e", "e"]                           # type: ignore[union-attr]


def test_a_broadcast_number_becomes_the_number() -> None:
    function = simplify(build(lambda x: x * spread(Literal(2.0, DType.f64), x) + spread(Literal(1.0, DType.f64), x), "x"))
    assert op_names(function) == ["mul", "add"]


def test_cse_knows_commutativity_and_attributes() -> None:
    assert op_names(cse(build(lambda x, y: (x + y) * (y + x), "x", "y"))) == ["add", "mul"]
    function = cse(build(lambda x: (ops.reduce_sum(x, axes=()), ops.reduce_sum(x, axes=(0,))), "x"))
    assert op_names(function) == ["reduce_sum", "reduce_sum"]
    zeros = cse(build(lambda x: (x * 0.0, x * -0.0), "x"))
    assert op_names(zeros) == ["mul", "mul"]


def test_cse_does_not_reach_into_a_sibling_region() -> None:
    graph = GRAPHS["loop_with_branch"]()
    verify(cse(graph.function))


def test_hoist_takes_invariants_out_of_all_loops() -> None:
    function = hoist(GRAPHS["invariant_in_loop"]().function)
    assert op_names(function) == ["sin", "exp", "for"]


def test_dce_drops_carried_values_that_nothing_reads() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64))
        kept, _ = loop(b, 0, 3, (x, x), lambda i, p, q: (p * 2.0, q + p))
        function = dce(b.finish((kept,)))
    verify(function)
    (operation,) = function.body.operations
    assert len(operation.results) == 1 and len(operation.regions[0].arguments) == 2
    assert_same(interpret(function, (1.5,)), (np.float64(12.0),))


def test_dce_keeps_what_a_carried_value_needs() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64))
        kept, _ = loop(b, 0, 3, (x, number(1.0)), lambda i, p, q: (p * q, q + 1.0))
        function = dce(b.finish((kept,)))
    assert_same(interpret(function, (1.0,)), (np.float64(6.0),))


def test_a_sum_over_a_broadcast_axis_is_a_product() -> None:
    with Builder("f") as b:
        b.location = WHERE
        a = b.parameter("A", Type.of(DType.f64, 4, 3))
        w = b.parameter("w", Type.of(DType.f64, 3))
        function = simplify(b.finish((total(ops.broadcast(w, dims=a.type.dims, axes=(1,))),)))
    assert sorted(op_names(function)) == ["mul", "reduce_sum"]
    assert_close(interpret(function, (np.ones((4, 3)), np.arange(3.0))), (12.0,))


def test_contractions_with_broadcast_operands_shrink() -> None:
    with Builder("f") as b:
        b.location = WHERE
        a = b.parameter("A", Type.of(DType.f64, 4, 3))
        ones = ops.broadcast(Literal(1.0, DType.f64), dims=(Dim.of(4),), axes=())
        function = simplify(b.finish((ops.contract(a, ones, a_labels=(0, 1), b_labels=(0,), out_labels=(1,)),)))
    verify(function)
    assert op_names(function) == ["reduce_sum"]


def test_erase_marks() -> None:
    function = erase_marks(GRAPHS["constant_part"]().function)
    assert "stop_gradient" not in op_names(function)


def test_the_sign_of_zero_is_kept_by_exact_rules() -> None:
    function = build(lambda x: x + 0.0, "x")
    assert_same(interpret(simplify(function, EXACT), (np.array([-0.0]),)), (np.array([0.0]),))
    assert op_names(simplify(function, SIGN_OF_ZERO)) == []
    assert isinstance(simplify(function).results[0], Value)
