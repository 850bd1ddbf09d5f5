"""`compile="lazy"`: scalar programs on the tape machine, what it refuses, and the kernel that takes over."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import assert_close

import adcompile as ad
from adcompile import UnsupportedOp, compile_grad, compile_value
from adcompile.capture.driver import capture
from adcompile.emit.tape import NoTape, instructions, machine_source, tape_of
from adcompile.ir.builder import Builder
from adcompile.ir.core import Literal
from adcompile.ir.interpreter import interpret
from adcompile.ir.op import TABLE
from adcompile.ir.types import DType, Type
from adcompile.runtime.compile import CompiledModule
from adcompile.runtime.tape import TapeModule

sp = pytest.importorskip("sympy")
x, y, a, b = sp.symbols("x y a b")
p = sp.symbols("p0:3")


def machine(tape: Any) -> TapeModule:
    """A tape, ready to run."""
    return TapeModule(tape, 0, cache=True)


@pytest.mark.parametrize("op", list(instructions()))
def test_every_instruction_is_its_op(op: str) -> None:
    """On the domain and the edges of its row, also with NaN."""
    row = TABLE[op]
    logic = {"select": 1, "and": 2, "or": 2, "not": 1, "xor": 2}.get(op, 0)
    whole = {"powi": 1, "polygamma": 1}.get(op)
    rng = np.random.default_rng(3)
    count = len(row.domain) or {"select": 3, "not": 1}.get(op, 2)
    rows = [tuple(low + (high - low) * rng.uniform() for low, high in row.domain or ((-1.0, 1.0),) * count) for _ in range(3)]
    rows += [e if isinstance(e, tuple) else (e,) for e in row.edges]
    for values in rows:
        values = tuple(bool(v > 0) if k < logic else round(v) if k == whole else float(v) for k, v in enumerate(values))
        with Builder("f") as builder:
            kinds = [DType.bool if k < logic else DType.f64 for k in range(count)]
            operands: list[Any] = [builder.parameter(f"v{k}", Type(kind)) for k, kind in enumerate(kinds) if k != whole]
            if whole is not None:
                operands.insert(whole, Literal(values[whole], DType.i64))
            function = builder.finish((row(*operands),))
        given = tuple(v for k, v in enumerate(values) if k != whole)
        floats = tuple(float(v) for v in given)
        module = machine(tape_of(function))
        assert_close(module.entry(*floats), interpret(function, given), rtol=1e-12)


def test_the_machine_is_one_for_all() -> None:
    assert machine_source() is machine_source()
    assert all(f"code == {k}:" in machine_source() for k in instructions().values())
    compile(machine_source(), "machine", "exec")


EXPRESSIONS = [
    sp.exp(-a * x**2) * sp.sin(x * y) + p[0] * p[2]**3 / (1 + p[1]**2),
    sp.Piecewise((sp.log(x) * y, x > 1), (y**2 + p[1], True)) + sp.Max(x, y, p[0]) + sp.Abs(a - 3),
    sp.loggamma(x) * sp.erf(y) + sp.sqrt(p[0]) * sp.atan2(a, p[2]) + sp.Piecewise((x, (x > 0) & ~(y > 5)), (a, True)),
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=["smooth", "choices", "functions"])
def test_lazy_is_the_same(expr: Any) -> None:
    arguments = {"wrt": [x, y, p], "args": [x, y, a, p]}
    lazy, now = compile_grad(expr, **arguments, compile="lazy"), compile_grad(expr, **arguments, debug=True)
    point = (1.3, 0.7, 0.4, np.array([0.5, 1.1, 2.0]))
    found = lazy(*point)
    assert isinstance(lazy.latest.module, TapeModule)
    assert_close(found, now(*point), rtol=1e-12)
    assert type(found[0]) is float
    out = (np.empty(()), np.empty(()), np.empty(3))
    lazy(*point, out=out)
    assert_close(out, found[1])
    assert_close(lazy(1, np.float32(0.5), 2, np.ones(3)), lazy(1.0, 0.5, 2.0, np.ones(3)))
    assert_close(lazy.value(*point), found[0])
    assert isinstance(lazy.value.latest.module, TapeModule)
    assert ad.check_grad(lazy, *point)


def test_the_kernel_takes_over() -> None:
    f = compile_grad(EXPRESSIONS[0], wrt=p, args=[p, x, y, a], compile="lazy", name="wave", cache=False)
    point = (np.array([0.5, 1.1, 2.0]), 1.3, 0.7, 0.4)
    before, calling = f(*point), f.latest
    assert "def wave" in f.source                                       # made to be looked at, not run
    assert f.latest is calling
    assert f.compile() is f
    assert isinstance(f.latest.module, CompiledModule)
    assert_close(f(*point), before, rtol=1e-12)
    assert len(f.specialisations) == 1


def test_matrices_and_truths() -> None:
    f = compile_value([sp.Matrix([[x, y], [1, x * y]]), x > y, sp.true, 2], args=[x, y], compile="lazy")
    assert_close(f(2.0, 3.0), [np.array([[2.0, 3.0], [1.0, 6.0]]), False, True, 2.0])
    assert math.isnan(compile_value(sp.Piecewise((1, x > 0)), args=[x], compile="lazy")(-1.0))


def test_small_arrays_are_scalars_too() -> None:
    f = compile_grad(lambda v: np.sum(np.sin(v[1:]) * v[:-1]) + v[0] * v[2], compile="lazy")
    captured = capture(f.function, (np.ones(3),), wrt=0)
    with pytest.raises(NoTape):                                         # of any length
        tape_of(captured.function)
    assert isinstance(f(np.ones(3)), tuple)
    assert isinstance(f.latest.module, CompiledModule)


def test_the_option_is_checked() -> None:
    with pytest.raises(UnsupportedOp, match="now"):
        compile_grad(x, wrt=x, args=[x], compile="later")
