"""`named` with `retain=`: gradients with respect to values inside of a function; and the lists of what takes no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import assert_close

import adcompile as ad
from adcompile import compile_grad, compile_value
from adcompile.errors import AdcompileError, CaptureError, DifferentiationError, UnsupportedOp

pytestmark = pytest.mark.plain
W, X = np.array([0.3, -0.5]), np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.3]])


def product_and_sum(a, b):
    f1 = ad.named(2 * a, "f1")
    f2 = ad.named(a * b, "f2")
    return f1 * f2


def layers(w, X):
    hidden = ad.named(np.tanh(X @ w), "hidden")
    score = ad.named(np.sum(hidden**2), "score")
    return np.log(score)


# ---------------------------------------------------------------------------------------------------- gradients
def test_gradients_of_intermediates() -> None:
    f = compile_grad(product_and_sum, wrt=("a", "b"), retain=("f1", "f2"))
    for _ in range(2):                                          # the first call and the fast ones
        assert f(3.0, 4.0) == (72.0, (48.0, 18.0), {"f1": 12.0, "f2": 6.0})
    assert f.grad(3.0, 4.0) == (48.0, 18.0)
    assert f.value(3.0, 4.0) == 72.0


@pytest.mark.plain(False)
def test_gradients_of_arrays() -> None:
    f = compile_grad(layers, retain=("score", "hidden"))
    out = np.empty(2)
    for value, gradient, retained in (f(W, X), f(W, X), f(W, X, out=out)):
        hidden = np.tanh(X @ W)
        assert list(retained) == ["score", "hidden"]
        assert_close(retained["score"], 1 / np.sum(hidden**2))
        assert_close(retained["hidden"], 2 * hidden / np.sum(hidden**2))
        assert_close(gradient, compile_grad(layers)(W, X)[1])
        assert_close(value, np.log(np.sum(hidden**2)))
    assert f(W, X, out=out)[1] is out


def test_one_name_may_be_a_string() -> None:
    assert compile_grad(product_and_sum, retain="f2")(3.0, 4.0) == (72.0, 48.0, {"f2": 6.0})


def test_with_aux() -> None:
    f = compile_grad(lambda x: (ad.named(x * x, "y") * 3.0, x + 1), retain="y", has_aux=True)
    assert f(2.0) == ((12.0, 3.0), 12.0, {"y": 3.0})


def test_a_constant_inside_has_a_gradient_too() -> None:
    def f(x, y):
        return x * ad.named(y * y, "square")

    assert compile_grad(f, retain="square")(3.0, 2.0) == (12.0, 4.0, {"square": 3.0})


def test_a_value_that_takes_no_gradient() -> None:
    def f(x):
        return x * ad.stop_gradient(ad.named(x * 2.0, "twice"))

    assert compile_grad(f, retain="twice")(3.0) == (18.0, 6.0, {"twice": 0.0})


def test_an_argument() -> None:
    assert_close(compile_grad(lambda x, y: np.sum(ad.named(y, "y") ** 2 * x), retain="y")(np.ones(2), np.ones(2))[2],
                 {"y": np.array([2.0, 2.0])})


def test_of_what_a_loop_makes() -> None:
    def f(x, n):
        y = np.zeros(3)
        for i in range(n):
            y[i] = x * i
        return np.sum(ad.named(y, "y") ** 2)

    value, gradient, retained = compile_grad(f, retain="y")(2.0, 3)
    assert (value, gradient) == (20.0, 20.0)
    assert_close(retained["y"], np.array([0.0, 4.0, 8.0]))


@pytest.mark.parametrize("retain", [(), ("y",)])
def test_the_named_array_is_the_same_memory(retain: tuple[str, ...]) -> None:
    def f(x):
        first = x * 2.0
        second = ad.named(first, "y")
        second[0] = 5.0 * x[1]
        return np.sum(first * x)

    assert_close(compile_grad(f, retain=retain)(np.array([1.0, 3.0]))[:2], (33.0, np.array([15.0, 17.0])))


# ---------------------------------------------------------------------------------------------------- names
def test_outside_it_is_the_identity() -> None:
    assert ad.named(W, "w") is W
    assert product_and_sum(3.0, 4.0) == 72.0


def test_it_names_values_in_pictures_and_code() -> None:
    def f(x):
        return np.sum(ad.named(x * x, "square") * ad.named(np.sin(x), "wave"))

    made = compile_grad(f)
    assert {"square", "wave"} <= {n.name for n in made.graph(np.ones(3)).nodes}
    retained = compile_grad(f, retain="square").graph(np.ones(3))
    assert sorted(n.name for n in retained.nodes if not n.unnamed) == ["square", "wave", "x"]


# ---------------------------------------------------------------------------------------------------- refused
def in_a_loop(x, n):
    for _ in range(n):
        x = ad.named(x * 0.5, "x")
    return x


@pytest.mark.parametrize(("function", "args", "retain", "error", "message"), [
    (product_and_sum, (3.0, 4.0), "f3", CaptureError, "retain='f3': no value of the function is called so"),
    (in_a_loop, (1.0, 200), "x", CaptureError, "in a loop, a branch"),
    (lambda x: ad.named(x, "y") * ad.named(x * 2, "y"), (1.0,), "y", CaptureError, "two values are called 'y'"),
    (lambda x: x[0] * ad.named(x[1:], "y")[0], (np.ones(3),), "y", CaptureError, "is a view of another array"),
    (lambda x: x * ad.named(x > 0, "y"), (1.0,), "y", CaptureError, "there is no gradient with respect to it"),
    (lambda x: [ad.named(x * x, "y"), x * 2][1], (1.0,), "y", DifferentiationError, "'y' does not reach the result"),
])
def test_refused(function: Any, args: tuple[Any, ...], retain: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        compile_grad(function, retain=retain)(*args)


def test_refused_in_sympy_and_in_compiled_functions() -> None:
    sympy = pytest.importorskip("sympy")
    x = sympy.Symbol("x")
    with pytest.raises(UnsupportedOp, match="its parts have no names"):
        compile_grad(x**2, wrt=[x], args=[x], retain="y")
    inner = compile_grad(product_and_sum, retain="f1")
    with pytest.raises(AdcompileError, match="retain= inside a compiled function"):
        compile_value(lambda a: inner(a, 2.0)[0])(1.0)


# ---------------------------------------------------------------------------------------------------- lists
def test_constants_and_what_lets_no_gradient_through() -> None:
    scale = 2.0

    def f(x, y, like, unused):
        held = ad.stop_gradient(np.exp(x))
        return x * held * scale + np.floor(x) * y / like.shape[0]

    made = compile_grad(f)
    made(1.5, 2.5, np.ones(3), 1.0)
    assert made.constants == ("y", "like", "unused", "scale")
    line = f.__code__.co_firstlineno
    assert made.inactive == (
        "like: only its size is used", "unused: it does not reach the result",
        f"held = stop_gradient(t), line {line + 1}: the user said that this is a constant",
        f"t_3 = floor(x), line {line + 2}: piecewise constant: derivative 0 wherever it exists")
