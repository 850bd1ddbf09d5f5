"""Loops of independent turns become array operations: the same value and gradient, the graph that NumPy code gives, and no
change of what is not independent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from conftest import assert_close
from graphs import GRAPHS, I64, WHERE, branch, loop, number, ops, parameter, total
from oracle import differences

from adcompile.differentiate.reverse import value_and_grad
from adcompile.errors import GuardError
from adcompile.ir.analysis import all_values
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Literal, Size, Value, walk
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret, sizes_of
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import verify
from adcompile.optimize import cse, simplify
from adcompile.optimize.raise_loops import raise_loops


# ------------------------------------------------------------------------------------------------- writing loops
def made(body: Callable[..., Any], **args: Any) -> Function:
    """The function of a body that gets a builder and parameters like these arguments."""
    with Builder(body.__name__) as b:
        b.location = WHERE
        sizes: dict[str, Size] = {}
        params = []
        for name, arg in args.items():
            value, found = parameter(b, name, arg)
            sizes.update(found)
            if value.type == Type(I64):
                sizes[name] = Size(len(params), None)
            params.append(value)
        results = body(b, *params)
        return cse(b.finish(results if isinstance(results, tuple) else (results,), sizes))


def place(x: Value, *indices: Any) -> list[Any]:
    """Indices as the library makes them."""
    return [Literal(i, I64) if isinstance(i, int) else ops.wrap_index(i, dim=x.type.dims[k]) for k, i in enumerate(indices)]


def at(x: Value, *indices: Any) -> Any:
    """x[i, j]"""
    return ops.gather(x, *place(x, *indices), axes=tuple(range(len(indices))))


def put(x: Value, indices: tuple[Any, ...], new: Any) -> Any:
    """x[i, j] = new"""
    return ops.scatter_set(x, *place(x, *indices), new, axes=tuple(range(len(indices))))


def length(x: Value, axis: int = 0) -> Any:
    """len(x)"""
    return ops.size(dim=x.type.dims[axis])


def zeros(*dims: Dim) -> Any:
    return ops.broadcast(number(0.0), dims=dims, axes=())


def dim(x: Value, axis: int = 0) -> Dim:
    return x.type.dims[axis]


def integer(x: int) -> Literal:
    return Literal(x, I64)


def number_of(i: Value) -> Any:
    return ops.cast(i, dtype=DType.f64)


@dataclass(frozen=True)
class Program:
    """A function that loops; `left`: how many loops must be left after raising."""

    body: Callable[..., Any]
    args: dict[str, Any]
    left: int
    wrt: tuple[int, ...]

    def function(self) -> Function:
        return made(self.body, **self.args)

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self.args.values())


PROGRAMS: dict[str, Program] = {}


def program(*, left: int = 0, wrt: tuple[int, ...] = (0,), **args: Any) -> Callable[[Callable[..., Any]], Program]:
    """Declares a program."""
    def declare(body: Callable[..., Any]) -> Program:
        PROGRAMS[body.__name__] = Program(body, args, left, wrt)
        return PROGRAMS[body.__name__]
    return declare


rng = np.random.default_rng(11)
X, Y, W = rng.normal(size=5), rng.normal(size=5), rng.normal(size=3)
A, B = rng.normal(size=(5, 3)), rng.normal(size=(3, 4))
SQUARE = rng.normal(size=(4, 4))
K = np.array([2, 0, 2, 4, -1])


# ------------------------------------------------------------------------------------------------- raised completely
@program(w=W, X=A, y=Y)
def logistic(b: Builder, w: Value, X: Value, y: Value) -> Any:
    def sample(i: Value, loss: Value) -> Any:
        (z,) = loop(b, 0, length(w), (number(0.0),), lambda j, z: (z + at(X, i, j) * at(w, j),))
        return (loss + ops.log1p(ops.exp(-(at(y, i) * z))),)
    return loop(b, 0, length(X), (number(0.0),), sample)


@program(A=A[:2], B=B[:, :2], wrt=(0, 1))
def matrix_product(b: Builder, A: Value, B: Value) -> Any:
    def row(i: Value, C: Value) -> Any:
        def column(j: Value, C: Value) -> Any:
            return loop(b, 0, length(A, 1), (C,), lambda k, C: (put(C, (i, j), at(C, i, j) + at(A, i, k) * at(B, k, j)),))
        return loop(b, 0, length(B, 1), (C,), column)
    (C,) = loop(b, 0, length(A), (zeros(dim(A), dim(B, 1)),), row)
    return total(C * C)


@program(A=A[:2], B=B[:, :2], wrt=(0, 1))
def matrix_product_with_a_sum(b: Builder, A: Value, B: Value) -> Any:
    def row(i: Value, C: Value) -> Any:
        def column(j: Value, C: Value) -> Any:
            (s,) = loop(b, 0, length(A, 1), (number(0.0),), lambda k, s: (s + at(A, i, k) * at(B, k, j),))
            return (put(C, (i, j), s),)
        return loop(b, 0, length(B, 1), (C,), column)
    (C,) = loop(b, 0, length(A), (zeros(dim(A), dim(B, 1)),), row)
    return total(C * C)


@program(p=rng.normal(size=(4, 3)))
def lennard_jones(b: Builder, p: Value) -> Any:
    def first(i: Value, energy: Value) -> Any:
        def second(j: Value, energy: Value) -> Any:
            def axis(k: Value, r2: Value) -> Any:
                d = at(p, i, k) - at(p, j, k)
                return (r2 + d * d,)
            (r2,) = loop(b, 0, 3, (number(0.0),), axis)

            def pair() -> Any:
                s = 1.0 / (r2 * r2 * r2)
                return energy + 4.0 * (s * s - s)
            return (branch(b, ops.ne(i, j), pair, lambda: energy),)
        return loop(b, 0, length(p), (energy,), second)
    return loop(b, 0, length(p), (number(0.0),), first)


@program(x=X, y=Y, wrt=(0, 1))
def several_accumulators(b: Builder, x: Value, y: Value) -> Any:
    def body(i: Value, s: Value, p: Value, m: Value, low: Value, count: Value) -> Any:
        e = at(x, i)
        return s + e - at(y, i), ops.sin(e) * p, ops.maximum(m, e), ops.minimum(e * 2.0, low), count + integer(2)
    carried = (number(0.5), number(1.0), number(-np.inf), number(3.0), integer(1))
    s, p, m, low, count = loop(b, 0, length(x), carried, body)
    return s * p + m * low * number_of(count)


@program(x=X)
def truth(b: Builder, x: Value) -> Any:
    def body(i: Value, every: Value, some: Value) -> Any:
        return ops.and_(every, ops.gt(at(x, i), -5.0)), ops.or_(ops.gt(at(x, i), 5.0), some)
    every, some = loop(b, 0, length(x), (Literal(True, DType.bool), Literal(False, DType.bool)), body)
    return ops.select(every, total(x), number(0.0)) + ops.select(some, number(1.0), number(0.0))


@program(x=X, y=Y, wrt=(0, 1))
def fill(b: Builder, x: Value, y: Value) -> Any:
    (out,) = loop(b, 0, length(x), (zeros(dim(x)),), lambda i, out: (put(out, (i,), at(x, i) * at(y, i) + number_of(i)),))
    return total(ops.sin(out) * x)


@program(x=X)
def fill_backwards(b: Builder, x: Value) -> Any:
    n = length(x)
    (out,) = loop(b, 0, n, (zeros(dim(x)),), lambda i, out: (put(out, (n - 1 - i,), ops.sin(at(x, i))),))
    return total(out * x)


@program(x=X)
def fill_from_the_end(b: Builder, x: Value) -> Any:
    """Indices that count from the end: x[-1 - i]."""
    (out,) = loop(b, 0, length(x), (x,), lambda i, out: (put(out, (integer(-1) - i,), ops.sin(at(x, i))),))
    return total(out * x)


@program(x=X)
def fill_every_second(b: Builder, x: Value) -> Any:
    start = zeros(dim(x) * 2 + 1)
    (out,) = loop(b, 0, length(x), (start,), lambda i, out: (put(out, (i * 2 + 1,), at(x, i) * 3.0),))
    return total(out * out)


@program(x=X, y=Y, wrt=(0, 1))
def update_own_entry(b: Builder, x: Value, y: Value) -> Any:
    def body(i: Value, out: Value) -> Any:
        once = put(out, (i,), at(out, i) * at(y, i))
        return (put(once, (i,), ops.sin(at(once, i)) - at(out, i)),)
    (out,) = loop(b, 1, length(x), (x,), body)
    return total(out * out)


@program(A=A)
def rows_of_a_matrix(b: Builder, A: Value) -> Any:
    def body(i: Value, out: Value) -> Any:
        row = at(A, i)
        scale = ops.contract(row, ops.sin(row), a_labels=(0,), b_labels=(0,), out_labels=())
        return (put(out, (i,), row * ops.broadcast(scale, dims=row.type.dims, axes=())),)
    (out,) = loop(b, 0, length(A), (A,), body)
    return total(out * out)


@program(A=A)
def columns_of_a_row(b: Builder, A: Value) -> Any:
    """Two stores a turn, in different columns."""
    def body(i: Value, out: Value) -> Any:
        out = put(out, (i, 0), at(A, i, 1) * 2.0)
        return (put(out, (i, 2), at(out, i, 0) + at(A, i, 2)),)
    (out,) = loop(b, 0, length(A), (zeros(*A.type.dims),), body)
    return total(out * out * out)


@program(A=A)
def parts_of_rows(b: Builder, A: Value) -> Any:
    """out[i, 1:3] = ..., a store at index arrays."""
    columns = ops.iota(dim=Dim.of(2), dtype=I64) + 1

    def body(i: Value, out: Value) -> Any:
        rows = ops.broadcast(ops.wrap_index(i, dim=dim(A)), dims=(Dim.of(2),), axes=())
        found = ops.gather(A, rows, columns - 1, axes=(0, 1)) * ops.gather(out, rows, columns, axes=(0, 1))
        return (ops.scatter_set(out, rows, columns, ops.sin(found), axes=(0, 1)),)
    (out,) = loop(b, 0, length(A), (A,), body)
    return total(out * out)


@program(A=A, k=np.array([2, 0, 2]))
def chosen_columns(b: Builder, A: Value, k: Value) -> Any:
    """A[i, k] with an array k."""
    def body(i: Value, s: Value) -> Any:
        rows = ops.broadcast(ops.wrap_index(i, dim=dim(A)), dims=k.type.dims, axes=())
        return (s + total(ops.sin(ops.gather(A, rows, ops.wrap_index(k, dim=dim(A, 1)), axes=(0, 1)))) * number_of(i),)
    return loop(b, 0, length(A), (number(0.0),), body)


@program(x=X, k=K)
def histogram(b: Builder, x: Value, k: Value) -> Any:
    def body(i: Value, out: Value) -> Any:
        j = at(k, i)
        return (put(out, (j,), at(out, j) + ops.sin(at(x, i))),)
    (out,) = loop(b, 0, length(x), (x,), body)
    return total(out * out)


@program(x=X, k=K)
def conditional_histogram(b: Builder, x: Value, k: Value) -> Any:
    def body(i: Value, out: Value) -> Any:
        j = ops.wrap_index(at(k, i), dim=dim(x))
        return (branch(b, ops.gt(at(x, i), 0.0), lambda: ops.scatter_add(out, j, at(x, i), axes=(0,)), lambda: out),)
    (out,) = loop(b, 0, length(x), (x,), body)
    return total(out * out)


@program(x=X, k=K)
def looked_up(b: Builder, x: Value, k: Value) -> Any:
    return loop(b, 0, length(k), (number(0.0),), lambda i, s: (s + at(x, at(k, i)) * at(x, i),))


@program(x=X)
def branches(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value, out: Value) -> Any:
        e = at(x, i)
        with_root = branch(b, ops.gt(e, 0.0), lambda: s + ops.sqrt(e), lambda: s)
        return with_root, branch(b, ops.lt(e, 0.5), lambda: put_at(out, i, e), lambda: out)
    def put_at(out: Value, i: Value, e: Value) -> Any:
        return ops.scatter_set(out, i, e * e, axes=(0,))
    s, out = loop(b, 0, length(x), (number(0.0), x), body)
    return s + total(out * out)


@program(x=X)
def counter_as_index(b: Builder, x: Value) -> Any:
    """A counter that the user keeps: k = k + 2 next to i."""
    def body(i: Value, k: Value, s: Value) -> Any:
        return k + 2, s + at(x, i) * at(twice, k)
    twice = ops.concat(x, x, axis=0)
    k, s = loop(b, 0, length(x), (integer(0), number(0.0)), body)
    return s * number_of(k)


@program(x=X)
def last_value(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value, z: Value) -> Any:
        z = ops.sin(at(x, i))
        return s + z, z
    s, z = loop(b, 0, length(x), (number(0.0), number(0.0)), body)
    return s * z


@program(x=X)
def shifted_reads(b: Builder, x: Value) -> Any:
    n = length(x)
    def body(i: Value, out: Value) -> Any:
        return (put(out, (i,), at(x, i - 1) - 2.0 * at(x, i) + at(x, i + 1)),)
    (out,) = loop(b, 1, n - 1, (x,), body)
    return total(out * out)


@program(x=X, y=rng.normal(size=3), wrt=(0, 1))
def convolution(b: Builder, x: Value, y: Value) -> Any:
    def point(i: Value, out: Value) -> Any:
        (s,) = loop(b, 0, length(y), (number(0.0),), lambda j, s: (s + at(x, i + j) * at(y, j),))
        return (put(out, (i,), s),)
    count = dim(x) - dim(y) + 1
    (out,) = loop(b, 0, ops.size(dim=count), (zeros(count),), point)
    return total(out * out)


@program(x=X)
def at_the_ends(b: Builder, x: Value) -> Any:
    """Neighbours in a ring, and with the ends repeated."""
    n = length(x)
    def body(i: Value, ring: Value, ends: Value) -> Any:
        left, right = ops.maximum(i - 1, integer(0)), ops.minimum(i + 1, n - 1)
        return ring + at(x, ops.mod(i + 1, n)) * at(x, i), ends + ops.sin(at(x, left)) * at(x, right)
    ring, ends = loop(b, 0, n, (number(0.0), number(0.0)), body)
    return ring * ends


@program(M=SQUARE)
def trace_and_transpose(b: Builder, M: Value) -> Any:
    def body(i: Value, s: Value, out: Value) -> Any:
        (out,) = loop(b, 0, length(M), (out,), lambda j, out: (put(out, (j, i), at(M, i, j) * 2.0),))
        return s + at(M, i, i), out
    s, out = loop(b, 0, length(M), (number(0.0), zeros(*M.type.dims)), body)
    return s + total(ops.sin(out) * M)


@program(x=X, a=0.4, wrt=(0, 1))
def the_same_every_turn(b: Builder, x: Value, a: Value) -> Any:
    return loop(b, 0, length(x), (number(1.0), number(0.0)), lambda i, p, s: (p * a, s + ops.exp(a)))


@program(A=A)
def softmax_rows(b: Builder, A: Value) -> Any:
    def row(i: Value, loss: Value) -> Any:
        (m,) = loop(b, 0, length(A, 1), (number(-np.inf),), lambda j, m: (ops.maximum(m, at(A, i, j)),))
        (s,) = loop(b, 0, length(A, 1), (number(0.0),), lambda j, s: (s + ops.exp(at(A, i, j) - m),))
        return (loss + ops.log(s) + m,)
    return loop(b, 0, length(A), (number(0.0),), row)


@program(x=X)
def guarded_by_a_branch(b: Builder, x: Value) -> Any:
    """x[i + 1] and x[i - 1] exist only where the branch is taken."""
    def body(i: Value, s: Value) -> Any:
        right = branch(b, ops.lt(i, length(x) - 1), lambda: at(x, i + 1), lambda: number(0.0))
        left = branch(b, ops.le(i, integer(0)), lambda: number(0.5), lambda: at(x, i - 1))
        return (s + ops.sin(right) * at(x, i) * left,)
    return loop(b, 0, length(x), (number(0.0),), body)


@program(M=SQUARE)
def pairs_by_a_branch(b: Builder, M: Value) -> Any:
    """A triangle written with a condition; M[i, j - i - 1] exists only inside it."""
    def row(i: Value, s: Value) -> Any:
        def column(j: Value, s: Value) -> Any:
            return (branch(b, ops.gt(j, i), lambda: s + at(M, i, j - i - 1) * at(M, j, i), lambda: s),)
        return loop(b, 0, length(M), (s,), column)
    return loop(b, 0, length(M), (number(0.0),), row)


# ------------------------------------------------------------------------------------------------- raised in part
@program(u=X, steps=3, left=1)
def heat(b: Builder, u: Value, steps: Value) -> Any:
    n = length(u)
    def step(t: Value, u: Value) -> Any:
        def cell(i: Value, new: Value) -> Any:
            return (put(new, (i,), at(u, i) + 0.1 * (at(u, i - 1) - 2.0 * at(u, i) + at(u, i + 1))),)
        return loop(b, 1, n - 1, (u,), cell)
    (u,) = loop(b, 0, steps, (u,), step)
    return total(u * u)


@program(x=X, h=0.3, left=1, wrt=(0, 1))
def split(b: Builder, x: Value, h: Value) -> Any:
    def body(i: Value, h: Value, s: Value) -> Any:
        return ops.tanh(h + at(x, i)), s + ops.exp(at(x, i))
    h, s = loop(b, 0, length(x), (h, number(0.0)), body)
    return h * s


# ------------------------------------------------------------------------------------------------- not raised
@program(x=X, left=1)
def recurrence(b: Builder, x: Value) -> Any:
    return loop(b, 0, length(x), (number(0.1),), lambda i, h: (ops.sin(h) + at(x, i),))


@program(x=X, left=1)
def reads_earlier_entries(b: Builder, x: Value) -> Any:
    (out,) = loop(b, 1, length(x), (x,), lambda i, out: (put(out, (i,), ops.sin(at(out, i - 1)) + at(x, i)),))
    return total(out * out)


@program(x=X, left=1)
def accumulator_is_read(b: Builder, x: Value) -> Any:
    def body(i: Value, s: Value, out: Value) -> Any:
        s = s + at(x, i)
        return s, put(out, (i,), s)
    s, out = loop(b, 0, length(x), (number(0.0), x), body)
    return s + total(out * out)


@program(M=SQUARE, left=2)
def triangular(b: Builder, M: Value) -> Any:
    def row(i: Value, s: Value) -> Any:
        return loop(b, 0, i, (s,), lambda j, s: (s + at(M, i, j),))
    return loop(b, 0, length(M), (number(0.0),), row)


@program(x=X, k=K, left=1)
def stores_at_any_place(b: Builder, x: Value, k: Value) -> Any:
    (out,) = loop(b, 0, length(x), (x,), lambda i, out: (put(out, (at(k, i),), at(x, i) * 2.0),))
    return total(out * out)


@program(x=X, left=1)
def swaps(b: Builder, x: Value) -> Any:
    p, q = loop(b, 0, length(x), (number(1.0), number(2.0)), lambda i, p, q: (q, p + at(x, i)))
    return p * q


# ------------------------------------------------------------------------------------------------- checks
def loops_in(function: Function) -> int:
    return sum(o.op in ("for", "while") for o in walk(function.body))


def raised(each: Program, *, assume: bool = True) -> Function:
    function = each.function()
    verify(function)
    after = raise_loops(function, sizes_of(function, each.values) if assume else None)
    verify(after)
    return after


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_many_loops_are_left_as_must_be(name: str) -> None:
    assert loops_in(raised(PROGRAMS[name])) == PROGRAMS[name].left


@pytest.mark.parametrize("assume", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_stay(name: str, assume: bool) -> None:
    """Before and after, and by differences of the loop as it was written."""
    each = PROGRAMS[name]
    before, after = each.function(), raised(each, assume=assume)
    gradient = value_and_grad(after, each.wrt)
    verify(gradient)
    found = interpret(gradient, each.values)
    assert_close(found[:len(before.results)], interpret(before, each.values))
    for position, got in zip(each.wrt, found[len(before.results):], strict=True):
        def of(x: Any, position: int = position) -> Any:
            return interpret(before, (*each.values[:position], x, *each.values[position + 1:]))[0]
        assert_close(got, differences(of, each.values[position]), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_sizes(name: str) -> None:
    """What was assumed of one call is a guard; where it holds, the value is right for other sizes."""
    each = PROGRAMS[name]
    before, after = each.function(), raised(each)
    for count in (0, 1, 2):
        args = tuple(a if np.ndim(a) == 0 else a[:count] if np.ndim(a) == 1 else a[:count, :max(count, 1)] for a in each.values)
        args = tuple(np.clip(a, -count, count - 1) if count and np.ndim(a) and a.dtype.kind == "i" else a for a in args)
        try:
            wanted = interpret(before, args)
            found = interpret(after, args)
        except (IndexError, GuardError):
            continue
        assert_close(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_and_locations_stay(name: str) -> None:
    after = raised(PROGRAMS[name])
    names = [v.name for v in all_values(after)]
    assert len(set(names)) == len(names)
    assert all(o.location == WHERE for o in walk(after.body))


@pytest.mark.parametrize("name", GRAPHS)
def test_all_graphs_keep_their_meaning(name: str) -> None:
    graph = GRAPHS[name]()
    for hints in (None, sizes_of(graph.function, graph.args)):
        after = raise_loops(graph.function, hints)
        verify(after)
        assert_close(interpret(after, graph.args), interpret(graph.function, graph.args), rtol=1e-6)


def shape_of(function: Function) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """The operations with their operands by number: equal for functions that are equal up to names."""
    function = simplify(function)
    numbers: dict[Any, int] = {p: k for k, p in enumerate(function.params)}
    sizes = {str(d): f"{k}.{axis}" for k, p in enumerate(function.params) for axis, d in enumerate(p.type.dims)}
    lines: list[tuple[str, Any, tuple[Any, ...]]] = []
    for o in walk(function.body):
        operands = tuple(numbers[x] if isinstance(x, Value) else x.value for x in o.operands)
        attributes = str({k: [sizes.get(str(d), str(d)) for d in v] if isinstance(v, tuple) else v
                          for k, v in o.attributes.items()})
        lines.append((o.op, attributes, operands))
        numbers.update({y: len(numbers) + k for k, y in enumerate(o.results)})
    return lines


def test_logistic_regression_is_the_numpy_one() -> None:

    with Builder("logistic") as b:
        m, n = Dim.symbol("X_1"), Dim.symbol("X_0")
        w, A_, y = (b.parameter(name, Type(DType.f64, dims)) for name, dims in (("w", (m,)), ("X", (n, m)), ("y", (n,))))
        z = ops.contract(A_, w, a_labels=(0, 1), b_labels=(1,), out_labels=(0,))
        loss = ops.reduce_sum(ops.log1p(ops.exp(-(y * z))), axes=(0,))
        wanted = b.finish((loss,), {"X_1": Size(1, 1), "X_0": Size(1, 0)})
    assert shape_of(raised(PROGRAMS["logistic"])) == shape_of(wanted)


@pytest.mark.parametrize("name", ["matrix_product", "matrix_product_with_a_sum"])
def test_the_matrix_product_is_one_contraction(name: str) -> None:
    first = simplify(raised(PROGRAMS[name])).body.operations[0]
    assert first.op == "contract"
    assert dict(first.attributes) == {"a_labels": (0, 1), "b_labels": (1, 2), "out_labels": (0, 2)}


def test_a_filled_array_is_the_values_themselves() -> None:
    after = raised(PROGRAMS["fill"])
    assert not {o.op for o in walk(after.body)} & {"scatter_set", "concat", "gather", "wrap_index"}


def test_places_that_are_bounded_need_no_check() -> None:
    assert "wrap_index" not in {o.op for o in walk(raised(PROGRAMS["at_the_ends"]).body)}


def test_a_scalar_index_beside_arrays_is_a_slice() -> None:
    gathers = [o for o in walk(raised(PROGRAMS["chosen_columns"]).body) if o.op == "gather"]
    assert [o.attributes["axes"] for o in gathers] == [(1,)]


def test_user_names_are_kept() -> None:
    def body(b: Builder, x: Value) -> Any:
        with b.region() as out:
            i = b.parameter("i", Type(I64))
            s = b.parameter("loss", Type(DType.f64))
            residual = b.emit("sin", (at(x, i),), name="residual")
            out.append(s + residual)
        return b.emit("for", (integer(0), length(x), number(0.0)), regions=(out[0],), name="total")
    after = raise_loops(made(body, x=X))
    assert [o.result.name for o in after.body.operations] == ["residual", "total"]


# ------------------------------------------------------------------------------------------------- errors and empty loops
@pytest.mark.parametrize("assume", [True, False])
def test_an_index_out_of_range_still_raises(assume: bool) -> None:
    def body(b: Builder, x: Value) -> Any:
        return loop(b, 0, length(x), (number(0.0),), lambda i, s: (s + at(x, i + 1),))
    function = made(body, x=X)
    after = raise_loops(function, sizes_of(function, (X,)) if assume else None)
    with pytest.raises(IndexError):
        interpret(after, (X,))
    assert_close(interpret(after, (X[:0],)), (0.0,))


def test_a_data_dependent_index_out_of_range_still_raises() -> None:
    after = raised(PROGRAMS["looked_up"])
    with pytest.raises(IndexError):
        interpret(after, (X, np.array([0, 1, 2, 3, 5])))


def test_no_turn_checks_no_index() -> None:
    """The index is the same in all turns, and out of range, but there is none."""
    def body(b: Builder, x: Value, k: Value, y: Value) -> Any:
        j = at(k, 0)
        return loop(b, 0, length(y), (number(0.5),), lambda i, s: (s + at(x, j) * at(y, i),))
    function = made(body, x=X, k=np.array([9]), y=Y)
    after = raise_loops(function)
    assert loops_in(after) == 0
    assert_close(interpret(after, (X, np.array([9]), Y[:0])), (0.5,))
    with pytest.raises(IndexError):
        interpret(after, (X, np.array([9]), Y))


def test_a_loop_whose_range_may_be_negative_stays_without_hints() -> None:
    def body(b: Builder, x: Value) -> Any:
        return loop(b, 2, length(x), (number(0.0),), lambda i, s: (s + at(x, i),))
    function = made(body, x=X)
    assert loops_in(raise_loops(function)) == 1
    after = raise_loops(function, {"x_0": 5})
    assert loops_in(after) == 0
    with pytest.raises(GuardError):
        interpret(after, (X[:1],))


def test_nothing_is_assumed_for_loops_that_stay() -> None:
    each = PROGRAMS["recurrence"]
    assert raised(each).guards == each.function().guards


def test_integer_arguments_found_equal_to_a_length_are_guarded() -> None:
    def body(b: Builder, x: Value, n: Value) -> Any:
        return loop(b, 0, n, (number(0.0),), lambda i, s: (s + at(x, i),))
    function = made(body, x=X, n=5)
    after = raise_loops(function, {"x_0": 5, "n": 5})
    assert loops_in(after) == 0
    assert_close(interpret(after, (X[:3], 3)), interpret(function, (X[:3], 3)))
    with pytest.raises(GuardError):
        interpret(after, (X, 4))
