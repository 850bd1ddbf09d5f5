"""Random NumPy expressions (`fuzz_numpy.py`) against NumPy and differences, and those that once went wrong.

`python tests/fuzz_numpy.py 0 2000` checks that many and prints those that fail.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from fuzz_numpy import LENGTHS, Expression, check, check_compiled, random_expression

from adcompile import compile_grad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
EXPRESSIONS = int(os.environ.get("ADCOMPILE_FUZZ", "150"))
COMPILED = 3


@pytest.mark.parametrize("seed", range(EXPRESSIONS))
def test_random_expression(seed: int) -> None:
    check(random_expression(seed))


@pytest.mark.parametrize("seed", range(1000, 1000 + COMPILED))
def test_compiled_expression(seed: int) -> None:
    check_compiled(random_expression(seed), LENGTHS[:1] + LENGTHS[-2:])


def test_wrong_gradients_are_noticed() -> None:
    """An expression whose gradient adcompile is told to leave out."""
    with pytest.raises(AssertionError, match="gradient in v"):
        check(Expression(0, ("from adcompile import stop_gradient", "return np.sum(stop_gradient(v) * v)")))


def test_a_list_repeated_as_often_as_an_axis_is_long() -> None:
    def f(x: Any) -> Any:
        return np.sum(x[..., [0] * len(x[0])]) + np.sum(np.array([2.0] * x.shape[0]) * x[:, 1])

    compiled = compile_grad(f, debug=True)
    for shape in ((2, 3), (3, 4), (4, 2)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        assert_close(compiled(x)[0], f(x))


def test_sums_of_nothing_are_zero() -> None:
    """Also where each term would be NaN or infinite."""
    def means(s: Any, x: Any) -> Any:
        n, d = x.shape
        return np.sum(np.mean(np.ones((n, d, n)) * s, axis=-1))

    def infinite(s: Any, x: Any) -> Any:
        return np.sum(s / np.zeros(1) + np.ones(x.shape))

    for f in (means, infinite):
        compiled = compile_grad(f)
        assert compiled(2.0, np.ones((0, 3)))[0] == 0.0
        assert_close(compiled(2.0, np.ones((2, 3)))[0], f(2.0, np.ones((2, 3))))
