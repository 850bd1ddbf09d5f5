"""Stages of a compiled function as text, and that text coloured for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from ..ir.core import Function
from ..ir.printer import text_of
from ..pipeline import Compiled
from .cost import cost_of, cost_texts
from .explain import explain
from .graph import model_of
from .paths import paths_of
from .shown import Graph
from .view import View

STAGES = {              # what a user asks for: the name under which the pipeline keeps it
    "source": "source",
    "ir": "passes",
    "loop": "loops",
    "capture": "capture",
    "autodiff": "autodiff",
}

VIEWS = ("graph", "paths", "cost", "explain", "latex")       # what else a user asks for, of a view

COLOURS = (             # of the text of both IRs, in this order
    (r"\b(?:f64|f32|c128|c64|i64|i32|bool)\b", "cyan"),
    (r"%\w+", "green"),
    (r"(?<= = )[a-z_0-9]+(?= [%\-\d{])", "bold"),
    (r"@\w+", "bold magenta"),
    (r"\b(?:func|return|size|guard|axis|kernel|buffer|for|while|if|else|not|in|raise|yield)\b", "magenta"),
    (r"(?:#|--) .*", "bright_black"),
)


def stage_text(compiled: Compiled, stage: str) -> str:
    """One stage, named as in `STAGES`, as text."""
    if stage == "autodiff" and not compiled.options.gradient:
        stage = "capture"
    value = compiled.stage(STAGES[stage])
    return text_of(value) if isinstance(value, Function) else str(value)


def view_text(view: View, name: str, specialisations: Sequence[Any] = ()) -> str:
    """One of `VIEWS` as text."""
    if name == "graph":
        return str(Graph(model_of(view, cost_texts(view))))
    if name == "paths":
        texts = [view.compiled.signature.inputs[k].text for k in view.wrt]
        return "\n".join(str(paths_of(view, text, 10)) for text in texts)
    if name == "cost":
        return str(cost_of(view))
    if name == "explain":
        return explain(view, specialisations)
    from .symbolic import formulas_of
    return formulas_of(view).latex()


def python(code: str) -> Text:
    """Python with colours."""
    text = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
    text.rstrip()
    return text


def coloured_ir(text: str) -> Text:
    """Graph IR or loop IR with colours."""
    result = Text(text)
    for pattern, style in COLOURS:
        result.highlight_regex(pattern, style)
    return result


def show(console: Console, text: str, stage: str) -> None:
    """Print a stage: in colours on a terminal, else the text itself, so that it can go to a file."""
    if not console.is_terminal:
        console.file.write(text.rstrip("\n") + "\n")
        return
    console.print(python(text) if stage == "source" else coloured_ir(text.rstrip("\n")), soft_wrap=True)
