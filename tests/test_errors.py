"""Bad input gets the error a NumPy user expects: what is wrong, the user's file and line, what to do."""

from __future__ import annotations

import numpy as np
import pytest

import adcompile as ad
from adcompile import (
    AdcompileError,
    CaptureError,
    DifferentiationError,
    ShapeError,
    UnsupportedOp,
    compile_grad,
    compile_value,
)


def loss(w, X, y):
    return np.sum((X @ w - y) ** 2)


def vector(x):
    return x * 2.0


def constant(x):
    return 3.0


def nothing(x):
    np.sum(x)


def unknown(x):
    return np.sum(np.searchsorted(x, 0.5))


def sizing(x):
    return np.sum(x * np.ones(int(x[0])))


W, DATA, Y = np.ones(2), np.ones((3, 2)), np.ones(3)


# ---------------------------------------------------------------------------------------------------- arguments
def test_missing_and_extra_arguments():
    f = compile_grad(loss)
    for _ in range(2):                      # before and after the first compilation
        with pytest.raises(TypeError, match=r"loss(.|\n)*missing(.|\n)*'y'"):
            f(W, DATA)
        with pytest.raises(TypeError, match=r"loss(.|\n)*(too many|takes)"):
            f(W, DATA, Y, Y)
        with pytest.raises(TypeError, match="nonsense"):
            f(W, DATA, Y, nonsense=1)
        f(W, DATA, Y)


def test_a_wrong_rank_names_the_line():
    f = compile_grad(loss)
    with pytest.raises(ShapeError, match=r"test_errors.py:\d+, in loss\n    return np.sum\(\(X @ w - y\) \*\* 2\)"):
        f(W, np.ones((3, 4)), Y)
    with pytest.raises((ShapeError, ValueError), match="test_errors.py"):
        f(W, DATA, np.ones((2, 2)))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 2)])
def test_sizes_that_do_not_broadcast(shape):
    with pytest.raises(ShapeError, match="test_errors.py"):
        compile_grad(lambda x, y: np.sum(x + y))(np.ones(3), np.ones(shape)[..., :2])


def test_object_arrays():
    with pytest.raises(CaptureError, match=r"`x` is an array of Python objects(.|\n)*dtype=float"):
        compile_grad(lambda x: np.sum(x))(np.array([1.0, None]))


def test_strings():
    with pytest.raises(AdcompileError):
        compile_grad(lambda x: np.sum(x))(np.array(["a", "b"]))
    with pytest.raises(AdcompileError):
        compile_grad(lambda x: np.sum(x))("text")


@pytest.mark.parametrize("subclass", [np.matrix, lambda x: np.ma.masked_array(x, x > 0.0)])
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_array_subclasses_that_compute_differently(subclass):
    f = compile_grad(lambda x: np.sum(x))
    for _ in range(2):
        f(np.ones((1, 1)))
    with pytest.raises(AdcompileError, match="asarray"):
        f(subclass(np.ones((1, 1))))


def test_integers_have_no_gradient():
    with pytest.raises(DifferentiationError, match=r"no derivative with respect to `x`(.|\n)*astype\(float\)"):
        compile_grad(lambda x: np.sum(x * x))(np.arange(3))
    with pytest.raises(TypeError):
        compile_grad(lambda x: np.sum(x * x))(np.array([True, False]))


def test_integers_are_refused_after_floats_were_taken():
    f = compile_grad(lambda x: np.sum(x * x))
    f(np.ones(3))
    with pytest.raises(DifferentiationError):
        f(np.arange(3))


def test_empty_arrays():
    value, gradient = compile_grad(lambda x: np.sum(x * x))(np.zeros(0))
    assert value == 0.0
    assert gradient.shape == (0,)
    value, gradient = compile_grad(loss)(W, np.zeros((0, 2)), np.zeros(0))
    assert value == 0.0
    assert list(gradient) == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"zero-size|empty"):
        compile_grad(lambda x: np.max(x))(np.zeros(0))


def test_nan_and_infinity_pass():
    value, gradient = compile_grad(lambda x: np.sum(x * x))(np.array([np.nan, np.inf]))
    assert np.isnan(value)
    assert np.isnan(gradient[0])
    assert gradient[1] == np.inf


# ---------------------------------------------------------------------------------------------------- functions
def test_a_function_that_returns_a_vector():
    with pytest.raises(ShapeError, match=r"returns an array(.|\n)*test_errors.py(.|\n)*np.sum"):
        compile_grad(vector)(np.ones(3))


def test_a_function_that_returns_a_constant():
    value, gradient = compile_grad(constant)(np.ones(3))
    assert value == 3.0
    assert list(gradient) == [0.0, 0.0, 0.0]


def test_a_function_that_returns_nothing():
    with pytest.raises(CaptureError, match=r"returns None(.|\n)*test_errors.py"):
        compile_grad(nothing)(np.ones(3))


def test_a_function_that_returns_an_integer():
    with pytest.raises(DifferentiationError, match="int64"):
        compile_grad(lambda x: np.sum(x > 0.0))(np.ones(3))


def test_a_function_that_returns_a_tuple():
    with pytest.raises(DifferentiationError, match="has_aux=True"):
        compile_grad(lambda x: (np.sum(x), 1.0))(np.ones(3))
    with pytest.raises(CaptureError, match=r"\(value, aux\)"):
        compile_grad(lambda x: np.sum(x), has_aux=True)(np.ones(3))


def test_a_function_that_is_not_there_yet():
    with pytest.raises(UnsupportedOp, match=r"searchsorted(.|\n)*test_errors.py:\d+, in unknown(.|\n)*np.searchsorted\(x, 0.5\)"):
        compile_grad(unknown)(np.ones(3))


def test_values_that_are_not_known_yet():
    with pytest.raises((CaptureError, UnsupportedOp), match="test_errors.py:\\d+, in sizing"):
        compile_grad(sizing)(np.ones(3))


def test_the_users_own_error_passes():
    def checked(x):
        if x.ndim != 2:
            raise ValueError("x must be a matrix")
        return np.sum(x)

    with pytest.raises(ValueError, match="x must be a matrix"):
        compile_grad(checked)(np.ones(3))


def test_a_name_that_does_not_exist():
    with pytest.raises(NameError, match="undefined_name"):
        compile_grad(lambda x: np.sum(x) * undefined_name)(np.ones(3))      # noqa: F821


def test_an_index_out_of_range():
    f = compile_value(lambda x, i: x[i])
    assert f(np.arange(3.0), np.array([0, -1])).tolist() == [0.0, 2.0]
    with pytest.raises(IndexError):
        f(np.arange(3.0), np.array([0, 3]))
    with pytest.raises(IndexError):
        f(np.arange(3.0), np.array([-4]))


# ---------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize("wrt", ["v", 3, ("w", "v"), -4])
def test_a_wrt_that_does_not_exist(wrt):
    with pytest.raises(DifferentiationError,
                       match=r"is not an argument of loss\(w, X, y\)(.|\n)*test_errors.py(.|\n)*'w', 'X', 'y'"):
        compile_grad(loss, wrt=wrt)


@pytest.mark.parametrize("wrt", [1.5, None, True, ("w", None)])
def test_a_wrt_of_another_kind(wrt):
    with pytest.raises(DifferentiationError, match="neither an argument's name nor its position"):
        compile_grad(loss, wrt=wrt)


def test_an_empty_wrt():
    with pytest.raises(DifferentiationError, match="wrt is empty"):
        compile_grad(loss, wrt=())


def test_an_option_that_does_not_exist():
    with pytest.raises(TypeError, match="threads"):
        compile_grad(loss, threads=2)


@pytest.mark.parametrize("dtype", [int, np.complex128, "bool"])
def test_a_dtype_that_is_not_real(dtype):
    with pytest.raises(DifferentiationError, match="not a real floating point type"):
        compile_grad(loss, dtype=dtype)


def test_complex_arguments():
    z = np.array([1.0 + 2.0j])
    with pytest.raises(DifferentiationError, match="complex argument `z`"):
        compile_grad(lambda z: np.sum(np.abs(z)))(z)
    with pytest.raises(UnsupportedOp, match="power of complex numbers") as error:
        compile_value(lambda z: np.real(np.sum(z**2)))(z)
    assert "test_errors.py" in str(error.value)


def test_recursion_without_end():
    def halved(x):
        return halved(x * 0.5) if np.sum(x) > 1.0 else np.sum(x)

    with pytest.raises(CaptureError, match="`halved` calls functions without end"):
        compile_grad(halved)(np.ones(3))


def test_things_that_are_no_functions():
    for thing in (3, "text", np.ones(3)):
        with pytest.raises(CaptureError, match="is not a function"):
            compile_grad(thing)
    with pytest.raises(CaptureError, match="args is for SymPy"):
        compile_grad(loss, args=["w"])


def test_a_sympy_expression_without_args():
    sympy = pytest.importorskip("sympy")
    with pytest.raises(CaptureError, match="args"):
        compile_grad(sympy.Symbol("x") ** 2)


def test_errors_are_also_the_builtin_ones():
    for error, builtin in [(CaptureError, TypeError), (ShapeError, ValueError), (UnsupportedOp, NotImplementedError),
                           (DifferentiationError, TypeError), (ad.GuardError, ValueError)]:
        assert issubclass(error, builtin)
        assert issubclass(error, AdcompileError)


def test_an_error_leaves_the_function_usable():
    f = compile_grad(loss)
    with pytest.raises(ShapeError):
        f(W, np.ones((3, 4)), Y)
    assert f(W, DATA, Y)[0] == 3.0
    with pytest.raises(ShapeError):
        f(W, np.ones((3, 4)), Y)
    assert f(W, DATA, Y)[0] == 3.0
