"""Random Python programs with loops, branches and assignments, and the checks that each of them must pass.

`random_program(seed)` writes one: source text that `inspect` can read, always the same for a seed. `check(program)` compares

    plain Python  ==  the captured graph, interpreted  ==  the generated module, run as plain Python

and the gradient with differences, where the program is smooth around its arguments. `shrink(program)` takes statements away
as long as a program still fails in the same way. By hand, with the programs that failed printed small:

    python tests/fuzz_programs.py 0 2000
"""

from __future__ import annotations

import copy
import functools
import linecache
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import oracle
from conftest import assert_close
from test_capture import bind, holds, read_inputs

from adcompile.capture.driver import CapturedFunction, capture
from adcompile.errors import AdcompileError
from adcompile.ir.core import Function, walk
from adcompile.ir.interpreter import interpret
from adcompile.pipeline import Options, compile_function

PARAMETERS = "x, y, a, b, m, places, k"
WRT = ("x", "y", "a", "b", "m")
SIZES = (5, 7)
STEPS = (2e-4, 7e-5)  # of differences; where they disagree there is a kink nearby
LARGE = 400  # operations: loops that cannot be staged were unrolled, which takes long and tests little
# what a program may be refused for
REFUSALS = (
    "may share memory",
    "the condition of a traced `while` changes variables",
    "a boolean mask that is computed from traced values is used as an index",
)


# ------------------------------------------------------------------------------------------------------ programs
@dataclass(frozen=True)
class Block:
    """A compound statement: `header:` and what it holds."""

    header: str
    body: tuple[Any, ...]


Statement = str | Block


@dataclass(frozen=True)
class Generated:
    """A program: a seed and its statements."""

    seed: int
    statements: tuple[Statement, ...]

    @property
    def source(self) -> str:
        """The text of a module that defines `program`."""
        lines = ["import math", "import numpy as np", "", "", f"def program({PARAMETERS}):"]
        return "\n".join([*lines, *indented(self.statements, 1), ""])

    def function(self) -> Callable[..., Any]:
        """The function, with its source where `inspect` and tracebacks find it."""
        file = f"<program {self.seed} {hash(self.source)}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names: dict[str, Any] = {"__name__": "fuzzed"}
        exec(compile(self.source, file, "exec"), names)
        found: Callable[..., Any] = names["program"]
        return found

    def arguments(self, size: int) -> tuple[Any, ...]:
        """Arguments for vectors of this length."""
        rng = np.random.default_rng([self.seed, size])
        return (
            rng.normal(size=size),
            rng.normal(size=size),
            float(rng.normal()),
            float(rng.uniform(0.2, 0.9)),
            rng.normal(size=(size, 3)),
            rng.integers(0, size, size),
            int(rng.integers(1, 4)),
        )


def indented(statements: tuple[Statement, ...], depth: int) -> Iterator[str]:
    """The lines of statements."""
    for statement in statements:
        if isinstance(statement, str):
            yield "    " * depth + statement
        else:
            yield "    " * depth + statement.header + ":"
            yield from indented(statement.body or ("pass",), depth + 1)


def random_program(seed: int) -> Generated:
    """The program of a seed."""
    writer = Writer(random.Random(seed))
    return Generated(seed, tuple(writer.program()))


class Writer:
    """Writes a program, keeping track of which names can be used for what."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.floats = ["a", "b", "s", "t"]
        self.vectors = ["x", "y", "u", "v"]  # of length n
        self.indices: list[str] = []  # integers from 0 to n - 1
        self.functions: list[str] = []
        self.writers: list[str] = []
        self.loops: list[str] = []  # the kinds of the loops around
        self.count = 0

    def program(self) -> Iterator[Statement]:
        """All statements of a function."""
        yield from (
            "n = len(x)",
            f"s = {self.pick('0.0', '0.0', '0')}",
            f"t = {self.number()}",
            "count = 0",
            f"u = {self.pick('np.zeros(n)', 'x.copy()', 'np.ones_like(y)')}",
            f"v = {self.pick('y * 0.5', 'np.zeros_like(x)', 'np.tanh(x)', 'y.copy()')}",
            "w = m.copy()",
        )
        if self.chance(0.3):
            yield from self.helper()
        if self.chance(0.2):
            yield from self.writer()
        for _ in range(self.rng.randint(2, 5)):
            yield from self.statement(0)
        parts = ["s", "t", "np.sum(u * y)", "np.dot(v, x)", "np.sum(w)"]
        yield "return " + " + ".join(self.rng.sample(parts, self.rng.randint(3, 5)))

    # -------------------------------------------------------------------------------------------- choices
    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self) -> str:
        return str(round(self.rng.uniform(-1.5, 1.5), 2))

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # -------------------------------------------------------------------------------------------- expressions
    def scalar(self, depth: int = 2) -> str:
        """A float that stays of the order of one when its operands do."""
        if depth == 0 or self.chance(0.15):
            return self.atom()
        one, two = self.scalar(depth - 1), self.scalar(depth - 1)
        forms = [
            f"np.sin({one})",
            f"math.cos({one})",
            f"np.tanh({one} + {two})",
            f"0.5 * ({one} - {two})",
            f"0.6 * {one} + {two} * 0.3",
            f"np.tanh({one}) * {two}",
            f"{one} / (1.5 + {two} ** 2)",
            f"np.exp(-abs({one}))",
            f"np.sqrt(1.0 + ({one}) ** 2)",
            f"max({one}, {two})",
            f"min({one}, {self.number()})",
            f"({one} if {self.condition()} else {two})",
            f"abs({one})",
            f"float(np.where({self.condition(simple=True)}, {one}, {two}))",
            f"np.mean({self.vector(depth - 1)})",
            f"np.dot({self.pick(*self.vectors)}, {self.pick(*self.vectors)}) / n",
            f"(-({one}))",
        ]
        if self.functions:
            forms += [f"{self.pick(*self.functions)}({one})"] * 3
        return self.pick(*forms)

    def atom(self) -> str:
        """A name, an element or a number."""
        forms = [self.pick(*self.floats), self.element(), self.number()]
        return self.pick(*forms, *forms[:2], "count * 0.2" if self.chance(0.3) else forms[0])

    def element(self) -> str:
        """An element of an array."""
        if self.chance(0.2):
            return f"{self.pick('m', 'w')}[{self.place()}, {self.pick('0', '1', '2', '-1', 'k - 1')}]"
        return f"{self.pick(*self.vectors)}[{self.place()}]"

    def place(self) -> str:
        """An index that is always within length n."""
        if not self.indices or self.chance(0.1):
            return self.pick("0", "-1", "k", "n - 1", "1", "n // 2", "places[1]")
        i = self.pick(*self.indices)
        j = self.pick(*self.indices)
        return self.pick(
            i,
            i,
            i,
            i,
            f"{i} - 1",
            f"n - 1 - {i}",
            f"({i} + 1) % n",
            f"({i} * {j} + 1) % n",
            f"places[{i}]",
            f"{i} // 2",
            f"min({i} + 1, n - 1)",
            f"max({i} - {j}, 0)",
            f"({i} if {self.pick('a', 's', 't')} > 0 else 0)",
            f"np.argmax({self.pick('x', 'u')})",
            f"(count + {i}) % n",
            f"-{i} - 1",
            f"({i} + {j}) // 2",
        )

    def vector(self, depth: int = 2) -> str:
        """A float array of length n."""
        if depth <= 0 or self.chance(0.25):
            return self.pick(*self.vectors)
        one, two = self.vector(depth - 1), self.vector(depth - 1)
        return self.pick(
            f"np.sin({one})",
            f"0.5 * ({one} + {two})",
            f"np.tanh({one} * {two})",
            f"({one})[::-1]",
            f"np.maximum({one}, {two})",
            f"np.where({one} > {self.number()}, {two}, {self.scalar(0)})",
            f"{one} * {self.scalar(0)}",
            f"({one})[places]",
            f"np.roll({one}, 1)",
            f"np.cumsum({one}) / n",
            f"m[:, {self.pick('0', '1', '2')}]",
            f"w[:, 1] - {one}",
            f"m @ w[{self.place()}]",
            "w.sum(axis=1)",
            f"np.einsum('ij,i->i', w, {one})",
            f"(w * m)[places, {self.pick('0', '-1')}]",
            f"np.concatenate(({one}[1:], {two}[:1]))" if depth == 1 else f"np.clip({one}, -1.0, {self.number()} + 2)",
            f"({one} - np.mean({two}))",
            f"np.abs({one})",
        )

    def condition(self, simple: bool = False) -> str:
        """A condition, of floats or of indices."""
        if self.indices and self.chance(0.35):
            i = self.pick(*self.indices)
            return self.pick(f"{i} % 2 == 0", f"{i} > 1", f"{i} != k", f"{i} < n - 2", f"{i} == places[{i}]")
        one = f"{self.atom()} {self.pick('>', '<', '<=')} {self.atom()}"
        if simple or self.chance(0.7):
            return one
        return self.pick(
            f"{one} and {self.atom()} > {self.number()}",
            f"{one} or {self.atom()} < {self.number()}",
            f"not {one}",
            f"{self.number()} < {self.atom()} < {self.atom()}",
        )

    # -------------------------------------------------------------------------------------------- statements
    def statements(self, depth: int, most: int = 3) -> tuple[Statement, ...]:
        """A block."""
        found: list[Statement] = []
        for _ in range(self.rng.randint(1, most)):
            found += self.statement(depth)
        return tuple(found)

    def statement(self, depth: int) -> Iterator[Statement]:
        """One statement (or a few that belong together)."""
        kinds: list[tuple[float, Callable[[int], Iterator[Statement]]]] = [
            (4, self.assign),
            (4, self.store),
            (1.5, self.whole),
            (0.7, self.part),
            (0.4, self.alias),
            (0.4, self.in_place),
            (0.4, self.swap),
            (0.4, self.number_of_turns),
        ]
        if depth < 3:
            kinds += [
                (2.0, self.branch),
                (4.0 if depth < 2 else 1.0, self.for_loop),
                (1.0, self.while_loop),
                (0.5, self.grown),
                (0.5, self.boxed),
            ]
        if self.loops and depth:
            kinds += [(0.6, self.leave)]
        elif depth == 1:
            kinds += [(0.2, self.early)]
        weights, functions = zip(*kinds, strict=True)
        yield from self.rng.choices(functions, weights)[0](depth)

    def assign(self, depth: int) -> Iterator[Statement]:
        name = self.pick("s", "t")
        if self.chance(0.5):
            yield f"{name} = {self.scalar()}"
        else:
            yield f"{name} {self.pick('+', '-', '*')}= {self.pick('0.3 * ', '')}np.tanh({self.scalar()})"

    def store(self, depth: int) -> Iterator[Statement]:
        target = (
            f"w[{self.place()}, {self.pick('0', '1', '2')}]"
            if self.chance(0.2)
            else f"{self.pick('u', 'v')}[{self.place()}]"
        )
        if self.chance(0.6):
            yield f"{target} = {self.scalar()}"
        else:
            yield f"{target} {self.pick('+=', '-=', '*=')} np.tanh({self.scalar(1)})"

    def whole(self, depth: int) -> Iterator[Statement]:
        name = self.pick("u", "v")
        yield self.pick(
            f"{name} = {self.vector()} + 0.0",
            f"{name} = {self.vector()}",
            f"{name} += np.tanh({self.vector(1)})",
            f"{name} *= np.tanh({self.scalar(1)})",
            f"{name}[:] = {self.vector()}",
            f"{name} = {name}.copy()",
        )

    def part(self, depth: int) -> Iterator[Statement]:
        name = self.pick("u", "v")
        one = self.vector(1)
        view = self.fresh("view")
        forms = [
            (f"{name}[1:] = ({one})[:-1]",),
            (f"{name}[::-1] = {one}",),
            (f"{name}[1:-1] += np.sin({one})[2:]",),
            (f"{name}[{name} > {self.number()}] = {self.scalar(1)}",),
            (f"{name}[places] = {one}",),
            (f"{name}[::2] *= {self.number()}",),
            (f"np.add.at({name}, places, np.tanh({one}))",),
            (f"{view} = {name}[1:]", f"{view}[0] = {self.scalar(1)}"),
            (f"w[:, 1] = {one}",),
            (f"w[{self.place()}] = {self.scalar(1)}",),
            (f"w[{self.place()}, 1:] += m[{self.place()}, :-1] * 0.5",),
            (f"{name}[k:] = {self.scalar(1)}",),
            (f"{name}[:k] -= ({one})[:k]",),
        ]
        yield from self.rng.choice(forms)

    def alias(self, depth: int) -> Iterator[Statement]:
        """Writes through another name, or a view, of an array."""
        name, other = self.rng.sample(["u", "v"], 2)
        z = self.fresh("z")
        update = f"{self.pick('=', '+=', '-=')} np.tanh({self.scalar(1)})"
        forms = [
            (f"{z} = {name}", f"{z}[{self.place()}] {update}"),
            (f"{z} = {name}[::-1]", f"{z}[{self.place()}] {update}", f"{z}[k:] *= 0.5"),
            (f"{z} = {name}[1:]", f"{z}[:-1] {update}", f"{z} += {other}[1:]"),
            (f"{z} = w[:, {self.pick('0', '2')}]", f"{z}[{self.place()}] {update}", f"{name} = {z} * 2.0"),
            (f"{z} = w.T", f"{z}[1] = {self.vector(1)}", f"{z}[0, {self.place()}] {update}"),
            (f"{z} = w.reshape(-1)", f"{z}[::4] {update}"),
            (f"{z} = w[{self.place()}]", f"{z}[k - 1] {update}", f"{z} *= 0.7"),
            (f"{z} = {name} > {self.number()}", f"{name}[{z}] {update}"),
            (f"{z} = {name} <= {other}", f"{name}[{z}] = {other}[{z}]"),
            (f"{z} = (w, {name})", f"{z}[1][{self.place()}] {update}", f"{z}[0][1, 1] {update}"),
            (f"{z} = {name}[1:-1][::2]", f"{z} {update}"),
        ]
        yield from self.rng.choice(forms)

    def in_place(self, depth: int) -> Iterator[Statement]:
        """Functions that write into an array."""
        name, other = self.rng.sample(["u", "v"], 2)
        forms = [
            f"np.copyto({name}, {self.vector(1)})",
            f"{name}.fill({self.scalar(1)})",
            f"np.multiply({name}, np.tanh({other}), out={name})",
            f"np.maximum({name}, {self.vector(1)}, out={other})",
            f"{name}[...] = {self.scalar(1)}",
            f"np.subtract.at({name}, places, {self.number()})",
        ]
        if self.writers:
            forms += [f"{self.pick(*self.writers)}({name}, {self.pick('s', 't', 'a')})"] * 4
        yield self.pick(*forms)

    def number_of_turns(self, depth: int) -> Iterator[Statement]:
        yield self.pick("count += 1", "count = count * 2 + 1", "count = count // 2", "count -= k", "t += count * 0.01")

    def boxed(self, depth: int) -> Iterator[Statement]:
        """A loop whose state is in a list, a tuple or a dict."""
        box, i = self.fresh("box"), self.fresh("i")
        kind, whole = self.pick("list", "tuple", "dict", "nested"), self.vector(1)
        self.indices.append(i)
        one, two = self.scalar(1), self.scalar(1)
        self.indices.remove(i)
        if kind == "list":
            yield f"{box} = [s, t]"
            yield Block(f"for {i} in range(n)", (f"{box}[0] = {one}", f"{box}[1] += 0.3 * {box}[0]", f"s = {two}"))
            yield f"s, t = {box}"
        elif kind == "tuple":
            yield f"{box} = (s, u)"
            yield Block(f"for {i} in range(k)", (f"{box} = ({one} + 0.1 * {box}[0], {whole} * 0.5)",))
            yield f"s, u = {box}"
        elif kind == "dict":
            yield f"{box} = {{'p': t, 'q': {whole} + 0.0}}"
            yield Block(f"for {i} in range(1, n)", (f"{box}['p'] = {one}", f"{box}['q'][{i} - 1] = {box}['p'] * 0.5"))
            yield f"v = {box}['q']"
        else:
            yield f"{box} = ((s, t), [1.0])"
            yield Block(f"for {i} in range(n)", (f"(s, t), {box}[1][0] = {box}[0], {one}", f"{box} = ((t, {two}), {box}[1])"))
            yield f"s = {box}[0][1] + {box}[1][0]"

    def swap(self, depth: int) -> Iterator[Statement]:
        yield self.pick(
            "s, t = t, s",
            "u, v = v, u",
            "s, t = t, s + t * 0.5",
            "u[0], u[-1] = u[-1], u[0]",
            f"u[{self.place()}], v[{self.place()}] = v[{self.place()}], u[{self.place()}]",
        )

    def branch(self, depth: int) -> Iterator[Statement]:
        yield Block(f"if {self.condition()}", self.statements(depth + 1))
        if self.chance(0.3):
            yield Block(f"elif {self.condition()}", self.statements(depth + 1, 2))
        if self.chance(0.5):
            yield Block("else", self.statements(depth + 1, 2))

    def for_loop(self, depth: int) -> Iterator[Statement]:
        i, e, f = self.fresh("i"), self.fresh("e"), self.fresh("f")
        vector = self.pick(*self.vectors)
        headers = [(f"for {i} in range(n)", [i], [])] * 4 + [
            (f"for {i} in range(1, n)", [i], []),
            (f"for {i} in range(n - 1, -1, -1)", [i], []),
            (f"for {i} in range(0, n, 2)", [i], []),
            (f"for {i} in range(k)", [i], []),
            (f"for {i} in range(3)", [i], []),
            (f"for {i} in reversed(range(n))", [i], []),
            (f"for {i}, {e} in enumerate({vector})", [i], [e]),
            (f"for {e}, {f} in zip(x, m[:, 1])", [], [e, f]),
            (f"for {e} in {vector}", [], [e]),
            (f"for {i} in range(w.shape[0])", [i], []),
            (f"for {i} in places", [i], []),
            (f"for {i} in range(k, n)", [i], []),
            (f"for {i} in range(n - 2, 0, -2)", [i], []),
            (f"for {i}, ({e}, {f}) in enumerate(zip({vector}, y))", [i], [e, f]),
            (f"for {i}, {e} in zip(places, {vector}[::-1])", [i], [e]),
            (f"for {e} in reversed({vector})", [], [e]),
            (f"for {e}, {f}, _ in w", [], [e, f]),
            (f"for {i}, {e} in enumerate(w[:, 1])", [i], [e]),
        ]
        if self.indices:
            outer = self.pick(*self.indices)
            headers += [
                (f"for {i} in range({outer})", [i], []),
                (f"for {i} in range({outer} + 1, n)", [i], []),
                (f"for {i} in range({outer}, -1, -1)", [i], []),
            ] * 2
        header, integers, floats = self.rng.choice(headers)
        yield Block(header, self.inside(depth, "for", integers, floats))
        if self.chance(0.08):
            yield Block("else", self.statements(depth + 1, 1))

    def while_loop(self, depth: int) -> Iterator[Statement]:
        j = self.fresh("j")
        yield f"{j} = 0"
        limit = self.pick("n", "k", "n - 1")
        more = self.pick("", "", f" and {self.atom()} < {self.number()}", f" and abs({self.pick('s', 't')}) < 2.0")
        header = f"while {j} < {limit}{more}"
        self.indices.append(j)
        body = self.inside(depth, "while", [], [])
        self.indices.remove(j)
        yield Block(header, (*body, f"{j} += 1"))

    def inside(self, depth: int, kind: str, integers: list[str], floats: list[str]) -> tuple[Statement, ...]:
        """The body of a loop whose targets are these names."""
        self.loops.append(kind)
        self.indices += integers
        self.floats += floats
        body = self.statements(depth + 1)
        self.indices = [x for x in self.indices if x not in integers]
        self.floats = [x for x in self.floats if x not in floats]
        self.loops.pop()
        return body

    def leave(self, depth: int) -> Iterator[Statement]:
        """`break`, `return`, or `continue` where the loop still ends."""
        word = (
            self.pick("break", "break", f"return {self.scalar(1)}")
            if self.loops[-1] == "while" or self.chance(0.3)
            else "continue"
        )
        yield Block(f"if {self.condition()}", (*self.statements(3, 1), word) if self.chance(0.5) else (word,))

    def early(self, depth: int) -> Iterator[Statement]:
        yield f"return {self.scalar()} + np.sum(u)"

    def grown(self, depth: int) -> Iterator[Statement]:
        """A list made in a loop, or a comprehension."""
        i, items = self.fresh("i"), self.fresh("items")
        self.indices.append(i)
        value = self.scalar(1)
        self.indices.remove(i)
        name = self.pick("u", "v")
        if self.chance(0.5):
            yield f"{name} = np.array([{value} for {i} in range(n)])"
        else:
            yield f"{items} = []"
            yield Block(f"for {i} in range(n)", (f"{items}.append({value})",))
            yield f"{name} = np.array({items})"

    def helper(self) -> Iterator[Statement]:
        """A nested function that reads names around it."""
        name = self.fresh("g")
        kept, self.floats = self.floats, ["p", "p", "p", "a", "b"]
        body: list[Statement] = []
        if self.chance(0.5):
            body += [Block(f"if {self.condition()}", (f"return {self.scalar()}",))]
        else:
            body += [f"q = {self.scalar()}", Block("for z in range(3)", (f"q = 0.5 * q + np.sin({self.scalar(1)})",))]
            self.floats.append("q")
        body.append(f"return {self.scalar()}")
        self.floats = kept
        self.functions.append(name)
        yield Block(f"def {name}(p)", tuple(body))

    def writer(self) -> Iterator[Statement]:
        """A nested function that writes into its argument and counts how often."""
        name = self.fresh("put")
        kept, self.floats, self.vectors = (self.floats, self.vectors), ["p", "a", "q[0]"], ["q", "x"]
        body = (
            "nonlocal count",
            "count += 1",
            f"q[{self.place()}] = {self.scalar(1)}",
            Block(f"if {self.condition()}", (f"q[1:] *= {self.scalar(0)}",)),
        )
        self.floats, self.vectors = kept
        self.writers.append(name)
        yield Block(f"def {name}(q, p=0.5)", body)


# ------------------------------------------------------------------------------------------------------ the checks
class Refused(Exception):
    """adcompile said that it cannot."""


def check(program: Generated, *, compiled: bool = False) -> str:
    """Raise AssertionError where something disagrees; else what was compared. `compiled`: by numba as well."""
    names = PARAMETERS.split(", ")
    args, *others = (dict(zip(names, program.arguments(size), strict=True)) for size in SIZES)
    return check_function(program.function(), args, WRT, others, compiled=compiled)


def check_function(
    function: Callable[..., Any],
    args: dict[str, Any],
    wrt: tuple[str, ...],
    others: Sequence[dict[str, Any]] = (),
    *,
    compiled: bool = False,
) -> str:
    """The same for any function of these arguments. `others`: arguments for which only values are compared."""
    try:
        value = plain(function, tuple(args.values()))
    except (IndexError, UnboundLocalError):
        return "not valid Python"
    if not np.isfinite(value) or abs(value) > 1e6:
        return "not finite"
    try:
        captured = capture(function, copy.deepcopy(tuple(args.values())), wrt=wrt, scalar=True)
        if sum(1 for _ in walk(captured.function.body)) > LARGE:
            return "unrolled"
        stages = compile_function(captured, Options(wrt=wrt), until="emit")
    except AdcompileError as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    runs = [module(stages.stage("source"), captured.function.name, jit) for jit in (False, True)[: 1 + compiled]]
    final = stages.stage("passes")
    gradients = [
        compare_values(function, captured, final, runs, tuple(each.values()))
        for each in (args, *others)
        if holds(captured, *each.values()) and holds(replace(captured, function=final), *each.values())
    ]
    return compare_gradients(function, args, wrt, gradients[0])


def compare_values(
    function: Callable[..., Any],
    captured: CapturedFunction,
    final: Function,
    runs: Sequence[Callable[..., Any]],
    args: tuple[Any, ...],
) -> list[np.ndarray]:
    """Every stage against plain Python and against the stage before; the gradients."""
    wanted = np.asarray(plain(function, args))
    params = tuple(read_inputs(captured, bind(captured, copy.deepcopy(args), {})))
    assert_close(interpret(captured.function, params)[0], wanted, rtol=1e-10, atol=1e-10)
    interpreted = [np.asarray(x) for x in interpret(final, params)]
    assert_close(interpreted[0], wanted, rtol=1e-8, atol=1e-9)
    for run in runs:
        with np.errstate(all="ignore"):
            results = [np.asarray(x) for x in run(*copy.deepcopy(params))]
        assert_close(results, interpreted, rtol=1e-7, atol=1e-8)
    return interpreted[1:]


def plain(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """What Python gives, on copies."""
    with np.errstate(all="ignore"):
        return float(function(*copy.deepcopy(args)))


def module(source: str, name: str, jit: bool) -> Callable[..., Any]:
    """The entry of a generated module, as plain Python or compiled."""
    names: dict[str, Any] = {}
    before = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = int(not jit)
    try:
        exec(source, names)
    finally:
        numba.config.DISABLE_JIT = before
    found: Callable[..., Any] = names[name]
    return found


def compare_gradients(
    function: Callable[..., Any], args: dict[str, Any], wrt: tuple[str, ...], gradient: list[np.ndarray]
) -> str:
    """The gradient against differences, entry by entry, where two steps of the differences agree."""
    entries = kinks = 0
    for name, got in zip(wrt, gradient, strict=True):
        position = list(args).index(name)
        fine, coarse = (
            np.asarray(oracle.gradient_of(function, tuple(args.values()), position, stepping(step))) for step in STEPS
        )
        scale = np.maximum(1.0, np.abs(fine))
        smooth = np.abs(fine - coarse) <= 2e-7 * scale
        wrong = smooth & ~(np.abs(got - fine) <= 2e-6 * scale)
        assert not wrong.any(), f"gradient in {name}\n{got}\ndiffers from\n{fine}"
        entries += int(smooth.sum())
        kinks += int((~smooth).sum())
    return f"{entries} entries" if not kinks else "kinks"


def stepping(step: float) -> Callable[..., np.ndarray]:
    """Differences with this step."""
    return lambda function, x: oracle.differences(function, x, step)


# ------------------------------------------------------------------------------------------------------ smaller programs
def shrink(program: Generated, fails: Callable[[Generated], bool]) -> Generated:
    """The program without what is not needed for `fails` to stay true."""
    changed = True
    while changed:
        changed = False
        for statements in smaller(program.statements):
            candidate = replace(program, statements=statements)
            if fails(candidate):
                program, changed = candidate, True
                break
    return program


def smaller(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The same statements with one taken away, or with a block replaced by what it holds."""
    for i, statement in enumerate(statements):
        before, after = statements[:i], statements[i + 1 :]
        yield before + after
        if isinstance(statement, Block):
            yield before + statement.body + after
            for body in smaller(statement.body):
                yield (*before, replace(statement, body=body), *after)


def ends_in(kind: str, program: Generated) -> bool:
    """Whether a program fails like this."""
    return outcome(program)[0] == kind


def outcome(program: Generated) -> tuple[str, str]:
    """What a check ends in: a word that says how, and the details."""
    try:
        plain(program.function(), program.arguments(SIZES[0]))
    except Exception as error:  # the program itself is wrong
        return "invalid", f"{type(error).__name__}: {error}"
    try:
        return "ok", check(program)
    except Refused as error:
        return f"refused {general(str(error))}", str(error)
    except AssertionError as error:
        return "wrong " + str(error)[:12], str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}", f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


def general(message: str) -> str:
    """The start of a message without what differs from program to program."""
    return re.sub(r"\[[^]]*\]|%\w+|'\w+'|\d+|\(f64.*", "_", message.split("\n")[0])[:70]


def main(first: int, last: int) -> int:
    """Check the programs of many seeds; print a small form of each that fails."""
    counts: dict[str, int] = {}
    started, failed = time.perf_counter(), 0
    for seed in range(first, last):
        program = random_program(seed)
        kind, detail = outcome(program)
        word = detail if kind == "ok" else kind if kind != "invalid" else f"invalid: {detail[:60]}"
        word = "gradient compared" if word.endswith("entries") else word
        counts[word] = counts.get(word, 0) + 1
        if kind in ("ok", "invalid") or any(reason in detail for reason in REFUSALS):
            continue
        failed += 1
        if counts[word] <= 2:
            small = shrink(program, functools.partial(ends_in, kind))
            print(f"--- seed {seed}: {kind}\n{outcome(small)[1][:1500]}\n{small.source}", flush=True)
    print(f"{last - first} programs in {time.perf_counter() - started:.0f} s")
    for word, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        print(f"{count:6} {word}")
    return int(failed > 0)


if __name__ == "__main__":
    os.environ["ADCOMPILE_VERIFY"] = "1"
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
