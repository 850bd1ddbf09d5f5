"""Every rule of the algebra on random and on special numbers: both sides of its line, computed by the interpreter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graphs import WHERE

from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Operand, Size, Value
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.op import TABLE, as_operands, literal_like
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify
from adcompile.optimize.rewrite import EXACT, REASSOCIATES, Any_, Number, Pattern, Rewriter, Rule, Use, index_rules
from adcompile.optimize.rules import ALGEBRA
from adcompile.optimize.slopes import AS_WRITTEN

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e300, -1e300, 1e-200, 0.1, 7.25]
NUMBERS = [2.0, -0.5, 3.0, 0.25, -8.0, 1.0, 0.0, 0.1]
LOGICAL = {"not", "and", "or"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def variable_types(rule: Rule) -> dict[str, DType | None]:
    """The dtype of each variable of a rule, None for one that matches numbers."""
    found: dict[str, DType | None] = {}

    def visit(pattern: Any, dtype: DType) -> None:
        if isinstance(pattern, Any_):
            found[pattern.name] = dtype
        elif isinstance(pattern, Number):
            found[pattern.name] = None
        elif isinstance(pattern, Use):
            for position, part in enumerate(pattern.operands):
                visit(part, operand_dtype(pattern.op, position, dtype, integers))

    integers = "integers" in rule.name
    whole = rule.left.op in LOGICAL | COMPARISONS
    visit(rule.left, DType.bool if whole else DType.i64 if integers else DType.f64)
    return found


def operand_dtype(op: str, position: int, dtype: DType, integers: bool) -> DType:
    if op in LOGICAL or (op == "select" and position == 0):
        return DType.bool
    return dtype if op not in COMPARISONS else DType.i64 if integers else DType.f64


def instance(rule: Rule, numbers: tuple[float, ...]) -> tuple[Function, list[DType]] | None:
    """The left-hand side as a function of arrays, its numbers filled in; None where they do not satisfy the condition."""
    types = variable_types(rule)
    literals = iter(numbers)
    with Builder("f") as b:
        b.location = WHERE
        integers = "integers" in rule.name
        bindings: dict[str, Operand] = {}
        for name, dtype in types.items():
            if dtype is None:
                bindings[name] = literal_like(next(literals), DType.i64 if integers else DType.f64)
            else:
                bindings[name] = b.parameter(name, Type(dtype, (Dim.symbol("n"),)))
        if rule.when is not None and not rule.when(bindings):
            return None
        return b.finish((emit(rule.left, bindings),), {"n": Size(0, 0)}), [d for d in types.values() if d is not None]


def emit(pattern: Any, bindings: dict[str, Operand]) -> Operand:
    """Emit a pattern without simplifying it."""
    if isinstance(pattern, (Any_, Number)):
        return bindings[pattern.name]
    operands = [emit(p, bindings) if isinstance(p, Pattern) else p for p in pattern.operands]
    if pattern.op == "powi":
        operands[1] = Literal(int(operands[1]), DType.i64)
    if pattern.op == "select" and isinstance(operands[0], bool):
        operands[0] = Literal(operands[0], DType.bool)
    result: Operand = TABLE[pattern.op](*as_operands(tuple(operands)))
    return result


def sample(dtypes: list[DType], rng: np.random.Generator) -> list[np.ndarray]:
    """Columns in which every special number meets every other, and random ones of all sizes."""
    random = rng.normal(size=60) * 10.0 ** rng.integers(-8, 8, size=60)
    pool = {DType.f64: np.array([*SPECIAL]), DType.bool: np.array([True, False]), DType.i64: np.array([0, 1, -3, 2**62])}
    columns = [np.array(c) for c in zip(*itertools.product(*[pool[d] for d in dtypes]), strict=True)]
    extra = {DType.f64: lambda: rng.permutation(random), DType.bool: lambda: rng.random(60) < 0.5,
             DType.i64: lambda: rng.integers(-9, 9, size=60)}
    return [np.concatenate([column, extra[d]()]).astype(d.numpy) for column, d in zip(columns, dtypes, strict=True)]


@pytest.mark.parametrize("rule", [*ALGEBRA, *AS_WRITTEN], ids=lambda rule: rule.name)
def test_both_sides_agree(rule: Rule, rng: np.random.Generator) -> None:
    count = sum(1 for dtype in variable_types(rule).values() if dtype is None)
    tried = 0
    for numbers in itertools.product(NUMBERS, repeat=count):
        made = instance(rule, numbers)
        if made is None:
            continue
        function, dtypes = made
        driver = Rewriter(function, index_rules([rule]))
        after = driver.run()
        if not driver.statistics.applied[rule.name]:
            continue
        tried += 1
        verify(after)
        args = sample(dtypes, rng)
        compare(rule, np.asarray(interpret(function, args)[0]), np.asarray(interpret(after, args)[0]), args, numbers)
    assert tried, "the rule never applied to its own left-hand side"


def compare(rule: Rule, before: np.ndarray, after: np.ndarray, args: list[np.ndarray], numbers: tuple[float, ...]) -> None:
    """Equal as the rule's tag says."""
    after = np.broadcast_to(after, before.shape)
    if before.dtype.kind != "f":
        assert np.array_equal(before, after)
        return
    if rule.exactness is REASSOCIATES:
        with np.errstate(all="ignore"):
            ordinary = np.all([np.isfinite(a) & ((np.abs(a) < 1e90) & (np.abs(a) > 1e-90) | (a == 0))
                               for a in args if a.dtype.kind == "f"], axis=0)
            ordinary &= np.isfinite(before)
        assert np.allclose(before[ordinary], after[ordinary], rtol=1e-14, atol=0), (numbers,)
        assert np.array_equal(np.isnan(before[~ordinary]) & ~np.isnan(after[~ordinary]), np.zeros(np.sum(~ordinary), bool)) \
            or rule.name in {"x * (1 / y)", "(c * x) * y", "(x + y) + y", "(x - y) - y"}
        return
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    if rule.exactness is EXACT:
        same &= (np.signbit(before) == np.signbit(after)) | np.isnan(before)
    wrong = np.flatnonzero(~same)
    assert not len(wrong), f"numbers {numbers}: at {[a[wrong[0]] for a in args]}: {before[wrong[0]]} became {after[wrong[0]]}"


@pytest.mark.parametrize("left", ["log(exp(x))", "x - x", "x * 0", "x / x", "sqrt(x * x)"])
def test_tempting_rules_are_not_there(left: str) -> None:
    from adcompile.optimize import simplify
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64, (Dim.symbol("n"),)))
        tempting = {"log(exp(x))": lambda: TABLE["log"](TABLE["exp"](x)), "x - x": lambda: x - x, "x * 0": lambda: x * 0.0,
                    "x / x": lambda: x / x, "sqrt(x * x)": lambda: TABLE["sqrt"](x * x)}
        function = b.finish((tempting[left](),))
    after = simplify(function)
    assert len(after.body.operations) == len(function.body.operations)
    assert isinstance(after.results[0], Value)
