"""What the results say: tables on the screen and in Markdown, a plot, and the performance section of the project's README."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PUBLISHED = Path(__file__).parent / "results" / "published.json"
WHOLE = "bench/results/published.md"
README = PROJECT / "README.md"
BEGIN, END = "<!-- python -m bench readme -->\n", "<!-- end of what it wrote -->"
OURS, HAND = "adcompile", "numba"

FAILURES = {"WRONG": "WRONG", **dict.fromkeys(("CaptureError", "ShapeError", "UnsupportedOp", "DifferentiationError"), "refused")}

Results = dict[str, Any]
Table = list[list[str]]


@dataclass(frozen=True)
class Line:
    """A line of a table: one writing of a workload for adcompile, and the best form of every other tool."""

    title: str
    threads: int
    ours: dict[str, Any]
    others: dict[str, dict[str, Any]]       # of tools that use one thread only, what they did with one
    bound: float

    @property
    def seconds(self) -> float | None:
        """Of our value and gradient."""
        return seconds(self.ours)

    def ratio(self, name: str) -> float | None:
        """How many times longer another tool takes."""
        theirs = seconds(self.others.get(name, {}))
        return theirs / self.seconds if theirs and self.seconds else None

    def best(self) -> str | None:
        """The fastest other tool."""
        able = {name: time for name, found in self.others.items() if (time := seconds(found))}
        return min(able, key=lambda name: able[name], default=None)


def lines(results: Results, threads: int) -> Iterator[Line]:
    """The lines for a number of threads."""
    single = {(row["workload"], row["size"]): best_forms(row) for row in results["rows"] if row["threads"] == 1}
    for row in results["rows"]:
        if row["threads"] != threads:
            continue
        others = single.get((row["workload"], row["size"]), {}) | best_forms(row)
        bound = max((part["median"] for part in row["bound"].values() if isinstance(part, dict)), default=0.0)
        for label, found in row["contenders"].items():
            name, _, variant = label.partition(", ")
            if name == OURS:
                title = f"{row['title']} {row['size']}" + (f", {variant}" if variant else "")
                yield Line(title, threads, found, others, bound)


def best_forms(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The fastest form of each tool."""
    best: dict[str, dict[str, Any]] = {}
    for label, found in row["contenders"].items():
        name = label.split(",")[0]
        if name != OURS and (name not in best or (seconds(found) or math.inf) < (seconds(best[name]) or math.inf)):
            best[name] = found
    return best


def seconds(found: dict[str, Any]) -> float | None:
    """Median seconds of value and gradient; None where there are none."""
    return found["gradient"]["median"] if "gradient" in found else None


def thread_counts(results: Results) -> list[int]:
    """In the order in which they were measured."""
    return list(dict.fromkeys(row["threads"] for row in results["rows"]))


# ------------------------------------------------------------------------------------------------------------- cells
def human(value: float | None) -> str:
    """Seconds with three digits and a unit."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 0.9995:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def size(count: int | None) -> str:
    """Bytes."""
    return "-" if count is None else f"{count / 2**20:.1f} MB"


def times(value: float | None) -> str:
    """A ratio."""
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def cell(found: dict[str, Any] | None) -> str:
    """A time, a dash, or a word for why there is no time."""
    if not found:
        return "-"
    failure = found.get("failure")
    if failure is None:
        return human(seconds(found))
    return next((word for start, word in FAILURES.items() if failure.startswith(start)), "failed")


def threads_of(count: int) -> str:
    """In words."""
    return "1 thread" if count == 1 else f"{count} threads"


def mean(values: list[float]) -> float | None:
    """Geometric."""
    return statistics.geometric_mean(values) if values else None


# ------------------------------------------------------------------------------------------------------------- tables
def time_table(results: Results, threads: int) -> Table:
    """Times of all tools; the last column is the best of the others by ours."""
    names = [name for name in results["labels"] if name != OURS]
    table = [["workload", "adcompile", *(results["labels"][n] for n in names), "best other / adcompile"]]
    for line in lines(results, threads):
        best = line.best()
        cells = [f"**{cell(line.others[n])}**" if n == best else cell(line.others.get(n)) for n in names]
        table.append([line.title, cell(line.ours), *cells, times(line.ratio(best) if best else None)])
    return table


def ratio_table(results: Results, threads: int) -> Table:
    """How many times longer the others take; above 1 we are ahead. The last line is the geometric mean of each column."""
    names = [name for name in results["labels"] if name != OURS]
    table = [["workload", *(f"{results['labels'][n]} / adcompile" for n in names)]]
    found = list(lines(results, threads))
    table += [[line.title, *(times(line.ratio(n)) for n in names)] for line in found]
    means = [mean([r for line in found if (r := line.ratio(n))]) for n in names]
    return [*table, ["geometric mean", *map(times, means)]]


def own_table(results: Results, threads: int) -> Table:
    """What else there is to know of adcompile's kernels."""
    table = [["workload", "time", "quartiles", "value alone", "gradient / value", "part of the bound", "first call",
              "second process", "memory", "difference"]]
    for line in lines(results, threads):
        ours, time = line.ours, line.seconds
        if time is None:
            continue
        value = ours["value"]["median"] if "value" in ours else None
        spread = f"{human(ours['gradient']['low'])} - {human(ours['gradient']['high'])}"
        table.append([line.title, human(time), spread, human(value), times(time / value if value else None),
                      f"{line.bound / time:.0%}", human(ours["first"]), human(ours.get("second")), size(ours["memory"]),
                      f"{ours['difference']:.0e}"])
    return table


def first_table(results: Results) -> Table:
    """First calls: compiling, and in a second process."""
    names = list(results["labels"])
    table = [["workload", *(results["labels"][n] for n in names)]]
    for line in lines(results, thread_counts(results)[0]):
        if "second" in line.ours:
            everyone = {OURS: line.ours, **line.others}
            table.append([line.title, *(first_cell(everyone.get(n, {})) for n in names)])
    return table


def first_cell(found: dict[str, Any]) -> str:
    """Seconds with nothing compiled before, and with caches filled."""
    if "first" not in found:
        return "-"
    return human(found["first"]) + (f" ({human(found['second'])})" if "second" in found else "")


def failures(results: Results) -> list[str]:
    """Everything that has no time, and why."""
    found = []
    for row in results["rows"]:
        for label, contender in row["contenders"].items():
            if "failure" in contender:
                name, _, variant = label.partition(",")
                reason = contender["failure"].split("\n\n")[0].replace("\n", " ")[:300]
                found.append(f"{row['title']} {row['size']}, {results['labels'][name]}{variant and ',' + variant}, "
                             f"{threads_of(row['threads'])}: {reason}")
    return found


# ------------------------------------------------------------------------------------------------------------- outputs
def progress(row: dict[str, Any]) -> None:
    """One line while it runs."""
    cells = ", ".join(f"{label} {cell(found)}" for label, found in row["contenders"].items())
    print(f"{row['title']} {row['size']}, {threads_of(row['threads'])}: {cells}", flush=True)


def show(results: Results) -> None:
    """The tables on the screen, by rich where there is rich."""
    for count in thread_counts(results):
        title = f"Value and gradient, {threads_of(count)}"
        try:
            from rich.console import Console
            from rich.table import Table as RichTable
        except ImportError:
            print(f"\n{title}\n{markdown(time_table(results, count))}")
            continue
        header, *body = time_table(results, count)
        table = RichTable(*header, title=title)
        for cells in body:
            table.add_row(*(f"[bold]{c.strip('*')}[/bold]" if c.startswith("**") else c for c in cells))
        Console(width=None if sys.stdout.isatty() else 200).print(table)
    print(*failures(results), sep="\n")


def write(results: Results, output: Path) -> list[Path]:
    """JSON, Markdown, and the plot."""
    output.parent.mkdir(parents=True, exist_ok=True)
    paths = [replace(output.with_suffix(".json"), json.dumps(results, indent=1) + "\n")]
    picture = plot(results, output.with_suffix(".png"))
    paths.append(replace(output.with_suffix(".md"), report(results, picture)))
    return paths + ([picture] if picture else [])


def replace(path: Path, text: str) -> Path:
    """Write a file in one step, so that an interrupted run leaves the old one."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
    return path


def markdown(table: Table) -> str:
    """A table."""
    header, *body = table
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *body])


def about(results: Results) -> str:
    """When, where and with what."""
    machine, versions = results["machine"], results["versions"]
    return (f"{results['date']}, {machine['processor']}, {machine['cores']} cores, {machine['system'].split('-')[0]}, "
            f"Python {machine['python']}, {', '.join(f'{package} {version}' for package, version in versions.items())}.")


def report(results: Results, picture: Path | None) -> str:
    """The whole report."""
    parts = ["# Value and gradient", about(results) + " Medians of interleaved turns; bench/README.md says how."]
    parts += [f"![Ratios]({picture.name})"] if picture else []
    for count in thread_counts(results):
        words = threads_of(count)
        parts += [f"## Times, {words}", markdown(time_table(results, count)),
                  f"## Ratios, {words}", "Above 1, adcompile is faster.", markdown(ratio_table(results, count)),
                  f"## adcompile, {words}", markdown(own_table(results, count))]
    parts += ["## First calls", "In brackets: of a second process, which finds what the first one compiled.",
              markdown(first_table(results))]
    if found := failures(results):
        parts += ["## What has no time", "\n".join(f"* {line}" for line in found)]
    return "\n\n".join(parts) + "\n"


def plot(results: Results, path: Path) -> Path | None:
    """Ratios of all tools, a panel for each number of threads; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    counts = thread_counts(results)
    most = max(len(list(lines(results, count))) for count in counts)
    figure = Figure(figsize=(7 * len(counts), 1.5 + 0.22 * most), layout="constrained")
    for panel, count in zip(figure.subplots(1, len(counts), squeeze=False)[0], counts):
        found = list(lines(results, count))[::-1]
        for number, name in enumerate(n for n in results["labels"] if n != OURS):
            points = [(ratio, place) for place, line in enumerate(found) if (ratio := line.ratio(name))]
            if points:
                panel.scatter(*zip(*points), s=18, marker="osD^v<>P*Xh"[number % 11], label=results["labels"][name])
        panel.set(xscale="log", yticks=range(len(found)), yticklabels=[line.title for line in found],
                  title=f"time / adcompile's time, {threads_of(count)}")
        panel.axvline(1.0, color="black", linewidth=1)
        panel.grid(alpha=0.3)
        panel.tick_params(axis="y", labelsize=7)
        panel.legend(fontsize=7)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


# ------------------------------------------------------------------------------------------------------------- the README
def section(results: Results) -> str:
    """README's table: the largest number of threads, the marks that matter most, and the means."""
    count = max(thread_counts(results))
    names = [name for name in (HAND, "jax", "torch") if name in results["labels"]]
    table = [["workload", "adcompile", *(f"{results['labels'][n]}" for n in names), "best other tool", "best / adcompile"]]
    found = list(lines(results, count))
    for line in found:
        best = line.best()
        table.append([line.title, cell(line.ours), *(cell(line.others.get(n)) for n in names),
                      f"{results['labels'][best]}, {cell(line.others[best])}" if best else "-",
                      times(line.ratio(best) if best else None)])
    means = {n: mean([r for line in found if (r := line.ratio(n))]) for n in results["labels"] if n != OURS}
    best_mean = mean([r for line in found if (b := line.best()) and (r := line.ratio(b))])
    words = ", ".join(f"{results['labels'][n]} {times(m)}" for n, m in means.items() if m)
    return (f"Value and gradient, {threads_of(count)}, medians of interleaved turns; each result is compared with a gradient\n"
            f"written by hand before it is timed.\n\n{markdown(table)}\n\n"
            f"How many times longer than adcompile, geometric mean over the workloads that a tool can do: {words};\n"
            f"the best of them for each workload: {times(best_mean)}. Measured {about(results)}\n"
            f"All tables, on one thread too: [{WHOLE}]({WHOLE}).\n")


def write_readme(published: Path = PUBLISHED, readme: Path = README) -> int:
    """Put the section between its marks."""
    if not published.exists():
        print(f"nothing to publish: python -m bench --output {published.with_suffix('')} makes {published.name}")
        return 1
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    replace(readme, before + BEGIN + section(json.loads(published.read_text(encoding="utf-8"))) + END + after)
    return 0
