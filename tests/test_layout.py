"""The shape of the repository: who imports whom, what lies where, what is named where. ARCHITECTURE.md says why."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import adcompile
from adcompile.ir.op import TABLE

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "adcompile"
FILES = sorted(PACKAGE.rglob("*.py"))

# Each part of the package, with the other parts that it may import.
BASE = {"errors", "ir", "ops"}
STAGES = {"capture", "differentiate", "optimize", "schedule", "emit", "runtime"}
LAYERS: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "ir": {"errors"},
    "ops": {"errors", "ir"},
    "library": BASE,
    "capture": BASE | {"library"},
    **dict.fromkeys(STAGES - {"capture"}, BASE),
    "pipeline": BASE | STAGES,
    "inspect": BASE | {"differentiate", "optimize", "pipeline"},
    "api": BASE | STAGES | {"inspect", "pipeline"},
    "check": BASE | STAGES | {"api"},
    "doctor": {"api", "runtime"},
    "examples": {"api", "check", "inspect"},
    "cli": {"api", "doctor", "errors", "examples", "inspect", "pipeline", "runtime"},
    "__main__": {"cli"},
    "__init__": {"api", "capture", "check", "errors"},
}
TOP = {"LICENSE", "README.md", "adcompile", "bench", "pyproject.toml", "tests"}


def part_of(path: Path) -> str:
    """The folder or module of the package that a file belongs to."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and part of the package of every import in a file, wherever it stands."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[:len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for parts in names:
            if parts[0] == "adcompile":
                is_part = len(parts) > 1 and parts[1] in LAYERS
                yield node.lineno, parts[1] if is_part else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    part = part_of(path)
    assert part in LAYERS, f"{part} has no place in the layers"
    allowed = LAYERS[part] | {part, "version"}
    wrong = [f"{path.relative_to(ROOT)}:{line}: {part} must not import {other}"
             for line, other in imports(path) if other not in allowed]
    assert not wrong, "\n".join(wrong)


def test_the_check_of_imports_notices() -> None:
    """The parser of imports finds each form of import."""
    found = {other for path in FILES if part_of(path) == "pipeline" for _, other in imports(path)}
    assert found >= STAGES - {"capture"}
    assert "api" in {other for _, other in imports(PACKAGE / "check.py")}
    assert len(FILES) > 60


def test_top_level_entries() -> None:
    ignored = [line.strip("/*") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and p.name not in ignored}
    assert {name for name in found if not name.endswith(".egg-info")} == TOP


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """The calls of plain names in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node


def test_every_op_is_written_once_and_in_ops() -> None:
    """One fact, one place: rows are made by the constructors in ops/, each name once."""
    constructors = {"register", "elementwise", "nondifferentiable", "linear", "rule", "Op"}
    rows: list[str] = []
    for path in FILES:
        for name, call in calls(path):
            first = call.args[0] if call.args else None
            if part_of(path) != "ops":
                assert name not in ("Op", "register"), f"{path.relative_to(ROOT)}:{call.lineno} makes a row of the table"
            elif name in constructors and isinstance(first, ast.Constant):
                rows.append(str(first.value))
    twice = [name for name, count in Counter(rows).items() if count > 1]
    assert not twice
    assert rows
    assert set(rows) <= set(TABLE)
    assert all(name == row.name for name, row in TABLE.items())


def test_import_is_light() -> None:
    """SymPy, the terminal and the examples are loaded by what needs them."""
    code = "import sys, adcompile; print(*{name.split('.')[0] for name in sys.modules}, 'adcompile.examples' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert not loaded & {"sympy", "rich", "pytest", "matplotlib", "True"}


@pytest.mark.parametrize("name", adcompile.__all__)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(adcompile, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    documents = [(ROOT / "README.md"), PACKAGE / "ARCHITECTURE.md"]
    assert any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) for path in documents), f"{name} is in no document"


def test_public_methods_are_documented() -> None:
    for kind in (adcompile.CompiledGrad, adcompile.CompiledValue):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_"):
                assert isinstance(member, (bool, int)) or inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_say_what_they_are_for(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} has no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            assert ast.get_docstring(node), f"{path.relative_to(ROOT)}:{node.lineno}: class {node.name} has no docstring"


def test_nothing_is_left_to_do() -> None:
    words = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplementedError\\(\\)")))
    for path in [*FILES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not words.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_architecture_names_every_folder() -> None:
    text = (PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for part in LAYERS:
        if not part.startswith("__"):
            assert re.search(rf"\b{part}\b", text), f"{part} is not in the map"
    for mentioned in re.findall(r"`((?:\w+/)*\w+\.(?:py|md))`", text):
        places = (PACKAGE / mentioned, ROOT / mentioned, ROOT / "tests" / mentioned)
        assert any(place.exists() for place in places), f"{mentioned} is mentioned and does not exist"
