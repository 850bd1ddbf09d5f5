"""The text of generated modules: golden files of canonical functions, and what a module must be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import GRAPHS, graph, ops, total

from adcompile.differentiate.reverse import value_and_grad
from adcompile.emit.emit import emit
from adcompile.ir.builder import Builder
from adcompile.ir.core import Value
from adcompile.ir.dims import Dim
from adcompile.ir.loops import Interface, Program
from adcompile.ir.types import DType
from adcompile.schedule.schedule import schedule

rng = np.random.default_rng(7)


def along(x: Value, dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Any:
    return ops.broadcast(x, dims=dims, axes=axes)


@graph(x=rng.normal(size=6))
def rosenbrock(b: Builder, x: Value) -> Any:
    m = x.type.dims[0] - 1
    high = ops.slice(x, starts=(Dim.of(1),), steps=(1,), dims=(m,))
    low = ops.slice(x, starts=(Dim.of(0),), steps=(1,), dims=(m,))
    t, u = ops.sub(high, low * low, name="t_"), ops.sub(1.0, low, name="u")
    return total(100.0 * (t * t) + u * u)


@graph(w=rng.normal(size=3), X=rng.normal(size=(6, 3)), y=rng.normal(size=6), same={"w_0": "X_1", "y_0": "X_0"})
def least_squares(b: Builder, w: Value, X: Value, y: Value) -> Any:
    r = ops.sub(ops.contract(X, w, a_labels=(0, 1), b_labels=(1,), out_labels=(0,)), y, name="r")
    return total(r * r) + 0.1 * total(w * w)


@graph(X=rng.normal(size=(6, 3)), W=rng.normal(size=(3, 4)), Y=rng.random((6, 4)), wrt=(1,),
       same={"W_0": "X_1", "Y_0": "X_0", "Y_1": "W_1"})
def softmax_cross_entropy(b: Builder, X: Value, W: Value, Y: Value) -> Any:
    z = ops.contract(X, W, a_labels=(0, 1), b_labels=(1, 2), out_labels=(0, 2), name="z")
    top = ops.reduce_max(z, axes=(1,), name="top")
    e = ops.exp(z - along(top, z.type.dims, (0,)), name="e")
    log_sum = ops.add(ops.log(ops.reduce_sum(e, axes=(1,))), top, name="log_sum")
    return total((along(log_sum, z.type.dims, (0,)) - z) * Y)


@graph(c=rng.normal(size=4), mu=rng.normal(size=(4, 3)), Q=rng.normal(size=(4, 3, 3)), x=rng.normal(size=(6, 3)), wrt=(0, 1, 2),
       same={"c_0": "mu_0", "Q_0": "mu_0", "Q_1": "mu_1", "Q_2": "mu_1", "x_1": "mu_1"})
def gaussian_mixture(b: Builder, c: Value, mu: Value, Q: Value, x: Value) -> Any:
    n, d, k = x.type.dims[0], x.type.dims[1], c.type.dims[0]
    diff = ops.sub(along(x, (n, k, d), (0, 2)), along(mu, (n, k, d), (1, 2)), name="diff")
    Qx = ops.contract(Q, diff, a_labels=(1, 2, 3), b_labels=(0, 1, 3), out_labels=(0, 1, 2), name="Qx")
    beta = ops.sub(along(c, (n, k), (1,)), 0.5 * ops.reduce_sum(Qx * Qx, axes=(2,)), name="beta")
    top = ops.reduce_max(beta, axes=(1,), name="top")
    e = ops.exp(beta - along(top, (n, k), (0,)), name="e")
    return total(ops.log(ops.reduce_sum(e, axes=(1,))) + top)


@graph(x=rng.random((7, 3)) * 4)
def lennard_jones(b: Builder, x: Value) -> Any:
    n, c = x.type.dims
    d = ops.sub(along(x, (n, n, c), (0, 2)), along(x, (n, n, c), (1, 2)), name="d")
    r2 = ops.reduce_sum(d * d, axes=(2,), name="r2")
    place = ops.iota(dim=n, dtype=DType.i64)
    same = ops.eq(along(place, (n, n), (0,)), along(place, (n, n), (1,)))
    inv = ops.div(1.0, ops.select(same, 1.0, r2), name="inv")
    i6 = ops.mul(inv * inv, inv, name="i6")
    return 2.0 * total(ops.select(same, 0.0, i6 * i6 - i6))


@graph(W1=rng.normal(size=(3, 5)), b1=rng.normal(size=5), W2=rng.normal(size=(5, 2)), X=rng.normal(size=(6, 3)),
       Y=rng.normal(size=(6, 2)), wrt=(0, 1, 2),
       same={"b1_0": "W1_1", "W2_0": "W1_1", "X_1": "W1_0", "Y_0": "X_0", "Y_1": "W2_1"})
def perceptron(b: Builder, W1: Value, b1: Value, W2: Value, X: Value, Y: Value) -> Any:
    a = ops.contract(X, W1, a_labels=(0, 1), b_labels=(1, 2), out_labels=(0, 2), name="a")
    H = ops.tanh(a + along(b1, a.type.dims, (1,)), name="H")
    r = ops.sub(ops.contract(H, W2, a_labels=(0, 1), b_labels=(1, 2), out_labels=(0, 2)), Y, name="r")
    return total(r * r)


CANONICAL = ("logistic", "least_squares", "rosenbrock", "softmax_cross_entropy", "gaussian_mixture", "lennard_jones",
             "perceptron", "scalars", "gathered", "pieces", "single_precision", "where_sqrt")


def compiled(name: str) -> Program:
    g = GRAPHS[name]()
    function = value_and_grad(g.function, g.wrt)
    return schedule(function, Interface(name, len(g.function.results), g.wrt))


@pytest.mark.parametrize("name", CANONICAL)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    program = compiled(name)
    golden(f"kernels/{name}.loops.txt", str(program))
    golden(f"kernels/{name}.py.txt", emit(program))


@pytest.mark.parametrize("name", CANONICAL)
def test_text_is_the_same_every_time(name: str) -> None:
    assert emit(compiled(name)) == emit(compiled(name))


def test_modules_stand_alone(tmp_path: Path) -> None:
    """A saved module runs where adcompile cannot be imported, with the JIT disabled."""
    (tmp_path / "kernel.py").write_text(emit(compiled("logistic")))
    program = ("import sys; sys.modules['adcompile'] = None; import numpy as np, kernel; "
               "value, g = kernel.logistic(np.ones(3), np.ones((4, 3)), np.ones(4)); print(round(float(value), 6), g.shape)")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={"NUMBA_DISABLE_JIT": "1", "PATH": ""})
    assert done.stdout.split()[0] == "0.194349"


def test_generated_names_do_not_collide() -> None:
    """Parameters called like what the generator would use itself."""
    def body(b: Builder, n: Value, i: Value, value: Value, math: Value) -> Any:
        return total(n * i) + total(ops.exp(value)) + total(math * math)

    g = graph(n=np.ones(3), i=np.ones(3), value=np.ones(2), math=np.ones(2), wrt=(0, 1, 2, 3), same={"i_0": "n_0"})(body)()
    del GRAPHS["body"]
    source = emit(schedule(value_and_grad(g.function, g.wrt), Interface("f", 1, g.wrt)))
    names: dict[str, Any] = {}
    exec(source, names)
    got = names["f"](*g.args)
    np.testing.assert_allclose(got[0], 3 + 2 * np.e + 2)
    np.testing.assert_allclose(got[3], np.full(2, np.e))
    ast.parse(source)
