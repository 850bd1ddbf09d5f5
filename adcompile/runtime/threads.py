"""Kernels whose loops are shared by threads.

The machine code releases Python's lock, so plain Python threads do: no second way of compiling, nothing that breaks when
several threads of the user call at once or when the process forks, and results that depend on the number of threads alone.
A hand-over costs some tens of microseconds, so that calls with little to do stay on one thread.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from numba import config, typeof

from ..ir.dims import Dim
from .compile import GeneratedModule

ENOUGH = 5_000_000          # rough operations (see schedule/threads.py) that are worth sharing
LOCK = threading.RLock()
POOLS: dict[int, ThreadPoolExecutor] = {}


def fresh_pools() -> None:
    """In a forked child: the parent's threads are not here."""
    global LOCK
    LOCK = threading.RLock()
    POOLS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=fresh_pools)


def thread_count(parallel: Any) -> int:
    """How many threads `parallel` means: `False` one, a number that many, else what numba takes (NUMBA_NUM_THREADS, or
    the cores that this process may use)."""
    if parallel is False:
        return 1
    settings: Any = config
    return settings.NUMBA_NUM_THREADS if parallel is True or parallel == "auto" else int(parallel)


def run(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Make all calls at the same time, the first in this thread; their results in order. What a call raises is raised when
    all have ended, for they write into the same arrays."""
    futures: list[Future[Any]] = [pool(len(calls) - 1).submit(function, *call) for call in calls[1:]]
    try:
        first = function(*calls[0])
    finally:
        wait(futures)
    return [first, *(f.result() for f in futures)]


def pool(workers: int) -> ThreadPoolExecutor:
    """The threads that help; made once for each number of them."""
    found = POOLS.get(workers)
    if found is None:
        with LOCK:
            found = POOLS.setdefault(workers, ThreadPoolExecutor(workers, thread_name_prefix="adcompile"))
    return found


@dataclass(eq=False)
class Sharing:
    """How threads share the work of big calls. `work`: rough operations, as a polynomial in the sizes; `make`: gives the
    module that does it, when first needed."""

    work: Dim
    make: Callable[[], ThreadedModule]

    @cached_property
    def module(self) -> ThreadedModule:
        """The module; its pieces are compiled when they first run."""
        return self.make()

    def is_worth(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call of these sizes has enough to do."""
        return all(s in sizes for s in self.work.symbols) and self.work.evaluate(sizes) >= ENOUGH

    def small_text(self, where: Mapping[str, str]) -> str:
        """The opposite as a Python expression, given where each size is read. It looks at the terms of highest degree alone:
        a call reads few numbers."""
        if not self.work.symbols <= set(where):
            return "True"                               # a size that is computed: no call is known to have enough to do
        degree = max((len(monomial) for monomial, _ in self.work.terms), default=0)
        most = Dim(tuple(t for t in self.work.terms if len(t[0]) == degree))
        text = re.sub(r"[A-Za-z_]\w*", lambda m: where[m.group()], str(most))
        return f"{text} < {ENOUGH}"


class Piece:
    """A numba function of a module, compiled (or loaded from disk) at its first call for the types of its arguments."""

    def __init__(self, module: GeneratedModule, name: str) -> None:
        self.module, self.name = module, name
        self.compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        if self.compiled is None:
            with LOCK:
                self.compiled = self.compiled or self.module.exact(self.name, tuple(map(typeof, args)))
        return self.compiled(*args)


class ThreadedModule(GeneratedModule):
    """A module of pieces with the function that runs them; called as a kernel is, gradient buffers last."""

    def __init__(self, source: str, name: str, *, cache: bool, threads: int) -> None:
        super().__init__(source, name, cache=cache)
        self.threads = threads
        pieces = {n: Piece(self, n) for n, f in vars(self.module).items() if hasattr(f, "py_func")}
        driver = vars(self.module)[f"{name}_threads"]
        self.driver = FunctionType(driver.__code__, {**vars(self.module), **pieces})

    def __call__(self, *params_and_buffers: Any) -> Any:
        """Run it: value, gradients in the buffers."""
        return self.driver(*params_and_buffers, self.threads, run)
