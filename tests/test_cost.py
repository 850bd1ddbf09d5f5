"""Counts: what a call computes, in the sizes and in numbers, forward and backward, by line and by operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_graph import SIGNAL, echo, halved
from test_ops import EVERY, SAMPLES, cases, function_of

from adcompile import compile_grad, compile_value
from adcompile.inspect.cost import Cost, Count
from adcompile.ir.dims import Dim
from adcompile.ir.op import TABLE, Op, elements

pytestmark = pytest.mark.plain


def cost(function: Any, *args: Any, **options: Any) -> Cost:
    found: Cost = compile_grad(function, **options).cost(*args)
    return found


def text(count: Dim) -> str:
    return str(count)


def loss(w, X, y):
    z = X @ w
    return np.sum(np.log1p(np.exp(-y * z)))


ARGS = (np.ones(2), np.ones((6, 2)), np.ones(6))


# ---------------------------------------------------------------------------------------------------- counts
def test_a_logistic_loss() -> None:
    found = cost(loss, *ARGS)
    assert text(found.forward.flops) == "2*d*n + 3*n - 1"              # X @ w; two products, a negation (of y or z), n - 1 sums
    assert text(found.forward.calls) == "2*n"
    assert found.sizes == {"d": 2, "n": 6}
    assert found.number(found.forward.flops) == 41
    assert found.number(found.backward.calls) == 0
    assert found.ratio is not None and 0.5 < found.ratio < 1.5
    assert text(found.gradients) == "8*d"


def test_without_arguments_counts_are_polynomials() -> None:
    f = compile_grad(loss)
    f(*ARGS)
    found = f.cost()
    assert text(found.forward.flops) == "2*d*n + 3*n - 1"
    assert (found.number(found.forward.flops), found.ratio, found.intensity, found.sizes) == (None, None, None, None)
    assert "=" not in str(found).split("by line")[0]


@pytest.mark.parametrize(("function", "args", "flops"), [
    (lambda a, b: a @ b, (np.ones((3, 4)), np.ones((4, 5))), 2 * 3 * 4 * 5),       # as PyTorch's FlopCounterMode counts
    (lambda a: np.sum(a), (np.ones(7),), 6),
    (lambda a: np.max(a, axis=0), (np.ones((7, 2)),), 12),
    (np.cumsum, (np.ones(7),), 7),
    (lambda a: a**4, (np.ones(3),), 6),
    (lambda a: a[::2], (np.ones(8),), 0),
    (lambda a: np.outer(a, a), (np.ones(3),), 9),
    (lambda k: k + 1, (np.arange(3),), 0),
])
def test_single_operations(function: Any, args: tuple[Any, ...], flops: int) -> None:
    found = compile_value(function).cost(*args)
    assert (found.number(found.total.flops), found.number(found.total.calls)) == (flops, 0)


def test_parts_add_up() -> None:
    found = cost(loss, *ARGS)
    by_line = sum((a + b for a, b in found.by_line.values()), Count())
    by_op = sum(found.by_op.values(), Count())
    assert by_line == by_op == found.total


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.name)
def test_every_row_says_its_work(row: Op) -> None:
    for operands, attributes in cases(row) if row.domain or row.name in SAMPLES else []:
        (operation,) = function_of(row, operands, attributes).body.operations
        work = TABLE[row.name].work(operation.operands, operation.results[0].type, operation.attributes)
        assert work.constant is not None
        assert work.constant >= 0 or not all(np.size(x) for x in operands)          # a sum of no numbers counts as -1
        if row.kind == "elementwise" and row.cost and all(np.asarray(x).dtype.kind == "f" for x in operands):
            assert work == elements(operation.results[0].type)


# ---------------------------------------------------------------------------------------------------- control flow
def test_a_loop_counts_its_turns() -> None:
    def power_series(x, n):
        term, total = 1.0, 0.0
        for _ in range(n):
            term = np.tanh(term * x)
            total = total + term
        return total

    found = compile_value(power_series).cost(0.5, 9)
    assert (text(found.forward.flops), text(found.forward.calls)) == ("2*n", "n")
    assert found.number(found.forward.flops) == 18


def test_branches_and_while_are_counted_as_they_run() -> None:
    found = compile_value(halved).cost(10.0)                               # 5, 2.5, 1.25, 0.625: a division and a sum each
    assert found.number(found.forward.flops) == 4 * 2 + 5                 # and five comparisons
    assert "counts are those of this call" in str(found)
    branches = compile_value(echo).cost(0.5, SIGNAL)
    assert branches.by_op["mul"].flops.evaluate({"n": 5}) == 5 + 3       # heard**2, and three turns of five decay


def test_branches_without_arguments() -> None:
    f = compile_value(echo)
    f(0.5, SIGNAL)
    found = f.cost()
    assert "Both branches of conditions are counted" in str(found)
    assert text(found.by_op["mul"].flops) == "2*n"
    f = compile_value(halved)
    f(10.0)
    assert "turns" in text(f.cost().forward.flops)


# ---------------------------------------------------------------------------------------------------- memory
def test_residuals_and_buffers() -> None:
    def f(x):
        y = np.exp(x)
        return np.sum(y) * np.sum(y * y)

    found = cost(f, np.ones(8))
    assert text(found.residuals).startswith("8*n")
    assert found.number(found.peak_memory) == found.number(found.gradients) + sum(found.number(b) for _, b, _ in found.buffers)
    moved = found.number(found.moved)
    assert moved is not None and moved >= 8 * 8 * 2                           # x is read, its gradient written
    assert found.intensity is not None


def test_compared_with_the_machine() -> None:
    found = compile_grad(loss).cost(*ARGS, machine=True)
    assert found.machine is not None and min(found.machine.flops, found.machine.bytes, found.machine.seconds) > 0
    assert "of the peak is reached" in str(found)


def test_costs_are_in_the_graph() -> None:
    graph = compile_grad(loss).graph(*ARGS)
    assert {n.name: n.cost for n in graph.nodes}["z"] == "2*d*n operations, 8*d*n + 8*d + 8*n bytes"
