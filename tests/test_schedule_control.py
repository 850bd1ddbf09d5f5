"""Serial loops and choices: compiled against the interpreter. Random programs that update arrays in place, then cases by hand.

All run as plain Python (numba's decorator removed), some compiled. `ADCOMPILE_RANDOM=2000` runs that many random programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import GRAPHS, Graph, graph, loop, ops, spread, total
from test_schedule import RANDOM, check, program_of, run

from adcompile.emit.emit import emit
from adcompile.ir.builder import Builder
from adcompile.ir.core import Block, Literal, Value
from adcompile.ir.dims import Dim
from adcompile.ir.types import DType
from adcompile.ir.verifier import verify
from adcompile.optimize.unpack import unpack

I64 = DType.i64
COMPILED = 2


def integer(k: int) -> Literal:
    return Literal(k, I64)


def number(x: float) -> Literal:
    return Literal(x, DType.f64)


def element(x: Value, i: Any) -> Any:
    """x[i] for a scalar index."""
    return ops.gather(x, integer(i) if isinstance(i, int) else i, axes=(0,))


def put(x: Value, i: Any, v: Any) -> Any:
    """x with x[i] = v."""
    return ops.scatter_set(x, integer(i) if isinstance(i, int) else i, v, axes=(0,))


def part(x: Value, start: int, less: int, step: int = 1) -> Any:
    """x[start:start + n - less], or that many entries from there on, backwards."""
    return ops.slice(
        x, starts=(Dim.of(start) if step > 0 else x.type.dims[0] - 1 - start,), steps=(step,), dims=(x.type.dims[0] - less,)
    )


def put_part(x: Value, v: Any, start: int, less: int) -> Any:
    return ops.slice_set(x, v, axes=(), starts=(Dim.of(start),), steps=(1,), dims=(x.type.dims[0] - less,))


def choice(b: Builder, predicate: Any, *bodies: Callable[[], tuple[Any, ...]]) -> tuple[Value, ...]:
    """A `cond` op."""
    regions: list[Block] = []
    for body in bodies:
        with b.region() as out:
            out.extend(body())
        regions.append(out[0])
    results: Any = b.emit("cond", (predicate,), regions=tuple(regions))
    return results if isinstance(results, tuple) else (results,)


def repeat(
    b: Builder, carried: tuple[Any, ...], condition: Callable[..., Any], body: Callable[..., tuple[Any, ...]]
) -> tuple[Value, ...]:
    """A `while` op."""
    regions = []
    for function in (condition, body):
        with b.region() as out:
            arguments = [b.parameter(f"w{k}", x.type) for k, x in enumerate(carried)]
            found = function(*arguments)
            out.extend(found if isinstance(found, tuple) else (found,))
        regions.append(out[0])
    results: Any = b.emit("while", carried, regions=tuple(regions))
    return results if isinstance(results, tuple) else (results,)


# ------------------------------------------------------------------------------------------------ random programs
class RandomProgram:
    """A function of x[n], y[n], s and k[n] (indices) with random operations, loops and choices nested two deep."""

    ARRAYS = (
        "put",
        "put",
        "put_add",
        "put_part",
        "put_part",
        "scatter",
        "map",
        "map",
        "combine",
        "shifted",
        "zeros",
        "spread",
        "cumsum",
    )
    SCALARS = ("read", "read", "read", "sum", "scalar", "scalar", "dot")
    CONTROL = ("for_loop", "for_loop", "cond", "while_loop")

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        n = int(self.rng.integers(2, 6))
        args = {"x": self.rng.normal(size=n), "y": self.rng.normal(size=n), "s": float(self.rng.normal()),
                "k": self.rng.integers(0, n, size=n)}

        def body(b: Builder, x: Value, y: Value, s: Value, k: Value) -> Any:
            self.b, self.k, self.x = b, k, x
            arrays, scalars = self.statements([x, y], [s], [integer(0), integer(1)], 2)
            value: Any = scalars[-1]
            for a in arrays[-3:]:
                value = value + total(ops.sin(a))
            return (value, *[a for a in arrays[2:] if self.rng.random() < 0.3], *scalars[1:3])

        body.__name__ = f"program_{seed}"
        self.graph: Graph = graph(wrt=(0, 1, 2), same={"y_0": "x_0", "k_0": "x_0"}, **args)(body)()
        del GRAPHS[body.__name__]

    def statements(self, arrays: list[Any], scalars: list[Any], indices: list[Any], depth: int) -> tuple[list[Any], list[Any]]:
        """Some operations on what there is."""
        arrays, scalars = list(arrays), list(scalars)
        for _ in range(int(self.rng.integers(2, 6))):
            kind = self.rng.random()
            if depth and kind < 0.35:
                a, c = getattr(self, str(self.rng.choice(self.CONTROL)))(arrays, scalars, indices, depth - 1)
                arrays += a
                scalars += c
            elif kind < 0.7:
                arrays.append(getattr(self, str(self.rng.choice(self.ARRAYS)))(arrays, scalars, indices))
            else:
                scalars.append(getattr(self, str(self.rng.choice(self.SCALARS)))(arrays, scalars, indices))
        return arrays, scalars

    def one(self, things: list[Any]) -> Any:
        """A random one, late ones more likely."""
        return things[max(len(things) - 1 - int(self.rng.exponential(1.5)), 0)]

    def some(self, things: list[Any], count: int) -> list[Any]:
        return [self.one(things) for _ in range(count)]

    def put(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return put(self.one(arrays), self.one(indices), ops.sin(self.one(scalars)))

    def put_add(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.scatter_add(self.one(arrays), self.one(indices), ops.sin(self.one(scalars)), axes=(0,))

    def put_part(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        start = int(self.rng.integers(2))
        return put_part(self.one(arrays), ops.sin(self.shifted(arrays, scalars, indices, 1)), start, 1)

    def scatter(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        op = getattr(ops, str(self.rng.choice(["scatter_add", "scatter_set"])))
        return op(self.one(arrays), self.k, self.map(arrays, scalars, indices), axes=(0,))

    def map(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return getattr(ops, str(self.rng.choice(["sin", "tanh", "sigmoid"])))(self.one(arrays))

    def combine(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.tanh(self.one(arrays) * 0.7 - self.one(arrays))

    def shifted(self, arrays: list[Any], scalars: list[Any], indices: list[Any], less: int = 0) -> Any:
        if self.rng.random() < 0.5 or not less:
            return part(self.one(arrays), less and int(self.rng.integers(2)) if less else 0, less, -1)
        return part(self.one(arrays), int(self.rng.integers(2)), less)

    def zeros(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return spread(number(float(self.rng.integers(2))), self.x)

    def spread(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return spread(ops.sin(self.one(scalars)), self.x)

    def cumsum(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.tanh(ops.cumsum(self.one(arrays), axis=0, reverse=False))

    def read(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return element(self.one(arrays), self.one(indices))

    def sum(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.sin(total(self.one(arrays)))

    def dot(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.tanh(ops.contract(self.one(arrays), self.one(arrays), a_labels=(0,), b_labels=(0,), out_labels=()))

    def scalar(self, arrays: list[Any], scalars: list[Any], indices: list[Any]) -> Any:
        return ops.sin(self.one(scalars)) + self.one(scalars) * 0.3

    def carried(self, arrays: list[Any], scalars: list[Any]) -> tuple[list[Any], list[Any]]:
        return self.some(arrays, int(self.rng.integers(1, 3))), self.some(scalars, int(self.rng.integers(0, 3)))

    def for_loop(self, arrays: list[Any], scalars: list[Any], indices: list[Any], depth: int) -> tuple[list[Any], list[Any]]:
        a, c = self.carried(arrays, scalars)
        n = self.x.type.dims[0]

        def body(i: Value, *carried: Value) -> tuple[Any, ...]:
            inner_a, inner_c = self.statements(
                [*arrays, *carried[: len(a)]], [*scalars, *carried[len(a) :]], [*indices, i, i, i], depth
            )
            return (*self.some(inner_a, len(a)), *map(ops.sin, self.some(inner_c, len(c))))

        low, high = (0, ops.size(dim=n)) if self.rng.random() < 0.7 else (int(self.rng.integers(2)), int(self.rng.integers(3)))
        if self.rng.random() < 0.1:
            high = self.one(indices)
        results = list(loop(self.b, low, high, (*a, *c), body))
        return results[:len(a)], results[len(a):]

    def while_loop(self, arrays: list[Any], scalars: list[Any], indices: list[Any], depth: int) -> tuple[list[Any], list[Any]]:
        a, c = self.carried(arrays, scalars)

        def body(count: Value, *carried: Value) -> tuple[Any, ...]:
            inner_a, inner_c = self.statements(
                [*arrays, *carried[: len(a)]], [*scalars, *carried[len(a) :]], [*indices, ops.minimum(count, 1)], 0
            )
            return (count + integer(1), *self.some(inner_a, len(a)), *map(ops.sin, self.some(inner_c, len(c))))

        def condition(count: Value, *carried: Value) -> Any:
            return ops.and_(ops.lt(count, integer(3)), ops.lt(ops.sin(element(carried[0], 0)), 0.9))

        results = list(repeat(self.b, (integer(0), *a, *c), condition, body))[1:]
        return results[:len(a)], results[len(a):]

    def cond(self, arrays: list[Any], scalars: list[Any], indices: list[Any], depth: int) -> tuple[list[Any], list[Any]]:
        a, c = int(self.rng.integers(1, 3)), int(self.rng.integers(0, 3))
        base = self.some(arrays, a)

        def branch() -> tuple[Any, ...]:
            if self.rng.random() < 0.3:
                return (*base, *self.some(scalars, c))
            inner_a, inner_c = self.statements([*arrays, *base], scalars, indices, depth)
            return (*self.some(inner_a, a), *self.some(inner_c, c))

        results = list(choice(self.b, ops.gt(ops.sin(self.one(scalars) * 3.0), 0.0), branch, branch))
        return results[:a], results[a:]


@pytest.mark.parametrize("seed", range(RANDOM * 2))
def test_random_programs(seed: int) -> None:
    g = RandomProgram(seed).graph
    check(g.function, g.args, compiled=seed < COMPILED)


# ------------------------------------------------------------------------------------------------ cases by hand
X = np.random.default_rng(7).normal(size=6)


def source_of(g: Graph, wrt: tuple[int, ...] | None = None, compiled: bool = False) -> str:
    return emit(check(g.function, g.args, wrt, compiled))


def test_a_store_in_a_loop_is_a_store() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        return loop(b, 1, n, (x,), lambda i, h: (put(h, i, element(h, i - integer(1)) * 0.5 + element(h, i)),))[0]

    source = source_of(graph(x=X, n=5)(body)(), compiled=True)
    assert "for i in range(1, n):" in source
    assert source.count("np.empty") == 1, source


def test_swapped_elements() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        def turn(i: Value, h: Value) -> tuple[Any, ...]:
            first, second = element(h, i), element(h, i + integer(1))
            return (put(put(h, i, second), i + integer(1), first),)
        return loop(b, 0, n, (x,), turn)[0]

    source_of(graph(x=X, n=5)(body)(), compiled=True)


def test_arrays_and_scalars_that_change_places() -> None:
    def body(b: Builder, x: Value, y: Value, n: Value) -> Any:
        def turn(i: Value, a: Value, c: Value, p: Value, q: Value) -> tuple[Any, ...]:
            return c, put(a, i, q), q, p + q
        return loop(b, 0, n, (x, y, number(0.0), number(1.0)), turn)

    for n in (0, 1, 4, 5):
        g = graph(x=X, y=X[::-1].copy(), n=n, same={"y_0": "x_0"})(body)()
        source_of(g, compiled=n == 5)


def test_a_recurrence_of_whole_arrays_uses_two_places() -> None:
    def body(b: Builder, u: Value, n: Value) -> Any:
        def turn(i: Value, u: Value) -> tuple[Any, ...]:
            change = part(u, 0, 2) - part(u, 1, 2) * 2.0 + part(u, 2, 2)
            return (put_part(u, part(u, 1, 2) + change * 0.1, 1, 2),)
        return loop(b, 0, n, (u,), turn)[0]

    for n in (0, 3):
        source_of(graph(u=X, n=n)(body)(), compiled=n == 3)


def test_aligned_updates_happen_in_place() -> None:
    def body(b: Builder, x: Value, v: Value, n: Value) -> Any:
        def turn(i: Value, x: Value, v: Value) -> tuple[Any, ...]:
            faster = v - ops.sin(x) * 0.1
            return x + faster * 0.1, faster
        return loop(b, 0, n, (x, v), turn)

    source = source_of(graph(x=X, v=X * 0.5, n=4, same={"v_0": "x_0"})(body)(), compiled=True)
    assert source.count("np.empty") == 2, source


def test_what_a_loop_adds_up_is_added_in_its_place() -> None:
    """As the gradient of weights: total = total - outer(x, x)."""
    def body(b: Builder, w: Value, x: Value, n: Value) -> Any:
        def turn(i: Value, w: Value, x: Value) -> tuple[Any, ...]:
            product = ops.contract(x, ops.tanh(x), a_labels=(0,), b_labels=(1,), out_labels=(0, 1))
            step = ops.contract(product, product, a_labels=(0, 1), b_labels=(1, 2), out_labels=(0, 2))
            return w - step, x * 0.5
        return loop(b, 0, n, (w, x), turn)[0]

    source = source_of(graph(w=np.outer(X, X), x=X, n=3, same={"w_0": "x_0", "w_1": "x_0"})(body)(), compiled=True)
    assert source.count("np.empty") == 3, source            # w, x and tanh(x)
    assert "c0[k, l] -= " in source, source


def test_what_a_loop_adds_to_rows_is_added_there() -> None:
    """As the gradient of weights that a loop reads row by row: rows 0 and 1 get parts of a row each."""
    def body(b: Builder, w: Value, x: Value, n: Value) -> Any:
        def padded(v: Value) -> Any:
            return ops.pad(v, starts=(Dim.of(1),), steps=(1,), dims=(v.type.dims[0] + 1,))

        def turn(i: Value, w: Value, x: Value) -> tuple[Any, ...]:
            w = ops.scatter_add(w, integer(0), padded(ops.sin(x)), axes=(0,))
            w = ops.scatter_add(w, integer(1), padded(ops.exp(x)), axes=(0,))
            return w, x * 0.5
        return loop(b, 0, n, (w, x), turn)[0]

    longer = Dim.symbol("x_0") + 1
    made = graph(w=np.zeros((2, len(X) + 1)), x=X, n=3)

    def resized(b: Builder, w: Value, x: Value, n: Value) -> Any:
        w = ops.slice(w, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(w.type.dims[0], longer))
        return body(b, w, x, n)

    source = source_of(made(resized)(), compiled=True)
    assert "c0[0, l + 1] += " in source and "c0[1, l + 1] += " in source, source
    assert "np.empty(h + 1)" not in source, source


def test_zeros_that_several_loops_start_from_are_several() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        zeros = spread(number(0.0), x)
        return loop(b, 0, n, (zeros, zeros), lambda i, p, q: (put(p, i, element(x, i)), put(q, i, element(p, i) + 1.0)))

    source_of(graph(x=X, n=4)(body)(), compiled=True)


def test_the_start_of_a_loop_is_read_after_it() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        y = ops.sin(x)
        (z,) = loop(b, 0, n, (y,), lambda i, h: (put(h, i, 0.0),))
        return total(y * z), y

    source_of(graph(x=X, n=4)(body)())


def test_newton_in_a_while() -> None:
    def body(b: Builder, a: Value) -> Any:
        def far(x: Value) -> Any:
            return ops.gt(ops.abs_(x * x - a), 1e-12)
        return repeat(b, (a,), far, lambda x: ((x + a / x) * 0.5,))[0]

    source = source_of(graph(a=3.0)(body)(), compiled=True)
    assert "while abs(" in source, source
    assert "break" not in source


def test_a_choice_updates_in_place() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        def turn(i: Value, h: Value, count: Value) -> tuple[Any, ...]:
            e = element(h, i)
            return choice(b, ops.lt(e, 0.0), lambda: (put(h, i, -e), count + 1.0), lambda: (h, count))
        return loop(b, 0, n, (x, number(0.0)), turn)

    source = source_of(graph(x=X, n=5)(body)(), compiled=True)
    assert source.count("np.empty") == 1, source
    assert "else" not in source


def test_the_last_of_several_writes_stays() -> None:
    def body(b: Builder, x: Value, k: Value) -> Any:
        i = ops.broadcast(k, dims=(k.type.dims[0], x.type.dims[0]), axes=(0,))
        v = ops.broadcast(x, dims=i.type.dims, axes=(1,))
        return ops.scatter_set(x, i, v, axes=(0,))

    source_of(graph(x=X, k=np.array([1, 1, 0, 3]))(body)())


def test_lengths_that_are_computed() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        def turn(i: Value, s: Value) -> tuple[Any, ...]:
            ops.extent(i, symbol="e")
            e = Dim.symbol("e")
            first = ops.cumsum(ops.slice(x, starts=(Dim.of(0),), steps=(1,), dims=(e,)), axis=0, reverse=False)
            return (s + total(first * ops.slice(first, starts=(e - 1,), steps=(-1,), dims=(e,))),)
        return loop(b, 0, n, (number(0.0),), turn)[0]

    source_of(graph(x=X, n=5)(body)(), compiled=True)


# ------------------------------------------------------------------------------------------------ small states
def stack(*entries: Any) -> Any:
    """An array of scalars."""
    return ops.concat(*(ops.broadcast(e, dims=(Dim.of(1),), axes=()) for e in entries), axis=0)


def test_small_states_are_scalars() -> None:
    def body(b: Builder, p: Value, n: Value) -> Any:
        start = stack(element(p, 0), element(p, 1))

        def turn(i: Value, u: Value, rows: Value) -> tuple[Any, ...]:
            turned = stack(element(u, 1), -element(u, 0))
            u = u + turned * 0.1 + spread(total(u * u), u) * 0.01
            return u, ops.scatter_set(rows, i, u, axes=(0,))

        rows = ops.broadcast(number(0.0), dims=(p.type.dims[0], Dim.of(2)), axes=())
        u, rows = loop(b, 0, n, (start, rows), turn)
        return total(u * u) + total(rows), u, rows

    g = graph(p=X, n=4)(body)()
    small = unpack(g.function)
    verify(small)
    _, program = program_of(small)
    source = emit(program)
    assert source.count("for ") == 3, source
    for a, b in zip(run(source, "body", g.args), run(source_of(g), "body", g.args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


SERIAL = sorted(name for name, make in GRAPHS.items() if any(op.regions for op in make().function.body.operations))


@pytest.mark.parametrize("name", SERIAL)
def test_graphs_with_loops(name: str) -> None:
    g = GRAPHS[name]()
    check(g.function, g.args)
    check(g.function, g.args, g.wrt, compiled=name in ("recurrence_in_place", "vector_recurrence"))
