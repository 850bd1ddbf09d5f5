"""What every test file shares: a seeded generator, golden files, comparisons in which NaN and inf must match.

Importable from any test file: `from conftest import assert_same, assert_close`.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before adcompile is imported: every pass is verified, and no test reads or fills the user's own cache.
os.environ["ADCOMPILE_VERIFY"] = "1"
CACHE_DIR = tempfile.mkdtemp(prefix="adcompile-tests-")
os.environ["ADCOMPILE_CACHE_DIR"] = CACHE_DIR

import numba  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden with what comes out now")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(CACHE_DIR, ignore_errors=True)


@pytest.fixture(autouse=True)
def plain_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests marked `plain` run the generated source as it stands, without compiling it, which takes a hundredth of the time.

    `plain(False)` takes one test of a marked file out; `ADCOMPILE_FULL=1` compiles everywhere.
    """
    mark = request.node.get_closest_marker("plain")
    if mark is None or mark.args == (False,) or os.environ.get("ADCOMPILE_FULL"):
        yield
        return
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with np.errstate(all="ignore"):             # as machine code
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own name, so that a test does not depend on which others ran."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh, empty kernel cache for one test; subprocesses inherit it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ADCOMPILE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name.txt", text)` asserts that tests/golden/name.txt is `text`; `pytest --update-golden` rewrites it."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        text = text.rstrip("\n") + "\n"
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {name}; look at the text, then run pytest --update-golden\n{text}")
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            difference = difflib.unified_diff(wanted.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
            pytest.fail("differs from its golden file (pytest --update-golden rewrites it)\n" + "\n".join(difference),
                        pytrace=False)

    return check


# ---------------------------------------------------------------------------------------------------- comparisons
def assert_same(got: Any, wanted: Any) -> None:
    """Equal bit for bit: shape, dtype, values, signs of zeros; NaN equals NaN. Goes into tuples, lists and dicts."""
    compare(got, wanted, lambda a, b: np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
            and np.array_equal(np.signbit(a.real), np.signbit(b.real)), "is not the same as", exact_dtype=True)


def assert_close(got: Any, wanted: Any, rtol: float = 1e-10, atol: float = 1e-12, *, dtype: bool = False) -> None:
    """Same structure and shape, entries within rtol * |wanted| + atol; NaN and inf must match. `dtype`: dtypes too."""
    def close(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(np.allclose(a, b, rtol, atol, equal_nan=True))

    compare(got, wanted, close, f"differs (rtol {rtol}, atol {atol}) from", exact_dtype=dtype)


def assert_close_to_scale(got: Any, wanted: Any, rtol: float = 1e-8) -> None:
    """As `assert_close`, relative to the largest finite entry of each array: what differences can promise."""
    def close(a: np.ndarray, b: np.ndarray) -> bool:
        finite = np.abs(b[np.isfinite(b)])
        return bool(np.allclose(a, b, 0.0, rtol * max(1.0, finite.max(initial=0.0)), equal_nan=True))

    compare(got, wanted, close, f"differs (to scale, {rtol}) from", exact_dtype=False)


def compare(got: Any, wanted: Any, equal: Callable[[np.ndarray, np.ndarray], bool], words: str, *, exact_dtype: bool,
            where: str = "") -> None:
    """Walk two structures in step and fail with the place of the first difference."""
    children = children_of(wanted)
    if children is not None:
        others = children_of(got)
        assert type(got) is type(wanted), f"{where or 'result'} is a {type(got).__name__}, not a {type(wanted).__name__}"
        assert others is not None, where
        assert others.keys() == children.keys(), f"{where or 'result'} has {got!r}, not {wanted!r}"
        for key in children:
            compare(others[key], children[key], equal, words, exact_dtype=exact_dtype, where=f"{where}[{key!r}]")
        return
    if wanted is None:
        assert got is None, f"{where or 'result'} is {got!r}, not None"
        return
    a, b = np.asarray(got), np.asarray(wanted)
    assert a.shape == b.shape, f"{where or 'result'} has shape {a.shape}, not {b.shape}"
    if exact_dtype:
        assert a.dtype == b.dtype, f"{where or 'result'} has dtype {a.dtype}, not {b.dtype}"
    with np.errstate(all="ignore"):
        assert equal(a, b), f"{where or 'result'}\n{a!r}\n{words}\n{b!r}"


def children_of(tree: Any) -> dict[Any, Any] | None:
    """The parts of a container (tuple, list, dict, NamedTuple, dataclass) by key, None for a leaf."""
    if isinstance(tree, dict):
        return tree
    if isinstance(tree, (tuple, list)):
        return dict(enumerate(tree))
    fields = getattr(type(tree), "__dataclass_fields__", None)
    return {name: getattr(tree, name) for name in fields} if fields else None
