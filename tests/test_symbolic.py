"""Formulas: they mean what the function and its gradient mean, evaluated with SymPy's own printer; and what they look like."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from test_graph import echo, halved, product_and_sum

from adcompile import compile_grad, compile_value
from adcompile.errors import UnsupportedOp
from adcompile.inspect.symbolic import Formulas

sp = pytest.importorskip("sympy")
pytestmark = pytest.mark.plain
W, X, Y = np.array([0.3, -0.2]), np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.3]]), np.array([1.0, -1.0, 1.0])


def loss(w, X, y):
    z = X @ w
    return np.sum(np.log1p(np.exp(-y * z)))


def filled(left: Any, expression: Any, known: dict[Any, Any], shape: tuple[int, ...]) -> Any:
    """The number, or the array, that an expression with free indices is."""
    indices = left.indices if isinstance(left, sp.Indexed) else ()
    function = sp.lambdify([*known, *indices], expression, modules="math")
    if not indices:
        return float(function(*known.values()))
    return np.array([function(*known.values(), *at) for at in itertools.product(*map(range, shape))]).reshape(shape)


def evaluated(formulas: Formulas, args: dict[str, Any], shapes: dict[str, tuple[int, ...]], **sizes: int) -> list[Any]:
    """Value and gradients: `where` lines first."""
    known: dict[Any, Any] = {sp.IndexedBase(k) if np.ndim(v) else sp.Symbol(k): v for k, v in args.items()}
    known |= {sp.Symbol(k, integer=True): n for k, n in sizes.items()}
    for left, expression in formulas.where:
        base = left.base if isinstance(left, sp.Indexed) else left
        known[base] = filled(left, expression, known, shapes.get(str(base), ()))
    return [filled(None, formulas.value, known, ()),
            *(filled(formulas.left[k], e, known, np.shape(args[k])) for k, e in formulas.gradient.items())]


# ---------------------------------------------------------------------------------------------------- what they mean
@pytest.mark.parametrize(("function", "args"), [
    (product_and_sum, {"a": 3.0, "b": 4.0}),
    (lambda x, y: np.exp(x * y) * np.sin(x * y) + np.tanh(x) / y, {"x": 0.4, "y": 1.7}),
    (lambda x, y: np.where(x > y, x**3, y * abs(x)) + np.maximum(x, y) ** 2, {"x": 0.4, "y": 1.7}),
    (lambda x, y: (np.log(x) if x > 1 else x * y) * y, {"x": 2.4, "y": 1.7}),
    (lambda x, y: x**y + np.arctan2(x, y) + np.hypot(x, y) + np.sqrt(x), {"x": 2.4, "y": 1.7}),
])
def test_of_numbers(function: Any, args: dict[str, float]) -> None:
    f = compile_grad(function, wrt=(0, 1))
    value, gradient = f(**args)
    formulas = f.to_sympy()
    assert_close(evaluated(formulas, args, {}), [value, *gradient])
    whole = formulas.whole()
    assert not whole.where
    assert_close(evaluated(whole, args, {}), [value, *gradient])


ARRAYS: dict[str, tuple[Any, dict[str, Any], dict[str, tuple[int, ...]], dict[str, int]]] = {
    "logistic": (loss, {"w": W, "X": X, "y": Y}, {"z": (3,), "t_2": (3,)}, {"n": 3, "d": 2}),
    "parts": (lambda x: np.sum(x[1:] * x[:-1]) + x[0] ** 2, {"x": Y}, {}, {"n": 3}),
    "columns": (lambda A: np.sum(np.sum(A, axis=0) ** 2) + np.mean(A.T @ A), {"A": X}, {"t": (2,), "t_3": (2, 2)},
                {"n": 3, "d": 2}),
    "joined": (lambda x: np.sum(np.concatenate([x, 2 * x]) ** 2), {"x": Y}, {"t_1": (6,), "t_1_bar": (6,)}, {"n": 3}),
    "flat": (lambda p, X: np.sum(np.tanh(X @ p[:4].reshape(2, 2)) ** 2) + p[4],
             {"p": np.array([0.1, 0.4, -0.3, 0.2, 0.5]), "X": X}, {"t_2": (3, 2), "t_3": (3, 2), "t_14": (3, 2)}, {"n": 3}),
    "strided": (lambda x: np.sum(x[::2] ** 2 * x[0]), {"x": Y}, {"t_1": (2,)}, {"n": 3}),
    "masked": (lambda x, mask: np.sum(np.where(mask & (x > -0.5), x**2, 3 * x)), {"x": Y, "mask": Y > 0}, {}, {"n": 3}),
    "running": (lambda x: np.sum(np.cumsum(x) ** 2), {"x": Y}, {"t": (3,)}, {"n": 3}),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_of_arrays(name: str) -> None:
    function, args, shapes, sizes = ARRAYS[name]
    f = compile_grad(function)
    value, gradient = f(**args)
    assert_close(evaluated(f.to_sympy(), args, shapes, **sizes), [value, gradient])


def test_a_loop_that_is_a_sum() -> None:
    def f(x):
        total = 0.0
        for i in range(x.shape[0]):
            total += np.sin(x[i])
        return total

    assert str(compile_grad(f).to_sympy(Y)) == "f = Sum(sin(x[i]), (i, 0, n - 1))\nd f / d x[j] = cos(x[j])"


# ---------------------------------------------------------------------------------------------------- what they look like
def test_shared_parts_are_where_lines() -> None:
    assert str(compile_grad(loss).to_sympy(W, X, Y)) == (
        "loss = Sum(log(t_2[i] + 1), (i, 0, n - 1))\n"
        "d loss / d w[m] = Sum(-X[p, m]*t_2[p]*y[p]/(t_2[p] + 1), (p, 0, n - 1))\n"
        "where z[k] = Sum(X[k, l]*w[l], (l, 0, d - 1))\n      t_2[j] = exp(-y[j]*z[j])")


def test_latex() -> None:
    assert compile_grad(product_and_sum, wrt=("a", "b")).latex(3.0, 4.0) == "\n".join([
        r"\begin{aligned}", r"product_{and sum} &= f_{1} + f_{2} \\",
        r"\frac{\partial product_{and sum}}{\partial a} &= b + 2 \\",
        r"\frac{\partial product_{and sum}}{\partial b} &= a \\", r"\text{where}\quad f_{1} &= 2 a \\", r"f_{2} &= a b",
        r"\end{aligned}"])
    assert r"\sum_{i=0}^{n - 1}" in compile_grad(loss).latex(W, X, Y)


def test_values_and_sympy_in() -> None:
    assert str(compile_value(lambda x: x * x).to_sympy(2.0)) == "function = x**2"
    u, v = sp.symbols("u v")
    assert compile_grad(u**2 * v, wrt=[u], args=[u, v]).to_sympy().whole().gradient == {"u": 2 * u * v}


@pytest.mark.parametrize(("function", "args", "message"), [
    (halved, (10.0,), "while has no formula"), (echo, (0.5, Y), "for has no formula"),
    (lambda x: np.sum(np.reshape(x, (3, 2)) @ np.ones(2)), (np.ones((2, 3)),), "reshape has no formula"),
])
def test_refused(function: Any, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UnsupportedOp, match=message):
        compile_grad(function).to_sympy(*args)


def test_refused_for_several_results_and_for_arrays_put_in() -> None:
    with pytest.raises(UnsupportedOp, match="returns 2 values"):
        compile_value(lambda x: (x, x * 2)).to_sympy(1.0)
    with pytest.raises(UnsupportedOp, match="is an entry of an array"):
        compile_grad(loss).to_sympy(W, X, Y).whole()
