"""Derivatives that other tools got wrong (`cases/derivative_cases.py`): right here or refused, never wrong."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adcompile
from adcompile import compile_grad
from adcompile.errors import AdcompileError

pytestmark = pytest.mark.plain

PATH = Path(__file__).parent / "cases" / "derivative_cases.py"


def load() -> Any:
    """The module of cases, with this project's stop_gradient in it."""
    spec = importlib.util.spec_from_file_location("derivative_cases", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.STOP_GRADIENT = adcompile.stop_gradient
    return module


CASES = load()
BY_ID = {case["id"]: case for case in CASES.CASES}

# What this version refuses, and why. Everything else must be right.
LATER = {
    **dict.fromkeys(("boolean_filter_after",), "a result whose shape depends on data"),
    **dict.fromkeys(("sort_weights", "argsort_gather", "median_even_and_odd", "percentile_linear"), "sorting"),
    **dict.fromkeys(("fft_masked_power", "irfft_filter", "complex_abs_at_zero"), "complex numbers and FFT"),
    **dict.fromkeys(("det_singular", "det_rank_deficient", "slogdet_small", "cholesky_of_gram", "solve_vector_rhs",
                     "inverse_entry", "eigenvalue_sum_degenerate", "svd_reconstruction_degenerate", "qr_r_factor",
                     "mvn_logpdf_covariance_sign"), "matrix factorisations"),
    **dict.fromkeys(("bessel_j0_j1", "gammainc_shape_parameter"), "special functions beyond gamma and erf"),
    **dict.fromkeys(("interp_all_arguments", "convolve_three_modes"), "interpolation and convolution"),
    "int_array_argument": "a gradient with respect to integers is an error here",
}


def gradients(fn: Callable[..., Any], args: list[Any], wrt: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """Value, and one gradient an argument (None where it is not differentiated)."""
    value, found = compile_grad(fn, wrt=wrt)(*args)
    by_position = dict(zip(wrt, found, strict=True))
    return value, [by_position.get(i) for i in range(len(args))]


def value_and_grad(fn: Callable[..., Any]) -> Callable[..., tuple[Any, tuple]]:
    """What the scenarios take: `vg(fn)(*args) -> (value, gradients)`, one object that is called several times."""
    compiled: dict[tuple[int, ...], Any] = {}

    def call(*args: Any) -> tuple[Any, tuple]:
        wrt = tuple(range(len(args)))
        f = compiled.setdefault(wrt, compile_grad(fn, wrt=wrt))
        value, found = f(*args)
        return value, tuple(found)
    return call


def attempt(case: dict[str, Any]) -> tuple[bool, str]:
    """Whether adcompile gets the case right, else what it said."""
    wrt = tuple(i for i, wanted in enumerate(case["expected_grads"]) if wanted is not None)
    before = [np.copy(a) for a in case["args"]]
    value, found = gradients(case["fn"], case["args"], wrt)
    for kept, now in zip(before, case["args"], strict=True):
        np.testing.assert_array_equal(kept, now, "an argument was changed")
    return CASES.judge(case, value, found)


@pytest.mark.parametrize("name", [n for n in BY_ID if n not in LATER])
def test_right(name: str) -> None:
    right, message = attempt(BY_ID[name])
    assert right, message


@pytest.mark.parametrize("name", LATER)
def test_later_is_right_or_refused(name: str) -> None:
    with contextlib.suppress(AdcompileError):
        right, message = attempt(BY_ID[name])
        assert right, message


@pytest.mark.parametrize("name", [n for n, case in BY_ID.items() if case["scenario"] is not None])
def test_scenario(name: str) -> None:
    try:
        compared = BY_ID[name]["scenario"](value_and_grad)
    except AdcompileError:
        assert name in LATER
        return
    for label, got, wanted in compared:
        assert CASES.close(got, wanted, 1e-9, 1e-12), f"{label}: {got!r}, expected {wanted!r}"


def test_list_of_later_names_cases() -> None:
    assert LATER.keys() <= BY_ID.keys()
