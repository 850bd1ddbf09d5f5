"""SymPy expressions as a front door: values and gradients against SymPy's own, structure, names, refusals."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from conftest import assert_close

import adcompile as ad
from adcompile import CaptureError, DifferentiationError, ShapeError, UnsupportedOp, compile_grad, compile_value
from adcompile.capture.sympy_expr import capture_sympy
from adcompile.ir.core import Function, walk
from adcompile.ir.interpreter import interpret
from adcompile.pipeline import Options, compile_function

sp = pytest.importorskip("sympy")
x, y, a, b = sp.symbols("x y a b")
R = sp.Rational


def graph_of(expr: Any, wrt: Any, args: Any) -> Function:
    """The optimised graph of value and gradient."""
    captured = capture_sympy(expr, wrt, args)
    return compile_function(captured, Options(wrt is not None), until="dce").stages[-1].value


def interpreted(expr: Any, args: list[Any], point: tuple[float, ...]) -> list[Any]:
    """Value and gradient by the interpreter, after all passes."""
    with np.errstate(all="ignore"):
        return list(interpret(graph_of(expr, args, args), [float(p) for p in point]))


def exact(expr: Any, point: dict[Any, float]) -> float:
    """SymPy's own number."""
    return float(sp.N(expr.subs({s: sp.Float(p, 40) for s, p in point.items()}), 30))


EXPRESSIONS: list[tuple[Any, tuple[float, float]]] = [
    *[(e, (0.5, 2.0)) for e in (
        3 * x + y, x - y, -x - y - 3, y - x * 2 + 1, -x * y / 3, x / y, 2 * x / (3 * y), 1 / (x * y**2), x**2 / y**3, x**-3)],
    *[(e, (-1.5, 2.0)) for e in (1 / (x * y**2), x**2 / y**3, x**-3, x**7, x**sp.Float(2.0))],
    *[(e, (0.7, 1.3)) for e in (
        sp.sqrt(x), 1 / sp.sqrt(x + y), x**R(3, 2), x**R(-2, 3), sp.cbrt(x), x**y, x**sp.Float(2.5), x**sp.pi, 2**x, 10**x, x**-y,
        R(1, 3) * x, sp.Float(0.1) * x - sp.pi * y + sp.E, sp.exp(-x**2 / 2), sp.exp(x) - 1, sp.log(x), sp.log(x, 10),
        sp.log(x, y), sp.log(1 + sp.exp(x)), sp.exp(sp.sin(x) * y))],
    (sp.log(1 + x**2), (1e-5, 0.0)), (sp.log(1 - x), (1e-9, 0.0)),
    *[(f(x * y), (0.6, 1.1)) for f in (
        sp.sin, sp.cos, sp.tan, sp.sec, sp.csc, sp.cot, sp.asin, sp.acos, sp.atan, sp.acot, sp.sinh, sp.cosh, sp.tanh, sp.sech,
        sp.csch, sp.coth, sp.asinh, sp.atanh, sp.asech, sp.acsch, sp.sinc, sp.erf, sp.erfc, sp.gamma, sp.loggamma, sp.digamma,
        sp.trigamma, sp.factorial)],
    *[(f(x), (2.3, 0.0)) for f in (sp.asec, sp.acsc, sp.acosh, sp.acoth, sp.sech, sp.csch, sp.acot)],
    *[(f(x), (-1.7, 0.0)) for f in (sp.acot, sp.csch, sp.sech, sp.coth, sp.acsch)],
    (sp.beta(x, y), (0.7, 1.3)), (sp.beta(x, y), (-0.3, 1.3)), (sp.beta(x, y), (120.5, 90.25)), (sp.binomial(x, y), (5.5, 2.25)),
    (sp.rf(x, y), (1.7, 0.6)), (sp.ff(x, y), (3.7, 0.6)), (sp.polygamma(2, x), (1.7, 0.0)), (sp.atan2(y, x), (-0.5, 0.3)),
    (sp.Max(x, y, x * y), (0.5, 3.0)), (sp.Min(x, y, 0.25), (0.5, 3.0)),
    (sp.Piecewise((x**2, x < y), (sp.sin(x), True)), (0.5, 2.0)), (sp.Piecewise((x**2, x < y), (sp.sin(x), True)), (2.5, 2.0)),
    (sp.Piecewise((1, x < 0), (y, (x < 1) & (y > 0)), (x * y, (x > 5) | sp.Ne(y, 2)), (0, True)), (0.5, 3.0)),
    (sp.Piecewise((x, sp.Xor(x > 0, y > 0)), (y, ~(x > 0)), (x * y, True)), (0.5, 3.0)),
    ((x + y)**2 / (1 + sp.exp(-(x + y))) - sp.sqrt((x + y)**2 + 1), (0.5, 0.25)),
]


@pytest.mark.parametrize(("expr", "at"), EXPRESSIONS, ids=lambda v: str(v) if isinstance(v, sp.Basic) else "")
def test_value_and_gradient(expr: Any, at: tuple[float, float]) -> None:
    point = dict(zip((x, y), at))
    known = expr.rewrite(sp.gamma) if expr.has(sp.rf, sp.ff) else expr              # which SymPy does not differentiate
    wanted = [exact(known, point), *(exact(known.diff(s), point) for s in (x, y))]
    assert_close(interpreted(expr, [x, y], at), wanted, rtol=1e-12, atol=1e-14)


def test_compiled_is_interpreted() -> None:
    some = [expr for expr, _ in EXPRESSIONS[::6]]
    point = (0.61, 1.2)
    f = compile_value(some, args=[x, y])
    assert_close(f(*point), [interpreted(expr, [x, y], point)[0] for expr in some])


@pytest.mark.parametrize(("expr", "at", "value", "slope"), [
    (sp.Abs(x), -0.5, 0.5, -1.0), (sp.Abs(x), 0.0, 0.0, 0.0), (sp.sign(x), -2.0, -1.0, 0.0), (sp.ceiling(x), 1.2, 2.0, 0.0),
    (x - sp.floor(x), 2.75, 0.75, 1.0), (sp.frac(x), 2.75, 0.75, 1.0), (sp.Mod(x, 2), -7.5, 0.5, 1.0),
    (sp.Mod(7, x), 2.0, 1.0, -3.0),
    (sp.Heaviside(x), 0.0, 0.5, 0.0), (sp.Heaviside(x), 2.0, 1.0, 0.0), (sp.Heaviside(x, 1), 0.0, 1.0, 0.0),
    (sp.SingularityFunction(x, 1, 2), 3.0, 4.0, 4.0), (sp.SingularityFunction(x, 1, 2), 0.5, 0.0, 0.0),
    (sp.SingularityFunction(x, 1, 0), 1.0, 1.0, 0.0), (sp.KroneckerDelta(x, 2), 2.0, 1.0, 0.0),
    (sp.erf2(x, 1), 0.0, math.erf(1.0), -2 / math.sqrt(math.pi)), (sp.Max(x, 0), 0.0, 0.0, 0.5),
    (sp.acot(x), 0.0, math.pi / 2, -1.0), (sp.sinc(x), 0.0, 1.0, 0.0), (sp.sech(x), 800.0, 0.0, 0.0),
    (sp.csch(x), -800.0, 0.0, 0.0),
    (sp.re(x) + sp.im(x), 3.0, 3.0, 1.0),
    (x**2, 0.0, 0.0, 0.0), (x**R(3, 2), 0.0, 0.0, 0.0), (sp.exp(-1 / x**2), 1e-3, 0.0, 0.0), (sp.sqrt(x**2), 0.0, 0.0, 0.0),
])
def test_special_places(expr: Any, at: float, value: float, slope: float) -> None:
    assert_close(interpreted(expr, [x], (at,)), [value, slope])


def test_not_a_number_stays_one() -> None:
    for expr in (sp.Heaviside(x), sp.sign(x), sp.Max(x, 0), sp.Min(x, 0)):
        assert math.isnan(interpreted(expr, [x], (math.nan,))[0])
    assert math.isnan(interpreted(sp.loggamma(x), [x], (-0.5,))[0])


# ---------------------------------------------------------------------------------------------------- Piecewise
@pytest.mark.parametrize(("at", "value", "slope"), [
    (0.0, 0.0, 1.0), (-1e-300, -1e-300, 1.0), (1.0 - 2.0**-53, 1.0 - 2.0**-53, 1.0), (1.0, 1.0, 2.0), (2.0, 4.0, 4.0),
    (2.5, math.nan, math.nan), (math.nan, math.nan, math.nan)])
def test_boundaries_of_piecewise(at: float, value: float, slope: float) -> None:
    """The first condition that holds decides; where none does the value is NaN."""
    expr = sp.Piecewise((x, x < 1), (x**2, x <= 2), evaluate=False)
    assert_close(interpreted(expr, [x], (at,)), [value, slope], atol=0.0)


def test_where_no_condition_holds_there_is_no_derivative() -> None:
    """In any argument that a value or a condition depends on; elsewhere the derivative stays what it is."""
    expr = sp.Piecewise((1, x < 1), (y, sp.And(x < 2, a > 0)), evaluate=False) + b**2
    assert_close(interpreted(expr, [x, y, a, b], (3.0, 1.0, 1.0, 2.0)), [math.nan] * 4 + [4.0])
    assert interpreted(expr, [x, y, a, b], (1.5, 7.0, 1.0, 2.0)) == [11.0, 0.0, 1.0, 0.0, 4.0]
    assert interpreted(expr, [x, y, a, b], (0.5, math.inf, 1.0, 2.0)) == [5.0, 0.0, 0.0, 0.0, 4.0]


@pytest.mark.parametrize("other", [sp.log(x), sp.sqrt(x), 1 / x, x**R(1, 3), sp.acos(x - 3), sp.exp(sp.exp(-2000 * x))], ids=str)
def test_a_branch_not_taken_does_not_leak(other: Any) -> None:
    expr = sp.Piecewise((other * y, x > 0), (2 * x + y, True))
    for at in (0.0, -1.0):
        assert interpreted(expr, [x, y], (at, 3.0)) == [2 * at + 3.0, 2.0, 1.0]


def test_conditions_as_values() -> None:
    f = compile_value((x > y, sp.Eq(x, y), sp.ITE(x > 0, y > 0, y < 0), sp.true), args=[x, y])
    assert f(1.0, 1.0) == (False, True, True, True)
    assert f(-1.0, 1.0) == (False, False, False, True)
    g = compile_value((sp.Implies(x > 0, y > 0), sp.Equivalent(x > 0, y > 0, x > y), sp.Nand(x > 0, y > 0), sp.Nor(x > 0, y > 0),
                       sp.Xor(x > 0, y > 0, x > y)), args=[x, y], debug=True)
    assert g(1.0, -1.0) == (False, False, True, False, False)
    assert g(2.0, 1.0) == (True, True, False, False, True)


# ---------------------------------------------------------------------------------------------------- sharing
def nested(depth: int) -> Any:
    """z -> z**2 + x, many times: a tree of 2**depth leaves if it were expanded."""
    z = x
    for _ in range(depth):
        z = sp.Add(sp.Pow(z, 2, evaluate=False), y, evaluate=False)
    return z


def test_shared_subexpressions_stay_shared() -> None:
    sizes = [len(list(walk(graph_of(nested(depth), [x, y], [x, y]).body))) for depth in (50, 100, 200)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])
    assert sizes[2] < 200 * 6


def test_source_of_a_deep_expression_is_linear() -> None:
    captured = capture_sympy(nested(200), [x], [x, y])
    source = compile_function(captured, Options(), until="emit").stage("source")
    assert len(source.splitlines()) < 700


def test_depth_is_no_limit() -> None:
    z = x
    for _ in range(3000):
        z = sp.sin(z, evaluate=False)
    captured = capture_sympy(z, None, [x])
    assert len(captured.function.body.operations) == 3000


# ---------------------------------------------------------------------------------------------------- arguments
def test_names_become_identifiers() -> None:
    t = sp.Symbol("t")
    q = sp.Function("q")
    symbols = [sp.Symbol("\\theta_{1}"), sp.Symbol("x'"), sp.Symbol("lambda"), x, sp.Dummy("x"), sp.Symbol("β"), sp.Symbol("x₁"),
               q(t), q(t).diff(t), q(t).diff(t, 2), sp.Symbol("abs"), sp.Symbol("2a")]
    captured = capture_sympy(sum(s**2 for s in symbols), symbols, symbols)
    names = list(captured.signature.python.parameters)
    assert names == ["theta_1", "x_prime", "x_lambda", "x", "x_1", "β", "x1", "q", "q_dot", "q_ddot", "abs", "x_2a"]


def test_functions_of_time() -> None:
    t = sp.Symbol("t")
    q = sp.Function("q")(t)
    f = compile_grad(q.diff(t)**2 / 2 + sp.cos(q), wrt=[q, q.diff(t)], args=[q, q.diff(t)])
    assert_close(f(0.5, 2.0), (2.0 + math.cos(0.5), (-math.sin(0.5), 2.0)))


def test_vectors_and_matrices_of_symbols() -> None:
    p = sp.symbols("p0:3")
    A = sp.Matrix(2, 2, sp.symbols("A:2:2"))
    expr = p[0] * A[0, 1] + p[2]**2 * a + A.det()
    f = compile_grad(expr, wrt=[p, A], args=[p, a, A], name="energy")
    assert str(f.__signature__) == "(p, a, A)"
    values, matrix = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]])
    value, (in_p, in_A) = f(values, 0.5, matrix)
    assert value == 2.0 + 4.5 - 2.0
    assert_close((in_p, in_A), (np.array([2.0, 0.0, 3.0]), np.array([[4.0, -3.0 + 1.0], [-2.0, 1.0]])))
    assert "def energy(p, a, A)" in f.source


def test_one_wrt_gives_the_gradient_alone() -> None:
    p = sp.symbols("p0:2")
    for wrt in (x, 0, "x"):
        assert capture_sympy(x * y, wrt, [x, y]).signature.single_wrt
    assert capture_sympy(p[0] * y, p, [p, y]).signature.single_wrt
    assert capture_sympy(p[0] * y, sp.Matrix(p), [p, y]).signature.single_wrt
    assert not capture_sympy(x * y, [x], [x, y]).signature.single_wrt
    assert capture_sympy(x * y, -1, [x, y]).signature.wrt[0].index == 1


def test_args_default_to_wrt() -> None:
    assert compile_grad(x**2 * y, wrt=[x, y], debug=True)(2.0, 3.0) == (12.0, (12.0, 4.0))
    assert compile_grad(x**2, wrt=x, debug=True)(2.0) == (4.0, 4.0)


def test_matrix_symbols() -> None:
    A = sp.MatrixSymbol("A", 2, 2)
    f = compile_grad((A.as_explicit().T * A.as_explicit()).trace(), wrt=A, args=[A], debug=True)
    value, gradient = f(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert value == 30.0
    assert_close(gradient, np.array([[2.0, 4.0], [6.0, 8.0]]))


# ---------------------------------------------------------------------------------------------------- results
def test_lists_tuples_and_matrices() -> None:
    expr = [sp.Matrix([[x, y, 1], [x * y, 2, x]]), (x + y, 3), sp.Matrix([x, y]), sp.Array([x, y])]
    got = compile_value(expr, args=[x, y], debug=True)(2.0, 5.0)
    wanted = [np.array([[2.0, 5.0, 1.0], [10.0, 2.0, 2.0]]), (7.0, 3.0), np.array([[2.0], [5.0]]), np.array([2.0, 5.0])]
    assert_close(got, wanted)


def test_aux() -> None:
    f = compile_grad((x**2, x * y), wrt=x, args=[x, y], has_aux=True, debug=True)
    assert f(2.0, 3.0) == ((4.0, 6.0), 4.0)


def test_constants() -> None:
    assert compile_grad(sp.Integer(3), wrt=x, args=[x], debug=True)(1.0) == (3.0, 0.0)
    f = compile_value([sp.pi, sp.oo, R(1, 3), sp.GoldenRatio], args=[], debug=True)
    assert f() == [math.pi, math.inf, 1 / 3, (1 + 5**0.5) / 2]


def test_the_object() -> None:
    f = compile_grad(x**2 * a, wrt=x, args=[x, a])
    assert f(3, 2) == (18.0, 12.0)
    assert f(np.float64(3), 2.0) == f(np.array(3.0), 2) == f(x=3.0, a=2.0) == (18.0, 12.0)
    assert f.value(3.0, 2.0) == 18.0
    assert f.grad(3.0, 2.0) == 12.0
    assert len(f.specialisations) == 1
    assert pickle.loads(pickle.dumps(f))(3.0, 2.0) == (18.0, 12.0)
    assert ad.check_grad(f, 3.0, 2.0)


def test_whole_numbers_do_not_take_the_slow_path() -> None:
    names = sp.symbols("float int type out")
    f = compile_grad(names[0]**2 * names[1] + names[2] * names[3] + b, wrt=names[0], args=[*names, [a, b]])
    b_is_one = np.array([0.0, 1.0])
    assert f(3.0, 2.0, 1.0, 1.0, b_is_one) == (20.0, 12.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f.dispatch, "find_or_make", lambda *call: pytest.fail(f"{call} took the slow path"))
        assert f(3, 2, 1, 1.0, b_is_one) == f(3.0, 2, 1, 1, b_is_one) == (20.0, 12.0)
    with pytest.raises(CaptureError, match="an int was passed"):
        f(3, 2, 1, 1, 5)
    with pytest.raises(OverflowError):
        f(10**400, 2, 1, 1, b_is_one)


def test_with_scipy() -> None:
    p = sp.symbols("p0:2")
    f = compile_grad((1 - p[0])**2 + a * (p[1] - p[0]**2)**2, wrt=p, args=[p, a])
    found = scipy.optimize.minimize(f, np.array([-1.2, 1.0]), args=(100.0,), jac=True, method="BFGS")
    assert_close(found.x, np.ones(2), rtol=1e-5)


# ---------------------------------------------------------------------------------------------------- source
@pytest.mark.parametrize(("name", "expr"), [
    ("damped", a * sp.exp(-b * x) * sp.cos(y * x) - x / (1 + x**2)),
    ("hinge", sp.Piecewise((sp.log(x) * y, x > 1), (y * x**2 / 2 - 1, True)) + sp.Max(x, y)),
])
def test_source_reads_like_the_mathematics(name: str, expr: Any, golden: Callable[[str, str], None]) -> None:
    captured = capture_sympy(expr, [x, y], [x, y, a, b], name)
    golden(f"sympy/{name}.py.txt", compile_function(captured, Options(), until="emit").stage("source"))


def operations(expr: Any) -> list[str]:
    """The ops of an expression as captured."""
    return [o.op for o in capture_sympy(expr, None, [x, y]).function.body.operations]


@pytest.mark.parametrize(("expr", "ops"), [
    (x - y, ["sub"]), (-x + y, ["sub"]), (x - 2 * y, ["mul", "sub"]), (x / y, ["div"]), (x - 3, ["sub"]), (1 / x, ["div"]),
    (x / 3, ["div"]), (-x, ["neg"]), (x / sp.sqrt(y), ["sqrt", "div"]), (sp.log(1 + x), ["log1p"]), (x**2, ["powi"]),
    (sp.sqrt(2) * x, ["mul"]), (x / y**2, ["powi", "div"]), (sp.exp(-x), ["neg", "exp"])], ids=str)
def test_operations_are_those_a_person_would_write(expr: Any, ops: list[str]) -> None:
    assert operations(expr) == ops


# ---------------------------------------------------------------------------------------------------- undefined functions
F, G = sp.Function("F"), sp.Function("G")
GAIN = {"value": 2.0}
TABLE = np.array([0.0, 1.0, 4.0, 9.0])


def cubed(u: Any) -> Any:
    return u**3


def mixed(u: Any, v: Any) -> Any:
    return np.sin(u) * v**2


def test_undefined_functions_are_python_functions() -> None:
    f = compile_grad(a * F(x * y) + G(x, F(y)), wrt=[x, y], args=[x, y, a], functions={"F": cubed, G: mixed})
    point = (0.7, 1.2, 1.5)
    formula = a * (x * y)**3 + sp.sin(x) * y**6
    values = dict(zip((x, y, a), point))
    assert_close(f(*point), (exact(formula, values), tuple(exact(formula.diff(s), values) for s in (x, y))))
    assert pickle.loads(pickle.dumps(f))(*point) == f(*point)
    assert_close(f.value(*point), f(*point)[0])


def test_derivatives_that_are_given() -> None:
    """Also where they are not those of the code, also within a Piecewise, and named by SymPy itself."""
    given = {"F": (np.floor, lambda u: 1.0), "G": (mixed, lambda u, v: (10.0 * u, 20.0))}
    f = compile_grad(F(x * y) + G(x, y)**2, wrt=[x, y], args=[x, y], functions=given)
    value, (in_x, in_y) = f(1.5, 2.5)
    assert_close(value, math.floor(3.75) + mixed(1.5, 2.5)**2)
    assert_close((in_x, in_y), (2.5 + 2 * mixed(1.5, 2.5) * 15.0, 1.5 + 2 * mixed(1.5, 2.5) * 20.0))
    assert "stop_gradient" not in str(f.ir) and "with_slope" not in str(f.ir)
    slopes = {"F": (np.log, lambda u: 1 / u)}
    g = compile_grad(sp.Piecewise((F(x), x > 0), (y, True)), wrt=[x, y], args=[x, y], functions=slopes, debug=True)
    assert g(2.0, 3.0) == (math.log(2.0), (0.5, 0.0))
    derivative = (F(x * y) + F(x)).diff(x)                          # of SymPy: Subs(Derivative(F(t), t), t, x*y)*y + F(x)'
    h = compile_grad(derivative, wrt=x, args=[x, y], functions=slopes, debug=True)
    assert_close(h(2.0, 3.0), (1.0, -0.5))


def test_functions_read_what_is_outside_of_them_anew() -> None:
    def series(u: Any) -> Any:
        return np.sum(TABLE * u**np.arange(len(TABLE))) * GAIN["value"]

    f = compile_grad(F(x) + F(2), wrt=x, args=[x, y], functions={"F": series})
    at = np.polynomial.Polynomial(TABLE)
    assert_close(f(1.5, 2.0), (2 * at(1.5) + 2 * at(2.0), 2 * at.deriv()(1.5)))
    GAIN["value"] = 4.0
    try:
        assert_close(f(1.5, 2.0), (4 * at(1.5) + 4 * at(2.0), 4 * at.deriv()(1.5)))
    finally:
        GAIN["value"] = 2.0


@pytest.mark.parametrize(("functions", "error", "text"), [
    ({"F": 3}, CaptureError, "neither a function nor a pair"), ({"G": cubed}, UnsupportedOp, "functions={'F': f}"),
    ({"F": lambda u: np.array([u, u])}, DifferentiationError, "not a real number"),
    ({"F": lambda u: u > 0}, DifferentiationError, "not a real number"),
    ({"F": lambda u: {"a": u}}, CaptureError, "return a number"),
    ({"F": lambda u: (u, u)}, DifferentiationError, "2 numbers, not one"),
    ({"F": (cubed, lambda u: (u, u))}, DifferentiationError, "2 numbers for 1 arguments"),
])
def test_functions_that_do_not_fit(functions: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        compile_grad(F(x) + y, wrt=x, args=[x, y], functions=functions)
    assert text in str(raised.value)


def test_derivatives_that_are_not_given() -> None:
    for expr, functions in ((F(x).diff(x), {"F": cubed}), (F(x).diff(x, 2), {"F": (cubed, cubed)})):
        with pytest.raises(UnsupportedOp, match="Derivative"):
            compile_grad(expr, wrt=x, args=[x], functions=functions)
    with pytest.raises(CaptureError, match="functions is for SymPy"):
        compile_grad(cubed, functions={"F": cubed})


# ---------------------------------------------------------------------------------------------------- refusals
f_ = sp.Function("f")
t = sp.Symbol("t")


@pytest.mark.parametrize(("expr", "text"), [
    (f_(x), "f(x)"), (sp.Integral(sp.sin(x**x), (x, 0, y)), "Integral"), (sp.Derivative(sp.sin(x), x), "expr.doit()"),
    (sp.besselj(1, x), "besselj"), (sp.DiracDelta(x), "DiracDelta"),
    (sp.LambertW(x), "LambertW"), (1 + sp.besselj(0, x * y + 1), "besselj is not supported: besselj(0, x*y + 1)"),
    (sp.zeta(nested(40)), "zeta is not supported: zeta(...)"), (sp.SingularityFunction(x, 0, -1), "n >= 0"),
    (sp.zeta(x), "zeta"), (sp.I * x, "complex"), (sp.polygamma(x, y), "whole number"),
    (f_(x).diff(x), "Derivative"),
])
def test_unsupported_functions(expr: Any, text: str) -> None:
    with pytest.raises(UnsupportedOp) as error:
        compile_grad(expr, wrt=x, args=[x, y])
    assert text in str(error.value)
    assert "test_sympy.py" in str(error.value)


def test_free_symbols() -> None:
    with pytest.raises(CaptureError, match="contains a, b, which are not in args"):
        compile_grad(a * x + b, wrt=x, args=[x])


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"wrt": y, "args": [x]}, DifferentiationError, "wrt=y is not one of args"),
    ({"wrt": [x, x], "args": [x]}, DifferentiationError, "twice"),
    ({"wrt": [], "args": [x]}, DifferentiationError, "wrt is empty"),
    ({"wrt": 1, "args": [x]}, DifferentiationError, "wrt=1"),
    ({"wrt": x, "args": [[x, y]]}, DifferentiationError, "part of v"),
    ({"args": [x, x]}, CaptureError, "twice"),
    ({"args": [x, x + 1]}, CaptureError, "not a symbol"),
    ({"args": ["x"]}, CaptureError, "not a symbol"),
    ({"args": [[]]}, CaptureError, "empty"),
    ({"args": [[x, [y, a]]]}, CaptureError, "ragged"),
    ({"args": [x], "dtype": "float32"}, UnsupportedOp, "float64"),
])
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        compile_grad(x**2, **arguments)
    assert text in str(raised.value)


def test_a_gradient_needs_one_expression() -> None:
    for expr in ([x, y], sp.Matrix([x, y])):
        with pytest.raises(ShapeError, match="one expression"):
            compile_grad(expr, wrt=[x], args=[x, y])


def test_calls_that_do_not_fit() -> None:
    f = compile_grad(x**2 + a * b, wrt=x, args=[x, [a, b]], name="f", debug=True)
    with pytest.raises(ShapeError, match=r"f: x stands for a number; an array of shape \(3,\) was passed"):
        f(np.ones(3), np.ones(2))
    with pytest.raises(ShapeError, match=r"stands for an array of shape \(2,\)"):
        f(1.0, np.ones(3))
    with pytest.raises(CaptureError, match="a list was passed"):
        f(1.0, [1.0, 2.0])
    with pytest.raises(CaptureError, match="complex"):
        f(1j, np.ones(2))
    with pytest.raises(TypeError):
        f(1.0)
    assert f(1.0, np.ones(2)) == (2.0, 2.0)


def test_truths_and_numbers_do_not_mix() -> None:
    with pytest.raises(CaptureError, match="cannot be computed"):
        compile_value(sp.And(x, y > 0), args=[x, y])


def test_sympy_is_imported_only_with_expressions() -> None:
    code = "import sys, adcompile, adcompile.capture.sympy_expr; sys.exit('sympy' in sys.modules)"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
