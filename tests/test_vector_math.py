"""Functions for loops that LLVM vectorises: accuracy, edges, machine code, and where they are used."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numba as nb
import numpy as np
import pytest
from llvmlite import binding

from adcompile import compile_grad, compile_value
from adcompile.emit.vectorise import FUNCTIONS, definitions
from adcompile.ir.op import TABLE
from adcompile.ops import vector_math

ROWS = {row.vector: row for row in TABLE.values() if row.vector}
FASTMATH = {"reassoc", "contract", "nsz"}
LIMIT = 2.0                                             # ulp
rng = np.random.default_rng(5)
N = 300


def uniform(low: float, high: float) -> np.ndarray:
    return rng.uniform(low, high, N)


def sizes(low: float, high: float) -> np.ndarray:
    """Numbers of both signs, of all orders of magnitude between 10**low and 10**high."""
    return 10.0 ** rng.uniform(low, high, N) * rng.choice([-1.0, 1.0], N)


TIES = (np.arange(-1070, 1020, 7) + 0.5) * math.log(2)         # halfway between two reductions
QUARTERS = np.concatenate([np.arange(1, 200) * np.pi / 2, [6381956970095103.0 * 2.0**797]])     # near zeros; the worst case
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 5e-324, -5e-324, 1e-310, 1.7e308,
                    -1.7e308])
Exact = Callable[..., Any]
POINTS: dict[str, tuple[Exact, list[np.ndarray]]] = {
    "exp": (mpmath.exp, [uniform(-745, 709.7), uniform(-1, 1), sizes(-20, 2), TIES]),
    "exp2": (lambda x: mpmath.mpf(2)**x, [uniform(-1074, 1023.9), uniform(-1, 1), sizes(-20, 2)]),
    "expm1": (mpmath.expm1, [uniform(-45, 709.7), uniform(-1, 1), sizes(-320, 2), TIES]),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), [uniform(-745, 40), uniform(-3, 3), sizes(-20, 2)]),
    "cosh": (mpmath.cosh, [uniform(-710, 710), uniform(-3, 3), sizes(-20, 2)]),
    "sinh": (mpmath.sinh, [uniform(-710, 710), uniform(-3, 3), sizes(-320, 2)]),
    "tanh": (mpmath.tanh, [uniform(-20, 20), uniform(-3, 3), uniform(-1, 1), sizes(-320, 2)]),
    "log": (mpmath.log, [np.abs(sizes(-323, 308)), uniform(0.5, 2), 1 + sizes(-16, -1)]),
    "log2": (lambda x: mpmath.log(x, 2), [np.abs(sizes(-323, 308)), uniform(0.5, 2), 1 + sizes(-16, -1)]),
    "log10": (lambda x: mpmath.log(x, 10), [np.abs(sizes(-323, 308)), uniform(0.5, 2), 1 + sizes(-16, -1)]),
    "log1p": (mpmath.log1p, [np.abs(sizes(-323, 308)), uniform(-1, 2), sizes(-16, -0.01), -1 + np.abs(sizes(-15, -1))]),
    "sin": (mpmath.sin, [uniform(-10, 10), sizes(-320, 308), sizes(-1, 20), QUARTERS]),
    "cos": (mpmath.cos, [uniform(-10, 10), sizes(-320, 308), sizes(-1, 20), QUARTERS]),
    "tan": (mpmath.tan, [uniform(-10, 10), sizes(-320, 308), sizes(-1, 20), QUARTERS]),
    "atan": (mpmath.atan, [uniform(-10, 10), sizes(-320, 308), sizes(-2, 2)]),
    "erf": (mpmath.erf, [uniform(-6, 6), sizes(-320, 2), uniform(0.7, 1.2)]),
    "erfc": (mpmath.erfc, [uniform(-6, 27), sizes(-320, 1), uniform(0.3, 1.2)]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), [sizes(-323, 308), uniform(-10, 10)]),
    "pow": (mpmath.power, [np.concatenate([np.abs(sizes(-300, 300)), np.abs(sizes(-3, 3)), uniform(0.5, 2)]),
                           np.concatenate([uniform(-1.1, 1.1), uniform(-100, 100), uniform(-1000, 1000)])]),
}
PLAIN = {"sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1 + np.exp(-np.abs(x))), "atan": np.arctan,
         "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc), "pow": np.power,
         "xlogy": TABLE["xlogy"].reference}


def loop(function: Any, operands: int, **options: Any) -> Any:
    """A compiled loop over arrays that calls a function of one or two numbers."""
    def one(x, out):                                                                            # type: ignore[no-untyped-def]
        for i in range(out.shape[0]):
            out[i] = function(x[i])

    def two(x, y, out):                                                                         # type: ignore[no-untyped-def]
        for i in range(out.shape[0]):
            out[i] = function(x[i], y[i])

    return nb.njit(one if operands == 1 else two, error_model="numpy", **{"fastmath": FASTMATH, **options})


def computed(name: str, *columns: np.ndarray) -> np.ndarray:
    """The function on arrays, in a loop with the flags that kernels have."""
    out = np.empty_like(columns[0])
    loop(getattr(vector_math, name), len(columns))(*columns, out)
    return out


def largest_error(name: str, columns: list[np.ndarray]) -> tuple[float, Any]:
    """In ulp, and where it is."""
    exact, dtype = POINTS[name][0], columns[0].dtype.type
    worst: tuple[float, Any] = (0.0, None)
    largest = mpmath.mpf(float(np.finfo(dtype).max))
    with mpmath.workprec(220):
        for *x, got in zip(*columns, computed(name, *columns), strict=True):
            wanted = exact(*(mpmath.mpf(float(v)) for v in x))
            if not mpmath.isfinite(wanted) or abs(wanted) > largest:
                continue
            spacing = mpmath.mpf(float(np.spacing(np.abs(dtype(float(wanted))))))
            error = abs(mpmath.mpf(float(got)) - wanted) / spacing if np.isfinite(got) else mpmath.inf
            worst = max(worst, (float(error), x), key=lambda pair: pair[0])
    return worst


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", POINTS)
def test_accuracy(name: str, dtype: type) -> None:
    columns = POINTS[name][1] if name == "pow" else [np.concatenate(POINTS[name][1])]
    if dtype is np.float32:
        within = np.all([(np.abs(c) < 3e38) for c in columns], axis=0)
        columns = [c[within][::3].astype(dtype) for c in columns]
    error, where = largest_error(name, columns)
    assert error < LIMIT, f"{error} ulp at {where}"


def test_the_measure_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is wrong in the last two bits is out of bounds."""
    points = [np.concatenate(POINTS["exp"][1])]
    monkeypatch.setitem(POINTS, "exp", (lambda x: mpmath.exp(x) * (1 + mpmath.mpf(2)**-50), points))
    assert largest_error("exp", points)[0] > LIMIT


def test_logaddexp() -> None:
    """As good as its larger operand; exact for equal infinities."""
    a, b = np.concatenate([uniform(-40, 40), uniform(-1e3, 1e3)]), np.concatenate([uniform(-40, 40), uniform(-1e3, 1e3)])
    with mpmath.workprec(2000):
        wanted = np.array([float(mpmath.log(mpmath.exp(float(p)) + mpmath.exp(float(q)))) for p, q in zip(a, b, strict=True)])
    np.testing.assert_allclose(computed("logaddexp", a, b), wanted, rtol=4e-16, atol=4e-16)


def special_columns(name: str) -> list[np.ndarray]:
    if name in ("pow", "logaddexp", "xlogy"):
        return [c.ravel() for c in np.meshgrid(SPECIAL, SPECIAL)]
    return [SPECIAL]


@pytest.mark.parametrize("name", ROWS)
def test_edges(name: str) -> None:
    """Infinities, NaN, zeros with their signs, subnormal and huge numbers: as NumPy."""
    columns = special_columns(name)
    with np.errstate(all="ignore"):
        wanted = PLAIN.get(name, getattr(np, name, None))(*columns)                             # type: ignore[misc]
    got = computed(name, *columns)
    np.testing.assert_allclose(got, wanted, rtol=5e-16, atol=0)
    if name not in ("xlogy", "logaddexp"):
        np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_the_table_and_the_functions_agree() -> None:
    marked = {name for name, text in definitions().items() if text.startswith("@vector")}
    assert marked == set(ROWS) == {name for name in ROWS if ROWS[name].name == name}
    assert set(FUNCTIONS.values()) == set(ROWS)
    assert set(POINTS) | {"logaddexp", "xlogy"} == set(ROWS)


# ---------------------------------------------------------------------------------------------------- machine code
AVX2 = binding.get_host_cpu_features().get("avx2", False)
x86 = pytest.mark.skipif(not AVX2, reason="reads the machine code of processors with AVX2")


def machine_code(source: str, kernel: str, arrays: int) -> str:
    module: dict[str, Any] = {}
    exec(source, module)
    module[kernel].compile((nb.float64[::1],) * arrays)
    return "\n".join(module[kernel].inspect_asm().values())


def vector_lines(code: str) -> list[str]:
    """Multiplications and additions of several doubles at once."""
    return [line for line in code.splitlines() if "vfmadd" in line and ("ymm" in line or "zmm" in line)]


def waves(x, t):                                                                                # type: ignore[no-untyped-def]
    return np.sum(np.tanh(x * t) + np.exp(-x) * np.log1p(x * x))


@x86
def test_a_kernel_is_vectorised() -> None:
    f = compile_grad(waves)
    f(np.ones(4), np.ones(4))
    assert len(vector_lines(machine_code(f.source, "waves_kernel", 3))) > 30
    strict = compile_grad(waves, fastmath=False)
    strict(np.ones(4), np.ones(4))
    assert not vector_lines(machine_code(strict.source, "waves_kernel", 3))


@x86
@pytest.mark.parametrize("name", ROWS)
def test_every_function_is_vectorised(name: str) -> None:
    function = loop(getattr(vector_math, name), len(special_columns(name)))
    function.compile((nb.float64[::1],) * (len(special_columns(name)) + 1))
    assert vector_lines("\n".join(function.inspect_asm().values()))


def test_the_flags_of_the_kernel_stay_outside() -> None:
    """No instruction of a function has a flag that lets LLVM reorder it."""
    function = loop(vector_math.log2, 1)
    function.compile((nb.float64[::1],) * 2)
    (text,) = function.inspect_llvm().values()
    assert "llvm.fma" in text and "reassoc" not in text
    assert "reassoc" in next(iter(compiled_sum().inspect_llvm().values()))


def compiled_sum() -> Any:
    """A loop whose own additions have the flags."""
    def add(x, out):                                                                            # type: ignore[no-untyped-def]
        for i in range(out.shape[0]):
            out[i] = vector_math.log2(x[i]) + x[i]

    function = nb.njit(add, error_model="numpy", fastmath=FASTMATH)
    function.compile((nb.float64[::1],) * 2)
    return function


# ---------------------------------------------------------------------------------------------------- where they are used
def source_of(function: Any, *args: Any, **options: Any) -> str:
    f = compile_value(function, **options)
    f(*args)
    return str(f.source)


def test_strict_order_keeps_libm() -> None:
    source = source_of(waves, np.ones(3), np.ones(3), fastmath=False)
    assert "np.exp(" in source and "intrinsic" not in source
    assert "intrinsic" in source_of(waves, np.ones(3), np.ones(3))


def recurrence(x):                                                                              # type: ignore[no-untyped-def]
    level = 0.0
    for i in range(x.shape[0]):
        level = np.exp(-level * x[i])
    return level


def scalar(x):                                                                                  # type: ignore[no-untyped-def]
    return np.exp(x) * x


def triples(x):                                                                                 # type: ignore[no-untyped-def]
    return np.sum(np.exp(x[:3]))


def largest(x):                                                                                 # type: ignore[no-untyped-def]
    return np.max(np.exp(x))


def gathered(x, k):                                                                             # type: ignore[no-untyped-def]
    return np.sum(np.exp(x[k]))


@pytest.mark.parametrize(("function", "args"), [(recurrence, (np.ones(3),)), (scalar, (2.0,)), (triples, (np.ones(4),)),
                                                (largest, (np.ones(4),)), (gathered, (np.ones(4), np.array([1, 2])))])
def test_libm_elsewhere(function: Any, args: tuple) -> None:
    """Serial loops, scalars, a few turns, and what LLVM does not vectorise."""
    source = source_of(function, *args)
    assert "np.exp(" in source and "intrinsic" not in source


def test_names_of_the_user_are_kept() -> None:
    def tanh(exp, select):                                                                      # type: ignore[no-untyped-def]
        return np.sum(np.exp(exp) * np.tanh(select) + np.sqrt(select))

    x, y = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    f = compile_grad(tanh)
    value, gradient = f(x, y)
    np.testing.assert_allclose(value, np.sum(np.exp(x) * np.tanh(y) + np.sqrt(y)))
    np.testing.assert_allclose(gradient, np.exp(x) * np.tanh(y))
    assert "exp_(" in f.source and "def tanh_(" in f.source


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_those_of_libm(dtype: type) -> None:
    x, t = np.linspace(-2, 3, 101).astype(dtype), np.linspace(0.1, 1, 101).astype(dtype)
    value, gradient = compile_grad(waves)(x, t)
    wanted_value, wanted = compile_grad(waves, fastmath=False)(x, t)
    assert gradient.dtype == dtype
    tolerance = 1e-13 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(value, wanted_value, rtol=tolerance)
    np.testing.assert_allclose(gradient, wanted, rtol=tolerance, atol=tolerance)


def test_in_plain_python(tmp_path: Path) -> None:
    """A saved module runs without adcompile, compiled and with the JIT disabled."""
    source = source_of(waves, np.ones(3), np.ones(3))
    (tmp_path / "kernel.py").write_text(source)
    program = ("import sys; sys.modules['adcompile'] = None; import numpy as np, kernel; "
               "print(repr(float(kernel.waves(np.linspace(-1, 2, 9), np.ones(9))[0])))")
    x = np.linspace(-1, 2, 9)
    for disabled in ("0", "1"):
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
                              env={**os.environ, "NUMBA_DISABLE_JIT": disabled})
        assert math.isclose(float(done.stdout), float(waves(x, np.ones(9))), rel_tol=1e-13)
