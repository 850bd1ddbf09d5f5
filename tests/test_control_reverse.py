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
