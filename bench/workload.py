"""What a workload is: inputs from a seed, and the same function as the users of each tool would write it."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Problem:
    """Arguments by name, in the function's order, and the names of those to differentiate."""

    args: dict[str, Any]
    wrt: tuple[str, ...]

    @property
    def values(self) -> tuple[Any, ...]:
        """The arguments in order."""
        return tuple(self.args.values())

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the arguments to differentiate stand."""
        return tuple(list(self.args).index(name) for name in self.wrt)

    @property
    def parameters(self) -> list[np.ndarray]:
        """The arguments to differentiate."""
        return [np.asarray(self.args[name], dtype=float) for name in self.wrt]

    @property
    def bytes(self) -> tuple[int, int]:
        """What any program must read (the arrays that come in) and write (the gradient)."""
        return sum(np.asarray(a).nbytes for a in self.args.values()), sum(p.nbytes for p in self.parameters)


@dataclass(frozen=True)
class Form:
    """A function in the form of one tool. What its adapter in `tools/` expects is written there."""

    tool: str
    function: Function
    variant: str = ""
    sizes: tuple[str, ...] = ()         # the sizes that it can do; none: all
    parallel: bool = False              # for several threads, where the plain form uses one

    @property
    def label(self) -> str:
        """Its column: "jax", or "adcompile, loops"."""
        return f"{self.tool}, {self.variant}" if self.variant else self.tool


@dataclass
class Workload:
    """One row of the tables for each size.

    `sizes` has the arguments of the function `inputs`; `tiny` those of a size for tests. `numpy_boundary`: a call takes and
    gives NumPy arrays, as an optimizer calls it; without, every tool has its own arrays before the clock starts. `tolerance`:
    of |a - b| / max(1, |a| + |b|). `flops`: additions and multiplications that the value and gradient of a size need, an
    exp or log counted as ten.
    """

    title: str
    wrt: tuple[str, ...]
    sizes: dict[str, dict[str, Any]]
    tiny: dict[str, Any]
    flops: Function | None = None
    numpy_boundary: bool = False
    tolerance: float = 1e-8
    forms: list[Form] = field(default_factory=list)
    make: Function | None = None
    inside: Function | None = None
    name: str = ""

    def inputs(self, function: Function) -> Function:
        """Decorates the function that makes the arguments: `inputs(rng, **size) -> {name: array or number}`."""
        self.make = function
        return function

    def user_code(self, function: Function) -> Function:
        """Decorates a function that puts the compiled gradient into a user's own numba function, which is timed then."""
        self.inside = function
        return function

    def form(self, *tools: str, variant: str = "", sizes: tuple[str, ...] = (), parallel: bool = False) -> Function:
        """Decorates the function as it is written for these tools. adcompile's first form is that of finite differences, too."""
        def register(function: Function) -> Function:
            self.forms.extend(Form(tool, function, variant, sizes, parallel) for tool in tools)
            if "adcompile" in tools and not self.inside and all(form.tool != "numpy_fd" for form in self.forms):
                self.forms.append(Form("numpy_fd", function))
            return function
        return register

    def problem(self, size: str) -> Problem:
        """The inputs of a size, the same in every process; size "tiny" is for tests."""
        assert self.make is not None
        parameters = self.tiny if size == "tiny" else self.sizes[size]
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {size}".encode()))
        return Problem(self.make(rng, **parameters), self.wrt)

    def forms_for(self, size: str, threads: int) -> Iterator[Form]:
        """The forms that can do this size: one of each tool and variant, the parallel one where there is a choice."""
        able = [form for form in self.forms if not form.sizes or size in form.sizes]
        parallel = {form.label for form in able if form.parallel} if threads > 1 else set()
        for form in able:
            if form.parallel == (form.label in parallel):
                yield form


@cache
def workloads() -> dict[str, Workload]:
    """All workloads by the names of their files."""
    package = importlib.import_module("bench.workloads")
    found = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        workload: Workload = importlib.import_module(f"bench.workloads.{module.name}").workload
        workload.name = module.name
        found[module.name] = workload
    return found
