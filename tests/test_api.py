"""The public objects: every way to make one, everything to look at, options, methods, checking."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest
from conftest import assert_close

import adcompile as ad
from adcompile import CaptureError, UnsupportedOp, compile_grad, compile_value
from adcompile.runtime.debug import NonFiniteError


def square(x, scale=1.0):
    """A scaled sum of squares."""
    return scale * np.sum(x * x)


X = np.array([1.0, 2.0])
WANTED = (5.0, np.array([2.0, 4.0]))


class CallableObject:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return self.scale * np.sum(x * x)


@pytest.mark.parametrize("make", [
    lambda: compile_grad(square),
    lambda: compile_grad()(square),
    lambda: compile_grad(wrt="x")(square),
    lambda: compile_grad(square, wrt=0),
    lambda: compile_grad(lambda x: np.sum(x * x)),
    lambda: compile_grad(functools.partial(square, scale=1.0)),
    lambda: compile_grad(numba.njit(square)),
    lambda: compile_grad(CallableObject(1.0)),
    lambda: compile_grad(CallableObject(1.0).__call__),
    lambda: compile_grad(compile_grad(square)),
], ids=["function", "empty call", "options", "position", "lambda", "partial", "njit", "object", "bound method", "compiled"])
def test_everything_that_can_be_compiled(make):
    f = make()
    for _ in range(2):
        assert_close(f(X), WANTED)


def test_the_object_looks_like_the_function():
    f = compile_grad(square)
    assert f.__name__ == "square"
    assert f.__doc__ == "A scaled sum of squares."
    assert f.__wrapped__ is square
    assert "square(x, scale=1.0)" in repr(f)
    assert isinstance(f, ad.CompiledGrad)


def test_value_and_grad_alone():
    f = compile_grad(square)
    assert f.value(X) == 5.0
    assert f.value(X, scale=2.0) == 10.0
    assert_close(f.grad(X), WANTED[1])
    assert_close(f.grad(X, out=np.zeros(2)), WANTED[1])
    assert f.value is f.value


def test_several_wrt_give_a_tuple():
    f = compile_grad(square, wrt=("scale", "x"))
    value, (scale, x) = f(X, 3.0)
    assert_close((value, scale, x), (15.0, 5.0, 6.0 * X))
    (one,) = compile_grad(square, wrt=("x",))(X)[1]
    assert_close(one, WANTED[1])
    assert_close(compile_grad(square, wrt=["x", 1])(X, 3.0)[1], (6.0 * X, 5.0))


def test_compile_value_of_a_tree():
    f = compile_value(lambda x: {"sum": np.sum(x), "parts": (x + 1.0, [x * 2.0])})
    for _ in range(2):
        assert_close(f(X), {"sum": 3.0, "parts": (X + 1.0, [X * 2.0])})


def test_compile_value_returns_fresh_arrays():
    f = compile_value(lambda x: (x, x[::-1]))
    x = X.copy()
    a, b = f(x)
    a[0] = b[0] = 9.0
    assert_close(x, X)


# ---------------------------------------------------------------------------------------------------- methods
class Model:
    """Has a compiled method, and a parameter that it reads."""

    def __init__(self, strength: float) -> None:
        self.strength = strength
        self.center = np.zeros(2)

    @compile_grad
    def loss(self, x):
        return self.strength * np.sum((x - self.center) ** 2)

    @compile_grad(wrt="b")
    def product(self, a, b):
        return self.strength * np.sum(a * b)


def test_compiled_methods_serve_all_objects():
    a, b = Model(1.0), Model(2.0)
    for _ in range(2):
        assert_close(a.loss(X), WANTED)
        assert_close(b.loss(X), (10.0, np.array([4.0, 8.0])))
    assert len(Model.loss.specialisations) == 1
    a.strength = 3.0
    a.center = X.copy()
    assert_close(a.loss(X), (0.0, np.zeros(2)))
    a.center[...] = 0.0
    assert_close(a.loss(np.ones(2))[0], 6.0)
    assert_close(Model.loss(b, X)[0], 10.0)


def test_compiled_methods_with_options_and_views():
    m = Model(2.0)
    assert_close(m.product(X, X), (10.0, 2.0 * X))
    assert_close(m.product.grad(X, X), 2.0 * X)
    assert_close(m.product.value(X, X), 10.0)
    assert "def product" in m.product.source


# ---------------------------------------------------------------------------------------------------- looking inside
def test_the_stages():
    f = compile_grad(square)
    f(X)
    assert "def square" in f.source
    assert "x_bar" in f.ir
    assert list(f.ir_stages) == ["capture", "autodiff", "passes"]
    assert "x_bar" not in f.ir_stages["capture"]
    assert "for " in f.loop_ir
    assert isinstance(f.guards, tuple)
    assert len(f.specialisations) == 1
    assert "square(x: f64[" in repr(f.specialisations[0])
    assert set(f.compiled.seconds) >= {"reverse", "schedule", "emit", "compile"}
    with pytest.raises(KeyError, match="capture, autodiff"):
        f.compiled.stage("nothing")


def test_guards_are_in_the_users_words():
    f = compile_grad(lambda w, X, y: np.sum((X @ w - y) ** 2))
    f(np.ones(2), np.ones((3, 2)), np.ones(3))
    text = " and ".join(f.guards)
    assert "shape[" in text
    assert "X_0" not in text


def test_before_the_first_call_there_is_nothing_to_see():
    with pytest.raises(CaptureError, match=r"square has not been called yet(.|\n)*test_api.py"):
        _ = compile_grad(square).source


def test_saved_source_runs_without_adcompile(tmp_path):
    f = compile_grad(square)
    value, gradient = f(X, 2.0)
    path = f.source.save(tmp_path / "kernel.py")
    program = ("import sys\nsys.modules['adcompile'] = None\nimport numpy as np\nfrom kernel import square\n"
               "value, gradient = square(np.array([1.0, 2.0]), 2.0)\nassert value == 10.0 and list(gradient) == [4.0, 8.0]\n")
    for disabled in ("0", "1"):
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={"NUMBA_DISABLE_JIT": disabled, "PATH": ""})
        assert done.returncode == 0, done.stderr
    specification = importlib.util.spec_from_file_location("kernel", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert_close(module.square(X, 2.0), (value, gradient))


def test_a_name_of_ones_own():
    f = compile_grad(lambda x: np.sum(x), name="total")
    f(X)
    assert "def total" in f.source


def test_with_the_jit_disabled():
    program = ("import numpy as np\nfrom adcompile import compile_grad\nf = compile_grad(lambda x: np.sum(x * x))\n"
               "for _ in range(2):\n    value, g = f(np.array([1.0, 2.0]))\n    assert value == 5.0 and list(g) == [2.0, 4.0]\n"
               "f(np.ones(2, np.float32))\nassert len(f.specialisations) == 2")
    import os
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------------------------- options
def test_debug_stops_at_the_first_nan_and_names_the_line():
    def risky(x):
        a = x - 2.0
        b = np.log(a)
        return np.sum(b * 2.0)

    f = compile_grad(risky, debug=True)
    assert_close(f(np.array([3.0, 4.0])), (np.log(2.0) * 2.0, np.array([2.0, 1.0])))
    with pytest.raises(NonFiniteError, match=r"log made the first NaN(.|\n)*test_api.py(.|\n)*b = np.log\(a\)"):
        f(np.array([1.0, 3.0]))
    assert np.isnan(compile_grad(risky)(np.array([1.0, 3.0]))[0])


def test_debug_with_out():
    f = compile_grad(square, debug=True)
    out = np.zeros(2)
    assert f(X, out=out)[0] == 5.0
    assert_close(out, WANTED[1])


@pytest.mark.parametrize("options", [{"parallel": 0}, {"parallel": "yes"}, {"checkpoint": "auto"}, {"checkpoint": 0}])
def test_options_that_would_do_nothing_are_refused(options):
    with pytest.raises(UnsupportedOp, match="is neither"):
        compile_grad(square, **options)


@pytest.mark.parametrize("options", [{"parallel": "auto"}, {"parallel": False}, {"parallel": True}, {"parallel": 4},
                                     {"checkpoint": None}, {"checkpoint": True}, {"checkpoint": False}, {"checkpoint": 10},
                                     {"fastmath": False}, {"cache": False}])
def test_options_that_are_taken(options):
    assert_close(compile_grad(square, **options)(X), WANTED)


def test_marks():
    f = compile_grad(lambda x: np.sum(x * ad.stop_gradient(x)))
    assert_close(f(X), (5.0, X))

    def half(x):
        with ad.no_grad():
            scale = np.sum(x)
        return scale * np.sum(x)

    assert_close(compile_grad(half)(X), (9.0, np.array([3.0, 3.0])))
    assert ad.detach is ad.stop_gradient


# ---------------------------------------------------------------------------------------------------- check_grad
def test_check_grad_agrees():
    check = ad.check_grad(lambda w, X: np.sum(np.tanh(X @ w)), np.array([0.1, -0.2]), np.ones((3, 2)))
    assert check
    assert len(check.entries) == 2
    assert "complex step" in str(check)


def test_check_grad_says_which_entry_differs():
    f = compile_grad(lambda x: np.sum(ad.stop_gradient(x[:1]) * x[:1]) + np.sum(x[1:]))
    check = ad.check_grad(f, np.array([3.0, 1.0]))
    assert not check
    assert check.worst.where == "x[0]"
    assert "x[0]: gradient 3" in str(check)
    assert "1 of 2 entries differ" in str(check)


def test_check_grad_of_trees_and_functions_that_take_no_complex_numbers():
    @dataclass
    class Params:
        w: Any
        b: Any

    f = compile_grad(lambda p, x: np.sum(np.maximum(p.w * x, 0.0)) + p.b[0] * np.sum(x))
    check = ad.check_grad(f, Params(2.0, (1.0, 2.0)), np.array([1.0, -2.0]))
    assert check
    assert [e.where for e in check.entries] == ["p.w", "p.b[0]", "p.b[1]"]


# ---------------------------------------------------------------------------------------------------- SymPy
def test_sympy_expressions():
    sympy = pytest.importorskip("sympy")
    x, y, a = sympy.symbols("x y a")
    f = compile_grad(sympy.sin(x) * a + y**2, wrt=[x, y], args=[x, y, a])
    value, gradient = f(0.5, 2.0, 3.0)
    assert_close((value, gradient), (3.0 * np.sin(0.5) + 4.0, (3.0 * np.cos(0.5), 4.0)))


def test_sympy_is_imported_only_when_needed():
    program = ("import sys\nimport numpy as np\nfrom adcompile import compile_grad\n"
               "compile_grad(lambda x: np.sum(x * x))(np.ones(2))\n"
               "assert 'sympy' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_call_with_array_gradients_compiles_the_kernel_alone():
    def loss(w, b):
        return np.sum(w ** 2) + b

    arrays = compile_grad(loss, wrt="w")
    assert arrays(np.ones(3), 1.0)[0] == 4.0
    assert "entry" not in vars(arrays.latest.module)
    assert arrays.latest.module.entry(np.ones(3), 1.0)[0] == 4.0
    numbers = compile_grad(loss, wrt=("w", "b"))
    assert numbers(np.ones(3), 1.0)[1][1] == 1.0
    assert "kernel" not in vars(numbers.latest.module)


def test_a_gradient_that_is_returned_is_new_at_every_call():
    f = compile_grad(lambda w: np.sum(w ** 2))
    w = np.ones((2, 3))
    gradients = [f(w)[1] for _ in range(3)]
    assert not any(np.may_share_memory(gradients[0], g) for g in (w, *gradients[1:]))
    assert all(g.shape == (2, 3) and g.flags.owndata for g in gradients)
