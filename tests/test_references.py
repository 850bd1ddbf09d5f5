"""Programs in plain loops (`programs.py`) against closed forms, golden files and differences: captured, interpreted, and as
generated code; some compiled."""

from __future__ import annotations

from typing import Any

import hand
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


@pytest.mark.parametrize("kind", ["simple", "complicated"])
def test_hand_tracking(kind: str) -> None:
    """Each residual by itself: a row of the Jacobian. The complicated objective is interpreted: compiling takes long."""
    args = hand.problem(kind)
    wrt = ("theta",) if kind == "simple" else ("places", "theta")
    objective = compile_grad(getattr(hand, kind), wrt=wrt, debug=kind == "complicated")
    wanted, jacobian = hand.golden(kind)
    for row in range(len(wanted)):
        weights = np.zeros(args["points"].shape)
        weights.flat[row] = 1.0
        value, (*places, theta) = objective(**args, weights=weights)
        own = [p[row // 3] for p in places]                     # d residual / d place: of the point's own place only
        assert distance(value, wanted[row]) < TOLERANCE
        assert distance(np.concatenate([*own, theta]), jacobian[row]) < TOLERANCE
    assert len(objective.specialisations) == 1


# ------------------------------------------------------------------------------------------------------ many steps
def logistic_map(r: Any, x: Any, steps: int) -> Any:
    for _ in range(steps):
        x = r * x * (1.0 - x)
    return x


def slopes_forward(r: float, x: float, steps: int) -> tuple[float, float, float]:
    """x after the steps and its derivatives, carried along."""
    in_r, in_x = 0.0, 1.0
    for _ in range(steps):
        in_r, in_x = x * (1.0 - x) + r * (1.0 - 2.0 * x) * in_r, r * (1.0 - 2.0 * x) * in_x
        x = r * x * (1.0 - x)
    return x, in_r, in_x


@pytest.mark.parametrize("checkpoint", [None, True])
def test_a_million_steps_of_the_logistic_map(checkpoint: bool | None) -> None:
    steps = 10**6
    stepped = compile_grad(logistic_map, wrt=("r", "x"), checkpoint=checkpoint)
    for r, x in ((2.9, 0.3), (3.2, 0.4), (1.0, 0.5)):           # at r = 1 the state goes to 0 as slowly as 1 / steps
        value, gradient = stepped(r, x, steps)
        wanted, *slopes = slopes_forward(r, x, steps)
        assert_close(value, wanted, rtol=1e-12)
        assert_close(list(gradient), slopes, rtol=1e-8, atol=1e-300)


def test_few_chaotic_steps_of_the_logistic_map() -> None:
    """At r = 4 there is a closed form: sin(2**n * asin(sqrt(x)))**2."""
    steps, x = 12, 0.3
    value, slope = compile_grad(logistic_map, wrt="x")(4.0, x, steps)
    angle = 2**steps * np.arcsin(np.sqrt(x))
    assert_close(value, np.sin(angle) ** 2, rtol=1e-10)
    assert_close(slope, np.sin(2 * angle) * 2**steps / (2 * np.sqrt(x * (1 - x))), rtol=1e-10)
