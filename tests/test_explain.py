"""The page about a function: what it says of inputs, loops, lines, memory, guards, specialisations and time."""

from __future__ import annotations

import numpy as np
import pytest

import adcompile as ad
from adcompile import compile_grad, compile_value

pytestmark = pytest.mark.plain
SCALE = 2.0


def mixed(w, X, y, unused):
    total = 0.0
    for i in range(X.shape[0]):
        total += np.log1p(np.exp(-y[i] * (X[i] @ w)))
    level = 0.0
    for i in range(y.shape[0]):
        level = SCALE * np.tanh(level * w[0]) + y[i]
    return total + level


ARGS = (np.ones(2), np.ones((6, 2)), np.ones(6), 1.0)


def sections(page: str) -> dict[str, list[str]]:
    """The lines below each heading."""
    found: dict[str, list[str]] = {}
    for part in page.split("\n\n")[1:]:
        title, *lines = part.split("\n")
        found[title] = [line.strip() for line in lines]
    return found


def test_the_page() -> None:
    f = compile_grad(mixed)
    f(*ARGS)
    page = f.explain()
    assert page.startswith("mixed(w, X, y, unused)\n\ncaptured")
    found = sections(page)
    assert {"w: f64[d], differentiated", "X: f64[n, d], constant", "SCALE: f64, constant, read at every call",
            "unused: it does not reach the result"} <= set(found["captured"])
    line = mixed.__code__.co_firstlineno
    assert found["loops of yours"] == [
        f"line {line + 2}  for i in range(X.shape[0]):  -> became array operations: its turns do not need each other",
        f"line {line + 5}  for i in range(y.shape[0]):  -> stays a loop: a turn needs the one before, or ends it"]
    start = found["lines"].index(f"line {line + 7}  return total + level")
    assert found["lines"][start + 1:start + 3] == ["forward   add", "backward  nothing"]
    assert any(str(line + 3) in each and "forward and backward" in each for each in found["loops of the kernel"])
    assert any(each.startswith("level_saved: f64[n]") for each in found["kept between loops"])
    assert "2*d*n" in " ".join(found["work and memory"])
    (only,) = found["specialisations"]
    assert only.startswith("<mixed(w: f64[X_1]") and only.endswith("<- this page")
    assert "machine code" in found["time"][0] and "differentiate" in found["time"][0]


def test_of_arguments_that_no_call_had() -> None:
    found = sections(compile_grad(mixed).explain(*ARGS))
    assert "specialisations" not in found
    assert "machine code" not in found["time"][0]


def test_of_a_value_alone_and_objects_held_on_to() -> None:
    def helper(x):
        return np.sin(x)

    def f(x):
        return helper(x) * ad.stop_gradient(x)

    found = sections(compile_value(f).explain(2.0))
    assert not any(line.startswith("backward") for line in found["lines"])
    assert found["assumed"] == ["helper is the object that it was"]
