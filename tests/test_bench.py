"""The benchmark harness: every workload's function has the gradient that was written by hand, and reports are made of results."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import report, tools
from bench.run import distance
from bench.workload import Workload, workloads

pytestmark = pytest.mark.plain

NAMES = sorted(path.stem for path in (Path(report.PROJECT) / "bench" / "workloads").glob("[a-z]*.py"))
REFUSED = {"determinant/np.linalg.det": "numpy.linalg.det", "gaussian_process/": "numpy.linalg.cholesky"}


def tiny(workload: Workload, form: Any) -> list[np.ndarray]:
    """Value and gradients of a form at the size for tests."""
    contender = tools.tool(form.tool).build(form, workload.problem("tiny"), workload)
    value, gradients = contender.arrays(contender.gradient(*contender.args))
    return [np.asarray(value), *map(np.asarray, gradients)]


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    workload = workloads()[name]
    wanted = tiny(workload, next(form for form in workload.forms if form.tool == "numba"))
    for form in workload.forms:
        if form.tool in ("adcompile", "numpy_fd", "sympy") and (not form.sizes or "tiny" in form.sizes):
            if (reason := REFUSED.get(f"{name}/{form.variant}")) and form.tool == "adcompile":
                with pytest.raises(NotImplementedError, match=reason):
                    tiny(workload, form)
            else:
                allowed = 1e-5 if form.tool == "numpy_fd" else workload.tolerance
                assert distance(tiny(workload, form), wanted, some=form.tool == "numpy_fd") <= allowed, form.label


def test_registry() -> None:
    assert sorted(workloads()) == NAMES
    titles = {workload.title for workload in workloads().values()}
    assert len(titles) == len(NAMES)
    for workload in workloads().values():
        assert workload.sizes
        assert {"adcompile", "numba"} <= {form.tool for form in workload.forms} <= set(tools.NAMES)
        assert len({(f.label, f.parallel) for f in workload.forms}) == len(workload.forms)
        for form in workload.forms:
            assert set(form.sizes) <= {"tiny", *workload.sizes}
        first, second = (workload.problem("tiny").values for _ in range(2))
        assert all(np.array_equal(a, b) for a, b in zip(first, second))
        assert workload.problem("tiny").parameters
        if workload.flops:
            assert all(workload.flops(**size) > 0 for size in workload.sizes.values())


def test_distance_notices() -> None:
    right = [np.array(1.0), np.array([2.0, 3.0])]
    assert distance(right, right) == 0.0
    assert distance([np.array(1.0), np.array([2.0, 3.1])], right) > 1e-3
    assert distance([np.array(1.0), np.array([2.0, np.nan])], right) == np.inf
    assert distance([np.array(1.0), np.array([2.0, np.nan])], right, some=True) == 0.0
    assert distance([np.array(1.0), np.array([[2.0, 3.0]])], right) == np.inf


# ------------------------------------------------------------------------------------------------------------- reports
def found(seconds: float, **more: Any) -> dict[str, Any]:
    """A contender's part of a result file."""
    spread = {"median": seconds, "low": 0.9 * seconds, "high": 1.2 * seconds, "turns": 9}
    return {"difference": 1e-16, "first": 0.5, "import": 0.1, "gradient": spread, "memory": 2 ** 20, **more}


RESULTS: dict[str, Any] = {
    "date": "2030-01-02", "seconds": 60,
    "machine": {"processor": "A Processor", "cores": 4, "system": "Linux-6", "python": "3.11.1"},
    "versions": {"adcompile": "1.0", "jax": "2.0", "numba": "3.0", "numpy": "4.0"},
    "labels": {"adcompile": "adcompile", "numba": "hand-written numba", "jax": "JAX"},
    "rows": [
        {"workload": "one", "title": "One", "size": "n=1", "threads": 1, "bound": {"gradient": {"median": 1e-6}},
         "contenders": {"adcompile": found(2e-6, value={"median": 1e-6}, second=0.04), "adcompile, loops": found(4e-6),
                        "numba": found(4e-6), "jax": found(1e-4), "jax, forward": found(8e-6)}},
        {"workload": "two", "title": "Two", "size": "n=2", "threads": 1, "bound": {"gradient": {"median": 1e-3}},
         "contenders": {"adcompile": {"failure": "UnsupportedOp: det\n  file.py:3"}, "numba": found(2e-3),
                        "jax": {"failure": "WRONG RESULT: differs by 1e-01, allowed is 1e-08"}}},
        {"workload": "one", "title": "One", "size": "n=1", "threads": 2, "bound": {"gradient": {"median": 1e-6}},
         "contenders": {"adcompile": found(1e-6), "numba": found(3e-6)}},           # JAX: what it did on one thread
    ],
}


def test_report(golden) -> None:
    golden("bench_report.md", report.report(RESULTS, None))


def test_section(golden) -> None:
    golden("bench_section.md", report.section(RESULTS))


def test_what_is_written(tmp_path: Path) -> None:
    written = report.write(RESULTS, tmp_path / "out")
    assert json.loads((tmp_path / "out.json").read_text()) == RESULTS
    assert {path.suffix for path in written} >= {".json", ".md"}
    assert {path.name for path in written} == {path.name for path in tmp_path.iterdir()}


def test_readme_is_rewritten_between_its_marks(tmp_path: Path) -> None:
    readme, published = tmp_path / "README.md", tmp_path / "published.json"
    readme.write_text(f"# Title\n\n{report.BEGIN}old{report.END}\n\nrest\n")
    published.write_text(json.dumps(RESULTS))
    for _ in range(2):
        report.write_readme(published, readme)
        assert readme.read_text() == f"# Title\n\n{report.BEGIN}{report.section(RESULTS)}{report.END}\n\nrest\n"
    assert report.write_readme(tmp_path / "missing.json", readme) == 1
    changed = copy.deepcopy(RESULTS)
    changed["date"] = "2031-01-01"
    published.write_text(json.dumps(changed))
    report.write_readme(published, readme)
    assert "2031-01-01" in readme.read_text()


def test_readme_shows_the_published_results() -> None:
    """Nothing is typed by hand: the section is what the command makes of the committed file."""
    text = report.README.read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1
    section = text.partition(report.BEGIN)[2].partition(report.END)[0]
    results = json.loads(report.PUBLISHED.read_text(encoding="utf-8")) if report.PUBLISHED.exists() else None
    assert section == (report.section(results) if results else "")
