"""Graphs built by hand, with inputs: what the tests of passes and derivatives run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adcompile import ops
from adcompile.capture.driver import capture
from adcompile.ir.builder import Builder
from adcompile.ir.core import Block, Function, Literal, Location, Size, Value
from adcompile.ir.dims import Dim
from adcompile.ir.signature import leaves
from adcompile.ir.types import DType, Type

WHERE = Location("model.py", 1, "f")
N, M = Dim.symbol("x_0"), Dim.symbol("A_1")


I64 = DType.i64


@dataclass(frozen=True)
class Graph:
    """A function with arguments to run it on; `wrt`: the parameters to differentiate."""

    name: str
    function: Function
    args: tuple[Any, ...]
    wrt: tuple[int, ...] = (0,)


GRAPHS: dict[str, Callable[[], Graph]] = {}


def parameter(b: Builder, name: str, arg: Any) -> tuple[Value, dict[str, Size]]:
    """A parameter of the type of an argument, its axes named `name_0`, ... unless a size of that name exists."""
    array = np.asarray(arg)
    dtype = {"float64": DType.f64, "float32": DType.f32, "int64": I64, "bool": DType.bool}[array.dtype.name]
    dims = tuple(Dim.symbol(f"{name}_{k}") for k in range(array.ndim))
    position = len(b.blocks[-1][0])
    return b.parameter(name, Type(dtype, dims)), {f"{name}_{k}": Size(position, k) for k in range(array.ndim)}


def graph(wrt: tuple[int, ...] = (0,), same: dict[str, str] | None = None, **args: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declares a graph: the decorated function gets the builder and the parameters and returns the result(s). `same`: size
    symbols that are other ones, {"y_0": "x_0"}."""
    def declare(body: Callable[..., Any]) -> Any:
        def make() -> Graph:
            with Builder(body.__name__) as b:
                b.location = WHERE
                sizes: dict[str, Size] = {}
                params = []
                for name, arg in args.items():
                    value, found = parameter(b, name, arg)
                    merged = tuple(Dim.symbol((same or {}).get(str(d), str(d))) for d in value.type.dims)
                    value = Value(value.name, value.type.with_dims(merged))
                    b.blocks[-1][0][-1] = value
                    sizes.update({k: v for k, v in found.items() if k not in (same or {})})
                    if value.type == Type(I64):
                        sizes[name] = Size(len(params), None)
                    params.append(value)
                results = body(b, *params)
                results = results if isinstance(results, tuple) else (results,)
                return Graph(body.__name__, b.finish(results, sizes), tuple(args.values()), wrt)
        GRAPHS[body.__name__] = make
        return make
    return declare


def spread(x: Any, like: Value) -> Any:
    """A scalar in every entry of an array."""
    return ops.broadcast(x, dims=like.type.dims, axes=())


def total(x: Value) -> Any:
    """The sum of all entries."""
    return ops.reduce_sum(x, axes=tuple(range(x.type.rank)))


rng = np.random.default_rng(5)
X = rng.normal(size=5)
Y = rng.normal(size=5)
POSITIVE = rng.uniform(0.5, 2.0, size=5)
A = rng.normal(size=(5, 3))
W = rng.normal(size=3)


@graph(w=W, A=A, y=Y, wrt=(0,), same={"w_0": "A_1", "y_0": "A_0"})
def logistic(b: Builder, w: Value, A: Value, y: Value) -> Any:
    z = ops.contract(A, w, a_labels=(0, 1), b_labels=(1,), out_labels=(0,), name="z")
    return total(ops.log1p(ops.exp(-y * z)))


@graph(x=X)
def polynomial(b: Builder, x: Value) -> Any:
    y = x * x * 3.0 - x / 2.0 + 1.0
    return total(-(-y * -x) - x * 0.25 * 8.0)


@graph(x=0.7, y=-1.3, wrt=(0, 1))
def scalars(b: Builder, x: Value, y: Value) -> Any:
    z = ops.sin(x * y)
    return z * ops.exp(-x) + x / y - (-z), z


@graph(x=X, s=0.3, wrt=(0, 1))
def broadcast_scalar(b: Builder, x: Value, s: Value) -> Any:
    return total(ops.tanh(x * spread(ops.exp(s), x)))


@graph(A=A, w=W, wrt=(0, 1), same={"w_0": "A_1"})
def broadcast_rows(b: Builder, A: Value, w: Value) -> Any:
    row = ops.broadcast(w, dims=A.type.dims, axes=(1,))
    column = ops.reduce_sum(A * row, axes=(1,))
    return total(column * column + ops.reduce_sum(row, axes=(1,)))


@graph(x=np.array([-1.0, 0.0, 0.5, 2.0]))
def where_sqrt(b: Builder, x: Value) -> Any:
    return total(ops.select(ops.gt(x, 0.0), ops.sqrt(x), 0.0))


@graph(x=np.array([0.0, 0.0]))
def norm_at_zero(b: Builder, x: Value) -> Any:
    return ops.sqrt(total(x * x))


@graph(x=np.array([-1.0, 3.0, 0.5]))
def where_log_masked(b: Builder, x: Value) -> Any:
    safe = ops.select(ops.gt(x, 0.0), ops.log(x), 0.0)
    return total(safe * safe + ops.maximum(x, 0.0))


@graph(A=A, B=rng.normal(size=(3, 4)), wrt=(0, 1), same={"B_0": "A_1"})
def matmul(b: Builder, A: Value, B: Value) -> Any:
    C = ops.contract(A, B, a_labels=(0, 1), b_labels=(1, 2), out_labels=(0, 2))
    D = ops.transpose(C, permutation=(1, 0))
    return total(D * D)


@graph(x=X)
def pieces(b: Builder, x: Value) -> Any:
    n = x.type.dims[0]
    left = ops.slice(x, starts=(Dim.of(0),), steps=(1,), dims=(n - 1,))
    right = ops.slice(x, starts=(Dim.of(1),), steps=(1,), dims=(n - 1,))
    both = ops.concat(left * right, ops.log(right * right + 1.0), axis=0)
    return total(both * both)


def piece(x: Value, start: int, length: Dim | int) -> Any:
    """x[start:start + length]."""
    return ops.slice(x, starts=(Dim.of(start),), steps=(1,), dims=(Dim.of(length) if isinstance(length, int) else length,))


@graph(p=np.append(X, 0.5), A=rng.normal(size=(4, 5)))
def intercept_and_weights(b: Builder, p: Value, A: Value) -> Any:
    """p[0] is added to A @ p[1:]; the weights are in a penalty as well."""
    w = piece(p, 1, p.type.dims[0] - 1)
    with_sizes = ops.slice(A, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(A.type.dims[0], p.type.dims[0] - 1))
    z = ops.contract(with_sizes, w, a_labels=(0, 1), b_labels=(1,), out_labels=(0,))
    first = ops.reshape(piece(p, 0, 1), dims=())
    return total(ops.tanh(z + spread(first, z))) + total(w * w)


@graph(x=X, A=rng.normal(size=(5, 4)))
def overlapping_parts(b: Builder, x: Value, A: Value) -> Any:
    n = x.type.dims[0]
    columns = ops.slice(A, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(A.type.dims[0], n - 1))
    y = ops.contract(columns, piece(x, 1, n - 1), a_labels=(0, 1), b_labels=(1,), out_labels=(0,))
    return total(ops.sin(y)) + total(ops.sin(piece(x, 0, n - 1)))


@graph(x=X, A=rng.normal(size=(5, 3)))
def parts_with_a_gap(b: Builder, x: Value, A: Value) -> Any:
    n = x.type.dims[0]
    columns = ops.slice(A, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(A.type.dims[0], n - 2))
    y = ops.contract(columns, piece(x, 2, n - 2), a_labels=(0, 1), b_labels=(1,), out_labels=(0,))
    return total(ops.sin(y)) + total(ops.exp(piece(x, 0, 1)))


@graph(x=X, k=np.array([0, 2, 2, 4]))
def gathered(b: Builder, x: Value, k: Value) -> Any:
    picked = ops.gather(x, ops.wrap_index(k, dim=x.type.dims[0]), axes=(0,))
    return total(picked * picked)


@graph(x=X, c=Y, wrt=(0,), same={"c_0": "x_0"})
def constant_part(b: Builder, x: Value, c: Value) -> Any:
    return total(x * ops.exp(ops.sin(c)) + ops.stop_gradient(x * x))


@graph(x=X.astype(np.float32))
def single_precision(b: Builder, x: Value) -> Any:
    return total(ops.exp(x * 0.5) * x)


@graph(x=X, n=4)
def with_integer(b: Builder, x: Value, n: Value) -> Any:
    return total(x * spread(ops.cast(n, dtype=DType.f64), x))


@graph(x=X)
def unused_part(b: Builder, x: Value) -> Any:
    ops.exp(x)
    return total(x * x), ops.cos(x)


@graph(A=A)
def reductions(b: Builder, A: Value) -> Any:
    largest = ops.reduce_max(A, axes=(1,))
    product = ops.reduce_prod(A, axes=(0,))
    running = ops.cumsum(A, axis=0, reverse=True) * ops.cumprod(A, axis=1, reverse=False)
    smallest = spread(ops.reduce_min(A, axes=(0, 1)), product)
    return total(largest * largest) + total(ops.sin(product)) + total(running) + total(smallest * product)


@graph(A=A)
def index_maps(b: Builder, A: Value) -> Any:
    n, m = A.type.dims
    flat = ops.reshape(ops.transpose(A, permutation=(1, 0)), dims=(n * m,))
    back = ops.slice_(flat, starts=(n * m - 1,), steps=(-1,), dims=(n * m,))
    spaced = ops.pad(back, starts=(Dim.of(1),), steps=(2,), dims=(n * m * 2 + 1,))
    twice = ops.slice_(ops.slice_(spaced, starts=(Dim.of(1),), steps=(2,), dims=(n * m,)), starts=(Dim.of(2),), steps=(1,),
                       dims=(n * m - 2,))
    ends = ops.slice_(flat, starts=(Dim.of(2),), steps=(1,), dims=(n * m - 2,))
    return total(ops.exp(twice * 0.3) * ends)


@graph(x=POSITIVE, y=Y, wrt=(0, 1), same={"y_0": "x_0"})
def powers(b: Builder, x: Value, y: Value) -> Any:
    k = Literal(3, I64)
    return total(ops.pow(x, y) + ops.powi(y, k) * ops.pow(x, 2.5) - ops.maximum(x, y) * ops.abs_(y) + ops.hypot(x, y))


# ------------------------------------------------------------------------------------------------- control flow
def loop(b: Builder, low: Any, high: Any, carried: tuple[Any, ...], body: Callable[..., tuple[Any, ...]]) -> tuple[Value, ...]:
    """A `for` op."""
    with b.region() as out:
        i = b.parameter("i", Type(I64))
        arguments = [b.parameter(f"c{k}", x.type) for k, x in enumerate(carried)]
        out.extend(body(i, *arguments))
    low, high = (x if isinstance(x, (Value, Literal)) else Literal(x, I64) for x in (low, high))
    results: tuple[Value, ...] = b.emit("for", (low, high, *carried), regions=(out[0],))
    return results if isinstance(results, tuple) else (results,)


def branch(b: Builder, predicate: Value, *bodies: Callable[[], Any]) -> Value:
    """A `cond` op with one result."""
    regions: list[Block] = []
    for body in bodies:
        with b.region() as out:
            out.append(body())
        regions.append(out[0])
    results = b.emit("cond", (predicate,), regions=tuple(regions))
    result: Value = results[0] if isinstance(results, tuple) else results
    return result


def number(x: float) -> Literal:
    return Literal(x, DType.f64)


@graph(x=X, a=0.3, wrt=(0, 1))
def loop_sum(b: Builder, x: Value, a: Value) -> Any:
    def body(i: Value, s: Value) -> tuple[Any, ...]:
        return (s + ops.sin(ops.gather(x, i, axes=(0,)) * a),)
    return loop(b, 0, ops.size(dim=x.type.dims[0]), (number(0.0),), body)


@graph(x=0.4, r=3.1, n=6, wrt=(0, 1))
def logistic_map(b: Builder, x: Value, r: Value, n: Value) -> Any:
    return loop(b, 0, n, (x,), lambda i, y: (r * y * (1.0 - y),))


@graph(x=0.4, y=1.1, n=5, wrt=(0, 1))
def two_carries(b: Builder, x: Value, y: Value, n: Value) -> Any:
    def body(i: Value, p: Value, q: Value) -> tuple[Any, ...]:
        return p * ops.cos(q), q + 0.1 * p * ops.cast(i, dtype=DType.f64)
    p, q = loop(b, 1, n, (x, y), body)
    return p * q


@graph(x=X, a=0.7, wrt=(0, 1))
def recurrence_in_place(b: Builder, x: Value, a: Value) -> Any:
    def body(i: Value, h: Value) -> tuple[Any, ...]:
        before = ops.gather(h, i - Literal(1, I64), axes=(0,))
        here = ops.gather(h, i, axes=(0,))
        return (ops.scatter_set(h, i, ops.sin(before) * a + here * here, axes=(0,)),)
    (h,) = loop(b, 1, ops.size(dim=x.type.dims[0]), (x,), body)
    return total(h)


@graph(A=A, w=W, wrt=(0, 1), same={"w_0": "A_1"})
def nested_loops(b: Builder, A: Value, w: Value) -> Any:
    def outer(i: Value, s: Value) -> tuple[Any, ...]:
        def inner(j: Value, t: Value) -> tuple[Any, ...]:
            return (ops.tanh(t + ops.gather(A, i, j, axes=(0, 1)) * ops.gather(w, j, axes=(0,))),)
        (t,) = loop(b, 0, ops.size(dim=A.type.dims[1]), (s,), inner)
        return (s * 0.5 + t * t,)
    return loop(b, 0, ops.size(dim=A.type.dims[0]), (number(0.1),), outer)


@graph(A=A[:3], wrt=(0,))
def triangular(b: Builder, A: Value) -> Any:
    def outer(i: Value, s: Value) -> tuple[Any, ...]:
        return loop(b, 0, i, (s,), lambda j, t: (t * ops.gather(A, i, j, axes=(0, 1)) + 1.0,))
    return loop(b, 0, ops.size(dim=A.type.dims[0]), (number(0.5),), outer)


@graph(x=X)
def loop_with_branch(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value) -> tuple[Any, ...]:
        e = ops.gather(x, i, axes=(0,))
        return (branch(b, ops.gt(e, 0.0), lambda: s + ops.sqrt(e) * e, lambda: s * 0.9),)
    return loop(b, 0, ops.size(dim=x.type.dims[0]), (number(1.0),), body)


@graph(x=0.0, y=2.0, wrt=(0, 1))
def branch_not_taken(b: Builder, x: Value, y: Value) -> Any:
    return branch(b, ops.gt(x, 0.0), lambda: ops.log(x) * y, lambda: y * y)


@graph(A=A, h=W, wrt=(0, 1), same={"h_0": "A_1"})
def vector_recurrence(b: Builder, A: Value, h: Value) -> Any:
    def body(i: Value, state: Value) -> tuple[Any, ...]:
        row = ops.gather(A, i, axes=(0,))
        scale = ops.contract(row, state, a_labels=(0,), b_labels=(0,), out_labels=())
        return (ops.tanh(state * spread(scale, state) + row),)
    (state,) = loop(b, 0, ops.size(dim=A.type.dims[0]), (h,), body)
    return total(state * state)


@graph(x=2.0)
def invariant_in_loop(b: Builder, x: Value) -> Any:
    return loop(b, 0, 4, (number(1.0),), lambda i, s: (s * ops.exp(ops.sin(x)),))


def corpus_graph(program: Any) -> Graph:
    """A program of the corpus as a graph, captured with its first sample."""
    args = program.sample(0)
    captured = capture(program.function, args, wrt=program.wrt, scalar=True)
    bound = captured.signature.python.bind(*args)
    bound.apply_defaults()
    inputs = tuple(np.asarray(i.access.read(bound.arguments), p.type.dtype.numpy)[()]
                   for i, p in zip(captured.signature.inputs, captured.function.params, strict=True))
    wrt = tuple(index for tree in captured.signature.wrt for index in leaves(tree))
    return Graph(program.name, captured.function, inputs, wrt)
