"""detach_shifts: which maxima lose their derivative, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close, assert_same

from adcompile.capture.driver import capture
from adcompile.differentiate.reverse import value_and_grad
from adcompile.ir.core import Function
from adcompile.ir.interpreter import interpret
from adcompile.ir.verifier import verify
from adcompile.optimize import detach_shifts

X = np.random.default_rng(3).normal(size=(5, 4))
Made = Callable[[Any], Any]


def logsumexp(x: Any) -> Any:
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def logsumexp_of_rows(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    return np.sum((m + np.log(np.sum(np.exp(x - m), axis=1, keepdims=True))) ** 2)


def logsumexp_of_columns(x: Any) -> Any:
    m = x.max(axis=0)
    return np.sum(np.log(np.exp(x - m[None, :]).sum(axis=0)) + m)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1)[:, None])
    return np.sum((e / e.sum(axis=1, keepdims=True)) ** 2 * x)


def softmin(x: Any) -> Any:
    e = np.exp(x.min() - x)
    return np.sum(e / np.sum(e) * x)


def log_softmax(x: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    return np.sum((x - m - np.log(np.exp(x - m).sum(axis=1, keepdims=True)))[:, 0])


def weighted(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return np.sum(np.sin(e @ x.T / np.sum(e)))


def finite_shift(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum(np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)) + m)


def shift_is_used(x: Any) -> Any:
    m = np.max(x)
    return m * np.log(np.sum(np.exp(x - m)))


def summed_along_the_shift(x: Any) -> Any:
    m = x.max(axis=1)
    return np.sum(m) + np.log(np.sum(np.exp(x - m[:, None])))


def only_exponentials(x: Any) -> Any:
    return np.sum(np.exp(x - np.max(x)))


def both(f: Made) -> tuple[Function, Function]:
    before = capture(f, (X,), wrt=0, scalar=True).function
    after = detach_shifts(before)
    verify(after)
    assert_same(interpret(after, [X]), interpret(before, [X]))
    return before, after


def detached(function: Function) -> int:
    return sum(o.op == "stop_gradient" for o in function.body.operations)


@pytest.mark.parametrize("f", [logsumexp, logsumexp_of_rows, logsumexp_of_columns, softmax, softmin, log_softmax, weighted,
                               finite_shift])
def test_shift_loses_its_derivative(f: Made) -> None:
    before, after = both(f)
    assert detached(after) == 1
    wanted, got = (interpret(value_and_grad(g, (0,)), [X]) for g in (before, after))
    assert_close(got, wanted, rtol=1e-12, atol=1e-14)
    assert not any(o.op == "eq" for o in value_and_grad(after, (0,)).body.operations), "ties are still counted"


@pytest.mark.parametrize("f", [shift_is_used, summed_along_the_shift, only_exponentials])
def test_other_maxima_keep_it(f: Made) -> None:
    before, after = both(f)
    assert after is before


def test_a_maximum_with_two_uses() -> None:
    """The shift loses its derivative, the maximum that is a result keeps its own."""
    def f(x: Any) -> Any:
        m = x.max(axis=1)
        return np.sum(m) + 2.0 * np.sum(m + np.log(np.sum(np.exp(x - m[:, None]), axis=1)))

    before, after = both(f)
    assert detached(after) == 1
    wanted, got = (interpret(value_and_grad(g, (0,)), [X]) for g in (before, after))
    assert_close(got, wanted, rtol=1e-12, atol=1e-14)
