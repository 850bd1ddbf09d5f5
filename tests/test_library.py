"""Every function of the library, in its call forms, against NumPy, SciPy and Python themselves.

A case calls the library on symbolic parameters and runs the graph in the interpreter: value, dtype and shape must be those
of the function itself. The same graph is then run on arguments of other lengths: either its guards refuse them, or it is
right for them too.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from scipy import special

from adcompile.differentiate.reverse import value_and_grad
from adcompile.errors import AdcompileError, GuardError, ShapeError, UnsupportedOp
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Location, Size, Value
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.rebuild import resolve_sizes
from adcompile.ir.types import DType, Type, dtype_of
from adcompile.ir.verifier import verify
from adcompile.library import LIBRARY

rng = np.random.default_rng(11)
WHERE = Location("model.py", 3, "f")


@dataclass(frozen=True)
class N:
    """A traced integer argument."""

    value: int


@dataclass(frozen=True)
class T:
    """A traced number, as a NumPy scalar."""

    value: Any


@dataclass(frozen=True)
class K:
    """An argument that is known while the function is captured."""

    value: Any


@dataclass
class Traced:
    """The graph of one call."""

    builder: Builder
    arguments: list[Any] = field(default_factory=list)
    origins: dict[str, Size] = field(default_factory=dict)

    def parameter(self, x: Any) -> Any:
        """An argument as the library sees it; arrays and traced numbers become parameters."""
        if isinstance(x, K):
            return x.value
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.parameter, x))
        if isinstance(x, dict):
            return {k: self.parameter(v) for k, v in x.items()}
        if isinstance(x, slice):
            return slice(*map(self.parameter, (x.start, x.stop, x.step)))
        if not isinstance(x, (np.ndarray, N, T)):
            return x
        position = len(self.arguments)
        array = np.asarray(x if isinstance(x, np.ndarray) else x.value)
        self.arguments.append(x)
        dims = tuple(self.builder.sizes.symbol(f"p{position}_{k}", n) for k, n in enumerate(array.shape))
        self.origins.update({f"p{position}_{k}": Size(position, k) for k in range(array.ndim)})
        dtype = dtype_of(array.dtype)
        assert dtype is not None
        value = self.builder.parameter(f"p{position}", Type(dtype, dims))
        if not isinstance(x, N):
            return value
        self.origins[value.name] = Size(position, None)
        return self.builder.sizes.symbol(value.name, x.value, integer=True)

    def finish(self, results: list[Any]) -> Function:
        """The verified function."""
        operands = tuple(r if isinstance(r, (Value, Literal)) else
                         self.builder.emit("size", (), {"dim": Dim.of(r)}) if isinstance(r, Dim) else Literal(r, DType.i64)
                         for r in results)
        function = resolve_sizes(self.builder.finish(operands, self.origins), self.builder.sizes)
        verify(function)
        return function


def plain(x: Any) -> Any:
    """The argument that NumPy gets."""
    if isinstance(x, (K, N)):
        return x.value
    if isinstance(x, T):
        return np.asarray(x.value)[()]
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return slice(*map(plain, (x.start, x.stop, x.step))) if isinstance(x, slice) else x


def flat(x: Any) -> list[Any]:
    """The leaves of nested tuples and lists."""
    return [leaf for a in x for leaf in flat(a)] if isinstance(x, (list, tuple)) else [x]


@dataclass(frozen=True)
class Case:
    """A call of a function."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def __str__(self) -> str:
        name = name_of(self.function)
        inside = [describe(a) for a in self.args] + [f"{k}={describe(v)}" for k, v in self.keywords.items()]
        return f"{name}({','.join(inside)})"


def name_of(function: Callable[..., Any]) -> str:
    """A function's name with its module."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', function)}"


def describe(x: Any) -> str:
    """An argument in a test's name."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype.char}{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return "(" + ",".join(map(describe, x)) + ")"
    return describe(x.value) if isinstance(x, (K, N, T)) else str(x).replace(" ", "")


CASES: list[Case] = []


def case(function: Callable[..., Any], *args: Any, **keywords: Any) -> None:
    """Declares a case."""
    CASES.append(Case(function, args, keywords))


# one axis, two, three; other lengths; positive; with NaN; integers; booleans
X = rng.normal(size=5)
Y = rng.normal(size=5)
A = rng.normal(size=(4, 3))
B = rng.normal(size=(3, 5))
S = rng.normal(size=(4, 4))
C = rng.normal(size=(2, 4, 3))
V3 = rng.normal(size=3)
P = rng.uniform(0.2, 0.8, size=5)
NAN = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [2.0, 5.0, -1.0]])
NAN2 = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, -1.0]])
I5 = np.array([3, -2, 0, 5, 3])
B5 = np.array([True, False, True, True, False])
F5 = X.astype(np.float32)
EMPTY = np.zeros((0, 3))
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5])

# ---------------------------------------------------------------------------------------------------- ufuncs
for function in (np.sqrt, np.cbrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan,
                 np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arctanh, np.rint, np.negative,
                 np.positive, np.absolute, np.fabs, np.sign, np.floor, np.ceil, np.trunc, np.square, np.reciprocal, np.deg2rad,
                 np.radians, np.rad2deg, np.degrees, np.isnan, np.isinf, np.isfinite, np.signbit, np.conjugate):
    case(function, P)
    case(function, P.astype(np.float32))
    case(function, T(0.5))
for function in (np.exp, np.sin, np.floor, np.absolute, np.negative, np.square, np.isnan, np.isfinite, np.sign, np.signbit,
                 np.rint):
    case(function, I5)
for function in (np.isnan, np.isinf, np.isfinite, np.signbit, np.absolute, np.sign, np.floor, np.isneginf, np.isposinf,
                 np.logical_not, np.nan_to_num):
    case(function, ODD)
case(np.arccosh, P + 1.0)
case(np.invert, B5)
case(np.invert, I5)
case(np.fix, X)
case(np.exp, X, dtype=np.float32)
BINARY = (np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.fmod, np.maximum, np.minimum,
          np.fmax, np.fmin, np.arctan2, np.hypot, np.logaddexp, np.logaddexp2, np.copysign, np.heaviside, np.less, np.less_equal,
          np.greater, np.greater_equal, np.equal, np.not_equal, np.logical_and, np.logical_or, np.logical_xor)
for function in BINARY:
    case(function, X, Y)
    case(function, A, V3)
    case(function, A[:, :1], V3)
    case(function, F5, 0.5)
    case(function, 2, X)
    case(function, X, T(1.5))
    case(function, F5, T(np.float64(1.5)))
    case(function, I5, N(2))
case(np.fmax, ODD, 0.0)
case(np.fmin, NAN, 2.0)
case(np.heaviside, ODD, 0.5)
case(np.bitwise_and, B5, X > 0)
case(np.bitwise_or, B5, X > 0)
case(np.bitwise_xor, B5, True)
case(np.add, B5, B5)
case(np.multiply, B5, X > 0)
case(np.add, B5, 1)
case(np.add, X, K(I5))
case(np.add, C, K(A))
for exponent in (2, 3, 0, 1, -1, 2.0, 0.5, -0.5, 1.7, 100, N(3), T(2.5), T(3), Y):
    case(np.power, P, exponent)
    case(operator.pow, T(0.3), exponent)
for exponent in (2, 3, -2, 2.0, I5 % 4):
    case(np.power, P - 1.5, exponent)
case(np.power, F5, 2)
case(np.power, F5, I5)
case(np.power, 2.0, X)
case(np.power, 2, N(5))
case(np.power, I5, 3)
case(np.power, I5, 0.5 + P)
case(np.float_power, I5, 2)
case(np.float_power, P, Y)
case(np.clip, X, -0.5, 0.5)
case(np.clip, X, None, 0.5)
case(np.clip, X, Y, T(0.9))
case(np.clip, X, a_min=0.0, a_max=1.0)
case(np.clip, I5, min=0, max=N(2))
case(np.nan_to_num, ODD, nan=7.0, posinf=1.0, neginf=-1.0)
case(np.nan_to_num, I5)
case(np.where, X > 0, X, Y)
case(np.where, X > 0, X, 0)
case(np.where, B5, 1, 0.0)
case(np.where, A > 0, V3, T(1.0))
case(np.where, K(np.array([True, False, True])), A, 0.0)
case(np.select, [X > 0, X < -0.5], [X, Y], 3.0)
case(np.sinc, np.array([0.0, 1e-9, 1e-3, 0.1, 0.159, 0.16, 0.5, 1.0, 3.7, -2.2]))
case(np.sinc, I5)
case(np.divmod, X, 0.3)
case(builtins.divmod, X, 0.3)
case(np.modf, X)
case(np.ldexp, X, 3)
case(np.ldexp, X, I5)
for function in (np.round, np.around):
    case(function, 10 * X)
    case(function, X, 2)
    case(function, 1000 * X, -2)
    case(function, I5)
case(np.isclose, X, X + 1e-9)
case(np.isclose, ODD, ODD, equal_nan=True)
case(np.allclose, X, X)
case(np.array_equal, X, Y)
case(np.array_equal, ODD, ODD, equal_nan=True)
case(np.real, X)
case(np.imag, X)
case(np.real_if_close, X)
case(np.angle, X)
case(np.angle, X, deg=True)

# ---------------------------------------------------------------------------------------------------- reductions
for function in (np.sum, np.mean, np.prod, np.max, np.amax, np.min, np.amin, np.var, np.std, np.any, np.all, np.ptp):
    case(function, A)
    case(function, C, axis=1)
    case(function, C, axis=(0, -1))
    case(function, C, axis=-1, keepdims=True)
    case(function, C, axis=None, keepdims=True)
    case(function, F5)
    case(function, T(0.3))
    if function is not np.ptp:
        case(function, B5)
    case(function, I5)
for function in (np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all):
    case(function, A, where=A > 0.0)
    case(function, A, axis=1, where=K(np.array([True, False, True])))
case(np.max, A, axis=0, initial=0.5, where=A > 0.0)
case(np.min, A, axis=0, initial=0.5)
case(np.max, EMPTY, initial=2.0)
case(np.sum, A, axis=0, initial=2.0)
case(np.prod, A, axis=0, initial=2.0)
case(np.sum, F5, dtype=np.float64)
case(np.sum, I5, dtype=float)
case(np.sum, EMPTY, axis=0)
case(np.prod, EMPTY, axis=0)
case(np.mean, EMPTY, axis=0)
case(np.sum, A, axis=())
case(np.sum, [X, Y], axis=0)
case(np.sum, K(np.eye(3)), 1)
for function in (np.var, np.std):
    case(function, A, axis=0, ddof=1)
    case(function, A, axis=1, ddof=1.5)
    case(function, A, axis=0, correction=1)
    case(function, X[:1], ddof=1)
    case(function, A, mean=V3, axis=0)
case(np.average, A)
case(np.average, A, axis=0)
case(np.average, A, axis=1, weights=np.abs(V3))
case(np.average, A, weights=np.abs(A))
case(np.average, A, axis=1, weights=np.abs(V3), returned=True)
case(np.average, A, axis=1, returned=True)
case(np.count_nonzero, I5)
case(np.count_nonzero, A > 0, axis=1)
for function in (np.argmax, np.argmin):
    case(function, A)
    case(function, A, axis=0)
    case(function, A, axis=-1, keepdims=True)
    case(function, A, keepdims=True)
for function in (np.cumsum, np.cumprod):
    case(function, A)
    case(function, A, axis=0)
    case(function, C, axis=-2)
    case(function, I5)
    case(function, I5, dtype=float)
for function in (np.nansum, np.nanprod, np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd):
    case(function, NAN)
    case(function, NAN2, axis=0)
    case(function, NAN, axis=1)
    case(function, NAN2, axis=1, keepdims=True)
    case(function, F5)
for function in (np.nancumsum, np.nancumprod):
    case(function, NAN, axis=1)
    case(function, NAN)
case(np.nanvar, NAN2, axis=1, ddof=1)
case(np.cov, A)
case(np.cov, A, rowvar=False)
case(np.cov, X, Y)
case(np.cov, X)
case(np.cov, A, bias=True)
case(np.cov, A, ddof=0)
case(np.corrcoef, A)
case(np.corrcoef, X, Y)
for order in (None, 1, 2, 3, 0, np.inf, -np.inf, 2.5, -1):
    case(np.linalg.norm, X, order)
    case(np.linalg.norm, A, order, axis=1)
    case(np.linalg.norm, C, ord=order, axis=0, keepdims=True)
    case(np.linalg.vector_norm, A, ord=2 if order is None else order)
for order in (None, "fro", 1, -1, np.inf, -np.inf):
    case(np.linalg.norm, A, order)
    case(np.linalg.norm, C, order, (2, 0))
    case(np.linalg.norm, C, order, (0, 1), True)
    case(np.linalg.matrix_norm, C, ord=order or "fro")
case(np.linalg.norm, C)
case(np.linalg.norm, I5)
case(np.linalg.vector_norm, C, axis=1)

# ---------------------------------------------------------------------------------------------------- shapes
case(np.reshape, C, (4, 6))
case(np.reshape, C, (-1, 3))
case(np.reshape, C, -1)
case(np.reshape, C, (6, -1), order="F")
case(np.reshape, X, (5, 1))
case(np.reshape, T(2.0), (1, 1))
case(np.reshape, X, (N(5), 1))
for function in (np.ravel,):
    case(function, C)
    case(function, A, order="F")
    case(function, T(1.0))
case(np.transpose, C)
case(np.transpose, C, (1, 0, 2))
case(np.permute_dims, C, (2, 0, -2))
case(np.matrix_transpose, C)
case(np.swapaxes, C, 0, -1)
case(np.moveaxis, C, 0, -1)
case(np.moveaxis, C, (0, 1), (-1, 0))
case(np.rollaxis, C, 2)
case(np.rollaxis, C, 0, 3)
case(np.expand_dims, A, 1)
case(np.expand_dims, A, (0, -1))
case(np.squeeze, A[:, :1])
case(np.squeeze, A[None, :, :1], axis=0)
for function in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
    for x in (T(1.0), X, A, C):
        case(function, x)
    case(function, X, A)
case(np.broadcast_to, V3, (4, 3))
case(np.broadcast_to, A[:, :1], (2, 4, N(3)))
case(np.broadcast_arrays, A, V3, 1.0)
case(np.astype, X, np.float32)
case(np.astype, X, bool)
case(np.shape, C)
case(np.ndim, C)
case(np.size, C)
case(np.size, C, 1)
for function in (np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.stack):
    case(function, [X, Y])
    case(function, (A, A))
    case(function, [F5, I5])
case(np.concatenate, [A, B.T], 0)
case(np.concatenate, [A, S], axis=-1)
case(np.concatenate, [A, X], axis=None)
case(np.concatenate, A)
case(np.stack, [X, Y], axis=-1)
case(np.stack, [T(1.0), T(2.0), 3.0])
case(np.stack, [A, A], 1)
case(np.hstack, [A, S])
case(np.append, F5, 1.0)
case(np.dot, F5, 2.0)
case(np.add, A.ravel(), A.reshape(12))
case(np.column_stack, [S[:, 0], A])
case(np.vstack, [V3, A])
case(np.append, X, 1.0)
case(np.append, A, B.T, axis=0)
case(np.block, [[A, S], [A, S]])
case(np.block, [X, T(1.0)])
case(np.split, rng.normal(size=6), 3)
case(np.split, A, [1, 3])
case(np.split, A, [1], axis=1)
case(np.array_split, X, 3)
case(np.array_split, A, 2, axis=1)
case(np.hsplit, A, 3)
case(np.hsplit, X, [2])
case(np.vsplit, A, 2)
case(np.dsplit, C, [1])
case(np.unstack, A)
case(np.unstack, A, axis=1)
case(np.tile, X, 3)
case(np.tile, A, (2, 1, 2))
case(np.tile, A, 2)
case(np.tile, T(1.0), (2, 3))
case(np.tile, X, (N(2), 1))
case(np.repeat, X, 3)
case(np.repeat, A, 2, axis=1)
case(np.repeat, A, 2)
case(np.repeat, A, [1, 0, 2, 1], axis=0)
case(np.flip, A)
case(np.flip, C, (0, -1))
case(np.flipud, A)
case(np.fliplr, A)
for shift in (1, -2, 0, 7, N(2)):
    case(np.roll, X, shift)
    case(np.roll, A, shift, axis=1)
case(np.roll, A, (1, 2), axis=(0, 1))
for k in range(4):
    case(np.rot90, A, k)
case(np.rot90, C, 1, (1, 2))
case(np.pad, X, 2)
case(np.pad, A, ((1, 0), (2, 3)))
case(np.pad, A, (1, 2), constant_values=(3.0, T(4.0)))
for mode in ("edge", "reflect", "symmetric", "wrap"):
    case(np.pad, X, (2, 3), mode=mode)
    case(np.pad, A, ((1, 2), (2, 1)), mode=mode)
for function in (np.tril, np.triu):
    case(function, S)
    case(function, C, 1)
    case(function, A, -1)
    case(function, X)
case(np.diagonal, S)
case(np.diagonal, A, 1)
case(np.diagonal, A, -2)
case(np.diagonal, C, 0, 2, 1)
case(np.linalg.diagonal, S)
case(np.trace, S)
case(np.trace, A, 1)
case(np.trace, C, axis1=1, axis2=2)
for k in (0, 1, -2):
    case(np.diag, X, k)
    case(np.diag, A, k)
    case(np.diagflat, A, k)
case(np.diff, X)
case(np.diff, A, axis=0)
case(np.diff, A, 2)
case(np.diff, X, prepend=0.0, append=Y)
case(np.ediff1d, X)
case(np.ediff1d, X, to_end=[1.0, 2.0], to_begin=0.0)
case(np.trapezoid, X)
case(np.trapezoid, A, V3)
case(np.trapezoid, A, dx=0.5, axis=0)
case(np.trapezoid, A, A * 2, axis=0)
case(np.gradient, X)
case(np.gradient, X, 0.5)
case(np.gradient, A)
case(np.gradient, A, axis=0)
case(np.gradient, X, np.cumsum(P))

# ---------------------------------------------------------------------------------------------------- creation
for function in (np.zeros, np.ones):
    case(function, N(3))
    case(function, (2, N(3)), dtype=int)
for function in (np.zeros_like, np.ones_like):
    case(function, A)
    case(function, I5, dtype=float)
    case(function, X, shape=(2, 2))
case(np.full, (2, N(3)), T(1.5))
case(np.full, N(3), 2)
case(np.full, (4, 3), V3)
case(np.full_like, A, 2.5)
case(np.full_like, I5, 2.5)
for function in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asarray_chkfinite, np.copy):
    case(function, A)
case(np.array, [T(1.0), 2, T(3.0)])
case(np.array, [[T(1.0), 2.0], [0, T(3.0)]])
case(np.array, [X, Y])
case(np.array, [T(1), N(2)])
case(np.array, X, dtype=np.float32)
case(np.array, X, ndmin=3)
case(np.asarray, [T(np.float32(1.0)), 2.0])
case(np.arange, N(4))
case(np.arange, 1, N(4))
case(np.arange, N(4), 0, -1)
case(np.arange, 0, N(7), 3)
case(np.arange, N(3), 2)
case(np.arange, N(4), dtype=float)
case(np.arange, 0.0, N(3), 0.5)
case(np.linspace, 0, 1, N(5))
case(np.linspace, T(0.3), T(2.7), 7)
case(np.linspace, T(0.3), 2, N(4), endpoint=False)
case(np.linspace, V3, 1.0, 4)
case(np.linspace, V3, 1.0, 4, axis=-1)
case(np.linspace, T(0.3), 1.0, 1)
case(np.linspace, T(0.3), 1.0, 5, retstep=True)
case(np.logspace, T(0.3), 1.0, 5)
case(np.eye, N(3))
case(np.eye, N(3), 4, 1)
case(np.identity, N(3))
case(np.identity, N(3), dtype=int)
case(np.tri, N(3), 4, 1)
case(np.indices, (2, N(3)))
case(np.indices, (2, N(3)), sparse=True)
case(np.meshgrid, X, V3)
case(np.meshgrid, X, V3, indexing="ij")
case(np.meshgrid, X, V3, sparse=True)

# ---------------------------------------------------------------------------------------------------- indexing
FULL = slice(None)
for index in (0, -1, N(2), N(-2), slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1), slice(3, 1),
              slice(-100, 100), slice(N(1), N(3)), slice(4, None, -2), slice(None, None, -3), None, ..., (..., None),
              slice(1, 4, 2), slice(5, 0, -1), I5 % 3, I5 % 5 - 5, K(np.array([0, 2])), [0, -1], T(3), T(-2), K(B5),
              np.array([[0, 1], [2, -1]]), [T(0), N(2)], K(np.zeros(0, int))):
    case(operator.getitem, X, index)
for index in ((0, 1), (FULL, 1), (slice(1, 3), slice(None, None, -1)), (..., 0), (None, FULL, 0), (1, None),
              (np.array([0, 3]), 1), (np.array([0, 3]), FULL), (FULL, np.array([0, 2])),
              (np.array([[0], [3]]), np.array([0, 2])), (T(2), slice(1, None)),
              (FULL, T(1)), (None, np.array([0, 3])), (K(np.array([True, False, True, True])), 0), K(A > 0), (N(1), T(2)),
              (FULL, K(np.array([True, False, True])))):
    case(operator.getitem, A, index)
for index in ((0, FULL, np.array([0, 2])), (np.array([0, 1]), FULL, np.array([0, 2])), (FULL, np.array([0, 1]), np.array([0, 2])),
              (np.array([0, 1]), None, FULL, 1), (..., np.array([0, 1])), (FULL, np.array([[0, 1], [1, 3]])), (T(1), FULL, T(0)),
              (T(1), FULL, np.array([0, 1])), (0, ..., 0), (FULL, slice(1, 3), 1)):
    case(operator.getitem, C, index)
case(operator.getitem, [X, Y], 1)
case(np.take, X, I5 % 3)
case(np.take, A, np.array([0, -1]), axis=1)
case(np.take, A, 2)
case(np.take, A, N(2), axis=0)
case(np.take_along_axis, A, np.argsort(A, 1), 1)
case(np.take_along_axis, A, np.argmin(A, 0, keepdims=True), axis=0)
case(np.compress, K([True, False, True]), A, axis=0)
case(np.compress, X > 0, X)
case(operator.getitem, X, X > 0)
case(operator.getitem, A, (slice(None), np.array([True, False, True])))
case(operator.getitem, A, A > 0)
case(operator.getitem, X, slice(T(1), None))
case(operator.getitem, X, slice(T(-1), None, -2))
case(np.nonzero, A)
case(np.nonzero, X > 0)
case(np.flatnonzero, A)
case(np.extract, A > 0, A)
case(np.where, X > 0)

# ---------------------------------------------------------------------------------------------------- products
for pair in ((X, Y), (A, V3), (A[:, 0], A), (A, B), (C, B), (C, V3), (S, C), (C[None, :, :, :], C.transpose(0, 2, 1)),
             (C[:1], C.transpose(0, 2, 1)), (I5, I5), (F5, Y), (A, K(np.eye(3)))):
    case(np.matmul, *pair)
case(operator.matmul, A, B)
for pair in ((X, Y), (A, V3), (A, B), (C, B), (C, C.transpose(0, 2, 1)), (X, 2.0), (T(2.0), A), (S[0], A)):
    case(np.dot, *pair)
case(np.inner, X, Y)
case(np.inner, A, C)
case(np.inner, 2.0, X)
for function in (np.outer, np.linalg.outer):
    case(function, X, V3)
case(np.outer, A, X)
case(np.vdot, A, A)
for function in (np.vecdot, np.linalg.vecdot):
    case(function, A, A)
    case(function, A, V3)
case(np.matvec, C, V3)
case(np.vecmat, A[:, 0], C)
case(np.linalg.matmul, A, B)
for function in (np.tensordot, np.linalg.tensordot):
    case(function, C, A, axes=((1, 2), (0, 1)))
    case(function, C, A)
    case(function, A, B, axes=1)
    case(function, A, B, axes=0)
case(np.linalg.multi_dot, [A, B, X])
case(np.linalg.multi_dot, [V3, B, K(np.eye(5))])
case(np.linalg.matrix_power, S, 5)
case(np.kron, A, S)
case(np.kron, X, A)
case(np.cross, V3, A)
case(np.linalg.cross, A, A * A)
case(np.cross, A[:, :2], A[:, 1:])
case(np.cross, B, B + 1, axis=0)
for subscripts, *operands in (("ij,jk->ik", A, B), ("ij,jk", A, B), ("i,i", X, Y), ("ii", S), ("ii->i", S), ("ij->ji", A),
                              ("ij->", A), ("ij->j", A), ("ij,j->i", A, V3), ("i,j->ij", X, V3), ("...ij,jk->...ik", C, B),
                              ("bij,bkj->bik", C, C), ("bij,bij->b", C, C),
                              ("ij,jk,k->i", A, B, X), ("ij,ij->ij", A, A), ("i,ij,j", A[:, 0], A, V3), ("ba", A),
                              ("...->...", C), ("ij...->...ij", C), ("i,i,i->i", X, Y, P), ("i->", X), ("ij,kj->ik", A, A[:1]),
                              ("iij->j", rng.normal(size=(3, 3, 2))),
                              ("ij,ji->", S, S), (",i->i", T(2.0), X), ("i,j", X, V3), ("ij,jk,kl,lm->im", A, B, B.T, A.T),
                              ("ij,jk->ki", I5[:, None], I5[None]),
                              ("ij,ij->", A[:1], A), ("ik,jk->", A, S[:, :3])):
    case(np.einsum, subscripts, *operands)
case(np.einsum, A, [0, 1], B, [1, 2], [0, 2])
case(np.einsum, A, [0, 1], B, [1, 2])

# ---------------------------------------------------------------------------------------------------- special, math, builtins
WIDE = np.array([-40.0, -25.0, -19.5, -5.0, -1.0, -0.3, 0.0, 1e-8, 0.5, 3.0, 30.0])
for function in (special.erf, special.erfc, special.expit, special.log_expit, special.ndtr, special.log_ndtr):
    case(function, WIDE)
    case(function, F5)
for function in (special.gammaln, special.psi, special.logit, special.expm1, special.log1p, special.exp2, special.exp10,
                 special.cbrt, special.entr, special.gamma):
    case(function, P)
case(special.gamma, np.array([-2.5, -1.5, 4.0, 0.5]))
case(special.entr, np.array([-1.0, 0.0, 2.0]))
for function in (special.xlogy, special.xlog1py, special.rel_entr, special.kl_div):
    case(function, P, P[::-1])
    case(function, np.array([0.0, 0.0, 1.0, np.nan, 0.0]), np.array([0.0, 1.0, 2.0, 1.0, np.nan]))
case(special.betaln, P, P[::-1])
case(special.polygamma, 2, P)
case(special.polygamma, 0, P)
for function in (special.logsumexp, special.softmax, special.log_softmax):
    case(function, A)
    case(function, A, axis=1)
    case(function, 1000 * A, axis=0)
    case(function, F5)
case(special.logsumexp, A, axis=1, keepdims=True)
case(special.logsumexp, A, axis=0, b=np.abs(A))
case(special.logsumexp, np.array([-np.inf, -np.inf]))
case(special.logsumexp, np.array([-np.inf, 1.0]))
for function in (math.exp, math.expm1, math.log2, math.log10, math.log1p, math.sqrt, math.sin, math.cos, math.tan, math.asin,
                 math.acos, math.atan, math.sinh, math.cosh, math.tanh, math.asinh, math.atanh, math.fabs, math.erf, math.erfc,
                 math.lgamma, math.isnan, math.isinf, math.isfinite, math.degrees, math.radians, math.gamma, math.floor,
                 math.ceil, math.trunc, math.log, math.exp2,
                 math.cbrt, builtins.abs, builtins.round, builtins.float, builtins.int):
    case(function, T(0.7))
case(math.acosh, T(1.7))
case(math.floor, T(-1.5))
case(math.exp, N(2))
for function in (math.atan2, math.copysign, math.fmod, math.pow, math.hypot):
    case(function, T(0.7), T(1.9))
case(math.hypot, T(1.0), T(2.0), T(3.0))
case(math.log, T(0.7), 2)
case(math.prod, [T(0.7), T(2.0), 3])
case(math.fsum, [T(0.7), T(2.0), 3])
case(math.dist, [T(0.7), T(2.0)], [1.0, 3.0])
case(builtins.sum, [T(0.7), T(2.0), 3])
case(builtins.sum, X)
case(builtins.min, [T(0.7), T(2.0), 3.0])
case(builtins.max, T(0.7), T(2.0))
case(builtins.max, X)
case(builtins.pow, T(0.7), 3)
case(builtins.round, T(2.5), 1)
case(builtins.len, A)

# np.empty has no values to compare: only its shape and dtype are NumPy's.
UNDEFINED = {np.empty: (N(3),), np.empty_like: (X,)}


def traced(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Function, list[Any]]:
    """The graph of one call, and the arguments of the graph."""
    with Builder("f") as b:
        b.location = WHERE
        trace = Traced(b)
        given, named = trace.parameter(tuple(args)), trace.parameter(dict(keywords))
        result = LIBRARY[function](*given, **named)
        return trace.finish(flat(result)), trace.arguments


def grown(x: Any) -> Any:
    """An argument with two more entries along every axis."""
    if isinstance(x, np.ndarray):
        return np.resize(x, tuple(n + 2 for n in x.shape))
    if isinstance(x, (list, tuple)):
        return type(x)(map(grown, x))
    return {k: grown(v) for k, v in x.items()} if isinstance(x, dict) else x


def check(got: tuple[Any, ...], wanted: Any) -> None:
    """Same values, dtypes and shapes; Python numbers have no dtype to compare."""
    expected = flat(wanted)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        single = np.asarray(b).dtype == np.float32
        assert_close(a, b, rtol=3e-5 if single else 1e-11, atol=1e-6 if single else 1e-13,
                     dtype=isinstance(b, (np.ndarray, np.generic)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", CASES, ids=str)
def test_agrees_with_the_function_itself(example: Case) -> None:
    wanted = example.function(*plain(example.args), **plain(example.keywords))
    function, arguments = traced(example.function, example.args, example.keywords)
    check(interpret(function, plain(arguments)), wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", CASES, ids=str)
def test_other_lengths_are_right_or_refused(example: Case) -> None:
    function, arguments = traced(example.function, example.args, example.keywords)
    try:
        got = interpret(function, plain(grown(arguments)))
    except (GuardError, IndexError):
        return
    check(got, example.function(*plain(grown(example.args)), **plain(grown(example.keywords))))


def projected(example: Case) -> tuple[Function, list[Any]] | None:
    """A number that depends on every float64 result of a case, as a graph; None where there is no such result."""
    with Builder("f") as b:
        b.location = WHERE
        trace = Traced(b)
        given, named = trace.parameter(tuple(example.args)), trace.parameter(dict(example.keywords))
        results = [r for r in flat(LIBRARY[example.function](*given, **named)) if isinstance(r, Value)
                   and r.type.dtype is DType.f64]
        total: Any = 0.0
        for k, r in enumerate(results):
            wave = LIBRARY[np.sin](LIBRARY[np.multiply](r, 0.7 + k))
            total = LIBRARY[np.add](total, LIBRARY[np.sum](LIBRARY[np.multiply](r, wave)))
        return (trace.finish([total]), [np.asarray(plain(a)) for a in trace.arguments]) if results else None


def has_kinks(example: Case) -> bool:
    """Whether an argument is where differences see no derivative: NaN, an infinity, a step."""
    floats = [x for x in flat(plain(list(example.args))) if isinstance(x, (float, np.ndarray, np.floating))]
    name = getattr(example.function, "__name__", "")
    return any(not np.isfinite(x).all() for x in floats) or name in ("rint", "round", "around")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", [c for c in CASES if not has_kinks(c)], ids=str)
def test_gradient_along_a_direction(example: Case, rng: np.random.Generator) -> None:
    made = projected(example)
    if made is None:
        return
    function, args = made
    wrt = tuple(k for k, a in enumerate(args) if a.dtype == np.float64 and a.size)
    if not wrt:
        return
    value, *gradients = interpret(value_and_grad(function, wrt), args)
    steps = [rng.normal(size=args[k].shape) for k in wrt]

    def moved(length: float) -> float:
        new = list(args)
        for k, step in zip(wrt, steps, strict=True):
            new[k] = args[k] + length * step
        return float(interpret(function, new)[0])

    difference = (moved(1e-6) - moved(-1e-6)) / 2e-6
    if math.isfinite(difference):
        slope = sum(float(np.sum(g * s)) for g, s in zip(gradients, steps, strict=True))
        assert_close(slope, difference, rtol=1e-4, atol=1e-5 * max(1.0, abs(float(value))))


def test_every_function_has_a_case() -> None:
    tested = {c.function for c in CASES} | set(UNDEFINED)
    missing = sorted(name_of(f) for f in LIBRARY if f not in tested)
    assert not missing


@pytest.mark.parametrize("function", UNDEFINED)
def test_empty_arrays_have_shape_and_dtype(function: Callable[..., Any]) -> None:
    graph, arguments = traced(function, UNDEFINED[function], {})
    (got,) = interpret(graph, plain(arguments))
    wanted = function(*plain(UNDEFINED[function]))
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)


REFUSED = [
    (np.add, (X, V3), {}, ShapeError, "operands could not be broadcast together with shapes (5,) (3,)"),
    (np.matmul, (A, V3[:2]), {}, ShapeError, "mismatch in its core dimension"),
    (np.dot, (A, A), {}, ShapeError, "shapes (4,3) and (4,3) not aligned: 3 (dim 1) != 4 (dim 0)"),
    (np.max, (EMPTY,), {}, ShapeError, "zero-size array to reduction operation max which has no identity"),
    (np.argmax, (EMPTY,), {"axis": 0}, ShapeError, "attempt to get argmax of an empty sequence"),
    (np.sum, (A,), {"axis": 2}, ShapeError, "axis 2 is out of bounds for array of dimension 2"),
    (np.sum, (A,), {"out": X}, UnsupportedOp, "np.sum with out= is not supported"),
    (np.reshape, (X, (2, 3)), {}, ShapeError, "cannot reshape array of size 5 into shape (2,3)"),
    (np.where, (X > 0, X), {}, ShapeError, "either both or neither of x and y should be given"),
    (operator.getitem, (X, np.array(True)), {}, UnsupportedOp, "a traced bool is used as an index"),
    (operator.getitem, (X, 7), {}, AdcompileError, "index 7 is out of bounds for axis 0 with size 5"),
    (operator.getitem, (X, (0, 0)), {}, ShapeError, "too many indices for array"),
    (operator.getitem, (X, Y), {}, ShapeError, "arrays used as indices must be of integer"),
    (np.concatenate, ([A, X],), {}, ShapeError, "must match exactly"),
    (np.power, (I5, -1), {}, UnsupportedOp, "integers to negative integer powers are not allowed"),
    (np.linalg.norm, (A, 2), {}, UnsupportedOp, "singular values"),
    (np.squeeze, (A,), {"axis": 0}, ShapeError, "size not equal to one"),
    (np.split, (X, 2), {}, ShapeError, "equal division"),
    (math.exp, (X,), {}, UnsupportedOp, "use the function of NumPy"),
    (np.arange, (T(1.5),), {}, UnsupportedOp, "use np.linspace"),
]


@pytest.mark.parametrize(("function", "args", "keywords", "kind", "text"), REFUSED, ids=[r[4][:30] for r in REFUSED])
def test_refusals_say_what_and_where(function: Any, args: Any, keywords: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        traced(function, args, keywords)
    assert text in str(caught.value)
    assert "model.py:3" in str(caught.value)


def test_an_index_out_of_bounds_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        traced(operator.getitem, (X, -6), {})
