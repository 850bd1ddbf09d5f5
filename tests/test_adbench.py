"""A real reference: ADBench's Gaussian mixture, written with einsum and as a loop over components, against ADBench's golden
values and the gradient in closed form. Two writings, and 1000 points in 2, 10 and 20 dimensions."""

from __future__ import annotations

import gmm
import numpy as np
import pytest
from conftest import assert_close

from adcompile import compile_grad

WRT = ("alpha", "mu", "q", "low")
FILES = ("gmm_d2_K5", "gmm_d10_K5", "gmm_d20_K10")
WRITINGS = {"einsum": gmm.gmm_einsum, "components": gmm.gmm_components}
TOLERANCE = 1e-8                                    # ADBench's: |a - b| / max(1, |a| + |b|)


@pytest.fixture(scope="module", params=WRITINGS)
def objective(request: pytest.FixtureRequest):
    """One compiled object for all files."""
    return compile_grad(WRITINGS[request.param], wrt=WRT)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """ADBench's measure of disagreement, the worst entry's."""
    return float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(a) + np.abs(b))))


def test_golden_values(objective) -> None:
    value, gradient = objective(*gmm.read("test"))
    wanted, wanted_gradient = gmm.golden()
    assert distance(np.array(value), np.array(wanted)) < TOLERANCE
    assert distance(gmm.packed(*gradient), wanted_gradient) < TOLERANCE


@pytest.mark.parametrize("name", FILES)
def test_data_files(objective, name: str) -> None:
    problem = gmm.read(name)
    if objective.dispatch.name == "gmm_components" and name != "gmm_d2_K5":
        pytest.skip("every column of every component is unrolled: minutes of compiling")
    before = [np.copy(a) for a in problem]
    for _ in range(2):                              # a second call must not find anything left over from the first
        value, gradient = objective(*problem)
        assert distance(np.array(value), np.array(gmm.gmm_einsum(*problem))) < TOLERANCE
        assert distance(gmm.packed(*gradient), gmm.packed(*gmm.closed_form(problem))) < TOLERANCE
    for kept, now in zip(before, problem, strict=True):
        np.testing.assert_array_equal(kept, now)


def test_one_kernel_for_all_files(objective) -> None:
    if objective.dispatch.name == "gmm_components":
        pytest.skip("one kernel for each number of components and dimensions")
    for name in ("test", *FILES):
        objective(*gmm.read(name))
    one_point = 1                                   # test.txt has a single point; its axis of length 1 may mean broadcasting
    assert len(objective.specialisations) <= 1 + one_point


def test_writings_agree_without_adcompile() -> None:
    """The objectives themselves: both writings, the golden value, and the closed form against the golden gradient."""
    problem = gmm.read("test")
    value, gradient = gmm.golden()
    for writing in WRITINGS.values():
        assert_close(writing(*problem), value, rtol=1e-12)
    assert_close(gmm.packed(*gmm.closed_form(problem)), gradient, rtol=1e-10)
    problem = gmm.read("gmm_d10_K5")
    assert_close(gmm.gmm_components(*problem), gmm.gmm_einsum(*problem), rtol=1e-12)
