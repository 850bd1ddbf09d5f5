"""Capture: what it reads, assumes and refuses. Results are checked by interpreting the graph: it must give what Python gives,
for other values of the arguments and of everything that the function reads from outside too."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import random
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
import scipy.special
from conftest import assert_close, assert_same
from corpus import CORPUS

from adcompile.capture import Abstract, capture, capture_types, detach, no_grad, stop_gradient
from adcompile.capture.calls import traceable
from adcompile.capture.driver import CapturedFunction
from adcompile.capture.source import rewritten
from adcompile.errors import CaptureError, DifferentiationError, ShapeError, UnsupportedOp
from adcompile.ir.interpreter import interpret
from adcompile.ir.signature import Leaf, Static, Tree, leaves
from adcompile.ir.types import DType
from adcompile.ir.verifier import verify


# ------------------------------------------------------------------------------------------------------ helpers
def holds(captured: CapturedFunction, *args: Any, **kwargs: Any) -> bool:
    """Whether a capture is right for these arguments, by its checks, types and guards."""
    arguments = bind(captured, args, kwargs)
    for check in captured.signature.checks:
        value = check.access.read(arguments)
        if not (value is check.expected if check.identity else type(value) is type(check.expected) and value == check.expected):
            return False
    params = read_inputs(captured, arguments)
    sizes = {s: int(params[z.parameter]) if z.axis is None else params[z.parameter].shape[z.axis]
             for s, z in captured.function.sizes.items()}
    shapes = all(tuple(d.evaluate(sizes) for d in p.type.dims) == np.shape(x)
                 for p, x in zip(captured.function.params, params, strict=True))
    return shapes and all(g.holds(sizes) for g in captured.function.guards)


def bind(captured: CapturedFunction, args: Any, kwargs: Any) -> dict[str, Any]:
    bound = captured.signature.python.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def read_inputs(captured: CapturedFunction, arguments: dict[str, Any]) -> list[Any]:
    return [np.asarray(i.access.read(arguments), dtype=p.type.dtype.numpy)[()]
            for i, p in zip(captured.signature.inputs, captured.function.params, strict=True)]


def run(captured: CapturedFunction, *args: Any, **kwargs: Any) -> Any:
    """What the captured graph gives for these arguments, in the structure that the function returns."""
    assert holds(captured, *args, **kwargs), "the capture does not claim to be right here"
    flat = interpret(captured.function, tuple(read_inputs(captured, bind(captured, args, kwargs))))
    return build(captured.signature.result, flat)


def build(tree: Tree, flat: Any) -> Any:
    if isinstance(tree, Leaf):
        return flat[tree.index]
    if isinstance(tree, Static):
        return tree.value
    children = [build(child, flat) for child in tree.children]
    if tree.kind is dict:
        return dict(zip(tree.keys or (), children, strict=True))
    return tree.kind(*children) if tree.keys else tree.kind(children)


def agrees(f: Callable[..., Any], *args: Any, **kwargs: Any) -> CapturedFunction:
    """Capture `f` and compare the graph with `f` itself."""
    captured = capture(f, args, kwargs)
    verify(captured.function)
    assert_close(run(captured, *args, **kwargs), f(*args, **kwargs), rtol=1e-13)
    return captured


def names(captured: CapturedFunction) -> list[str]:
    return [i.text for i in captured.signature.inputs]


def ops(captured: CapturedFunction) -> list[str]:
    return [operation.op for operation in captured.function.body.operations]


def line_of(f: Callable[..., Any], text: str) -> int:
    """The line of a function that holds a text."""
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if text in line and "line_of" not in line)


X3 = np.array([0.5, -1.5, 2.0])
M23 = np.arange(6.0).reshape(2, 3) - 2.5


# ------------------------------------------------------------------------------------------------------ finding the source
def test_lambdas_on_one_line_are_told_apart() -> None:
    f, g, h = (lambda x: x * 2.0), (lambda x: x * 3.0), (lambda x: (lambda x: x + 1.0)(x) * 4.0)
    for function in (f, g, h):
        agrees(function, X3)


def test_lambda_returned_by_a_lambda() -> None:
    make = lambda scale: lambda x: x * scale        # noqa: E731
    assert names(agrees(make(3.0), X3)) == ["x", "scale"]


def test_decorators_are_stripped_and_wrappers_run() -> None:
    def double(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return 2.0 * f(*args, **kwargs)
        return wrapper

    @double
    @double
    def f(x: Any) -> Any:
        return x + 1.0

    agrees(f, X3)


def test_code_without_source_is_traced_with_its_globals_as_inputs() -> None:
    space: dict[str, Any] = {"np": np, "scale": 2.0}
    exec("def f(x, k=3.0):\n    return np.sum(x * scale) * k", space)
    captured = agrees(space["f"], X3)
    space["scale"] = 5.0
    assert_close(run(captured, X3), space["f"](X3))


def test_locations_are_the_users_lines() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        return y * helper_square(x)

    captured = agrees(f, X3)
    found = {(o.location.line, o.location.function) for o in captured.function.body.operations if o.location}
    assert (line_of(f, "np.sin"), "f") in found
    assert (line_of(helper_square, "x * x"), "helper_square") in found


def helper_square(x: Any) -> Any:
    return x * x


def test_values_have_the_users_names() -> None:
    def f(w: Any, x: Any) -> Any:
        z = x @ w
        a, b = np.sin(z), np.cos(z)
        z = a * b
        return np.sum(z)

    captured = agrees(f, X3, M23)
    found = {v.name for o in captured.function.body.operations for v in o.results}
    assert {"z", "a", "b", "z_1"} <= found


def test_private_names_and_super() -> None:
    class Base:
        def value(self, x: Any) -> Any:
            return x * 2.0

    class Model(Base):
        def __init__(self) -> None:
            self.__scale = 3.0

        def value(self, x: Any) -> Any:
            return super().value(x) * self.__scale

    agrees(Model().value, X3)


@pytest.mark.parametrize("name", CORPUS)
def test_rewritten_code_outside_of_a_capture_is_just_python(name: str) -> None:
    program = CORPUS[name]
    if not isinstance(program.function, types.FunctionType):
        return
    assert rewritten(program.function) is not None
    args = program.sample()
    with np.errstate(all="ignore"):
        assert_same(traceable(program.function)(*copy.deepcopy(args)), program.function(*copy.deepcopy(args)))


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str) -> None:
    program = CORPUS[name]
    first, *others = program.samples()
    captured = capture(program.function, first)
    verify(captured.function)
    for args in (first, *others):
        if not holds(captured, *args):
            captured = capture(program.function, args)
        with np.errstate(all="ignore"):
            assert_close(run(captured, *args), program.function(*copy.deepcopy(args)), rtol=1e-6 if single(args) else 1e-11)


def single(args: Any) -> bool:
    """Whether float32 is computed in."""
    return any(getattr(a, "dtype", None) == np.float32 for a in args)


# ------------------------------------------------------------------------------------------------------ captured values
SCALE = 2.0
OFFSET = np.array([1.0, 2.0, 3.0])
COUNT = 3
MODE = "sin"
TABLE = {"rate": 0.5, "layers": [(1.0, 2.0), (3.0, 4.0)], "kind": "plain"}


def test_globals_are_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return SCALE * x + OFFSET * SCALE

    captured = agrees(f, X3)
    assert names(captured) == ["x", "SCALE", "OFFSET"]
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    OFFSET[0] += 1.0
    assert_close(run(captured, X3), f(X3))
    OFFSET[0] -= 1.0


def test_closure_cells_are_inputs_and_stay_the_same_cells() -> None:
    factor = 2.0

    def f(x: Any) -> Any:
        return factor * x

    captured = agrees(f, X3)
    factor = 5.0
    assert_close(run(captured, X3), 5.0 * X3)


def test_attributes_of_self_are_inputs() -> None:
    class Model:
        offset = 1.0

        def __init__(self) -> None:
            self.scale, self.inner = 2.0, types.SimpleNamespace(weights=np.ones(3))

        def helper(self, x: Any) -> Any:
            return x * self.scale * self.inner.weights

        def loss(self, x: Any) -> Any:
            return np.sum(self.helper(x)) + self.offset

        @property
        def double(self) -> float:
            return 2.0 * self.scale

        def __call__(self, x: Any) -> Any:
            return x * self.double

    model = Model()
    captured, called = agrees(model.loss, X3), agrees(model, X3)
    assert names(captured) == ["x", "self.scale", "self.inner.weights", "self.offset"]
    model.scale, model.inner.weights = 3.0, np.array([1.0, 2.0, 3.0])
    assert_close(run(captured, X3), model.loss(X3))
    assert_close(run(called, X3), model(X3))


def test_items_of_captured_containers_are_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for a, b in TABLE["layers"]:  # type: ignore[attr-defined]
            x = x * a + b
        return x * TABLE["rate"]

    captured = agrees(f, X3)
    assert "TABLE['layers'][1][0]" in names(captured)
    monkeypatch.setitem(TABLE, "rate", 4.0)
    monkeypatch.setitem(TABLE, "layers", [(2.0, 2.0), (3.0, 5.0)])
    assert_close(run(captured, X3), f(X3))
    monkeypatch.setitem(TABLE, "layers", [(2.0, 2.0)])
    assert not holds(captured, X3)


def test_strings_bools_and_functions_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return helper_square(np.sin(x) if MODE == "sin" else np.cos(x))

    captured = agrees(f, X3)
    assert sorted(c.text for c in captured.signature.checks) == ["MODE", "helper_square"]
    monkeypatch.setitem(globals(), "MODE", "cos")
    assert not holds(captured, X3)


def test_unused_captured_values_are_dropped() -> None:
    def f(x: Any) -> Any:
        _ = OFFSET * SCALE
        return x * 2.0

    assert names(agrees(f, X3)) == ["x"]


def test_integers_from_outside_are_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return sum(x * k for k in range(COUNT))

    captured = agrees(f, X3)
    monkeypatch.setitem(globals(), "COUNT", 4)
    assert holds(captured, X3)
    assert_close(run(captured, X3), f(X3))


def test_partials_hold_inputs() -> None:
    def f(a: float, x: Any, *, b: float = 1.0) -> Any:
        return a * x + b

    g = functools.partial(f, 2.0, b=3.0)
    captured = agrees(g, X3)
    assert "argument 0" in names(captured)


def test_njit_helpers_and_functions() -> None:
    @numba.njit
    def helper(x: float) -> float:
        return math.sin(x) * 2.0

    @numba.njit
    def f(x: Any) -> Any:
        return np.sum(x) * helper(x[0])

    agrees(f, X3)


def test_large_constants_become_inputs_and_small_ones_do_not() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.linspace(0.0, 1.0, 200)) * x + np.arange(3.0) + np.array([1.0, 2.0, 4.0])

    assert names(agrees(f, X3)) == ["x"]

    def g(x: Any) -> Any:
        return x * np.linspace(0.0, 1.0, 200)

    captured = agrees(g, np.ones(200))
    assert names(captured) == ["x", "constant"]


# ------------------------------------------------------------------------------------------------------ arguments
class Pair(NamedTuple):
    """A NamedTuple argument."""

    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Params:
    """A dataclass argument."""

    w: Any
    b: float
    name: str = "p"


def test_nested_arguments() -> None:
    def f(p: Any, q: Pair, *rest: Any, k: int = 3, **more: Any) -> Any:
        if p["x"].name == "p":
            return {"y": p["x"].w * p["x"].b + q.a, "z": (q.b * rest[0] * k, more["s"] / rest[1])}
        return p

    args = ({"x": Params(X3, 2.0)}, Pair(X3, 4.0), X3, 2.0)
    captured = agrees(f, *args, s=5)
    assert names(captured) == ["p['x'].w", "p['x'].b", "q.a", "q.b", "rest[0]", "rest[1]", "k", "more['s']"]
    marked = capture(f, args, {"s": 5}, wrt=("p", 3, "s"))
    assert [leaves(t) for t in marked.signature.wrt] == [[0, 1], [5], [7]]
    assert marked.function.params[7].type.dtype is DType.f64


def test_integer_arguments_are_symbolic() -> None:
    def f(x: Any, n: int) -> Any:
        return x[:n] * n + np.zeros(n)

    captured = agrees(f, X3, 2)
    assert_close(run(captured, X3, 1), f(X3, 1))


def test_isinstance_and_len_answer_as_python() -> None:
    def f(x: Any, n: int, s: float) -> Any:
        assert isinstance(n, int) and isinstance(len(x), int) and isinstance(s, float) and isinstance(x, np.ndarray)
        assert isinstance(x.shape[0], (int, np.integer)) and type(n) is int and x.ndim == 1 and x.dtype == np.float64
        return x * len(x) * n * s

    captured = agrees(f, X3, 2, 0.5)
    assert_close(run(captured, np.ones(5), 3, 0.25), f(np.ones(5), 3, 0.25))


def test_one_capture_for_all_sizes_and_another_where_broadcasting_changes() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * y)

    captured = agrees(f, X3, X3)
    assert_close(run(captured, np.ones(7), np.ones(7)), 7.0)
    assert not holds(captured, np.ones(7), np.ones(1))
    stretched = agrees(f, np.ones((4, 3)), np.ones((1, 3)))
    assert not holds(stretched, np.ones((4, 3)), np.ones((4, 3)))
    assert holds(stretched, np.ones((1, 3)), np.ones((1, 3)))


def test_comparisons_of_sizes_are_guards() -> None:
    def f(x: Any, y: Any) -> Any:
        if x.shape[0] > y.shape[0] and x.shape[0] != 10:
            return np.sum(x)
        return np.sum(y)

    captured = agrees(f, np.ones(4), np.ones(2))
    assert [str(g) for g in captured.function.guards] == ["x_0 > y_0", "x_0 != 10"]
    assert not holds(captured, np.ones(10), np.ones(2))


def test_unpacking_and_iterating_pin_the_length() -> None:
    def f(p: Any) -> Any:
        a, b, *c = p
        return a * b + sum(v * v for v in c)

    captured = agrees(f, np.array([1.0, 2.0, 3.0, 4.0]))
    assert not holds(captured, np.ones(5))


def test_dtype_option_casts_floats() -> None:
    captured = capture(lambda x, n: x * 2.0 * n, (X3, 2), dtype=np.float32)
    assert captured.function.params[0].type.dtype is DType.f64
    assert captured.function.results[0].type.dtype is DType.f32


def test_python_floats_are_weak() -> None:
    def f(x: Any, s: float, t: np.float64) -> Any:
        return x * s, x * (1.0 / s), x * math.exp(s), x * t, x * (len(x) / 2)

    single = X3.astype(np.float32)
    captured = capture(f, (single, 0.3, np.float64(0.3)))
    assert [r.type.dtype.numpy for r in captured.function.results] == [v.dtype for v in f(single, 0.3, np.float64(0.3))]


def test_types_without_values() -> None:
    captured = capture_types(lambda x, w, n: np.sum(x @ w) * n, (Abstract(DType.f64, 2), Abstract(DType.f64, 1),
                                                                 Abstract(DType.i64, 0)))
    assert_close(run(captured, M23, X3, 2), np.sum(M23 @ X3) * 2)


    pair = capture_types(unpack_two, ((Abstract(DType.f64, 1), Abstract(DType.f64, 0)),))
    assert_close(run(pair, (np.array([2.0, 3.0]), 4.0)), 24.0)


def unpack_two(p: Any) -> Any:
    (a, b), c = p
    return a * b * c


# ------------------------------------------------------------------------------------------------------ Python as people write it
def test_numbers_and_builtins() -> None:
    def f(x: Any, s: float) -> Any:
        total = 0.0
        for k, v in enumerate(x):
            total += (k + 1) * v
        total += sum(x) + max(x[0], s) + min(x[1], 0.0) + abs(x[2]) + float(x[0]) ** 2 + math.sin(s) + pow(s, 2)
        pairs = [a * b for a, b in zip(x, (1.0, 2.0, 3.0), strict=True)]
        return total + pairs[0] - pairs[-1] + np.float64(s) + round(2.5) + len(pairs) + divmod(7, 2)[1]

    agrees(f, X3, 0.3)


def test_arrays_of_traced_values() -> None:
    def f(x: Any) -> Any:
        return np.array([x[0], 2.0, x[1] * x[2]]), np.asarray([[x[0], x[1]], [1.0, x[2]]]), np.stack([x, x])

    agrees(f, X3)


def test_methods_and_attributes_of_arrays() -> None:
    def f(x: Any) -> Any:
        return (x.sum(axis=0), x.mean(), x.T.reshape(-1), x.reshape(3, 2), x.max(axis=1, keepdims=True), x.astype(np.float32),
                x.copy(), x.dot(x.T), x.ravel(), x.transpose(1, 0), x.size * x.shape[1], x[0, -1].item(), x.clip(0.0, 1.0))

    agrees(f, M23)


def test_concrete_control_flow_is_just_python() -> None:
    def f(x: Any, kind: str, flag: bool, extra: Any = None) -> Any:
        for name in ("a", "b"):
            if kind == name and not flag:
                x = x * 2.0
        while x.ndim < 2:
            x = x[None]
        try:
            y = x + (1.0 if extra is None else extra)
        finally:
            x = x * 1.0
        match kind:
            case "a":
                return y
            case _:
                return -y

    agrees(f, X3, "a", False)
    agrees(f, X3, "b", True, 2.0)


def test_nested_functions_generators_and_callbacks() -> None:
    def f(x: Any) -> Any:
        def scaled(v: Any, by: float = 2.0) -> Any:
            return v * by * SCALE

        def parts() -> Any:
            for k in range(2):
                yield scaled(x[k])

        return sum(parts()) + functools.reduce(lambda a, b: a * b * SCALE, [x[0], x[1], x[2]]) + sum(map(helper_square, x))

    assert "SCALE" in names(agrees(f, X3))


def test_recursion_with_a_known_depth() -> None:
    agrees(power_by_squaring, X3, 5)


def power_by_squaring(x: Any, n: int) -> Any:
    if n == 0:
        return x * 0.0 + 1.0
    half = power_by_squaring(x, n // 2)
    return half * half * x if n % 2 else half * half


def test_objects_made_inside() -> None:
    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value * SCALE

        def get(self) -> Any:
            return self.value

    def f(x: Any) -> Any:
        box = Box(x)
        box.value = box.value + 1.0
        cache: dict[str, Any] = {}
        cache["y"] = box.get()
        items: list[Any] = []
        items.append(Params(cache["y"], 2.0))
        return items[0].w * items[0].b

    assert "SCALE" in names(agrees(f, X3))


def test_updates_in_place_of_arrays_that_nothing_else_sees() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        same = y
        y += 1.0
        y *= x
        z = np.zeros(3)
        z += y
        c = x.copy()
        c -= 1.0
        return same + z + c + x

    before = X3.copy()
    agrees(f, X3)
    assert (before == X3).all()


def test_marks_are_the_identity_outside_and_marks_inside() -> None:
    def f(x: Any) -> Any:
        with no_grad():
            c = x * 2.0
        return np.sum(x * c + stop_gradient(x) * detach({"a": x})["a"])

    assert stop_gradient(3.0) == 3.0
    assert ops(agrees(f, X3)).count("stop_gradient") == 3


def test_results_in_structures() -> None:
    def f(x: Any) -> Any:
        return {"a": (x, 1.0), "b": Pair(np.sum(x), [len(x), "text", None, True])}

    captured = capture(f, (X3,))
    found = run(captured, np.ones(5))
    assert found["b"].b == [5, "text", None, True]
    assert (found["a"][0] == 1.0).all() and found["a"][1] == 1.0 and found["b"].a == 5.0


def test_a_constant_result_is_a_result() -> None:
    captured = capture(lambda x: 3.0, (X3,), wrt=0, scalar=True)
    assert run(captured, X3) == 3.0


def test_a_size_repeats_a_list() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.array([2.0] * len(x)) * x) + len(len(x) * (1, 2))

    agrees(f, X3)
    refuse(CaptureError, lambda x: np.array([2.0] * np.argmax(x)), X3, match="repeating a list")


# ------------------------------------------------------------------------------------------------------ refusals
def refuse(error: type[Exception], f: Callable[..., Any], *args: Any, match: str = "", at: str = "", **options: Any) -> str:
    """The message of the error that capturing raises; `at`: text of the line that it must name."""
    with pytest.raises(error, match=match or None) as caught:
        capture(f, args, **options)
    message = str(caught.value)
    if at:
        assert f"{__file__}:{line_of(f, at)}, in " in message, message
        assert at in message
    return message


def branch_filter(x: Any) -> Any:
    return [v for v in x if v > 0.0]


def branch_array(x: Any) -> Any:
    assert x > 0.0
    return x


@pytest.mark.parametrize(("f", "construct", "at"), [
    (branch_filter, "`if of a comprehension`", "for v in x if"), (branch_array, "`assert`", "assert x > 0")])
def test_conditions_on_traced_values(f: Callable[..., Any], construct: str, at: str) -> None:
    message = refuse(CaptureError, f, X3, at=at)
    assert construct in message and ("np." in message or "x[x > 0.0]" in message)


def store_global(x: Any) -> Any:
    global SCALE
    SCALE = x
    return x


def store_outside(x: Any) -> Any:
    TABLE["rate"] = x
    return x


def append_outside(x: Any) -> Any:
    TABLE["layers"].append(x)  # type: ignore[attr-defined]
    return x


@pytest.mark.parametrize(("f", "at"), [
    (store_global, "global SCALE"),
    (store_outside, 'TABLE["rate"] = x'), (append_outside, "append(x)")])
def test_stores_are_refused(f: Callable[..., Any], at: str) -> None:
    refuse(CaptureError, f, X3, at=at)


def test_side_effects_on_self_are_refused() -> None:
    class Model:
        calls = 0

        def loss(self, x: Any) -> Any:
            self.calls += 1
            return x

    model = Model()
    refuse(CaptureError, model.loss, X3, match="self.calls")
    assert model.calls == 0


def draw(x: Any) -> Any:
    return x * np.random.normal()


GENERATOR = np.random.default_rng(0)


def draw_generator(x: Any) -> Any:
    return x + GENERATOR.normal(size=3)


def draw_python(x: Any) -> Any:
    return x * random.random()


def read_clock(x: Any) -> Any:
    return x * time.time()


def read_file(x: Any) -> Any:
    with open("data.txt"):
        return x


@pytest.mark.parametrize(("f", "at"), [
    (draw, "np.random.normal()"), (draw_generator, "GENERATOR.normal"), (draw_python, "random.random"), (read_clock, "time.time"),
    (read_file, "open(")])
def test_random_numbers_clocks_and_files_are_refused(f: Callable[..., Any], at: str) -> None:
    refuse(CaptureError, f, X3, at=at)


def unknown_function(x: Any) -> Any:
    return np.linalg.eig(x)


def similar_function(x: Any) -> Any:
    return scipy.special.erfcinv(x)


def unknown_method(x: Any) -> Any:
    np.multiply.at(x, [0], 1.0)
    return x


def test_unsupported_functions_are_named() -> None:
    message = refuse(UnsupportedOp, unknown_function, np.eye(2), match=r"numpy\.linalg\.eig", at="np.linalg.eig(x)")
    assert "nearest" not in message
    message = refuse(UnsupportedOp, similar_function, X3, match="erfcinv", at="scipy.special.erfcinv(x)")
    assert "the nearest supported function is" in message
    refuse(UnsupportedOp, unknown_method, X3, match="multiply")


def long_loop(x: Any) -> Any:
    total = 0.0
    for k in range(x.shape[0]):
        total = total + x[k]
    return total


def long_while(x: Any) -> Any:
    k = 0
    while k < x.shape[0]:
        k += 1
    return x * k


def test_errors_of_capture_pass_through_handlers() -> None:
    def f(x: Any) -> Any:
        try:
            return 1.0 if x > 0.0 else 2.0
        except Exception:
            return x

    refuse(CaptureError, f, X3, at="if x > 0.0")


def test_long_loops_are_loops() -> None:
    for f in (long_while, long_loop):
        assert len(ops(agrees(f, np.ones(20)))) == len(ops(agrees(f, np.ones(1000))))


def test_tracers_that_escape_raise() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        functools.partial(lambda v: kept.append(v))
        return hide(x)

    def hide(x: Any, into: Any = kept) -> Any:
        into.append(x)
        return x * 2.0

    capture(f, (X3,))
    with pytest.raises(CaptureError, match="after the function"):
        kept[0] + 1.0


def test_arguments_that_cannot_be_compiled() -> None:
    def f(x: Any, y: Any = 1.0) -> Any:
        return np.sum(x * y)

    refuse(CaptureError, f, np.array([None, 1.0]), match="Python objects")
    refuse(CaptureError, f, np.array(["a"]), match="`x`")
    refuse(CaptureError, f, X3.astype(np.float16), match="float16")
    refuse(CaptureError, f, np.ma.array(X3), match="MaskedArray")
    refuse(CaptureError, f, 2**70, match="64 bits")
    refuse(TypeError, f, match=r"f\(\) missing a required argument: 'x'")
    refuse(TypeError, f, 1.0, 2.0, 3.0, match=r"f\(\) too many positional arguments")
    refuse(ShapeError, f, np.ones(3), np.ones(4))


def test_wrt_must_be_floats_that_exist() -> None:
    def f(x: Any, n: Any, s: str = "a") -> Any:
        return np.sum(x * n)

    message = refuse(DifferentiationError, f, X3, X3, wrt="weights", match="wrt='weights' is not an argument of f()")
    assert "x, n, s" in message
    refuse(DifferentiationError, f, X3, X3, wrt=4, match="wrt=4")
    refuse(DifferentiationError, f, X3, X3, wrt=(0, "x"), match="twice")
    refuse(DifferentiationError, f, X3, np.arange(3), wrt="n", match="`n`: it is an array of int64")
    refuse(DifferentiationError, f, X3, X3, wrt="s", match="no numbers")
    assert capture(f, (X3, 2), wrt="n").function.params[1].type.dtype is DType.f64


def test_gradients_need_one_real_number() -> None:
    refuse(ShapeError, lambda x: x * 2.0, X3, wrt=0, scalar=True, match="returns an array")
    refuse(DifferentiationError, lambda x: (np.sum(x), x), X3, wrt=0, scalar=True, match="has_aux=True")
    refuse(DifferentiationError, lambda x: np.argmax(x), X3, wrt=0, scalar=True, match="int64")
    refuse(CaptureError, lambda x: None, X3, match="returns None")
    refuse(CaptureError, lambda x: np.sum(x), X3, has_aux=True, match="has_aux")
    refuse(CaptureError, lambda x: object(), X3, match="returns a object")
    captured = capture(lambda x: (np.sum(x), {"a": x}), (X3,), wrt=0, has_aux=True, scalar=True)
    assert run(captured, X3)[0] == np.sum(X3)


def test_conversions_outside_rewritten_code_are_refused() -> None:
    space: dict[str, Any] = {"np": np, "math": math}
    exec("def f(x):\n    return float(x[0])\ndef g(x):\n    return np.zeros(3) if x[0] > 0 else x", space)
    refuse(CaptureError, space["f"], X3, match=r"float\(\)")
    refuse(CaptureError, space["g"], X3, match="condition")
