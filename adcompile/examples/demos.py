"""The installed examples, shown step by step in a terminal."""

from __future__ import annotations

import inspect
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from scipy.optimize import OptimizeResult

from ..api import CompiledGrad, compile_grad
from ..check import check_grad
from ..inspect.text import python
from . import logistic_regression as logistic
from . import lynx_hare

ROW = "{:>9}  {:>9}  {:>11}  {:>8}   {}"
BAR = 24


def logistic_regression(console: Console) -> None:
    """Logistic regression on the Breast Cancer Wisconsin (Diagnostic) data, by L-BFGS with a compiled gradient."""
    data, l2 = logistic.load(), 0.01
    heading(console, "Logistic regression with an intercept and an L2 term")
    say(console, f"{len(data.X) + len(data.X_held)} tumours, malignant or benign, {data.X.shape[1]} measures of each; "
                 f"{len(data.X_held)} are held out")
    say(console, "Breast Cancer Wisconsin (Diagnostic), UCI, CC BY 4.0", "dim")

    heading(console, "The objective is plain NumPy")
    console.print(Padding(python(inspect.getsource(logistic.loss)), (0, 2)))

    heading(console, "Compile value and gradient, and check them")
    value_and_grad = compile_grad(logistic.loss)
    somewhere = np.random.default_rng(0).normal(size=data.X.shape[1] + 1)
    first_call_and_check(console, value_and_grad, (somewhere, data.X, data.y, l2), "NumPy")

    heading(console, "Minimise with scipy's L-BFGS: minimize(value_and_grad, ..., jac=True)")
    result = fit_with_progress(console, value_and_grad, data, l2)

    heading(console, "The fit")
    show_fit(console, result, data)

    heading(console, "Time per call, measured now")
    show_times(console, value_and_grad, logistic.loss, (result.x, data.X, data.y, l2), "NumPy")

    heading(console, "The loop that was generated")
    console.print(Padding(python(kernel_loop(value_and_grad.source)), (0, 2)))
    path = value_and_grad.source.save(Path(tempfile.mkdtemp(prefix="adcompile-demo-")) / "logistic_regression_kernel.py")
    console.print()
    say(console, "The whole module runs with numpy and numba alone; written to a temporary folder:")
    console.print(f"  {path}", style="bold", soft_wrap=True, highlight=False)
    console.print()


def lynx_and_hare(console: Console) -> None:
    """The Lotka-Volterra model fitted to pelts, by L-BFGS with a compiled gradient through the integrator."""
    data = lynx_hare.load()
    args = (data.hares, data.lynxes, lynx_hare.STEPS)
    heading(console, "Lynx and hare: Lotka-Volterra with log-normal errors")
    say(console, f"pelts of {data.years[0]} to {data.years[-1]}; eight parameters; {lynx_hare.STEPS} Runge-Kutta steps a year")
    say(console, "Hudson's Bay Company, public record", "dim")

    heading(console, "The objective is plain Python loops")
    for function in (lynx_hare.rates, lynx_hare.step, lynx_hare.loss):
        console.print(Padding(python(inspect.getsource(function)), (0, 2)))

    heading(console, "Compile value and gradient, and check them")
    value_and_grad = compile_grad(lynx_hare.loss)
    start = np.log(lynx_hare.START)
    first_call_and_check(console, value_and_grad, (start, *args), "Python")

    heading(console, "Minimise with scipy's L-BFGS: minimize(value_and_grad, ..., jac=True)")
    result = fit_pelts(console, value_and_grad, data)

    heading(console, "The fit")
    estimates = Table(box=None, padding=(0, 1), show_header=False)
    for name, estimate in zip(lynx_hare.PARAMETERS, np.exp(result.x), strict=True):
        estimates.add_row(name, f"{estimate:.4g}")
    console.print(Padding(estimates, (0, 1)))
    for name, pelts, model, colour in zip(("hares", "lynx"), (data.hares, data.lynxes),
                                          lynx_hare.simulate(result.x, len(data.years)), ("yellow", "cyan"), strict=True):
        say(console, f"{name}, thousands of pelts ([{colour}]━[/] the model, [bold]o[/] collected)")
        console.print(Padding("\n".join(chart(pelts, model[::lynx_hare.STEPS], data.years, colour)), (0, 2)), highlight=False)

    heading(console, "Time per call, measured now")
    show_times(console, value_and_grad, lynx_hare.loss, (result.x, *args), "Python", rounds=11, calls=2)
    path = lynx_hare.plot(result.x, data, Path(tempfile.mkdtemp(prefix="adcompile-demo-")) / "lynx_hare.svg")
    console.print()
    if path is None:
        say(console, "With matplotlib installed this also writes the plot as SVG.", "dim")
    else:
        say(console, "The plot, written to a temporary folder:")
        console.print(f"  {path}", style="bold", soft_wrap=True, highlight=False)
    console.print()


DEMOS: dict[str, Callable[[Console], None]] = {"logistic_regression": logistic_regression, "lynx-hare": lynx_and_hare}


# ---------------------------------------------------------------------------------------------------- parts
def heading(console: Console, text: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{text}[/]", align="left", style="blue"))


def say(console: Console, text: str, style: str = "") -> None:
    console.print(Padding(text, (0, 2), style=style))


def first_call_and_check(console: Console, value_and_grad: CompiledGrad, args: tuple[Any, ...], plain: str) -> None:
    """Compile, and compare with differences."""
    started = time.perf_counter()
    value_and_grad(*args)
    say(console, f"first call {time.perf_counter() - started:.2f} s, with compiling or loading from the cache")
    check = check_grad(value_and_grad, *args)
    verdict = "[green]agrees[/]" if check else "[red]DISAGREES[/]"
    say(console, f"gradient {verdict} with differences of the {plain} function: "
                 f"{len(check.entries)} entries, largest error {check.worst.error:.1e}")


def fit_pelts(console: Console, value_and_grad: CompiledGrad, data: lynx_hare.Data) -> OptimizeResult:
    """Fit, with a line for every fifth iteration."""
    console.print("  " + ROW.format("iteration", "loss", "|gradient|", "", ""), style="dim")
    count = 0

    def progress(intermediate_result: OptimizeResult) -> None:
        nonlocal count
        count += 1
        if count % 5 == 1:
            value, gradient = value_and_grad(intermediate_result.x, data.hares, data.lynxes, lynx_hare.STEPS)
            console.print("  " + ROW.format(count, f"{value:.6f}", f"{np.abs(gradient).max():.1e}", "", ""), highlight=False)

    result = lynx_hare.fit(value_and_grad, data, progress)
    size = np.abs(result.jac).max()
    say(console, f"{result.nit} iterations, {result.nfev} calls, loss {result.fun:.6f}, |gradient| {size:.1e}")
    return result


def chart(pelts: np.ndarray, model: np.ndarray, years: np.ndarray, colour: str, width: int = 50) -> Iterator[str]:
    """A line per year: a bar for the model, a mark for what was collected."""
    scale = width / max(pelts.max(), model.max())
    for year, collected, fitted in zip(years, pelts, model, strict=True):
        bar = list("━" * round(scale * fitted) + " " * width)[:width + 1]
        mark = round(scale * collected)
        yield f"{year} [{colour}]{''.join(bar[:mark])}[/][bold]o[/][{colour}]{''.join(bar[mark + 1:])}[/]"


def fit_with_progress(console: Console, value_and_grad: CompiledGrad, data: logistic.Data, l2: float) -> OptimizeResult:
    """Fit, with a line per iteration."""
    console.print("  " + ROW.format("iteration", "loss", "|gradient|", "held out", ""), style="dim")
    start = np.zeros(data.X.shape[1] + 1)
    first = np.abs(value_and_grad.grad(start, data.X, data.y, l2)).max()
    count = 0

    def progress(intermediate_result: OptimizeResult) -> None:
        nonlocal count
        count += 1
        x = intermediate_result.x
        value, gradient = value_and_grad(x, data.X, data.y, l2)
        size = np.abs(gradient).max()
        digits = min(1.0, np.log10(first / size) / 6) if size > 0 else 1.0
        bar = "━" * max(1, round(BAR * digits))
        console.print("  " + ROW.format(count, f"{value:.6f}", f"{size:.1e}", f"{accuracy(x, data):.1%}", f"[blue]{bar}[/]"),
                      highlight=False)

    return logistic.fit(value_and_grad, data.X, data.y, l2, progress)


def accuracy(parameters: np.ndarray, data: logistic.Data) -> float:
    return float(np.mean(logistic.predict(parameters, data.X_held) == data.y_held))


def show_fit(console: Console, result: OptimizeResult, data: logistic.Data) -> None:
    """What was found and how good it is on rows that the fit has not seen."""
    size = np.abs(result.jac).max()
    say(console, f"{result.nit} iterations, {result.nfev} calls, loss {result.fun:.6f}, |gradient| {size:.1e}")
    right = logistic.predict(result.x, data.X_held) == data.y_held
    malignant = data.y_held > 0
    say(console, f"[bold]held-out accuracy {right.mean():.1%}[/]: {right.sum()} of {right.size} tumours; mistaken: "
                 f"{np.sum(~right & malignant)} malignant, {np.sum(~right & ~malignant)} benign")
    weights = result.x[1:]
    table = Table(box=None, padding=(0, 1), show_header=False)
    for k in np.argsort(-np.abs(weights))[:5]:
        colour = "red" if weights[k] > 0 else "green"
        table.add_row(logistic.FEATURES[k], f"{weights[k]:+.2f}", f"[{colour}]{'━' * round(40 * abs(weights[k]))}[/]")
    say(console, f"intercept {result.x[0]:+.2f}; the largest weights (more of it: [red]malignant[/], [green]benign[/])")
    console.print(Padding(table, (0, 1)))


def show_times(console: Console, value_and_grad: CompiledGrad, function: Callable[..., Any], args: tuple[Any, ...], plain: str,
               rounds: int = 101, calls: int = 20) -> None:
    """The gradient next to the plain function, which computes the value alone."""
    ours, theirs = interleaved(value_and_grad, function, args, rounds, calls)
    table = Table(box=None, padding=(0, 1), show_header=False)
    longest = max(ours, theirs)
    for name, seconds, colour in (("adcompile, value and gradient", ours, "green"), (f"{plain}, value alone", theirs, "yellow")):
        table.add_row(name, f"{1e6 * seconds:.1f} us", f"[{colour}]{'━' * max(1, round(28 * seconds / longest))}[/]")
    console.print(Padding(table, (0, 1)))


def interleaved(f: Callable[..., Any], g: Callable[..., Any], args: tuple[Any, ...], rounds: int = 101,
                calls: int = 20) -> tuple[float, float]:
    """Median seconds per call of two functions that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, found in zip((f, g), times):
            started = time.perf_counter()
            for _ in range(calls):
                function(*args)
            found.append((time.perf_counter() - started) / calls)
    return statistics.median(times[0]), statistics.median(times[1])


def kernel_loop(source: str) -> str:
    """The part of a generated module that does the work: from the first section of the kernel to its return."""
    kernel = source[source.index("_kernel("):]
    body = kernel[kernel.index("    # forward"):]
    end = body.index("\n    return ")
    return inspect.cleandoc(" " * 4 + "\n" + body[:body.index("\n", end + 1)])
