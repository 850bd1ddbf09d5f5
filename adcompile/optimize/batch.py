"""Batching rules: what an op becomes when its operands get a new first axis.

A `Batch` runs the operations of a block once for all turns of a loop (or all entries of a batch). Each value of the block
is known as one of

    Uniform(x)           the same in every turn: x itself, computed once
    Along(x)             x has a new first axis, along which the turns' values lie
    Index(start, step)   the integer start + step * turn, which no array needs to hold

An operation on uniform operands is emitted as it is; for others `RULES` says what is emitted. An argument that starts as
`Uniform` is what vmap calls in_axes=None, one that starts as `Along` is in_axes=0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeGuard, Union

from ..ir.analysis import all_values, renamed
from ..ir.builder import Builder
from ..ir.core import Block, Function, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.op import TABLE
from ..ir.rebuild import copy_block
from ..ir.types import DType

ZERO, ONE = Dim.of(0), Dim.of(1)


class NotBatchable(Exception):
    """The block holds an operation that has no batched form."""


@dataclass(frozen=True)
class Uniform:
    """The same value in every turn."""

    value: Operand


@dataclass(frozen=True)
class Along:
    """The turns' values along a new first axis."""

    value: Value


@dataclass(frozen=True)
class Index:
    """The integer `start + step * turn`; step is not 0."""

    start: Dim
    step: int


Entry = Union[Uniform, Along, Index]


class Batch:
    """One block, run for `count` turns at once; emits into `builder`."""

    def __init__(self, builder: Builder, count: Dim) -> None:
        self.builder, self.count = builder, count
        self.entries: dict[Value, Entry] = {}
        self.wishes: dict[Value, str] = {}              # new values -> the names of those that they stand for

    # ------------------------------------------------------------------------------------------------ values
    def entry(self, x: Operand) -> Entry:
        """What is known of an operand; values from outside the block are uniform."""
        return self.entries.get(x, Uniform(x)) if isinstance(x, Value) else Uniform(x)

    def emit(self, op: str, *operands: Operand, **attributes: Any) -> Value:
        """Emit an op with a single result."""
        if op == "contract":
            attributes = in_order(**attributes)
        result: Value = self.builder.emit(op, operands, attributes)
        return result

    def spread(self, x: Operand, dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Value:
        """Broadcast, unless nothing changes."""
        if isinstance(x, Value) and self.dims(x) == self.resolved(dims):
            return x
        return self.emit("broadcast", x, dims=dims, axes=axes)

    def resolved(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Dims after all unifications."""
        return tuple(map(self.builder.sizes.resolve, dims))

    def dims(self, x: Operand) -> tuple[Dim, ...]:
        """The dims of an operand after all unifications."""
        return self.resolved(x.type.dims)

    def move(self, x: Value, source: int, target: int) -> Value:
        """x with one axis moved to another place."""
        order = [k for k in range(x.type.rank) if k != source]
        order.insert(target, source)
        return x if source == target else self.emit("transpose", x, permutation=tuple(order))

    def scalar(self, dim: Dim) -> Operand:
        """A size as a value."""
        return self.emit("size", dim=dim) if dim.constant is None else Literal(dim.constant, DType.i64)

    def along(self, entry: Entry, dims: tuple[Dim, ...]) -> Value:
        """An entry as an array with the new axis first. `dims`: those of one turn's value."""
        if isinstance(entry, Along):
            return entry.value
        wanted = (self.count, *dims)
        if isinstance(entry, Uniform):
            own = entry.value.type.rank
            return self.spread(entry.value, wanted, tuple(range(1, 1 + own)))
        result = self.emit("iota", dim=self.count, dtype=DType.i64)
        if entry.step != 1:
            result = self.emit("mul", result, Literal(entry.step, DType.i64))
        if entry.start != ZERO:
            start = self.scalar(entry.start)
            result = self.emit("add", result, start if isinstance(start, Literal) else self.spread(start, wanted, ()))
        return result

    def pointwise(self, op: str, entries: Sequence[Entry], dims: tuple[Dim, ...], attributes: Mapping[str, Any]) -> Entry:
        """A pointwise op; literals need no axis."""
        if all(isinstance(e, Uniform) for e in entries):
            return Uniform(self.emit(op, *(e.value for e in entries if isinstance(e, Uniform)), **attributes))
        operands = [e.value if is_literal(e) else self.along(e, dims) for e in entries]
        return Along(self.emit(op, *operands, **attributes))

    # ------------------------------------------------------------------------------------------------ operations
    def affine(self, x: Value) -> Index | None:
        """The value as an Index, where it is known to be one; for subclasses that know more than operations say."""
        return None

    def run(self, operations: Sequence[Operation]) -> None:
        """Batch operations in order."""
        for operation in operations:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        """Batch one operation: from now on its results have entries."""
        outer, self.builder.location = self.builder.location, operation.location
        known = self.affine(operation.results[0]) if len(operation.results) == 1 else None
        if known is not None:
            self.entries[operation.result] = known
        else:
            self.compute(operation)
        self.builder.location = outer

    def compute(self, operation: Operation) -> None:
        """Batch one operation by its rule."""
        if operation.regions:
            results = self.control(operation)
        else:
            entries = [self.entry(x) for x in operation.operands]
            results = [self.batched(operation, entries)]
        for old, new in zip(operation.results, results, strict=True):
            self.entries[old] = new
            if not isinstance(new, Index) and isinstance(new.value, Value):
                self.wishes.setdefault(new.value, old.name)

    def batched(self, operation: Operation, entries: Sequence[Entry]) -> Entry:
        """The entry of an operation's only result."""
        op, attributes = operation.op, operation.attributes
        if all(isinstance(e, Uniform) for e in entries) and self.may_leave(operation):
            return Uniform(self.emit(op, *(e.value for e in entries if isinstance(e, Uniform)), **attributes))
        rule = RULES.get(op)
        if rule is not None:
            return Along(rule(self, operation, entries))
        row = TABLE[op]
        if row.code is None and row.kind != "elementwise" and op not in POINTWISE:
            raise NotBatchable(op)
        dims = operation.result.type.dims
        every = all(map(is_literal, entries))
        operands = [e.value if is_literal(e) and not every else self.along(e, dims) for e in entries]
        return Along(self.emit(op, *operands, **attributes))

    def may_leave(self, operation: Operation) -> bool:
        """Whether a uniform operation may be done once, even if there is no turn at all."""
        return True

    def control(self, operation: Operation) -> list[Entry]:
        """An operation with regions: as it is where it is uniform; a cond of batched branches where its predicate is."""
        operands = [self.entry(x) for x in operation.operands]
        if not all(isinstance(e, Uniform) for e in operands) or not self.may_leave(operation):
            raise NotBatchable(operation.op)
        values = {x: e.value for x, e in self.entries.items() if isinstance(e, Uniform)}
        varying = {x for x, e in self.entries.items() if not isinstance(e, Uniform)}
        inputs = tuple(e.value for e in operands if isinstance(e, Uniform))
        if not any(reads(region, varying) for region in operation.regions):
            regions = tuple(self.fresh_names(copy_block(r, dict(values))) for r in operation.regions)
            results = self.builder.emit(operation.op, inputs, operation.attributes, regions=regions)
            return [Uniform(x) for x in (results if isinstance(results, tuple) else (results,))]
        if operation.op != "cond":
            raise NotBatchable(operation.op)
        regions = tuple(self.branch(region) for region in operation.regions)
        results = self.builder.emit("cond", inputs, regions=regions)
        return [Along(x) for x in (results if isinstance(results, tuple) else (results,))]

    def branch(self, block: Block) -> Block:
        """A batched branch of a cond: yields all values with the new axis."""
        with self.builder.region() as out:
            self.run(block.operations)
            out.extend(self.along(self.entry(x), x.type.dims) for x in block.yields)
        result: Block = out[0]
        return result

    def fresh_names(self, block: Block) -> Block:
        """A copied block with names that are free."""
        function = Function("", block)
        return renamed(function, {v: self.builder.fresh(v.name) for v in all_values(function)}).body


def in_order(a_labels: tuple[int, ...], b_labels: tuple[int, ...], out_labels: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The labels of a contraction numbered by their first use, as a person would."""
    numbers = {label: k for k, label in enumerate(dict.fromkeys((*a_labels, *b_labels)))}
    labels = {"a_labels": a_labels, "b_labels": b_labels, "out_labels": out_labels}
    return {key: tuple(numbers[label] for label in value) for key, value in labels.items()}


def is_literal(entry: Entry) -> TypeGuard[Uniform]:
    """Whether an entry is a number."""
    return isinstance(entry, Uniform) and isinstance(entry.value, Literal)


def reads(block: Block, values: set[Value]) -> bool:
    """Whether a block, or a region inside it, reads one of these values."""
    if any(x in values for x in block.yields):
        return True
    return any(any(x in values for x in o.operands) or any(reads(r, values) for r in o.regions) for o in block.operations)


# ---------------------------------------------------------------------------------------------------- rules
Rule = Callable[[Batch, Operation, Sequence[Entry]], Value]


def operand(batch: Batch, operation: Operation, entries: Sequence[Entry], k: int = 0) -> Value:
    """Operand k with the new axis."""
    return batch.along(entries[k], operation.operands[k].type.dims)


def shifted(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Axes, with a new one in front."""
    return tuple(a + 1 for a in axes)


def rule_broadcast(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    return batch.emit("broadcast", operand(batch, o, entries), dims=(batch.count, *o.attributes["dims"]),
                      axes=(0, *shifted(o.attributes["axes"])))


def rule_reshape(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    return batch.emit("reshape", operand(batch, o, entries), dims=(batch.count, *o.attributes["dims"]))


def rule_transpose(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    return batch.emit("transpose", operand(batch, o, entries), permutation=(0, *shifted(o.attributes["permutation"])))


def rule_window(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """slice and pad."""
    a = o.attributes
    return batch.emit(o.op, operand(batch, o, entries), starts=(ZERO, *a["starts"]), steps=(1, *a["steps"]),
                      dims=(batch.count, *a["dims"]))


def rule_concat(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    return batch.emit("concat", *(operand(batch, o, entries, k) for k in range(len(entries))), axis=o.attributes["axis"] + 1)


def rule_axes(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """Reductions over `axes`."""
    return batch.emit(o.op, operand(batch, o, entries), axes=shifted(o.attributes["axes"]))


def rule_axis(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """Ops along one `axis`."""
    operands = [operand(batch, o, entries, k) for k in range(len(entries))]
    return batch.emit(o.op, *operands, **{**o.attributes, "axis": o.attributes["axis"] + 1})


def rule_contract(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """A label for the new axis, on the operands that have it."""
    labels = [o.attributes["a_labels"], o.attributes["b_labels"]]
    new = max((*labels[0], *labels[1]), default=-1) + 1
    operands: list[Operand] = []
    for k, e in enumerate(entries):
        if isinstance(e, Uniform):
            operands.append(e.value)
        else:
            operands.append(operand(batch, o, entries, k))
            labels[k] = (new, *labels[k])
    out = (new, *o.attributes["out_labels"])
    return batch.emit("contract", *operands, a_labels=labels[0], b_labels=labels[1], out_labels=out)


def rule_gather(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """A slice where the only index that changes counts evenly, else a gather."""
    x, indices, axes = entries[0], entries[1:], o.attributes["axes"]
    lead = lead_dims(o.operands[1:])
    if isinstance(x, Uniform):
        moving = [k for k, e in enumerate(indices) if not isinstance(e, Uniform)]
        only = indices[moving[0]]
        if len(moving) == 1 and not lead and isinstance(only, Index) and starts_at_size(only):
            return sliced(batch, x.value, indices, axes, moving[0])
        return batch.emit("gather", x.value, *(batch.along(e, lead) for e in indices), axes=axes)
    array = operand(batch, o, entries)
    if all(isinstance(e, Uniform) for e in indices):
        picked = batch.emit("gather", array, *(e.value for e in indices if isinstance(e, Uniform)), axes=shifted(axes))
        return batch.move(picked, len(lead), 0)
    return batch.emit("gather", array, turns(batch, lead), *(batch.along(e, lead) for e in indices), axes=(0, *shifted(axes)))


def starts_at_size(index: Index) -> bool:
    """Whether the start is a size, not an expression of the indices of loops around."""
    return not any(s.startswith("%") for s in index.start.symbols)


def sliced(batch: Batch, x: Operand, indices: Sequence[Entry], axes: tuple[int, ...], moving: int) -> Value:
    """x[..., start + step * turn, ...] for all turns: the fixed indices first, then a slice, its axis to the front."""
    fixed = [(a, e.value) for k, (a, e) in enumerate(zip(axes, indices, strict=True)) if k != moving and isinstance(e, Uniform)]
    axis = axes[moving]
    if fixed:
        x = batch.emit("gather", x, *(v for _, v in fixed), axes=tuple(a for a, _ in fixed))
        axis -= sum(a < axis for a, _ in fixed)
    index = indices[moving]
    assert isinstance(index, Index) and isinstance(x, Value)
    return batch.move(section(batch, x, axis, index.start, index.step, batch.count), axis, 0)


def section(batch: Batch, x: Value, axis: int, start: Dim, step: int, count: Dim) -> Value:
    """A slice along one axis, unless it takes everything."""
    start, count = batch.resolved((start, count))
    if start == ZERO and step == 1 and count == batch.dims(x)[axis]:
        return x
    own = range(x.type.rank)
    return batch.emit("slice", x, starts=tuple(start if k == axis else ZERO for k in own),
                      steps=tuple(step if k == axis else 1 for k in own),
                      dims=tuple(count if k == axis else d for k, d in enumerate(x.type.dims)))


def lead_dims(indices: Sequence[Operand]) -> tuple[Dim, ...]:
    """The dims of index arrays."""
    return next((i.type.dims for i in indices if i.type.dims), ())


def turns(batch: Batch, lead: tuple[Dim, ...]) -> Value:
    """The number of the turn, in the shape of index arrays."""
    return batch.spread(batch.emit("iota", dim=batch.count, dtype=DType.i64), (batch.count, *lead), (0,))


def rule_scatter(batch: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """Every turn writes into its own copy of the base."""
    indices, updates, axes = entries[1:-1], entries[-1], o.attributes["axes"]
    base, lead = operand(batch, o, entries), lead_dims(o.operands[1:-1])
    rest = tuple(d for k, d in enumerate(o.result.type.dims) if k not in axes)
    new: Operand = updates.value if is_literal(updates) else batch.along(updates, (*lead, *rest))
    if all(isinstance(e, Uniform) for e in indices):
        if isinstance(new, Value):
            new = batch.move(new, 0, len(lead))
        return batch.emit(o.op, base, *(e.value for e in indices if isinstance(e, Uniform)), new, axes=shifted(axes))
    places = (turns(batch, lead), *(batch.along(e, lead) for e in indices))
    return batch.emit(o.op, base, *places, new, axes=(0, *shifted(axes)))


POINTWISE = ("stop_gradient", "select", "cast")
def rule_raise_if(b: Batch, o: Operation, entries: Sequence[Entry]) -> Value:
    """Raises if it does in any turn."""
    (failed,) = entries
    somewhere = b.emit("reduce_any", b.along(failed, ()), axes=(0,))
    return b.emit("raise_if", somewhere, **o.attributes)


RULES: Mapping[str, Rule] = MappingProxyType({
    "broadcast": rule_broadcast, "reshape": rule_reshape, "transpose": rule_transpose,
    "slice": rule_window, "pad": rule_window, "concat": rule_concat,
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all"), rule_axes),
    "raise_if": rule_raise_if,
    **dict.fromkeys(("argmax", "argmin", "cumsum", "cumprod", "linear_recurrence"), rule_axis),
    "contract": rule_contract, "gather": rule_gather, "scatter_add": rule_scatter, "scatter_set": rule_scatter,
})
