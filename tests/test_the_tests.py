"""The tests of the table notice wrong facts: each is planted in a row, and the check function must fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import test_ops
from test_ops import PARTIALS, SAMPLES, TAILS, cases

from adcompile.ir.op import TABLE, Op
from adcompile.ir.types import DType, Type

OFF = 1.0005                              # by which planted partials and transposes are wrong


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Op]:
    """`plant(row, field=wrong)`: the row with a wrong fact, in the table until the test ends."""
    def put(row: Op, **wrong: Any) -> Op:
        changed = replace(row, **wrong)
        monkeypatch.setitem(TABLE, row.name, changed)
        return changed

    return put


def notices(check: Callable[[], None]) -> bool:
    """Whether a check fails."""
    try:
        check()
    except Exception:
        return True
    return False


def scaled_partial(row: Op, index: int) -> Callable[..., tuple[Any, ...]]:
    """The row's partials with one of them off."""
    def partials(y: Any, *operands: Any) -> tuple[Any, ...]:
        assert row.partials is not None
        found = list(row.partials(y, *operands))
        found[index] = OFF * found[index]
        return tuple(found)

    return partials


def partial_faults() -> list[Any]:
    """One fault per partial that is a formula or a number other than 0."""
    faults = []
    for row in PARTIALS:
        for k, partial in enumerate(test_ops.partials_at(row, test_ops.inside(row, (5,)))):
            if partial is not None and np.any(partial):
                faults.append(pytest.param(row, k, id=f"{row.name}-{k}"))
    return faults


@pytest.mark.parametrize(("row", "index"), partial_faults())
def test_a_wrong_partial_is_noticed(row: Op, index: int, plant: Callable[..., Op]) -> None:
    assert not notices(lambda: test_ops.check_partials(row))
    wrong = plant(row, partials=scaled_partial(row, index))
    assert notices(lambda: test_ops.check_partials(wrong))


@pytest.mark.parametrize(("name", "partials"), [
    ("tanh", lambda y, x: (1.0 - y * y,)), ("sigmoid", lambda y, x: (y * (1.0 - y),)), ("expm1", lambda y, x: (y + 1.0,)),
    ("asin", lambda y, x: (1.0 / TABLE["sqrt"](1.0 - x * x),)), ("asinh", lambda y, x: (1.0 / TABLE["sqrt"](1.0 + x * x),)),
])
def test_a_partial_that_loses_digits_is_noticed(name: str, partials: Callable[..., Any], plant: Callable[..., Op]) -> None:
    assert name in TAILS
    assert notices(lambda: test_ops.check_accuracy(plant(TABLE[name], partials=partials)))


def wrong_types(row: Op) -> list[Callable[..., Any]]:
    """Type rules that are wrong: another dtype, an axis more."""
    def narrowed(*types: Any, **attributes: Any) -> Type:
        found: Type = row.infer(*types, **attributes)
        return found.with_dtype(DType.i32 if found.dtype is not DType.i32 else DType.f64)

    def widened(*types: Any, **attributes: Any) -> Type:
        found: Type = row.infer(*types, **attributes)
        return found.with_dims((*test_ops.dims(1), *found.dims))

    return [narrowed, widened]


TYPED = [row for row in test_ops.EVERY if row.domain or row.name in SAMPLES]


@pytest.mark.parametrize("row", TYPED, ids=lambda row: row.name)
def test_a_wrong_type_rule_is_noticed(row: Op, plant: Callable[..., Op]) -> None:
    for infer in wrong_types(row):
        wrong = plant(row, infer=infer)
        assert any(notices(lambda case=case, wrong=wrong: test_ops.check_type(wrong, *case))
                   for case in cases(row)), infer.__name__


TRANSPOSED = [(row, k) for row in TABLE.values() for k in row.transpose if row.name in SAMPLES]


@pytest.mark.parametrize(("row", "index"), TRANSPOSED, ids=lambda x: getattr(x, "name", x))
def test_a_wrong_transpose_is_noticed(row: Op, index: int, plant: Callable[..., Op]) -> None:
    right = row.transpose[index]
    wrong = plant(row, transpose={**row.transpose, index: lambda *a, **k: OFF * right(*a, **k)})
    assert any(notices(lambda case=case: test_ops.check_duality(wrong, *case)) for case in cases(row))


@pytest.mark.parametrize("name", [row.name for row in TABLE.values() if row.vjp is not None])
def test_a_wrong_vjp_or_jvp_is_noticed(name: str, plant: Callable[..., Op]) -> None:
    row = TABLE[name]
    assert row.vjp is not None and row.jvp is not None
    vjp, jvp = row.vjp, row.jvp
    wrong = plant(row, vjp=lambda *a, **k: tuple(OFF * x for x in vjp(*a, **k)))
    assert any(notices(lambda case=case: test_ops.check_duality(wrong, *case)) for case in cases(row))
    wrong = plant(row, vjp=vjp, jvp=lambda *a, **k: OFF * jvp(*a, **k))
    assert any(notices(lambda case=case: test_ops.check_jvp(wrong, *case)) for case in cases(row))


def test_a_row_that_is_not_linear_is_noticed(plant: Callable[..., Op]) -> None:
    row = TABLE["cumsum"]
    wrong = plant(row, reference=lambda x, **k: row.reference(x, **k) + 1e-6)                # type: ignore[misc]
    assert notices(lambda: test_ops.check_linearity(wrong, *cases(row)[0]))


def test_wrong_code_is_noticed() -> None:
    for row, code in ((TABLE["maximum"], "{0} if {0} > {1} else {1}"), (TABLE["sign"], "math.copysign(1.0, {0})"),
                      (TABLE["log1p"], "math.log(1.0 + {0})"), (TABLE["logaddexp"], "math.log(math.exp({0}) + math.exp({1}))")):
        wrong = replace(row, code=code)
        module = ModuleType("wrong")
        exec(test_ops.kernel_source([wrong]), module.__dict__)
        assert notices(lambda wrong=wrong, module=module: test_ops.check_code(wrong, module)), row.name


def test_the_checks_are_those_of_the_suite() -> None:
    """Every check that is tried here is called by a test of test_ops."""
    source = inspect.getsource(test_ops)
    for check in ("check_partials", "check_type", "check_duality", "check_jvp", "check_linearity", "check_code",
                  "check_accuracy"):
        assert f"    {check}(row" in source or f"{check}(TABLE[name])" in source
