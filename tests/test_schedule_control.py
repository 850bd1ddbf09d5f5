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
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify
from adcompile.optimize.unpack import unpack

I64 = DType.i64
COMPILED = 4


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
    return ops.slice(x, starts=(Dim.of(start) if step > 0 else x.type.dims[0] - 1 - start,), steps=(step,), dims=(x.type.dims[0] - less,))


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


def repeat(b: Builder, carried: tuple[Any, ...], condition: Callable[..., Any], body: Callable[..., tuple[Any, ...]]) -> tuple[Value, ...]:
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

    ARRAYS = ("put", "put", "put_add", "put_part", "put_part", "scatter", "map", "map", "combine", "shifted", "zeros", "spread", "cumsum")
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
            return (value, *[a for a in arrays[2:] if self.rng.random() < 0.3], *[v for v in scalars[1:3]])

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
            inner_a, inner_c = self.statements([*arrays, *carried[:len(a)]], [*scalars, *carried[len(a):]], [*indices, i, i, i], depth)
            return (*self.some(inner_a, len(a)), *map(ops.sin, self.some(inner_c, len(c))))

        low, high = (0, ops.size(dim=n)) if self.rng.random() < 0.7 else (int(self.rng.integers(2)), int(self.rng.integers(3)))
        if self.rng.random() < 0.1:
            high = self.one(indices)
        results = list(loop(self.b, low, high, (*a, *c), body))
        return results[:len(a)], results[len(a):]

    def while_loop(self, arrays: list[Any], scalars: list[Any], indices: list[Any], depth: int) -> tuple[list[Any], list[Any]]:
        a, c = self.carried(arrays, scalars)

        def body(count: Value, *carried: Value) -> tuple[Any, ...]:
            inner_a, inner_c = self.statements([*arrays, *carried[:len(a)]], [*scalars, *carried[len(a):]], [*indices, ops.minimum(count, 1)], 0)
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
