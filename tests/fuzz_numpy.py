"""Random NumPy expressions over shapes, and the checks that each of them must pass.

`random_expression(seed)` writes a function of arrays whose axes have the lengths n, d and k: broadcasting, reductions, products,
indexing, choices. `check(program)` compares it with NumPy for several lengths (1 and 0 and equal ones among them), through
capture, gradient and passes, and the gradient with differences. `check_compiled(program)` calls one compiled object for all
lengths, with arrays of other memory layouts, and sees that it leaves them as they are. By hand:

    python tests/fuzz_numpy.py 0 2000
"""

from __future__ import annotations

import copy
import linecache
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import oracle
from conftest import assert_close
from fuzz_programs import STEPS, Refused, general
from test_capture import bind, holds, read_inputs

from adcompile import compile_grad
from adcompile.capture.driver import capture
from adcompile.errors import AdcompileError
from adcompile.ir.interpreter import interpret
from adcompile.pipeline import Options, compile_function

Shape = tuple[str, ...]  # the lengths of axes: names, or "1"
ARRAYS: dict[str, Shape] = {"A": ("n", "d"), "B": ("n", "d"), "C": ("d",), "v": ("n",), "T": ("n", "d", "k"), "M": ("d", "k"),
                            "s": ()}
LENGTHS = ({"n": 4, "d": 3, "k": 2}, {"n": 3, "d": 3, "k": 3}, {"n": 1, "d": 3, "k": 2}, {"n": 2, "d": 1, "k": 1},
           {"n": 0, "d": 2, "k": 3}, {"n": 5, "d": 2, "k": 4})
PARAMETERS = f"{', '.join(ARRAYS)}, rows"


@dataclass(frozen=True)
class Expression:
    """A function as text. `single`: the arrays that are float32."""

    seed: int
    lines: tuple[str, ...]
    single: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The text of a module that defines `program`."""
        head = ["import numpy as np", "from scipy import special", "", "", f"def program({PARAMETERS}):"]
        return "\n".join([*head, *(f"    {line}" for line in self.lines), ""])

    @property
    def wrt(self) -> tuple[str, ...]:
        """The arguments to differentiate."""
        return tuple(ARRAYS)

    def function(self) -> Callable[..., Any]:
        """The function, with its source where `inspect` finds it."""
        file = f"<expression {self.seed} {hash(self.source)}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names: dict[str, Any] = {"__name__": "fuzzed"}
        exec(compile(self.source, file, "exec"), names)
        found: Callable[..., Any] = names["program"]
        return found

    def arguments(self, lengths: dict[str, int]) -> tuple[Any, ...]:
        """Arguments for axes of these lengths."""
        rng = np.random.default_rng([self.seed, *lengths.values()])
        made: list[Any] = []
        for name, shape in ARRAYS.items():
            array = rng.normal(size=[lengths[axis] for axis in shape])
            made.append(array.astype(np.float32 if name in self.single else np.float64) if shape else float(array))
        return (*made, rng.integers(0, max(lengths["n"], 1), lengths["n"]))


def random_expression(seed: int) -> Expression:
    """The expression of a seed."""
    rng = random.Random(seed)
    single = rng.choice([()] * 3 + [tuple(ARRAYS)[:-1], ("A", "C")])
    return Expression(seed, Writer(rng).lines(), single)


class Writer:
    """Writes expressions of a wanted shape."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: dict[str, Shape] = dict(ARRAYS)

    def lines(self) -> tuple[str, ...]:
        """A few assignments and a `return`."""
        found = []
        for number in range(self.rng.randint(1, 3)):
            shape = self.rng.choice([("n", "d"), ("d",), ("n",), ("d", "n"), ("n", "d", "k"), ("d", "d"), ("n", "1"), ()])
            found.append(f"z{number} = {self.expression(shape, 3)}")
            self.names[f"z{number}"] = shape
        last = self.names[f"z{number}"]
        end = self.rng.choice(["np.sum({})", "np.mean({})", "({}).sum()", "np.sum(({}) ** 2)"]) if last else "{}"
        return (*found, "return " + end.format(f"z{number}") + f" + {self.expression((), 2)}")

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def number(self) -> str:
        return str(round(self.rng.uniform(-1.5, 1.5), 2))

    def expression(self, shape: Shape, depth: int) -> str:
        """An expression of this shape."""
        if depth <= 0:
            return self.leaf(shape)
        forms = [self.unary, self.unary, self.binary, self.binary, self.binary, self.choice, self.reduction, self.reduction]
        if shape:
            forms += [self.rearranged, self.along, self.indexed, self.product]
        text: str = self.rng.choice(forms)(shape, depth - 1)
        return text

    def leaf(self, shape: Shape) -> str:
        """A name of this shape, an array broadcast to it, or a number."""
        same = [name for name, have in self.names.items() if have == shape]
        if same:
            return self.pick(*same)
        if shape == ("1",):
            return "np.array([s])"
        if shape and shape[-1] == "1":
            return f"({self.leaf(shape[:-1])})[..., None]"
        if len(shape) == 2 and shape[::-1] in ARRAYS.values():
            return f"{self.leaf(shape[::-1])}.T"
        if len(shape) == 2:
            return f"np.outer({self.leaf(shape[:1])}, {self.leaf(shape[1:])})"
        return "M[0]" if shape == ("k",) else f"np.ones({self.sizes(shape)}) * s"

    def sizes(self, shape: Shape) -> str:
        """A shape as the user writes it."""
        known = {"n": "A.shape[0]", "d": "C.shape[0]", "k": "len(M[0])", "1": "1"}
        return "(" + ", ".join(known[axis] for axis in shape) + ("," if len(shape) == 1 else "") + ")"

    # -------------------------------------------------------------------------------------------- entry by entry
    def unary(self, shape: Shape, depth: int) -> str:
        x = self.expression(shape, depth)
        return self.pick(f"np.sin({x})", f"np.tanh({x})", f"np.exp(-np.abs({x}))", f"np.sqrt(1.0 + ({x}) ** 2)",
                         f"np.arctan({x})", f"np.log1p(({x}) ** 2)",
                         f"(-({x}))", f"np.square({x})", f"0.3 * ({x}) ** 3", f"np.abs({x})",
                         f"special.expit({x})", f"special.erf({x})", f"np.log1p(np.exp({x}))", f"1 / (1 + np.exp(-({x})))",
                         f"np.cosh(np.tanh({x}))", f"({x}) / 2", f"np.clip({x}, -1.0, 0.7)", f"np.sinc(0.3 + np.abs({x}))")

    def binary(self, shape: Shape, depth: int) -> str:
        one, two = self.expression(shape, depth), self.expression(self.smaller(shape), depth)
        one, two = self.pick((one, two), (two, one)) if shape else (one, two)
        return self.pick(f"({one} + {two})", f"({one} - {two})", f"np.tanh({one}) * ({two})", f"({one}) / (1.5 + ({two}) ** 2)",
                         f"np.maximum({one}, {two})", f"np.minimum({one}, {two})", f"np.logaddexp({one}, {two})",
                         f"np.hypot({one}, {two})", f"np.arctan2({one}, 2.0 + ({two}) ** 2)",
                         f"(1.1 + ({one}) ** 2) ** np.tanh({two})")

    def smaller(self, shape: Shape) -> Shape:
        """A shape that broadcasts to this one."""
        kept = shape[self.rng.randint(0, len(shape)):] if self.rng.random() < 0.4 else shape
        return tuple("1" if self.rng.random() < 0.15 else axis for axis in kept)

    def choice(self, shape: Shape, depth: int) -> str:
        one, two, test = (self.expression(s, depth) for s in (shape, self.smaller(shape), self.smaller(shape)))
        return self.pick(f"np.where({test} > {self.number()}, {one}, {two})", f"np.where({one} < {test}, {two}, {one})",
                         f"np.where(({test} > 0) & ({one} < 1), {one}, 0.5)")

    # -------------------------------------------------------------------------------------------- along axes
    def reduction(self, shape: Shape, depth: int) -> str:
        """A reduction that leaves this shape."""
        ones = [place for place, axis in enumerate(shape) if axis == "1"]
        length = self.pick("n", "d", "k")
        if ones and self.rng.random() < 0.7:
            place = self.pick(*ones)
            whole, keep = (*shape[:place], length, *shape[place + 1 :]), ", keepdims=True"
        elif len(shape) < 3:
            place, keep = self.rng.randint(0, len(shape)), ""
            whole = (*shape[:place], length, *shape[place:])
        else:
            return self.unary(shape, depth)
        axis = place if self.rng.random() < 0.6 else place - len(whole)
        x = self.expression(whole, depth)
        both = f"axis={axis}{keep}"
        return self.pick(f"np.sum({x}, {both})", f"({x}).sum({both})", f"np.mean({x}, {both})", f"np.max({x}, {both})",
                         f"({x}).min({both})", f"np.prod(np.tanh({x}), {both})", f"np.var({x}, {both})", f"np.std({x}, {both})",
                         f"special.logsumexp({x}, {both})", f"np.linalg.norm({x}, {both})")

    def along(self, shape: Shape, depth: int) -> str:
        """Something done along one axis that keeps it."""
        axis = self.rng.randrange(-len(shape), len(shape))
        x = self.expression(shape, depth)
        return self.pick(f"np.cumsum({x}, axis={axis})", f"np.roll({x}, 1, axis={axis})", f"np.flip({x}, axis={axis})",
                         f"np.cumprod(np.tanh({x}), axis={axis})", f"special.softmax({x}, axis={axis})",
                         f"({x} - np.mean({x}, axis={axis}, keepdims=True))", f"np.take({x}, np.arange(len({x})), axis=0)",
                         f"np.concatenate(({x}, {x}), axis={axis}).reshape((2,) + {self.sizes(shape)})[1]"
                         if axis in (0, -len(shape)) else f"special.log_softmax({x}, axis={axis})",
                         f"np.stack([{x}, {self.expression(shape, depth)}], axis={axis})"
                         f".sum(axis={axis})")

    def rearranged(self, shape: Shape, depth: int) -> str:
        """Other orders and groupings of axes."""
        if len(shape) == 1:
            x = self.expression(shape, depth)
            return self.pick(f"({x})[::-1]", f"({x}).reshape(-1, 1)[:, 0]", f"({x})[None, :][0]", f"np.ravel({x})")
        back = self.expression(shape[::-1], depth)
        x = self.expression(shape, depth)
        return self.pick(f"({back}).T", f"np.transpose({back})", f"({x}).reshape(-1).reshape({self.sizes(shape)})",
                         f"np.swapaxes({self.expression((shape[1], shape[0], *shape[2:]), depth)}, 0, 1)",
                         f"({x})[:, ::-1]", f"np.moveaxis({back}, -1, 0)" if len(shape) == 2 else f"({x})[::-1, :, ::-1]",
                         f"np.broadcast_to({self.expression(self.smaller(shape), depth)}, {self.sizes(shape)})")

    def indexed(self, shape: Shape, depth: int) -> str:
        """Entries of a larger array."""
        length = self.pick("d", "k")
        if shape[0] == "n" and self.rng.random() < 0.5:
            places = self.pick("rows", "rows[::-1]", "np.arange(len(rows))", "rows - len(rows)")
            return f"({self.expression(shape, depth)})[{places}]"
        if len(shape) < 3:
            place = self.rng.randint(0, len(shape))
            x = self.expression((*shape[:place], length, *shape[place:]), depth)
            return f"({x})[{', '.join([':'] * place + [self.pick('0', '-1')])}]"
        return f"({self.expression(shape, depth)})[..., [0] * {self.sizes(shape[-1:])}[0]]"

    def product(self, shape: Shape, depth: int) -> str:
        """Products that sum over an axis."""
        inner = self.pick("n", "d", "k")
        if len(shape) == 1:
            matrix, vector = self.expression((*shape, inner), depth), self.expression((inner,), depth)
            return self.pick(f"({matrix}) @ ({vector})", f"np.dot({matrix}, {vector})",
                             f"np.einsum('ij,j->i', {matrix}, {vector})",
                             f"np.einsum('ij,ij->i', {matrix}, {self.expression((*shape, inner), depth)})")
        if len(shape) == 2:
            one, two = self.expression((shape[0], inner), depth), self.expression((inner, shape[1]), depth)
            return self.pick(f"({one}) @ ({two})", f"np.einsum('ik,kj->ij', {one}, {two})", f"np.tensordot({one}, {two}, axes=1)",
                             f"np.outer({self.expression(shape[:1], depth)}, {self.expression(shape[1:], depth)})")
        one, two = self.expression((shape[0], shape[1], inner), depth), self.expression((inner, shape[2]), depth)
        return self.pick(f"({one}) @ ({two})", f"np.einsum('abi,ic->abc', {one}, {two})")


# ------------------------------------------------------------------------------------------------------ the checks
def numpy_value(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What NumPy gives, on copies; None where it raises, as for the maximum of nothing."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(function(*copy.deepcopy(args)))
    except (ValueError, IndexError):
        return None


def check(program: Expression) -> str:
    """Raise AssertionError where something disagrees; else what was compared. The graph of the first lengths is used for all
    that it holds for."""
    function = program.function()
    first = random.Random(program.seed).randrange(len(LENGTHS))
    finished: list[Any] = []
    result = "nothing"
    for lengths in (*LENGTHS[first:], *LENGTHS[:first]):
        args = program.arguments(lengths)
        wanted = numpy_value(function, args)
        if wanted is None:
            continue
        if 0 in lengths.values() and "logsumexp" in program.source:
            continue  # of nothing: it depends on SciPy's version
        fitting = [pair for pair in finished if holds(replace(pair[0], function=pair[1]), *args)]
        if not fitting:
            fitting = [finish(program, function, args)]
            finished += fitting
        captured, graph = fitting[0]
        with np.errstate(all="ignore"):
            value, *gradient = interpret(graph, read_inputs(captured, bind(captured, copy.deepcopy(args), {})))
        assert np.asarray(value).dtype == wanted.dtype, f"a {np.asarray(value).dtype}, NumPy gives {wanted.dtype}"
        tolerance = 2e-4 if program.single else 1e-9
        assert_close(np.asarray(value), wanted, rtol=tolerance, atol=tolerance)
        if np.isfinite(wanted) and abs(wanted) < 1e6 and not program.single:
            result = compare_slopes(function, args, gradient)
    return result


def compare_slopes(function: Callable[..., Any], args: tuple[Any, ...], gradient: list[Any]) -> str:
    """The gradient in each argument along one direction against differences, where two steps of them agree."""
    rng = np.random.default_rng(5)
    kinks = 0
    for place, (name, got) in enumerate(zip(ARRAYS, gradient, strict=True)):
        direction = rng.normal(size=np.shape(args[place]))

        def along(t: float, place: int = place, direction: Any = direction) -> float:
            moved = args[place] + t * direction
            value = numpy_value(function, (*args[:place], moved if np.ndim(moved) else float(moved), *args[place + 1 :]))
            return float(value)

        fine, coarse = (float(oracle.differences(along, 0.0, step)) for step in STEPS)
        scale = max(1.0, abs(fine))
        slope = float(np.sum(np.asarray(got) * direction))
        if abs(fine - coarse) > 2e-7 * scale:
            kinks += 1
        else:
            assert abs(slope - fine) <= 2e-6 * scale, f"gradient in {name}: {slope} along a direction, differences give {fine}"
    return f"{len(gradient) - kinks} slopes"


def finish(program: Expression, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The captured function and the graph with its gradient after all passes."""
    try:
        captured = capture(function, copy.deepcopy(args), wrt=program.wrt, scalar=True)
        return captured, compile_function(captured, Options(wrt=program.wrt), until="dce").stage("passes")
    except AdcompileError as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def check_compiled(program: Expression, several: Sequence[dict[str, int]] = LENGTHS) -> None:
    """One compiled object at several lengths against NumPy and the interpreted graph, with arrays in other layouts."""
    function = program.function()
    compiled = compile_grad(function, wrt=program.wrt, cache=False)
    for number, lengths in enumerate(several):
        args = tuple(laid_out(a, number) for a in program.arguments(lengths))
        before = copy.deepcopy(args)
        wanted = numpy_value(function, args)
        if 0 in lengths.values() and "logsumexp" in program.source:
            continue  # of nothing: it depends on SciPy's version
        if wanted is None:
            try:
                compiled(*args)
            except (ValueError, IndexError):
                continue
            raise AssertionError(f"NumPy raises for {lengths}")
        with np.errstate(all="ignore"):
            value, gradient = compiled(*args)
        tolerance = 1e-3 if program.single else 1e-9
        assert_close(np.asarray(value, wanted.dtype), wanted, rtol=tolerance, atol=tolerance)
        for kept, now in zip(before, args, strict=True):
            np.testing.assert_array_equal(kept, now, "an argument was changed")
        captured, graph = finish(program, function, args)
        with np.errstate(all="ignore"):
            interpreted = interpret(graph, read_inputs(captured, bind(captured, copy.deepcopy(args), {})))
        for got, expected, argument in zip(gradient, interpreted[1:], args, strict=False):
            assert np.asarray(got).dtype == np.asarray(argument).dtype
            assert_close(np.asarray(got), np.asarray(expected), rtol=10 * tolerance, atol=10 * tolerance)


def laid_out(x: Any, number: int) -> Any:
    """The same array in Fortran order, with gaps, reversed in memory, or as it is."""
    if not isinstance(x, np.ndarray) or number % 4 == 0:
        return x
    if number % 4 == 1:
        return np.asfortranarray(x)
    if number % 4 == 2:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x[::-1].copy()[::-1]


# ------------------------------------------------------------------------------------------------------ by hand
def outcome(program: Expression) -> tuple[str, str]:
    """What a check ends in: a word that says how, and the details."""
    if all(numpy_value(program.function(), program.arguments(lengths)) is None for lengths in LENGTHS):
        return "invalid", ""
    try:
        return "ok", check(program)
    except Refused as error:
        return f"refused {general(str(error))}", str(error)
    except AssertionError as error:
        return "wrong " + str(error)[:12], str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}", f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


def main(first: int, last: int) -> int:
    """Check the expressions of many seeds and print those that fail."""
    counts: dict[str, int] = {}
    started, failed = time.perf_counter(), 0
    for seed in range(first, last):
        program = random_expression(seed)
        kind, detail = outcome(program)
        counts[kind] = counts.get(kind, 0) + 1
        if kind in ("ok", "invalid"):
            continue
        failed += 1
        if counts[kind] <= 2:
            print(f"--- seed {seed}, float32 {program.single}: {kind}\n{detail[:1500]}\n{program.source}", flush=True)
    print(f"{last - first} expressions in {time.perf_counter() - started:.0f} s")
    for word, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        print(f"{count:6} {word}")
    return int(failed > 0)


if __name__ == "__main__":
    os.environ["ADCOMPILE_VERIFY"] = "1"
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
