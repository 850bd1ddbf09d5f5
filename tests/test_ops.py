"""The table: every row by itself. Cases come from the table, so a new row is tested the moment it exists: elementwise rows
from their `domain` and `edges`, all others from SAMPLES (a test says so if a row has neither).

A failure names the row, and the field of it to look at. The checks are functions of a row: test_the_tests.py plants wrong
facts in rows and sees that these functions notice.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from conftest import assert_close, assert_same

import adcompile.ops
from adcompile.differentiate.jvp import jvp
from adcompile.differentiate.reverse import vjp
from adcompile.ir.builder import Builder
from adcompile.ir.core import ArrayConstant, Function, Literal, Value
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.op import TABLE, Op
from adcompile.ir.parser import parse
from adcompile.ir.printer import text_of
from adcompile.ir.types import DType, Type, dtype_of
from adcompile.ir.verifier import verify

assert adcompile.ops                      # importing it fills the table

Case = tuple[tuple[Any, ...], dict[str, Any]]
INF, NAN = math.inf, math.nan
INTEGER_OPERANDS = {"powi": (1,), "polygamma": (1,)}
PER_ELEMENT = [row for row in TABLE.values() if row.code is not None and row.domain]
CONTROL = [row.name for row in TABLE.values() if row.kind == "control"]


def random(name: str) -> np.random.Generator:
    """A generator of the row's own."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def dims(*sizes: int) -> tuple[Dim, ...]:
    return tuple(map(Dim.of, sizes))


# ---------------------------------------------------------------------------------------------------- operands
def inside(row: Op, shape: tuple[int, ...], dtype: type = np.float64) -> tuple[np.ndarray, ...]:
    """Random operands in the row's domain."""
    rng = random(row.name)
    found = []
    for k, (low, high) in enumerate(row.domain):
        x = low + (high - low) * rng.uniform(0.02, 0.98, shape)
        found.append(np.asarray(np.rint(x).astype(np.int64) if k in INTEGER_OPERANDS.get(row.name, ()) else x.astype(dtype)))
    return tuple(found)


def at_edges(row: Op) -> tuple[np.ndarray, ...]:
    """The row's edges, as one array an operand."""
    points = [e if isinstance(e, tuple) else (e,) for e in row.edges]
    columns = [np.array(c, dtype=np.float64) for c in zip(*points, strict=True)]
    return tuple(c.astype(np.int64) if k in INTEGER_OPERANDS.get(row.name, ()) else c for k, c in enumerate(columns))


A, B = random("A").normal(size=(3, 4)), random("B").normal(size=(3, 4))
V, W = random("V").normal(size=4), random("W").normal(size=5)
PLACES, FLAGS = np.array([2, 0, 2, 1]), A > 0
WHOLE = {"axis": 1, "reverse": False}
SAMPLES: dict[str, list[Case]] = {
    "select": [((FLAGS, A, B), {})],
    "not": [((FLAGS,), {})], "and": [((FLAGS, B > 0), {})], "or": [((FLAGS, B > 0), {})], "xor": [((FLAGS, B > 0), {})],
    "raise_if": [((np.False_,), {"exception": "ValueError", "text": "{a}, (b) # 'c'"})],
    "wrap_index": [((np.array([-1, 0, 2, -3]),), {"dim": Dim.of(3)})],
    "named": [((A,), {"label": "f1"})],
    "cast": [((A,), {"dtype": DType.f32}), ((A,), {"dtype": DType.i64}), ((FLAGS,), {"dtype": DType.f64})],
    "broadcast": [((V,), {"dims": dims(3, 4), "axes": (1,)}), ((np.float64(2.0),), {"dims": dims(2, 3), "axes": ()}),
                  ((A,), {"dims": dims(3, 2, 4), "axes": (0, 2)})],
    "reshape": [((A,), {"dims": dims(2, 6)}), ((A,), {"dims": dims(12)}), ((V[:1],), {"dims": ()})],
    "transpose": [((A,), {"permutation": (1, 0)}), ((A.reshape(3, 2, 2),), {"permutation": (2, 0, 1)})],
    "slice": [((A,), {"starts": dims(2, 1), "steps": (-1, 2), "dims": dims(3, 2)}),
              ((W,), {"starts": dims(4), "steps": (-2,), "dims": dims(3)}),
              ((W,), {"starts": dims(0), "steps": (1,), "dims": dims(0)})],
    "pad": [((A,), {"starts": dims(3, 1), "steps": (-1, 2), "dims": dims(5, 9)})],
    "concat": [((A, B), {"axis": 1}), ((V, W, V), {"axis": 0}), ((A,), {"axis": 0})],
    "iota": [((), {"dim": Dim.of(5), "dtype": DType.i64}), ((), {"dim": Dim.of(0), "dtype": DType.f32})],
    "size": [((), {"dim": Dim.of(7)})],
    "extent": [((np.int64(n),), {"symbol": "k"}) for n in (7, 0, -3)],
    "constant": [((), {"value": ArrayConstant(DType.f32, (2, 2), np.arange(4, dtype=np.float32).tobytes())}),
                 ((), {"value": ArrayConstant(DType.f64, (40,), random("c").normal(size=40).tobytes())})],
    "gather": [((A, PLACES), {"axes": (0,)}), ((A, PLACES), {"axes": (1,)}), ((A, PLACES, PLACES[::-1].copy()), {"axes": (0, 1)}),
               ((A, PLACES.reshape(2, 2)), {"axes": (1,)}), ((A, np.int64(1)), {"axes": (0,)})],
    "scatter_add": [((A, PLACES, random("u").normal(size=(4, 4))), {"axes": (0,)}), ((A, PLACES, PLACES, V), {"axes": (0, 1)}),
                    ((A, PLACES, random("u").normal(size=(4, 3))), {"axes": (1,)}), ((A, np.int64(1), V), {"axes": (0,)})],
    "slice_set": [((A, V[:2].reshape(2, 1)), {"axes": (), "starts": dims(0, 1), "steps": (2, 1), "dims": dims(2, 1)}),
                  ((A, np.int64(1), V[:2]), {"axes": (0,), "starts": dims(3), "steps": (-2,), "dims": dims(2)})],
    "scatter_set": [((A, PLACES, random("u").normal(size=(4, 4))), {"axes": (0,)}), ((A, PLACES, PLACES, V), {"axes": (0, 1)}),
                    ((A, PLACES, random("u").normal(size=(4, 3))), {"axes": (1,)}), ((A, np.int64(1), V), {"axes": (0,)})],
    "reduce_sum": [((A,), {"axes": (0,)}), ((A,), {"axes": (0, 1)}), ((A,), {"axes": ()}), ((A[:0],), {"axes": (0,)})],
    "reduce_prod": [((A,), {"axes": (1,)}), ((A,), {"axes": (0, 1)}), ((A.reshape(3, 2, 2),), {"axes": (0, 2)}),
                    ((V[:0],), {"axes": (0,)})],
    "reduce_max": [((A,), {"axes": (0,)}), ((A,), {"axes": (0, 1)})],
    "reduce_min": [((A,), {"axes": (1,)}), ((V,), {"axes": (0,)})],
    "reduce_any": [((FLAGS,), {"axes": (0,)})], "reduce_all": [((FLAGS,), {"axes": (0, 1)})],
    "argmax": [((A,), {"axis": 1})], "argmin": [((A,), {"axis": 0})],
    "cumsum": [((A,), WHOLE), ((A,), {"axis": 0, "reverse": True})],
    "cumprod": [((A,), WHOLE), ((A,), {"axis": 0, "reverse": True}), ((V[:0],), {"axis": 0, "reverse": False})],
    "linear_recurrence": [((A, B), WHOLE), ((A, B), {"axis": 0, "reverse": True})],
    "contract": [((A, V), {"a_labels": (0, 1), "b_labels": (1,), "out_labels": (0,)}),
                 ((A, B), {"a_labels": (0, 1), "b_labels": (2, 1), "out_labels": (2, 0)}),
                 ((A, B), {"a_labels": (0, 1), "b_labels": (0, 1), "out_labels": (0,)}),
                 ((V, W), {"a_labels": (7,), "b_labels": (9,), "out_labels": (9, 7)})],
}


def cases(row: Op) -> list[Case]:
    """Operands and attributes to try a row on."""
    return SAMPLES.get(row.name) or [(inside(row, shape), {}) for shape in ((2, 3), (), (0,))]


EVERY = [row for row in TABLE.values() if row.kind != "control" and row.name != "with_slope"]      # its slope is the user's
ALL_CASES = [pytest.param(row, case, id=f"{row.name}-{k}") for row in EVERY
             for k, case in enumerate(cases(row) if row.domain or row.name in SAMPLES else [])]
SMOOTH = [p for p in ALL_CASES if p.values[0].kind != "nondifferentiable"]           # type: ignore[union-attr]


def type_of(x: Any) -> Type:
    """The IR type of an array."""
    dtype = dtype_of(np.asarray(x).dtype)
    assert dtype is not None
    return Type.of(dtype, *np.shape(x))


def function_of(row: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Function:
    """A function that is one operation."""
    with Builder("f") as b:
        params = [b.parameter(f"x{k}", type_of(x)) for k, x in enumerate(operands)]
        return b.finish((b.emit(row.name, tuple(params), attributes, name="y"),))


def plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as a row's reference takes them."""
    def number(a: Any) -> Any:
        return a.evaluate({}) if isinstance(a, Dim) else tuple(map(number, a)) if isinstance(a, tuple) else a

    return {key: number(a) for key, a in attributes.items()}


def floats(operands: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions of operands that carry derivatives."""
    return tuple(k for k, x in enumerate(operands) if np.asarray(x).dtype.kind == "f")


def test_every_row_has_cases() -> None:
    missing = [row.name for row in EVERY if not row.domain and row.name not in SAMPLES]
    assert not missing, f"give these rows a `domain`, or SAMPLES in this file: {missing}"
    assert CONTROL == ["for", "while", "cond"]


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.name)
def test_states_one_derivative(row: Op) -> None:
    stated = [row.partials is not None, bool(row.transpose), row.vjp is not None]
    assert sum(stated) == (row.kind != "nondifferentiable"), f"{row.name}: kind {row.kind!r} and what it states differ"
    assert (row.vjp is None) == (row.jvp is None)
    assert row.kind in ("elementwise", "linear") or row.why, f"{row.name}: say why"


# ---------------------------------------------------------------------------------------------------- types and text
def check_type(row: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    """`infer` says what NumPy gives: the interpreter compares."""
    function = function_of(row, operands, attributes)
    with np.errstate(all="ignore"):
        assert row.reference is not None
        assert_same(interpret(function, operands)[0], np.asarray(row.reference(*operands, **plain(attributes)))[()])


@pytest.mark.parametrize(("row", "case"), ALL_CASES)
def test_type(row: Op, case: Case) -> None:
    check_type(row, *case)


@pytest.mark.parametrize("row", PER_ELEMENT, ids=lambda row: row.name)
def test_type_float32_and_literals(row: Op) -> None:
    if row.name != "cast":
        check_type(row, inside(row, (3,), np.float32), {})
    operands = inside(row, (3,))
    if len(operands) == 2 and row.name not in INTEGER_OPERANDS:
        with Builder("f") as b:
            x = b.parameter("x", type_of(operands[0]))
            y = b.emit(row.name, (x, 2))
            (got,) = interpret(b.finish((y,)), operands[:1])
        with np.errstate(all="ignore"):
            assert_same(got, row.reference(operands[0], operands[1].dtype.type(2)))   # type: ignore[misc]


@pytest.mark.parametrize(("row", "case"), ALL_CASES)
def test_text(row: Op, case: Case) -> None:
    function = function_of(row, *case)
    verify(function)
    text = text_of(function)
    again = parse(text)
    verify(again)
    assert text_of(again) == text
    assert_same(interpret(again, case[0]), interpret(function, case[0]))


@pytest.mark.parametrize("row", PER_ELEMENT, ids=lambda row: row.name)
def test_operands_that_do_not_fit(row: Op) -> None:
    if len(row.domain) == 2:
        with pytest.raises((TypeError, ValueError)):
            row.infer(Type.of(DType.f64, 3), Type.of(DType.f64, 4))
        with pytest.raises(TypeError):
            row.infer(Type.of(DType.f64, 3), Type.of(DType.f32, 3))


# ---------------------------------------------------------------------------------------------------- generated code
HEADER = ("import math\nimport numpy as np\nimport numba as nb\n"
          "JIT = nb.njit(fastmath={'reassoc', 'contract', 'nsz'}, error_model='numpy', nogil=True)\n")


def kernel_source(rows: list[Op]) -> str:
    """A module of one function per row, `k_<row>(*operands)`, over scalars, and of loops over arrays, `loop_<row>`."""
    import inspect
    parts: dict[str, str] = {"": HEADER}
    for row in rows:
        for f in row.support:
            parts[f.__name__] = "@JIT\n" + inspect.getsource(f).replace(": Any", "").replace(" -> Any", "")
        names = ", ".join(f"a{k}" for k in range(len(row.domain)))
        items = ", ".join(f"a{k}[i]" for k in range(len(row.domain)))
        assert row.code is not None
        code = row.code.format(*(f"a{k}" for k in range(len(row.domain))))
        narrow = f"np.float32({code})" if row.promotes else code
        parts[f"k_{row.name}"] = (f"@JIT\ndef k_{row.name}({names}):\n    return {code}\n"
                                  f"@JIT\ndef n_{row.name}({names}):\n    return {narrow}\n"
                                  f"@JIT\ndef loop_{row.name}({names}, out):\n    for i in range(out.size):\n"
                                  f"        out[i] = k_{row.name}({items})\n")
    return "\n".join(parts.values())


COMPUTED = [row for row in PER_ELEMENT if row.name != "cast"]


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    module = ModuleType("kernels")
    exec(compile(kernel_source(COMPUTED), "<kernels>", "exec"), module.__dict__)
    return module


def check_code(row: Op, module: ModuleType) -> None:
    """The generated scalar expression, compiled, is the reference: over the domain and at the edges."""
    columns = inside(row, (50,))
    if row.edges:
        columns = [np.concatenate(c) for c in zip(columns, at_edges(row), strict=True)]
    with np.errstate(all="ignore"):
        wanted = np.asarray(row.reference(*columns))                  # type: ignore[misc]
    got = np.empty_like(wanted)
    getattr(module, f"loop_{row.name}")(*columns, got)
    assert_close(got, wanted, rtol=2e-14, atol=1e-300 if row.name != "lgamma" else 1e-15)       # lgamma has a root at 2


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row.name)
def test_code(row: Op, kernels: ModuleType) -> None:
    check_code(row, kernels)


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row.name)
def test_code_is_plain_python(row: Op, kernels: ModuleType) -> None:
    columns = inside(row, (10,))
    got = [getattr(kernels, f"k_{row.name}").py_func(*(c[i].item() for c in columns)) for i in range(10)]
    wanted = np.asarray(row.reference(*columns))                      # type: ignore[misc]
    assert_close(np.array(got), wanted, rtol=2e-14, atol=0.0)


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row.name)
def test_code_keeps_float32(row: Op, kernels: ModuleType) -> None:
    import numba
    scalars = tuple(c[()] for c in inside(row, (), np.float32))
    wanted = np.asarray(row.reference(*scalars))                      # type: ignore[misc]
    kernel = getattr(kernels, f"n_{row.name}")
    got = kernel(*scalars)
    (signature,) = kernel.nopython_signatures
    assert signature.return_type == numba.from_dtype(wanted.dtype), f"{row.name}: set `promotes`"
    assert_close(np.asarray(got, wanted.dtype), wanted, rtol=1e-6, atol=0.0)


# ---------------------------------------------------------------------------------------------------- partials
WEIGHTS = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


def differences(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> np.ndarray:
    """Eighth-order central differences, entry by entry."""
    total = np.zeros_like(np.asarray(f(x), dtype=np.float64))
    for k, weight in WEIGHTS:
        total = total + weight * (np.asarray(f(x + k * step), np.float64) - np.asarray(f(x - k * step), np.float64))
    return np.asarray(total / step)


def partials_at(row: Op, operands: tuple[np.ndarray, ...]) -> list[np.ndarray | None]:
    """The row's partials, interpreted."""
    with Builder("f") as b:
        params = [b.parameter(f"x{k}", type_of(x)) for k, x in enumerate(operands)]
        y = b.emit(row.name, tuple(params))
        assert row.partials is not None
        found = [Literal(float(p), DType.f64) if isinstance(p, (int, float)) else p for p in row.partials(y, *params)]
        function = b.finish(tuple(p for p in found if p is not None))
    values = iter(interpret(function, operands))
    return [None if p is None else np.broadcast_to(next(values), operands[0].shape) for p in found]


def check_partials(row: Op) -> None:
    """Partials against differences of the reference. Points near a jump are left out: there two step sizes disagree."""
    operands = inside(row, (60,))
    assert row.reference is not None
    for k, partial in enumerate(partials_at(row, operands)):
        if partial is None:
            continue

        def moved(x: np.ndarray, k: int = k) -> np.ndarray:
            return np.asarray(row.reference(*operands[:k], x, *operands[k + 1:]))      # type: ignore[misc]

        with np.errstate(all="ignore"):
            wide, narrow = differences(moved, operands[k], 4e-3), differences(moved, operands[k], 3e-3)
        smooth = np.isclose(wide, narrow, rtol=1e-7, atol=1e-8)
        assert smooth.mean() > 0.5, f"{row.name}: the domain is too near to jumps"
        assert_close(partial[smooth], narrow[smooth], rtol=1e-6, atol=1e-8)


PARTIALS = [row for row in EVERY if row.partials is not None]


@pytest.mark.parametrize("row", PARTIALS, ids=lambda row: row.name)
def test_partials(row: Op) -> None:
    check_partials(row)


TAILS: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "exp": (mp.exp, [-700.0, 700.0]), "expm1": (mp.expm1, [-50.0, -700.0, 1e-12]), "log": (mp.log, [1e-300, 1e300]),
    "log1p": (mp.log1p, [-0.999999, 1e-15, 1e200]), "log2": (lambda x: mp.log(x, 2), [1e-200, 1e200]),
    "log10": (mp.log10, [1e-200]), "tanh": (mp.tanh, [1e-9, 5.0, 20.0, -40.0, 300.0]),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), [-700.0, -40.0, 40.0, 700.0]),
    "asin": (mp.asin, [0.999999999, -0.99999999999]), "acos": (mp.acos, [0.999999999]), "atan": (mp.atan, [1e8, 1e-9]),
    "asinh": (mp.asinh, [1e-9, 1e200, -1e10]), "acosh": (mp.acosh, [1.0000001, 1e200]),
    "atanh": (mp.atanh, [0.99999999, -0.999999999]), "erf": (mp.erf, [5.0, -10.0, 25.0]), "erfc": (mp.erfc, [5.0, 20.0]),
    "sqrt": (mp.sqrt, [1e-300, 1e300]), "cbrt": (mp.cbrt, [1e-200]),
    "tan": (mp.tan, [1.5707, 1e-9]), "lgamma": (mp.loggamma, [1e-8, 1e8, 1.4616321449683622]),
    "exp2": (lambda x: mp.mpf(2)**x, [-1000.0, 1023.9, 1024.0, 1024.5]),
    "digamma": (mp.digamma, [1e-8, 1e8, 0.3]), "sinh": (mp.sinh, [700.0, 1e-9]),
    "cosh": (mp.cosh, [700.0, 1e-9]), "softplus": (lambda x: mp.log(1 + mp.exp(x)), [-700.0, -40.0, 1e-9, 40.0, 700.0, 1e4]),
    "odds_against": (lambda x: 1 / (1 + mp.exp(x)), [-700.0, -40.0, 1e-9, 40.0, 700.0]),
}


def check_accuracy(row: Op, ulps: float = 16.0) -> None:
    """Partials against hundreds of digits, where the value has lost its own."""
    exact, points = TAILS[row.name]
    (got,) = partials_at(row, (np.array(points),))
    assert got is not None
    digits = 60 if row.name in ("digamma", "lgamma") else 900                # 900: tanh is 1 - 1e-260 at 300
    with mp.workdps(digits):
        wanted = [mp.diff(exact, mp.mpf(x), h=mp.mpf(10)**(-digits // 4) * abs(mp.mpf(x))) for x in points]
        errors = [abs(mp.mpf(float(g)) / w - 1) / mp.mpf(2)**-52 for g, w in zip(got, wanted, strict=True)]
    assert max(errors) < ulps, f"{row.name}: partials are off by {[float(e) for e in errors]} ulps at {points}"


@pytest.mark.parametrize("name", TAILS)
def test_accuracy_of_partials(name: str) -> None:
    check_accuracy(TABLE[name])


CONVENTIONS: list[tuple[str, tuple[float, ...], tuple[float | None, ...]]] = [
    ("abs", (0.0,), (0.0,)), ("abs", (-2.0,), (-1.0,)), ("maximum", (1.0, 1.0), (0.5, 0.5)), ("minimum", (0.0, 0.0), (0.5, 0.5)),
    ("maximum", (2.0, 1.0), (1.0, 0.0)), ("minimum", (2.0, 1.0), (0.0, 1.0)), ("hypot", (0.0, 0.0), (0.0, 0.0)),
    ("hypot", (3e200, -4e200), (0.6, -0.8)), ("hypot", (3e-200, 4e-200), (0.6, 0.8)), ("sqrt", (0.0,), (INF,)),
    ("sqrt0", (0.0,), (0.0,)), ("pow", (0.0, 2.0), (0.0, 0.0)), ("pow", (0.0, 1.0), (1.0, 0.0)),
    ("pow", (0.0, 0.0), (0.0, -INF)), ("pow", (0.0, 0.5), (INF, 0.0)),
    ("pow", (-2.0, 3.0), (12.0, NAN)), ("pow", (0.0, 3.0), (0.0, 0.0)), ("powi", (0.0, 0), (0.0, None)),
    ("powi", (0.0, 1), (1.0, None)), ("powi", (0.0, 2), (0.0, None)), ("powi", (-2.0, 3), (12.0, None)),
    ("powi", (-2.0, -1), (-0.25, None)), ("cbrt", (0.0,), (INF,)),
    ("mod", (5.5, 2.0), (1.0, -2.0)), ("mod", (-5.5, 2.0), (1.0, 3.0)), ("fmod", (-5.5, 2.0), (1.0, 2.0)),
    ("copysign", (0.0, -1.0), (0.0, 0.0)), ("logaddexp", (-INF, -INF), (0.5, 0.5)), ("logaddexp", (-INF, 0.0), (0.0, 1.0)),
    ("logaddexp", (1e3, 1e3), (0.5, 0.5)), ("logaddexp", (800.0, 0.0), (1.0, math.exp(-700) * math.exp(-100))),
    ("xlogy", (0.0, 0.0), (-INF, 0.0)), ("xlogy", (0.0, 2.0), (math.log(2), 0.0)),
    ("atan2", (0.0, -1.0), (-1.0, 0.0)), ("atan2", (1e200, 0.0), (0.0, -1e-200)), ("strong_mul", (0.0, 3.0), (3.0, 0.0)),
    ("tanh", (800.0,), (0.0,)), ("sigmoid", (-800.0,), (0.0,)), ("erf", (40.0,), (0.0,)), ("log", (0.0,), (INF,)),
    ("exp", (-INF,), (0.0,)), ("log0", (0.0,), (0.0,)), ("softplus", (INF,), (1.0,)), ("odds_against", (800.0,), (0.0,)),
    ("odds_against", (-INF,), (0.0,)), ("exp2", (1025.0,), (INF,)),
]


@pytest.mark.parametrize(("name", "at", "wanted"), CONVENTIONS, ids=str)
def test_conventions(name: str, at: tuple[float, ...], wanted: tuple[float | None, ...]) -> None:
    operands = tuple(np.array([x]) for x in at)
    for got, expected in zip(partials_at(TABLE[name], operands), wanted, strict=True):
        assert (got is None) == (expected is None)
        if got is not None:
            assert_close(got, np.array([expected]), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5])
def test_powers_of_literals(exponent: float) -> None:
    x = np.array([0.0, -2.0, 1.5])
    for op, number in (("pow", exponent), *([("powi", exponent)] if exponent.is_integer() else [])):
        with Builder("f") as b:
            p = b.parameter("x", type_of(x))
            k = Literal(number, DType.f64) if op == "pow" else Literal(int(number), DType.i64)
            function = b.finish((b.emit(op, (p, k)),))
        with np.errstate(all="ignore"):
            wanted = exponent * x**(exponent - 1) if exponent else np.zeros(3)
        assert_close(interpret(vjp(function, (0,)), (x, np.ones(3)))[1], wanted)


@pytest.mark.parametrize("row", [row for row in PARTIALS if row.singular and row.edges], ids=lambda row: row.name)
def test_a_zero_cotangent_stays_zero(row: Op) -> None:
    operands = at_edges(row)
    wrt = floats(operands)
    results = interpret(vjp(function_of(row, operands, {}), wrt), (*operands, np.zeros_like(operands[0])))
    for gradient in results[1:]:
        assert_close(gradient, np.zeros_like(gradient))


# ---------------------------------------------------------------------------------------------------- derivatives of functions
def tangents_of(operands: tuple[Any, ...], wrt: tuple[int, ...], name: str) -> tuple[np.ndarray, ...]:
    """Random directions."""
    rng = random(name)
    return tuple(np.asarray(rng.normal(size=np.shape(operands[k])), np.asarray(operands[k]).dtype)[()] for k in wrt)


def inner(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
    return float(sum(np.sum(np.asarray(x, np.float64) * y) for x, y in zip(a, b, strict=True)))


def check_duality(row: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    """<ct, J t> = <J^T ct, t>: jvp and vjp are of the same matrix."""
    wrt = floats(operands)
    function = function_of(row, operands, attributes)
    if not wrt or not function.results[0].type.dtype.is_float:
        return
    tangents = tangents_of(operands, wrt, "t" + row.name)
    forward = interpret(checked(jvp(function, wrt)), (*operands, *tangents))
    cotangent = tangents_of((forward[0],), (0,), "ct" + row.name)
    backward = interpret(checked(vjp(function, wrt)), (*operands, *cotangent))
    for gradient, k in zip(backward[1:], wrt, strict=True):
        assert type_of(gradient) == type_of(operands[k])
    narrow = function.results[0].type.dtype is DType.f32
    assert_close(inner(cotangent, (forward[1],)), inner(backward[1:], tangents), rtol=1e-5 if narrow else 1e-11, atol=1e-11)


def checked(function: Function) -> Function:
    """The function, verified."""
    verify(function)
    return function


def check_jvp(row: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    """The tangent against differences along a direction."""
    wrt = floats(operands)
    function = function_of(row, operands, attributes)
    if not wrt or function.results[0].type.dtype is not DType.f64:
        return
    tangents = tangents_of(operands, wrt, "t" + row.name)
    got = interpret(jvp(function, wrt), (*operands, *tangents))[1]
    assert_close(got, along(function, operands, wrt, tangents)[0], rtol=2e-6, atol=1e-7)


def along(function: Function, operands: tuple[Any, ...], wrt: tuple[int, ...], tangents: tuple[Any, ...]) -> list[np.ndarray]:
    """Differences of all results of a function along a direction."""
    def moved(step: float) -> tuple[Any, ...]:
        changed = list(operands)
        for k, t in zip(wrt, tangents, strict=True):
            changed[k] = changed[k] + step * t
        return interpret(function, changed)

    sides = [(weight, moved(k * 1e-3), moved(-k * 1e-3)) for k, weight in WEIGHTS]
    return [np.asarray(sum(w * (a[i] - b[i]) for w, a, b in sides) / 1e-3) for i in range(len(function.results))]


JUMPS = {"mod", "fmod", "floordiv"}               # differences along a direction may cross a jump: their partials are tested


@pytest.mark.parametrize(("row", "case"), SMOOTH)
def test_duality(row: Op, case: Case) -> None:
    check_duality(row, *case)


@pytest.mark.parametrize(("row", "case"), [p for p in SMOOTH if p.values[0].name not in JUMPS])    # type: ignore[union-attr]
def test_jvp(row: Op, case: Case) -> None:
    check_jvp(row, *case)


@pytest.mark.parametrize(("row", "case"), [p for p in SMOOTH if p.values[0].name not in JUMPS])    # type: ignore[union-attr]
def test_second_derivative(row: Op, case: Case) -> None:
    """The jvp of the vjp against differences of the vjp."""
    operands, attributes = case
    function = function_of(row, operands, attributes)
    wrt = floats(operands)
    if not wrt or function.results[0].type.dtype is not DType.f64:
        return
    first = vjp(function, wrt)
    arguments = (*operands, *tangents_of((interpret(function, operands)[0],), (0,), "ct" + row.name))
    tangents = tangents_of(operands, wrt, "t" + row.name)
    second = interpret(checked(jvp(first, wrt)), (*arguments, *tangents))
    got = second[len(first.results):]
    for g, wanted in zip(got, along(first, arguments, wrt, tangents), strict=True):
        assert_close(g, wanted, rtol=5e-6, atol=1e-6)


# ---------------------------------------------------------------------------------------------------- particular rows
@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("op", ["reduce_prod", "cumprod"])
def test_products_with_zeros(op: str, zeros: tuple[int, ...]) -> None:
    x = np.array([2.0, 3.0, -1.5, 4.0])
    x[list(zeros)] = 0.0
    attributes: dict[str, Any] = {"axes": (0,)} if op == "reduce_prod" else {"axis": 0, "reverse": False}
    function = function_of(TABLE[op], (x,), attributes)
    ct = np.array([1.0, 0.5, -2.0, 3.0]) if op == "cumprod" else np.float64(3.0)
    (_, got) = interpret(vjp(function, (0,)), (x, ct))
    others = [[np.prod(np.delete(x[:n + 1], i)) if i <= n else 0.0 for i in range(4)] for n in range(4)]
    assert_close(got, np.asarray(others[3]) * 3.0 if op == "reduce_prod" else ct @ np.array(others))


def test_product_does_not_overflow_needlessly() -> None:
    x = np.array([1e-200, 1e200, 1e150, 1e-150])
    (_, got) = interpret(vjp(function_of(TABLE["reduce_prod"], (x,), {"axes": (0,)}), (0,)), (x, np.float64(1.0)))
    assert_close(got, 1.0 / x)


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_ties_share_equally(op: str) -> None:
    x = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 2.0, 2.0, 0.0]])
    (_, got) = interpret(vjp(function_of(TABLE[op], (x,), {"axes": (1,)}), (0,)), (x, np.ones(2)))
    at = x == x.max(1, keepdims=True) if op == "reduce_max" else x == x.min(1, keepdims=True)
    assert_close(got, at / at.sum(1, keepdims=True))


def test_last_write_wins() -> None:
    base, places, updates = np.zeros(4), np.array([1, 3, 1, 1]), np.array([5.0, 6.0, 7.0, 8.0])
    function = function_of(TABLE["scatter_set"], (base, places, updates), {"axes": (0,)})
    value, base_bar, updates_bar = interpret(vjp(function, (0, 2)), (base, places, updates, np.array([1.0, 2.0, 3.0, 4.0])))
    assert_same(value, np.array([0.0, 8.0, 0.0, 6.0]))
    assert_same(base_bar, np.array([1.0, 0.0, 3.0, 0.0]))
    assert_same(updates_bar, np.array([0.0, 4.0, 0.0, 2.0]))


@pytest.mark.parametrize(("index", "raises"), [(2, False), (-3, False), (3, True), (-4, True)])
def test_wrap_index(index: int, raises: bool, kernels: ModuleType) -> None:
    from adcompile.ops.support import wrap_index
    for wrap in (lambda: TABLE["wrap_index"].reference(np.int64(index), dim=3),  # type: ignore[misc]
                 lambda: wrap_index(index, 3)):
        if raises:
            with pytest.raises(IndexError):
                wrap()
        else:
            assert wrap() == index % 3


@pytest.mark.parametrize(("x", "k"), [(0.01, 1), (2.5, 1), (1e6, 1), (3.0, 2), (0.5, 5), (-0.75, 1), (-0.75, 2), (40.0, 3)])
def test_polygamma(x: float, k: int) -> None:
    assert_close(TABLE["polygamma"].reference(np.array([x]), k),  # type: ignore[misc]
                 np.array([float(mp.polygamma(k, x))]), rtol=1e-13)


@pytest.mark.parametrize("x", [1e-8, 0.3, 1.45, 1.4616321449683622, 1.47, 3.0, 50.0, 1e9, -0.5, -3.7])
def test_digamma(x: float) -> None:
    assert_close(TABLE["digamma"].reference(np.array([x])),  # type: ignore[misc]
                 np.array([float(mp.digamma(x))]), rtol=2e-14)


def test_slices_stay_inside() -> None:
    with pytest.raises(IndexError):
        TABLE["slice"].reference(np.ones(3), starts=(1,), steps=(1,), dims=(3,))  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------------- linear rows, traits
LINEAR = [p for p in ALL_CASES if p.values[0].kind == "linear"]                      # type: ignore[union-attr]


def check_linearity(row: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    """T(a + 2b) = T(a) + 2 T(b) in all linear operands at once (`joint`) or in one at a time."""
    assert row.reference is not None
    count = len(operands)
    linear = [k % count for k in row.transpose if np.asarray(operands[k]).dtype.kind == "f"]
    for group in ([linear] if row.joint else [[k] for k in linear]):
        others = tangents_of(operands, tuple(group), "l" + row.name)
        second, mixed = list(operands), list(operands)
        for k, b in zip(group, others, strict=True):
            second[k], mixed[k] = b, operands[k] + 2 * b
        T = [np.asarray(row.reference(*x, **plain(attributes))) for x in (operands, second, mixed)]
        if T[0].dtype.kind == "f":
            assert_close(T[2], T[0] + 2 * T[1], rtol=1e-6 if T[0].dtype == np.float32 else 1e-12,
                         atol=1e-6 if T[0].dtype == np.float32 else 1e-12)


@pytest.mark.parametrize(("row", "case"), LINEAR)
def test_linearity(row: Op, case: Case) -> None:
    check_linearity(row, *case)


@pytest.mark.parametrize("row", [row for row in COMPUTED if row.commutative or row.involution or row.identity is not None],
                         ids=lambda row: row.name)
def test_traits(row: Op) -> None:
    assert row.reference is not None
    operands = inside(row, (20,))
    with np.errstate(all="ignore"):
        if row.commutative:
            assert_same(row.reference(*operands), row.reference(*reversed(operands)))
        if row.involution:
            assert_same(row.reference(row.reference(*operands)), operands[0])
        if row.identity is not None:
            assert_same(row.reference(operands[0], np.full(20, row.identity)), operands[0])


def test_dims_decide_elementwise_types() -> None:
    n = Dim.symbol("n")
    with Builder("f") as b:
        x = b.parameter("x", Type.of(DType.f64, n))
        y = b.emit("add", (x, 1.0))
        assert isinstance(y, Value) and y.type == x.type
        with pytest.raises(ValueError, match="another operand"):
            b.emit("add", (x, b.parameter("z", Type.of(DType.f64, n + 1))))
