"""Loops, branches and assignment as people write them: the captured graph must give what plain Python gives on copies."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from conftest import assert_close
from test_capture import line_of, run

from adcompile.capture import capture
from adcompile.errors import AdcompileError
from adcompile.ir.core import walk
from adcompile.ir.verifier import verify

X = np.array([0.5, -1.5, 2.0, 0.25, -0.75, 3.0, 1.25, -2.0, 0.1, 0.7, -0.3])
M = np.arange(30.0).reshape(5, 6) * 0.1 - 1.3
S = np.arange(16.0).reshape(4, 4) * 0.25 - 1.7
Function = Callable[..., Any]
CASES: list[tuple[Function, tuple[Any, ...]]] = []


def case(*args: Any) -> Callable[[Function], Function]:
    """Note a function with arguments to compare it at."""
    def note(f: Function) -> Function:
        CASES.append((f, args))
        return f
    return note


def agrees(f: Function, *args: Any) -> Any:
    """Capture at some arguments; the graph must give what Python gives, and Python's copies are not changed by ours."""
    given = copy.deepcopy(args)
    captured = capture(f, given)
    for a, b in zip(given, args, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, "an argument was changed")
    verify(captured.function)
    assert_close(run(captured, *copy.deepcopy(args)), f(*copy.deepcopy(args)), rtol=1e-13)
    return captured


def ops(captured: Any) -> list[str]:
    return [o.op for o in walk(captured.function.body)]


# ------------------------------------------------------------------------------------------------------ branches
@case(X)
@case(-X)
def if_else(x: Any) -> Any:
    if x[0] > 0.0:  # noqa: SIM108
        y = x * 2.0
    else:
        y = -x
    return y


@case(X, 0.5)
@case(X, 1.5)
@case(X, 9.0)
def elif_chain(x: Any, t: float) -> Any:
    if t < 1.0:
        scale = 1.0
    elif t < 2.0:
        scale, x = 2.0, x + 1.0
    else:
        scale = t
        x = np.sin(x)
    return scale * x


@case(1.0)
@case(-1.0)
@case(20.0)
def early_returns(t: float) -> Any:
    if t < 0.0:
        return -t
    u = t * t
    if u > 100.0:
        return 100.0
    return u


@case(1.0)
@case(-1.0)
@case(-7.0)
def nested_returns(t: float) -> Any:
    y = 1.0
    if t < 0.0:
        y = 2.0
        if t < -5.0:
            return t
        y = y * t
    y = y + 1.0
    return y * 3.0


@case(2.0)
@case(-2.0)
def int_and_float_are_joined(t: float) -> Any:
    n = 0
    if t > 0:
        n = 1.5
    return n * t


@case(2.0)
@case(-2.0)
def ternary(t: float) -> Any:
    return t * 2.0 if t > 0.0 else np.exp(t)


@case(X, 2.0)
@case(X, -2.0)
def logic(x: Any, t: float) -> Any:
    a = t > 0.0 and x[0] > 0.0
    b = t > 5.0 or x[1] < 0.0
    c = not a
    return 1.0 * a + 2.0 * b + 4.0 * c + (8.0 if 0.0 < t < 3.0 else 0.0) + (16.0 if -3.0 <= t < x[2] <= 2.0 else 0.0)


@case(X, 3)
@case(X, 50)
def guarded_index(x: Any, k: int) -> Any:
    i = np.argmax(x) + k
    if i < len(x) and x[i] > 0.0:
        return x[i]
    return -1.0


@case(2.0)
@case(-2.0)
def or_gives_values(t: float) -> Any:
    return (t > 0.0) * (t - 2.0 or 5.0) + 0.0


@case(X, 1.0)
@case(X, -1.0)
def stores_in_branches(x: Any, t: float) -> Any:
    y = x.copy()
    if t > 0.0:
        y[0] = t
        y[1:3] += 1.0
    else:
        y[-1] = 2.0 * t
    return y


@case(X, 1.0)
@case(X, -1.0)
def branch_rebinds_list_and_dict(x: Any, t: float) -> Any:
    state = {"a": t, "b": [x, 1]}
    if t > 0.0:
        state["a"] = 2.0 * t
        state["b"][1] = 2.5
    else:
        state = {"a": 3.0, "b": [x * 2.0, 3]}
    return state["a"] * state["b"][0] * state["b"][1]


# ------------------------------------------------------------------------------------------------------ for
@case(X)
def sum_of_entries(x: Any) -> Any:
    s = 0
    for i in range(len(x)):
        s += x[i] * i
    return s


@case(X, 2, 9, 3)
@case(X, 9, 2, -2)
@case(X, 4, 4, 1)
def range_forms(x: Any, a: int, b: int, c: int) -> Any:
    s = 0.0
    for i in range(a, b):
        s = s * 0.5 + x[i]
    for i in range(b - 1, a - 1, -1):
        s = s * 0.9 - x[i]
    for i in range(a, b, c):
        s += x[i] * i
    for i in range(0, len(x), 3):
        s *= 1.0 + 0.1 * x[i]
    return s


@case(X)
def bounds_from_data(x: Any) -> Any:
    k = np.argmax(x)
    s = 0.0
    for i in range(k):
        for j in range(i, k):
            s += x[i] * x[j]
    return s


@case(M)
def rows(x: Any) -> Any:
    total = np.zeros(x.shape[1])
    for row in x:
        total = 0.5 * total + np.tanh(row)
    return total


@case(M)
def acc_starts_as_a_number(x: Any) -> Any:
    total = 0
    for row in x:
        total = total + row
    return total


@case(X, X[::-1] * 2.0)
def enumerate_zip_reversed(x: Any, y: Any) -> Any:
    s = 0.0
    for i, v in enumerate(x):
        s += i * v
    for a, b in zip(x, y):
        s = s * 0.9 + a * b
    for v in reversed(x):
        s = s * 0.7 + v
    for i in reversed(range(len(x))):
        s = s * 0.7 + x[i]
    for i, (a, b) in enumerate(zip(x, y), 1):
        s += a / i - b
    for k in range(len(x))[2:5]:
        s += x[k]
    return s


@case(M, X[:6])
def matrix_vector(a: Any, v: Any) -> Any:
    n, m = a.shape
    out = np.zeros(n)
    for i in range(n):
        for j in range(m):
            out[i] += a[i, j] * v[j]
    return out


@case(X)
def break_continue(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v < 0.0:
            continue
        if v > 2.5:
            break
        s += v
    else:
        s = -1.0
    return s


@case(X)
@case(-np.abs(X))
def return_from_loop(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 1.0:
            return x[i] * i
        x[i] = 0.0
    return np.sum(x) - 5.0


@case(M)
def return_from_nested_loops(a: Any) -> Any:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0.35:
                return a[i, j] * (i + 1)
    return 0.0


@case(X)
def break_in_inner_loop(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            if x[j] > x[i]:
                break
            s += x[j]
        else:
            s += 10.0
        s *= 0.9
    return s


@case(X)
def known_turns_with_traced_break(x: Any) -> Any:
    s = 0.0
    for k in (1, 2, 3):
        s += x[k]
        if s > 0.4:
            break
        s *= 2.0
    return s


@case(X)
def index_after_loop(x: Any) -> Any:
    for i, v in enumerate(x):
        y = v * i
    return y + i


@case(X)
def known_long_range(x: Any) -> Any:
    t = x
    for k in range(50):
        t = t + 0.01 * np.sin(t) * k
    return t


@case(X)
def known_range_over_lists(x: Any) -> Any:
    weights = [0.1 * k for k in range(12)]
    shapes = [np.ones(k) for k in range(12)]
    s = 0.0
    for k in range(12):
        s += weights[k] * x[0]
    for k in range(12):
        s += np.sum(shapes[k]) * x[1]
    return s


@case(X)
def concrete_loops_stay(x: Any) -> Any:
    table = []
    for k in range(30):
        table.append(k * k)
    count = 0
    while count < 40:
        count += 3
    return x * table[-1] + count


@case(X)
def fibonacci_swap(x: Any) -> Any:
    a, b = x[0], x[1]
    for _ in range(20):
        a, b = b, a + 0.5 * b
    return a


@case(X)
def zero_turns(x: Any) -> Any:
    s = x[0]
    for i in range(len(x), 2):
        s += x[i]
    return s


@case(X)
def state_in_structures(x: Any) -> Any:
    state = {"sum": 0, "pair": (x[0], [1.0, 2])}
    for v in x:
        first, rest = state["pair"]
        state["sum"] = state["sum"] + v
        state["pair"] = (first + v, [rest[0] * 1.01, rest[1]])
    return state["sum"] + state["pair"][0] * state["pair"][1][0]


class Point(NamedTuple):
    x: Any
    v: Any


@dataclasses.dataclass
class Body:
    position: Any
    velocity: Any

    def kick(self, force: Any, dt: float) -> None:
        self.velocity = self.velocity + dt * force
        self.position += dt * self.velocity


@case(X)
def objects_as_state(x: Any) -> Any:
    body = Body(x.copy(), np.zeros(len(x)))
    point = Point(1.0, 2.0)
    for _ in range(25):
        body.kick(-body.position, 0.1)
        point = Point(point.x + 0.1 * point.v, point.v - 0.1 * point.x * x[0])
    return body.position + point.x


@case(Body(X, X * 2.0), 20)
def dataclass_argument(body: Any, n: int) -> Any:
    for _ in range(n):
        body.kick(-np.sin(body.position), 0.05)
    return np.sum(body.position**2)


# ------------------------------------------------------------------------------------------------------ while
@case(2.0)
@case(700.0)
def newton(a: float) -> Any:
    x, step = a, 1.0
    while abs(step) > 1e-12:
        step = (x * x - a) / (2.0 * x)
        x -= step
    return x


@case(X)
def while_with_index(x: Any) -> Any:
    i, s = 0, 0.0
    while i < len(x) and x[i] < 2.5:
        s += x[i]
        i += 1
    return s * i


@case(3.0)
def while_true(t: float) -> Any:
    n = 0
    while True:
        t = t * 0.7
        n += 1
        if t < 0.1:
            break
        if n > 100:
            return -1.0
    return t * n


@case(7)
def while_on_an_integer(n: int) -> Any:
    s = 1.0
    while n > 1:
        s *= n
        n -= 1
    return s


@case(X)
def while_else(x: Any) -> Any:
    t = x[0]
    while t < 10.0:
        t = t * 3.0
        if t == 7.0:
            break
    else:
        t = t + 100.0
    return t


@case(X)
def long_known_while(x: Any) -> Any:
    k, s = 0, 0.0
    while k < 30:
        s += x[0] * k
        k += 1
    return s


# ------------------------------------------------------------------------------------------------------ assignment
@case(X)
def basic_stores(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[1]
    y[-1] = 2.0
    y[2:5] = x[3:6]
    y[5:] -= x[0]
    y[::-2] *= 1.5
    y[...] += 1.0
    y[1], y[2] = y[2], y[1]
    return y


@case(M)
def matrix_stores(a: Any) -> Any:
    b = np.empty((a.shape[0], a.shape[1]))
    b[:, :] = 1.0
    b[0] = a[1]
    b[:, 1] = a[:, 2] * 2.0
    b[1:3, ::-1] = a[2:4]
    b[-1, -2:] += 5.0
    b[2, 3] = a[0, 0]
    return b


@case(X)
def argument_is_written(x: Any) -> Any:
    x[0] = 100.0
    x *= 2.0
    x[1:3] += x[:2]
    return np.sum(x)


@case(M)
def traced_indices(a: Any) -> Any:
    b = a.copy()
    for i in range(a.shape[0]):
        b[i, 1:4] = a[i, :3] * i
        b[i, i] += 1.0
        b[i] *= 0.5
        b[:, i] -= 0.1
        b[a.shape[0] - 1 - i, -1] = b[i, 0]
    return b


@case(X)
def masks(x: Any) -> Any:
    y = x.copy()
    y[y < 0.0] = 0.0
    y[x > 1.0] += 2.0
    z = np.zeros(len(x))
    z[(x > 0.0) & (y < 2.0)] = -1.0
    return y + z


@case(X)
def index_arrays(x: Any) -> Any:
    y = np.zeros(5)
    where = np.array([0, 1, 1, 4, 0])
    y[where] = x[:5]
    y[where] += 1.0
    np.add.at(y, where, x[5:10])
    np.subtract.at(y, [2, 2], 0.5)
    y[[3, 2]] = y[[2, 3]]
    return y


@case(X, np.array([0, 3, 3, 1]))
def traced_index_arrays(x: Any, i: Any) -> Any:
    y = x * 2.0
    y[i] = x[:4]
    np.add.at(y, i, 1.5)
    y[i[1:]] *= 2.0
    return y


@case(M)
def out_and_copyto(a: Any) -> Any:
    b = np.zeros(a.shape)
    np.multiply(a, 2.0, out=b)
    np.add(b, 1.0, b)
    c = np.empty_like(a)
    np.copyto(c, b)
    np.exp(c, out=c, where=c < 1.0)
    d = np.zeros(a.shape[1])
    np.sum(a, axis=0, out=d)
    c.fill(3.0)
    np.copyto(b, 7.0, where=a > 0.5)
    return b + c + d


@case(M)
def views(a: Any) -> Any:
    b = a.copy()
    row, column, flat, transposed = b[1], b[:, 2], b.ravel(), b.T
    row[0] = 9.0
    column += 1.0
    flat[5] = -3.0
    transposed[3] = 4.0
    b[:, 0] = 0.25
    inner = b[1:4][:, ::2]
    inner[0] = -b[0, 0]
    pairs = b.reshape(-1, 2)
    pairs[:, 1] *= 2.0
    copied = b.T.ravel()
    copied[:] = 0.0
    return b, row, column, flat, transposed, inner, pairs


@case(S)
def diagonals(a: Any) -> Any:
    b = a.copy()
    b.reshape(-1)[:: len(b) + 1] = 1.0
    b.flat[1] = 7.0
    np.fill_diagonal(b, 3.0)
    return b


@case(X)
def aliases(x: Any) -> Any:
    y = x
    z = x.copy()
    y[0] = 5.0
    y += 1.0
    w = z
    z = z + 1.0
    w[1] = 3.0
    return x, y, z, w


@case(X)
def view_of_argument_in_helper(x: Any) -> Any:
    def clear(part: Any) -> None:
        part[:] = 0.0

    clear(x[2:4])
    return x


@case(X)
def integer_arrays(x: Any) -> Any:
    order = np.zeros(len(x), dtype=int)
    small = np.zeros(3, dtype=int)
    small[0] = np.argmax(x)
    small[1] = x[2] * 3.0
    for i in range(len(x)):
        order[i] = i * 2
    counts = np.array([1, 2, 3])
    counts[1] += np.argmin(x)
    return order, small, counts


@case(X)
def two_buffers(u: Any) -> Any:
    v = np.zeros_like(u)
    for _ in range(15):
        v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u, v = v, u
    return u


@case(X)
def two_buffers_by_entries(u: Any) -> Any:
    n = len(u)
    new = u.copy()
    for _ in range(12):
        for i in range(1, n - 1):
            new[i] = u[i] + 0.1 * (u[i + 1] - 2.0 * u[i] + u[i - 1])
        u[:] = new
    return u


@case(X)
def scan_into_array(x: Any) -> Any:
    states = np.zeros((len(x) + 1, 2))
    states[0] = 1.0, 0.5
    for t in range(len(x)):
        states[t + 1, 0] = 0.9 * states[t, 0] + x[t]
        states[t + 1, 1] = states[t, 0] * states[t, 1]
    return states


@case(M)
def rows_are_views(a: Any) -> Any:
    b = a.copy()
    for i, row in enumerate(b):
        row *= i
        row[0] = -1.0
    return b


# ------------------------------------------------------------------------------------------------------ lists
@case(X)
def append_in_loop(x: Any) -> Any:
    trace = [1.0]
    pairs = []
    for t in range(len(x)):
        trace.append(0.9 * trace[-1] + x[t])
        pairs.append((x[t], trace[-2]))
    return np.array(trace), np.array(pairs), sum(trace), len(trace) * 1.0


@case(M)
def append_rows(a: Any) -> Any:
    out = []
    for row in a:
        out.append(row * 2.0)
    return np.stack(out), np.concatenate(out), np.sum(np.array(out))


@case(X)
def comprehensions(x: Any) -> Any:
    n = len(x)
    squares = np.array([x[i]**2 for i in range(n)])
    total = sum(x[i] * i for i in range(n))
    largest = max(x[i] - i for i in range(n))
    matrix = np.array([[x[i] * j for j in range(3)] for i in range(n)])
    return squares, total, largest, matrix, np.array([v * 2.0 for v in x])


# ------------------------------------------------------------------------------------------------------ functions
@case(X)
def closures(x: Any) -> Any:
    total, calls = 0.0, 0

    def add(v: Any) -> None:
        nonlocal total, calls
        total = total + v
        calls += 1

    for v in x:
        add(v * 2.0)
    if total > 0.0:
        add(10.0)
    return total * calls


@case(X)
def generators(x: Any) -> Any:
    def parts(n: int) -> Any:
        for k in range(n):
            yield x[k] * k

    return sum(parts(4)) + max(parts(3))


@numba.njit
def decay(x: Any, n: int) -> Any:
    y = x.copy()
    for _ in range(n):
        for i in range(y.shape[0]):
            if y[i] > 0.0:
                y[i] -= 0.1 * y[i]
    return y


@case(X, 12)
def njit_helper(x: Any, n: int) -> Any:
    return decay(x, n).sum()


def tree_sum(x: Any, depth: int) -> Any:
    if depth == 0:
        return x
    if x > 1.0:
        return tree_sum(x * 0.5, depth - 1)
    return tree_sum(x + 1.0, depth - 1) * 1.1


@case(0.3)
def recursion(t: float) -> Any:
    return tree_sum(t, 4)


class Model:
    def __init__(self) -> None:
        self.rate = 0.3

    def step(self, x: Any) -> Any:
        if x > 1.0:
            return x * self.rate
        return x + self.rate


class Faster(Model):
    def step(self, x: Any) -> Any:
        for _ in range(2):
            x = super().step(x)
        return x


@case(Faster(), 0.4)
def methods(model: Any, t: float) -> Any:
    for _ in range(20):
        t = model.step(t)
    return t


@case(X)
def helper_returns_in_loop(x: Any) -> Any:
    def first_above(limit: float) -> Any:
        for i in range(len(x)):
            if x[i] > limit:
                return i
        return -1

    s = 0.0
    for k in range(10):
        s += first_above(0.3 * k) * x[0]
    return s


@case(X)
def with_and_try(x: Any) -> Any:
    s = 0.0
    with np.errstate(all="ignore"):
        for v in x:
            if v > 0.0:
                s += np.log(v)
    try:
        if s > 1.0:
            s = 1.0
    except ValueError:
        s = -1.0
    return s


# ------------------------------------------------------------------------------------------------------ shared memory
@case(X)
@case(-X)
def rebound_in_one_branch(x: Any) -> Any:
    y = x.copy()
    if x[0] > 0.0:
        y = y * 2.0
    y[0] = 7.0
    return y


@case(X)
def overlapping_stores(x: Any) -> Any:
    x[1:] = x[:-1]
    x[:-2] += x[2:]
    return x


@case(X)
def views_follow_a_loop(x: Any) -> Any:
    y = x.copy()
    v = y[2:5]
    w = v[::-1]
    for i in range(len(x)):
        y[i] += w[0]
    return y, v, w


@case(M)
def rows_swapped_through_views(a: Any) -> Any:
    for i in range(a.shape[0] - 1):
        a[i], a[i + 1] = a[i + 1], a[i]
    return a


@case(X)
def arrays_swapped_in_a_list(x: Any) -> Any:
    u = [x.copy(), np.zeros(len(x))]
    for _ in range(20):
        u[1][1:-1] = u[0][2:] - u[0][:-2] * 0.1
        u[0], u[1] = u[1], u[0]
    return u[0], u[1]


# ------------------------------------------------------------------------------------------------------ whole programs
@case(X)
@case(np.linspace(-1.0, 1.0, 100))
def moving_windows(x: Any) -> Any:
    y = np.zeros(len(x))
    s = 0.0
    for i in range(len(x) - 2):
        s += np.max(x[i:i + 3])
        y[i:i + 3] += x[i]
    return y, s


@case(np.linspace(-1.0, 1.0, 100), 10)
def blocks_of_a_size(x: Any, w: int) -> Any:
    s = 0.0
    for k in range(len(x) // w):
        s = s * 0.9 + np.max(x[k * w:(k + 1) * w])
    return s


@case(np.array([0.2, 0.3, 0.5]), np.linspace(0.1, 0.9, 9).reshape(3, 3), np.array([0, 1, 2, 0, 1, 1, 2, 0, 0]))
def hidden_markov(start: Any, a: Any, seen: Any) -> Any:
    alpha = np.log(start) + a[:, seen[0]]
    for t in range(1, len(seen)):
        new = np.zeros(len(start))
        for j in range(len(start)):
            terms = np.zeros(len(start))
            for i in range(len(start)):
                terms[i] = alpha[i] + a[i, j]
            top = np.max(terms)
            new[j] = top + np.log(np.sum(np.exp(terms - top))) + a[j, seen[t]]
        alpha = new
    return np.max(alpha) + np.log(np.sum(np.exp(alpha - np.max(alpha))))


@case(np.array([1.0, 0.1, 0.07, 1.1]), np.array([5.0, 3.0]), 12)
def runge_kutta(p: Any, y0: Any, n: int) -> Any:
    def rhs(y: Any) -> Any:
        return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    y, h = y0.copy(), 0.1
    out = np.empty((n + 1, 2))
    out[0] = y
    for k in range(n):
        k1 = rhs(y)
        k2 = rhs(y + 0.5 * h * k1)
        k3 = rhs(y + 0.5 * h * k2)
        k4 = rhs(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        out[k + 1] = y
    return out


@case(X, 0.1, 0.2)
def kalman(z: Any, q: float, r: float) -> Any:
    x, p, ll = 0, 1.0, 0
    for k in range(z.shape[0]):
        p = p + q
        gain, e = p / (p + r), z[k] - x
        ll -= 0.5 * (np.log(2.0 * np.pi * (p + r)) + e * e / (p + r))
        x += gain * e
        p = (1.0 - gain) * p
    return ll


@case(S + 5.0 * np.eye(4)[::-1], X[:4])
def gauss_with_pivots(a: Any, b: Any) -> Any:
    n = len(b)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            a[[k, p]] = a[[p, k]]
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1:] @ x[i + 1:]) / a[i, i]
    return x


@case(X)
def bubble_sort(x: Any) -> Any:
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


@case(np.sort(X))
def bisection(x: Any) -> Any:
    lo, hi = 0, len(x) - 1
    while lo < hi:
        mid = (lo + hi) // 2
        if x[mid] < 0.5:
            lo = mid + 1
        else:
            hi = mid
    return x[lo]


@case(X)
def alias_of_the_last_turn(x: Any) -> Any:
    y = x.copy()
    prev = y
    for i in range(len(x)):
        prev = y
        y[i] = 2.0
        y = y + prev * 0.1
    return y


@case(X.astype(np.float32))
def single_precision(x: Any) -> Any:
    s = np.float32(0)
    for i in range(len(x)):
        s += x[i] * i
    return s


@case([np.full((3, 5), 0.1), np.full((3, 5), 0.2)], M[:, :2])
def layers(params: Any, xs: Any) -> Any:
    h, c, loss = np.zeros(3), np.zeros(3), 0.0
    for t in range(len(xs)):
        for w in params:
            c = c * 0.9 + np.tanh(w @ np.concatenate([h, xs[t]]))
            h = np.tanh(c)
        loss = loss + np.sum(h**2)
    return loss


@pytest.mark.parametrize(("f", "args"), CASES, ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(CASES)])
def test_gives_what_python_gives(f: Function, args: tuple[Any, ...]) -> None:
    agrees(f, *args)


@pytest.mark.parametrize("f", [
    sum_of_entries, rows, break_continue, while_with_index, scan_into_array, append_in_loop, comprehensions])
def test_graphs_do_not_grow_with_sizes(f: Function) -> None:
    big = np.linspace(-1.0, 1.0, 400)
    small, large = (agrees(f, x if f is not rows else x.reshape(-1, 4)) for x in (big[:40], big))
    assert len(ops(small)) == len(ops(large))


def test_loops_run_for_other_sizes() -> None:
    for f in (sum_of_entries, scan_into_array, break_continue, fibonacci_swap):
        captured = capture(f, (X,))
        assert_close(run(captured, X[:7]), f(X[:7].copy()), rtol=1e-13)


def test_small_known_loops_are_unrolled() -> None:
    def f(x: Any) -> Any:
        for k in range(3):
            x = x * k
        return x

    assert "for" not in ops(agrees(f, X))


# ------------------------------------------------------------------------------------------------------ errors
OUTSIDE = np.zeros(3)


def one_branch_only(x: Any) -> Any:
    if x[0] > 0.0:
        y = "text"
    return x * len(y)


def grows(x: Any) -> Any:
    y = x[0]
    for _ in range(len(x)):
        y = np.stack([y, y])
    return y


def writes_outside(x: Any) -> Any:
    OUTSIDE[0] = x[0]
    return x


def returns_sometimes(x: Any) -> Any:
    if x[0] > 0.0:
        return x
    x = x + 1.0


def appends_sometimes(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0.0:
            out.append(v)
    return np.array(out)


def other_shapes(x: Any) -> Any:
    y = x[1:] if x[0] > 0.0 else x
    return y


def random_in_loop(x: Any) -> Any:
    for _ in range(len(x)):
        x = x + np.random.rand()
    return x


def refuse(f: Function, *args: Any, at: str = "", match: str = "") -> str:
    """The message of the error that capturing raises; `at`: text of the line that it must name."""
    with pytest.raises(AdcompileError, match=match or None) as caught:
        capture(f, args)
    message = str(caught.value)
    assert not at or f"{__file__}:{line_of(f, at)}, in {f.__name__}" in message, message
    return message


def writes_to_a_moving_view(x: Any) -> Any:
    y = x.copy()
    for i in range(len(x) - 3):
        part = y[i:i + 2]
        part[0] = 1.0
    return y


def may_be_the_same_array(x: Any) -> Any:
    y = x.copy()
    z = y
    if x[0] > 0.0:
        y = y * 2.0
    y[0] = 7.0
    return z.sum() + y


def prints(x: Any) -> Any:
    for v in x:
        print(v)
    return x


ERRORS = [
    (may_be_the_same_array, "return z.sum()", "share memory"),
    (prints, "print(v)", "print"),
    (writes_to_a_moving_view, "part = y", "share memory"),
    (one_branch_only, "return x * len(y)", "`y`"),
    (writes_outside, "OUTSIDE[0]", "OUTSIDE"),
    (returns_sometimes, "", "returns a value"),
    (appends_sometimes, "if v > 0.0", "out"),
    (random_in_loop, "np.random.rand", "random"),
]


@pytest.mark.parametrize(("f", "at", "match"), ERRORS, ids=[f.__name__ for f, _, _ in ERRORS])
def test_what_cannot_be_staged_is_named(f: Function, at: str, match: str) -> None:
    refuse(f, np.linspace(-1.0, 1.0, 100), at=at, match=match)


def test_line_numbers_survive() -> None:
    captured = agrees(break_continue, X)
    lines = {o.location.line for o in walk(captured.function.body) if o.location is not None and o.op == "while"}
    assert lines == {line_of(break_continue, "for v in x")}
