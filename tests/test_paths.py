"""The gradient as a sum over paths: which there are, how many, what they multiply to, and that they add up to the gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_graph import echo, halved, product_and_sum

from adcompile import compile_grad, compile_value
from adcompile.errors import AdcompileError, DifferentiationError
from adcompile.inspect import paths as module

pytestmark = pytest.mark.plain


def doubling(x, n):
    for _ in range(n):
        x = 0.5 * x + np.sin(x)
    return x


def loss(w, X, y):
    return np.sum(np.log1p(np.exp(-y * (X @ w)))) + np.sum(w**2)


W, X, Y = np.array([0.3, -0.2]), np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.3]]), np.array([1.0, -1.0, 1.0])


# ---------------------------------------------------------------------------------------------------- the example
def test_the_example() -> None:
    f = compile_grad(product_and_sum, wrt=("a", "b"))
    a, b = f.paths(wrt="a", at=(3.0, 4.0)), f.paths(wrt="b", at=(3.0, 4.0))
    assert [(p.names, p.factors, p.numbers, p.product) for p in a.listed] == [
        (("a", "f1", "z"), ("2", "1"), (2.0, 1.0), 2.0), (("a", "f2", "z"), ("b", "1"), (4.0, 1.0), 4.0)]
    assert (a.count, a.total, a.gradient, a.expression, a.agrees) == (2, 6.0, 6.0, "2*1 + b*1", True)
    assert (b.count, b.total, b.gradient, b.expression, b.agrees) == (1, 3.0, 3.0, "a*1", True)
    assert str(a) == ("d z / d a at a = 3, b = 4: 2 paths\n  a -> f1 -> z:  2*1 = 2\n  a -> f2 -> z:  b*1 = 4\n"
                      "  sum: 2*1 + b*1 = 6\n  the same as the gradient: 6")


def test_symbols() -> None:
    f = compile_grad(product_and_sum, wrt=("a", "b"))
    with pytest.raises(AdcompileError, match="has not been called yet"):
        f.paths()
    f(3.0, 4.0)
    found = f.paths()
    assert (found.wrt, found.expression, found.total, found.gradient) == ("a", "2*1 + b*1", None, None)
    assert f.paths(1).expression == "a*1"
    assert not found.agrees
    assert str(found) == "d z / d a: 2 paths\n  a -> f1 -> z:  2*1\n  a -> f2 -> z:  b*1\n  sum: 2*1 + b*1"


def test_both_operands_are_paths() -> None:
    found = compile_grad(lambda x: x * x).paths(at=(3.0,))
    assert [p.product for p in found.listed] == [3.0, 3.0]
    assert (found.total, found.agrees) == (6.0, True)


# ---------------------------------------------------------------------------------------------------- many
def test_a_graph_with_a_million_million_paths() -> None:
    found = compile_grad(doubling).paths(at=(0.3, 40), most=5)
    assert found.count == 2**40 > 10**12
    assert found.agrees
    assert len(found.listed) == 5
    sizes = [abs(p.product) for p in found.listed]
    assert sizes == sorted(sizes, reverse=True)
    assert "1099511627776 paths, the 5 largest" in str(found)
    assert "..." in str(found)
    with pytest.raises(DifferentiationError, match="not written out"):
        _ = found.expression


def test_the_largest_are_the_largest() -> None:
    f = compile_grad(doubling)
    everything = f.paths(at=(0.3, 7), most=1000)
    assert len(everything.listed) == everything.count == 128
    assert math.fsum(p.product for p in everything.listed) == pytest.approx(everything.total, rel=1e-12)
    wanted = sorted((abs(p.product) for p in everything.listed), reverse=True)[:9]
    np.testing.assert_allclose([abs(p.product) for p in f.paths(at=(0.3, 7), most=9).listed], wanted, rtol=1e-13)


@pytest.mark.parametrize(("function", "args"), [(doubling, (0.4, 3)), (halved, (19.0,))])
def test_turns_of_loops_are_told_apart(function: Any, args: tuple[Any, ...]) -> None:
    found = compile_grad(function).paths(at=args)
    assert found.agrees
    assert any("#1" in name for p in found.listed for name in p.names)


# ---------------------------------------------------------------------------------------------------- arrays
def test_paths_of_arrays_are_pulled_back() -> None:
    found = compile_grad(loss).paths(at=(W, X, Y))
    assert found.count == 2
    assert found.agrees
    np.testing.assert_allclose(found.listed[1].product, 2 * W)
    np.testing.assert_allclose(found.total, found.gradient, rtol=1e-12)


def test_arrays_in_loops() -> None:
    found = compile_grad(echo, wrt=(0, 1)).paths("signal", at=(0.5, np.array([4.0, 1.0, 0.0, 3.0, 0.0])), most=3)
    assert found.agrees
    np.testing.assert_allclose(found.gradient, [10.5, 0, 0, 7.5, 0])
    assert len(found.listed) == 3 < found.count


def test_too_many_paths_of_arrays_are_counted_and_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MULTIPLIED", 10)
    found = compile_grad(lambda x: np.sum(doubling(x, 5))).paths(at=(np.ones(2),))
    assert (found.count, found.listed, found.total) == (32, (), None)
    assert found.gradient.shape == (2,)
    assert "32 paths" in str(found) and "gradient: [" in str(found)


def test_narrow_floats_agree_to_their_precision() -> None:
    args = tuple(np.asarray(a, dtype=np.float32) for a in (W, X, Y))
    assert compile_grad(loss).paths(at=args).agrees


def test_a_wrong_sum_does_not_agree() -> None:
    found = compile_grad(product_and_sum).paths(at=(3.0, 4.0))
    assert not replace(found, total=6.001).agrees


# ---------------------------------------------------------------------------------------------------- the argument
def test_wrt_by_name_position_and_text() -> None:
    f = compile_grad(lambda p, k: p["a"] * k + p["b"], wrt="p")
    at = ({"a": 2.0, "b": 1.0}, 3.0)
    assert f.paths("p['a']", at=at).total == 3.0
    assert f.paths("k", at=at).total == 2.0
    assert f.paths(-1, at={"p": at[0], "k": 3.0}).total == 2.0


def test_no_path() -> None:
    found = compile_grad(lambda x, y: x * np.floor(y)).paths("y", at=(1.0, 2.5))
    assert (found.count, found.total, found.listed, found.expression, found.agrees) == (0, 0.0, (), "0", True)


@pytest.mark.parametrize(("function", "wrt", "at", "message"), [
    (product_and_sum, "c", (1.0, 2.0), "wrt='c' is no argument"), (product_and_sum, 7, (1.0, 2.0), "wrt=7 is no argument"),
    (lambda p: p[0] * p[1], 0, ((1.0, 2.0),), "is a structure of several"),
    (doubling, "n", (1.0, 2), "n is made of int64"),
])
def test_refused(function: Any, wrt: Any, at: Any, message: str) -> None:
    with pytest.raises(DifferentiationError, match=message):
        compile_grad(function).paths(wrt, at=at)


def test_refused_without_values() -> None:
    f = compile_grad(doubling)
    f(0.5, 3)
    with pytest.raises(DifferentiationError, match="the paths through a for depend on how it runs"):
        f.paths()


def test_refused_for_arrays_as_results() -> None:
    with pytest.raises(DifferentiationError, match="does not return one real number"):
        compile_value(lambda x: x * 2).paths(at=(np.ones(3),))
