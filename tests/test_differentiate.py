"""Derivatives of graphs built by hand: gradients against differences, forward against reverse mode, strong zeros, and what a
derivative must not contain. That each row's own derivative is right is tested in test_ops.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from conftest import assert_close, assert_same
from corpus import CORPUS
from graphs import GRAPHS, WHERE, Graph, branch, corpus_graph, loop, number, ops, total

from adcompile.differentiate.activity import active_values
from adcompile.differentiate.jvp import jvp
from adcompile.differentiate.reverse import value_and_grad, vjp
from adcompile.errors import DifferentiationError
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Size, Value, walk
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify

KINKS = {"where_sqrt", "norm_at_zero", "branch_not_taken", "constant_part"}
N = Dim.symbol("x_0")
VECTOR = Type(DType.f64, (N,))


def gradients(graph: Graph) -> tuple[np.ndarray, ...]:
    function = value_and_grad(graph.function, graph.wrt)
    verify(function)
    return interpret(function, graph.args)[len(graph.function.results):]


def differences(graph: Graph, position: int) -> np.ndarray:
    """The gradient of result 0 by central differences of fourth order, in double precision."""
    x = np.array(graph.args[position], dtype=np.float64)

    def value(index: tuple[int, ...], step: float) -> float:
        moved = x.copy()
        moved[index] += step
        args = [moved if i == position else a for i, a in enumerate(graph.args)]
        return float(interpret(graph.function, [np.asarray(a, p.type.dtype.numpy) for a, p in
                                                zip(args, graph.function.params, strict=True)])[0])

    h = 1e-2 if graph.name == "single_precision" else 1e-3
    result = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        result[i] = (8 * (value(i, h) - value(i, -h)) - (value(i, 2 * h) - value(i, -2 * h))) / (12 * h)
    return result


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - KINKS))
def test_gradient_agrees_with_differences(name: str) -> None:
    graph = GRAPHS[name]()
    tolerance = 1e-3 if name == "single_precision" else 1e-8
    for position, gradient in zip(graph.wrt, gradients(graph), strict=True):
        assert_close(gradient, differences(graph, position), rtol=tolerance, atol=tolerance)


def inner(xs: Any, ys: Any) -> float:
    """The inner product of two lists of arrays."""
    return sum(float(np.sum(np.multiply(x, y))) for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_forward_and_reverse_are_dual(name: str, rng: np.random.Generator) -> None:
    """<y_bar, J x_dot> == <J^T y_bar, x_dot> for random y_bar and x_dot."""
    graph = GRAPHS[name]()
    count = len(graph.function.results)
    dots = [rng.normal(size=np.shape(graph.args[i])).astype(np.asarray(graph.args[i]).dtype) for i in graph.wrt]
    forward, backward = jvp(graph.function, graph.wrt), vjp(graph.function, graph.wrt)
    verify(forward)
    verify(backward)
    tangents = interpret(forward, (*graph.args, *dots))[count:]
    bars = [rng.normal(size=np.shape(t)).astype(np.asarray(t).dtype) for t in tangents]
    cotangents = interpret(backward, (*graph.args, *bars))[count:]
    left, right = inner(bars, tangents), inner(cotangents, dots)
    if np.isfinite(left) and np.isfinite(right):
        assert left == pytest.approx(right, rel=1e-5 if name == "single_precision" else 1e-10, abs=1e-12)
    else:
        assert name in KINKS


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_primal_results_are_untouched(name: str) -> None:
    graph = GRAPHS[name]()
    before = interpret(graph.function, graph.args)
    assert_same(interpret(value_and_grad(graph.function, graph.wrt), graph.args)[:len(before)], before)


@pytest.mark.parametrize("name", CORPUS)
def test_gradients_of_the_corpus(name: str) -> None:
    program = CORPUS[name]
    graph = corpus_graph(program)
    wanted = list(oracle.leaves_of(oracle.gradient(program, program.sample(0))))
    for gradient, right in zip(gradients(graph), wanted, strict=True):
        assert_close(gradient, np.asarray(right), rtol=program.rtol, atol=program.rtol)


# ------------------------------------------------------------------------------------------------- strong zeros
def test_where_shields_the_square_root() -> None:
    (gradient,) = gradients(GRAPHS["where_sqrt"]())
    assert_close(gradient, np.array([0.0, 0.0, 0.5 / np.sqrt(0.5), 0.5 / np.sqrt(2.0)]))


def test_where_shields_the_logarithm_below_products() -> None:
    (gradient,) = gradients(GRAPHS["where_log_masked"]())
    x = np.array([3.0, 0.5])
    assert_close(gradient, np.array([0.0, *(2 * np.log(x) / x + 1.0)]))


def test_norm_at_zero_has_slope_zero() -> None:
    (gradient,) = gradients(GRAPHS["norm_at_zero"]())
    assert_same(np.abs(gradient), np.zeros(2))


def test_a_branch_not_taken_leaves_nothing() -> None:
    x_bar, y_bar = gradients(GRAPHS["branch_not_taken"]())
    assert_same((np.abs(x_bar), y_bar), (np.float64(0.0), np.float64(4.0)))


@pytest.mark.parametrize("name", ["logistic", "logistic_map", "loop_sum", "nested_loops", "vector_recurrence"])
def test_products_without_masks_are_plain(name: str) -> None:
    graph = GRAPHS[name]()
    assert not [o for o in walk(value_and_grad(graph.function, graph.wrt).body) if o.op == "strong_mul"]


def test_a_carried_value_that_is_not_used_at_the_end_has_a_strong_zero() -> None:
    """The last turn's p = 1/p is infinite and nobody reads it."""
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64))
        def body(i: Value, p: Value, s: Value) -> tuple[Any, ...]:
            return 1.0 / p, s + p
        _, s = loop(b, 0, 1, (x, number(0.0)), body)
        function = b.finish((s,))
    assert_same(interpret(value_and_grad(function, (0,)), (0.0,)), (np.float64(0.0), np.float64(1.0)))


def test_slices_shield_what_they_leave_out() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type.of(DType.f64, 3))
        tail = ops.slice(ops.log(x), starts=(Dim.of(1),), steps=(1,), dims=(Dim.of(2),))
        function = b.finish((total(tail),))
    results = interpret(value_and_grad(function, (0,)), (np.array([0.0, 1.0, 2.0]),))
    assert_close(results[1], np.array([0.0, 1.0, 0.5]))


# ----------------------------------------------------------------------------------------------------- activity
def test_constants_cost_nothing() -> None:
    graph = GRAPHS["constant_part"]()
    before = [o.op for o in graph.function.body.operations]
    after = [o.op for o in value_and_grad(graph.function, graph.wrt).body.operations]
    added = after[len(before):]
    assert sorted(added) == ["broadcast", "mul"]                    # the seed and x_bar; nothing of exp, sin or x * x
    (gradient,) = gradients(graph)
    assert_close(gradient, np.exp(np.sin(graph.args[1])))


def test_partials_of_inactive_operands_are_not_computed() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x, y = b.parameter("x", Type(DType.f64)), b.parameter("y", Type(DType.f64))
        function = b.finish((x / y,))
    assert [o.op for o in value_and_grad(function, (0,)).body.operations] == ["div", "div"]


def test_active_values_lie_between_parameters_and_result() -> None:
    graph = GRAPHS["unused_part"]()
    names = [o.op for o in graph.function.body.operations for y in o.results
             if y in active_values(graph.function.body, graph.function.params, graph.function.results[:1])]
    assert names == ["mul", "reduce_sum"]


def test_an_argument_without_influence_has_gradient_zero() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x, s, y = b.parameter("x", VECTOR), b.parameter("s", Type(DType.f64)), b.parameter("y", Type(DType.f64))
        function = b.finish((y * y,))
    adjoint = value_and_grad(function, (0, 1))
    adjoint = Function(adjoint.name, adjoint.body, {"x_0": Size(0, 0)}, ())
    assert x is not s
    assert_same(interpret(adjoint, (np.ones(3), 1.0, 2.0))[1:], (np.zeros(3), np.float64(0.0)))


def test_literal_partials_emit_no_products() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x, y = b.parameter("x", VECTOR), b.parameter("y", VECTOR)
        function = b.finish((total(x + y - x),))
    assert "mul" not in [o.op for o in value_and_grad(function, (0, 1)).body.operations]


def test_a_result_that_is_the_parameter() -> None:
    with Builder("f") as b:
        x = b.parameter("x", Type(DType.f64))
        function = b.finish((x,))
    assert value_and_grad(function, (0,)).results[1] == Literal(1.0, DType.f64)


# -------------------------------------------------------------------------------------------- names and locations
def test_cotangents_are_named_after_their_values() -> None:
    graph = GRAPHS["logistic"]()
    adjoint = value_and_grad(graph.function, graph.wrt)
    names = {y.name for o in adjoint.body.operations for y in o.results}
    assert {"z_bar", "w_bar"} <= names
    assert isinstance(adjoint.results[1], Value) and adjoint.results[1].name == "w_bar"


def test_tangents_are_named_after_their_values() -> None:
    graph = GRAPHS["logistic"]()
    forward = jvp(graph.function, graph.wrt)
    assert [p.name for p in forward.params] == ["w", "A", "y", "w_dot"]
    assert "z_dot" in {y.name for o in forward.body.operations for y in o.results}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_adjoint_operations_have_locations(name: str) -> None:
    graph = GRAPHS[name]()
    assert all(o.location == WHERE for o in walk(value_and_grad(graph.function, graph.wrt).body))
    assert all(o.location == WHERE for o in walk(jvp(graph.function, graph.wrt).body))


def test_the_adjoint_is_the_same_every_time() -> None:
    def text() -> list[tuple[str, list[str]]]:
        graph = GRAPHS["nested_loops"]()
        return [(o.op, [y.name for y in o.results]) for o in walk(value_and_grad(graph.function, graph.wrt).body)]
    assert text() == text()


# ------------------------------------------------------------------------------------------------------- errors
def test_integer_arguments_have_no_gradient() -> None:
    graph = GRAPHS["with_integer"]()
    with pytest.raises(DifferentiationError, match="'n' is an integer, which has no derivative"):
        value_and_grad(graph.function, (1,))
    with pytest.raises(DifferentiationError, match=r"'k' is an integer array of shape \(k_0,\)"):
        value_and_grad(GRAPHS["gathered"]().function, (1,))


def test_the_result_must_be_a_real_scalar() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", VECTOR)
        function = b.finish((x * x,))
    with pytest.raises(DifferentiationError, match=r"a floating point array of shape \(x_0,\)"):
        value_and_grad(function, (0,))


# ------------------------------------------------------------------------------------------------- control flow
def test_a_loop_that_runs_zero_times() -> None:
    graph = GRAPHS["logistic_map"]()
    results = interpret(value_and_grad(graph.function, (0, 1)), (0.4, 3.1, 0))
    assert_same(results, (np.float64(0.4), np.float64(1.0), np.float64(0.0)))


def test_sums_save_nothing() -> None:
    """A loop that only adds up needs no residuals."""
    graph = GRAPHS["loop_sum"]()
    assert not [o for o in walk(value_and_grad(graph.function, graph.wrt).body) if o.op == "scatter_set"]


def test_what_an_array_keeps_is_not_saved() -> None:
    """The values before are in the final array, those that are overwritten in the argument."""
    graph = GRAPHS["recurrence_in_place"]()
    adjoint = value_and_grad(graph.function, graph.wrt)
    assert not [v.name for o in walk(adjoint.body) for v in o.results if "saved" in v.name]


def test_gradient_through_a_conditional_update_of_an_array() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type.of(DType.f64, 4))
        def body(i: Value, a: Value) -> tuple[Any, ...]:
            e = ops.gather(a, i, axes=(0,))
            return (branch(b, ops.lt(e, 0.0), lambda: ops.scatter_set(a, i, e * e * e, axes=(0,)), lambda: a),)
        (a,) = loop(b, 0, 4, (x,), body)
        function = b.finish((total(a * number(2.0)),))
    adjoint = value_and_grad(function, (0,))
    verify(adjoint)
    x = np.array([1.0, -2.0, 0.5, -1.0])
    assert_close(interpret(adjoint, (x,))[1], np.where(x < 0, 6 * x * x, 2.0))
