"""The object that `f.graph()` gives: a picture in a notebook, a text in a terminal, and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from html import escape
from pathlib import Path

from ..errors import UnsupportedOp
from .graph import Edge, Group, Model, Node
from .page import graph_page
from .picture import FILL, STROKE, Picture


class Graph:
    """The computation graph of a function. Shows itself in notebooks; `save` writes .svg, .dot, .mermaid or .html; as text it
    is one line a value."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def nodes(self) -> list[Node]:
        """The values."""
        return self.model.nodes

    @property
    def edges(self) -> list[Edge]:
        """From operands to results, with local derivatives."""
        return self.model.edges

    @cached_property
    def picture(self) -> Picture:
        """Everything in its place."""
        return Picture(self.model)

    # ------------------------------------------------------------------------------------------------ forms
    def svg(self) -> str:
        """A picture that needs no program to draw it."""
        return self.picture.svg()

    def html(self) -> str:
        """A page that needs nothing else: hover shows, click folds."""
        return graph_page(self.picture)

    def dot(self) -> str:
        """The language of Graphviz."""
        return "\n".join(dot_lines(self.model)) + "\n"

    def mermaid(self) -> str:
        """The language of Mermaid, which many Markdown viewers draw."""
        return "\n".join(mermaid_lines(self.model)) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write it in the form that the file's ending says; returns the path."""
        path = Path(path)
        forms: dict[str, Callable[[], str]] = {".svg": self.svg, ".html": self.html, ".dot": self.dot, ".gv": self.dot,
                                               ".mermaid": self.mermaid, ".mmd": self.mermaid, ".txt": self.__str__}
        if path.suffix not in forms:
            raise UnsupportedOp(f"a graph cannot be written as {path.suffix or 'a file without an ending'!r}",
                                do=f"Use one of {', '.join(forms)}.")
        path.write_text(forms[path.suffix](), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        height = min(max(self.picture.root.height + 90, 260), 720)
        style = f"width:100%;height:{height:.0f}px;border:1px solid #ccc"
        return f'<iframe srcdoc="{escape(self.html())}" style="{style}"></iframe>'

    def __str__(self) -> str:
        return "\n".join(text_lines(self.model))

    __repr__ = __str__


# ---------------------------------------------------------------------------------------------------- text
def text_lines(model: Model) -> Iterator[str]:
    """One line a value: what it is, its value and cotangent, and the local derivatives by operand."""
    into: dict[Node, list[Edge]] = {}
    for edge in model.edges:
        if edge.label:
            into.setdefault(edge.end, []).append(edge)
    shown = [n for n in model.nodes if n.name]
    labels = {n: "  " * depth(n.group) + n.label for n in shown}
    width = min(max((len(text) for text in labels.values()), default=0), 60)
    values = max((len(n.value) for n in shown), default=0)
    bars = max((len(n.cotangent) for n in shown), default=0)
    group: Group | None = None
    for node in shown:
        if node.group is not group and node.group is not None:
            yield from ("  " * (depth(g) - 1) + f"-- {g.title}" for g in entered(group, node.group))
        group = node.group
        parts = [f"{labels[node]:<{width}}", f"{node.kind:<9}"]
        if model.has_values:
            parts += [f"{node.value:<{values}}", f"{node.cotangent:<{bars}}"]
        parts.append(", ".join(f"d/d{e.start.name or e.start.text}: {e.label}" for e in into.get(node, [])))
        yield "  ".join(parts).rstrip()
    yield from model.notes


def depth(group: Group | None) -> int:
    """In how many groups something is."""
    return 0 if group is None else 1 + depth(group.parent)


def entered(before: Group | None, group: Group) -> list[Group]:
    """The groups that are entered on the way from one to another, outermost first."""
    around: set[Group] = set()
    while before is not None:
        around.add(before)
        before = before.parent
    found: list[Group] = []
    inner: Group | None = group
    while inner is not None and inner not in around:
        found.append(inner)
        inner = inner.parent
    return found[::-1]


# ---------------------------------------------------------------------------------------------------- dot and mermaid
def members(model: Model, group: Group | None) -> tuple[list[Node], list[Group]]:
    """What is directly in a group."""
    return [n for n in model.nodes if n.group is group], [g for g in model.groups if g.parent is group]


def quoted(text: str) -> str:
    """A string of dot."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def node_lines(node: Node) -> list[str]:
    """What stands in a node: its label; value and cotangent."""
    second = "  |  ".join(filter(None, [node.value if node.value != node.label else "", node.cotangent]))
    return [node.label, second] if second else [node.label]


def dot_lines(model: Model) -> Iterator[str]:
    """The graph for Graphviz."""
    yield f"digraph {quoted(model.name)} {{"
    yield '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=11]'
    yield '  edge [fontname="monospace", fontsize=10, fontcolor="#8a3a00"]'
    yield from dot_group(model, None, "  ")
    for edge in model.edges:
        style = f"label={quoted(edge.label)}" if edge.active else 'color="#b5b5b5"'
        yield f"  n{edge.start.key} -> n{edge.end.key} [{style}]"
    yield "}"


def dot_group(model: Model, group: Group | None, indent: str) -> Iterator[str]:
    """The nodes of a group, and the groups inside."""
    nodes, groups = members(model, group)
    for node in nodes:
        label = "\\n".join(quoted(line)[1:-1] for line in node_lines(node))
        thick = ", penwidth=2.5" if node.result else ""
        yield f'{indent}n{node.key} [label="{label}", fillcolor="{FILL[node.kind]}", color="{STROKE[node.kind]}"{thick}]'
    for inner in groups:
        yield f"{indent}subgraph cluster_{inner.key} {{"
        yield f"{indent}  label={quoted(inner.title)}"
        yield from dot_group(model, inner, indent + "  ")
        yield f"{indent}}}"


def mermaid_text(text: str) -> str:
    """A string of Mermaid: entities for what has a meaning there."""
    return re.sub(r'["#<>&`\[\]{}|]', lambda m: f"#{ord(m.group())};", text)


def mermaid_lines(model: Model) -> Iterator[str]:
    """The graph for Mermaid."""
    yield "flowchart TD"
    yield from mermaid_group(model, None, "  ")
    for edge in model.edges:
        label = f'|"{mermaid_text(edge.label)}"|' if edge.label else ""
        yield f"  n{edge.start.key} {'-->' if edge.active else '-.->'}{label} n{edge.end.key}"
    for kind, fill in FILL.items():
        yield f"  classDef {kind} fill:{fill},stroke:{STROKE[kind]},color:#1b1b1b"
        found = [f"n{n.key}" for n in model.nodes if n.kind == kind]
        if found:
            yield f"  class {','.join(found)} {kind}"


def mermaid_group(model: Model, group: Group | None, indent: str) -> Iterator[str]:
    """The nodes of a group, and the groups inside."""
    nodes, groups = members(model, group)
    for node in nodes:
        yield f'{indent}n{node.key}("{"<br>".join(map(mermaid_text, node_lines(node)))}")'
    for inner in groups:
        yield f'{indent}subgraph g{inner.key}["{mermaid_text(inner.title)}"]'
        yield from mermaid_group(model, inner, indent + "  ")
        yield f"{indent}end"
