"""Memory of traced arrays. An array is a `Cell` (what it holds now) and a path of views into it, as in NumPy: a slice, a
transpose or a reshape of an array reads and writes the same cell. A store gives the cell a new SSA value."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CaptureError
from ..ir.core import Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.types import DType, Type
from ..library.core import as_value, broadcast_to, cast, dims_of, emit, permuted, reshape_to, shape_error, shape_text, sizes

if TYPE_CHECKING:
    from .trace import Trace

VIEW_OPS = frozenset({"reshape", "transpose", "slice", "gather"})


@dataclass(frozen=True)
class Lost:
    """What a cell holds when its contents depend on which arrays share memory, which is not known."""

    why: str


class Cell:
    """The memory of one array. `relatives`: cells that may be the same memory, in a way that is not known at capture."""

    __slots__ = ("__weakref__", "born", "contents", "reads", "relatives")

    def __init__(self, contents: Operand | Lost, born: int) -> None:
        self.contents, self.born = contents, born
        self.relatives: weakref.WeakSet[Cell] = weakref.WeakSet()

    def relate(self, other: Cell) -> None:
        """Note that two cells may be the same memory."""
        if other is not self:
            self.relatives.add(other)
            other.relatives.add(self)

    def relate_older(self, other: Cell, born: int) -> None:
        """Note that this may be the same memory as another one, and as what that may be the same as, if older than `born`."""
        for cell in (other, *other.relatives):
            if cell.born < born:
                self.relate(cell)


@dataclass(frozen=True)
class Step:
    """One view taken of an array: an op of the table, its operands after the array, its attributes."""

    op: str
    operands: tuple[Operand, ...]
    attributes: Any

    @property
    def sizes(self) -> list[Dim]:
        """The sizes in its attributes."""
        return [d for a in self.attributes.values() if isinstance(a, tuple) for d in a if isinstance(d, Dim)]


Path = tuple[Step, ...]


def path_to(result: Operand, start: Operand, operations: Sequence[Operation]) -> Path | None:
    """The views that lead from `start` to `result` by these operations; None where `result` is not a view."""
    producers = {y: operation for operation in operations for y in operation.results}
    steps: list[Step] = []
    while result is not start:
        operation = producers.get(result) if isinstance(result, Value) else None
        if operation is None or operation.op not in VIEW_OPS:
            return None
        steps.append(Step(operation.op, operation.operands[1:], operation.attributes))
        result = operation.operands[0]
    return tuple(reversed(steps))


def is_view(path: Path) -> bool:
    """Whether NumPy gives a view for this path: no index arrays."""
    return all(step.op != "gather" or not any(i.type.dims for i in step.operands) for step in path)


def shares_memory(path: Path, root: Type, trace: Trace) -> bool:
    """Whether NumPy can take these views without copying, which reshaping may need."""
    order = [step.op for step in path]
    if "reshape" not in order or not set(order[: order.index("reshape")] + order[order.index("reshape") + 1 :]) & {
        "slice",
        "transpose",
    }:
        return True
    array = np.empty([trace.sizes.estimate(d) for d in root.dims], np.bool_)
    view: Any = array
    for step in path:
        a = {k: evaluated(v, trace) for k, v in step.attributes.items()}
        if step.op == "reshape":
            view = np.reshape(view, a["dims"])
        elif step.op == "transpose":
            view = np.transpose(view, a["permutation"])
        elif step.op == "slice":
            view = np.lib.stride_tricks.as_strided(
                view, a["dims"], [s * t for s, t in zip(a["steps"], view.strides, strict=True)]
            )
        else:
            view = view[tuple(0 if k in a["axes"] else slice(None) for k in range(view.ndim))]
    return view.size == 0 or bool(np.may_share_memory(view, array))


def evaluated(attribute: Any, trace: Trace) -> Any:
    """An attribute with the sizes that are likely now."""
    if isinstance(attribute, tuple):
        return tuple(evaluated(a, trace) for a in attribute)
    return trace.sizes.estimate(attribute) if isinstance(attribute, Dim) else attribute


def follow(root: Operand, path: Path) -> Operand:
    """The view of a value."""
    for step in path:
        root = emit(step.op, root, *step.operands, **step.attributes)
    return root


# --------------------------------------------------------------------------------------------------------- writing
@dataclass
class Axis:
    """How one axis of the root is reached: by one index, or by start + step * j, where j is an axis of the view."""

    index: Operand | None = None
    start: Dim = field(default_factory=lambda: Dim.of(0))
    step: int = 1
    dim: Dim = field(default_factory=lambda: Dim.of(1))
    place: int | None = None  # the view's axis; None: a single entry


class Places:
    """The entries of a root array that a view shows, axis by axis."""

    def __init__(self, root: Type) -> None:
        self.root = root
        self.axes = [Axis(dim=d, place=k) for k, d in enumerate(root.dims)]
        self.shape: tuple[Dim, ...] = root.dims

    def add(self, step: Step) -> bool:
        """Take another view; False where it has no such form."""
        method = getattr(self, f"add_{step.op}")
        done: bool = method(step)
        return done

    def at(self, place: int) -> Axis | None:
        return next((a for a in self.axes if a.place == place), None)

    def add_slice(self, step: Step) -> bool:
        starts, steps, dims = (step.attributes[k] for k in ("starts", "steps", "dims"))
        for k, (start, stride, dim) in enumerate(zip(starts, steps, dims, strict=True)):
            axis = self.at(k)
            if axis is None:
                if dim.constant != 1 or start.constant != 0:
                    return False
                continue
            axis.start, axis.step, axis.dim = axis.start + start * axis.step, axis.step * stride, dim
        self.shape = dims
        return True

    def add_transpose(self, step: Step) -> bool:
        order = step.attributes["permutation"]
        for axis in self.axes:
            if axis.place is not None:
                axis.place = order.index(axis.place)
        self.shape = tuple(self.shape[k] for k in order)
        return True

    def add_reshape(self, step: Step) -> bool:
        dims = step.attributes["dims"]
        kept = [k for k, d in enumerate(self.shape) if d.constant != 1]
        new = [k for k, d in enumerate(dims) if d.constant != 1]
        if [self.shape[k] for k in kept] != [dims[k] for k in new]:
            return False
        moved = dict(zip(kept, new, strict=True))
        for axis in self.axes:
            axis.place = None if axis.place is None else moved.get(axis.place)
        self.shape = dims
        return True

    def add_gather(self, step: Step) -> bool:
        axes = step.attributes["axes"]
        if any(i.type.dims for i in step.operands):
            return False
        for k, index in zip(axes, step.operands, strict=True):
            axis = self.at(k)
            if axis is None:
                return False
            if axis.step != 1:
                index = emit("mul", index, Literal(axis.step, DType.i64))
            if axis.start.constant != 0:
                index = emit("add", index, as_value(axis.start))
            axis.index, axis.place = index, None
        left = [k for k in range(len(self.shape)) if k not in axes]
        for axis in self.axes:
            axis.place = None if axis.place is None else left.index(axis.place)
        self.shape = tuple(self.shape[k] for k in left)
        return True

    def write(self, root: Operand, update: Operand) -> Operand:
        """The root with the update in these places."""
        indexed = tuple(k for k, a in enumerate(self.axes) if a.index is not None)
        sliced = [a for a in self.axes if a.index is None]
        dims = tuple(a.dim for a in sliced)
        if update.type.dims:
            order = [a.place for a in sliced if a.place is not None]
            order += [k for k in range(len(self.shape)) if k not in order]  # new axes of length 1
            update = reshape_to(permuted(update, order), dims)
        indices = tuple(a.index for a in self.axes if a.index is not None)
        full = all(
            a.start.constant == 0 and a.step == 1 and sizes().resolve(a.dim) == sizes().resolve(d)
            for a, d in zip(self.axes, self.root.dims, strict=True)
            if a.index is None
        )
        if full and not indexed:
            return reshape_to(update, self.root.dims)
        result: Operand
        if full:
            result = emit("scatter_set", root, *indices, update, axes=indexed)
        else:
            result = emit(
                "slice_set",
                root,
                *indices,
                update,
                axes=indexed,
                starts=tuple(a.start for a in sliced),
                steps=tuple(a.step for a in sliced),
                dims=dims,
            )
        return result

    def element(self) -> tuple[tuple[int, ...], tuple[Operand, ...]] | None:
        """The axes and indices, if all other axes are taken whole and there is at least one index."""
        indexed = tuple(k for k, a in enumerate(self.axes) if a.index is not None)
        whole = all(
            a.place == n and a.start.constant == 0 and a.step == 1 and sizes().resolve(a.dim) == sizes().resolve(d)
            for n, (a, d) in enumerate((a, d) for a, d in zip(self.axes, self.root.dims, strict=True) if a.index is None)
        )
        return (indexed, tuple(a.index for a in self.axes if a.index is not None)) if whole and indexed else None


def places_of(root: Type, path: Path) -> Places | None:
    """The places that a path of views leads to; None where reshapes or index arrays make them irregular."""
    places = Places(root)
    return places if all(places.add(step) for step in path) else None


def written(root: Operand, path: Path, update: Operand) -> Operand:
    """The root with the view at `path` replaced by an update (of the view's shape, or one number for all of it)."""
    places = places_of(root.type, path)
    if places is not None:
        return places.write(root, update)
    first, rest = path[0], path[1:]
    inner = emit(first.op, root, *first.operands, **first.attributes)
    if rest:
        update = written(inner, rest, update)
    if first.op == "reshape":
        return reshape_to(update, root.type.dims)
    if first.op == "transpose":
        order = first.attributes["permutation"]
        return permuted(broadcast_to(update, dims_of(inner)), [order.index(k) for k in range(len(order))])
    if first.op == "slice":
        return emit("slice_set", root, update, axes=(), **first.attributes)  # type: ignore[no-any-return]
    result: Operand = emit("scatter_set", root, *first.operands, update, axes=first.attributes["axes"])
    return result


def fitted(value: Any, wanted: Type) -> Operand:
    """What is assigned, in the dtype of the array and broadcast to the shape of the places."""
    operand = as_value(value)
    if operand.type.dtype.is_complex and not wanted.dtype.is_complex:
        raise CaptureError("a complex number is stored into an array of real numbers")
    operand = cast(operand, wanted.dtype)
    have = list(dims_of(operand))
    while len(have) > wanted.rank and have[0].constant == 1:
        have = have[1:]
    if len(have) > wanted.rank:
        raise shape_error(
            f"could not broadcast input array from shape {shape_text(dims_of(operand))} into shape {shape_text(wanted.dims)}"
        )
    if isinstance(operand, Literal) or not operand.type.dims and not wanted.dims:
        return operand
    return broadcast_to(reshape_to(operand, have) if operand.type.dims else operand, wanted.dims)
