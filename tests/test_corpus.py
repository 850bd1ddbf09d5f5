"""Every function of the corpus through every stage: captured, each pass, interpreted, compiled, at all of its sizes.

The chain of evidence: the oracle agrees with itself; the captured graph interprets to NumPy's value; each pass keeps the
meaning; the interpreted gradient is the oracle's; the compiled kernel gives what the interpreter gives.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import assert_close, assert_close_to_scale, assert_same
from corpus import CORPUS, Program

from adcompile import compile_grad
from adcompile.capture.driver import CapturedFunction, capture
from adcompile.ir.core import Function
from adcompile.ir.interpreter import interpret
from adcompile.ir.signature import Signature
from adcompile.ir.verifier import verify
from adcompile.pipeline import PASSES, Context, Level, Meaning, Options

NAMES = list(CORPUS)
every = pytest.mark.parametrize("name", NAMES)
# One in four is compiled by numba, the others run as plain Python.
most_plain = pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.plain] if i % 4 else [])
                                             for i, name in enumerate(NAMES)])


def rounding(program: Program) -> float:
    """How far sums in another order may be off."""
    return 1e-11 if program.rtol < 1e-6 else 1e-4


def captured(program: Program, args: tuple) -> CapturedFunction:
    """The function captured for a call like this."""
    return capture(program.function, args, wrt=program.wrt, scalar=True)


def parameters(function: Function, signature: Signature, args: tuple) -> list[Any]:
    """The values of the graph's parameters in a call."""
    bound = signature.python.bind(*args)
    bound.apply_defaults()
    values = [entry.access.read(bound.arguments) for entry in signature.inputs]
    return [np.asarray(v, p.type.dtype.numpy)[()] for v, p in zip(values, function.params, strict=True)]


def run(function: Function, signature: Signature, args: tuple) -> list[Any]:
    """The graph's results in a call, by the interpreter."""
    with np.errstate(all="ignore"):
        results = interpret(function, parameters(function, signature, args))
    return list(results) if isinstance(results, (tuple, list)) else [results]


@functools.cache
def expected(name: str, index: int) -> tuple[Any, Any]:
    """NumPy's value and the oracle's gradient."""
    program = CORPUS[name]
    args = program.sample(index)
    return oracle.value(program, args), oracle.gradient(program, args)


@functools.cache
def compiled(name: str) -> Any:
    """One object for all tests of a function."""
    return compile_grad(CORPUS[name].function, wrt=CORPUS[name].wrt)


# ---------------------------------------------------------------------------------------------------------- the oracle
@every
def test_oracle_agrees_with_itself(name: str) -> None:
    """The complex step, and differences with two steps, give one gradient; values are finite."""
    program = CORPUS[name]
    for index, args in enumerate(program.samples()):
        value, gradient = expected(name, index)
        assert np.ndim(value) == 0
        assert np.isfinite(value)
        for step in (oracle.STEP, oracle.STEP / 3):
            method = functools.partial(oracle.differences, step=step)
            found = [oracle.gradient_of(program.function, args, p, method) for p in oracle.wrt_positions(program)]
            wanted = gradient if isinstance(program.wrt, tuple) else (gradient,)
            assert_close_to_scale(list(oracle.leaves_of(tuple(found))), list(oracle.leaves_of(wanted)), rtol=program.rtol)


def test_samples_are_the_same_every_time() -> None:
    for program in CORPUS.values():
        assert len(program.sizes) >= 2
        assert_same(list(oracle.leaves_of(program.sample(1))), list(oracle.leaves_of(program.sample(1))))


# ---------------------------------------------------------------------------------------------------------- the stages
@every
def test_captured_graph_means_what_numpy_means(name: str) -> None:
    program = CORPUS[name]
    for index, args in enumerate(program.samples()):
        found = captured(program, args)
        verify(found.function)
        (value,) = run(found.function, found.signature, args)
        assert_close(value, expected(name, index)[0], rtol=1e-13 if program.rtol < 1e-6 else 1e-6)


@every
def test_every_pass_keeps_the_meaning(name: str) -> None:
    program = CORPUS[name]
    index = len(program.sizes) - 1
    args = program.sample(index)
    found = captured(program, args)
    function = found.function
    before = run(function, found.signature, args)
    for each in PASSES:
        if each.ensures is not Level.GRAPH:
            break
        function = each.run(function, Context(found.signature, Options(wrt=program.wrt), function))
        verify(function)
        after = run(function, found.signature, args)
        if each.meaning is Meaning.EXACT:
            assert_same(after, before)
        elif each.meaning is Meaning.DIFFERENTIATES:
            assert_same(after[:len(before)], before)
            assert_close_to_scale(after[len(before):], list(oracle.leaves_of(expected(name, index)[1])), rtol=program.rtol)
        else:
            assert_close_to_scale(after, before, rtol=rounding(program))
        before = after


# ---------------------------------------------------------------------------------------------------------- the kernel
@most_plain
def test_compiled(name: str) -> None:
    """All sizes with one object, each twice: value, gradient, equality with the interpreter, arguments left alone."""
    program, f = CORPUS[name], compiled(name)
    for index, args in enumerate(program.samples()):
        kept = copy.deepcopy(args)
        for _ in range(2):
            value, gradient = f(*args)
            wanted_value, wanted_gradient = expected(name, index)
            assert_close(value, wanted_value, rtol=rounding(program))
            assert_structure(gradient, wanted_gradient)
            assert_close_to_scale(list(oracle.leaves_of(gradient)), list(oracle.leaves_of(wanted_gradient)), rtol=program.rtol)
        interpreted = run(f.latest.function, f.latest.signature, args)
        assert_close_to_scale([value, *oracle.leaves_of(gradient)], interpreted, rtol=rounding(program))
        assert_same(list(oracle.leaves_of(args)), list(oracle.leaves_of(kept)))


@most_plain
def test_one_kernel_for_all_sizes(name: str) -> None:
    """Only an axis of length 0 or 1 may mean something else and need a kernel of its own."""
    program, f = CORPUS[name], compiled(name)
    special = 0
    for args in program.samples():
        f(*args)
        special += any(min(np.shape(leaf), default=9) <= 1 for leaf in oracle.leaves_of(args))
    assert len(f.specialisations) <= 1 + special, "\n".join(map(repr, f.specialisations))


def assert_structure(got: Any, wanted: Any) -> None:
    """A gradient has the structure, shapes and dtypes of its argument; that of a number or a 0-d array is a float."""
    got_leaves, wanted_leaves = list(oracle.leaves_of(got)), list(oracle.leaves_of(wanted))
    assert repr(oracle.map_leaves(lambda _: 0, got)) == repr(oracle.map_leaves(lambda _: 0, wanted))
    for a, b in zip(got_leaves, wanted_leaves, strict=True):
        assert isinstance(a, np.ndarray if np.ndim(b) else float)
        if np.ndim(b):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
