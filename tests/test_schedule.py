"""Compiled loops against the interpreter: random graphs of every kind of op, then shapes and orders that have gone wrong.

Most run as plain Python (numba's decorator removed), some compiled. `ADCOMPILE_RANDOM=2000` runs that many random graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from conftest import assert_close
from graphs import GRAPHS, graph, ops, spread, total

from adcompile.differentiate.reverse import value_and_grad
from adcompile.emit.emit import emit
from adcompile.emit.vectorise import HEADING
from adcompile.ir.builder import Builder
from adcompile.ir.core import Function, Value
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import interpret
from adcompile.ir.loops import For, Interface, Program, SizeOf, walk
from adcompile.ir.types import DType
from adcompile.schedule.schedule import LANES, schedule

RANDOM = int(os.environ.get("ADCOMPILE_RANDOM", "40"))
COMPILED = 3                        # so many of the random graphs are compiled by numba as well


def program_of(function: Function, wrt: tuple[int, ...] | None = None, lanes: int = LANES) -> tuple[Function, Program]:
    """The function with its gradient (with `wrt`), and its loops."""
    returned = len(function.results)
    if wrt is not None:
        function = value_and_grad(function, wrt)
    return function, schedule(function, Interface(function.name, returned, wrt or ()), lanes=lanes)


def run(source: str, name: str, args: tuple[Any, ...], compiled: bool = False) -> tuple[Any, ...]:
    """Execute a generated module and call its entry."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(numba.config, "DISABLE_JIT", int(not compiled))
        exec(source, names)
        result: tuple[Any, ...] = names[name](*args)
    return result


def check(function: Function, args: tuple[Any, ...], wrt: tuple[int, ...] | None = None, compiled: bool = False,
          lanes: int = LANES) -> Program:
    """The loops give what the interpreter gives, and leave the arguments alone."""
    function, program = program_of(function, wrt, lanes)
    source = emit(program)
    kept = [np.array(a) for a in args]
    with np.errstate(all="ignore"):
        wanted = tuple(np.asarray(x) for x in interpret(function, args))
    single = any(x.dtype == np.float32 for x in wanted)
    for jit in (False, True)[:1 + compiled]:
        got = run(source, function.name, args, jit)
        assert_close(tuple(np.asarray(x) for x in got), wanted, rtol=1e-5 if single else 1e-9, atol=1e-6 if single else 1e-10)
    for a, b in zip(args, kept, strict=True):
        np.testing.assert_array_equal(a, b)
    return program


# ------------------------------------------------------------------------------------------------ random graphs
class RandomGraph:
    """A function of A[n, m], x[n], v[m], k[n] (indices) with random operations on whatever there is so far."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        n, m = (int(d) for d in self.rng.integers(1, 5, size=2))
        args = {"A": self.rng.normal(size=(n, m)), "x": self.rng.normal(size=n), "v": self.rng.normal(size=m),
                "k": self.rng.integers(-n, n, size=n)}

        def body(b: Builder, A: Value, x: Value, v: Value, k: Value) -> Any:
            self.pool, self.k = [A, x, v], k
            for _ in range(int(self.rng.integers(3, 14))):
                made = getattr(self, str(self.rng.choice(self.MOVES)))()
                if made is not None:
                    self.pool.append(made)
            return self.finish()

        body.__name__ = f"random_{seed}"
        self.graph = graph(wrt=(0, 1, 2), same={"x_0": "A_0", "v_0": "A_1", "k_0": "A_0"}, **args)(body)()
        del GRAPHS[body.__name__]

    MOVES = ("unary", "unary", "binary", "binary", "binary", "broadcast", "broadcast", "reduce", "reduce", "contract", "contract",
             "transpose", "slice", "pad", "concat", "gather", "scatter", "running", "ravel", "unravel", "extremum", "choose")

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A random value, late ones more likely."""
        fitting = [v for v in self.pool if test(v)]
        if not fitting:
            return None
        at = min(int(self.rng.exponential(3.0)), len(fitting) - 1)
        return fitting[-1 - at] if self.rng.random() < 0.7 else fitting[int(self.rng.integers(len(fitting)))]

    def integer(self, high: int) -> int:
        return int(self.rng.integers(high))

    def finish(self) -> Any:
        last = self.pool[3:][-3:] or [self.pool[0]]
        value: Any = 0.0
        for v in last:
            value = value + (total(ops.sin(v)) if v.type.dims else ops.sin(v))
        return (value, *[v for v in last if self.rng.random() < 0.4])

    def unary(self) -> Any:
        x = self.pick()
        return getattr(ops, str(self.rng.choice(["sin", "tanh", "exp", "neg", "sigmoid"])))(
            ops.tanh(x) if self.rng.random() < 0.5 else ops.sin(x)
        )

    def binary(self) -> Any:
        a = self.pick()
        b = self.pick(lambda v: v.type == a.type)
        return getattr(ops, str(self.rng.choice(["add", "sub", "mul", "maximum", "add", "sub"])))(a, b)

    def broadcast(self) -> Any:
        x, like = self.pick(), self.pick(lambda v: v.type.rank >= 1)
        places = [k for k, d in enumerate(like.type.dims)]
        if x.type.rank >= like.type.rank:
            return None
        for k in places:
            if x.type.rank == 0:
                return spread(x, like)
            if x.type.dims == (like.type.dims[k],):
                return ops.broadcast(x, dims=like.type.dims, axes=(k,))
        return None

    def outer(self) -> Any:
        a, b = self.pick(lambda v: v.type.rank == 1), self.pick(lambda v: v.type.rank == 1)
        return ops.contract(a, b, a_labels=(0,), b_labels=(1,), out_labels=(0, 1))

    def reduce(self) -> Any:
        x = self.pick(lambda v: v.type.rank >= 1)
        op = getattr(ops, str(self.rng.choice(["reduce_sum", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"])))
        axes = tuple(range(x.type.rank)) if self.rng.random() < 0.3 else (self.integer(x.type.rank),)
        if any(d.constant is None and len(d.terms) > 1 for d in x.type.dims) and "sum" not in op.name:
            return None                                         # may be empty: a slice
        return op(x, axes=axes)

    def contract(self) -> Any:
        a = self.pick(lambda v: v.type.rank == 2)
        d = a.type.dims[1]
        b = self.pick(lambda v: v.type.rank >= 1 and v.type.dims[0] == d)
        if b is None:
            return self.outer()
        return ops.contract(a, b, a_labels=(0, 1), b_labels=(1, 2)[:b.type.rank], out_labels=(0, 2)[:b.type.rank])

    def transpose(self) -> Any:
        x = self.pick(lambda v: v.type.rank == 2)
        return ops.transpose(x, permutation=(1, 0))

    def slice(self) -> Any:
        x = self.pick(lambda v: v.type.rank >= 1)
        along = self.integer(x.type.rank)
        d = x.type.dims[along]
        if any(len(e.terms) > 1 for e in x.type.dims):
            return None
        starts, steps, dims = [Dim.of(0)] * x.type.rank, [1] * x.type.rank, list(x.type.dims)
        if self.rng.random() < 0.3:
            starts[along], steps[along] = d - 1, -1
        else:
            starts[along], dims[along] = Dim.of(self.integer(2)), d - 1
        return ops.slice(x, starts=tuple(starts), steps=tuple(steps), dims=tuple(dims))

    def pad(self) -> Any:
        x = self.pick(lambda v: v.type.rank >= 1)
        along = self.integer(x.type.rank)
        starts, dims = [Dim.of(0)] * x.type.rank, list(x.type.dims)
        starts[along], dims[along] = Dim.of(self.integer(2)), x.type.dims[along] + 1
        return ops.pad(x, starts=tuple(starts), steps=(1,) * x.type.rank, dims=tuple(dims))

    def concat(self) -> Any:
        a = self.pick(lambda v: v.type.rank >= 1)
        b = self.pick(lambda v: v.type == a.type)
        return ops.concat(a, b, axis=self.integer(a.type.rank))

    def index(self, x: Value) -> Any:
        return ops.wrap_index(self.k, dim=x.type.dims[0])

    def gather(self) -> Any:
        n = self.k.type.dims[0]
        x = self.pick(lambda v: v.type.rank >= 1 and v.type.dims[0] == n)
        return ops.gather(x, self.index(x), axes=(0,))

    def scatter(self) -> Any:
        n = self.k.type.dims[0]
        x = self.pick(lambda v: v.type.rank >= 1 and v.type.dims[0] == n)
        y = self.pick(lambda v: v.type == x.type)
        return getattr(ops, str(self.rng.choice(["scatter_add", "scatter_set"])))(x, self.index(x), y, axes=(0,))

    def running(self) -> Any:
        x = self.pick(lambda v: v.type.rank >= 1)
        op = getattr(ops, str(self.rng.choice(["cumsum", "cumprod"])))
        return op(x, axis=self.integer(x.type.rank), reverse=bool(self.rng.random() < 0.5))

    def ravel(self) -> Any:
        x = self.pick(lambda v: v.type.rank == 2)
        return ops.reshape(x, dims=(x.type.dims[0] * x.type.dims[1],))

    def unravel(self) -> Any:
        n, m = self.pool[0].type.dims
        x = self.pick(lambda v: v.type.dims == (n * m,))
        return None if x is None else ops.reshape(x, dims=(m, n) if self.rng.random() < 0.5 else (n, m))

    def extremum(self) -> Any:
        x = self.pick(lambda v: v.type.rank >= 1 and all(len(d.terms) == 1 for d in v.type.dims))
        found = getattr(ops, str(self.rng.choice(["argmax", "argmin"])))(x, axis=self.integer(x.type.rank))
        return ops.cast(found, dtype=DType.f64)

    def choose(self) -> Any:
        a = self.pick()
        b = self.pick(lambda v: v.type == a.type)
        return ops.select(ops.gt(a, 0.1), a, b)


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_values(seed: int) -> None:
    g = RandomGraph(seed).graph
    for lanes in (LANES, 2, 0):
        check(g.function, g.args, compiled=seed < COMPILED and lanes == 2, lanes=lanes)


@pytest.mark.parametrize("seed", range(1000, 1000 + RANDOM))
def test_random_gradients(seed: int) -> None:
    g = RandomGraph(seed).graph
    for lanes in (LANES, 2, 0):
        check(g.function, g.args, g.wrt, compiled=seed < 1000 + COMPILED and lanes == 2, lanes=lanes)


# ------------------------------------------------------------------------------------------------ graphs of every kind
STRAIGHT = sorted(name for name, make in GRAPHS.items() if not any(op.regions for op in make().function.body.operations))


@pytest.mark.parametrize("name", STRAIGHT)
def test_graphs(name: str) -> None:
    g = GRAPHS[name]()
    for lanes in (LANES, 2, 0):
        check(g.function, g.args, g.wrt, compiled=name in ("logistic", "gathered", "single_precision"), lanes=lanes)


def loops(program: Program) -> list[For]:
    return [s for s in walk(program.body) if isinstance(s, For)]


def test_forward_and_backward_share_the_loop_over_the_data() -> None:
    g = GRAPHS["logistic"]()
    _, program = program_of(g.function, g.wrt)
    outer = [s for s in program.body if isinstance(s, For)]
    assert len([s for s in outer if s.step == LANES]) == 1
    assert len(outer) == 1
    assert all(b.type.dims == (Dim.of(LANES),) for b in program.buffers)


def test_dead_operations_are_not_emitted() -> None:
    g = GRAPHS["unused_part"]()
    _, program = program_of(g.function)
    assert "exp(" not in emit(program).partition(HEADING)[0]


def source_of(name: str) -> str:
    g = GRAPHS[name]()
    return emit(check(g.function, g.args, g.wrt, compiled=True))


def test_the_gradient_of_parts_of_an_argument_is_made_in_its_place() -> None:
    source = source_of("intercept_and_weights")
    assert source.count("np.empty") == 1 and "[:] = 0" not in source, source
    assert "p_bar[0] = " in source and "p_bar[i + 1] += " in source, source


def test_parts_that_overlap_or_leave_gaps_start_from_zeros() -> None:
    for name in ("overlapping_parts", "parts_with_a_gap"):
        source = source_of(name)
        assert "x_bar[:] = 0.0" in source, source


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0), (1, 1)])
def test_empty_arrays(shape: tuple[int, int]) -> None:
    g = GRAPHS["logistic"]()
    check(g.function, (np.ones(shape[1]), np.ones(shape), np.ones(shape[0])), g.wrt)


def test_maximum_of_nothing_is_numpys_error() -> None:
    def body(b: Builder, x: Value) -> Any:
        return ops.reduce_max(x, axes=(0,))

    g = graph(x=np.ones(3))(body)()
    _, program = program_of(g.function)
    with pytest.raises(ValueError, match="no identity"):
        run(emit(program), "body", (np.ones(0),))
    assert np.isnan(run(emit(program), "body", (np.array([1.0, np.nan, 2.0]),))[0])
    assert run(emit(program), "body", (np.array([-np.inf, -np.inf]),))[0] == -np.inf


def test_wrong_shapes_are_refused_in_the_users_terms() -> None:
    g = GRAPHS["logistic"]()
    _, program = program_of(g.function)
    with pytest.raises(ValueError, match=r"w\.shape\[0\] is not A\.shape\[1\]"):
        run(emit(program), "logistic", (np.ones(2), np.ones((4, 3)), np.ones(4)))


def test_indices_out_of_range_raise() -> None:
    g = GRAPHS["gathered"]()
    _, program = program_of(g.function)
    with pytest.raises(IndexError):
        run(emit(program), "gathered", (np.ones(3), np.array([3])))


# ------------------------------------------------------------------------------------------------ tiles
def attention(b: Builder, x: Value, W: Value, c: Value) -> Any:
    """Sums along every axis of what is larger than the data, a maximum, a result by rows, and a read of the place itself."""
    n, k = x.type.dims[0], W.type.dims[0]
    z = ops.contract(x, W, a_labels=(0, 1), b_labels=(2, 1), out_labels=(0, 2)) + ops.broadcast(c, dims=(n, k), axes=(1,))
    top = ops.reduce_max(z, axes=(1,))
    e = ops.exp(z - ops.broadcast(top, dims=(n, k), axes=(0,)))
    per_row = ops.log(ops.reduce_sum(e, axes=(1,))) + top
    places = ops.cast(ops.iota(dim=n, dtype=DType.i64), dtype=x.type.dtype)
    return total(per_row * places), e


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 6, 10])
def test_tiles_of_any_length(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    like: list[Any] = [rng.normal(size=shape).astype(dtype) for shape in ((7, 6), (5, 6), (5,))]
    g = graph(x=like[0], W=like[1], c=like[2], same={"W_1": "x_1", "c_0": "W_0"})(attention)()
    args = (rng.normal(size=(n, 6)).astype(dtype), *like[1:])
    program = check(g.function, args, (0, 1, 2), lanes=3)
    assert [s.index for s in loops(program) if s.step == 3] == ["i0"]
    assert all(b.type.dims[-1] == Dim.of(3) for b in program.buffers if b.why != "result")
    check(g.function, args, (0, 1, 2), lanes=0)


@pytest.mark.parametrize("length", [3, 4, 6, 8])
def test_sums_in_lanes_of_known_length(length: int) -> None:
    """They are unrolled, with what is left over, if anything is."""
    def body(b: Builder, x: Value, W: Value) -> Any:
        n = x.type.dims[0]
        rows = ops.slice(x, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(n, Dim.of(length)))
        columns = ops.slice(W, starts=(Dim.of(0), Dim.of(0)), steps=(1, 1), dims=(W.type.dims[0], Dim.of(length)))
        z = ops.contract(rows, columns, a_labels=(0, 1), b_labels=(2, 1), out_labels=(0, 2))
        return total(ops.tanh(z))

    rng = np.random.default_rng(length)
    g = graph(x=rng.normal(size=(5, 9)), W=rng.normal(size=(7, 9)), same={"W_1": "x_1"})(body)()
    program = check(g.function, g.args, (0, 1), lanes=3)
    unrolled = [s for s in loops(program) if s.step == 4 and s.stop == SizeOf(Dim.of(length // 4 * 4))]
    assert bool(unrolled) == (length >= 4)
    check(g.function, g.args, (0, 1), lanes=0)


def test_sums_are_in_order_without_lanes() -> None:
    g = GRAPHS["logistic"]()
    _, program = program_of(g.function, g.wrt, lanes=0)
    assert all(s.step == 1 for s in loops(program)) and not program.buffers
