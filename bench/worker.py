"""The process of one tool: `python -m bench.worker TOOL` answers requests, one JSON object a line, until its input ends.

A process of its own gives every tool the number of threads that all have, its own libraries, and a memory that can be measured;
the driver (`run.py`) lets the processes take turns.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import timeit
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import tools
from .workload import workloads


class Worker:
    """Holds the contenders of one workload and size, by the numbers of their forms."""

    def __init__(self, tool: str) -> None:
        self.module = tools.tool(tool)
        start = time.perf_counter()
        importlib.import_module(self.module.PACKAGE)
        self.import_seconds = time.perf_counter() - start
        self.contenders: dict[int, tools.Contender] = {}
        self.repetitions: dict[tuple[int, str], int] = {}

    def prepare(self, workload: str, size: str, form: int, result: str) -> dict[str, float]:
        """Build a contender and call it for the first time; what it gives goes to the file `result`."""
        task = workloads()[workload]
        problem = task.problem(size)
        start = time.perf_counter()
        contender = self.module.build(task.forms[form], problem, task)
        contender.gradient(*contender.args)
        seconds = time.perf_counter() - start
        value, gradients = contender.arrays(contender.gradient(*contender.args))        # a second call must be right, too
        np.savez(result, value=value, **{f"g{i}": np.asarray(g) for i, g in enumerate(gradients)})
        self.contenders[form] = contender
        return {"import": self.import_seconds, "first": seconds}

    def prepare_bound(self, workload: str, size: str, form: int) -> None:
        """As `prepare`, for what only moves the workload's bytes and only does its arithmetic."""
        task = workloads()[workload]
        contender = self.module.build(task.problem(size), task.flops(**task.sizes[size]) if task.flops else 0)
        contender.gradient()
        self.contenders[form] = contender

    def turn(self, form: int, what: str, seconds: float) -> float | None:
        """Seconds a call, in a loop that fills this time; None: the tool has no such thing."""
        contender = self.held(form)
        call = getattr(contender, what)
        if call is None:
            return None
        timer = loop(call, contender.args)
        spent = timer.timeit(1)                                             # what another process pushed out of the caches
        if (form, what) not in self.repetitions:
            self.repetitions[form, what] = repetitions(timer, seconds)
        number = self.repetitions[form, what]
        if number > 1 or spent < seconds:
            spent = timer.timeit(number) / number
        return spent * (contender.scale if what == "gradient" else 1.0)

    def memory(self, form: int) -> int | None:
        """Bytes that a call takes beyond what the process holds already; None where the system does not say."""
        contender = self.held(form)
        gc.collect()
        try:
            Path("/proc/self/clear_refs").write_text("5")                   # resets the peak
        except OSError:
            return None
        before = status("VmRSS")
        contender.gradient(*contender.args)
        return status("VmHWM") - before

    def held(self, form: int) -> tools.Contender:
        """A contender that was prepared."""
        if form not in self.contenders:
            raise LookupError("it was lost when another form of this tool ended the process")
        return self.contenders[form]

    def drop(self) -> None:
        """Forget the contenders."""
        self.contenders, self.repetitions = {}, {}
        gc.collect()


def status(field: str) -> int:
    """A line of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def loop(call: Callable[..., Any], args: Any) -> timeit.Timer:
    """A loop around `call(*args)` with nothing else in it."""
    names = [f"a{i}" for i in range(len(args))]
    return timeit.Timer(f"f({', '.join(names)})", globals={"f": call, **dict(zip(names, args, strict=True))})


def repetitions(timer: timeit.Timer, seconds: float) -> int:
    """How many calls fill this time."""
    number = 1
    while True:
        spent = timer.timeit(number)
        if spent > seconds / 4:
            return max(1, round(number * seconds / spent))
        number *= 4


def serve(tool: str) -> None:
    """Answer until the input ends. What libraries print goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            worker = worker or Worker(tool)
            answer = {"answer": getattr(worker, request.pop("do"))(**request)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".strip()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
