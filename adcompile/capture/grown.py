"""Lists that grow in traced loops: a buffer for each number or array in an item, and how much of it is filled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import CaptureError
from .symint import SymInt, unroll_count
from .trace import Trace
from .tracer import Tracer
from .where import user_location

if TYPE_CHECKING:
    from .state import LeafType, Spec


class GrownList:
    """A list of items of one structure. `start`: the number of items before this turn of the loop that fills it (after the
    loop: of all items); `added`: how many this turn has appended."""

    def __init__(self, trace: Trace, spec: Spec, types: list[LeafType], buffers: list[Tracer], start: Any) -> None:
        self.trace, self.spec, self.types, self.buffers, self.start = trace, spec, types, buffers, start
        self.added: Any = 0
        self.growing = True

    @property
    def length(self) -> Any:
        """The number of items now."""
        return self.start if isinstance(self.added, int) and self.added == 0 else self.start + self.added

    def append(self, item: Any) -> None:
        """`list.append`."""
        from .state import flatten, leaf_operand, same_structure

        leaves: list[Any] = []
        if not self.growing or not same_structure(flatten(item, leaves), self.spec):
            raise CaptureError(
                "a list that grows in a traced loop gets items of different kinds, or grows outside of that loop too",
                user_location(),
                "store into an array made with np.zeros instead",
            )
        for buffer, leaf, type in zip(self.buffers, leaves, self.types, strict=True):
            value = leaf_operand(self.trace, leaf, type)
            buffer[self.length] = Tracer(self.trace, value)
        self.added = self.added + 1

    def place(self, index: Any) -> Any:
        """An index counted from the start."""
        if isinstance(index, int) and index < 0:
            return self.length + index
        return index

    def __getitem__(self, index: Any) -> Any:
        from .state import build

        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        place = self.place(index)
        leaves = [
            Tracer(self.trace, buffer[place].value, type.weak) for buffer, type in zip(self.buffers, self.types, strict=True)
        ]
        return build(self.spec, iter(leaves))

    def __setitem__(self, index: Any, item: Any) -> None:
        from .state import flatten

        leaves: list[Any] = []
        flatten(item, leaves)
        for buffer, leaf in zip(self.buffers, leaves, strict=True):
            buffer[self.place(index)] = leaf

    def __len__(self) -> int:
        return int(self.length)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.length, Tracer):
            raise CaptureError("a list is iterated over while a traced loop fills it", user_location(), "use an array")
        return (self[k] for k in range(unroll_count(self.trace, self.length, "a list that a traced loop filled")))

    def __add__(self, other: Any) -> Any:
        return list(self) + list(other)

    def __radd__(self, other: Any) -> Any:
        return list(other) + list(self)

    def array(self) -> Any:
        """All items as one array, as `np.array(list)` gives it."""
        import numpy as np

        if not isinstance(self.length, (int, SymInt)):
            raise CaptureError(
                "a list is turned into an array while a traced loop fills it", user_location(), "do it after the loop"
            )
        if self.spec[0] == "leaf":
            return self.buffers[0].fresh()
        return self.trace.apply(np.stack, (self.columns(self.spec, iter(self.buffers)),), {"axis": 1})

    def columns(self, spec: Spec, buffers: Iterator[Tracer]) -> Any:
        """The buffers in the structure of an item, which must be a tuple or a list of numbers or arrays."""
        if spec[1] is not None or any(part[0] != "leaf" for part in spec[2]):
            raise CaptureError(
                "a list of structures that a traced loop filled is turned into an array",
                user_location(),
                "append numbers, arrays or tuples of numbers",
            )
        return list(buffers)
