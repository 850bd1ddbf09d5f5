"""`python -m bench [WORDS] [--rounds N] [--no-first-call]`: measure the workloads whose names hold one of the words (all
without), check every result first, write bench/results/latest.json and latest.md."""

from __future__ import annotations

import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")         # before NumPy: everything is measured on one thread

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numba  # noqa: E402
import numpy as np  # noqa: E402

from . import first_call  # noqa: E402
from .measure import disagreement, interleaved  # noqa: E402
from .workloads import Workload, table  # noqa: E402

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("adcompile", "hand numba", "NumPy by hand", "NumPy value", "adcompile value")


def main() -> int:
    """Run, print, write."""
    arguments = parse()
    chosen = [w for w in table() if not arguments.words or any(word in w.name for word in arguments.words)]
    if not chosen:
        print("no workload has such a name; there are:", *(w.name for w in table()), sep="\n  ")
        return 1
    report: dict[str, Any] = {"machine": machine(), "steady": {}, "first call": {}}
    for workload in chosen:
        report["steady"][workload.name] = steady(workload, arguments.rounds)
        print(steady_row(workload.name, report["steady"][workload.name]), flush=True)
    if not arguments.no_first_call:
        for workload in chosen:
            report["first call"][workload.name] = first_call.measure(workload.name)
            print(first_row(workload.name, report["first call"][workload.name]), flush=True)
    write(report)
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of workload names")
    parser.add_argument("--rounds", type=int, default=25, help="turns that each contender takes (default 25)")
    parser.add_argument("--no-first-call", action="store_true", help="leave out the first call in new processes")
    return parser.parse_args()


def steady(workload: Workload, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds a call of every contender, after its result was found right."""
    args = workload.arguments()
    f = workload.compiled()
    contenders: dict[str, Callable[..., Any]] = {"hand numba": workload.hand}
    if workload.numpy_gradient is not None:
        contenders["NumPy by hand"] = workload.numpy_gradient
    got = f(*args)
    for name, contender in contenders.items():
        gap = disagreement(got, contender(*args))
        if not gap <= workload.tolerance:
            raise SystemExit(f"{workload.name}: adcompile and {name} differ by {gap:.3g}; no times for a wrong result")
    for name, plain in (("NumPy value", workload.function), ("adcompile value", f.value)):
        gap = disagreement(got[0], plain(*args))
        if not gap <= workload.tolerance:
            raise SystemExit(f"{workload.name}: the value and {name} differ by {gap:.3g}; no times for a wrong result")
        contenders[name] = plain
    return interleaved({"adcompile": f, **contenders}, args, rounds)


# ------------------------------------------------------------------------------------------------------------- results
def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0],
            "numpy": np.__version__, "numba": numba.__version__, "threads": int(os.environ["NUMBA_NUM_THREADS"])}


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def human(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def steady_row(name: str, times: dict[str, dict[str, float]]) -> str:
    """One line of the table."""
    cells = [human(times[c]["median"]) if c in times else "" for c in COLUMNS]
    ours = times["adcompile"]["median"]
    ratios = [f"{times['hand numba']['median'] / ours:.2f}", f"{ours / times['adcompile value']['median']:.2f}"]
    return f"| {name} | {' | '.join(cells + ratios)} |"


def first_row(name: str, found: dict[str, dict[str, float]]) -> str:
    """One line of the table of first calls."""
    cells = [human(found[t]["first call"]) for t in ("cold", "warm")]
    return f"| {name} | {' | '.join(cells)} | {human(found['warm']['import'])} |"


def write(report: dict[str, Any]) -> None:
    """The results as JSON and as Markdown."""
    RESULTS.mkdir(exist_ok=True)
    replace(RESULTS / "latest.json", json.dumps(report, indent=1) + "\n")
    replace(RESULTS / "latest.md", markdown(report))
    print(f"\nwritten: {RESULTS / 'latest.json'}, {RESULTS / 'latest.md'}")


def replace(path: Path, text: str) -> None:
    """Write a file in one step, so that an interrupted run leaves the old one."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)


def markdown(report: dict[str, Any]) -> str:
    """The tables."""
    about = ", ".join(f"{k} {v}" for k, v in report["machine"].items())
    lines = ["# Value and gradient, steady state", "", f"Medians of interleaved runs. {about}.", "",
             f"| workload | {' | '.join(COLUMNS)} | hand / ours | gradient / value |", "|" + "---|" * (len(COLUMNS) + 3)]
    lines += [steady_row(name, times) for name, times in report["steady"].items()]
    if report["first call"]:
        lines += ["", "# First gradient in a new process", "", "| workload | empty cache | filled cache | import |",
                  "|---|---|---|---|"]
        lines += [first_row(name, found) for name, found in report["first call"].items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
