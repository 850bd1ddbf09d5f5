"""Loops that threads share: which ones, that the parts give the whole, and that nothing breaks when threads meet."""

from __future__ import annotations

import os
import threading

import numba
import numpy as np
import pytest
from conftest import assert_close
from corpus import CORPUS

from adcompile import UnsupportedOp, compile_grad, compile_value
from adcompile.ir.dims import Dim
from adcompile.runtime import threads


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads share every call, however small."""
    monkeypatch.setattr(threads, "ENOUGH", 0)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)


def logistic(w, X, y):
    return np.sum(np.log1p(np.exp(-y * (X @ w))))


def logistic_data(rng, n, d=3):
    return rng.normal(size=d), rng.normal(size=(n, d)), np.sign(rng.normal(size=n))


def log_sum_exp(x):
    top = np.max(x)
    return np.log(np.sum(np.exp(x - top))) + top


@pytest.mark.plain
@pytest.mark.parametrize("name", CORPUS)
def test_parts_give_the_whole(name, three_threads, monkeypatch):
    monkeypatch.setattr(threads, "run", lambda function, calls: [function(*call) for call in calls])
    program = CORPUS[name]
    shared = compile_grad(program.function, wrt=program.wrt)
    alone = compile_grad(program.function, wrt=program.wrt, parallel=False)
    tolerance = 1e-10 if program.rtol < 1e-6 else 1e-4
    for args in program.samples():
        found, expected = shared(*args), alone(*args)
        assert_close(flat(found), flat(expected), rtol=tolerance, atol=tolerance)


def flat(tree):
    if isinstance(tree, dict):
        return [leaf for child in tree.values() for leaf in flat(child)]
    return [leaf for child in tree for leaf in flat(child)] if isinstance(tree, (list, tuple)) else [tree]


@pytest.mark.plain
def test_most_sums_over_data_are_shared(three_threads):
    """An index that only stands in subscripts is unsigned: it needs no question whether it counts from the end."""
    for function, args, bounds in ((logistic, logistic_data(np.random.default_rng(0), 20), "range(first, last"),
                                   (log_sum_exp, (np.arange(9.0),), "range(np.uint64(first), np.uint64(last))")):
        f = compile_grad(function)
        f(*args)
        assert f.latest.module.sharing is not None
        assert bounds in f.latest.module.sharing.module.source


@pytest.mark.plain
@pytest.mark.parametrize("n", [0, 1, 2, 5, 301])
def test_any_number_of_turns(n, three_threads, rng):
    args = logistic_data(rng, n)
    found, expected = compile_grad(logistic)(*args), compile_grad(logistic, parallel=False)(*args)
    assert_close(flat(found), flat(expected), rtol=1e-12, atol=1e-12)


def test_compiled_parts_and_the_out_argument(rng, three_threads):
    args = logistic_data(rng, 1000)
    f, alone = compile_grad(logistic), compile_grad(logistic, parallel=False)
    first = f(*args)
    assert_close(flat(first), flat(alone(*args)), rtol=1e-11, atol=1e-11)
    assert first[0] == f(*args)[0]                  # the same bits at every call
    out = np.empty(3)
    value, gradient = f(*args, out=out)
    assert gradient is out
    assert value == first[0]
    np.testing.assert_array_equal(out, first[1])


def test_small_calls_stay_on_one_thread(rng, monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    monkeypatch.setattr(threads, "ENOUGH", 20_000)
    f = compile_grad(logistic)
    f(*logistic_data(rng, 10))
    assert "module" not in vars(f.latest.module.sharing)
    large = logistic_data(rng, 3000)
    value, gradient = f(*large)
    assert "module" in vars(f.latest.module.sharing)
    assert_close([value, gradient], flat(compile_grad(logistic, parallel=False)(*large)), rtol=1e-11, atol=1e-11)
    assert len(f.specialisations) == 1


def test_values_alone_are_shared_too(rng, three_threads):
    x = rng.normal(size=1000)
    assert compile_value(log_sum_exp)(x) == pytest.approx(compile_value(log_sum_exp, parallel=False)(x), rel=1e-13)
    doubled = compile_value(lambda x: 2.0 * np.sin(x))
    np.testing.assert_allclose(doubled(x), 2.0 * np.sin(x), rtol=1e-13)


def test_threads_of_the_user_may_call_at_once(rng, three_threads):
    args = logistic_data(rng, 2000)
    f = compile_grad(logistic)
    expected = f(*args)
    found: list = []
    callers = [threading.Thread(target=lambda: found.extend(f(*args) for _ in range(20))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 80
    assert all(value == expected[0] and np.array_equal(gradient, expected[1]) for value, gradient in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(rng, three_threads):
    args = logistic_data(rng, 500)
    f = compile_grad(logistic)
    expected = f(*args)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if f(*args)[0] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_error_in_a_part_is_the_users_error(three_threads):
    f = compile_grad(lambda x, places: np.sum(x[places] ** 2))
    x = np.arange(4.0)
    assert f(x, np.array([0, 1, 3]))[0] == 10.0
    with pytest.raises(IndexError):
        f(x, np.array([0, 1, 7]))


@pytest.mark.plain
@pytest.mark.parametrize("function", [
    lambda x: recurrence(x),
    lambda x: np.sum(np.cumsum(x) ** 2),
])
def test_turns_that_need_each_other_are_not_shared(function, monkeypatch):
    monkeypatch.setattr(threads, "ENOUGH", 0)
    x = np.linspace(0.0, 1.0, 7)
    with pytest.raises(UnsupportedOp, match="independent"):
        compile_grad(recurrence, parallel=2)(x)
    assert compile_grad(function, parallel="auto")(x)[0] == pytest.approx(function(x))


def recurrence(x):
    state = 0.1
    for i in range(x.shape[0]):
        state = np.sin(state * x[i]) + 0.5
    return state


@pytest.mark.parametrize("parallel", [0, -1, "yes", 1.5, None])
def test_what_is_no_number_of_threads_is_refused(parallel):
    with pytest.raises(UnsupportedOp, match="parallel"):
        compile_grad(logistic, parallel=parallel)


@pytest.mark.parametrize("work", ["0", "7", "2*length"])
def test_work_that_no_size_tells_stays_on_one_thread(work):
    sharing = threads.Sharing(Dim.parse(work), lambda: None)
    assert eval(sharing.small_text({"x_0": "n"})) is True
    assert not sharing.is_worth({"x_0": 10**9})
