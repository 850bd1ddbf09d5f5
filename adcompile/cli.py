"""The command line: `python -m adcompile` or `adcompile`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from .api import BoundMethod, CompiledFunction, compile_grad
from .errors import AdcompileError
from .inspect.report import report_page
from .inspect.text import STAGES, VIEWS, show, stage_text, view_text
from .inspect.view import View
from .runtime import cache
from .version import __version__

WIDTH = 100                                  # of what does not go to a terminal


class UserError(Exception):
    """Something the user can put right: printed alone, without a traceback."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a check failed, 2 the request was wrong."""
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        return status
    except (UserError, AdcompileError) as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/] {escape(str(error))}", highlight=False)
        return 2
    except BrokenPipeError:                  # `... | head`
        sys.stderr.close()
        return 0


def parser() -> argparse.ArgumentParser:
    """The commands."""
    top = argparse.ArgumentParser(prog="adcompile", description="Fused value-and-gradient kernels for ordinary NumPy functions.")
    top.add_argument("--version", action="version", version=f"adcompile {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    demo = commands.add_parser("demo", help="run an installed example on real data")
    demo.add_argument("name", nargs="?", default="logistic_regression", metavar="NAME", help="default: logistic_regression")
    demo.set_defaults(run=run_demo)

    shown = commands.add_parser("show", help="print a stage of a function: generated source, IR, graph, paths, cost, ...")
    shown.add_argument("--stage", choices=[*STAGES, *VIEWS], default="source", help="default: source")
    shown.set_defaults(run=run_show)

    reported = commands.add_parser("report", help="write everything about a function into one HTML page")
    reported.add_argument("-o", "--output", metavar="FILE.html", default="report.html", help="default: report.html")
    reported.set_defaults(run=run_report)

    for command in (shown, reported):
        command.add_argument("target", metavar="FILE.py:FUNC", help="a compiled object or a plain function in a file")
        command.add_argument("--args", metavar="EXPR", help='example arguments, evaluated in the file: --args "np.ones(3), X, y"')
        command.add_argument("--wrt", metavar="NAMES", help="for a plain function: arguments to differentiate, comma-separated")

    cached = commands.add_parser("cache", help="the machine code kept on disk")
    cached.add_argument("action", choices=["info", "clear"])
    cached.set_defaults(run=run_cache)

    doctor = commands.add_parser("doctor", help="check this machine: numba, CPU features, threads, cache, a tiny compile")
    doctor.set_defaults(run=run_doctor)
    return top


def console() -> Console:
    """The terminal, or something as wide as one."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)


# ---------------------------------------------------------------------------------------------------- commands
def run_demo(parsed: argparse.Namespace) -> int:
    """Run an example."""
    from .examples.demos import DEMOS
    if parsed.name not in DEMOS:
        raise UserError(f"there is no demo {parsed.name!r}; there are: {', '.join(DEMOS)}")
    DEMOS[parsed.name](console())
    return 0


def run_show(parsed: argparse.Namespace) -> int:
    """Print a stage of a function."""
    target = target_of(parsed)
    view = target.view(parsed.args)
    if parsed.stage in STAGES:
        text = stage_text(view.compiled, parsed.stage)
    else:
        text = view_text(view, parsed.stage, target.compiled.specialisations)
    show(console(), text, parsed.stage)
    return 0


def run_report(parsed: argparse.Namespace) -> int:
    """Write a page about a function."""
    target = target_of(parsed)
    page = report_page(target.view(parsed.args), target.compiled.specialisations)
    Path(parsed.output).write_text(page, encoding="utf-8")
    print(parsed.output)
    return 0


def target_of(parsed: argparse.Namespace) -> Target:
    """The function that a command is about."""
    file, _, name = parsed.target.rpartition(":")
    if not file or not name:
        raise UserError(f"{parsed.target!r} does not name a function in a file; write FILE.py:FUNC")
    module = load(Path(file))
    return Target(find(module, name, file), module, parsed.target, parsed.wrt)


def run_cache(parsed: argparse.Namespace) -> int:
    """Say what is in the cache, or empty it."""
    print(cache.info() if parsed.action == "info" else f"{cache.base_folder() / 'kernels'}: {cache.clear()} kernels removed")
    return 0


def run_doctor(parsed: argparse.Namespace) -> int:
    """Check this machine."""
    from .doctor import examine
    return examine(console())


# ---------------------------------------------------------------------------------------------------- functions in files
def load(path: Path) -> ModuleType:
    """Run a file as a module. What it prints goes to stderr, so that stdout holds the stage alone."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    name = path.stem if path.stem not in sys.modules else f"shown_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module               # dataclasses and pickle look for it there
    sys.path.insert(0, str(path.resolve().parent))
    with contextlib.redirect_stdout(sys.stderr), blaming(path, str(path)):
        spec.loader.exec_module(module)
    return module


def find(module: ModuleType, name: str, file: str) -> Any:
    """The object of a dotted name."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            there = sorted(k for k, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__)
            raise UserError(f"{file} has no {name}; it defines {', '.join(there) or 'no functions'}")
        found = getattr(found, part)
    return found


@contextlib.contextmanager
def blaming(path: Path, what: str) -> Iterator[None]:
    """Turn what the user's file raises into a message with its line; an error of ours keeps its traceback."""
    try:
        yield
    except AdcompileError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            raise UserError(f"{error.filename}:{error.lineno}: {error.msg}") from None
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
        if not lines:
            raise
        raise UserError(f"{what} raised {type(error).__name__}: {error}\n  at {path}:{lines[-1]}") from None


class Target:
    """A function in a file, and how to compile it as far as its source."""

    def __init__(self, found: Any, module: ModuleType, text: str, wrt: str | None) -> None:
        self.module, self.text = module, text
        self.file = Path(str(module.__file__))
        self.before: tuple[Any, ...] = ()
        if isinstance(found, BoundMethod):
            self.before, found = (found.instance,), found.compiled
        if isinstance(found, CompiledFunction):
            if wrt is not None:
                raise UserError(f"{text} is compiled already, with wrt={found.options.wrt!r}; --wrt is for plain functions")
            self.compiled = found
        elif callable(found) and not isinstance(found, type):
            names = None if wrt is None else tuple(wrt.replace(" ", "").split(","))
            self.compiled = compile_grad(found, wrt=0 if names is None else names[0] if len(names) == 1 else names)
        else:
            raise UserError(f"{text} is a {type(found).__name__}, not a function")

    def view(self, args: str | None) -> View:
        """All stages, of the last call if there was one and no example arguments are given."""
        compiled = self.compiled
        if args is None and (compiled.specialisations or compiled.sympy_args is not None):
            return compiled.view((), {})
        positional, keywords = self.example(args)
        with blaming(self.file, self.text):
            return compiled.view(positional, keywords)

    def example(self, args: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Example arguments, which say the types."""
        signature = f"{self.compiled.dispatch.name}({', '.join(self.compiled.dispatch.signature.parameters)})"
        positional, keywords = evaluate(args or "", self.module)
        positional = self.before + positional
        try:
            self.compiled.dispatch.bind(positional, keywords)
        except TypeError as error:
            if args is None:
                raise UserError(f"the types of the arguments of {signature} are not known: {self.file.name} does not call it\n"
                                f'  Give example arguments, evaluated in the file: --args "..."') from None
            raise UserError(f"--args does not fit: {error}") from None
        return positional, keywords


def evaluate(args: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they would stand in a call, with the names of a module (and np)."""
    def collect(*positional: Any, **keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return positional, keywords

    try:
        result: tuple[tuple[Any, ...], dict[str, Any]]
        result = eval(f"__collect__({args})", {"np": np, **vars(module), "__collect__": collect})
        return result
    except Exception as error:
        raise UserError(f"--args {args!r}: {type(error).__name__}: {error}") from None
