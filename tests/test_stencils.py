"""Adjoints of stencils and of assignments to parts: written as reads, with plain products where no strong zero can be.
Interpreted (`debug`); that generated code does the same is tested for the corpus and the references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close

from adcompile import check_grad, compile_grad
from adcompile.ir.boxes import Box, in_both, joined
from adcompile.ir.dims import Dim

N = Dim.symbol("n")
RNG = np.random.default_rng(3)


def heat_slices(u, k, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += k[1:-1, 1:-1] * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return np.sum(u ** 2)


def heat_loops(u, k, steps):
    n, m = u.shape
    u = u.copy()
    for _ in range(steps):
        new = u.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new[i, j] = u[i, j] + k[i, j] * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
        u = new
    return np.sum(u ** 2)


def heat_in_turn(u, k, steps):
    n, m = u.shape
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new[i, j] = u[i, j] + k[i, j] * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
        u, new = new, u
    return np.sum(u ** 2)


def smoothed(u, k, steps):
    for _ in range(steps):
        u = k * (u[:-2] + u[1:-1] + u[2:])[::1] / 3
        u = np.concatenate([u[:1], u, u[-1:]])
    return np.sum(np.sin(u))


def backward_of(source: str) -> str:
    return source[source.index("# backward\n"):source.index("    return value")]


@pytest.mark.parametrize("function", [heat_slices, heat_loops, heat_in_turn])
def test_the_adjoint_of_a_stencil_reads_its_neighbours(function: Callable[..., Any]) -> None:
    u, k = RNG.normal(size=(6, 5)), RNG.uniform(0.1, 0.2, size=(6, 5))
    compiled = compile_grad(function, wrt=("u", "k"), debug=True)
    value, gradient = compiled(u, k, 3)
    source = str(compiled.source)
    assert "strong_mul" not in source
    assert not any("+ 1] += " in line and "kept[" not in line for line in backward_of(source).splitlines()), source
    assert_close(value, heat_slices(u, k, 3), rtol=1e-13)
    assert_close(list(gradient), list(compile_grad(heat_slices, wrt=("u", "k"), debug=True)(u, k, 3)[1]), rtol=1e-11)
    for steps in (0, 3):
        assert check_grad(compiled, u, k, steps)


def test_one_axis() -> None:
    assert check_grad(compile_grad(smoothed, wrt=("u", "k"), debug=True), RNG.normal(size=7), 0.9, 3)


# ------------------------------------------------------------------------------------------------------ strong zeros
def replaced_inside(x, k):
    u = k / x
    u[1:-1] = x[1:-1]
    return np.sum(u)


def replaced_in_two_parts(x, k):
    u = k / x
    u[:2] = x[:2]
    u[2:] = u[2:] * 1.0
    u[2:4] = x[2:4] * x[1]
    return np.sum(u)


def replaced_rows(x, k):
    u = k / x
    for i in range(1, len(x)):
        u[i] = u[i - 1] * 0.5 + x[i]
    return np.sum(u)


@pytest.mark.parametrize("function", [replaced_inside, replaced_in_two_parts, replaced_rows])
def test_what_was_overwritten_gives_nothing(function: Callable[..., Any]) -> None:
    """k / x is infinite where x is 0, and so is its slope; it is overwritten there."""
    x = np.array([1.0, 0.0, 2.0, 0.0, 3.0]) if function is not replaced_rows else np.array([2.0, 0.0, 1.0, 0.0, 3.0])
    compiled = compile_grad(function, wrt=("x", "k"))
    _, gradient = compiled(x, 2.0)
    other = np.where(x == 0, 7.0, x)                    # what stands there does not matter to k
    _, wanted = compiled(other, 2.0)
    assert np.isfinite(gradient[0]).all()
    assert_close(gradient[1], wanted[1], rtol=1e-14)


def test_a_part_that_is_read_before_it_is_replaced_needs_no_strong_zeros() -> None:
    def doubled(x):
        u = np.sin(x)
        for _ in range(3):
            u[1:-1] = u[1:-1] * np.exp(x[1:-1])
        return np.sum(u)

    def rows(x):
        u = np.sin(x)
        for i in range(len(x) // 2):
            u[2 * i] = u[2 * i] * np.exp(u[2 * i + 1])
            u[2 * i + 1] = u[2 * i] * u[2 * i + 1]
        return np.sum(u)

    for function, x in ((doubled, RNG.normal(size=6)), (rows, RNG.normal(size=(6, 2)))):
        compiled = compile_grad(function, debug=True)
        compiled(x)
        assert "strong_mul" not in str(compiled.source)
        assert check_grad(compiled, x)


# ------------------------------------------------------------------------------------------------------ boxes
def box(*parts: tuple[Any, Any]) -> Box:
    starts, ends = zip(*parts, strict=True)
    starts = tuple(Dim.of(s) if isinstance(s, int) else s for s in starts)
    return Box(starts, tuple((Dim.of(e) if isinstance(e, int) else e) - s for s, e in zip(starts, ends, strict=True)))


def test_boxes() -> None:
    whole, inside = box((0, N), (0, N)), box((1, N - 1), (1, N - 1))
    rest = whole.without(inside, (N, N))
    assert len(rest) == 4 and joined([*rest, inside]) == [whole]
    assert inside.is_inside(whole, (N, N)) and not whole.is_inside(inside, (N, N))
    assert box((0, 1), (0, N)).is_apart(inside) and not box((0, 2), (0, N)).is_apart(inside)
    assert inside.without(box((0, 1), (0, N)), (N, N)) == [inside]
    assert inside.without(box((0, 2), (0, N)), (N, N)) == []                    # it is not known what is left
    assert in_both([whole], [inside], (N, N)) == (inside,)
    assert in_both([box((0, 1), (0, N))], [inside], (N, N)) == ()
    assert joined([box((0, 1), (0, N)), box((2, N), (0, N))]) == [box((0, 1), (0, N)), box((2, N), (0, N))]
