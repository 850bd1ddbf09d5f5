"""`raise` and `assert` under traced conditions, and text made of traced values: the caller gets the error that Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from test_capture import line_of

from adcompile import compile_grad, compile_value, grad
from adcompile.capture import capture
from adcompile.errors import CaptureError
from adcompile.ir.core import walk
from adcompile.ir.interpreter import interpret
from adcompile.ir.parser import parse
from adcompile.ir.printer import text_of
from adcompile.optimize.dce import dce
from adcompile.optimize.raise_loops import raise_loops

Function = Callable[..., Any]


class TooLarge(Exception):
    """An error of the user's own, with a constructor of its own."""

    def __init__(self, limit: float, *, unit: str) -> None:
        super().__init__(f"above {limit} {unit}")
        self.limit = limit


def outcome(f: Function, *args: Any) -> Any:
    """A function's result, or the error that it raises."""
    try:
        return f(*args)
    except Exception as error:
        return error


def same_outcome(f: Function, compiled: Function, *args: Any) -> Any:
    """Python's result or error, which must also be that of the compiled function."""
    wanted, found = outcome(f, *args), outcome(compiled, *args)
    if isinstance(wanted, Exception):
        assert type(found) is type(wanted), found
        if isinstance(wanted, AssertionError):                # pytest adds to the messages of Python's own
            assert str(wanted).startswith(str(found))
        else:
            assert found.args == wanted.args
    else:
        assert_close(found, wanted, rtol=1e-12)
    return found


def root(v: Any) -> Any:
    if v < 0.0:
        raise ValueError("negative")
    return np.sqrt(v)


def branches(x: Any, a: Any) -> Any:
    assert a > -5.0, "a is too small"
    if x > 3.0:
        if x > 5.0:
            raise KeyError("b")
        if x > 4.0:
            raise TooLarge(4.0, unit="m")
        y = 2.0 * x
    else:
        assert a > 0.0
        y = root(x)
    if a > 9.0:
        raise ArithmeticError
    return y * x


@pytest.mark.parametrize("debug", [False, True])
def test_the_error_is_the_users_own(debug: bool) -> None:
    compiled = compile_value(branches, debug=debug)
    calls = [(6.0, 1.0), (4.5, 1.0), (3.5, 1.0), (3.5, 10.0), (2.0, -1.0), (2.0, 1.0), (-2.0, 1.0), (2.0, -6.0), (2.0, 9.5)]
    found = [same_outcome(branches, compiled, *call) for call in calls]
    assert sum(isinstance(x, Exception) for x in found) == 7
    assert found[1].limit == 4.0
    assert f"test_failures.py:{line_of(branches, 'TooLarge')}, in branches" in found[1].__notes__[0]


def test_gradients_pass_through_checks() -> None:
    compiled = compile_grad(branches)
    assert_close(compiled(3.5, 1.0), (24.5, 14.0))
    assert_close(compiled(2.0, 1.0), (2.0**1.5, 1.5 * 2.0**0.5))
    with pytest.raises(TooLarge):
        compiled(4.5, 1.0)
    kernel, buffer = compiled.kernel(2.0, 1.0), np.empty(())
    with pytest.raises(RuntimeError, match="TooLarge: above 4.0 m"):
        kernel(4.5, 1.0, buffer)


def checked_loop(x: Any, low: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        if x[i] < low:
            raise ValueError("below")
        total += np.log(x[i] - low + 1.0)
    return total


def checked_twice(x: Any, low: Any) -> Any:
    total = 0.0
    for v in x:
        if v < low:
            raise ValueError("below")
        assert v < 100.0, "above"
        total += v * v
    return total


def only_checks(x: Any, low: Any) -> Any:
    for v in x:
        assert v > low
    return x[0] * low


def running(x: Any, low: Any) -> Any:
    total = 0.0
    for v in x:
        total = total * 0.5 + v
        if total < low:
            raise RuntimeError("the sum is too small")
    return total


def searching(x: Any, low: Any) -> Any:
    for v in x:
        if v < low:
            return 2.0 * v
    raise ValueError("nothing found")


def searching_else(x: Any, low: Any) -> Any:
    found = 0.0
    for v in x:
        if v < low:
            found = v
            break
    else:
        raise ValueError("nothing found")
    return found * found


def halving(x: Any, low: Any) -> Any:
    y = x[0]
    while y > 1.0:
        assert y < 50.0, "diverged"
        y = y * 0.5 + 0.0 * low
    return y


LOOPS = [checked_loop, checked_twice, only_checks, running, searching, searching_else, halving]
ARRAYS = [np.array([3.0, 1.0, 2.0]), np.array([1.6, 101.0, -5.0]), np.array([5.0, -5.0, 101.0]), np.array([60.0, 1.5, 1.2, 1.1])]


@pytest.mark.parametrize("f", LOOPS)
def test_loops(f: Function) -> None:
    gradient = compile_grad(f)
    found = [same_outcome(f, lambda *args: gradient(*args)[0], x, low) for x in ARRAYS for low in (0.5, 1.1)]
    assert {isinstance(y, Exception) for y in found} == {True, False}
    for x in ARRAYS:
        if not isinstance(outcome(f, x, 0.5), Exception):
            step = 1e-6 * np.eye(len(x))
            differences = np.array([(f(x + d, 0.5) - f(x - d, 0.5)) / 2e-6 for d in step])
            assert_close(gradient(x, 0.5)[1], differences, rtol=1e-6, atol=1e-8)


def test_a_loop_with_one_check_is_raised_and_one_with_two_is_not() -> None:
    def loops(f: Function) -> list[str]:
        captured = capture(f, (ARRAYS[0], 0.5))
        raised = dce(raise_loops(dce(captured.function), captured.hints))
        assert [o.op for o in walk(raised.body)].count("raise_if") == (2 if f is checked_twice else 1)
        return [o.op for o in walk(raised.body) if o.op == "for"]

    assert loops(checked_loop) == loops(only_checks) == []
    assert loops(checked_twice) == loops(running) == ["for"]


def test_the_recomputed_part_of_the_adjoint_does_not_check_again() -> None:
    compiled = compile_grad(lambda x: halving([x * x], 0.5), debug=True)
    assert_close(compiled(3.0), (9.0 / 16.0, 6.0 / 16.0))
    assert compiled.source.count("raise AssertionError") == 1
    assert compiled.source.count("for ") > 0


def test_text_form() -> None:
    captured = capture(checked_twice, (ARRAYS[0], 0.5))
    again = parse(text_of(captured.function))
    assert text_of(again) == text_of(captured.function)
    with pytest.raises(ValueError, match="below"):
        interpret(again, (ARRAYS[2], 0.5))


def test_messages_show_traced_values_as_written() -> None:
    def f(x: Any, n: Any) -> Any:
        if x[n] > 1.0:
            raise ValueError(f"{x[n]:.3f} is above 1 at {n} of {len(x)} in {'x'}")
        return x[0]

    with pytest.raises(ValueError, match=r"<x\[n\]> is above 1 at <n> of <x_0> in x"):
        compile_value(f)(np.array([0.0, 2.0]), 1)


def test_messages_of_checks_on_sizes_are_exact() -> None:
    def f(x: Any) -> Any:
        if len(x) < 3:
            raise ValueError(f"3 entries are needed, not {len(x)}")
        assert x.ndim == 1, f"one axis, not {x.ndim}: {x}"
        return np.sum(x)

    compiled = compile_value(f)
    for n in (2, 4, 1):
        same_outcome(f, compiled, np.ones(n))


def test_two_lines_may_raise_the_same_error() -> None:
    def f(x: Any) -> Any:
        if x > 3.0:
            raise ValueError("outside")
        if x < 1.0:
            raise ValueError("outside")
        if x == 2.0:
            raise Other("x")
        if x == 2.5:
            raise ImportError("Other: x")
        return x

    compiled = compile_value(f)
    for x in (4.0, 0.0, 2.0, 2.5, 1.5):
        same_outcome(f, compiled, x)


class Other(RuntimeError):
    pass


def test_a_raise_that_is_handled_is_refused() -> None:
    def f(x: Any) -> Any:
        try:
            y = root(x)
        except (ValueError, KeyError):
            y = 0.0 * x
        return y

    def g(x: Any) -> Any:
        try:
            y = root(x)
        except KeyError:
            y = 0.0 * x
        finally:
            z = 2.0
        return y * z

    with pytest.raises(CaptureError, match="handled by a `try`") as found:
        capture(f, (1.0,))
    assert f"test_failures.py:{line_of(root, 'negative')}, in root" in str(found.value)
    same_outcome(g, compile_value(g), 4.0)
    same_outcome(g, compile_value(g), -4.0)


def test_handlers_see_what_is_raised_for_sure() -> None:
    def f(x: Any, what: Any = "a") -> Any:
        try:
            if what == "a":
                raise KeyError(what)
            y = x
        except KeyError:
            y = 3.0 * x
        return y

    assert compile_value(f)(2.0) == 6.0


def test_a_gradient_inside_of_a_checked_function() -> None:
    def f(x: Any) -> Any:
        return grad(lambda v: root(v) * v)(x)

    compiled = compile_value(f)
    assert_close(compiled(4.0), 3.0)
    with pytest.raises(ValueError, match="negative"):
        compiled(-4.0)


# --------------------------------------------------------------------------------------------------------------- text
TEXTS: list[Function] = [
    lambda x: len(str(x)) * x,
    lambda x: float(f"{x}") * x,
    lambda x: float(f"{x:.2f}") * x,
    lambda x: float(f"{x!r}") * x,
    lambda x: len("%s" % x) * x,  # noqa: UP031
    lambda x: len("%r" % x) * x,  # noqa: UP031
    lambda x: len("{}".format(x)) * x,  # noqa: UP032
    lambda x: int(format(x)) * x,
    lambda x: len(repr([x])) * x,
    lambda x: len(",".join(map(str, [x]))) * x,
    lambda x: [print("x is", x), x][1],
]


@pytest.mark.parametrize("k", range(len(TEXTS)))
def test_text_of_a_traced_value_is_refused(k: int) -> None:
    with pytest.raises(CaptureError, match="traced number") as found:
        capture(TEXTS[k], (2.0,))
    assert "test_failures.py" in str(found.value)
    assert "outside of the function" in str(found.value)


def test_text_of_sizes_and_of_known_values_is_what_it_is() -> None:
    def f(x: Any, name: str = "abc") -> Any:
        return x * len(str(x.shape)) * len(f"{len(x):03d}{name!r}") * len(str(name))

    same_outcome(f, compile_value(f), np.ones(4))


def test_map_sees_traced_values() -> None:
    def f(x: Any) -> Any:
        return sum(map(abs, [x, -x])) + sum(map(float, [x])) + sum(map(root, [x]))

    assert_close(compile_value(f)(4.0), 14.0)


# ------------------------------------------------------------------------------------ variables that may have no value
def found_or_not(x: Any, low: Any) -> Any:
    for v in x:
        if v < low:
            found = v * 2.0
            break
    else:
        found = -low
    return found * found


def found_for_sure(x: Any, low: Any) -> Any:
    for v in x:
        if v < low:
            found, twice = v, x * 2.0
            break
    return found + np.sum(twice)


def found_in_a_while(x: Any, low: Any) -> Any:
    i = 0
    while i < len(x):
        if x[i] < low:
            best, place = x[i], i
            break
        i += 1
    else:
        best, place = low, -1
    return best * (place + 2.0)


def in_one_branch(x: Any, low: Any) -> Any:
    if x[0] > low:
        y = x[0] * 2.0
    total = np.sum(x)
    if x[0] > low:
        total += y
    return total


def in_an_earlier_turn(x: Any, low: Any) -> Any:
    total = 0.0
    for v in x:
        if v > low:
            last = v
        total += last * v
    return total


def not_read(x: Any, low: Any) -> Any:
    total = 0.0
    for v in x:
        if v > low:
            twice = 2.0 * v
            total += twice
    return total


@pytest.mark.parametrize("f", [found_or_not, found_for_sure, found_in_a_while, in_one_branch, in_an_earlier_turn, not_read])
def test_a_variable_without_a_value_is_an_error_where_it_is_read(f: Function) -> None:
    gradient = compile_grad(f, debug=f is not found_or_not)
    for x in (np.array([3.0, 1.0, 2.0]), np.array([0.3, 2.0, 0.2])):
        for low in (0.25, 1.5, 9.0, 0.1):
            if isinstance(same_outcome(f, lambda *args: gradient(*args)[0], x, low), float):
                steps = 1e-6 * np.eye(len(x))
                differences = np.array([(f(x + d, low) - f(x - d, low)) / 2e-6 for d in steps])
                assert_close(gradient(x, low)[1], differences, rtol=1e-6, atol=1e-8)
