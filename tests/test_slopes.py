"""keep_slopes: finite derivatives where an exponential overflows or vanishes, and plain arithmetic everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close, assert_same
from scipy import special
from test_capture import bind, read_inputs

from adcompile import compile_grad, grad
from adcompile.capture.driver import capture
from adcompile.ir.core import walk
from adcompile.ir.interpreter import interpret
from adcompile.ir.verifier import verify
from adcompile.optimize import detach_shifts, keep_slopes
from adcompile.pipeline import Options, compile_function, inner_gradient

X = np.random.default_rng(4).normal(size=(4, 3))
Made = Callable[[Any], Any]


def gradient(f: Made, x: Any) -> np.ndarray:
    """Of the finished graph, interpreted."""
    captured = capture(f, (x,), wrt=0, scalar=True, gradient=inner_gradient)
    graph = compile_function(captured, Options(), until="dce").stage("passes")
    return np.asarray(interpret(graph, read_inputs(captured, bind(captured, (x,), {})))[1])


def rows(f: Made) -> list[str]:
    """The ops after the pass, which keeps every bit of the value."""
    before = detach_shifts(capture(f, (X,), wrt=0, scalar=True).function)
    after = keep_slopes(before)
    verify(after)
    assert_same(interpret(after, [X]), interpret(before, [X]))
    return [o.op for o in walk(after.body)]


# ---------------------------------------------------------------------------------------------- exponentials that overflow
def test_log1p_of_exp() -> None:
    z = np.array([-np.inf, -750.0, -40.0, 0.0, 40.0, 700.0, 750.0, np.inf])
    assert_close(gradient(lambda z: np.sum(np.log1p(np.exp(z))), z), special.expit(z), rtol=1e-14, atol=0.0)
    assert np.isnan(gradient(lambda z: np.log1p(np.exp(z)), np.nan))


def test_logistic_regression_of_separated_points() -> None:
    w, features, y = np.array([40.0, -3.0]), np.array([[-30.0, 1.0], [25.0, 2.0], [0.1, 0.5]]), np.array([1.0, 1.0, -1.0])
    margins = -y * (features @ w)
    wanted = (-y * special.expit(margins)) @ features
    assert_close(gradient(lambda w: np.sum(np.log1p(np.exp(-y * (features @ w)))), w), wanted, rtol=1e-14, atol=0.0)


def test_logistic_function_written_out() -> None:
    z = np.array([-800.0, -400.0, -3.0, 0.0, 3.0, 400.0, 800.0])
    wanted = special.expit(z) * special.expit(-z)
    assert_close(gradient(lambda z: np.sum(1 / (1 + np.exp(-z))), z), wanted, rtol=1e-14, atol=0.0)


def test_in_loops_and_single_precision() -> None:
    def f(z: Any) -> Any:
        total = np.float32(0.0)
        for e in z:
            total += np.log1p(np.exp(e))
        return total

    got = gradient(f, np.array([-1.0, 95.0], dtype=np.float32))
    assert got.dtype == np.float32
    assert_close(got, special.expit(np.array([-1.0, 95.0], dtype=np.float32)), rtol=1e-6)


def test_second_derivative() -> None:
    slope = grad(lambda z: np.log1p(np.exp(z)))
    for z in (-750.0, -2.0, 0.5, 750.0):
        assert_close(gradient(slope, z), special.expit(z) * special.expit(-z), rtol=1e-13, atol=1e-300)


def test_slope_of_exp2_outlives_its_value() -> None:
    assert_close(gradient(lambda x: np.exp2(x), 1024.0), np.exp2(1023.0) * (2 * np.log(2.0)), rtol=1e-15)
    assert gradient(lambda x: np.exp2(x), 1025.0) == np.inf


# ---------------------------------------------------------------------------------------------- sums that vanish
def shifted_by_finite_maximum(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)) + m)


def other_condition(x: Any) -> Any:
    m = x.max(axis=1)
    m = np.where(np.isinf(m), -1.0, m)
    return np.sum(np.log(np.exp(x - m[:, None]).sum(axis=1)) + m)


def of_columns(x: Any) -> Any:
    m = x.max(axis=0)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log(np.exp(x.T - m[:, None]).sum(axis=1)) + m)


def library(x: Any) -> Any:
    return np.sum(special.logsumexp(x, axis=1))


@pytest.mark.parametrize("f", [shifted_by_finite_maximum, other_condition, library])
def test_rows_of_minus_infinity(f: Made) -> None:
    assert "log0" in rows(f)
    x = X.copy()
    x[1] = -np.inf
    x[2, 0] = -np.inf
    wanted = special.softmax(X, axis=1)
    wanted[1] = 0.0
    wanted[2] = special.softmax(x[2])
    assert_close(gradient(f, x), wanted, rtol=1e-13)


def shifted_by_maximum(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)) + m)


def not_shifted(x: Any) -> Any:
    return np.sum(np.log(np.sum(np.exp(x), axis=1)))


def by_the_maximum_of_all(x: Any) -> Any:
    m = np.max(x)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log(np.sum(np.exp(x - m), axis=1)) + m)


def along_the_other_axis(x: Any) -> Any:
    m = x[:3].max(axis=0)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log(np.exp(x[:3] - m[:, None]).sum(axis=1)))


def weighted(x: Any) -> Any:
    m = x.max(axis=1)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log((x * np.exp(x - m[:, None])).sum(axis=1) ** 2))


@pytest.mark.parametrize("f", [shifted_by_maximum, not_shifted, by_the_maximum_of_all, along_the_other_axis, weighted])
def test_other_sums_keep_the_plain_log(f: Made) -> None:
    assert "log0" not in rows(f)


def test_an_underflow_is_not_hidden() -> None:
    """A sum that is 0 though its exponents are finite: the slope is not 0."""
    assert np.all(np.isnan(gradient(not_shifted, np.full((2, 3), -800.0))))


def test_code_of_a_plain_logsumexp_has_no_choice() -> None:
    f = compile_grad(shifted_by_maximum, debug=True)
    f(X)
    assert "1.0 / " in f.source
    assert "== 0.0" not in f.source
