"""Faults that were found once, each with the smallest program that showed it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import assert_close, assert_same

from adcompile import CaptureError, compile_grad, compile_value
from adcompile.ir.dims import Dim

pytestmark = pytest.mark.plain


def gradient_by_differences(f: Callable[..., Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a scalar function of one array."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        found[place] = (f(x + moved) - f(x - moved)) / (2 * step)
    return found


# ---------------------------------------------------------------------------------------------------- schedule
def test_clearing_loop_does_not_reuse_the_name_of_the_loop_around_it(rng: np.random.Generator) -> None:
    def f(x):
        shifted = np.roll(x, 1, axis=1)
        d = np.diff(shifted, axis=0)
        return np.mean(d * d) + np.mean(d * d) + np.sum(np.cos(x))

    compiled = compile_grad(f)
    for shape in ((4, 3), (2, 1), (3, 1), (6, 2)):
        x = rng.normal(size=shape)
        value, gradient = compiled(x)
        assert_close(value, f(x))
        assert_close(gradient, gradient_by_differences(f, x), rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------------------------------------- sizes
N, M = Dim.symbol("n"), Dim.symbol("m")


@pytest.mark.parametrize("size", [(N // 2) * 2, -(N // -2), (N // 2) * (M // 3), (N // 2) * (N // 3) * M - 4, N - (N // 2) * 3,
                                  -(N // 2) * M + 1, ((N // 2) * 2 + 1) // 3 * -1, N - N // 2], ids=str)
def test_the_text_of_a_size_means_what_the_size_is(size: Dim) -> None:
    for n in (1, 5, 7):
        assert eval(str(size), {"n": n, "m": n + 3}) == size.evaluate({"n": n, "m": n + 3})
    assert Dim.parse(str(size)) == size


def test_twice_half_a_length() -> None:
    def f(x):
        half = len(x) // 2
        y = np.concatenate([x[:half] * 2, x[:half]])
        return np.sum(y[::-1] * np.arange(2 * half)) + y.shape[0]

    compiled = compile_value(f)
    for n in (6, 7, 5, 1, 2):
        assert_close(compiled(np.arange(1.0, n + 1)), f(np.arange(1.0, n + 1)))


def test_loop_that_counts_down_in_steps() -> None:
    def f(x):
        s = 0.0
        for i in range(len(x) - 1, -1, -2):
            s = s * 0.5 + x[i] ** 2
        return s

    compiled = compile_grad(f)
    for n in (4, 3, 1, 8):
        x = np.linspace(0.5, 2.0, n)
        value, gradient = compiled(x)
        assert_close(value, f(x))
        assert_close(gradient, gradient_by_differences(f, x), rtol=1e-6, atol=1e-6)


def test_comprehension_over_a_size() -> None:
    def f(x):
        return np.sum(np.array([np.sin(x[i]) * i for i in range(len(x))]))

    compiled = compile_grad(f)
    for n in (3, 12, 1):
        x = np.linspace(0.5, 2.0, n)
        assert_close(compiled(x)[1], np.cos(x) * np.arange(n))


# ---------------------------------------------------------------------------------------------------- arguments
def test_memory_mapped_arguments(tmp_path: Path) -> None:
    x = np.linspace(0.0, 1.0, 6)
    x.tofile(tmp_path / "x")
    compiled = compile_grad(lambda x, y: np.sum(np.sin(x) * y))
    for mode in ("r", "r+", "c"):
        mapped = np.memmap(tmp_path / "x", dtype=float, mode=mode)          # type: ignore[call-overload]
        value, gradient = compiled(mapped, x)
        assert type(gradient) is np.ndarray
        assert_close((value, gradient), (np.sum(np.sin(x) * x), np.cos(x) * x))


def test_subclass_error_names_the_line_of_the_call() -> None:
    compiled = compile_grad(lambda x: np.sum(x))
    compiled(np.ones(2))
    with pytest.raises(CaptureError, match="test_bugs.py"):
        compiled(np.ma.array([1.0, 2.0]))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_index_arrays_of_every_integer_dtype(dtype: str) -> None:
    x = np.array([1.0, 2.0, 3.0])
    value, gradient = compile_grad(lambda x, i: np.sum(x[i] ** 2))(x, np.array([1, 2, 1]).astype(dtype))
    assert_close((value, gradient), (17.0, np.array([0.0, 8.0, 6.0])))


@pytest.mark.plain(False)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_powers_of_narrow_integers_wrap_around(dtype: str) -> None:
    x = np.array([100, 120, 3]).astype(dtype)
    with np.errstate(over="ignore"):                        # without the JIT, NumPy warns of scalars that wrap around
        for f in (lambda x: x ** 2, lambda x: x ** 3, np.square):
            assert_same(compile_value(f)(x), f(x))


@dataclasses.dataclass
class Weights:
    """One field is not an argument of the constructor."""

    w: np.ndarray
    b: float = dataclasses.field(default=2.0, init=False)


def test_gradients_in_containers_with_constructors_of_their_own() -> None:
    value, gradient = compile_grad(lambda p: np.sum(p.w) * p.b)(Weights(np.ones(3)))
    assert value == 6.0 and isinstance(gradient, Weights) and gradient.b == 3.0
    assert_close(gradient.w, np.full(3, 2.0))
    for kind in (defaultdict, OrderedDict):
        arguments: Any = kind()
        arguments.update(w=np.ones(3), b=2.0)
        value, gradient = compile_grad(lambda p: np.sum(p["w"]) * p["b"])(arguments)
        assert type(gradient) is kind and list(gradient) == ["w", "b"] and gradient["b"] == 3.0


def test_ufuncs_are_functions() -> None:
    assert compile_grad(np.sin)(0.0) == (0.0, 1.0)
    assert compile_grad(np.hypot, wrt=(0, 1))(3.0, 4.0) == (5.0, (0.6, 0.8))


def test_formatting_a_traced_number_says_so() -> None:
    with pytest.raises(CaptureError, match="format"):
        compile_value(lambda x: f"{x[0]:.2f}")(np.ones(2))


# ---------------------------------------------------------------------------------------------------- loops
def swapped_in(x, a, k):
    y, z, w = x * a, np.sin(x), x
    for _ in range(k):
        w = y
        y = z
    return np.sum(y * y) + np.sum(w ** 3) + np.sum(z)


def down_from_the_second_last(x, a, k):
    for i in range(x.shape[0] - 2, -1, -1):
        a = a * 0.9 + np.sin(a) * x[i]
    return np.sum(x) + a


def up_to_the_second_last(x, a, k):
    for i in range(x.shape[0] - 1):
        a = a * 0.9 + np.sin(a) * x[i]
    return np.sum(x) + a


@pytest.mark.parametrize("f", [swapped_in, down_from_the_second_last, up_to_the_second_last])
@pytest.mark.parametrize("first", [0, 3])
def test_loops_whatever_the_first_call_was(f: Callable[..., Any], first: int, rng: np.random.Generator) -> None:
    """A loop that hands on a value from outside; loops that may run a negative number of times."""
    compiled = compile_grad(f)
    for n, k in ((first, first), (5, 2), (1, 1), (0, 0), (2, 5)):
        x = rng.normal(size=n)
        value, gradient = compiled(x, 0.5, k)
        assert_close(value, f(x, 0.5, k))
        assert_close(gradient, gradient_by_differences(lambda x, k=k: f(x, 0.5, k), x), rtol=1e-6, atol=1e-6)
