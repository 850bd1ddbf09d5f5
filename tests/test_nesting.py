"""Gradients inside of functions that are compiled, and derivatives of higher order through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from test_capture import line_of
from test_cases import CASES

import adcompile as ad
from adcompile.errors import AdcompileError, CaptureError, DifferentiationError, ShapeError

pytestmark = pytest.mark.plain

X = np.array([0.5, 1.5, -0.7])


def hessian(f: Callable[..., Any], x: Any, *others: Any) -> Any:
    """The second derivative with respect to the first argument, one row a call."""
    row = ad.grad(lambda x, v, *others: np.sum(ad.grad(f)(x, *others) * v))
    return np.array([row(x, v, *others) for v in np.eye(np.size(x))])


def slope(f: Callable[[float], Any], x: float, step: float = 1e-5) -> Any:
    """A derivative by differences."""
    return (f(x + step) - f(x - step)) / (2 * step)


# ------------------------------------------------------------------------------------------------------ outside and inside
def test_outside_it_compiles() -> None:
    f = ad.grad(lambda x, y: np.sum(x * x) * y, wrt=(0, 1))
    gx, gy = f(X, 2.0)
    assert_close(gx, 4.0 * X)
    assert_close(gy, np.sum(X * X))
    assert ad.value_and_grad(lambda x: x * x)(3.0) == (9.0, 6.0)
    assert repr(ad.grad(line_of)).startswith("<gradient of line_of(")


def test_inside() -> None:
    def f(x: Any) -> Any:
        value, slope = ad.value_and_grad(lambda y: np.sum(np.sin(y) * x))(x * 2.0)
        return value + np.sum(slope)

    assert_close(ad.compile_value(f)(X), np.sum(np.sin(2 * X) * X) + np.sum(np.cos(2 * X) * X))
    _, slopes = ad.compile_grad(f)(X)
    assert_close(slopes, np.sin(2 * X) + 2 * X * np.cos(2 * X) + np.cos(2 * X) - 2 * X * np.sin(2 * X))


def test_perturbations_are_not_mixed_up() -> None:
    f = ad.value_and_grad(lambda x: x * ad.grad(lambda y: x + y)(x))
    assert f(5.0) == (5.0, 1.0)
    g = ad.grad(lambda x: x * ad.grad(lambda y: x * y)(2.0))
    assert g(3.0) == 6.0


@pytest.mark.parametrize(("order", "wanted"), [(1, 32.0), (2, 48.0), (3, 48.0), (4, 24.0), (5, 0.0)])
def test_higher_orders(order: int, wanted: float) -> None:
    f: Any = lambda x: x**4  # noqa: E731
    for _ in range(order):
        f = ad.grad(f)
    assert_close(f(2.0), wanted)


@pytest.mark.parametrize("case", [c for c in CASES.CASES if c["hess"] is not None], ids=lambda c: c["id"])
def test_second_derivatives(case: dict[str, Any]) -> None:
    found = hessian(case["fn"], *case["args"])
    assert CASES.close(found, case["hess"], max(case["tol"], 1e-9),
                       case["atol"] or 1e-12), f"{found!r}, expected {case['hess']!r}"


# ------------------------------------------------------------------------------------------------------ loops, branches, stores
def test_of_a_loop_that_sums() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += np.exp(x[i]) * i
        return total

    g = ad.grad(lambda x: np.sum(ad.grad(f)(x) ** 2))
    assert_close(g(X), 2.0 * np.arange(3) ** 2 * np.exp(2.0 * X))


def test_of_a_recurrence() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(50):
            y = y + 0.01 * np.sin(y)
        return y

    g = ad.grad(f)
    assert_close(ad.grad(lambda x: ad.grad(f)(x))(1.2), slope(g, 1.2), rtol=1e-8)


def test_of_a_while_loop() -> None:
    def f(x: Any) -> Any:
        y = x
        while y < 10.0:
            y = y * y + 0.5
        return y

    g = ad.grad(f)
    assert_close(ad.grad(lambda x: ad.grad(f)(x))(1.2), slope(g, 1.2), rtol=1e-6)


def test_of_branches_and_stores() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in range(len(x)):
            if x[i] > 0.0:
                out[i] = x[i] ** 3
            else:
                out[i] = np.sin(x[i])
        return np.sum(out)

    g = ad.grad(lambda x: np.sum(ad.grad(f)(x)))
    assert_close(g(X), np.where(X > 0.0, 6.0 * X, -np.sin(X)))


def test_in_a_loop() -> None:
    def descend(rate: float) -> Any:
        w = 1.0
        for _ in range(100):
            w = w - rate * ad.grad(lambda w: (w - 3.0) ** 2 * (1.0 + 0.1 * np.sin(w)))(w)
        return w

    def plain(rate: float) -> float:
        w = 1.0
        for _ in range(100):
            w = w - rate * (2 * (w - 3) * (1 + 0.1 * np.sin(w)) + (w - 3) ** 2 * 0.1 * np.cos(w))
        return w

    value, gradient = ad.compile_grad(descend)(0.01)
    assert_close(value, plain(0.01))
    assert_close(gradient, slope(plain, 0.01), rtol=1e-6)


def test_newton() -> None:
    def root(a: float) -> Any:
        x = 1.0
        while abs(x * x - a) > 1e-12:
            x = x - (x * x - a) / ad.grad(lambda x: x * x - a)(x)
        return x

    value, gradient = ad.compile_grad(root)(2.0)
    assert_close(value, 2.0**0.5)
    assert_close(gradient, 0.5 / 2.0**0.5)


def test_two_loops_that_compute_sizes() -> None:
    def f(x: Any) -> Any:
        y = x
        while y < 10.0:
            y = y * y + 0.5
        return y

    def both(x: Any) -> Any:
        return ad.grad(f)(x) + 2.0 * ad.grad(f)(x + 0.5)

    g = ad.grad(f)
    assert_close(ad.compile_value(both)(1.2), g(1.2) + 2.0 * g(1.7))
    assert_close(ad.grad(both)(1.2), slope(lambda x: g(x) + 2.0 * g(x + 0.5), 1.2), rtol=1e-6)


# -------------------------------------------------------------------------------------------------- compiled functions, arguments
def test_compiled_functions_are_called() -> None:
    f = ad.compile_grad(lambda x: np.sum(x**3))
    assert_close(ad.compile_value(lambda x: f(x)[1] * 2.0)(X), 6.0 * X**2)
    assert_close(ad.compile_value(lambda x: f.grad(x) * 2.0)(X), 6.0 * X**2)
    assert_close(ad.compile_value(lambda x: f.value(x) * 2.0)(X), 2.0 * np.sum(X**3))
    assert_close(ad.compile_grad(lambda x: np.sum(f(x)[1]))(X)[1], 6.0 * X)


class Model:
    def __init__(self) -> None:
        self.k = 2.0

    @ad.compile_grad
    def loss(self, w: Any) -> Any:
        return self.k * np.sum(w**3)

    def plain(self, w: Any) -> Any:
        return self.k * np.sum(w**3)

    def sharpness(self, w: Any) -> Any:
        return np.sum(ad.grad(self.plain)(w))


def test_methods() -> None:
    model = Model()
    assert_close(ad.compile_value(lambda w: model.loss(w)[1])(X), 6.0 * X**2)
    assert_close(ad.compile_value(lambda w: model.loss.grad(w))(X), 6.0 * X**2)
    assert_close(ad.compile_value(lambda w: model.loss.value(w))(X), 2.0 * np.sum(X**3))
    assert_close(ad.grad(model.sharpness)(X), 12.0 * X)


def test_structures_and_aux() -> None:
    def f(x: Any) -> Any:
        (value,
         first), g = ad.value_and_grad(lambda p: (np.sum(p["a"] * p["b"]), p["a"][0]), has_aux=True)({"a": x, "b": 2.0 * x})
        return np.sum(g["a"]) * value + first

    assert_close(ad.compile_value(f)(X), np.sum(2 * X) * np.sum(2 * X * X) + X[0])


def test_numbers_and_several_arguments() -> None:
    def f(x: float) -> Any:
        a, b = ad.grad(lambda a, b, scale=3.0: a * b * x * scale, wrt=("a", "b"))(2.0, b=5)
        return a + 10.0 * b

    assert_close(ad.compile_value(f)(1.5), 1.5 * 3.0 * (5.0 + 20.0))


def test_stop_gradient_and_no_grad_hold_at_second_order() -> None:
    def f(x: float) -> Any:
        return x * ad.stop_gradient(x)

    assert ad.grad(ad.grad(f))(3.0) == 0.0

    def g(x: float) -> Any:
        with ad.no_grad():
            slope = ad.grad(lambda y: y**3)(x)
        return slope * x

    assert ad.value_and_grad(g)(2.0) == (24.0, 12.0)


def test_a_value_that_does_not_depend() -> None:
    assert_close(ad.compile_value(lambda x: ad.grad(lambda y: 3.0)(x) + ad.grad(lambda y: x * x)(x))(2.0), 0.0)


# ------------------------------------------------------------------------------------------------------ refused
def array_valued(x: Any) -> Any:
    return ad.grad(lambda y: y * 2.0)(x)[0]


def of_integers(x: Any) -> Any:
    return ad.grad(lambda y: np.sum(y) * x[0])(np.arange(3))[0]


def returns_a_string(x: Any) -> Any:
    return ad.grad(lambda y: "three")(x)[0]


def changes_outside(x: Any) -> Any:
    y = x * 2.0

    def f(z: Any) -> Any:
        y[0] = z[0]
        return np.sum(z * y)

    return np.sum(ad.grad(f)(x) + y)


def changes_its_argument(x: Any) -> Any:
    def f(z: Any) -> Any:
        z[0] = 1.0
        return np.sum(z)

    return np.sum(ad.grad(f)(x))


@pytest.mark.parametrize(("f", "kind", "text"), [
    (array_valued, ShapeError, "returns an array"),
    (of_integers, DifferentiationError, "`y`"),
    (returns_a_string, DifferentiationError, "returns a str"),
    (changes_outside, CaptureError, "changes an array in place"),
    (changes_its_argument, CaptureError, "the array `z` is changed in place"),
])
def test_refused(f: Callable[..., Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as found:
        ad.compile_value(f)(X)
    assert isinstance(found.value, AdcompileError)
    assert f"{__file__}:" in str(found.value)
