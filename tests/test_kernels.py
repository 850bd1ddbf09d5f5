"""The runtime: dtypes, layouts, guards, `out=`, threads, fork, pickle, and use inside the user's own @njit code."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import multiprocessing
import pickle
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from conftest import assert_close, assert_same

from adcompile import ShapeError, compile_grad, compile_value


def logistic(w, X, y):
    return np.sum(np.log1p(np.exp(-y * (X @ w))))


def logistic_gradient(w, X, y):
    return X.T @ (-y / (1.0 + np.exp(y * (X @ w))))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_gradient(x):
    gradient = np.zeros_like(x)
    gradient[:-1] = -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    gradient[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return gradient


compiled_rosenbrock = compile_grad(rosenbrock)


@pytest.fixture(scope="module")
def loss():
    return compile_grad(logistic)


@pytest.fixture
def data(rng):
    return rng.normal(size=3), rng.normal(size=(7, 3)), np.sign(rng.normal(size=7))


# ---------------------------------------------------------------------------------------------------- layouts and dtypes
def swapped(a):
    return a.astype(a.dtype.newbyteorder())


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def strided(a):
    wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), np.nan)
    wide[..., ::2] = a
    return wide[..., ::2]


def reversed_memory(a):
    return np.ascontiguousarray(a[..., ::-1])[..., ::-1]


def unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)[1:]
    view = memory.view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


@pytest.mark.parametrize("layout", [swapped, read_only, strided, reversed_memory, unaligned, np.asfortranarray])
def test_every_layout_gives_the_same(loss, data, layout):
    value, gradient = loss(*map(layout, data))
    assert_close((value, gradient), (logistic(*data), logistic_gradient(*data)))
    assert len(loss.specialisations) == 1
    assert gradient.flags.c_contiguous
    assert gradient.flags.writeable


def test_arguments_are_never_written(loss, data):
    before = copy.deepcopy(data)
    loss(*data)
    loss(*map(read_only, data))
    assert_same(data, before)


def test_read_only_memory_is_not_copied_and_not_made_writable(loss, data):
    w, X, y = map(read_only, data)
    loss(w, X, y)
    assert not X.flags.writeable


def test_float32_stays_float32(data):
    f = compile_grad(logistic)
    w, X, y = (a.astype(np.float32) for a in data)
    value, gradient = f(w, X, y)
    assert gradient.dtype == np.float32
    assert type(value) is float
    assert_close(gradient, logistic_gradient(*data).astype(np.float32), rtol=1e-4)


def test_each_dtype_has_its_own_specialisation_whatever_came_first(data):
    single = tuple(a.astype(np.float32) for a in data)
    for order in ([data, single], [single, data]):
        f = compile_grad(logistic)
        for arguments in order:
            assert f(*arguments)[1].dtype == arguments[0].dtype
        assert len(f.specialisations) == 2


def test_a_float_is_never_truncated_to_an_integer():
    f = compile_value(lambda x, k: np.sum(x) * k)
    x = np.ones(3)
    assert f(x, 2) == 6.0
    assert f(x, 2.5) == 7.5
    assert f(x, 2) == 6.0
    assert f(x, 2.5) == 7.5


def test_a_python_number_and_a_numpy_number_promote_as_in_numpy():
    def scale(x, a):
        return x * a
    f = compile_value(scale)
    x = np.ones(3, np.float32)
    for a in (2.0, np.float64(2.0), np.float32(2.0), 2, 2.0):
        assert_same(f(x, a), scale(x, a))


@pytest.mark.parametrize("given", [3.0, 3, np.float64(3.0), np.array(3.0)])
def test_scalars_come_back_as_python_floats(given):
    f = compile_grad(lambda x: x * x)
    for _ in range(2):
        value, gradient = f(given)
        assert type(value) is float
        assert type(gradient) is float
        assert (value, gradient) == (9.0, 6.0)


def test_integers_for_a_differentiated_float_and_back():
    f = compile_grad(lambda x, y: x * x * y)
    for x in (2.0, 2, 2.0, np.int64(2)):
        assert f(x, 3.0) == (12.0, 12.0)


def test_forced_dtype():
    f = compile_grad(lambda x: np.sum(x * x), dtype=np.float32)
    value, gradient = f(np.array([0.1, 2.0]))
    assert value == float(np.sum(np.array([0.1, 2.0], np.float32) ** 2))
    assert gradient.dtype == np.float64                     # as the argument
    assert gradient[0] == 2.0 * float(np.float32(0.1))
    f(np.array([1.0, 2.0]))
    assert len(f.specialisations) == 1


# ---------------------------------------------------------------------------------------------------- sizes and guards
def test_one_kernel_for_all_sizes(loss, rng):
    count = len(loss.specialisations)
    for n in (10, 1000, 37, 1, 0):
        for d in (3, 1, 5):
            arguments = rng.normal(size=d), rng.normal(size=(n, d)), np.sign(rng.normal(size=n))
            assert_close(loss(*arguments), (logistic(*arguments), logistic_gradient(*arguments)))
    assert len(loss.specialisations) <= count + 3       # lengths 1 that broadcast mean something else


def test_where_broadcasting_changes_a_guard_misses(rng):
    f = compile_grad(lambda a, b: np.sum(np.sin(a + b) * a), wrt=("a", "b"))
    one, full = rng.normal(size=(1, 3)), rng.normal(size=(4, 3))
    for a, b in [(full, full), (one, full), (full, one), (one, one), (full, full), (one, full)]:
        value, (ga, gb) = f(a, b)
        assert_close(value, np.sum(np.sin(a + b) * a))
        assert ga.shape == a.shape
        assert gb.shape == b.shape
        assert_close(gb, np.broadcast_to(np.sum(np.cos(a + b) * a, 0, keepdims=True), b.shape) if len(b) == 1
                     else np.cos(a + b) * a)
    assert len(f.specialisations) <= 4
    assert all(isinstance(guard, str) for guard in f.guards)


def test_sizes_that_do_not_fit_are_an_error_after_a_call_that_did(loss, data):
    w, X, y = data
    loss(w, X, y)
    with pytest.raises(ShapeError, match="test_kernels.py"):
        loss(w[:2], X, y)
    with pytest.raises(ShapeError):
        loss(w, X, y[:3])
    assert_close(loss(w, X, y)[0], logistic(w, X, y))


# ---------------------------------------------------------------------------------------------------- captured values
SCALE = 2.0
WEIGHTS = np.array([1.0, 2.0])


def scaled(x):
    return SCALE * np.sum(WEIGHTS * x)


def test_globals_are_read_at_every_call(monkeypatch):
    f = compile_grad(scaled)
    x = np.array([1.0, 1.0])
    assert_close(f(x), (6.0, np.array([2.0, 4.0])))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert_close(f(x), (9.0, np.array([3.0, 6.0])))
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([1.0, 5.0]))
    assert_close(f(x), (18.0, np.array([3.0, 15.0])))
    WEIGHTS[0] = 0.0
    assert_close(f(x), (15.0, np.array([0.0, 15.0])))
    monkeypatch.setitem(globals(), "SCALE", 3)                      # another type: another specialisation, still right
    assert_close(f(x), (15.0, np.array([0.0, 15.0])))


def test_a_closure_cell_is_read_at_every_call():
    rate = 1.0

    def decay(x):
        return np.sum(np.exp(-rate * x))

    f = compile_grad(decay)
    x = np.array([0.5])
    assert_close(f(x)[0], np.exp(-0.5))
    rate = 2.0
    assert_close(f(x)[0], np.exp(-1.0))


def test_a_helper_that_is_replaced_is_seen(monkeypatch):
    f = compile_grad(through_helper)
    x = np.array([1.0, 2.0])
    assert_close(f(x)[0], 5.0)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 3.0)
    assert_close(f(x)[0], 9.0)


def helper(x):
    return x * x


def through_helper(x):
    return np.sum(helper(x))


# ---------------------------------------------------------------------------------------------------- out=
def test_out_is_written_in_place(loss, data):
    w, X, y = data
    out = np.full(3, np.nan)
    for _ in range(2):
        value, gradient = loss(w, X, y, out=out)
        assert gradient is out
        assert_close((value, out), (logistic(*data), logistic_gradient(*data)))
        assert type(value) is float


def test_out_may_overlap_an_argument(data):
    f = compile_grad(rosenbrock)
    x = data[0].copy()
    wanted = rosenbrock(x), rosenbrock_gradient(x)
    f(np.zeros(3), out=np.zeros(3))
    assert_close(f(x, out=x), wanted)
    assert_close(x, wanted[1])


def test_out_may_be_strided(loss, data):
    memory = np.zeros(6)
    loss(*data, out=memory[::2])
    assert_close(memory[::2], logistic_gradient(*data))
    assert not memory[1::2].any()


def test_out_as_a_tuple():
    f = compile_grad(lambda a, b: np.sum(a * a) * b, wrt=("a", "b"))
    a, out = np.array([1.0, 2.0]), (np.zeros(2), np.zeros(()))
    value, gradient = f(a, 3.0, out=out)
    assert gradient is out
    assert_close((value, out), (15.0, (np.array([6.0, 12.0]), np.array(5.0))))


@pytest.mark.parametrize(("out", "error", "text"), [
    (np.zeros(4), ShapeError, r"shape \(4,\)"),
    (np.zeros(3, np.float32), TypeError, "float32"),
    ([0.0, 0.0, 0.0], TypeError, "list"),
    (read_only(np.zeros(3)), ValueError, "read-only"),
])
def test_a_wrong_out(loss, data, out, error, text):
    with pytest.raises(error, match=text):
        loss(*data, out=out)


# ---------------------------------------------------------------------------------------------------- threads, fork, pickle
def test_many_threads_at_once(rng):
    f = compile_grad(rosenbrock)
    points = [rng.normal(size=2 + k % 5) for k in range(64)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(f, points))
    for x, result in zip(points, results):
        assert_close(result, (rosenbrock(x), rosenbrock_gradient(x)))
    assert len(f.specialisations) == 1


def call_in_child(x):
    return compiled_rosenbrock(x)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_call_and_compile():
    x = np.array([1.0, 2.0, 3.0])
    wanted = compiled_rosenbrock(x)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert_close(pool.apply(call_in_child, (x,)), wanted)
        assert_close(pool.apply(call_in_child, (x.astype(np.float32),)), wanted, rtol=1e-4)


@compile_grad
def decorated(x):
    """A sum of squares."""
    return np.sum(x * x)


def test_a_decorated_function_pickles_by_reference():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated


def test_a_lambda_pickles_with_what_it_holds_on_to():
    scale = 3.0
    f = compile_grad(lambda x: scale * np.sum(x * x))
    g = pickle.loads(pickle.dumps(f))
    assert_close(g(np.array([1.0, 2.0])), f(np.array([1.0, 2.0])))
    assert g.options == f.options


def test_a_function_pickles_with_its_options():
    f = pickle.loads(pickle.dumps(compile_grad(logistic, wrt="X")))
    assert f.options.wrt == "X"


# ---------------------------------------------------------------------------------------------------- inside @njit
def test_inside_njit_after_a_call_from_python():
    f = compile_grad(rosenbrock)
    f(np.zeros(2))

    @numba.njit
    def twice(x):
        value, gradient = f(x)
        return 2.0 * value, 2.0 * gradient

    x = np.array([0.5, -1.0, 2.0])
    assert_close(twice(x), (2.0 * rosenbrock(x), 2.0 * rosenbrock_gradient(x)))
    assert_close(twice(np.repeat(x, 2)[::2]), (2.0 * rosenbrock(x), 2.0 * rosenbrock_gradient(x)))


def test_the_value_alone_inside_njit():
    f = compile_grad(rosenbrock)

    @numba.njit
    def difference(x, y):
        return f.value(x) - f.value(y)

    x, y = np.array([0.5, -1.0, 2.0]), np.zeros(3)
    assert_close(difference(x, y), rosenbrock(x) - rosenbrock(y))


def test_other_attributes_inside_njit_are_refused():
    f = compile_grad(rosenbrock)

    @numba.njit
    def gradient(x):
        return f.grad(x)

    with pytest.raises(numba.TypingError, match=r"rosenbrock.grad cannot be used inside @njit code: call rosenbrock\(...\)"):
        gradient(np.zeros(2))


def test_inside_njit_without_a_call_before():
    f = compile_grad(logistic)

    @numba.njit
    def call(w, X, y):
        return f(w, X, y)

    rng = np.random.default_rng(0)
    arguments = rng.normal(size=2), rng.normal(size=(9, 2)), np.ones(9)
    assert_close(call(*arguments), (logistic(*arguments), logistic_gradient(*arguments)))
    with pytest.raises(ValueError, match="shape"):
        call(arguments[0][:1], arguments[1], arguments[2])


def test_gradient_descent_compiled_by_njit(rng):
    f = compile_grad(logistic)
    X, y = rng.normal(size=(50, 3)), np.sign(rng.normal(size=50))

    @numba.njit
    def descend(w, X, y, rate, steps):
        for _ in range(steps):
            value, gradient = f(w, X, y)
            w = w - rate * gradient
        return value, w

    value, w = descend(np.zeros(3), X, y, 0.05, 500)
    assert_close(np.abs(logistic_gradient(w, X, y)).max(), 0.0, atol=1e-3)
    assert value < logistic(np.zeros(3), X, y)


def test_hamiltonian_monte_carlo_compiled_by_njit():
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    f = compile_grad(lambda x: 0.5 * np.sum(x * (precision @ x)))

    @numba.njit
    def sample(x, step, leapfrogs, draws, seed):
        np.random.seed(seed)
        kept = np.empty((draws, x.shape[0]))
        value, gradient = f(x)
        for k in range(draws):
            p = np.random.normal(0.0, 1.0, x.shape[0])
            energy = value + 0.5 * np.sum(p * p)
            x_new, v_new, g_new = x, value, gradient
            for _ in range(leapfrogs):
                p = p - 0.5 * step * g_new
                x_new = x_new + step * p
                v_new, g_new = f(x_new)
                p = p - 0.5 * step * g_new
            if np.log(np.random.random()) < energy - v_new - 0.5 * np.sum(p * p):
                x, value, gradient = x_new, v_new, g_new
            kept[k] = x
        return kept

    draws = sample(np.zeros(2), 0.3, 8, 20000, 1)
    assert_close(np.cov(draws.T), np.linalg.inv(precision), rtol=0.1, atol=0.05)


def test_several_gradients_in_one_njit_function():
    f, g = compile_grad(rosenbrock), compile_grad(lambda x, a: a * np.sum(x * x), wrt=("x", "a"))

    @numba.njit
    def both(x, a):
        v1, g1 = f(x)
        v2, (g2, ga) = g(x, a)
        return v1 + v2, g1 + g2, ga

    x = np.array([1.0, 2.0])
    value, gradient, slope = both(x, 3.0)
    assert_close((value, gradient, slope), (rosenbrock(x) + 15.0, rosenbrock_gradient(x) + 6.0 * x, 5.0))


def test_passed_to_njit_code_as_an_argument():
    f = compile_grad(lambda x: np.sum(x * x))

    @numba.njit
    def call(g, x):
        return g(x)[0]

    assert call(f, np.array([3.0])) == 9.0


def test_njit_code_refuses_other_dtypes(loss, data):
    @numba.njit
    def call(w, X, y):
        return loss(w, X, y)

    with pytest.raises(Exception, match="integer|no derivative|int64"):
        call(np.ones(3, np.int64), data[1], data[2])


def test_the_kernel_underneath(loss, data):
    w, X, y = data
    kernel = loss.kernel(*data)
    buffer = np.zeros(3)
    assert_close((kernel(w, X, y, buffer), buffer), (logistic(*data), logistic_gradient(*data)))

    @numba.njit
    def use(w, X, y, buffer):
        return kernel(w, X, y, buffer)

    other = np.zeros(3)
    assert_close((use(w, X, y, other), other), (logistic(*data), logistic_gradient(*data)))
    with pytest.raises(TypeError, match="takes"):
        kernel(w.astype(int), X, y, buffer)


# ---------------------------------------------------------------------------------------------------- trees
class Params(NamedTuple):
    w: Any
    b: Any


def affine(params, x):
    return np.sum((params["w"] * x + params["b"]) ** 2)


def test_a_dict_of_arguments():
    f = compile_grad(affine)
    params, x = {"w": 2.0, "b": np.array([1.0, -1.0])}, np.array([1.0, 3.0])
    for _ in range(2):
        value, gradient = f(params, x)
        assert_close((value, gradient), (34.0, {"w": 36.0, "b": np.array([6.0, 10.0])}))
    with pytest.raises(KeyError):
        f({"w": 2.0, "c": x}, x)


def test_named_tuples_and_nested_trees():
    f = compile_grad(lambda p, x: np.sum(p.w[0] * x + p.b[1]["c"]))
    p = Params((2.0, "a note"), [None, {"c": 1.0}])
    for _ in range(2):
        value, gradient = f(p, np.array([1.0, 2.0]))
        assert value == 8.0
        assert isinstance(gradient, Params)
        assert gradient == Params((3.0, "a note"), [None, {"c": 2.0}])


def test_has_aux():
    f = compile_grad(lambda x: (np.sum(x * x), {"x": x, "twice": 2.0 * x}), has_aux=True)
    x = np.array([1.0, 2.0])
    for _ in range(2):
        (value, aux), gradient = f(x)
        assert_close((value, aux, gradient), (5.0, {"x": x, "twice": 2 * x}, 2 * x))


def test_partials_and_keywords():
    f = compile_grad(functools.partial(logistic, y=np.array([1.0, -1.0])))
    w, X = np.array([0.5]), np.array([[1.0], [2.0]])
    assert_close(f(w, X)[1], logistic_gradient(w, X, np.array([1.0, -1.0])))
    g = compile_grad(logistic, wrt="X")
    assert_close(g(w, y=np.ones(2), X=X)[0], logistic(w, X, np.ones(2)))


def test_defaults_and_keyword_only_arguments():
    def penalised(x, *, strength=2.0):
        return strength * np.sum(x * x)

    f = compile_grad(penalised)
    x = np.array([1.0])
    assert f(x)[0] == 2.0
    assert f(x, strength=3.0)[0] == 3.0
