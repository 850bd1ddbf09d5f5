"""The driver: starts a process for each tool, compares their results, lets them take turns, and collects the times."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import adcompile

from . import tools
from .workload import Form, Workload, workloads

PROJECT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CACHE_VARIABLES = ("ADCOMPILE_CACHE_DIR", "NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
FEWEST = {"gradient": 3, "value": 1}                # turns of a slow contender
PAUSE = 0.003                   # until the threads of the tool before have stopped waiting for work
REFERENCE = "numba"             # the tool whose result is compared with: gradients written by hand


@dataclass(frozen=True)
class Plan:
    """What to measure and how long."""

    workloads: tuple[str, ...]
    tools: tuple[str, ...]
    threads: tuple[int, ...]
    rounds: int = 9             # turns of each contender
    turn: float = 0.02          # seconds of a turn
    most: float = 3.0           # seconds for all turns of a contender; slower ones have fewer turns
    patience: float = 120.0     # seconds until an answer is given up
    second: bool = True         # measure first calls in second processes


class Failure(Exception):
    """A tool that cannot do a workload, and why."""


class Process:
    """A worker and the pipes to it."""

    def __init__(self, tool: str, threads: int, folder: Path, patience: float) -> None:
        self.tool, self.threads, self.folder, self.patience = tool, threads, folder, patience
        self.process: subprocess.Popen[str] | None = None

    def ask(self, do: str, **request: Any) -> Any:
        """Send a request and wait for its answer. A process that died or did not answer is started again by the next one."""
        process = self.process = self.process or self.start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], self.patience)
            line = process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if not line:
            self.stop()
            raise Failure(f"no answer after {self.patience:g} s" if line is None else "the process died")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"].replace(f"{PROJECT}{os.sep}", ""))       # results are published
        return answer["answer"]

    def start(self) -> subprocess.Popen[str]:
        """A process with this many threads, on as many processors."""
        variables = dict.fromkeys(THREAD_VARIABLES, str(self.threads))
        variables |= {name: str(self.folder / name.lower()) for name in CACHE_VARIABLES}
        variables["PYTENSOR_FLAGS"] = f"base_compiledir={self.folder / 'pytensor'}"
        command = [sys.executable, "-m", "bench.worker", self.tool]
        with (self.folder / f"{self.tool}.log").open("a") as log, processors(self.threads):
            return subprocess.Popen(command, cwd=PROJECT, env={**os.environ, **variables}, text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def forget(self) -> None:
        """Let the process drop its contenders, if it runs."""
        if self.process:
            self.ask("drop")

    def stop(self) -> None:
        """End the process."""
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextmanager
def processors(count: int) -> Iterator[None]:
    """Processes started here run on the first `count` processors, where the system can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Turns:
    """The times of one contender."""

    def __init__(self, process: Process, form: int, plan: Plan) -> None:
        self.process, self.form, self.plan = process, form, plan
        self.seconds: dict[str, list[float]] = {"gradient": [], "value": []}
        self.spent = 0.0

    def take(self, what: str) -> None:
        """One turn, unless it had enough."""
        if self.spent > self.plan.most and len(self.seconds[what]) >= FEWEST[what]:
            return
        if self.process.threads > 1:
            time.sleep(PAUSE)
        start = time.perf_counter()
        found = self.process.ask("turn", form=self.form, what=what, seconds=self.plan.turn)
        self.spent += time.perf_counter() - start
        if found is not None:
            self.seconds[what].append(found)

    def summary(self) -> dict[str, Any]:
        """Medians and quartiles of gradient and value, and the memory of a call."""
        found: dict[str, Any] = {what: summary(seconds) for what, seconds in self.seconds.items() if seconds}
        return found | {"memory": self.process.ask("memory", form=self.form)}


def summary(seconds: list[float]) -> dict[str, float]:
    """Median, quartiles, the least, and how many."""
    least, low, median, high = np.quantile(seconds, (0.0, 0.25, 0.5, 0.75)).tolist()
    return {"median": median, "low": low, "high": high, "least": least, "turns": len(seconds)}


def run(plan: Plan, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure everything; `show` gets each row as soon as it is there."""
    labels = {name: tools.tool(name).LABEL for name in plan.tools}
    report: dict[str, Any] = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(),
                              "versions": versions(plan.tools), "labels": labels, "rows": []}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        for threads in plan.threads:
            everyone = (*plan.tools, REFERENCE, tools.BOUND)
            processes = {tool: Process(tool, threads, Path(name), plan.patience) for tool in everyone}
            try:
                for workload, size in rows(plan):
                    try:
                        row = Row(plan, processes, workload, size, threads).measure()
                    except Failure as failure:
                        raise SystemExit(f"{workload.title} {size}: {REFERENCE} or {tools.BOUND}: {failure}") from failure
                    report["rows"].append(row)
                    show(row)
            finally:
                for process in processes.values():
                    process.stop()
    report["seconds"] = round(time.perf_counter() - started)
    return report


def rows(plan: Plan) -> Iterator[tuple[Workload, str]]:
    """The workloads with their sizes."""
    for name in plan.workloads:
        for size in workloads()[name].sizes:
            yield workloads()[name], size


class Row:
    """One workload of one size with a number of threads: who is right, and how long it takes them."""

    def __init__(self, plan: Plan, processes: dict[str, Process], workload: Workload, size: str, threads: int) -> None:
        self.plan, self.processes, self.workload, self.size, self.threads = plan, processes, workload, size, threads
        self.folder = processes[REFERENCE].folder

    def measure(self) -> dict[str, Any]:
        """The row of the report."""
        found: dict[str, dict[str, Any]] = {}
        turns: dict[str, Turns] = {}
        reference = self.first_call(self.reference())
        for form in self.contenders():
            label = form.label
            found[label] = self.checked(form, reference)
            if "failure" not in found[label]:
                turns[label] = Turns(self.processes[form.tool], self.workload.forms.index(form), self.plan)
        turns[tools.BOUND] = Turns(self.processes[tools.BOUND], 0, self.plan)
        turns[tools.BOUND].process.ask("prepare_bound", workload=self.workload.name, size=self.size, form=0)
        self.interleave(turns, found)
        for process in self.processes.values():
            with suppress(Failure):
                process.forget()
        return {"workload": self.workload.name, "title": self.workload.title, "size": self.size, "threads": self.threads,
                "bound": found.pop(tools.BOUND), "contenders": found}

    def reference(self) -> Form:
        """The gradient written by hand, on one thread."""
        return next(form for form in self.workload.forms if form.tool == REFERENCE and not form.parallel)

    def contenders(self) -> list[Form]:
        """The forms to measure, in the order of the tools."""
        wanted = [t for t in self.plan.tools if self.threads == 1 or getattr(tools.tool(t), "THREADS", True)]
        chosen = [form for form in self.workload.forms_for(self.size, self.threads) if form.tool in wanted]
        return sorted(chosen, key=lambda form: wanted.index(form.tool))

    def first_call(self, form: Form, process: Process | None = None) -> dict[str, Any]:
        """Seconds of the first call, and what it gave."""
        file = self.folder / "result.npz"
        found = (process or self.processes[form.tool]).ask("prepare", workload=self.workload.name, size=self.size,
                                                           form=self.workload.forms.index(form), result=str(file))
        with np.load(file) as results:
            return found | {"arrays": [results[name] for name in results.files]}

    def checked(self, form: Form, reference: dict[str, Any]) -> dict[str, Any]:
        """First calls and the largest difference of a contender, or why it failed."""
        adapter = tools.tool(form.tool)
        allowed = getattr(adapter, "TOLERANCE", self.workload.tolerance)
        try:
            made = reference if form == self.reference() else self.first_call(form)
            difference = distance(made["arrays"], reference["arrays"], some=getattr(adapter, "SOME", False))
            if not difference <= allowed:
                raise Failure(f"WRONG RESULT: differs by {difference:.1e}, allowed is {allowed:.0e}")
            found = {"difference": difference, "first": made["first"], "import": made["import"]}
            if self.plan.second and getattr(adapter, "SECOND", False) and self.is_first():
                found["second"] = self.second_process(form)
            return found
        except Failure as failure:
            return {"failure": str(failure)}

    def is_first(self) -> bool:
        """Whether this is the row in which first calls find empty caches."""
        return self.threads == self.plan.threads[0] and self.size == next(iter(self.workload.sizes))

    def second_process(self, form: Form) -> float:
        """Seconds of the first call in another process, with the caches that the first one filled."""
        process = Process(form.tool, self.threads, self.folder, self.plan.patience)
        try:
            return float(self.first_call(form, process)["first"])
        finally:
            process.stop()

    def interleave(self, turns: dict[str, Turns], found: dict[str, dict[str, Any]]) -> None:
        """All take turns, starting with another one each time; the value alone in every third round."""
        for number in range(self.plan.rounds):
            order = list(turns)
            first = number % len(order)
            for label in order[first:] + order[:first]:
                try:
                    turns[label].take("gradient")
                    if number % 3 == 0:
                        turns[label].take("value")
                except Failure as failure:
                    found[label] = {"failure": str(failure)}
                    del turns[label]
        for label, taken in turns.items():
            try:
                found[label] = found.get(label, {}) | taken.summary()
            except Failure as failure:
                found[label] = {"failure": str(failure)}


def distance(got: list[np.ndarray], wanted: list[np.ndarray], *, some: bool = False) -> float:
    """The largest |a - b| / max(1, |a| + |b|) over the value and all gradients; of a tool that computes `some` entries,
    over those that are not NaN."""
    if [a.shape for a in got] != [b.shape for b in wanted]:
        return float("inf")
    a, b = (np.concatenate([part.ravel() for part in parts]) for parts in (got, wanted))
    gap = np.abs(a - b) / np.maximum(1.0, np.abs(a) + np.abs(b))
    return float(np.max(gap[~np.isnan(a)] if some else np.where(np.isnan(gap), np.inf, gap)))


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """Of the packages that took part."""
    packages = {tools.tool(name).PACKAGE for name in names} | {"numpy", "numba"}
    return {package: importlib.metadata.version(package) if package != "adcompile" else adcompile.__version__
            for package in sorted(packages)}


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
