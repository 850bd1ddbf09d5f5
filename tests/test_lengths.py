"""Lengths that the function computes: slices with traced bounds, traced masks, and what is refused about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from test_capture import line_of
from test_control_flow import agrees

from adcompile import compile_grad, compile_value
from adcompile.capture import capture
from adcompile.errors import AdcompileError
from adcompile.ir.dims import Dim
from adcompile.ir.sizes import Sizes

Function = Callable[..., Any]
rng = np.random.default_rng(7)
N = 5
A = rng.normal(size=(N, N)) * 0.3 + 2.0 * np.eye(N)
S = A @ A.T + np.eye(N)
B = rng.normal(size=N)
X = rng.normal(size=9)
CASES: list[tuple[Function, tuple[Any, ...]]] = []


def case(*args: Any) -> Callable[[Function], Function]:
    """Note a function with arguments to compare it at."""
    def note(f: Function) -> Function:
        CASES.append((f, args))
        return f
    return note


# ----------------------------------------------------------------------------------------------------- linear algebra
@case(A, B)
def back_substitution(a: Any, b: Any) -> Any:
    n = len(b)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1:] @ x[i + 1:]) / a[i, i]
    return np.sum(x * x)


@case(A, B)
def elimination(a: Any, b: Any) -> Any:
    a, b, n = a.copy(), b.copy(), len(b)
    for k in range(n - 1):
        for i in range(k + 1, n):
            m = a[i, k] / a[k, k]
            a[i, k:] -= m * a[k, k:]
            b[i] -= m * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.dot(a[i, i + 1:], x[i + 1:])) / a[i, i]
    return np.sum(x**2)


@case(A)
def elimination_by_blocks(a: Any) -> Any:
    a, n = a.copy(), len(a)
    for k in range(n - 1):
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return np.sum(np.log(np.abs(np.diag(a))))


@case(A)
def pivoted_determinant(a: Any) -> Any:
    a, n, total = a.copy(), len(a), 0.0
    for k in range(n):
        p = k + np.argmax(np.abs(a[k:, k]))
        row = a[k].copy()
        a[k] = a[p]
        a[p] = row
        total += np.log(np.abs(a[k, k]))
        a[k + 1:, k:] -= np.outer(a[k + 1:, k] / a[k, k], a[k, k:])
    return total


@case(S)
def cholesky_by_rows(s: Any) -> Any:
    n = len(s)
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            rest = s[i, j] - np.sum(low[i, :j] * low[j, :j])
            if i == j:
                low[i, j] = np.sqrt(rest)
            else:
                low[i, j] = rest / low[j, j]
    return np.sum(np.log(np.diag(low))) + np.sum(low)


@case(S)
def cholesky_by_columns(s: Any) -> Any:
    n = len(s)
    low = np.zeros((n, n))
    for j in range(n):
        low[j, j] = np.sqrt(s[j, j] - low[j, :j] @ low[j, :j])
        low[j + 1:, j] = (s[j + 1:, j] - low[j + 1:, :j] @ low[j, :j]) / low[j, j]
    return np.sum(low * low)


@case(A, B)
def gram_schmidt(a: Any, b: Any) -> Any:
    n = len(b)
    q = np.zeros((n, n))
    for j in range(n):
        v = a[:, j] - q[:, :j] @ (q[:, :j].T @ a[:, j])
        q[:, j] = v / np.sqrt(np.sum(v * v))
    return np.sum(q @ b)


# ----------------------------------------------------------------------------------------------------- slices
@case(X)
def prefixes(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += np.sum(x[:i]) * x[i]
    return total


@case(X)
def windows(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += np.mean(x[max(0, i - 2):min(len(x), i + 3)]) ** 2
    return total


@case(X)
def suffix_maxima(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += np.max(x[i:])
    return total


@case(X)
def stores(x: Any) -> Any:
    z = x.copy()
    for i in range(1, len(x)):
        z[:i] *= 1.1
        z[i:] = z[i:] + x[i]
        z[i - 1::-1] += 0.1 * z[:i]
    return np.sum(z**2)


@case(X)
def views(x: Any) -> Any:
    z = x * 1.0
    for i in range(len(x)):
        tail = z[i:]
        tail *= 0.9
        tail[0] += 1.0
    return np.sum(z * x)


@case(X)
def strides(x: Any) -> Any:
    total = 0.0
    for i in range(1, len(x)):
        total += np.sum(x[::-1][i::2]) + np.sum(x[i::3] ** 2) + np.sum(x[:i:2] * 2.0) + np.sum(x[i:1:-2] * x[i])
    return total


@case(X)
def joined_and_multiplied(x: Any) -> Any:
    total = 0.0
    for i in range(1, len(x)):
        total += np.sum(np.concatenate([x[i:], x[:i]]) * x) + np.prod(x[:i]) + np.sum(np.diff(x[i - 1:]) ** 2)
    return total


@case(X)
def negative(x: Any) -> Any:
    total = 0.0
    for i in range(1, len(x)):
        total += np.sum(x[-i:] ** 2) + np.sum(x[:-i])
    return total


@case(X, B)
def of_another_length(x: Any, w: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += np.sum(w[:i]) * x[i] + np.sum(w[i:])
    return total


@case(X)
def data_decides(x: Any) -> Any:
    k = np.argmax(x)
    return np.sum(x[:k]) + 2.0 * np.sum(x[k + 1:] ** 2) + len(x[:k]) * x[0]


@case(X)
def counted_in_a_while(x: Any) -> Any:
    i, total = 0, 0.0
    while i < len(x) and total < 2.0:
        total = total + np.sum(x[i:] ** 2)
        i += 1
    return total


@case(A)
def in_branches(a: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        if a[i, i] > 2.0:
            total += np.sum(a[i, :i])
        else:
            total -= np.sum(a[i:, i])
    return total


@case(A)
def loops_over_slices(a: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        for v in a[i, i:]:
            total += v * v
        if len(a[i:]) > 2:
            total += a[i, 0]
    return total


@case(X)
def lengths_that_must_agree(x: Any) -> Any:
    k = np.argmax(x)
    return np.sum(x[k:k + 1] * np.array([3.0])) + np.sum(x[:4] * x[k - k:4])


# ----------------------------------------------------------------------------------------------------- masks
@case(X)
def masked_reductions(x: Any) -> Any:
    return np.sum(x[x > 0.0] ** 2) + np.mean(x[x < 0.5]) + np.max(x[x > -1.0]) - x[x > 0.0].min()


@case(A, B)
def masked_axes(a: Any, b: Any) -> Any:
    m = b > 0.0
    return np.sum(a[m] @ b) + np.sum(a[:, m] * b[m]) + np.sum(a[a > 0.1]) + np.sum(a[m, 0] * b[m])


@case(X)
def masked_stores(x: Any) -> Any:
    z = x.copy()
    z[x > 0.0] = z[x > 0.0] * 2.0
    z[x < 0.0] += 1.0
    z[x > 1.0] *= z[x > 1.0]
    return np.sum(z**2)


@case(X)
def true_places(x: Any) -> Any:
    (j,) = np.nonzero(x < 0.0)
    k = np.where(x > 0.3)[0]
    return np.sum(x[np.flatnonzero(x > 0.0)]) * np.sum(x[j]) + np.sum(x[k] * k) + np.sum(np.compress(x > 0.1, x))


@case(A)
def true_places_of_two_axes(a: Any) -> Any:
    rows, columns = np.nonzero(a > 0.2)
    return np.sum(a[rows, columns] * (rows + 2 * columns)) + np.sum(np.extract(a < 0.0, a))


@case(X)
def mask_of_a_loop(x: Any) -> Any:
    total = 0.0
    for v in x:
        near = x[np.abs(x - v) < 0.5]
        total += np.sum((near - v) ** 2) / len(near)
    return total


def differences(f: Function, *args: Any) -> Any:
    """The gradient in the first argument."""
    found = np.empty_like(args[0])
    for place in np.ndindex(found.shape):
        step = np.zeros_like(found)
        step[place] = 1e-6
        found[place] = (f(args[0] + step, *args[1:]) - f(args[0] - step, *args[1:])) / 2e-6
    return found


IDS = [f.__name__ for f, _ in CASES]
COMPILED = ["elimination", "pivoted_determinant", "windows", "stores", "joined_and_multiplied", "masked_axes",
            "mask_of_a_loop"]                   # the others are interpreted


@pytest.mark.parametrize(("f", "args"), CASES, ids=IDS)
def test_gives_what_python_gives(f: Function, args: tuple[Any, ...]) -> None:
    agrees(f, *args)


@pytest.mark.parametrize(("f", "args"), CASES, ids=IDS)
def test_gradients(f: Function, args: tuple[Any, ...]) -> None:
    compiled = compile_grad(f, debug=f.__name__ not in COMPILED)
    value, gradient = compiled(*args)
    assert_close(value, f(*args), rtol=1e-11)
    assert_close(gradient, differences(f, *args), rtol=1e-5, atol=1e-6)
    smaller = tuple(a[1:, 1:] if a.ndim == 2 else a[1:] for a in args)
    assert_close(compiled(*smaller)[0], f(*smaller), rtol=1e-11)


def test_rows_are_saved_and_not_matrices() -> None:
    compiled = compile_grad(elimination, debug=True)
    compiled(A, B)
    assert "np.empty((n - 1, n - 1, n))" in compiled.source
    assert "n, n)" not in compiled.source.replace("np.empty((n, n))", "")


def test_results_of_computed_lengths() -> None:
    def f(x: Any) -> Any:
        return x[x > 0.0] * 2.0, np.nonzero(x > 0.0)[0]

    compiled = compile_value(f)
    for x in (X, -np.abs(X), np.abs(X)):
        found, wanted = compiled(x), f(x)
        assert_close(found[0], wanted[0])
        assert_close(found[1], wanted[1])


def test_what_is_empty_raises_when_it_runs() -> None:
    compiled = compile_value(lambda x: np.max(x[x > 0.0]))
    assert compiled(np.array([1.0, 3.0, -2.0])) == 3.0
    with pytest.raises(ValueError, match="zero-size array to reduction operation max"):
        compiled(np.array([-1.0, -3.0]))


def test_lengths_that_differ_raise_when_it_runs() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x[x > 0.0] * y[y > 0.0])

    def g(x: Any, y: Any) -> Any:
        z = y.copy()
        z[y > 0.0] = x[x > 0.0]
        return np.sum(z * x)

    compiled = [(h, compile_value(h)) for h in (f, g)]
    for h, c in compiled:
        for y in (np.array([1.0, -1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])):
            x = np.array([1.0, 1.0, -1.0, 4.0])
            try:
                wanted = h(x, y)
            except ValueError:
                with pytest.raises(ValueError, match="broadcast"):
                    c(x, y)
            else:
                assert_close(c(x, y), wanted)


def escapes(x: Any) -> Any:
    part = x
    for i in range(len(x)):
        part = x[i:]
    return part


def escapes_late(x: Any) -> Any:
    for i in range(len(x)):
        part = x[i:]
    return part


def escapes_a_branch(x: Any) -> Any:
    k = np.argmax(x)
    part = x[:k] if x[0] > 0.0 else x[k:]
    return np.sum(part)


def needs_the_number(x: Any) -> Any:
    return [1.0] * len(x[x > 0.0])


def parity(x: Any) -> Any:
    return np.sum(x[x > 0.0].reshape(-1, 2))


ERRORS = [
    (escapes, "return part", "`part`"), (escapes_late, "return part", "`part`"),
    (escapes_a_branch, "part = x", "one branch|only in the traced"),
    (needs_the_number, "return [1.0]", "computed from traced values"), (parity, "return np.sum", "computed from traced values"),
]


@pytest.mark.parametrize(("f", "at", "match"), ERRORS, ids=[f.__name__ for f, _, _ in ERRORS])
def test_what_needs_a_length_is_refused(f: Function, at: str, match: str) -> None:
    with pytest.raises(AdcompileError, match=match) as found:
        capture(f, (X,))
    assert f"test_lengths.py:{line_of(f, at)}, in {f.__name__}" in str(found.value)


# ----------------------------------------------------------------------------------------------------- what is decided
def test_sizes_know_what_holds_for_all_values() -> None:
    sizes = Sizes()
    n, m = sizes.symbol("n", 5), sizes.symbol("m", 7)
    k = sizes.compute("k", 0, n - 1)
    assert sizes.decide(n - k, ">", 0) is True
    assert sizes.decide(k, ">=", n) is False
    assert sizes.decide(k, "<", m) is True
    assert [str(g) for g in sizes.guards] == ["m - n >= 0"]
    assert sizes.decide(k, "==", 2) is None
    assert sizes.decide(k, "!=", -1) is True
    assert sizes.decide(k * n + n, "<=", n * n) is True
    assert sizes.decide(k * k, ">=", 0) is True
    assert sizes.decide(k * k, "<", n) is None
    assert sizes.equal(n - k - 1, Dim.symbol("n") - Dim.symbol("k") - 1)
    assert not sizes.equal(k, n - 2)
    assert sizes.broadcast(k, 1) == k
    assert sizes.broadcast(k, n) is None
    assert sizes.text(k + 1) == "k + 1"
    with pytest.raises(ValueError, match="computed from traced values"):
        sizes.pin(k)


def test_guards_never_mention_computed_lengths() -> None:
    captured = capture(of_another_length, (B, X))
    known = set(captured.function.sizes)
    assert captured.function.guards
    assert all(g.left.symbols | g.right.symbols <= known for g in captured.function.guards)
