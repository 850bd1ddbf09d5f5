"""Derivatives that public AD tools got wrong, restated as small functions with the right value and gradient.

CASES is a list of dicts:
  id              short stable name
  source          public report that shows the class of bug (repository and thread)
  title           what the function does / which trap it is
  fn              Python function of numpy arrays (scalar result)
  args            list of arguments (arrays, floats, ints, bool masks); pass copies, some functions change them
  expected_value  the value of fn(*args)
  expected_grads  one entry per argument: gradient of the scalar result, or None (not differentiated)
  tol, atol       relative and absolute tolerance (atol is 0.0 in the tail-accuracy cases)
  notes, wrong    remarks; what the users of the reported tool saw
  kind            'smooth'     one right answer, finite differences agree
                  'onesided'   derivative exists from one side only (the domain ends there)
                  'convention' not differentiable there: expected_grads is this project's choice and
                               accept(value, grads) says whether another choice is also sound
                  'semantics'  Python/NumPy meaning (aliasing, overwriting, buffering) decides the answer
                  'accuracy'   the true derivative is tiny and lost when computed from a rounded output
                  'policy'     more than one behaviour is defensible, see notes
                  'robust'     overflow in an intermediate; the true answer is finite
  category        coarse topic
  hess            expected Hessian with respect to argument 0 (in second-derivative cases)
  fd              whether differences can check the gradient
  convex          convention cases: the subgradient inequality holds
  dtypes          expected dtype of each gradient (dtype-preservation cases)
  scenario        optional function taking vg, where vg(fn)(*args) -> (value, tuple of grads);
                  returns [(label, got, expected), ...] for cases that need more than one call

The expected numbers are hand-derived closed forms or literals computed with mpmath at 50 digits.
"""
# ruff: noqa
import math

import numpy as np
from scipy import special

CASES = []
INF, NAN = float("inf"), float("nan")


def case(id, source, title, args, value, grads, tol=1e-9, atol=1e-12, kind="smooth", category="",
         wrong="", notes="", hess=None, fd=None, fd_hess=None, accept=None, convex=False, dtypes=None,
         scenario=None):
    def deco(fn):
        if any(c["id"] == id for c in CASES):
            raise ValueError("duplicate id " + id)
        d = dict(id=id, source=source, title=title, fn=fn, args=args, expected_value=value,
                 expected_grads=grads, tol=tol, notes=notes, atol=atol, kind=kind, category=category,
                 wrong=wrong, hess=hess, accept=accept, convex=convex, dtypes=dtypes, scenario=scenario,
                 fd=(kind in ("smooth", "semantics")) if fd is None else fd)
        d["fd_hess"] = (hess is not None and d["fd"]) if fd_hess is None else fd_hess
        CASES.append(d)
        return fn
    return deco


A = np.array
GH = ""
JAX, TORCH, AG = GH + "jax-ml/jax/issues/", GH + "pytorch/pytorch/issues/", GH + "HIPS/autograd/issues/"
TF, TAN, CAS = GH + "tensorflow/tensorflow/issues/", GH + "google/tangent/issues/", GH + "casadi/casadi/issues/"


def _finite(g):
    return all(x is None or np.all(np.isfinite(x)) for x in g)


# ---------------------------------------------------------------- where / masking / NaN
@case("where_sqrt_negative", CAS + "1805", "where(x>0, sqrt(x), 0) left of the kink", [-1.0], 0.0, [0.0],
      category="where", wrong="NaN")
def where_sqrt_negative(x):
    return np.where(x > 0, np.sqrt(x), 0.0)


@case("where_sqrt_hessian", CAS + "1878", "second derivative of where(x>0, sqrt(x), 0) left of the kink", [A([-3.0])], 0.0,
      [A([0.0])], hess=A([[0.0]]), category="second derivative", wrong="NaN at second order after the first order was fixed")
def where_sqrt_hessian(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


@case("boolean_filter_after", JAX + "19089", "take the root first, drop the bad entries with a boolean mask afterwards", [1.0], 1.0,
      [0.5], category="where", wrong="NaN (0.5 when filtered first)",
      notes="the dropped entry is sqrt(0*x): its adjoint 0 meets the infinite slope")
def boolean_filter_after(x):
    delta = np.array([0.0, 1.0]) * x
    return np.sum((delta ** 0.5)[delta > 0])


@case("overwrite_overflowed_entry", TORCH + "17455", "an overflowed entry is overwritten by a constant in place", [A([0.0, 1000.0])],
      math.log(2.0), [A([0.5, 0.0])], category="in-place", wrong="NaN in the overwritten slot")
def overwrite_overflowed_entry(x):
    f = np.log(np.exp(x) + 1.0)
    f[1] = 0.0
    return np.sum(f)


@case("select_nan_constant", JAX + "20601", "not-taken branch multiplies by a NaN constant", [2.3, NAN, False], 1.0, [0.0, None, None],
      category="where", wrong="NaN")
def select_nan_constant(beta, x, flag):
    return np.where(flag, beta * x, 1.0)


@case("smooth_bump_flat_part", JAX + "15588", "smooth step built from exp(-1/x): flat parts must have zero slope", [A([-0.5, 0.3, 1.5])],
      0.12957046939970590 + 1.0, [A([0.0, 1.4833001917996044185, 0.0])], category="where",
      wrong="non-zero slope on the constant part")
def smooth_bump_flat_part(x):
    def bump(t):
        return np.where(t <= 0.0, 0.0, np.exp(-1.0 / np.where(t <= 0.0, 1.0, t)))
    left = bump(x)
    return np.sum(left / (left + bump(1.0 - x)))


@case("tril_drops_inf", GH + "mindspore-ai/mindspore/issues/372", "tril must select, not multiply by a 0/1 mask (inf above the diagonal)",
      [A([[1.0, INF], [2.0, 3.0]])], 14.0, [A([[2.0, 0.0], [4.0, 6.0]])], category="triangular", wrong="NaN")
def tril_drops_inf(x):
    return np.sum(np.tril(x) ** 2)


@case("nanmean_of_square", JAX + "9040", "nanmean(x**2) with a NaN entry", [A([NAN, 1.0, 2.0, 3.0, 4.0])], 7.5,
      [A([0.0, 0.5, 1.0, 1.5, 2.0])], category="nan-aware", wrong="NaN in slot 0")
def nanmean_of_square(x):
    return np.nanmean(x ** 2)


@case("nansum_weighted", JAX + "9040", "nansum after scaling by a second differentiated array", [A([NAN, 2.0]), A([5.0, 7.0])], 14.0,
      [A([0.0, 7.0]), A([0.0, 2.0])], category="nan-aware", wrong="NaN")
def nansum_weighted(x, w):
    return np.nansum(x * w)


@case("logsumexp_where_mask", JAX + "23842", "log-sum-exp over a mask, huge value in the masked slot", [A([0.0, 1000.0]), A([True, False])], 0.0,
      [A([1.0, 0.0]), None], category="log-sum-exp", wrong="[1, NaN]")
def logsumexp_where_mask(a, mask):
    m = np.max(np.where(mask, a, -np.inf))
    return m + np.log(np.sum(np.where(mask, np.exp(a - m), 0.0)))


# ---------------------------------------------------------------- sqrt / norm / power at zero
@case("norm_at_zero", AG + "151", "Euclidean norm of the zero vector", [np.zeros(3)], 0.0, [np.zeros(3)], kind="convention",
      category="norm", convex=True, accept=lambda v, g: _finite(g) and np.linalg.norm(g[0]) <= 1 + 1e-12, wrong="[NaN, NaN, NaN]",
      notes="zero is the only choice that keeps the gradient odd (jax pull 39792)")
def norm_at_zero(x):
    return np.linalg.norm(x)


@case("half_squared_distance_at_optimum", CAS + "3898", "0.5*norm(y-ref)**2 evaluated at y == ref", [A([0.3, 0.7]), A([0.3, 0.7])], 0.0,
      [np.zeros(2), np.zeros(2)], category="norm", wrong="NaN")
def half_squared_distance_at_optimum(y, ref):
    return 0.5 * np.linalg.norm(y - ref) ** 2


@case("distance_to_itself", GH + "stan-dev/math/issues/3031", "sqrt(sum((x-x)**2)) is identically zero", [A([0.4, -1.3])], 0.0, [np.zeros(2)],
      category="sqrt", wrong="NaN/inf, initialisation fails")
def distance_to_itself(x):
    d = x - x
    return np.sqrt(np.sum(d ** 2))


@case("norm_of_dead_relu", GH + "Theano/Theano/issues/3223", "squared norm of a relu that is switched off", [0.5, -1.0], 0.0, [0.0, 0.0],
      category="norm", wrong="NaN for one spelling of the norm, 0 for the other")
def norm_of_dead_relu(w, x):
    r = np.maximum(w * x, 0.0)
    return 0.5 * np.sqrt(r * r) ** 2


@case("rbf_kernel_same_point", TORCH + "92075", "exp(-norm(x1-x2)**2) at coincident points, Hessian", [A([0.3, -1.2]), A([0.3, -1.2])], 1.0,
      [np.zeros(2), np.zeros(2)], hess=-2 * np.eye(2), category="second derivative", wrong="wrong Hessian at the point, right one 1e-8 away")
def rbf_kernel_same_point(x1, x2):
    dist = np.linalg.norm(x1 - x2)
    return np.exp(-dist * dist)


@case("zero_to_the_zero", JAX + "18450", "x**k at x=0, k=0 (integer exponent argument)", [0.0, 0], 1.0, [0.0, None], category="power",
      wrong="NaN when jitted, 0 when not")
def zero_to_the_zero(x, k):
    return x ** k


@case("exponent_derivative_at_zero_base", TORCH + "27134", "d/db of a**b where one base is 0", [A([0.0, 2.0]), A([1.0, 1.0])], 2.0,
      [A([1.0, 1.0]), A([0.0, 2.0 * math.log(2.0)])], category="power", wrong="NaN in slot 0 of d/db")
def exponent_derivative_at_zero_base(a, b):
    return np.sum(a ** b)


@case("zero_base_variable_exponent", GH + "tensorflow/tfjs/issues/346", "0**x with x > 0", [2.0], 0.0, [0.0], category="power", wrong="NaN")
def zero_base_variable_exponent(x):
    return 0.0 ** x


@case("integer_exponent_argument", JAX + "18450", "x**n with n a Python int, and a negative power", [2.0, 3], 8.25, [12.0 - 0.25, None],
      category="integers")
def integer_exponent_argument(x, n):
    return x ** n + x ** -2


@case("sqrt_at_zero", JAX + "11716", "square root at the end of its domain", [0.0], 0.0, [INF], kind="onesided", category="sqrt",
      accept=lambda v, g: g[0] == INF, notes="+inf is the one-sided derivative; do not turn it into 0 silently")
def sqrt_at_zero(x):
    return np.sqrt(x)


@case("hypot_origin", GH + "JuliaDiff/ForwardDiff.jl/pull/669", "hypot at the origin", [0.0, 0.0], 0.0, [0.0, 0.0], kind="convention",
      convex=True, accept=lambda v, g: _finite(g) and math.hypot(*map(float, g)) <= 1 + 1e-12, category="hypot", wrong="NaN")
def hypot_origin(x, y):
    return np.hypot(x, y)


_s = 0.5 / math.sqrt(2.0)


@case("arctan2_axes", GH + "coin-or/CppAD/issues/120", "arctan2 on the axes and in other quadrants", [A([0.0, 0.5, -1.0, 1e-3]), A([1.0, 0.0, -2.0, -1.0])],
      0.0 + math.pi / 2 + math.atan2(-1, -2) + math.atan2(1e-3, -1.0),
      [A([1.0, 0.0, -2.0 / 5.0, -1.0 / (1 + 1e-6)]), A([0.0, -2.0, 1.0 / 5.0, -1e-3 / (1 + 1e-6)])],
      category="arctan2", wrong="wrong at y == 0; NaN at x == 0 for second order (Hipparchus 411)")
def arctan2_axes(y, x):
    return np.sum(np.arctan2(y, x))


@case("arctan2_x_zero_hessian", GH + "Hipparchus-Math/hipparchus/issues/411", "second derivative of arctan2(y, 0) in y", [A([0.5])], math.pi / 2,
      [A([0.0])], hess=A([[0.0]]), category="second derivative", wrong="NaN")
def arctan2_x_zero_hessian(y):
    return np.sum(np.arctan2(y, 0.0))


@case("sinc_at_zero", GH + "jax-ml/jax/pull/1722", "sinc at 0 with its second derivative", [A([0.0])], 1.0, [A([0.0])],
      hess=A([[-math.pi ** 2 / 3]]), category="sinc", wrong="NaN; SymPy's Piecewise gives second derivative 0 (sympy 11402)",
      tol=1e-8)
def sinc_at_zero(x):
    return np.sum(np.sinc(x))


@case("sinc_small_argument", JAX + "40629", "sinc'(1e-6) to full relative accuracy", [1e-6], 0.99999999999835506593,
      [-3.2898681336932057544e-6], kind="accuracy", category="sinc", tol=1e-8, atol=0.0)
def sinc_small_argument(x):
    return np.sinc(x)


# ---------------------------------------------------------------- ties
def _on_max(g, mask):
    g = np.asarray(g)
    return np.all(g >= -1e-12) and abs(g.sum() - 1) < 1e-12 and np.all(np.abs(g[~np.asarray(mask)]) < 1e-12)


@case("max_all_equal", GH + "Theano/Theano/issues/4568", "max of equal entries: the weights must sum to one", [A([1.0, 1.0])], 1.0, [A([0.5, 0.5])],
      kind="convention", convex=True, accept=lambda v, g: _on_max(g[0], [True, True]), category="ties", wrong="[1, 1]")
def max_all_equal(x):
    return np.max(x)


@case("relu_at_zero", TORCH + "184572", "maximum(x, 0) at 0", [0.0], 0.0, [0.5], kind="convention", convex=True,
      accept=lambda v, g: 0 <= g[0] <= 1, category="ties", wrong="0, 0.5 or 1 depending on the spelling",
      notes="whatever is chosen, the composite cases below must stay right: half-half does that")
def relu_at_zero(x):
    return np.maximum(x, 0.0)


@case("log_sigmoid_stable_at_zero", JAX + "2140", "stable log-sigmoid written with max and abs: the kinks must cancel", [0.0], -math.log(2.0),
      [0.5], category="ties", wrong="0", notes="the function is smooth, so 0.5 is the only right answer")
def log_sigmoid_stable_at_zero(x):
    return -(np.maximum(-x, 0.0) + np.log1p(np.exp(-np.abs(x))))


@case("bce_with_logits_at_zero", GH + "jax-ml/jax/pull/2195", "stable cross entropy with logits exactly 0", [A([0.0, 0.0, 2.0]), A([1.0, 0.0, 1.0])],
      2 * math.log(2.0) + math.log1p(math.exp(-2.0)), [A([-0.5, 0.5, 1 / (1 + math.exp(-2.0)) - 1]), A([0.0, 0.0, -2.0])],
      category="ties", wrong="would be -1 and 0 under a one-sided tie rule")
def bce_with_logits_at_zero(x, z):
    return np.sum(np.maximum(x, 0.0) - x * z + np.log1p(np.exp(-np.abs(x))))


@case("maximum_of_same_array", GH + "shader-slang/slang/issues/6412", "maximum(x, x) is x", [A([3.0, -1.0])], 2.0, [np.ones(2)],
      category="aliasing", wrong="2 when both sides get the whole adjoint, 0 when neither does")
def maximum_of_same_array(x):
    return np.sum(np.maximum(x, x))


@case("inf_norm_ties", TORCH + "41779", "largest absolute entry, attained twice with opposite signs", [A([2.0, -2.0, 1.0])], 2.0,
      [A([0.5, -0.5, 0.0])], kind="convention", convex=True, category="ties",
      accept=lambda v, g: _on_max(g[0] * np.array([1, -1, 1]), [True, True, False]), wrong="[1, -1, 0]")
def inf_norm_ties(x):
    return np.max(np.abs(x))


@case("sign_times_x", GH + "symengine/symengine/issues/1696", "sign(x)*x: sign itself has zero slope", [A([-2.0, 0.0, 3.0])], 5.0, [A([-1.0, 0.0, 1.0])],
      category="sign", wrong="unresolved Derivative / DiracDelta terms", fd=True)
def sign_times_x(x):
    return np.sum(np.sign(x) * x)


@case("clip_upstream_factor", GH + "elixir-nx/nx/pull/1779", "3*clip(x,0,1)**2 inside and outside the bounds", [A([-0.5, 0.5, 1.5])], 3.75,
      [A([0.0, 3.0, 0.0])], category="clip", wrong="upstream adjoint applied twice (9)")
def clip_upstream_factor(x):
    return np.sum(3.0 * np.clip(x, 0.0, 1.0) ** 2)


@case("pick_by_argmax", GH + "Theano/Theano/pull/3498", "x[argmax(x)]: the index carries no derivative", [A([1.0, 5.0, 2.0])], 5.0, [A([0.0, 1.0, 0.0])],
      category="gather")
def pick_by_argmax(x):
    return x[np.argmax(x)]


@case("std_of_constant", TORCH + "4320", "standard deviation of equal entries", [A([1.0, 1.0])], 0.0, [np.zeros(2)], kind="convention", convex=True,
      accept=lambda v, g: _finite(g) and abs(g[0].sum()) < 1e-12 and np.all(np.abs(g[0]) <= 0.5 + 1e-12), category="std/var",
      wrong="[NaN, NaN]")
def std_of_constant(x):
    return np.std(x)


def _std_ref():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    c = x - x.mean()
    s1 = np.sqrt((c ** 2).sum() / 3)
    return s1 + (c ** 2).sum() / 3, c / (3 * s1) + 2 * c / 3


@case("std_var_ddof", GH + "numba/numba/pull/10539", "std and var with ddof=1", [A([1.0, 2.0, 4.0, 8.0])], _std_ref()[0], [_std_ref()[1]],
      category="std/var", wrong="ddof unsupported")
def std_var_ddof(x):
    return np.std(x, ddof=1) + np.var(x, ddof=1)


# ---------------------------------------------------------------- mod / floor
@case("fmod_negative_dividend", JAX + "11466", "fmod(-19, 3): slope in the divisor is -trunc(x/y)", [-19.0, 3.0], -1.0, [1.0, 6.0], category="mod",
      wrong="7")
def fmod_negative_dividend(x, y):
    return np.fmod(x, y)


@case("fmod_divisor_slope", GH + "shader-slang/slang/issues/10071", "fmod slope in the divisor, both signs", [A([5.5, -5.5]), A([2.0, 2.0])], 0.0,
      [A([1.0, 1.0]), A([-2.0, 2.0])], category="mod", wrong="0; the proposed fix used floor, wrong for negative quotients")
def fmod_divisor_slope(x, y):
    return np.sum(np.fmod(x, y))


@case("fmod_broadcast", GH + "Oneflow-Inc/oneflow/issues/8769", "fmod with a broadcast dividend", [A([5.0]), A([[2.0], [2.0]])], 2.0,
      [A([2.0]), A([[-2.0], [-2.0]])], category="broadcast", wrong="[1, 1] instead of [2]")
def fmod_broadcast(x, y):
    return np.sum(np.fmod(x, y))


@case("floor_is_flat", GH + "symforce-org/symforce/pull/164", "floor(x)*x: floor contributes no slope", [A([1.5, -0.5])], 2.0, [A([1.0, -1.0])],
      category="floor")
def floor_is_flat(x):
    return np.sum(np.floor(x) * x)


# ---------------------------------------------------------------- log-sum-exp, softmax, sigmoid
@case("logsumexp_all_minus_inf", JAX + "6811", "log-sum-exp when every entry is -inf", [1.0], -INF, [0.0], kind="convention",
      accept=lambda v, g: v == -INF and np.isfinite(g[0]), category="log-sum-exp", wrong="NaN",
      notes="zero keeps HMM/CTC recursions alive")
def logsumexp_all_minus_inf(x):
    a = np.array([-np.inf, -np.inf]) + np.array([0.0, 1.0]) * x
    m = np.max(a)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.log(np.sum(np.exp(a - m))) + m


@case("logsumexp_large_equal", GH + "uTensor/uTensor/issues/175", "log-sum-exp of two large equal entries", [A([1000.0, 1000.0])], 1000.0 + math.log(2.0),
      [A([0.5, 0.5])], category="log-sum-exp", notes="also exercises the tie in the shift: its total contribution must vanish")
def logsumexp_large_equal(a):
    m = np.max(a)
    return np.log(np.sum(np.exp(a - m))) + m


@case("logaddexp_both_minus_inf", TORCH + "49724", "logaddexp(-inf, -inf)", [-INF, -INF], -INF, [0.5, 0.5], kind="convention",
      accept=lambda v, g: v == -INF and _finite(g) and (g[0] == g[1]) and 0 <= g[0] <= 0.5, category="log-sum-exp", wrong="NaN",
      notes="(0.5,0.5) and (0,0) are both argued for in the thread")
def logaddexp_both_minus_inf(a, b):
    return np.logaddexp(a, b)


def _softmax_ref():
    e = np.exp(np.array([-2.0, -1.0, 0.0]))
    p = e / e.sum()
    w = np.array([1.0, -2.0, 3.0])
    return p @ w, p * (w - p @ w)


@case("softmax_shifted_overflow", GH + "uTensor/uTensor/issues/175", "softmax of entries near 1000", [A([1000.0, 1001.0, 1002.0]), A([1.0, -2.0, 3.0])],
      _softmax_ref()[0], [_softmax_ref()[1], np.exp([-2.0, -1.0, 0.0]) / np.exp([-2.0, -1.0, 0.0]).sum()], category="softmax", wrong="NaN", tol=1e-8)
def softmax_shifted_overflow(x, w):
    e = np.exp(x - np.max(x))
    return np.sum(w * e / np.sum(e))


@case("sigmoid_tail_composite", JAX + "40342", "1/(1+exp(-x)) at x=40: the tail derivative survives in the quotient form", [40.0],
      0.99999999999999999575, [4.2483542552915889592e-18], kind="accuracy", category="sigmoid", tol=1e-9, atol=0.0, wrong="0 from y*(1-y)")
def sigmoid_tail_composite(x):
    return 1.0 / (1.0 + np.exp(-x))


@case("tanh_second_derivative_tiny", JAX + "39801", "second derivative of tanh at 1e-300", [A([1e-300])], 1e-300, [A([1.0])], hess=A([[-2e-300]]),
      kind="accuracy", category="second derivative", tol=1e-9, atol=0.0, wrong="0")
def tanh_second_derivative_tiny(x):
    return np.sum(np.tanh(x))


@case("expm1_tail", JAX + "39794", "expm1 at -40: slope is exp(x), not y+1", [-40.0], -1.0, [4.2483542552915889953e-18], kind="accuracy",
      category="log1p/expm1", tol=1e-9, atol=0.0, wrong="0")
def expm1_tail(x):
    return np.expm1(x)


@case("softplus_logaddexp", GH + "tracel-ai/burn/issues/5373", "softplus as logaddexp(0,x) far out on both sides", [A([1000.0, -1000.0, 0.0])],
      1000.0 + math.log(2.0), [A([1.0, 0.0, 0.5])], category="sigmoid", wrong="inf value, NaN slope")
def softplus_logaddexp(x):
    return np.sum(np.logaddexp(0.0, x))


@case("exp2_derivative_finite", TORCH + "192407", "exp2(1024) overflows but its slope does not", [1024.0], INF, [1.2460659279417837983e+308],
      kind="accuracy", category="overflow", tol=1e-9, atol=0.0, wrong="inf", notes="curiosity; low priority")
def exp2_derivative_finite(x):
    return np.exp2(x)


@case("xlogy_first_argument_zero", TORCH + "80770", "x*log(y) with x == 0 (scipy.special.xlogy)", [0.0, 2.0], 0.0, [math.log(2.0), 0.0], category="xlogy",
      wrong="0 for d/dx")
def xlogy_first_argument_zero(x, y):
    return special.xlogy(x, y)


# ---------------------------------------------------------------- prod / cumprod / cumsum
@case("prod_one_zero", GH + "apache/mxnet/issues/17864", "row products with no, one and two zeros", [A([[4.0, 0.0], [0.0, 0.0], [2.0, 3.0]])], 6.0,
      [A([[0.0, 4.0], [0.0, 0.0], [3.0, 2.0]])], category="prod", wrong="NaN from result/x")
def prod_one_zero(x):
    return np.sum(np.prod(x, axis=1))


@case("prod_hessian_with_zero", GH + "FluxML/Flux.jl/pull/524", "Hessian of a product with one zero", [A([0.0, 2.0, 3.0])], 0.0, [A([6.0, 0.0, 0.0])],
      hess=A([[0.0, 3.0, 2.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), category="prod", wrong="gradient check fails with a zero entry")
def prod_hessian_with_zero(x):
    return np.prod(x)


@case("cumprod_zeros", TF + "119430", "sum of running products, zeros at start, end and twice", [A([0.0, 2.0, 3.0]), A([2.0, 3.0, 0.0]), A([2.0, 0.0, 0.0, 3.0])],
      10.0, [A([9.0, 0.0, 0.0]), A([4.0, 2.0, 6.0]), A([1.0, 2.0, 0.0, 0.0])], category="cumprod", wrong="[0,0,0], [4,2,0], [1,0,0,0]: zeros, no NaN")
def cumprod_zeros(a, b, c):
    return np.sum(np.cumprod(a)) + np.sum(np.cumprod(b)) + np.sum(np.cumprod(c))


@case("reversed_cumsum", GH + "HIPS/autograd/pull/303", "suffix sums by flipping, cumsum, flipping", [A([1.0, 2.0, 3.0]), A([1.0, 10.0, 100.0])], 356.0,
      [A([1.0, 11.0, 111.0]), A([6.0, 5.0, 3.0])], category="cumsum")
def reversed_cumsum(x, w):
    return np.sum(w * np.cumsum(x[::-1])[::-1])


@case("cumsum_empty_axis", TORCH + "31515", "cumsum over an axis of length 0", [np.zeros((2, 0))], 0.0, [np.zeros((2, 0))], category="empty", wrong="IndexError")
def cumsum_empty_axis(x):
    return np.sum(np.cumsum(x, axis=-1))


@case("matmul_inner_zero", GH + "tinygrad/tinygrad/pull/3108", "(a @ b + 1)**2 with an inner dimension of 0", [np.ones((2, 0)), np.ones((0, 3))], 6.0,
      [np.zeros((2, 0)), np.zeros((0, 3))], category="empty", wrong="gradient lost")
def matmul_inner_zero(a, b):
    return np.sum((a @ b + 1.0) ** 2)


# ---------------------------------------------------------------- sort / median / percentile
@case("sort_weights", GH + "PaddlePaddle/Paddle/pull/22739", "weighted sum of sorted entries", [A([3.0, 1.0, 2.0]), A([1.0, 10.0, 100.0])], 321.0,
      [A([100.0, 1.0, 10.0]), A([1.0, 2.0, 3.0])], category="sort", wrong="wrong CPU gradients (details not given)")
def sort_weights(x, w):
    return np.sum(w * np.sort(x))


@case("argsort_gather", GH + "PaddlePaddle/Paddle/pull/22739", "x[argsort(x)] equals sort(x)", [A([0.5, -1.0, 4.0, 2.0])], -1.0 * 1 + 0.5 * 2 + 2.0 * 3 + 4.0 * 4,
      [A([2.0, 1.0, 4.0, 3.0])], category="sort")
def argsort_gather(x):
    order = np.argsort(x)
    return np.sum(np.arange(1.0, 5.0) * x[order])


@case("median_even_and_odd", GH + "PaddlePaddle/Paddle/pull/42385", "medians of an even and an odd number of entries", [A([1.0, 5.0, 2.0, 8.0]), A([3.0, 1.0, 2.0])], 5.5,
      [A([0.0, 0.5, 0.5, 0.0]), A([0.0, 0.0, 1.0])], category="median")
def median_even_and_odd(a, b):
    return np.median(a) + np.median(b)


@case("percentile_linear", GH + "PaddlePaddle/Paddle/pull/42385", "percentile with linear interpolation", [A([80.0, 10.0, 40.0, 20.0])], 24.0,
      [A([0.0, 0.0, 0.2, 0.8])], category="percentile", notes="index 0.4*3 = 1.2 in the sorted array")
def percentile_linear(x):
    return np.percentile(x, 40)


# ---------------------------------------------------------------- broadcasting


@case("scalar_times_vector", GH + "raskr/rust-autograd/issues/38", "0-d array times vector", [A([1.0, 1.0, 4.0]), A(2.0)], 12.0, [np.full(3, 2.0), A(6.0)],
      category="broadcast", wrong="gradient of the scalar had shape (n,)")
def scalar_times_vector(c, v):
    return np.sum(c * v)


@case("einsum_size_one", AG + "376", "einsum('i,i') where one operand has length 1", [A([2.0, 3.0]), A([2.0])], 10.0, [A([2.0, 2.0]), A([5.0])],
      category="einsum", wrong="gradient of shape (1,)")
def einsum_size_one(x, y):
    return np.einsum("i,i", x, y)


@case("broadcast_to", AG + "384", "weighted broadcast_to", [A([1.0, 2.0, 3.0])], float((np.arange(12.0).reshape(4, 3).sum(0) * [1, 2, 3]).sum()),
      [A([18.0, 22.0, 26.0])], category="broadcast", wrong="KeyError")
def broadcast_to(x):
    return np.sum(np.arange(12.0).reshape(4, 3) * np.broadcast_to(x, (4, 3)))


@case("mean_axis_tuple", AG + "85", "mean over a tuple of axes, squared", [np.arange(12.0).reshape(2, 3, 2)],
      float((np.arange(12.0).reshape(2, 3, 2).mean((0, 2)) ** 2).sum()),
      [np.broadcast_to((2 * np.arange(12.0).reshape(2, 3, 2).mean((0, 2)) / 4)[None, :, None], (2, 3, 2)).copy()], category="reduction")
def mean_axis_tuple(x):
    return np.sum(np.mean(x, axis=(0, 2)) ** 2)


@case("centre_columns_keepdims", GH + "deeplearning4j/nd4j/issues/2424", "subtract column means (keepdims), cube", [A([[1.0, 2.0], [3.0, 5.0], [8.0, 5.0]])],
      float(((lambda c: (c ** 3).sum())(A([[1.0, 2.0], [3.0, 5.0], [8.0, 5.0]]) - A([4.0, 4.0])))),
      [(lambda c: 3 * c ** 2 - (3 * c ** 2).mean(0))(A([[1.0, 2.0], [3.0, 5.0], [8.0, 5.0]]) - A([4.0, 4.0]))], category="broadcast", wrong="row adjoint not reduced")
def centre_columns_keepdims(x):
    c = x - np.mean(x, axis=0, keepdims=True)
    return np.sum(c ** 3)


# ---------------------------------------------------------------- gather / scatter / views / in place


@case("gather_2d_repeated", GH + "apache/mxnet/issues/9172", "paired fancy indices with a repeat", [A([[0.0, 1.0], [2.0, 3.0]])], 6.0, [A([[1.0, 0.0], [0.0, 2.0]])],
      category="gather", wrong="1 instead of 2")
def gather_2d_repeated(d):
    return np.sum(d[[1, 1, 0], [1, 1, 0]])


@case("scatter_set_repeated", TF + "56961", "y[[0,0]] = v: the last write wins, also in the gradient", [A([2.0, 7.0])], 21.0, [A([0.0, 3.0])], kind="semantics",
      category="scatter", wrong="both entries got the adjoint")
def scatter_set_repeated(v):
    y = np.zeros(2)
    y[np.array([0, 0])] = v
    return y @ np.array([3.0, 5.0])


@case("scatter_add_at", GH + "ooples/AiDotNet.Tensors/pull/894", "np.add.at accumulates repeated indices", [A([2.0, 7.0, 1.0])], 32.0, [A([3.0, 3.0, 5.0])], category="scatter")
def scatter_add_at(v):
    y = np.zeros(2)
    np.add.at(y, np.array([0, 0, 1]), v)
    return y @ np.array([3.0, 5.0])


@case("block_assign", AG + "58", "assign an argument into a block of zeros", [A([[1.0, 2.0], [3.0, 4.0]])], 10.0, [np.ones((2, 2))], category="in-place", wrong="TypeError")
def block_assign(a):
    b = np.zeros((4, 4))
    b[:2, :2] = a
    return b.sum()


@case("relu_by_mask_assign", TORCH + "17455", "zero the negative entries with a boolean assignment", [A([-1.0, 2.0, -3.0]), A([5.0, 7.0, 9.0])], 14.0,
      [A([0.0, 7.0, 0.0]), A([0.0, 2.0, 0.0])], category="in-place")
def relu_by_mask_assign(x, w):
    y = x.copy()
    y[y < 0] = 0.0
    return np.sum(y * w)


@case("write_through_view", TORCH + "36608", "scale a slice view in place and use the base", [A([1.0, 2.0, 3.0]), A([1.0, 10.0, 100.0])], 641.0,
      [A([1.0, 20.0, 200.0]), A([1.0, 4.0, 6.0])], kind="semantics", category="views")
def write_through_view(x, w):
    y = x.copy()
    v = y[1:]
    v *= 2.0
    return np.sum(y * w)


@case("overwrite_after_use", GH + "EnzymeAD/Enzyme.jl/issues/2868", "use an array, then clear it in place", [A([1.0, 2.0])], 5.0, [A([2.0, 4.0])], kind="semantics", category="in-place")
def overwrite_after_use(x):
    y = x ** 2
    s = np.sum(y)
    y[:] = 0.0
    return s + np.sum(y)


def _scen_same_array_twice(vg):
    x = np.array([1.0, 2.0])
    keep = x.copy()
    v, g = vg(same_array_twice)(x, x)
    return [("value", v, 1 * 1 * 1 + 2 * 2 * 2.0), ("d/da", g[0], keep ** 2), ("d/db", g[1], 2 * keep * keep), ("input untouched", x, keep)]


@case("same_array_twice", GH + "EnzymeAD/Enzyme.jl/issues/2868", "one array object passed for two arguments", [A([1.0, 2.0]), A([1.0, 2.0])], 9.0,
      [A([1.0, 4.0]), A([2.0, 8.0])], category="aliasing", scenario=_scen_same_array_twice, wrong="an input array was modified by the gradient call",
      notes="the two partial derivatives stay separate; the caller's array must not change")
def same_array_twice(a, b):
    return np.sum(a * b * b)


@case("returns_argument", TAN + "58", "the output is the input itself", [3.0], 3.0, [1.0], category="structure")
def returns_argument(x):
    return x


@case("unused_argument", TAN + "58", "one argument is never used", [A([1.0, 2.0]), A([3.0])], 5.0, [A([2.0, 4.0]), A([0.0])], category="structure")
def unused_argument(x, unused):
    return np.sum(x ** 2)


@case("negative_step_slice", TAN + "62", "x[::-2] and x[-1]", [A([1.0, 2.0, 3.0, 4.0, 5.0])], 5 + 3 * 10 + 1 * 100 + 5.0, [A([100.0, 0.0, 10.0, 0.0, 2.0])], category="slicing")
def negative_step_slice(x):
    return np.sum(np.array([1.0, 10.0, 100.0]) * x[::-2]) + x[-1]


@case("row_dot_row", TAN + "62", "dot product of two matrix rows", [A([[1.0, 2.0, 3.0]]), A([[4.0, 5.0, 6.0]])], 32.0, [A([[4.0, 5.0, 6.0]]), A([[1.0, 2.0, 3.0]])], category="slicing", wrong="exception")
def row_dot_row(x, y):
    return np.dot(x[0, :], y[0, :])


@case("reshape_fortran_order", JAX + "453", "reshape with order='F'", [A([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], 1 * 1 + 4 * 2 + 2 * 3 + 5 * 4 + 3 * 5 + 6 * 6.0, [A([1.0, 3.0, 5.0, 2.0, 4.0, 6.0])],
      category="reshape", wrong="order silently ignored")
def reshape_fortran_order(a):
    w = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    return np.sum(w * np.reshape(a, (3, 2), order="F"))


@case("noncontiguous_inputs", TORCH + "8626", "arguments that are strided views", [np.arange(12.0).reshape(3, 4)[:, ::2], np.arange(6.0).reshape(2, 3).T], float((np.arange(12.0).reshape(3, 4)[:, ::2] * np.arange(6.0).reshape(2, 3).T).sum()),
      [np.arange(6.0).reshape(2, 3).T.copy(), np.arange(12.0).reshape(3, 4)[:, ::2].copy()], category="reshape", notes="args are a step-2 view and a transposed view")
def noncontiguous_inputs(a, b):
    return np.sum(a * b)


@case("concatenate_twice_same", GH + "dmlc/minpy/issues/154", "concatenate an array with itself", [A([[3.0]])], 9.0, [A([[3.0]])], category="concatenate", wrong="0")
def concatenate_twice_same(x):
    c = np.concatenate([x, x], axis=1)
    return np.sum(np.dot(c, np.array([[1.0], [2.0]])))


@case("stack_of_normalised", TORCH + "4071", "stack a normalised vector with zero columns, project on it", [A([3.0, 4.0, 2.0])], math.sqrt(29.0), [A([3.0, 4.0, 2.0]) / math.sqrt(29.0)],
      category="stack", wrong="wrong gradient for a mis-shaped concatenation")
def stack_of_normalised(v):
    axes = np.stack([v / np.sqrt(np.sum(v ** 2)), np.zeros(3), np.zeros(3)], axis=1)
    return (v @ axes)[0]


@case("split_and_recombine", GH + "Oneflow-Inc/oneflow/pull/8208", "split into three uneven pieces", [A([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], 1 * 3 + 2 * (4 + 9 + 16) + 3 * (5 + 6) * 1.0,
      [A([3.0, 8.0, 12.0, 16.0, 3.0, 3.0])], category="split")
def split_and_recombine(x):
    a, b, c = np.split(x, [1, 4])
    return 3.0 * np.sum(a) + 2.0 * np.sum(b ** 2) + 3.0 * np.sum(c)


@case("append_constant", AG + "331", "np.append of a constant", [A([1.0, 2.0, 3.0])], 1 + 4 + 9 + 16.0, [A([2.0, 4.0, 6.0])], category="concatenate", wrong="KeyError")
def append_constant(x):
    return np.sum(np.append(x, 4.0) ** 2)


@case("list_of_scalars_to_array", AG + "375", "build an array from scalar expressions", [0.5, 2.0], 1.0 + 2 * math.sin(0.5) + 3 * 4.0, [2.0 + 2 * math.cos(0.5), 0.5 + 3 * 4.0], category="structure")
def list_of_scalars_to_array(a, b):
    v = np.array([a * b, np.sin(a), b ** 2])
    return np.sum(v * np.array([1.0, 2.0, 3.0]))


@case("cast_to_int_index", AG + "71", "an index computed from data by a cast: no derivative through it", [A([[0.5, 1.4], [0.25, 0.3]])], 2.45, [np.ones((2, 2))], category="gather", wrong="TypeError")
def cast_to_int_index(w):
    idx = w[:, -1].astype(np.int64)
    return np.sum(w[idx])


# ---------------------------------------------------------------- control flow
def _lse_ref():
    e = np.exp(np.array([1.0, 2.0, 3.0, 4.0]) - 4)
    return math.log(e.sum()) + 4, e / e.sum()


@case("logsumexp_by_loops", TAN + "66", "log-sum-exp with an explicit running maximum and loops", [A([1.0, 2.0, 3.0, 4.0])], _lse_ref()[0], [_lse_ref()[1]], category="loops", wrong="[0, 0, 0, 0]")
def logsumexp_by_loops(a):
    result = 0.0
    largest = a[0]
    n = len(a)
    for i in range(1, n):
        if a[i] > largest:
            largest = a[i]
    for i in range(n):
        result += np.exp(a[i] - largest)
    return np.log(result) + largest


@case("conditional_update_in_loop", TAN + "69", "assignment in a loop, extra update in one iteration", [A([1.0, 2.0, 3.0, 4.0]), 4], 7.0, [A([0.0, 0.0, 1.0, 0.0]), None], category="loops", wrong="NameError in generated code")
def conditional_update_in_loop(d, n):
    s = np.zeros((n, n))
    for i in range(n):
        s[i, 2] = 1.0
        if i == 2:
            s[i, i] += d[i]
    return np.sum(s)


@case("branch_on_value", GH + "numba/numba/issues/8565", "if/else on the argument (negative side)", [-2.0], 6.0, [-3.0], category="branches")
def branch_on_value(x):
    if x > 0:
        return x * x
    else:
        return -3.0 * x


@case("while_newton_sqrt", GH + "google-deepmind/mujoco/pull/3264", "Newton iteration with a data-dependent number of steps", [7.0], math.sqrt(7.0), [0.5 / math.sqrt(7.0)], tol=1e-8, category="while", wrong="reverse mode refuses while loops")
def while_newton_sqrt(a):
    x = a
    while np.abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


@case("zero_trip_loop", GH + "jax-ml/jax/issues/2956", "a loop that runs zero times", [1.5, 0], 1.5, [1.0, None], category="loops")
def zero_trip_loop(x, n):
    for i in range(n):
        x = np.sin(x) * x
    return x


@case("break_and_continue", GH + "numba/numba/issues/8565", "continue on odd indices, break on a large entry", [A([1.0, 2.0, 3.0, 4.0, 50.0, 6.0, 7.0])], 1.0 + 9.0, [A([2.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0])], category="branches")
def break_and_continue(x):
    s = 0.0
    for i in range(x.shape[0]):
        if i % 2 == 1:
            continue
        if x[i] > 10.0:
            break
        s += x[i] ** 2
    return s


@case("logistic_recurrence_array", AG + "561", "recurrence stored in an array, 50 steps", [0.3, 3.2], 0.79945549046736989477, [-6.379441140233259195e-14, 0.28148215807213485832], tol=1e-8, atol=1e-12, category="recurrence")
def logistic_recurrence_array(x0, r):
    n = 50
    y = np.zeros(n + 1)
    y[0] = x0
    for i in range(n):
        y[i + 1] = r * y[i] * (1.0 - y[i])
    return y[n]


_c = 0.999 ** 10000


def _rk4_ref(y0, k, h, n):
    z = k * h
    R = 1 - z + z ** 2 / 2 - z ** 3 / 6 + z ** 4 / 24
    dR = (-1 + z - z ** 2 / 2 + z ** 3 / 6) * h
    return y0 * R ** n, R ** n, y0 * n * R ** (n - 1) * dR


@case("rk4_decay", AG + "561", "classical Runge-Kutta for y' = -k y", [1.5, 0.7], _rk4_ref(1.5, 0.7, 0.05, 200)[0], list(_rk4_ref(1.5, 0.7, 0.05, 200)[1:]), category="ode", wrong="1000x the cost of the loss")
def rk4_decay(y0, k):
    h = 0.05
    y = y0
    for i in range(200):
        k1 = -k * y
        k2 = -k * (y + 0.5 * h * k1)
        k3 = -k * (y + 0.5 * h * k2)
        k4 = -k * (y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


def _scen_closure_scalar(vg):
    a = 10.0

    def loss(v):
        return np.sum(v ** 2) * a
    g = vg(loss)
    x = np.array([2.0, 3.0])
    first = g(x)[1][0]
    a = 20.0
    second = g(x)[1][0]
    return [("before", first, [40.0, 60.0]), ("after rebinding", second, [80.0, 120.0])]


@case("closure_scalar_rebound", JAX + "1426", "a captured scalar is rebound between calls", [A([2.0, 3.0])], 130.0, [A([40.0, 60.0])], kind="semantics", category="closures", scenario=_scen_closure_scalar, wrong="stale constant under jit",
      notes="acceptable alternative: a clear error or a documented freeze, never a silent stale value")
def closure_scalar_rebound(v):
    a = 10.0
    return np.sum(v ** 2) * a


def _scen_closure_array(vg):
    w = np.array([1.0, 2.0])

    def f(x):
        return np.sum(w * x)
    g = vg(f)
    x = np.array([1.0, 1.0])
    first = np.array(g(x)[1][0])
    w[:] = [10.0, 20.0]
    second = np.array(g(x)[1][0])
    return [("before", first, [1.0, 2.0]), ("after mutation", second, [10.0, 20.0])]


def _scen_nested(vg):
    def outer(x):
        return x * vg(lambda y: x + y)(x)[1][0]
    v, g = vg(outer)(5.0)
    return [("d/dx [x * d/dy(x+y)]", g[0], 1.0)]


@case("perturbation_confusion", GH + "denizyuret/AutoGrad.jl/pull/75", "derivative inside a derivative; the inner one does not depend on x", [5.0], 5.0, [1.0], category="nesting", scenario=_scen_nested, wrong="2",
      notes="scenario nests vg; skip if nesting is not supported (but then raise)")
def perturbation_confusion(x):
    return x * 1.0


STOP_GRADIENT = lambda v: v  # the tests put adcompile.stop_gradient here


@case("stop_gradient_product", GH + "pytorch/functorch/issues/353", "x * stop_gradient(x)", [3.0], 9.0, [3.0], kind="policy", category="stop_gradient", wrong="wrong Hessian with detach", fd=False,
      notes="needs adcompile.stop_gradient put into STOP_GRADIENT; with the identity the gradient is 6")
def stop_gradient_product(x):
    return x * STOP_GRADIENT(x)


# ---------------------------------------------------------------- linear algebra
@case("det_singular", TF + "119477", "determinant of a singular matrix", [A([[1.0, 2.0], [2.0, 4.0]])], 0.0, [A([[4.0, -2.0], [-2.0, 1.0]])], category="det", wrong="crash / NaN")
def det_singular(a):
    return np.linalg.det(a)


@case("det_rank_deficient", AG + "549", "determinant of the zero matrix (rank n-2 or less)", [np.zeros((4, 4))], 0.0, [np.zeros((4, 4))], category="det", wrong="LinAlgError")
def det_rank_deficient(a):
    return np.linalg.det(a)


@case("slogdet_small", GH + "PaddlePaddle/Paddle/pull/36013", "log|det| of a small badly scaled matrix with negative determinant", [A([[0.01, 0.02], [0.03, 0.04]])], math.log(2e-4), [A([[-200.0, 150.0], [100.0, -50.0]])], category="slogdet", tol=1e-8, fd=True)
def slogdet_small(a):
    return np.linalg.slogdet(a)[1]


@case("cholesky_of_gram", TORCH + "137284", "weighted Cholesky factor of B B^T + 2 I", [A([[1.0, 0.5], [-0.25, 2.0]])], -1.8027756377319946466,
      [A([[-0.33678226199388911, 3.77196133433155803], [2.06031501455085102, -0.721110255092797859]])], category="cholesky", wrong="dispute over symmetrising",
      notes="parametrised by B so that every convention for the symmetric argument gives the same answer")
def cholesky_of_gram(b):
    low = np.linalg.cholesky(b @ b.T + 2.0 * np.eye(2))
    return np.sum(np.array([[1.0, 0.0], [3.0, -2.0]]) * low)


def _solve_ref():
    M = np.array([[2.0, 1.0], [1.0, 3.0]])
    inv = np.array([[3.0, -1.0], [-1.0, 2.0]]) / 5
    b = np.array([1.0, -2.0])
    w = np.array([3.0, 4.0])
    x = inv @ b
    lam = inv.T @ w
    return M, b, w, w @ x, -np.outer(lam, x), lam


@case("solve_vector_rhs", AG + "125", "solve with a 1-D right-hand side", [_solve_ref()[0], _solve_ref()[1]], _solve_ref()[3], [_solve_ref()[4], _solve_ref()[5]], category="solve")
def solve_vector_rhs(a, b):
    return np.array([3.0, 4.0]) @ np.linalg.solve(a, b)


@case("inverse_entry", JAX + "518", "one entry of a matrix inverse", [A([[2.0, 1.0], [1.0, 3.0]])], 0.6, [-np.outer([0.6, -0.2], [0.6, -0.2])], category="inv", wrong="KeyError")
def inverse_entry(w):
    return np.linalg.inv(w)[0, 0]


@case("eigenvalue_sum_degenerate", GH + "adtzlr/felupe/issues/67", "sum of squared eigenvalues of a symmetric matrix with a repeated eigenvalue", [np.diag([1.0, 1.0, 2.0])], 6.0, [2 * np.diag([1.0, 1.0, 2.0])], category="eigh", wrong="NaN", tol=1e-7)
def eigenvalue_sum_degenerate(b):
    s = 0.5 * (b + b.T)
    vals, vecs = np.linalg.eigh(s)
    return np.sum(vals ** 2)


_d4 = np.diag([1.0, 1.0, 2.0, 3.0])


@case("svd_reconstruction_degenerate", JAX + "8732", "Frobenius norm through U S V^T with two equal singular values", [_d4], math.sqrt(15.0), [_d4 / math.sqrt(15.0)], category="svd", wrong="all NaN", tol=1e-7, kind="robust", fd=True)
def svd_reconstruction_degenerate(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.linalg.norm((u * s) @ vh)


@case("qr_r_factor", JAX + "2863", "weighted R factor of a 3x3 QR", [A([[2.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.25, -1.0, 1.5]])], 3.9112156381191269133,
      [A([[-0.273471135865727552, -2.16347665287693507, -1.90410206270483378], [-1.47224882983342753, -0.0275660674686600406, -3.77547060931236777], [-0.923235593740469448, -0.581922507109879245, 3.33469893888814132]])],
      category="qr", wrong="wrong everywhere but in the last column", notes="signs follow LAPACK at the base point (R diagonal negative, negative, positive)")
def qr_r_factor(a):
    q, r = np.linalg.qr(a)
    return np.sum(np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 4.0], [0.0, 0.0, 2.0]]) * r)


def _mvn_ref():
    S = np.array([[2.0, 0.3], [0.3, 1.0]])
    d = np.array([0.5, -1.0])
    det = 2.0 - 0.09
    inv = np.array([[1.0, -0.3], [-0.3, 2.0]]) / det
    v = -0.5 * (d @ inv @ d + math.log(det) + 2 * math.log(2 * math.pi))
    g = inv @ d
    return S, d, v, 0.5 * (np.outer(g, g) - inv), -g


@case("mvn_logpdf_covariance_sign", GH + "HIPS/autograd/pull/412", "Gaussian log density: sign of the covariance gradient", [_mvn_ref()[0], _mvn_ref()[1]], _mvn_ref()[2], [_mvn_ref()[3], _mvn_ref()[4]], category="solve", wrong="opposite sign")
def mvn_logpdf_covariance_sign(cov, d):
    quad = d @ np.linalg.solve(cov, d)
    return -0.5 * (quad + np.linalg.slogdet(cov)[1] + d.shape[0] * np.log(2.0 * np.pi))


_M234 = np.arange(24.0).reshape(2, 3, 4)


@case("matmul_batch_times_vector", GH + "dmlc/minpy/pull/174", "stack of matrices times one vector", [_M234, A([1.0, -1.0, 2.0, 0.5])], float((np.arange(6.0).reshape(2, 3) * (_M234 @ A([1.0, -1.0, 2.0, 0.5]))).sum()),
      [np.arange(6.0).reshape(2, 3)[:, :, None] * A([1.0, -1.0, 2.0, 0.5]), np.einsum("bi,bij->j", np.arange(6.0).reshape(2, 3), _M234)], category="matmul")
def matmul_batch_times_vector(m, v):
    return np.sum(np.arange(6.0).reshape(2, 3) * (m @ v))


@case("matmul_broadcast_batch", GH + "dmlc/minpy/pull/174", "batch axis of length 1 broadcast in matmul", [np.arange(6.0).reshape(1, 2, 3), np.arange(12.0).reshape(2, 3, 2)], float(((np.arange(6.0).reshape(1, 2, 3) @ np.arange(12.0).reshape(2, 3, 2)) * np.arange(8.0).reshape(2, 2, 2)).sum()),
      [np.einsum("bik,bjk->ij", np.arange(8.0).reshape(2, 2, 2), np.arange(12.0).reshape(2, 3, 2))[None], np.einsum("ij,bik->bjk", np.arange(6.0).reshape(2, 3), np.arange(8.0).reshape(2, 2, 2))], category="matmul")
def matmul_broadcast_batch(a, b):
    return np.sum((a @ b) * np.arange(8.0).reshape(2, 2, 2))


@case("einsum_diagonal", AG + "242", "einsum with a repeated index in one operand", [A([[1.0, 2.0], [3.0, 4.0]]), A([5.0, 7.0])], 1 * 5 + 4 * 7.0, [A([[5.0, 0.0], [0.0, 7.0]]), A([1.0, 4.0])], category="einsum")
def einsum_diagonal(m, v):
    return np.einsum("ii,i->", m, v)


@case("tensordot_two_axes", AG + "209", "tensordot over two axis pairs given in a different order", [np.arange(12.0).reshape(2, 3, 2), np.arange(12.0).reshape(3, 2, 2)], float(np.einsum("ijk,jil->kl", np.arange(12.0).reshape(2, 3, 2), np.arange(12.0).reshape(3, 2, 2)).sum()),
      [np.broadcast_to(np.arange(12.0).reshape(3, 2, 2).sum(2).T[:, :, None], (2, 3, 2)).copy(), np.broadcast_to(np.arange(12.0).reshape(2, 3, 2).sum(2).T[:, :, None], (3, 2, 2)).copy()], category="tensordot")
def tensordot_two_axes(a, b):
    return np.sum(np.tensordot(a, b, axes=([0, 1], [1, 0])))


@case("kron_1d", AG + "209", "kron of two halves of a vector", [A([1.0, 2.0, 3.0, 4.0])], 21.0, [A([7.0, 7.0, 3.0, 3.0])], category="kron", wrong="IndexError")
def kron_1d(x):
    return np.sum(np.kron(x[:2], x[2:]))


@case("outer_weighted", TORCH + "4968", "outer product, weighted", [A([1.0, 2.0]), A([3.0, -1.0, 0.5])], float((np.arange(6.0).reshape(2, 3) * np.outer([1, 2.0], [3, -1, 0.5])).sum()), [np.arange(6.0).reshape(2, 3) @ A([3.0, -1.0, 0.5]), A([1.0, 2.0]) @ np.arange(6.0).reshape(2, 3)], category="outer")
def outer_weighted(a, b):
    return np.sum(np.arange(6.0).reshape(2, 3) * np.outer(a, b))


@case("cross_weighted", TORCH + "4071", "cross product, weighted", [A([1.0, 2.0, 3.0]), A([-1.0, 0.5, 2.0])], float(A([1.0, 10.0, 100.0]) @ np.cross([1, 2, 3.0], [-1, 0.5, 2.0])), [np.cross([-1, 0.5, 2.0], [1.0, 10.0, 100.0]), np.cross([1.0, 10.0, 100.0], [1, 2, 3.0])], category="cross")
def cross_weighted(a, b):
    return np.sum(np.array([1.0, 10.0, 100.0]) * np.cross(a, b))


@case("trace_tall", TORCH + "171704", "trace of a tall matrix", [np.arange(8.0).reshape(4, 2)], 3.0, [A([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])], category="trace/diag", wrong="an extra 1 below the square part")
def trace_tall(x):
    return np.trace(x)


# ---------------------------------------------------------------- dtypes, integers, complex, FFT
@case("float32_preserved", AG + "671", "float32 in, float32 gradient out", [A([1.0, 2.0, 3.0], dtype=np.float32)], 14.0, [A([2.0, 4.0, 6.0], dtype=np.float32)], tol=1e-6, category="dtype", dtypes=[np.float32], wrong="float64", fd=False)
def float32_preserved(x):
    return np.sum(x ** 2)


@case("mixed_precision_product", JAX + "6638", "float32 times float64: each gradient keeps the dtype of its argument", [A([1.0, 2.0], dtype=np.float32), A([3.0, 5.0])], 13.0, [A([3.0, 5.0], dtype=np.float32), A([1.0, 2.0])], tol=1e-6, category="dtype", dtypes=[np.float32, np.float64], fd=False)
def mixed_precision_product(x, y):
    return np.sum(x * y)


@case("int_array_argument", TAN + "66", "log-sum-exp at an integer array", [A([1, 2, 3, 4])], _lse_ref()[0], [_lse_ref()[1]], kind="policy", category="integers", fd=False, wrong="integer zeros: array([0, 0, 0, 0])", notes="float gradient or a clear error")
def int_array_argument(a):
    return np.log(np.sum(np.exp(a)))


def _fft_ref():
    x = np.array([1.0, -2.0, 0.5, 3.0])
    n = 4
    k = np.arange(n)
    F = np.array([sum(x[j] * np.exp(-2j * np.pi * j * kk / n) for j in range(n)) for kk in k])
    m = np.array([1.0, 1.0, 0.0, 0.0])
    g = np.array([2 * sum(m[kk] * (np.conj(F[kk]) * np.exp(-2j * np.pi * j * kk / n)).real for kk in k) for j in range(n)])
    return x, float((m * np.abs(F) ** 2).sum()), g


@case("fft_masked_power", AG + "185", "power in some Fourier modes (mask not symmetric)", [_fft_ref()[0]], _fft_ref()[1], [_fft_ref()[2]], category="fft", wrong="wrong sign/conjugate, hidden by symmetric masks")
def fft_masked_power(x):
    return np.sum(np.abs(np.fft.fft(x)) ** 2 * np.array([1.0, 1.0, 0.0, 0.0]))


def _rfft_ref():
    x = np.array([1.0, -2.0, 0.5, 3.0, 2.0, -1.0])
    n = 6
    ks = range(4)
    F = [sum(x[j] * np.exp(-2j * np.pi * j * k / n) for j in range(n)) for k in ks]
    g = np.array([2 * sum((np.conj(F[k]) * np.exp(-2j * np.pi * j * k / n)).real for k in ks) for j in range(n)])
    return x, float(sum(abs(f) ** 2 for f in F)), g


def _circ_ref():
    x = np.array([1.0, -2.0, 0.5, 3.0, 2.0, -1.0])
    h = np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.25])
    w = np.arange(1.0, 7.0)
    y = np.array([sum(h[(i - j) % 6] * x[j] for j in range(6)) for i in range(6)])
    gx = np.array([sum(w[i] * h[(i - j) % 6] for i in range(6)) for j in range(6)])
    gh = np.array([sum(w[i] * x[(i - m) % 6] for i in range(6)) for m in range(6)])
    return x, h, float(w @ y), gx, gh


@case("irfft_filter", GH + "pymc-devs/pytensor/issues/969", "circular convolution by rfft/irfft", [_circ_ref()[0], _circ_ref()[1]], _circ_ref()[2], [_circ_ref()[3], _circ_ref()[4]], category="fft", wrong="error")
def irfft_filter(x, h):
    y = np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(h), n=6)
    return np.sum(np.arange(1.0, 7.0) * y)


@case("complex_abs_at_zero", GH + "FluxML/Zygote.jl/issues/1472", "modulus of a complex number built from two reals, at 0", [0.0, 0.0], 0.0, [0.0, 0.0], kind="convention", convex=True, accept=lambda v, g: _finite(g) and math.hypot(*map(float, g)) <= 1 + 1e-12, category="complex", wrong="NaN")
def complex_abs_at_zero(a, b):
    return np.abs(a + 1j * b)


# ---------------------------------------------------------------- special functions
@case("gammaln_digamma", GH + "EnzymeAD/Enzyme/pull/187", "gammaln and its second derivative", [A([0.5, 3.0, 10.0])], 0.57236494292470008707 + 0.69314718055994530942 + 12.801827480081469611, [A([-1.9635100260214234794, 0.92278433509846713939, 2.2517525890667211076])],
      hess=np.diag([4.9348022005446793094, 0.39493406684822643647, 0.10516633568168574612]), category="special", tol=1e-8)
def gammaln_digamma(x):
    return np.sum(special.gammaln(x))


@case("erf_erfc", GH + "EnzymeAD/Enzyme/pull/187", "erf and erfc, negative and positive", [A([-0.7, 0.0, 1.3])], float(math.erf(-0.7) + math.erf(0) + math.erf(1.3) + 2 * (math.erfc(-0.7) + math.erfc(0.0) + math.erfc(1.3))), [-2 / math.sqrt(math.pi) * np.exp(-A([-0.7, 0.0, 1.3]) ** 2)], category="special")
def erf_erfc(x):
    return np.sum(special.erf(x) + 2.0 * special.erfc(x))


@case("bessel_j0_j1", GH + "EnzymeAD/Enzyme/pull/187", "J0 and J1, including J1'(0) = 1/2", [A([0.0, 1.5])], 1.0 + 0.51182767173591812875 + 2 * (0.0 + 0.55793650791009964199), [A([0.0 + 2 * 0.5, -0.55793650791009964199 + 2 * 0.13986999979585170076])], category="special", wrong="0/0 at the origin")
def bessel_j0_j1(x):
    return np.sum(special.j0(x) + 2.0 * special.j1(x))


@case("gammainc_shape_parameter", GH + "stan-dev/math/pull/3408", "regularised lower incomplete gamma in its shape", [2.5, 1.7], 0.36143007689620492341, [-0.26654260855002462947, 0.30460467401363455049], tol=1e-7, category="special", wrong="off by tens of percent or NaN in parts of the plane")
def gammainc_shape_parameter(a, x):
    return special.gammainc(a, x)


# ---------------------------------------------------------------- interpolation, convolution, numeric gradient
@case("interp_all_arguments", GH + "HIPS/autograd/pull/194", "piecewise-linear interpolation: query, knots and values", [A([0.5, 2.0, -1.0, 5.0]), A([0.0, 1.0, 3.0]), A([1.0, 3.0, 2.0])], 2.0 + 2.5 + 1.0 + 2.0,
      [A([2.0, -0.5, 0.0, 0.0]), A([-1.0, -1.0 + 0.25, 0.25]), A([0.5 + 1.0, 0.5 + 0.5, 0.5 + 1.0])], category="interp", notes="outside the knots the value is constant")
def interp_all_arguments(x, xp, fp):
    return np.sum(np.interp(x, xp, fp))


def _conv_ref():
    x = np.array([1.0, 2.0, -1.0, 3.0])
    k = np.array([0.5, -1.0, 2.0])
    gx = np.zeros(4)
    gk = np.zeros(3)
    v = 0.0
    full = np.arange(1.0, 7.0)
    sel = np.zeros(6)
    sel[1:5] += np.array([1.0, 10.0, 100.0, 1000.0])
    sel[2:4] += np.array([7.0, 9.0])
    w = full + sel
    for i in range(4):
        for j in range(3):
            v += w[i + j] * x[i] * k[j]
            gx[i] += w[i + j] * k[j]
            gk[j] += w[i + j] * x[i]
    return x, k, v, gx, gk


@case("convolve_three_modes", AG + "644", "np.convolve in modes full, same and valid", [_conv_ref()[0], _conv_ref()[1]], _conv_ref()[2], [_conv_ref()[3], _conv_ref()[4]], category="convolve", wrong="unsupported; mode 'same' missing")
def convolve_three_modes(x, k):
    return (np.sum(np.arange(1.0, 7.0) * np.convolve(x, k, "full"))
            + np.sum(np.array([1.0, 10.0, 100.0, 1000.0]) * np.convolve(x, k, "same"))
            + np.sum(np.array([7.0, 9.0]) * np.convolve(x, k, "valid")))


@case("numeric_gradient_op", AG + "447", "np.gradient is linear; adjoint of the edge formulas", [A([1.0, 2.0, 4.0, 8.0])], 1 * 1 + 2 * 1.5 + 3 * 3 + 4 * 4.0, [A([-1.0 - 1.0, 1 - 1.5, 1.0 - 4, 1.5 + 4.0])], category="diff", wrong="not implemented")
def numeric_gradient_op(x):
    return np.sum(np.array([1.0, 2.0, 3.0, 4.0]) * np.gradient(x))


# ---------------------------------------------------------------- everyday code
@case("plain_numpy_import", AG + "85", "plain numpy code, negative half sum of squares", [A([1.0, -2.0, 3.0])], -7.0, [A([-1.0, 2.0, -3.0])], category="everyday", wrong="TypeError: wrong numpy imported")
def plain_numpy_import(x):
    return -0.5 * np.sum(x ** 2)


@case("method_call_plus_constant", TAN + "73", "np.exp(x).sum() + 1", [A([0.0, 1.0])], 2.0 + math.e, [A([1.0, math.e])], category="everyday", wrong="AttributeError")
def method_call_plus_constant(x):
    return np.exp(x).sum() + 1


@case("norm_minus_logsumexp", JAX + "939", "norm penalty minus a two-term log-sum-exp", [np.zeros(2), np.ones(2)], 1.1284721644447386971, [A([4.5138882469168682672, 0.0]), A([-6.7708323703753024008, 0.0])], category="fast-math", wrong="NaN under jit with fast-math on CPU")
def norm_minus_logsumexp(loc, scale):
    x = loc + scale * np.array([-1.5, 0.0])
    t1 = 0.5 * ((np.sqrt(np.sum(x * x)) - 2.0) / 0.4) ** 2
    t2 = -0.5 * ((x[:1] + np.array([-2.0, 2.0])) / 0.6) ** 2
    m = np.max(t2)
    return t1 - (np.log(np.sum(np.exp(t2 - m))) + m)


def close(got, want, rtol, atol):
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    if got.shape != want.shape:
        return False
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        ok = np.abs(got - want) <= atol + rtol * np.abs(want)
    return bool(np.all(same | ok))


def judge(c, value, grads):
    """Compare a value and gradients with case c; returns (ok, message)."""
    with np.errstate(all="ignore"):
        if not close(value, c["expected_value"], max(c["tol"], 1e-12), 1e-12):
            return False, "value %r, expected %r" % (value, c["expected_value"])
        for i, w in enumerate(c["expected_grads"]):
            if w is None:
                continue
            if np.shape(grads[i]) != np.shape(w):
                return False, "grad %d has shape %r, expected %r" % (i, np.shape(grads[i]), np.shape(w))
            if c["dtypes"] and c["dtypes"][i] is not None and np.asarray(grads[i]).dtype != c["dtypes"][i]:
                return False, "grad %d has dtype %s" % (i, np.asarray(grads[i]).dtype)
            if not close(grads[i], w, c["tol"], c["atol"]):
                if c["accept"] is not None and c["accept"](value, list(grads)):
                    return True, "another sound choice"
                return False, "grad %d is %r, expected %r" % (i, grads[i], w)
    return True, "ok"
