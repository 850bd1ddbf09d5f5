"""Reverse mode through loops, branches and stores: gradients against central differences, what is saved and where it is read
again, checkpoints, strong zeros, second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import assert_close, assert_same
from graphs import GRAPHS, I64, WHERE, A, Graph, W, X, branch, graph, loop, number, ops, total
from test_differentiate import differences, inner

from adcompile.capture.driver import capture
from adcompile.differentiate.jvp import jvp
from adcompile.differentiate.reverse import value_and_grad, vjp
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Value, walk
from adcompile.ir.interpreter import interpret
from adcompile.ir.parser import parse
from adcompile.ir.printer import text_of
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify
from adcompile.optimize.cse import cse
from adcompile.optimize.dce import dce
from adcompile.optimize.hoist import hoist
from adcompile.optimize.simplify import simplify

KNOWN = set(GRAPHS)


def i64(x: int) -> Literal:
    return Literal(x, I64)


def while_(b: Builder, carried: tuple[Any, ...], condition: Callable[..., Any],
           body: Callable[..., tuple[Any, ...]]) -> tuple[Value, ...]:
    """A `while` op."""
    regions = []
    for make in (lambda *c: (condition(*c),), body):
        with b.region() as out:
            out.extend(make(*[b.parameter(f"c{k}", x.type) for k, x in enumerate(carried)]))
        regions.append(out[0])
    results: tuple[Value, ...] = b.emit("while", carried, regions=tuple(regions))
    return results if isinstance(results, tuple) else (results,)


def at(x: Any, *index: Any) -> Any:
    return ops.gather(x, *index, axes=tuple(range(len(index))))


def put(x: Any, value: Any, *index: Any) -> Any:
    return ops.scatter_set(x, *index, value, axes=tuple(range(len(index))))


def length(x: Value, axis: int = 0) -> Any:
    return ops.size(dim=x.type.dims[axis])


def zeros(x: Value) -> Any:
    return ops.broadcast(number(0.0), dims=x.type.dims, axes=())


# ------------------------------------------------------------------------------------------------------ while
@graph(x=1.3, a=0.8, wrt=(0, 1))
def newton(b: Builder, x: Value, a: Value) -> Any:
    """The root of y * y * y = x, from a start that depends on a."""
    (y,) = while_(b, (x + a,), lambda y: ops.gt(ops.abs(y * y * y - x), 1e-12), lambda y: (y - (y * y * y - x) / (3.0 * y * y),))
    return y * ops.sin(a)


@graph(x=1.1, wrt=(0,))
def powers_until(b: Builder, x: Value) -> Any:
    return while_(b, (x, number(1.0)), lambda y, s: ops.lt(y, 10.0), lambda y, s: (y * y * x, s + ops.sin(y * 0.1)))[1]


@graph(x=20.0, wrt=(0,))
def no_turns(b: Builder, x: Value) -> Any:
    (y,) = while_(b, (x,), lambda y: ops.lt(y, 10.0), lambda y: (y * y,))
    return y * y


@graph(x=X, wrt=(0,))
def while_over_an_array(b: Builder, x: Value) -> Any:
    def body(y: Value) -> tuple[Any, ...]:
        return (y * ops.broadcast(number(1.3), dims=y.type.dims, axes=()) + ops.sin(x),)
    (y,) = while_(b, (x,), lambda y: ops.lt(total(y * y), 100.0), body)
    return total(y * y)


@graph(x=X, wrt=(0,))
def while_in_for(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value) -> tuple[Any, ...]:
        start = ops.exp(at(x, i))
        (y,) = while_(b, (start,), lambda y: ops.lt(y, 20.0), lambda y: (y * y + start * 0.5 + 1.0,))
        return (s * 0.3 + ops.log(y) * start,)
    return loop(b, 0, length(x), (number(0.4),), body)


@graph(x=0.7, n=4, wrt=(0,))
def for_in_while(b: Builder, x: Value, n: Value) -> Any:
    def body(y: Value) -> tuple[Any, ...]:
        return loop(b, 0, n, (y,), lambda i, z: (z * 1.1 + ops.sin(z) * x,))
    return while_(b, (x,), lambda y: ops.lt(y, 3.0), body)


@graph(x=X, wrt=(0,))
def cond_in_for_in_while(b: Builder, x: Value) -> Any:
    def body(y: Value) -> tuple[Any, ...]:
        def inner(i: Value, z: Value) -> tuple[Any, ...]:
            e = at(x, i)
            return (branch(b, ops.gt(e, 0.0), lambda: z + ops.sqrt(e) * z, lambda: z * 1.1 + e * e),)
        return loop(b, 0, length(x), (y,), inner)
    return while_(b, (number(0.5),), lambda y: ops.lt(y, 30.0), body)


@graph(x=0.9, wrt=(0,))
def while_in_while(b: Builder, x: Value) -> Any:
    def body(y: Value) -> tuple[Any, ...]:
        (z,) = while_(b, (x,), lambda z: ops.lt(z, y), lambda z: (z * 1.5 + ops.sin(z),))
        return (y + z * z * 0.3,)
    return while_(b, (x + 1.0,), lambda y: ops.lt(y, 20.0), body)


@graph(x=0.9, y=-0.5, wrt=(0, 1))
def while_in_branch(b: Builder, x: Value, y: Value) -> Any:
    def slow() -> Any:
        return while_(b, (x,), lambda z: ops.lt(z, 5.0), lambda z: (z * z + y * y + 0.5,))[0]
    return branch(b, ops.gt(x, 0.0), slow, lambda: ops.log(x))


# ----------------------------------------------------------------------------------- turns known when it runs
@graph(x=X, k=3, wrt=(0,))
def computed_turns(b: Builder, x: Value, k: Value) -> Any:
    turns = ops.cast(ops.floor(ops.abs(at(x, i64(0))) * 0.0 + 4.5), dtype=I64)
    return loop(b, 1, turns * k, (number(0.3),), lambda i, s: (ops.sin(s) + at(x, i64(1)) * s,))


@graph(x=X, k=np.array([2, 0, 3, 1, 4]), wrt=(0,))
def computed_turns_inside(b: Builder, x: Value, k: Value) -> Any:
    def outer(i: Value, s: Value) -> tuple[Any, ...]:
        return loop(b, 0, at(k, i), (s,), lambda j, t: (ops.tanh(t + at(x, i)) + t * t * 0.1,))
    return loop(b, 0, length(x), (number(0.5),), outer)


@graph(A=A, k=np.array([2, 0, 3, 1, 1]), wrt=(0,))
def rows_of_computed_length(b: Builder, A: Value, k: Value) -> Any:
    def outer(i: Value, h: Value) -> tuple[Any, ...]:
        def inner(j: Value, h: Value) -> tuple[Any, ...]:
            e = at(h, j)
            return (put(h, ops.sin(e) * at(A, i, j) + e * e * 0.3, j),)
        return loop(b, 0, at(k, i), (h,), inner)
    (h,) = loop(b, 0, length(A), (at(A, i64(0)),), outer)
    return total(h * h)


# ------------------------------------------------------------------------------------------- arrays kept alive
@graph(x=X, a=0.7, wrt=(0, 1))
def states(b: Builder, x: Value, a: Value) -> Any:
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        u = at(s, t - i64(1))
        return (put(s, ops.sin(u * a) + at(x, t) * u, t),)
    (s,) = loop(b, 1, length(x), (put(zeros(x), a, i64(0)),), body)
    return total(s * s)


@graph(x=X, wrt=(0,))
def reads_ahead(b: Builder, x: Value) -> Any:
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        here, ahead = at(s, t), at(s, t + i64(1))
        return (put(s, here * ahead + ops.sin(ahead), t),)
    (s,) = loop(b, 0, length(x) - i64(1), (x,), body)
    return total(s * s)


@graph(A=A[:, :3] * 0.5, wrt=(0,))
def table(b: Builder, A: Value) -> Any:
    """D[i, j] from D[i - 1, j], D[i, j - 1] and D[i - 1, j - 1]."""
    def outer(i: Value, D: Value) -> tuple[Any, ...]:
        def inner(j: Value, D: Value) -> tuple[Any, ...]:
            up, left, corner = at(D, i - i64(1), j), at(D, i, j - i64(1)), at(D, i - i64(1), j - i64(1))
            return (put(D, ops.sin(up) * left + corner * at(A, i, j), i, j),)
        return loop(b, 1, length(A, 1), (D,), inner)
    (D,) = loop(b, 1, length(A), (A,), outer)
    return total(D * D)


@graph(A=A * 0.3, W=W, wrt=(0, 1), same={"W_0": "A_1"})
def forward_algorithm(b: Builder, A: Value, W: Value) -> Any:
    """alpha[t, j] from all alpha[t - 1, k], in three loops."""
    def step(t: Value, alpha: Value) -> tuple[Any, ...]:
        def state(j: Value, alpha: Value) -> tuple[Any, ...]:
            def add(k: Value, s: Value) -> tuple[Any, ...]:
                return (ops.logaddexp(s, at(alpha, t - i64(1), k) + at(W, k) * at(W, j)),)
            (s,) = loop(b, 0, length(A, 1), (number(-2.0),), add)
            return (put(alpha, s + at(A, t, j), t, j),)
        return loop(b, 0, length(A, 1), (alpha,), state)
    (alpha,) = loop(b, 1, length(A), (A,), step)
    return total(alpha * alpha)


@graph(x=X, n=3, wrt=(0,))
def sweeps_in_place(b: Builder, x: Value, n: Value) -> Any:
    """Gauss-Seidel: every sweep overwrites what the one before has written."""
    def sweep(t: Value, u: Value) -> tuple[Any, ...]:
        def point(i: Value, u: Value) -> tuple[Any, ...]:
            left, here, right = at(u, i - i64(1)), at(u, i), at(u, i + i64(1))
            return (put(u, ops.sin(left * here) + right * here * 0.5, i),)
        return loop(b, 1, length(x) - i64(1), (u,), point)
    (u,) = loop(b, 0, n, (x,), sweep)
    return total(u * u)


@graph(x=X, k=np.array([0, 2, 2, 1, 0]), wrt=(0,))
def overwritten(b: Builder, x: Value, k: Value) -> Any:
    """Places that are not known: nothing may be read from the final array."""
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        u = at(s, at(k, t))
        return (put(s, ops.sin(u) * at(x, t) + u * u, at(k, t)),)
    (s,) = loop(b, 0, length(x), (x,), body)
    return total(s * s)


@graph(x=X, wrt=(0,))
def written_twice(b: Builder, x: Value) -> Any:
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        u = at(s, t)
        s = put(s, ops.sin(u), t)
        v = at(s, t)
        return (put(s, v * v * u, t),)
    (s,) = loop(b, 0, length(x), (x,), body)
    return total(s)


@graph(x=X, wrt=(0,))
def every_other_place(b: Builder, x: Value) -> Any:
    """Writes to even places, reads odd ones later and earlier."""
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        even = t * i64(2)
        near = at(s, even + i64(1))
        return (put(s, near * near * at(s, even), even),)
    (s,) = loop(b, 0, 2, (x,), body)
    return total(s * s)


@graph(x=X, wrt=(0,))
def store_in_a_branch(b: Builder, x: Value) -> Any:
    def body(t: Value, s: Value) -> tuple[Any, ...]:
        u = at(s, t - i64(1))
        return (branch(b, ops.gt(at(x, t), 0.0), lambda: put(s, u * u + ops.sin(u), t), lambda: s),)
    (s,) = loop(b, 1, length(x), (x,), body)
    return total(s * s)


# ----------------------------------------------------------------------------------------- more loops and stores
@graph(p=np.array([1.5, 1.0, 3.0, 1.0]), n=6, wrt=(0,))
def lotka_volterra(b: Builder, p: Value, n: Value) -> Any:
    a, c, d, e = (at(p, i64(k)) for k in range(4))
    def slope(x: Any, y: Any) -> tuple[Any, Any]:
        return a * x - c * x * y, e * x * y - d * y
    def body(t: Value, x: Value, y: Value, s: Value) -> tuple[Any, ...]:
        h = 0.05
        k1 = slope(x, y)
        k2 = slope(x + h / 2 * k1[0], y + h / 2 * k1[1])
        x, y = x + h * k2[0], y + h * k2[1]
        return x, y, s + (x - 1.0) * (x - 1.0) + (y - 1.0) * (y - 1.0)
    return loop(b, 0, n, (number(1.0), number(1.2), number(0.0)), body)[2]


@graph(A=A[:3, :3], h=W, n=4, wrt=(0, 1), same={"A_0": "h_0", "A_1": "h_0"})
def recurrent_network(b: Builder, A: Value, h: Value, n: Value) -> Any:
    def body(t: Value, h: Value) -> tuple[Any, ...]:
        return (ops.tanh(ops.contract(A, h, a_labels=(0, 1), b_labels=(1,), out_labels=(0,))),)
    (h,) = loop(b, 0, n, (h,), body)
    return total(h * h)


@graph(x=X, y=W[:2], n=3, wrt=(0, 1))
def swapped(b: Builder, x: Value, y: Value, n: Value) -> Any:
    u, v = at(y, i64(0)), at(y, i64(1))
    def body(t: Value, u: Value, v: Value, z: Value) -> tuple[Any, ...]:
        return v, u * v + at(z, t), z
    u, v, _ = loop(b, 0, n, (u, v, x), body)
    return u * v


@graph(x=X, wrt=(0,))
def masked(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value) -> tuple[Any, ...]:
        e = at(x, i)
        return (s + ops.select(ops.gt(e, 0.0), ops.log(e) * s, number(0.0)),)
    return loop(b, 0, length(x), (number(1.0),), body)


MINE: dict[str, Callable[[], Graph]] = {name: GRAPHS.pop(name) for name in sorted(set(GRAPHS) - KNOWN)}
LOOPS = {name: make for name, make in {**MINE, **GRAPHS}.items()
         if any(o.op in ("for", "while") for o in walk(make().function.body))}


def gradients(made: Graph, adjoint: Function) -> tuple[Any, ...]:
    verify(adjoint)
    return interpret(adjoint, made.args)[len(made.function.results):]


@pytest.mark.parametrize("name", MINE)
def test_gradient_agrees_with_differences(name: str) -> None:
    made = MINE[name]()
    for position, gradient in zip(made.wrt, gradients(made, value_and_grad(made.function, made.wrt)), strict=True):
        assert_close(gradient, differences(made, position), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("checkpoint", [1, 2, 3, True])
@pytest.mark.parametrize("name", LOOPS)
def test_checkpoints_change_nothing(name: str, checkpoint: int) -> None:
    made = LOOPS[name]()
    plain = gradients(made, value_and_grad(made.function, made.wrt, checkpoint=False))
    assert_close(gradients(made, value_and_grad(made.function, made.wrt, checkpoint=checkpoint)), plain)


@pytest.mark.parametrize("name", LOOPS)
def test_passes_keep_the_gradient(name: str) -> None:
    made = LOOPS[name]()
    adjoint = value_and_grad(made.function, made.wrt)
    before = gradients(made, adjoint)
    for each in (simplify, cse, hoist, dce):
        adjoint = each(adjoint)
        assert_close(gradients(made, adjoint), before)


@pytest.mark.parametrize("name", MINE)
def test_forward_and_reverse_are_dual(name: str, rng: np.random.Generator) -> None:
    made = MINE[name]()
    count = len(made.function.results)
    dots = [rng.normal(size=np.shape(made.args[i])) for i in made.wrt]
    tangents = interpret(jvp(made.function, made.wrt), (*made.args, *dots))[count:]
    bars = [rng.normal(size=np.shape(t)) for t in tangents]
    cotangents = interpret(vjp(made.function, made.wrt), (*made.args, *bars))[count:]
    assert inner(bars, tangents) == pytest.approx(inner(cotangents, dots), rel=1e-9, abs=1e-12)


def along(function: Function, count: int, wrt: tuple[int, ...]) -> Function:
    """The inner product of the gradients, the last results of a function, with themselves: something to differentiate again."""
    gradients = function.results[count:]
    with Builder(function.name) as b:
        b.location = WHERE
        b.taken = {v.name: 0 for o in walk(function.body) for v in (*o.results, *(a for r in o.regions for a in r.arguments))}
        b.taken.update({p.name: 0 for p in function.params})
        squares = [total(g * g) if g.type.dims else g * g for g in gradients]
        result = squares[0]
        for s in squares[1:]:
            result = result + s
        operations = b.blocks[-1][1]
    body = type(function.body)(function.params, (*function.body.operations, *operations), (result,))
    return Function(function.name, body, function.sizes, function.guards)


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_second_order(name: str) -> None:
    """The gradient of |gradient|^2: reverse over reverse against differences."""
    made = LOOPS[name]()
    squared = along(value_and_grad(made.function, made.wrt), len(made.function.results), made.wrt)
    verify(squared)
    again = Graph(name, squared, made.args, made.wrt)
    for position, gradient in zip(made.wrt, gradients(again, value_and_grad(squared, made.wrt)), strict=True):
        assert_close(gradient, differences(again, position), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MINE)
def test_the_text_parses_back(name: str) -> None:
    made = MINE[name]()
    text = text_of(value_and_grad(made.function, made.wrt))
    assert text_of(parse(text)) == text


@pytest.mark.parametrize("name", MINE)
def test_adjoint_operations_have_locations(name: str) -> None:
    made = MINE[name]()
    assert all(o.location == WHERE for o in walk(value_and_grad(made.function, made.wrt).body))


# ------------------------------------------------------------------------------------------------ what is saved
def saved_arrays(name: str, **options: Any) -> list[str]:
    """The types of what is saved in all turns of outermost loops, after dead code is gone."""
    made = LOOPS[name]()
    function = dce(value_and_grad(made.function, made.wrt, **options))
    return sorted(str(o.results[k].type) for o in function.body.operations if o.op == "for"
                  for k, x in enumerate(o.regions[0].arguments[1:]) if "_saved" in x.name)


@pytest.mark.parametrize(("name", "types"), [
    ("lotka_volterra", ["f64[n + 1]", "f64[n + 1]"]),       # the two states, stages are computed again
    ("recurrent_network", ["f64[n, h_0]", "f64[n, h_0]"]),  # the state and the product, which is dear
    ("logistic_map", ["f64[n]"]),
    ("states", []), ("reads_ahead", []), ("table", []), ("every_other_place", []),
    ("invariant_in_loop", ["f64[4]"]),
    ("loop_sum", []),
])
def test_what_is_saved(name: str, types: list[str]) -> None:
    assert saved_arrays(name) == types


def test_stored_values_are_not_saved_in_nested_loops() -> None:
    """alpha[t - 1, k] is read from the finished table."""
    assert saved_arrays("forward_algorithm") == []


def test_cotangents_of_arrays_accumulate_in_place() -> None:
    """No array of zeros is made in any turn."""
    for name in ("loop_sum", "states", "table", "sweeps_in_place", "nested_loops"):
        made = LOOPS[name]()
        adjoint = dce(value_and_grad(made.function, made.wrt))
        loops = [o for o in adjoint.body.operations if o.op == "for"]
        inside = [o for each in loops for o in walk(each.regions[0])]
        assert not [o for o in inside if o.op == "add" and o.result.type.dims], name
        assert not [o for o in inside if o.op == "broadcast" and o.operands[0] == number(0.0) and "saved" not in name
                    and any(o.result in p.operands for p in inside if p.op == "scatter_add")], name


def test_two_runs_of_a_while_and_one_of_its_adjoint() -> None:
    made = LOOPS["powers_until"]()
    adjoint = dce(value_and_grad(made.function, made.wrt))
    assert [o.op for o in adjoint.body.operations if o.regions or o.op == "extent"] == ["while", "extent", "for", "for"]


# -------------------------------------------------------------------------------------------------- checkpoints
def largest(function: Function, args: tuple[Any, ...]) -> int:
    """The number of entries of the largest array that a run makes."""
    sizes = [0]
    interpret(function, args, lambda operation, operands, results: sizes.append(max(np.size(r) for r in results)))
    return max(sizes)


@pytest.mark.parametrize(("checkpoint", "most"), [(False, 2500), (True, 50), (100, 100), (10, 250)])
def test_checkpoints_bound_memory(checkpoint: int, most: int) -> None:
    made = LOOPS["logistic_map"]()
    args = (0.4, 3.1, 2500)
    adjoint = value_and_grad(made.function, made.wrt, checkpoint=checkpoint)
    assert largest(adjoint, args) == most
    assert_close(interpret(adjoint, args), interpret(value_and_grad(made.function, made.wrt), args))


def test_checkpoints_of_a_while_bound_memory() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64))
        (_, y) = while_(b, (number(0.0), x), lambda k, y: ops.lt(k, 900.0), lambda k, y: (k + 1.0, ops.sin(y) + y * 0.5))
        function = b.finish((y,))
    plain, bounded = value_and_grad(function, (0,)), value_and_grad(function, (0,), checkpoint=True)
    assert_close(interpret(bounded, (0.7,)), interpret(plain, (0.7,)))
    assert (largest(plain, (0.7,)), largest(bounded, (0.7,))) == (900, 30)


def test_checkpoints_of_a_loop_of_constant_length() -> None:
    with Builder("f") as b:
        b.location = WHERE
        x = b.parameter("x", Type(DType.f64))
        function = b.finish(loop(b, 3, 103, (x,), lambda i, y: (ops.sin(y) + y * 0.5,)))
    bounded = value_and_grad(function, (0,), checkpoint=True)
    assert not [o for o in walk(bounded.body) if o.op == "extent"]
    assert largest(bounded, (0.7,)) == 10
    assert_close(interpret(bounded, (0.7,)), interpret(value_and_grad(function, (0,)), (0.7,)))


def test_long_loops_are_checkpointed_by_themselves() -> None:
    """Ten million turns: decided for the sizes of the first call, and guarded."""
    made = LOOPS["logistic_map"]()
    long = value_and_grad(made.function, made.wrt, hints={"n": 10 ** 8})
    short = value_and_grad(made.function, made.wrt, hints={"n": 1000})
    assert [str(g) for g in long.guards] == ["n >= 0", f"8*n > {2 ** 28}"]
    assert [str(g) for g in short.guards] == ["n >= 0", f"8*n <= {2 ** 28}"]
    assert any(o.op == "for" for each in long.body.operations for r in each.regions for o in r.operations)
    assert not any(o.op == "for" for each in short.body.operations for r in each.regions for o in r.operations)


def test_loops_that_save_nothing_are_not_checkpointed() -> None:
    made = LOOPS["loop_sum"]()
    loops = [o for o in value_and_grad(made.function, made.wrt, checkpoint=True).body.operations if o.regions]
    assert not any(inner.regions for o in loops for inner in o.regions[0].operations)


# -------------------------------------------------------------------------------------------------- strong zeros
def gradient_at(build: Callable[[Builder, Value], Any], x: Any) -> Any:
    """The gradient of a function of one argument."""
    made = graph(x=np.asarray(x, dtype=np.float64))(build)
    GRAPHS.pop(build.__name__)
    made = made()
    adjoint = value_and_grad(made.function, (0,))
    verify(adjoint)
    return interpret(adjoint, made.args)[1]


def test_a_while_without_turns_passes_the_cotangent_on() -> None:
    def f(b: Builder, x: Value) -> Any:
        return while_(b, (x,), lambda y: ops.lt(y, 0.0), lambda y: (ops.log(y) * 0.0,))
    assert_same(gradient_at(f, 3.0), np.float64(1.0))


def test_a_masked_entry_in_a_loop_has_a_strong_zero() -> None:
    def f(b: Builder, x: Value) -> Any:
        def body(i: Value, s: Value) -> tuple[Any, ...]:
            e = at(x, i)
            return (s + ops.select(ops.gt(e, 0.0), ops.sqrt(e), number(0.0)),)
        return loop(b, 0, length(x), (number(0.0),), body)
    assert_same(np.abs(gradient_at(f, [0.0, 4.0, -1.0])), np.array([0.0, 0.25, 0.0]))


def test_an_overwritten_entry_has_a_strong_zero() -> None:
    def f(b: Builder, x: Value) -> Any:
        (s,) = loop(b, 0, length(x), (ops.sqrt(x),), lambda i, s: (put(s, number(1.0), i),))
        return total(s) + at(x, i64(0)) * 2.0
    assert_same(gradient_at(f, [0.0, 0.0]), np.array([2.0, 0.0]))


def test_a_branch_not_taken_in_a_while_leaves_nothing() -> None:
    def f(b: Builder, x: Value) -> Any:
        def body(k: Value, y: Value) -> tuple[Any, ...]:
            return k + 1.0, branch(b, ops.gt(x, 0.0), lambda: y * ops.log(x), lambda: y * 0.5 + x)
        return while_(b, (number(0.0), x), lambda k, y: ops.lt(k, 3.0), body)[1]
    assert_close(gradient_at(f, 0.0), 0.125 + 0.25 + 0.5 + 1.0)


def test_what_the_last_turn_does_for_nobody_leaves_nothing() -> None:
    """In a while: the last turn's 1 / 0 is carried and never read."""
    def f(b: Builder, x: Value) -> Any:
        return while_(b, (x, number(0.0)), lambda p, s: ops.lt(s, 1.0), lambda p, s: (1.0 / p, s + p + 1.0))[1]
    assert_same(gradient_at(f, 0.0), np.float64(1.0))


# -------------------------------------------------------------------------------------------------- nested loops
def adjoint_of_outer(name: str) -> tuple[list[str], list[str]]:
    """The types of what the outer loop saves, and the ops of the loops in a turn of its adjoint."""
    made = LOOPS[name]()
    last = [o for o in dce(value_and_grad(made.function, made.wrt)).body.operations if o.op == "for"][-1]
    return saved_arrays(name), [o.op for o in last.regions[0].operations if o.regions]


def test_what_inner_loops_save_is_saved_for_all_turns_where_an_argument_is_as_large() -> None:
    assert adjoint_of_outer("nested_loops") == (["f64[A_0, A_1]", "f64[A_0]"], ["for"])


def test_inner_loops_run_again_where_all_turns_would_be_too_many() -> None:
    @graph(x=0.3, n=4, m=3)
    def many(b: Builder, x: Value, n: Value, m: Value) -> Any:
        return loop(b, 0, n, (x,), lambda i, s: loop(b, 0, m, (s,), lambda j, t: (ops.sin(t) + t * x,)))
    LOOPS["many"] = GRAPHS.pop("many")
    assert adjoint_of_outer("many") == (["f64[n]"], ["for", "for"])


# ------------------------------------------------------------------------------------------------ Python functions
def heat_by_points(u: Any, k: Any, n: Any) -> Any:
    for _ in range(n):
        new = u.copy()
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k * u[i] * (u[i - 1] - 2 * u[i] + u[i + 1])
        u = new
    return np.sum(u**2)


def heat_by_slices(u: Any, k: Any, n: Any) -> Any:
    for _ in range(n):
        u = u.copy()
        u[1:-1] = u[1:-1] + k * u[1:-1] * (u[:-2] - 2 * u[1:-1] + u[2:])
    return np.sum(u**2)


def square_root(x: Any) -> Any:
    y = 1.0
    while abs(y * y - x) > 1e-12:
        y = 0.5 * (y + x / y)
    return y * y * y


PROGRAMS = [(heat_by_points, (X * 0.3, 0.1, 9), (0, 1)), (heat_by_slices, (X * 0.3, 0.1, 9), (0, 1)), (square_root, (2.0,), (0,))]


@pytest.mark.parametrize("checkpoint", [None, True, 2])
@pytest.mark.parametrize(("function", "args", "wrt"), PROGRAMS)
def test_python_functions(function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...], checkpoint: Any) -> None:
    adjoint = value_and_grad(capture(function, args, wrt=wrt, scalar=True).function, wrt, checkpoint)
    verify(adjoint)
    assert [p.name for p in adjoint.params] == list(function.__code__.co_varnames[:len(args)])
    value, *found = interpret(adjoint, args)
    assert_close(value, function(*args))
    for position, gradient in zip(wrt, found, strict=True):
        direction = np.cos(np.arange(np.size(args[position]))).reshape(np.shape(args[position]))
        ends = [function(*args[:position], args[position] + h * direction, *args[position + 1:]) for h in (1e-5, -1e-5)]
        assert np.sum(gradient * direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_both_ways_to_write_the_heat_equation_save_the_same() -> None:
    for function, args, wrt in PROGRAMS[:2]:
        adjoint = dce(value_and_grad(capture(function, args, wrt=wrt, scalar=True).function, wrt))
        saved = [str(v.type) for o in adjoint.body.operations for v in o.results if "saved" in v.name]
        assert saved == ["f64[n, u_0]"]
