"""What every view of a function starts from: its stages, and (where arguments were given) the values of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..ir.core import Function
from ..ir.signature import leaves
from ..optimize.marks import erase_marks
from ..pipeline import Compiled

PRIMAL = "dce primal"               # the pass after which loops are still the user's and nothing is there that nothing reads


@dataclass(frozen=True)
class View:
    """The stages of a compiled function. `values`: its parameters in one call, None where only types are known."""

    compiled: Compiled
    values: tuple[Any, ...] | None = None

    @staticmethod
    def of_call(compiled: Compiled, arguments: Mapping[str, Any]) -> View:
        """With the values that a call with these arguments reads."""
        return View(compiled, tuple(each.access.read(arguments) for each in compiled.signature.inputs))

    @property
    def name(self) -> str:
        """The function's name."""
        return self.compiled.signature.name

    @cached_property
    def function(self) -> Function:
        """The primal graph as it was captured."""
        found: Function = next(s.value for s in self.compiled.stages if s.name == PRIMAL)
        return erase_marks(found, ("named",))

    @property
    def wrt(self) -> tuple[int, ...]:
        """The parameters that are differentiated."""
        trees = self.compiled.signature.wrt if self.compiled.options.gradient else ()
        return tuple(i for tree in trees for i in leaves(tree))

    @property
    def results(self) -> tuple[int, ...]:
        """The results that are differentiated: the first, where there is a gradient; else all."""
        return (0,) if self.compiled.options.gradient else tuple(range(len(self.function.results)))
