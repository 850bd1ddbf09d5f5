"""`python -m adcompile doctor`: what this machine has, and whether the compiler works on it."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from .api import compile_grad
from .runtime import cache
from .version import __version__

CONFIG: Any = numba.config                   # its attributes are set when it is imported
VECTORS = ("sse4.2", "avx", "avx2", "fma", "avx512f", "neon", "sve")


class Finding(NamedTuple):
    """One line of the report. `ok` is None for what is neither good nor bad."""

    what: str
    found: str
    ok: bool | None = None


def examine(console: Console) -> int:
    """Print the findings; 1 if one of them is a problem, else 0."""
    findings = [*versions(), *processor(), *cache_folder(), *tiny_compile()]
    table = Table(box=None, padding=(0, 1), show_header=False)
    for finding in findings:
        mark = {None: "", True: "[green]ok[/]", False: "[bold red]problem[/]"}[finding.ok]
        table.add_row(f"[bold]{finding.what}[/]", finding.found, mark)
    console.print(table, highlight=False)
    return int(any(finding.ok is False for finding in findings))


def versions() -> list[Finding]:
    """Python and the packages that matter."""
    packages = [Finding(name, version(name)) for name in ("numpy", "numba", "llvmlite", "scipy", "sympy")]
    return [Finding("adcompile", f"{__version__} in {Path(__file__).parent}"),
            Finding("python", f"{sys.version.split()[0]} on {platform.platform()}"), *packages,
            Finding("numba's compiler", "switched off by NUMBA_DISABLE_JIT" if CONFIG.DISABLE_JIT else "on",
                    not CONFIG.DISABLE_JIT)]


def processor() -> list[Finding]:
    """What machine code is made for."""
    features = llvm.get_host_cpu_features()
    vectors = [name for name in VECTORS if features.get(name)]
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [Finding("processor", f"{processor_name()} (LLVM: {llvm.get_host_cpu_name()})"),
            Finding("vector features", " ".join(vectors) or "none that are known here"),
            Finding("threads", f"{usable} usable cores, numba uses {CONFIG.NUMBA_NUM_THREADS}; kernels run on one")]


def processor_name() -> str:
    """The processor's own name for itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def cache_folder() -> list[Finding]:
    """Where machine code is kept, whether it is private, and whether an entry that is written can be read."""
    info = cache.info()
    where = Finding("cache", f"{info.folder}: {info.entries} kernels, {info.bytes / 1e6:.1f} MB")
    if info.problem:
        return [where, Finding("cache is private", f"{info.problem}; it is not used, every process compiles anew", False)]
    key = cache.Key(f"doctor {os.getpid()} {time.time_ns()}")
    cache.write_entry(key, b"written")
    works = cache.read_entry(key) == b"written"
    (info.folder / key.filename).unlink(missing_ok=True)
    return [where, Finding("cache is private", "belongs to this user, and nobody else may write it", True),
            Finding("cache is writable", "an entry was written and read" if works else "an entry could not be written", works)]


def tiny_compile() -> list[Finding]:
    """Compile a function of one vector without the cache, and compare with what is known."""
    def tiny(x: np.ndarray) -> Any:
        return np.sum(np.sin(x) ** 2)

    x = np.linspace(-1.0, 1.0, 7)
    started = time.perf_counter()
    try:
        value, gradient = compile_grad(tiny, cache=False)(x)
    except Exception as error:               # whatever stops it is what the user must see
        return [Finding("tiny compile", f"{type(error).__name__}: {error}", False)]
    right = bool(np.isclose(value, tiny(x), 1e-14) and np.allclose(gradient, np.sin(2 * x), 1e-14))
    seconds = time.perf_counter() - started
    return [Finding("tiny compile", f"{seconds:.2f} s; value and gradient are {'right' if right else 'WRONG'}", right)]
