"""Programs in plain loops (`programs.py`) against closed forms, golden files and differences: captured, interpreted, and as
generated code; some compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import programs
import pytest
from conftest import assert_close
from fuzz_programs import check_function
from programs import PROGRAMS

from adcompile import compile_grad

COMPILED = ("kalman", "kmeans", "cube_root_by_newton", "gauss_seidel")
TOLERANCE = 1e-8                                    # ADBench's: |a - b| / max(1, |a| + |b|)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    """Value and gradient through all stages, the gradient against differences."""
    each = PROGRAMS[name]
    check_function(each.function, each.args, each.wrt, compiled=name in COMPILED)


@pytest.mark.parametrize("name", [name for name, each in PROGRAMS.items() if each.gradient])
def test_closed_form(name: str) -> None:
    each = PROGRAMS[name]
    value, gradient = compile_grad(each.function, wrt=each.wrt)(**each.args)
    assert each.gradient is not None
    assert_close(value, each.function(**each.args), rtol=1e-12)
    assert_close(list(gradient), list(each.gradient(**each.args)), rtol=1e-9)


def test_two_writings_of_the_heat_equation() -> None:
    args = PROGRAMS["heat_loops"].args
    loops, slices = (compile_grad(PROGRAMS[name].function, wrt=("u", "k"))(**args) for name in ("heat_loops", "heat_slices"))
    assert_close(loops[0], slices[0], rtol=1e-12)
    assert_close(list(loops[1]), list(slices[1]), rtol=1e-11)


# ------------------------------------------------------------------------------------------------------ golden files
def distance(a: Any, b: Any) -> float:
    """ADBench's measure of disagreement, the worst entry's."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(a) + np.abs(b))))


def test_lstm() -> None:
    value, (main, extra) = compile_grad(programs.lstm, wrt=("main", "extra"))(**programs.lstm_arguments())
    wanted = programs.golden("lstm", "golden.json")
    assert distance(value, 0.6666651795588522) < 1e-14
    assert distance(np.concatenate([main.ravel(), extra.ravel()]), wanted["gradient"]) < TOLERANCE


def test_bundle_adjustment() -> None:
    residual = compile_grad(programs.bundle_residual, wrt=("camera", "point", "weight"))
    wanted = programs.golden("ba", "golden.json")
    for which in (0, 1):
        value, (camera, point, weight) = residual(**programs.bundle_arguments(), which=which)
        row = wanted["vals"][15 * which:15 * (which + 1)]
        assert distance(value, wanted["reproj_err_pair"][which]) < TOLERANCE
        assert distance([*camera, *point, weight], row) < TOLERANCE
