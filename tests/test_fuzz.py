"""Random programs (`fuzz_programs.py`) through capture, interpreter, gradient and generated code, and those that once went wrong.

`ADCOMPILE_FUZZ=2000 pytest tests/test_fuzz.py` checks that many; `python tests/fuzz_programs.py 0 2000` prints small forms of
those that fail.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from fuzz_programs import REFUSALS, Generated, Refused, check, check_function, random_program

PROGRAMS = int(os.environ.get("ADCOMPILE_FUZZ", "60"))
COMPILED = 3


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed: int) -> None:
    try:
        check(random_program(seed), compiled=seed < COMPILED)
    except Refused as error:
        if not any(reason in str(error) for reason in REFUSALS):
            raise


def test_a_seed_gives_one_program() -> None:
    assert random_program(7).source == random_program(7).source
    assert random_program(7).source != random_program(8).source


def test_wrong_gradients_are_noticed() -> None:
    """A program whose gradient adcompile is told to leave out."""
    program = Generated(0, ("from adcompile import stop_gradient", "return np.sum(stop_gradient(x) * y)"))
    with pytest.raises(AssertionError, match="gradient in x"):
        check(program)


# ------------------------------------------------------------------------------------------------------ once wrong
def one_number_stored(x: Any, y: Any, p: Any, k: int) -> Any:
    v = x * 0.5
    v[-1] = np.dot(x, x)
    v[:k] = y[0]
    return np.sum(v * y)


def cotangent_of_two(x: Any, y: Any, p: Any, k: int) -> Any:
    v = y * 0.5
    u = 0.5 * (x + y)[p]
    return np.dot(v, x) + np.sum(u * y)


def name_of_another_array(x: Any, y: Any, p: Any, k: int) -> Any:
    v = x * 0.5
    u = x.copy()
    for _ in range(len(x)):
        v = u
    return np.dot(v, x)


def read_where_it_is_stored(x: Any, y: Any, p: Any, k: int) -> Any:
    v = y.copy()
    for e in x:
        v[0] = v[len(x) // 2] * e
    return np.dot(v, x)


def pieces_of_unknown_length(x: Any, y: Any, p: Any, k: int) -> Any:
    u = np.zeros(len(x))
    for i in reversed(range(len(x))):
        u[0] -= np.tanh(x[(i * i + 1) % len(x)])
        if i == p[i]:
            break
    u[:k] -= np.cumsum(x)[:k]
    return np.sum(u * y)


def written_in_one_branch(x: Any, y: Any, p: Any, k: int) -> Any:
    u = np.ones_like(y)
    if u[0] > x[k]:
        u[-1] = x[0]
    else:
        u = u * 2
    return np.sum(u * y)


def two_names_of_a_new_array(x: Any, y: Any, p: Any, k: int) -> Any:
    u = w = x.copy()
    if x[0] < 3.0:
        u = w = y * 2
    u[0] = x[1]
    return np.sum(w * y)


def read_again_of_the_last_state(x: Any, y: Any, p: Any, k: int) -> Any:
    w, s = x.copy(), 0.0
    for i in p:
        for j in range(i):
            w[j // 2] -= np.tanh(-s)
            s = abs(np.tanh(w[i]) * y[(i + j) // 2])
    return np.sum(w)


def view_made_in_one_branch(x: Any, y: Any, p: Any, k: int) -> Any:
    v = np.zeros_like(x)
    for i in range(len(x)):
        if x[i] <= y[k]:
            v = y[p][::-1]
    return np.dot(v, x)


def rows_left_in_the_first_turn(x: Any, y: Any, p: Any, k: int) -> Any:
    w = np.outer(x, y)
    for i in p:
        w[(i * i + 1) % len(x), 2] *= np.tanh(np.sin(w[min(i + 1, len(x) - 1), 0]))
        break
    return np.sum(w)


ONCE_WRONG = (one_number_stored, cotangent_of_two, name_of_another_array, read_where_it_is_stored, pieces_of_unknown_length,
              written_in_one_branch, two_names_of_a_new_array,
              read_again_of_the_last_state, view_made_in_one_branch,
              rows_left_in_the_first_turn)


@pytest.mark.parametrize("function", ONCE_WRONG)
def test_once_wrong(function: Any) -> None:
    x = np.array([0.4, 1.7, -0.3, 0.9, 1.1])
    check_function(function, {"x": x, "y": x[::-1] * 0.7 + 0.2, "p": np.array([0, 1, 3, 2, 4]), "k": 2}, ("x", "y"))


def parameter_written_through_a_name(x: Any, y: Any, p: Any, k: int) -> Any:
    u = x.copy()
    for _ in range(len(x)):
        for j in range(k, len(x)):
            if x[j] > 1.0:
                u = y
        for j in p:
            u[j] = y[2]
    return np.sum(u * y)


def earlier_name_written_in_a_loop(x: Any, y: Any, p: Any, k: int) -> Any:
    u = x.copy()
    for i in range(len(x)):
        u[i] = 3.0
        if x[i] > 1.0:
            u = y
    return np.sum(u) + np.sum(y)


@pytest.mark.parametrize("function", [parameter_written_through_a_name, earlier_name_written_in_a_loop])
def test_unknown_aliases_are_refused(function: Any) -> None:
    x = np.array([0.4, 1.7, -0.3, 0.9, 1.1])
    with pytest.raises(Refused, match="may share memory"):
        check_function(function, {"x": x, "y": x + 1, "p": np.array([0, 1, 3, 2, 4]), "k": 2}, ("x", "y"))
