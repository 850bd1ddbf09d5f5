"""The command line: what it prints, and that what a user gets wrong is one message and exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adcompile import compile_grad
from adcompile.cli import main
from adcompile.examples import logistic_regression as logistic
from adcompile.examples import lynx_hare

FILE = '''
import numpy as np
from adcompile import compile_grad, compile_value

x0, k = np.ones(3), 2.0
print("printed while it is imported")

def plain(x, k=1.0):
    return np.sum(np.sin(k * x))

def two(a, b):
    return np.sum(a * b)

@compile_grad
def compiled(x):
    return np.sum(x**2)

@compile_grad
def called(x):
    return np.prod(x)

called(x0)
as_it_is = compile_value(plain)

class Model:
    scale = 3.0

    @compile_grad(wrt="x")
    def loss(self, x):
        return np.sum(np.exp(self.scale * x))

model = Model()

def broken(x):
    raise RuntimeError("not today")

def branching(x):
    return np.fft.fft(x)[0]
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "functions.py"
    path.write_text(FILE)
    return path


Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    """`show(name, *options)`: exit status, stdout, stderr of `adcompile show functions.py:name`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, file.stem, raising=False)

    def run(name: str, *options: str) -> tuple[int, str, str]:
        status = main(["show", f"{file}:{name}", *options])
        return status, *capsys.readouterr()

    return run


# ---------------------------------------------------------------------------------------------------- show
@pytest.mark.parametrize(("name", "options", "wanted"), [
    ("called", (), "def called_kernel(x, x_bar):"),
    ("called", ("--stage", "ir"), "reduce_prod %x"),
    ("called", ("--stage", "capture"), "func @called(%x: f64[x_0])"),
    ("called", ("--stage", "autodiff"), "%x_bar"),
    ("called", ("--stage", "loop"), "for i in x_0"),
    ("compiled", ("--args", "x0"), "def compiled_kernel(x, x_bar):"),
    ("compiled", ("--args", "np.ones((2, 2), np.float32)"), "float32"),
    ("plain", ("--args", "x0, k=k"), "def plain_kernel(x, k, x_bar):"),
    ("plain", ("--args", "x0, k", "--wrt", "k"), "def plain_kernel(x, k, k_bar):"),
    ("two", ("--args", "x0, x0", "--wrt", "a, b"), "def two_kernel(a, b, a_bar, b_bar):"),
    ("as_it_is", ("--args", "x0"), "def plain_kernel(x, k):"),
    ("as_it_is", ("--args", "x0", "--stage", "autodiff"), "func @plain"),
    ("two", ("--args", "x0, x0", "--wrt", "a, b", "--stage", "graph"), "d/da: b = [1, 1, 1], d/db: a = [1, 1, 1]"),
    ("two", ("--args", "x0, x0", "--stage", "paths"), "1 path"),
    ("plain", ("--args", "x0, k", "--stage", "cost"), "by line"),
    ("called", ("--stage", "explain"), "loops of the kernel"),
    ("plain", ("--args", "x0, k", "--stage", "latex"), r"\sum_{i=0}^{n - 1}"),
    ("model.loss", ("--args", "x0", "--stage", "graph"), "self.scale"),
    ("model.loss", ("--args", "x0"), "x_bar"),
    ("Model.loss", ("--args", "model, x0"), "x_bar"),
])
def test_show(show: Show, name: str, options: tuple[str, ...], wanted: str) -> None:
    status, out, err = show(name, *options)
    assert status == 0
    assert wanted in out
    assert "printed while" in err and "printed while" not in out


def test_shown_source_is_the_source_that_runs(show: Show, tmp_path: Path) -> None:
    def called(x: np.ndarray) -> np.ndarray:
        return np.prod(x)

    f = compile_grad(called)
    f(np.ones(3))
    code = [line for line in show("called")[1].splitlines() if not line.lstrip().startswith(("#", '"""'))]
    assert [line for line in f.source.splitlines() if not line.lstrip().startswith(("#", '"""'))] == code


def test_show_of_an_expression(show: Show, file: Path) -> None:
    file.write_text("import sympy\nfrom adcompile import compile_grad\na, b = sympy.symbols('a b')\n"
                    "expression = compile_grad(a**2 * b, wrt=[a], args=[a, b])\n")
    status, out, _ = show("expression")
    assert status == 0
    assert "(a, b, a_bar)" in out


@pytest.mark.parametrize(("name", "options", "message"), [
    ("nothing", (), "has no nothing; it defines"),
    ("x0", (), "is a ndarray, not a function"),
    ("Model", (), "is a type, not a function"),
    ("compiled", (), "the types of the arguments of compiled(x) are not known"),
    ("plain", (), '--args "..."'),
    ("plain", ("--args", "y0"), "NameError: name 'y0' is not defined"),
    ("plain", ("--args", "x0,,"), "SyntaxError"),
    ("plain", ("--args", "x0, 1, 2"), "--args does not fit: plain"),
    ("plain", ("--args", "x0", "--wrt", "z"), "wrt='z' is not an argument of plain"),
    ("compiled", ("--args", "x0", "--wrt", "x"), "is compiled already"),
    ("broken", ("--args", "x0"), "raised RuntimeError: not today"),
    ("branching", ("--args", "x0"), "fft"),
])
def test_show_says_what_is_wrong(show: Show, name: str, options: tuple[str, ...], message: str) -> None:
    status, out, err = show(name, *options)
    assert status == 2
    assert not out
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err


@pytest.mark.parametrize(("text", "message"), [
    ("x = 1\nx / 0\n", "raised TypeError"), ("def f(:\n", ":1: "), ("import sys\nsys.exit(3)\n", "raised SystemExit"),
    ("from nowhere_at_all import f\n", "nowhere_at_all"),
])
def test_show_of_a_file_that_does_not_run(show: Show, file: Path, text: str, message: str) -> None:
    file.write_text(text.replace("x / 0", "x + 'a'"))
    status, _, err = show("f")
    assert status == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("target", ["functions.py", "nowhere.py:f", ":f", "nowhere.py:"])
def test_show_of_no_file(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", target]) == 2
    assert capsys.readouterr().err.startswith("error: ")


# ---------------------------------------------------------------------------------------------------- report
def test_report(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    output = tmp_path / "out.html"
    assert main(["report", f"{file}:plain", "--args", "x0, k", "-o", str(output)]) == 0
    assert capsys.readouterr().out.strip() == str(output)
    page = output.read_text(encoding="utf-8")
    for part in ("<h2>Graph</h2>", "<h2>Formula</h2>", "<math", "\\sum", "1 path", "loops of the kernel", "by line",
                 "def plain_kernel", "<summary>autodiff</summary>", "func @plain"):
        assert part in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_report_says_what_there_is_not(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file.write_text("def f(x, n):\n    for _ in range(n):\n        x = x * x if x < 3 else x\n    return x\n")
    assert main(["report", f"{file}:f", "--args", "1.0, 20", "-o", str(tmp_path / "out.html")]) == 0
    assert '<p class="refused">for has no formula</p>' in (tmp_path / "out.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------- the others
def test_cache(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_grad(logistic.loss)(np.zeros(3), np.ones((4, 2)), np.ones(4), 0.1)
    assert main(["cache", "info"]) == 0
    assert f"{cache_dir / 'kernels'}: 1 kernels" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "1 kernels removed" in capsys.readouterr().out
    assert main(["cache", "info"]) == 0
    assert "0 kernels" in capsys.readouterr().out


def test_doctor(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("numpy", "numba", "processor", "vector features", "threads", str(cache_dir), "value and gradient are right"):
        assert word in out
    assert "problem" not in out
    assert not list((cache_dir / "kernels").iterdir())


def test_doctor_finds_a_folder_that_others_may_write(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache_dir / "kernels").mkdir(parents=True)
    (cache_dir / "kernels").chmod(0o777)
    assert main(["doctor"]) == 1
    assert "can be written by others" in capsys.readouterr().out.replace("\n", " ")


def test_no_command_is_an_error_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "usage: adcompile" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- demo
def test_demo_in_a_process_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "adcompile", "demo"], capture_output=True, text=True, env=environment,
                          cwd=tmp_path, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for part in ("569 tumours", "gradient agrees", "iteration", "held-out accuracy 98.2%", "NumPy, value alone",
                 "# forward and backward in one pass"):
        assert part in done.stdout
    (written,) = tmp_path.glob("adcompile-demo-*/logistic_regression_kernel.py")
    assert str(written) in done.stdout
    assert "adcompile" not in [line.split()[1] for line in written.read_text().splitlines() if line.startswith("import ")]


def test_demo_of_lynx_and_hare(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "adcompile", "demo", "lynx-hare"], capture_output=True, text=True,
                          env=environment, cwd=tmp_path, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for part in ("pelts of 1900 to 1920", "for year in range(len(hares))", "gradient agrees", "loss -42.740563",
                 "hares in 1900   34.6", "Python, value alone"):
        assert part in done.stdout


def test_the_model_of_lynx_and_hare_fits() -> None:
    data = lynx_hare.load()
    assert (data.years[0], data.years[-1], len(data.hares), len(data.lynxes)) == (1900, 1920, 21, 21)
    result = lynx_hare.fit(compile_grad(lynx_hare.loss), data)
    assert result.fun == pytest.approx(-42.7405626, abs=1e-6)
    hares, lynxes = lynx_hare.simulate(result.x, len(data.years))
    errors = [np.log(pelts / model[:: lynx_hare.STEPS]) for pelts, model in zip(data[1:], (hares, lynxes), strict=True)]
    noises = np.exp(result.x[6:])
    np.testing.assert_allclose([np.sqrt(np.mean(e**2)) for e in errors], noises, rtol=1e-4)     # the best noise is what is left


def test_the_plot_of_lynx_and_hare(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = lynx_hare.plot(np.log(lynx_hare.START), lynx_hare.load(), tmp_path / "plot.svg")
    assert path is not None
    text = path.read_text()
    assert text.startswith("<?xml")
    assert "</svg>" in text
    assert len(text) > 10_000


def test_without_matplotlib_there_is_no_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert lynx_hare.plot(np.log(lynx_hare.START), lynx_hare.load(), tmp_path / "plot.svg") is None
    assert not list(tmp_path.iterdir())


def test_unknown_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "nothing"]) == 2
    assert "there is no demo 'nothing'; there are: logistic_regression" in capsys.readouterr().err


def test_the_example_fits() -> None:
    data = logistic.load()
    assert data.X.shape == (456, 30)
    assert data.X_held.shape == (113, 30)
    assert len(logistic.FEATURES) == 30
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1.0, atol=1e-12)
    result = logistic.fit(compile_grad(logistic.loss), data.X, data.y, 0.01)
    assert result.success
    assert result.fun == pytest.approx(0.1006099, abs=1e-6)
    assert np.mean(logistic.predict(result.x, data.X_held) == data.y_held) > 0.97
