"""What the documents show is what happens: README and ARCHITECTURE run, and print what stands below each example."""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adcompile

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n```text\n(?P<printed>.*?)```", re.DOTALL)


def run(path: Path, folder: Path) -> str:
    """The document with what its examples print now. They run in order, in one namespace, each from a file of its own."""
    namespace: dict[str, Any] = {"__name__": "example"}
    numbers = itertools.count(1)

    def replaced(match: re.Match[str]) -> str:
        file = folder / f"example_{next(numbers)}.py"
        file.write_text(match["code"], encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match["code"], str(file), "exec"), namespace)
        return f"```python\n{match['code']}```\n```text\n{printed.getvalue().replace(f'{folder}{os.sep}', '').rstrip()}\n```"

    return EXAMPLE.sub(replaced, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["README.md", "adcompile/ARCHITECTURE.md"])
def test_examples_print_what_the_document_says(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    assert text.count("```python\n") == len(EXAMPLE.findall(text)) > 0, "an example without what it prints"
    now = run(path, tmp_path)
    if request.config.getoption("--update-golden"):
        path.write_text(now, encoding="utf-8")
    assert without_last_digits(now) == without_last_digits(path.read_text(encoding="utf-8"))


def without_last_digits(text: str) -> str:
    """Numbers to 12 digits: sums may be taken in another order on another processor."""
    return re.sub(r"\d+\.\d{12,}", lambda m: f"{float(m.group()):.12g}", text)


def commands() -> list[str]:
    """The shell commands of the README that install."""
    return [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("python3 -m venv")]


def test_two_command_lines_and_ci_runs_the_second() -> None:
    demo, tests = commands()
    assert demo.endswith(".venv/bin/pip install . && .venv/bin/python -m adcompile demo")
    assert tests in [line.strip() for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()]


def test_the_first_screen_is_an_example_and_both_commands() -> None:
    screen = README.read_text(encoding="utf-8").splitlines()[:40]
    assert "```python" in screen[:8]
    assert all(command in screen for command in commands())


def test_links_lead_somewhere() -> None:
    for path in (README, ROOT / "adcompile" / "ARCHITECTURE.md", ROOT / ".github" / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert link.startswith("http") or (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.parametrize("name", adcompile.__all__)
def test_examples_in_docstrings(name: str) -> None:
    found = doctest.DocTestFinder(recurse=False).find(getattr(adcompile, name), name, globs={**vars(adcompile), "np": np})
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for example in found:
        runner.run(example, out=report.append)
    assert not report, "".join(report)
