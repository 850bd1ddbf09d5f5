"""The graph IR itself: sizes, text, verifier (one broken program per invariant), interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from conftest import assert_close, assert_same

from adcompile import ops
from adcompile.errors import GuardError, VerifyError
from adcompile.ir.builder import Builder
from adcompile.ir.core import ArrayConstant, Block, Function, Guard, Literal, Location, Operation, Size, Value, walk
from adcompile.ir.dims import Dim
from adcompile.ir.interpreter import check_guards, interpret
from adcompile.ir.parser import ParseError, parse
from adcompile.ir.printer import text_of
from adcompile.ir.types import DType, Type
from adcompile.ir.verifier import INVARIANTS, verify

N, M = Dim.symbol("X_0"), Dim.symbol("X_1")
F64, I64, BOOL = Type(DType.f64), Type(DType.i64), Type(DType.bool)
WHERE = Location("my model.py", 12, "<lambda>")


# ---------------------------------------------------------------------------------------------------- text
LOSS = """\
func @loss(%w: f64[X_1], %X: f64[X_0, X_1], %k: i64) {
  size X_0 = axis 0 of %X
  size X_1 = axis 1 of %X
  size k = value of %k
  guard X_0 >= 2*k                                                                        # model.py:3 in loss
  guard X_0*X_1 != k + 1
  %z: f64[X_0] = contract %X, %w {a_labels=(0, 1), b_labels=(1,), out_labels=(0,)}        # model.py:4 in loss
  %c: f32[3] = constant {value=array(f32, (3,), [1.5, -0.0, 3.0])}
  %h: f64[X_0 - 1] = slice %z {starts=[1], steps=(1,), dims=[X_0 - 1]}
  %n: i64 = size {dim=<(X_0)//(2)>}
  %s: f64, %t: f64 = for 0, %k, 0.0, inf do (%i: i64, %a: f64, %b: f64) {                 # model.py:6 in loss
    %p: bool = gt %a, %b
    %q: f64 = cond %p do () {
      yield %a
    } do () {
      %r: f64 = mul %a, -0.0
      yield %r
    }
    yield %q, nan
  }
  %u: f64 = while %s do (%v: f64) {
    %go: bool = lt %v, 10.0
    yield %go
  } do (%v_1: f64) {
    %v_2: f64 = add %v_1, 1.0
    yield %v_2
  }
  %d: f32[3] = mul %c, 0.1:f32
  %e: f32[3] = select True, %c, %d
  %m: i32[3] = cast %e {dtype=i32}
  return %u, 2.0, %m, %n
}
"""


def test_text_parses_and_prints() -> None:
    function = parse(LOSS)
    verify(function)
    assert text_of(function) == LOSS
    assert function.guards[0].location == Location("model.py", 3, "loss")
    assert [o.op for o in walk(function.body)][4:7] == ["for", "gt", "cond"]


def test_text_without_locations_is_the_computation_alone() -> None:
    bare = text_of(parse(LOSS), locations=False)
    assert "model.py" not in bare and text_of(parse(bare)) == bare


def test_large_and_special_constants_keep_their_bits() -> None:
    for array in (np.arange(40.0), np.array([np.nan, -np.inf, 0.1]), np.zeros((0, 3)), np.array([True, False]),
                  np.float32(0.1)[None]):
        value = ArrayConstant(DType(array.dtype.name), array.shape, array.tobytes())
        with Builder("f") as b:
            function = b.finish((ops.constant(value=value),))
        again = parse(text_of(function))
        assert again.body.operations[0].attributes["value"] == value
        assert_same(interpret(again, ())[0], array)


@pytest.mark.parametrize("number", [0.0, -0.0, 1e300, 5e-324, math.inf, -math.inf, 0.1])
@pytest.mark.parametrize("dtype", [DType.f64, DType.f32])
def test_literals_keep_their_bits(number: float, dtype: DType) -> None:
    function = Function("f", Block((), (), (Literal(number, dtype),)))
    (literal,) = parse(text_of(function)).results
    assert isinstance(literal, Literal) and literal.dtype is dtype and literal.same(number)


@pytest.mark.parametrize(("bad", "says"), [
    ("func loss() {", "first line"), ("func @f() {\n  return %x\n}", "%x is not defined"),
    ("func @f() {\n  return 1.0", "ends too early"), ("func @f(%x: f65) {\n  return %x\n}", "not a type"),
    ("func @f(%x: f64[a b]) {\n  return %x\n}", "not a size"),
    ("func @f() {\n  ???\n  return\n}", "not an operation"), ("func @f() {\n  return one\n}", "not a number"),
])
def test_bad_text_is_refused(bad: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        parse(bad)


def same_structure(a: Any, b: Any, names: dict[Value, Value]) -> bool:
    """Whether two functions, blocks, operations or values are the same but for identity."""
    if isinstance(a, Function):
        return (a.name, dict(a.sizes), a.guards) == (b.name, dict(b.sizes), b.guards) and same_structure(a.body, b.body, names)
    if isinstance(a, Block):
        parts = [(a.arguments, b.arguments), (a.operations, b.operations), (a.yields, b.yields)]
        return all(len(x) == len(y) and all(same_structure(p, q, names) for p, q in zip(x, y, strict=True)) for x, y in parts)
    if isinstance(a, Operation):
        parts = [(a.operands, b.operands), (a.regions, b.regions), (a.results, b.results)]
        return ((a.op, dict(a.attributes), a.location) == (b.op, dict(b.attributes), b.location)
                and all(len(x) == len(y) and all(same_structure(p, q, names) for p, q in zip(x, y, strict=True))
                        for x, y in parts))
    if isinstance(a, Value):
        return isinstance(b, Value) and (a.name, a.type) == (b.name, b.type) and names.setdefault(a, b) is b
    return repr(a) == repr(b)


def random_function(rng: np.random.Generator) -> Function:
    """Some operations on one array and some scalars, with loops and branches inside each other."""
    with Builder("random") as b:
        x = b.parameter("x", Type.of(DType.f64, Dim.symbol("x_0")))
        results = random_block(b, rng, [x], [Literal(1.5, DType.f64)], 3)
        return b.finish(tuple(results), {"x_0": Size(0, 0)})


def random_block(b: Builder, rng: np.random.Generator, arrays: list[Any], scalars: list[Any], depth: int) -> list[Any]:
    """Emit operations; return an array and a scalar."""
    arrays, scalars = list(arrays), list(scalars)

    def pick(values: list[Any]) -> Any:
        return values[rng.integers(len(values))]

    for _ in range(rng.integers(2, 6)):
        b.location = WHERE if rng.random() < 0.5 else None
        choice = rng.integers(8 if depth else 5)
        if choice == 0:
            arrays.append(b.emit(pick(["add", "mul", "maximum"]), (pick(arrays), pick(arrays)), name=pick(["z", "", "z_1"])))
        elif choice == 1:
            arrays.append(b.emit(pick(["sin", "tanh", "abs"]), (pick(arrays),)))
        elif choice == 2:
            scalars.append(ops.reduce_sum(pick(arrays), axes=(0,)))
        elif choice == 3:
            arrays.append(ops.broadcast(pick(scalars), dims=arrays[0].type.dims, axes=()))
        elif choice == 4:
            arrays.append(ops.select(ops.gt(pick(arrays), 0.5), pick(arrays), 0.25))
        elif choice == 5:
            array, scalar = pick(arrays), pick(scalars)
            with b.region() as out:
                b.parameter("i", I64)
                inside = [b.parameter("a", array.type), b.parameter("s", scalar.type)]
                out += random_block(b, rng, [*arrays, inside[0]], [*scalars, inside[1]], depth - 1)
            for found, values in zip(b.emit("for", (Literal(0, DType.i64), Literal(2, DType.i64), array, scalar),
                                            regions=tuple(out)),
                                     (arrays, scalars), strict=True):
                values.append(found)
        elif choice == 6:
            predicate = ops.lt(pick(scalars), b.emit("tanh", (pick(scalars),)))
            regions = []
            for _ in range(2):
                with b.region() as out:
                    out += random_block(b, rng, arrays, scalars, depth - 1)
                regions += out
            for found, values in zip(b.emit("cond", (predicate,), regions=tuple(regions)), (arrays, scalars), strict=True):
                values.append(found)
        else:
            scalars.append(counted(b, pick(scalars)))
    return [pick(arrays), pick(scalars)]


def counted(b: Builder, start: Any) -> Any:
    """A while loop that adds 1 up to a bound."""
    with b.region() as condition:
        v = b.parameter("v", F64)
        condition.append(ops.and_(ops.lt(v, 3.0), ops.gt(v, -3.0)))
    with b.region() as body:
        v = b.parameter("v", F64)
        body.append(v + 1.0)
    return b.emit("while", (start,), regions=(*condition, *body))[0]


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_round_trip(seed: int) -> None:
    function = random_function(np.random.default_rng(seed))
    verify(function)
    text = text_of(function)
    again = parse(text)
    verify(again)
    assert text_of(again) == text
    assert same_structure(function, again, {})
    x = np.linspace(-1.0, 1.0, 4)
    assert_same(interpret(again, (x,)), interpret(function, (x,)))


# ---------------------------------------------------------------------------------------------------- verifier
def small() -> Function:
    """A right program, to be broken."""
    with Builder("f") as b:
        b.location = Location(__file__, 1, "f")
        x, k = b.parameter("x", Type.of(DType.f64, N)), b.parameter("k", I64)
        y = b.emit("exp", (x,), name="y")
        z = b.emit("add", (y, x), name="z")
        s = ops.reduce_sum(z, axes=(0,))
        with b.region() as body:
            b.parameter("i", I64)
            t = b.parameter("t", F64)
            body.append(t * 2.0)
        (u,) = b.emit("for", (Literal(0, DType.i64), k, s), regions=tuple(body))
        return b.finish((u,), {"X_0": Size(0, 0), "k": Size(1, None)})


def with_operation(index: int, **changes: Any) -> Function:
    """The small program with one operation changed."""
    function = small()
    operations = list(function.body.operations)
    operations[index] = replace(operations[index], **changes)
    return with_operations(function, operations)


def with_operations(function: Function, operations: list[Operation]) -> Function:
    return replace(function, body=replace(function.body, operations=tuple(operations)))


def swapped() -> Function:
    function = small()
    first, second, *rest = function.body.operations
    return with_operations(function, [second, first, *rest])


def defined_twice() -> Function:
    function = small()
    return with_operations(function, [*function.body.operations, function.body.operations[0]])


def used_outside_its_region() -> Function:
    function = small()
    loop = function.body.operations[-1]
    return replace(function, body=replace(function.body, yields=(loop.regions[0].arguments[1],)))


def with_body(change: Callable[[Block], Block]) -> Function:
    loop = small().body.operations[-1]
    return with_operation(3, regions=(change(loop.regions[0]),))


BROKEN: list[tuple[str, Callable[[], Function], str]] = [
    ("single_definition", defined_twice, "%y is defined twice"),
    ("single_definition", lambda: with_operation(1, results=(Value("y", Type.of(DType.f64, N)),)), "two values are named %y"),
    ("dominance", swapped, "%y is used before it is defined"),
    ("dominance", used_outside_its_region, "%t_1 is used before"),
    ("types", lambda: with_operation(0, op="isnan"), "is declared, 'isnan' gives"),
    ("types", lambda: with_operation(0, operands=(Literal(1, DType.f64),)), "literal 1 is not of type f64"),
    ("types", lambda: with_operation(0, operands=(Literal(True, DType.bool),)), "applied to bool"),
    ("types", lambda: with_body(lambda b: replace(b, yields=(Literal(1, DType.i64),))), "what a for's body yields"),
    ("operands", lambda: with_operation(0, op="expo"), "no op is named 'expo'"),
    ("operands", lambda: with_operation(0, operands=()), "does not take these operands"),
    ("operands", lambda: with_operation(2, attributes=MappingProxyType({})), "does not take these operands"),
    ("operands", lambda: with_operation(2, attributes=MappingProxyType({"axes": [0]})), "Python object"),
    ("operands", lambda: with_operation(0, operands=(1.0,)), "neither a value nor a literal"),
    ("operands", lambda: with_body(lambda b: replace(b, yields=(1.0,))), "not a value or a literal"),  # type: ignore[arg-type]
    ("regions", lambda: with_operation(3, regions=()), "has 0 regions, not 1"),
    ("regions", lambda: with_operation(0, regions=(Block((), (), ()),)), "has 1 regions, not 0"),
    ("sizes", lambda: replace(small(), sizes={"k": Size(1, None)}), "has an unknown size"),
    ("sizes", lambda: replace(small(), sizes={"X_0": Size(0, 1)}), "axis 1 of %x"),
    ("sizes", lambda: replace(small(), sizes={"X_0": Size(5, 1)}), "parameter 5"),
    ("sizes", lambda: replace(small(), sizes={"X_0": Size(0, None)}), "is the value of %x"),
    ("sizes", lambda: replace(small(), guards=(Guard(M, "==", N),)), "the guard"),
    ("locations", lambda: with_operation(0, location="model.py:3"), "not a location"),
]


def test_the_small_program_is_right() -> None:
    verify(small())


def test_every_invariant_has_a_broken_program() -> None:
    assert {name for name, _, _ in BROKEN} == {i.__name__ for i in INVARIANTS}


@pytest.mark.parametrize(("invariant", "make", "says"), BROKEN, ids=[f"{n}-{s}" for n, _, s in BROKEN])
def test_broken_programs_are_caught(invariant: str, make: Callable[[], Function], says: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(make(), "fuse")
    message = str(caught.value)
    assert f"{invariant}: " in message and says in message
    assert "pass 'fuse' left invalid IR. This is a bug in adcompile" in message and "in @f" in message


def test_the_message_names_operation_and_line() -> None:
    with pytest.raises(VerifyError, match=r"in @f, operation 0:   %z: f64\[X_0\] = add %y, %x") as caught:
        verify(swapped(), "simplify")
    assert f"{__file__}:1" in str(caught.value)


# ---------------------------------------------------------------------------------------------------- interpreter
def test_loops_and_branches_run() -> None:
    function = parse(LOSS)
    w, X = np.array([1.0, 2.0]), np.arange(8.0).reshape(4, 2)
    u, two, m, n = interpret(function, (w, X, 2))
    assert math.isnan(u) or u >= 10.0 or u == 0.0
    assert (two, n) == (2.0, 2)
    assert_same(m, np.array([1, 0, 3], dtype=np.int32))


def test_for_counts_and_carries() -> None:
    with Builder("fibonacci") as b:
        k = b.parameter("k", I64)
        with b.region() as body:
            b.parameter("i", I64)
            p, q = b.parameter("p", F64), b.parameter("q", F64)
            body += [q, p + q]
        first, _ = b.emit("for", (Literal(0, DType.i64), k, Literal(0.0, DType.f64), Literal(1.0, DType.f64)),
                          regions=tuple(body))
        function = b.finish((first,), {"k": Size(0, None)})
    assert [interpret(function, (k,))[0] for k in (-3, 0, 1, 2, 10)] == [0.0, 0.0, 1.0, 1.0, 55.0]


def test_for_reads_its_index_and_outer_values() -> None:
    with Builder("f") as b:
        x = b.parameter("x", Type.of(DType.f64, N))
        with b.region() as body:
            i, s = b.parameter("i", I64), b.parameter("s", F64)
            body.append(s + ops.gather(x, i, axes=(0,)) * ops.cast(i, dtype=DType.f64))
        (total,) = b.emit("for", (Literal(1, DType.i64), ops.size(dim=N), Literal(0.0, DType.f64)), regions=tuple(body))
        function = b.finish((total,), {"X_0": Size(0, 0)})
    verify(function)
    x = np.array([3.0, 4.0, 5.0])
    assert_close(interpret(function, (x,)), (np.sum(x * np.arange(3)),))


def test_while_stops() -> None:
    with Builder("f") as b:
        x = b.parameter("x", F64)
        function = b.finish((counted(b, x),))
    assert [interpret(function, (x,))[0] for x in (-2.5, 2.0, 5.0)] == [3.5, 3.0, 5.0]


def test_cond_runs_one_branch() -> None:
    seen = []
    with Builder("f") as b:
        p = b.parameter("p", BOOL)
        regions = []
        for op in ("sin", "cos"):
            with b.region() as out:
                out.append(b.emit(op, (Literal(1.0, DType.f64),)))
            regions += out
        (y,) = b.emit("cond", (p,), regions=tuple(regions))
        function = b.finish((y,))
    for flag, wanted in ((True, np.sin(1.0)), (False, np.cos(1.0))):
        assert interpret(function, (flag,), lambda o, operands, results: seen.append(o.op))[0] == wanted
    assert seen == ["sin", "cond", "cos", "cond"]


def test_observers_see_operands_and_results() -> None:
    seen: list[tuple[str, Any, Any]] = []
    interpret(small(), (np.array([0.0]), 1), lambda o, operands, results: seen.append((o.op, operands, results)))
    assert [op for op, _, _ in seen] == ["exp", "add", "reduce_sum", "mul", "for"]
    assert_same(seen[1][1:], ((np.array([1.0]), np.array([0.0])), (np.array([1.0]),)))


def test_the_interpreter_checks_types() -> None:
    wrong = with_operation(2, results=(Value("s", Type(DType.f64, (N,))),))
    with pytest.raises(VerifyError, match=r"'reduce_sum' gave float64 of shape \(\), but %s is f64\[X_0\]"):
        interpret(wrong, (np.ones(3), 1))


@pytest.mark.parametrize(("args", "says"), [
    ((np.ones(3), np.ones((4, 2)), 1), r"'w' has shape \(3,\), not \(2,\)"),
    ((np.ones(2), np.ones(4), 1), "'X' has 1 axes"),
    ((np.ones(2), np.ones((4, 2)), 3), "X_0 >= 2"),
    ((np.ones(2), np.ones((4, 2)), 0.5), "'k' is of type float64"),
    ((np.ones(3), np.ones((1, 3)), 0), None),
    ((np.ones(0), np.ones((4, 0)), -1), "X_0\\*X_1 != k"),
])
def test_guards(args: tuple[Any, ...], says: str | None) -> None:
    function = parse(LOSS)
    if says is None:
        assert check_guards(function, args) == {"X_0": 1, "X_1": 3, "k": 0}
        return
    with pytest.raises(GuardError, match=says):
        interpret(function, args)


def test_ops_outside_a_builder_are_refused() -> None:
    with pytest.raises(VerifyError, match="outside any builder"):
        ops.exp(Value("x", F64))


def test_rows_by_name() -> None:
    assert ops.not_.name == "not" and ops.abs_.name == "abs"
    with pytest.raises(AttributeError):
        ops.no_such_op  # noqa: B018
