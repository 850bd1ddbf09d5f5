"""Everything about a function on one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from ..errors import AdcompileError
from ..ir.printer import text_of
from .cost import cost_of, cost_texts
from .explain import explain
from .graph import model_of
from .page import graph_part, graph_style
from .paths import paths_of
from .picture import Picture
from .view import View

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1240px; padding: 0 20px 60px; color: #1b1b1b; }
pre { font: 12.5px/1.45 "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #f6f6f6; padding: 10px 14px; overflow: auto; }
nav a { margin-right: 14px; }
summary { cursor: pointer; font-weight: bold; }
.frame { height: 640px; border: 1px solid #ccc; }
.formula { overflow: auto; padding: 6px 0; font-size: 17px; }
.refused { color: #7a3d00; }
""".strip()


def report_page(view: View, specialisations: Sequence[Any] = ()) -> str:
    """The page."""
    sections: list[tuple[str, Callable[[], str]]] = [
        ("Graph", lambda: f'<div class="frame">{graph_part(Picture(model_of(view, cost_texts(view))), "graph")}</div>'),
        ("Formula", lambda: formula(view)),
        ("Paths", lambda: pre("\n\n".join(str(paths_of(view, view.compiled.signature.inputs[k].text, 10)) for k in view.wrt))),
        ("Explanation", lambda: pre(explain(view, specialisations))),
        ("Cost", lambda: pre(str(cost_of(view)))),
        ("Source", lambda: pre(view.compiled.stage("source"))),
        ("Stages", lambda: stages(view)),
    ]
    name = escape(view.name)
    links = "".join(f'<a href="#{title.lower()}-section">{title}</a>' for title, _ in sections)
    body = "\n".join(f'<section id="{title.lower()}-section"><h2>{title}</h2>\n{attempted(make)}</section>'
                     for title, make in sections)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: report</title>{graph_style()}'
            f"<style>{STYLE}</style></head>\n<body><h1>{name}{escape(str(view.compiled.signature.python))}</h1>\n"
            f"<nav>{links}</nav>\n{body}\n</body></html>\n")


def attempted(make: Callable[[], str]) -> str:
    """A section, or why there is none: a function with a loop has no formula, one without a number as its result no paths."""
    try:
        return make()
    except AdcompileError as error:
        return f'<p class="refused">{escape(error.what)}</p>'


def pre(text: str) -> str:
    """Text as it is."""
    return f"<pre>{escape(text)}</pre>"


def formula(view: View) -> str:
    """The formulas as MathML, which browsers draw themselves."""
    from sympy import Eq, Symbol
    from sympy.printing.mathml import mathml

    from .symbolic import formulas_of
    found = formulas_of(view)
    gradients = [(Symbol(f"∂{found.name} / ∂{found.left[k]}"), e) for k, e in found.gradient.items()]
    pairs = [(Symbol(found.name), found.value), *gradients, *found.where]
    drawn = [mathml(Eq(left, right, evaluate=False), printer="presentation") for left, right in pairs]
    rows = "".join(f'<div class="formula"><math display="block">{each}</math></div>' for each in drawn)
    return rows + f"<details><summary>LaTeX</summary>{pre(found.latex())}</details>"


def stages(view: View) -> str:
    """The IR between the stages."""
    graphs = [(name, text_of(graph)) for name, graph in view.compiled.graphs.items()]
    parts = [*graphs, ("loops", str(view.compiled.stage("loops")))]
    return "".join(f"<details><summary>{name}</summary>{pre(text)}</details>" for name, text in parts)
