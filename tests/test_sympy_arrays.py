"""SymPy expressions over arrays: sums and products over indices, matrix expressions, their sizes and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from conftest import assert_close

import adcompile as ad
from adcompile import CaptureError, DifferentiationError, ShapeError, UnsupportedOp, compile_grad, compile_value

sp = pytest.importorskip("sympy")
n, m, i, j, k, a = sp.symbols("n m i j k a")
x, y = sp.IndexedBase("x"), sp.IndexedBase("y", shape=(n,))
A, B, v = sp.MatrixSymbol("A", n, m), sp.MatrixSymbol("B", m, n), sp.MatrixSymbol("v", m, 1)
X = np.array([1.0, 3.0, 2.0, 5.0])
rng = np.random.default_rng(5)
MATRIX, OTHER, VECTOR = rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), rng.normal(size=(2, 1))


# ---------------------------------------------------------------------------------------------------- sums and products
def test_a_sum_is_a_loop_over_an_array() -> None:
    f = compile_grad(sp.Sum(a * (x[i] - x[i - 1])**2 + i, (i, 1, n - 1)), wrt=[x, a], args=[x, n, a], name="rough")
    for values in (X, np.array([2.0, 1.0]), np.array([7.0])):
        steps, size = np.diff(values), len(values)
        value, (in_x, in_a) = f(values, size, 2.0)
        assert_close((value, in_a), (2.0 * steps @ steps + size * (size - 1) / 2, steps @ steps))
        assert_close(in_x, 4.0 * (np.append(0.0, steps) - np.append(steps, 0.0)))
    assert f.source.count("for i in range") == 1
    assert "[i]" in f.source
    assert len(f.specialisations) == 1
    assert ad.check_grad(f, X, 4, 2.0)
    assert pickle.loads(pickle.dumps(f))(X, 4, 2.0)[0] == f(X, 4, 2.0)[0]


SUMS: list[tuple[Any, Any]] = [
    (sp.Sum(x[i] * y[i], (i, 0, n - 1)), lambda p, q: p @ q),
    (sp.Sum(x[i] * y[i], (i, 0, n - 1))**2 / n, lambda p, q: (p @ q)**2 / 4),
    (sp.Sum((x[i] - y[j])**2, (i, 0, n - 1), (j, 0, n - 1)), lambda p, q: ((p[:, None] - q) ** 2).sum()),
    (sp.Sum(x[i] * sp.Sum(y[j] * x[j], (j, 0, i)), (i, 0, n - 1)), lambda p, q: p @ np.cumsum(p * q)),
    (sp.Sum(x[i] * sp.Sum(x[i], (i, 0, 2)), (i, 0, 1)), lambda p, q: p[:2].sum() * p[:3].sum()),
    (sp.Product(1 + x[i]**2, (i, 0, n - 1)), lambda p, q: np.prod(1 + p**2)),
    (sp.Sum(sp.Product(x[j], (j, 0, i)) * y[i], (i, 0, n - 1)), lambda p, q: np.cumprod(p) @ q),
    (sp.Sum(sp.Piecewise((x[i]**2, i < 2), (x[i] * y[i] * i, True)), (i, 0, n - 1)),
     lambda p, q: (p**2)[:2].sum() + (p * q * np.arange(4))[2:].sum()),
    (sp.Sum(sp.KroneckerDelta(i, 2) * x[i], (i, 0, n - 1)) + x[0] * n, lambda p, q: p[2] + p[0] * 4),
    (sp.Sum(x[2 * i + 1], (i, 0, 1)), lambda p, q: p[1] + p[3]),
    (sp.Sum(x[n - 1 - i] * y[i], (i, 0, n - 1)), lambda p, q: p[::-1] @ q),
    (sp.Sum(x[0]**k / sp.factorial(k), (k, 0, 8)), lambda p, q: sum(p[0]**t / np.prod(np.arange(1.0, t + 1)) for t in range(9))),
]


@pytest.mark.parametrize(("expr", "formula"), SUMS, ids=lambda e: str(e) if isinstance(e, sp.Basic) else "")
def test_sums_and_products(expr: Any, formula: Any) -> None:
    p, q = np.array([0.5, 1.5, -0.7, 1.2]), np.array([1.1, 0.3, 0.9, -0.4])
    f = compile_grad(expr, wrt=[x, y], args=[x, y], debug=True)
    value, gradients = f(p, q)
    assert_close(value, formula(p, q), rtol=1e-12)
    for place, gradient in enumerate(gradients):
        for entry in range(4):
            step = np.where(np.arange(4) == entry, 1e-5, 0.0)
            far, near = ((p + s * step * (place == 0), q + s * step * (place == 1)) for s in (1, -1))
            assert_close(gradient[entry], (formula(*far) - formula(*near)) / 2e-5, rtol=1e-7, atol=1e-8)


def test_sizes_are_known_at_a_call() -> None:
    f = compile_grad(sp.Sum(x[i]**2, (i, 0, n - 1)), wrt=x, args=[x, n], debug=True)
    assert_close(f(X, 4), (39.0, 2 * X))
    assert_close(f(X, 2), (10.0, np.array([2.0, 6.0, 0.0, 0.0])))
    with pytest.raises(IndexError):
        f(X, 5)


def test_indices_that_know_their_range() -> None:
    size = sp.Symbol("size", integer=True)
    z, at = sp.IndexedBase("z", shape=(size,)), sp.Idx("at", size)
    f = compile_grad(sp.Sum(z[at]**2 * at, at), wrt=z, args=[z], debug=True)
    assert_close(f(X), (X**2 @ np.arange(4.0), 2 * X * np.arange(4.0)))


def test_sums_without_arrays() -> None:
    f = compile_grad(sp.Sum(a**k / k, (k, 1, n)), wrt=a, args=[a, n], debug=True)
    assert_close(f(0.5, 3), (0.5 + 0.125 + 0.125 / 3, 1 + 0.5 + 0.25))


# ---------------------------------------------------------------------------------------------------- matrices
def check_matrices(expr: Any, formula: Any, args: list[Any], values: tuple[Any, ...]) -> None:
    """Value and gradients against NumPy and differences."""
    f = compile_grad(expr, wrt=args, args=args, debug=True)
    value, gradients = f(*values)
    assert_close(value, formula(*values), rtol=1e-12)
    for place, gradient in enumerate(gradients):
        for entry in np.ndindex(gradient.shape):
            moved = [[u.copy() for u in values] for _ in range(2)]
            moved[0][place][entry] += 1e-6
            moved[1][place][entry] -= 1e-6
            assert_close(gradient[entry], (formula(*moved[0]) - formula(*moved[1])) / 2e-6, rtol=1e-6, atol=1e-7)


TRACES: list[tuple[Any, Any]] = [
    (sp.Trace(A * B), lambda p, q, u: np.trace(p @ q)),
    (sp.Trace(2 * A * B + sp.Identity(n))**2, lambda p, q, u: np.trace(2 * p @ q + np.eye(3))**2),
    (v.T * A.T * A * v, lambda p, q, u: (u.T @ p.T @ p @ u)[0, 0]),
    (A[0, 1] * v[1, 0] + sp.exp(B[1, 2]), lambda p, q, u: p[0, 1] * u[1, 0] + np.exp(q[1, 2])),
    ((A * v)[1, 0], lambda p, q, u: (p @ u)[1, 0]),
    (sp.Trace(sp.HadamardProduct(A, B.T) * v * v.T * B), lambda p, q, u: np.trace(p * q.T @ u @ u.T @ q)),
    (sp.Trace((A * B)**2), lambda p, q, u: np.trace(p @ q @ p @ q)),
    (sp.Trace((A + sp.OneMatrix(n, m)) * B.applyfunc(sp.sin)), lambda p, q, u: np.trace((p + 1) @ np.sin(q))),
    (sp.Trace(sp.HadamardPower(A, 2) * B), lambda p, q, u: np.trace(p**2 @ q)),
    (sp.Sum(A[i, j] * B[j, i], (i, 0, n - 1), (j, 0, m - 1)), lambda p, q, u: np.trace(p @ q)),
]


@pytest.mark.parametrize(("expr", "formula"), TRACES, ids=lambda e: str(e) if isinstance(e, sp.Basic) else "")
def test_matrix_expressions(expr: Any, formula: Any) -> None:
    check_matrices(expr, formula, [A, B, v], (MATRIX, OTHER, VECTOR))


def test_values_are_matrices_too() -> None:
    got = compile_value([A * v, a * A.T - B, A[0, 0]], args=[A, B, v, a])(MATRIX, OTHER, VECTOR, 2.0)
    assert_close(got, [MATRIX @ VECTOR, 2 * MATRIX.T - OTHER, MATRIX[0, 0]])


def test_known_shapes() -> None:
    C = sp.MatrixSymbol("C", 2, 2)
    f = compile_grad(C.as_explicit().det() + sp.Trace(sp.Matrix([[1, a], [a, 2]]) * C), wrt=[C, a], args=[C, a], debug=True)
    value, (in_C, in_a) = f(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.5)
    assert_close((value, in_C, in_a), (-2.0 + 9.0 + 2.5, np.array([[5.0, -2.5], [-1.5, 3.0]]), 5.0))
    with pytest.raises(ShapeError, match=r"C stands for an array of shape \(2, 2\); an array of shape \(3, 2\) was passed"):
        f(MATRIX, 0.5)


# ---------------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(("expr", "error", "text"), [
    (sp.Determinant(A * B), UnsupportedOp, "Determinant"),
    (sp.Trace(sp.Inverse(A * B)), UnsupportedOp, "as_explicit"),
    (sp.Sum(x[i], (i, 0, k)), CaptureError, "contains k, which is not in args"),
    (sp.Sum(x[i] * sp.Symbol("b"), (i, 0, n)), CaptureError, "contains b"),
    (sp.Sum(x[i], (i, 0, a)), CaptureError, "a is used as an index or a bound"),
    (sp.Sum(x[i], (i, 0, sp.oo)), UnsupportedOp, "cannot be an index or a bound"),
    (sp.Sum(sp.Function("f")(x[i]), (i, 0, 2)), UnsupportedOp, "f(x[i])"),
    (sp.Sum(sp.besselj(0, x[i]), (i, 0, 2)), UnsupportedOp, "besselj(0, x[i])"),
])
def test_what_is_refused(expr: Any, error: type[Exception], text: str) -> None:
    f = compile_value(expr, args=[A, B, x, a, n])
    with pytest.raises(error) as raised:
        f(MATRIX, OTHER, X, 0.5, 3)
    assert text in str(raised.value)
    assert "test_sympy_arrays.py" in str(raised.value)


def test_arguments_that_do_not_fit() -> None:
    f = compile_value(sp.Sum(y[i] * a, (i, 0, n - 1)), args=[y, a])
    for call, text in (((np.ones((2, 2)), 1.0), "an array of 1 axis; an array of 2 axes was passed"),
                       ((X, X), "a number; an array"), (("X", 1.0), "something else"), ((1.0, 1.0), "a number was passed")):
        with pytest.raises(ShapeError, match=text):
            f(*call)
    with pytest.raises(CaptureError, match="real numbers"):
        f(X + 1j, 1.0)
    with pytest.raises(ShapeError, match="one number"):
        compile_grad(A * B, wrt=A, args=[A, B])(MATRIX, OTHER)
    with pytest.raises(DifferentiationError, match="not one of args"):
        compile_grad(sp.Trace(A * B), wrt=v, args=[A, B])
    with pytest.raises(UnsupportedOp, match="functions="):
        compile_grad(sp.Sum(x[i], (i, 0, 2)), wrt=x, args=[x], functions={"f": np.sin})
