"""The computation graph as users see it: what is in it, that its numbers are right, and that pictures are legible."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gmm
import numpy as np
import pytest
from conftest import assert_close
from corpus import CORPUS

import adcompile as ad
from adcompile import compile_grad, compile_value
from adcompile.errors import CaptureError, UnsupportedOp
from adcompile.inspect import tape
from adcompile.inspect.graph import CONSTANT, INACTIVE, LEAF, OPERATION, Edge, Node
from adcompile.inspect.layout import Container, every
from adcompile.inspect.picture import Picture
from adcompile.inspect.shown import Graph
from adcompile.inspect.view import View
from adcompile.ir.interpreter import interpret

pytestmark = pytest.mark.plain


def product_and_sum(a, b):
    f1 = 2 * a
    f2 = a * b
    z = f1 + f2
    return z


def echo(decay, signal):
    level, heard = 0.0, np.zeros(signal.shape[0])
    for i in range(signal.shape[0]):
        if signal[i] > level:       # noqa: SIM108
            level = signal[i]
        else:
            level = decay * level
        heard[i] = level
    return np.sum(heard**2)


def halved(x):
    steps = 0.0
    while x > 1.0:
        x = x / 2
        steps = steps + x
    return steps


def square(x):
    y = x * x
    return y


def twice_squared(x, k):
    a = square(x)
    b = square(a)
    return np.sum(np.sin(a) + b * k)


SIGNAL = np.array([4.0, 1.0, 0.0, 3.0, 0.0])


def node(graph: Graph, name: str) -> Node:
    (found,) = (n for n in graph.nodes if n.name == name)
    return found


def edge(graph: Graph, start: str, end: str) -> Edge:
    (found,) = (e for e in graph.edges if e.start.name == start and e.end.name == end)
    return found


# ---------------------------------------------------------------------------------------------------- what is in it
def test_the_example() -> None:
    """a = 3, b = 4: the picture of a product and a sum."""
    graph = compile_grad(product_and_sum, wrt=("a", "b")).graph(3.0, 4.0)
    seen = {n.name or n.text: (n.kind, n.value, n.cotangent) for n in graph.nodes}
    assert seen == {"a": (LEAF, "3", "6"), "b": (LEAF, "4", "3"), "2": (CONSTANT, "2", ""), "f1": (OPERATION, "6", "1"),
                    "f2": (OPERATION, "12", "1"), "z": (OPERATION, "18", "1")}
    labels = {(e.start.name or e.start.text, e.end.name): e.label for e in graph.edges}
    assert labels == {("2", "f1"): "", ("a", "f1"): "2", ("a", "f2"): "b = 4", ("b", "f2"): "a = 3", ("f1", "z"): "1",
                      ("f2", "z"): "1"}
    assert [n.name for n in graph.nodes if n.result] == ["z"]


def test_forms(golden: Callable[[str, str], None]) -> None:
    graph = compile_grad(product_and_sum, wrt=("a", "b")).graph(3.0, 4.0)
    golden("graph/example.txt", str(graph))
    golden("graph/example.dot", graph.dot())
    golden("graph/example.mermaid", graph.mermaid())
    golden("graph/example.svg", graph.svg())


def test_without_arguments() -> None:
    f = compile_grad(product_and_sum)
    with pytest.raises(CaptureError, match="has not been called yet"):
        f.graph()
    f(3.0, 4.0)
    graph = f.graph()
    assert edge(graph, "a", "f2").label == "b"
    assert node(graph, "b").kind == CONSTANT
    assert not node(graph, "z").value


def test_what_takes_no_gradient_is_grey() -> None:
    def f(x, y, unused):
        held = ad.stop_gradient(np.exp(x))
        return x * held + np.floor(y)

    graph = compile_grad(f).graph(1.5, 2.5, 1.0)
    assert node(graph, "held").kind == INACTIVE
    assert not any(e.active for e in graph.edges if e.end is node(graph, "held"))
    assert node(graph, "y").kind == CONSTANT
    assert graph.model.notes == ["unused: it does not reach the result."]


def test_sizes_and_integers_count_as_used() -> None:
    def f(x, like, k):
        return np.sum(x) / like.shape[0] + np.sum(np.arange(k) * x[0])

    graph = compile_grad(f).graph(np.ones(3), np.ones(4), 2)
    assert graph.model.notes == ["like: only its size is used."]


def test_loop() -> None:
    graph = compile_grad(echo, wrt=(0, 1)).graph(0.5, SIGNAL)
    titles = [(g.kind, g.title) for g in graph.model.groups]
    assert titles[:2] == [("loop", "for i in range(signal.shape[0]):"), ("branch", "if signal[i] > level:")]
    decayed = node(graph, "level_4")
    assert decayed.group is not None and decayed.group.title == "else"
    assert (decayed.value, decayed.cotangent) == ("1.5", "3")                 # of the last turn
    assert node(graph, "level_2").turns == ("4", "2", "1", "3", "1.5")
    assert edge(graph, "decay", "level_4").label == "level_1 = 3"
    assert node(graph, "decay").cotangent == "33"


def test_while() -> None:
    graph = compile_grad(halved).graph(10.0)
    assert node(graph, "x").cotangent == "0.9375"
    assert any(g.kind == "loop" for g in graph.model.groups)


def test_called_functions_and_lines_are_groups() -> None:
    graph = compile_grad(twice_squared).graph(np.ones(3), 2.0)
    calls = [g.title.split(",")[0] for g in graph.model.groups if g.kind == "call"]
    lines = [g.title for g in graph.model.groups if g.kind == "line"]
    assert calls == ["square()", "square()"]
    assert lines == ["return np.sum(np.sin(a) + b * k)"]


def test_the_users_names_for_captured_values() -> None:
    scale = np.array([1.0, 2.0])
    graph = compile_grad(lambda x: np.sum(scale * x)).graph(np.ones(2))
    assert node(graph, "scale").kind == CONSTANT


def test_value_alone() -> None:
    graph = compile_value(lambda x: (np.exp(x), x + 1.0)).graph(2.0)
    assert [n.kind for n in graph.nodes if n.result] == [OPERATION, OPERATION]
    assert not any(n.cotangent for n in graph.nodes)


def test_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    u, v = sympy.symbols("u v")
    f = compile_grad(sympy.sin(u) * v, wrt=[u], args=[u, v])
    assert node(f.graph(0.0, 3.0), "u").cotangent == "3"
    assert {n.name for n in f.graph().nodes} >= {"u", "v"}


def test_known_arrays_and_odd_names() -> None:
    table = np.arange(5)

    def f(p, x):
        return np.sum(p["a b"] * x[table[:2]] * np.array([1.0, 2.0]))

    graph = compile_grad(f).graph({"a b": 2.0}, np.ones(6))
    assert node(graph, "p['a b']").cotangent == "3"
    assert graph.svg() and graph.html() and graph.dot()


def test_long_runs_are_shown_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "MOST_ENTRIES", 10)
    graph = compile_grad(echo).graph(0.5, SIGNAL)
    assert "Shown without values" in graph.model.notes[0]
    assert not any(n.value for n in graph.nodes if n.name)


# ---------------------------------------------------------------------------------------------------- its numbers
def view_of(f: Any, *args: Any) -> View:
    return f.view(args, {})


@pytest.mark.parametrize("name", list(CORPUS)[::3])
def test_cotangents_on_the_tape_are_the_gradient(name: str) -> None:
    program = CORPUS[name]
    view = view_of(compile_grad(program.function, wrt=program.wrt), *program.sample())
    assert view.values is not None
    run = tape.Tape(view.function, view.values, view.wrt)
    wanted = interpret(view.compiled.stage("autodiff"), view.values)[-len(view.wrt):]
    for k, gradient in zip(view.wrt, wanted):
        got = run.inputs[k].cotangent
        narrow = np.asarray(gradient).dtype == np.float32
        tolerance = (1e-4, 1e-5) if narrow else (1e-9, 1e-11)
        assert_close(np.zeros_like(gradient) if got is None else got, gradient, *tolerance)


@pytest.mark.parametrize(("function", "args"), [(echo, (0.5, SIGNAL)), (halved, (37.0,))])
def test_cotangents_through_control_flow(function: Any, args: tuple[Any, ...]) -> None:
    wrt = tuple(range(len(args)))
    view = view_of(compile_grad(function, wrt=wrt), *args)
    assert view.values is not None
    run = tape.Tape(view.function, view.values, wrt)
    wanted = interpret(view.compiled.stage("autodiff"), view.values)[-len(wrt):]
    assert_close([run.inputs[k].cotangent for k in wrt], list(wanted))


# ---------------------------------------------------------------------------------------------------- pictures
def rectangles(picture: Picture, box: Container, left: float = 0.0, top: float = 0.0) -> list[tuple[float, float, float, float]]:
    """Where the nodes and labels are."""
    found = []
    for item in every(box):
        x, y = left + item.x - item.width / 2, top + item.y - item.height / 2
        if item.inside is not None and not item.inside.folded:
            found += rectangles(picture, item.inside, x, y)
        elif item.height and item.width > 3.0:
            found.append((x, y, x + item.width, y + item.height))
    return found


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] - 0.1 and b[0] < a[2] - 0.1 and a[1] < b[3] - 0.1 and b[1] < a[3] - 0.1


EXAMPLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "example": (product_and_sum, (3.0, 4.0)), "loop": (echo, (0.5, SIGNAL)), "calls": (twice_squared, (np.ones(3), 2.0)),
    "mixture": (gmm.gmm_einsum, tuple(gmm.read("test"))), "components": (gmm.gmm_components, tuple(gmm.read("test")))}


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_overlaps(name: str, folded: bool) -> None:
    function, args = EXAMPLES[name]
    model = compile_grad(function).graph(*args).model
    for group in model.groups:
        group.folded = folded
    picture = Picture(model)
    places = rectangles(picture, picture.root)
    assert places
    assert not [pair for pair in itertools.combinations(places, 2) if overlap(*pair)]
    assert all(0 <= x0 < x1 <= picture.root.width and 0 <= y0 < y1 <= picture.root.height for x0, y0, x1, y1 in places)


@pytest.mark.parametrize("name", EXAMPLES)
def test_svg_and_page(name: str) -> None:
    function, args = EXAMPLES[name]
    graph = compile_grad(function).graph(*args)
    picture = ElementTree.fromstring(graph.svg())
    texts = " ".join(picture.itertext())
    page = graph.html()
    data = json.loads(re.search(r'getElementById\("graph"\), (\{.*\})\);</script>', page)[1])       # type: ignore[index]
    assert len(data["nodes"]) == len(graph.nodes)
    assert all(f'id="n{n["key"]}"' in page for n in data["nodes"])
    assert all(f'id="w{w["id"]}"' in page for box in data["boxes"] for w in box["wires"])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)          # it needs nothing else
    assert f"computation graph of {graph.model.name}" in texts


def test_large_graphs_start_folded() -> None:
    function, args = EXAMPLES["mixture"]
    graph = compile_grad(function).graph(*args)
    assert all(g.folded for g in graph.model.groups)
    shown = len(rectangles(graph.picture, graph.picture.root))
    assert shown < 30 < len(graph.nodes)


def test_a_thousand_operations_are_placed_at_once() -> None:
    def chain(x):
        for k in range(60):
            x = np.sin(x) * 1.5 + np.cos(x * k)
        return x

    graph = compile_grad(chain).graph(0.3)
    assert len(graph.svg()) > 1000


# ---------------------------------------------------------------------------------------------------- files and notebooks
@pytest.mark.parametrize(("name", "start"), [
    ("g.svg", "<svg"), ("g.html", "<!DOCTYPE html>"), ("g.dot", "digraph"), ("g.gv", "digraph"), ("g.mermaid", "flowchart"),
    ("g.mmd", "flowchart"), ("g.txt", "a ")])
def test_save(name: str, start: str, tmp_path: Path) -> None:
    graph = compile_grad(product_and_sum).graph(3.0, 4.0)
    assert graph.save(tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_save_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=r"cannot be written as '.png'"):
        compile_grad(product_and_sum).graph(3.0, 4.0).save(tmp_path / "g.png")


def test_notebook() -> None:
    graph = compile_grad(product_and_sum).graph(3.0, 4.0)
    assert graph._repr_svg_().startswith("<svg")
    assert graph._repr_html_().startswith("<iframe srcdoc=")


def test_special_characters() -> None:
    def f(x):
        return x["<b>"] * 2.0 if x["<b>"] < 3 else x["<b>"]

    graph = compile_grad(f).graph({"<b>": 1.0})
    ElementTree.fromstring(graph.svg())
    assert "<b>" not in graph.mermaid()


def test_methods() -> None:
    class Model:
        scale = 2.0

        @compile_grad(wrt="x")
        def loss(self, x):
            return self.scale * x**2

    assert node(Model().loss.graph(3.0), "x").cotangent == "12"
