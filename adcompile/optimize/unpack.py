"""unpack: small arrays of known shape become scalars, in functions with serial loops.

The state of a recurrence is often a vector of two or three numbers. In a loop that runs turn after turn, every operation on it
would be a loop of its own; unpacked, the state is local scalars and its operations are plain arithmetic.

Needs: verified IR. Leaves: in regions, no operation with a small array (SMALL entries or fewer) where one entry can be stated in
terms of entries; outside, only what comes out of loops unpacked is treated so. Reassociates (sums are taken in order).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir.core import Function, Literal, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.fold import FoldingBuilder
from ..ir.op import TABLE, literal_like
from ..ir.types import DType, Type

SMALL = 9
FOLDS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
    "reduce_any": "or",
    "reduce_all": "and",
}
ENTRYWISE = {"broadcast", "reshape", "transpose", "slice", "pad", "concat", "iota", "constant", "stop_gradient", "gather",
             "scatter_set", "scatter_add", "slice_set", "contract", "cumsum", "cumprod", *FOLDS}
COUNTED = {"pad", "concat", "scatter_set", "scatter_add", "slice_set"}
Place = tuple[int, ...]


def unpack(function: Function) -> Function:
    """The function with small arrays in and from loops unpacked."""
    if not any(op.regions for op in function.body.operations):
        return function
    with FoldingBuilder(function) as builder:
        builder.blocks[-1][0].extend(function.params)
        unpacker = Unpacker(builder)
        unpacker.block(function.body.operations, inside=False)
        return builder.finish(tuple(unpacker.whole(x) for x in function.results), function.sizes, function.guards)


def is_small(type: Type) -> bool:
    """Whether an array of this type is unpacked."""
    return bool(type.dims) and all(d.constant is not None for d in type.dims) and 0 < prod(shape(type)) <= SMALL


def shape(type: Type) -> Place:
    """The constant dims of a small array."""
    return tuple(int(d.constant) for d in type.dims)      # type: ignore[arg-type]


def places(type: Type) -> Iterable[Place]:
    """All places in a small array, in C order."""
    return itertools.product(*map(range, shape(type)))


def has_known_lengths(op: Operation) -> bool:
    """Whether it is known which places of a small result come from where."""
    dims = [d for x in op.operands for d in x.type.dims] + list(op.attributes.get("dims", ()))
    if op.op == "pad":
        dims += op.attributes["starts"]
    return all(d.constant is not None for d in dims)


def integer(k: int) -> Literal:
    return Literal(k, DType.i64)


class Unpacker:
    """Emits the operations of a function anew. `entries`: what is unpacked."""

    def __init__(self, builder: FoldingBuilder) -> None:
        self.builder = builder
        self.values: dict[Value, Operand] = {}
        self.entries: dict[Value, dict[Place, Operand]] = {}
        self.makers: dict[Value, Operation] = {}

    # ------------------------------------------------------------------------------------------------ operands
    def emit(self, op: str, *operands: Operand, name: str = "", **attributes: Any) -> Operand:
        """Emit, leaving out additions of zero."""
        if op == "add":
            for a, b in (operands, operands[::-1]):
                if isinstance(a, Literal) and a.value == 0:
                    return b
        result: Operand = self.builder.emit(op, operands, attributes, name=name)
        return result

    def whole(self, x: Operand) -> Operand:
        """An operand as it was, put together from its entries where it is unpacked."""
        if not isinstance(x, Value) or x not in self.entries:
            return self.values.get(x, x) if isinstance(x, Value) else x
        entries = list(self.entries[x].values())
        one = (Dim.of(1),)
        if all(isinstance(e, Literal) and e == entries[0] for e in entries):
            return self.emit("broadcast", entries[0], dims=x.type.dims, axes=(), name=x.name)
        parts = [self.emit("broadcast", e, dims=one, axes=()) for e in entries]
        flat = parts[0] if len(parts) == 1 else self.emit("concat", *parts, axis=0, name=x.name)
        return flat if len(x.type.dims) == 1 else self.emit("reshape", flat, dims=x.type.dims, name=x.name)

    def entry(self, x: Operand, place: Place) -> Operand:
        """One entry of an operand; the operand itself if it is a scalar."""
        if not x.type.dims:
            return self.whole(x)
        assert isinstance(x, Value)
        if x in self.entries:
            return self.entries[x][place]
        op = self.makers.get(x)
        if op is not None and op.op in ("broadcast", "reshape", "transpose", "slice", "concat", "constant", "iota"):
            return self.entry_of(op, place)
        return self.element(x, tuple(map(integer, place)))

    def element(self, x: Operand, index: Sequence[Operand]) -> Operand:
        """x[index] of an array that is not unpacked."""
        return self.emit("gather", self.whole(x), *index, axes=tuple(range(len(index))))

    def position(self, start: Dim, offset: int) -> Operand:
        """The index start + offset."""
        dim = start + offset
        return integer(dim.constant) if dim.constant is not None else self.emit("size", dim=dim)

    # ------------------------------------------------------------------------------------------------ operations
    def block(self, operations: Sequence[Operation], inside: bool) -> None:
        """Emit operations."""
        for op in operations:
            self.builder.location = op.location
            for r in op.results:
                self.makers[r] = op
            if op.regions:
                self.control(op)
            elif self.spreads(op):
                self.spread(op)
            elif self.unpacks(op, inside):
                self.entries_of(op)
            else:
                self.builder.append(
                    Operation(op.op, tuple(map(self.whole, op.operands)), op.results, op.attributes, (), op.location)
                )

    def unpacks(self, op: Operation, inside: bool) -> bool:
        """Whether an operation is done entry by entry."""
        if op.op not in ENTRYWISE and TABLE[op.op].code is None or len(op.results) != 1:
            return False
        if op.result.type.dims and not is_small(op.result.type):
            return False
        if op.op in COUNTED and not has_known_lengths(op):
            return False
        small = [x for x in op.operands if is_small(x.type)]
        if not inside and not any(x in self.entries for x in small):
            return op.op in ("pad", "scatter_add", "scatter_set") and is_small(op.result.type) and not small[1:]
        if op.op in FOLDS or op.op in ("contract", "cumsum", "cumprod"):
            return len(small) == len(op.operands)
        return is_small(op.result.type) or op.op in ENTRYWISE and is_small(op.operands[0].type)

    def entries_of(self, op: Operation) -> None:
        """Emit every entry of a result."""
        result = op.result
        if not result.type.dims:
            self.values[result] = self.entry_of(op, ())
        elif op.op in ("scatter_set", "scatter_add", "slice_set"):
            self.entries[result] = self.updated(op)
        else:
            self.entries[result] = {place: self.entry_of(op, place) for place in places(result.type)}

    def entry_of(self, op: Operation, place: Place) -> Operand:
        """One entry of the result of an operation."""
        method = getattr(self, f"entry_of_{op.op}", None)
        if method is not None:
            found: Operand = method(op, place)
            return found
        if op.op in FOLDS:
            return self.folded(op, place)
        name = f"{op.result.name}_{'_'.join(map(str, place))}" if op.result.name and place else op.result.name
        return self.emit(op.op, *(self.entry(x, place) for x in op.operands), name=name, **op.attributes)

    def entry_of_broadcast(self, op: Operation, place: Place) -> Operand:
        return self.entry(op.operands[0], tuple(place[a] for a in op.attributes["axes"]))

    def entry_of_reshape(self, op: Operation, place: Place) -> Operand:
        flat = int(np.ravel_multi_index(place, shape(op.result.type))) if place else 0
        old = shape(op.operands[0].type)
        return self.entry(op.operands[0], tuple(map(int, np.unravel_index(flat, old))) if old else ())

    def entry_of_transpose(self, op: Operation, place: Place) -> Operand:
        permutation = op.attributes["permutation"]
        return self.entry(op.operands[0], tuple(place[permutation.index(k)] for k in range(len(place))))

    def entry_of_slice(self, op: Operation, place: Place) -> Operand:
        index = [
            self.position(start, step * i)
            for i, start, step in zip(place, op.attributes["starts"], op.attributes["steps"], strict=True)
        ]
        return self.at(op.operands[0], index)

    def at(self, x: Operand, index: Sequence[Operand]) -> Operand:
        """x[index]: an entry where x is small and the index known."""
        if is_small(x.type) and all(isinstance(i, Literal) for i in index):
            return self.entry(x, tuple(int(i.value.real) for i in index))       # type: ignore[union-attr]
        return self.element(x, index)

    def entry_of_pad(self, op: Operation, place: Place) -> Operand:
        source = []
        for i, start, step, d in zip(
            place, op.attributes["starts"], op.attributes["steps"], shape(op.operands[0].type), strict=True
        ):
            k, rest = divmod(i - int(start.constant), step)
            if rest or not 0 <= k < d:
                return literal_like(0, op.result.type.dtype)
            source.append(k)
        return self.entry(op.operands[0], tuple(source))

    def entry_of_concat(self, op: Operation, place: Place) -> Operand:
        along = op.attributes["axis"]
        i = place[along]
        for x in op.operands:
            length = shape(x.type)[along]
            if i < length:
                return self.entry(x, (*place[:along], i, *place[along + 1:]))
            i -= length
        raise AssertionError("a place beyond all parts")

    def entry_of_iota(self, op: Operation, place: Place) -> Operand:
        return literal_like(place[0], op.attributes["dtype"])

    def entry_of_constant(self, op: Operation, place: Place) -> Operand:
        value = op.attributes["value"]
        array = np.frombuffer(value.data, value.dtype.numpy).reshape(value.shape)
        return literal_like(array[place].item(), value.dtype)

    def entry_of_gather(self, op: Operation, place: Place) -> Operand:
        x, *indices = op.operands
        lead = indices[0].type.rank
        chosen = dict(zip(op.attributes["axes"], (self.entry(i, place[:lead]) for i in indices), strict=True))
        rest = iter(place[lead:])
        return self.at(x, [chosen[k] if k in chosen else integer(next(rest)) for k in range(x.type.rank)])

    def entry_of_contract(self, op: Operation, place: Place) -> Operand:
        a, b = op.operands
        labels = op.attributes["a_labels"], op.attributes["b_labels"]
        lengths = {name: d for x, names in zip((a, b), labels, strict=True) for name, d in zip(names, shape(x.type), strict=True)}
        inner = [name for name in lengths if name not in op.attributes["out_labels"]]
        terms = []
        for where in itertools.product(*(range(lengths[name]) for name in inner)):
            at = {**dict(zip(op.attributes["out_labels"], place, strict=True)), **dict(zip(inner, where, strict=True))}
            terms.append(
                self.emit(
                    "and" if op.result.type.dtype is DType.bool else "mul",
                    *(self.entry(x, tuple(at[name] for name in names)) for x, names in zip((a, b), labels, strict=True)),
                )
            )
        return self.chain("or" if op.result.type.dtype is DType.bool else "add", terms)

    def folded(self, op: Operation, place: Place) -> Operand:
        x, axes = op.operands[0], op.attributes["axes"]
        kept = iter(place)
        ranges = [range(d) if k in axes else [next(kept)] for k, d in enumerate(shape(x.type))]
        return self.chain(FOLDS[op.op], [self.entry(x, where) for where in itertools.product(*ranges)])

    def running(self, op: Operation, place: Place) -> Operand:
        along = op.attributes["axis"]
        length = shape(op.result.type)[along]
        steps = range(length - 1, place[along] - 1, -1) if op.attributes.get("reverse") else range(place[along] + 1)
        return self.chain("mul" if op.op == "cumprod" else "add",
                          [self.entry(op.operands[0], (*place[:along], k, *place[along + 1:])) for k in steps])

    entry_of_cumsum = entry_of_cumprod = running

    def chain(self, op: str, terms: list[Operand]) -> Operand:
        total = terms[0]
        for term in terms[1:]:
            total = self.emit(op, total, term)
        return total

    # ------------------------------------------------------------------------------------------------ updates
    def written(self, op: Operation) -> Iterable[tuple[tuple[Operand, ...], Operand]]:
        """The index of every place that an update writes, and what it writes there, in order."""
        base, *indices, updates = op.operands
        along = op.attributes["axes"]
        lead: Place = shape(indices[0].type) if indices else ()
        rest = [d for k, d in enumerate(base.type.dims) if k not in along]
        starts, steps = op.attributes.get("starts", [Dim.of(0)] * len(rest)), op.attributes.get("steps", [1] * len(rest))
        lengths = tuple(int(d.constant) for d in op.attributes.get("dims", rest))
        for place in itertools.product(*map(range, (*lead, *lengths))):
            chosen = dict(zip(along, (self.entry(i, place[:len(lead)]) for i in indices), strict=True))
            others = iter([self.position(s, k * step) for s, step, k in zip(starts, steps, place[len(lead):], strict=True)])
            index = tuple(chosen[k] if k in chosen else next(others) for k in range(base.type.rank))
            yield index, self.entry(updates, place if updates.type.dims else ())

    def updated(self, op: Operation) -> dict[Place, Operand]:
        """The entries of a small array after an update."""
        base = op.operands[0]
        entries = {place: self.entry(base, place) for place in places(base.type)}
        for index, update in self.written(op):
            for place, old in entries.items():
                here = self.is_at(index, place)
                if here is not False:
                    new = self.emit("add", old, update) if op.op == "scatter_add" else update
                    entries[place] = new if here is True else self.emit("select", here, new, old)
        return entries

    def is_at(self, index: tuple[Operand, ...], place: Place) -> Operand | bool:
        """Whether an index is a place: yes, no, or a condition."""
        conditions = []
        for i, k in zip(index, place, strict=True):
            if isinstance(i, Literal):
                if int(i.value.real) != k:
                    return False
            else:
                conditions.append(self.emit("eq", i, integer(k)))
        return self.chain("and", conditions) if conditions else True

    def spreads(self, op: Operation) -> bool:
        """Whether this writes few entries into an array that stays one."""
        if op.op not in ("scatter_set", "scatter_add", "slice_set"):
            return False
        base, *indices, updates = op.operands
        return not is_small(base.type) and isinstance(updates, Value) and updates in self.entries and \
            all(not i.type.dims or is_small(i.type) for i in indices)

    def spread(self, op: Operation) -> None:
        """Write entry by entry."""
        array = self.whole(op.operands[0])
        kind = "scatter_add" if op.op == "scatter_add" else "scatter_set"
        for index, update in self.written(op):
            array = self.emit(kind, array, *index, update, axes=tuple(range(len(index))), name=op.result.name)
        self.values[op.result] = array

    # ------------------------------------------------------------------------------------------------ control
    def control(self, op: Operation) -> None:
        """A loop or choice whose small arrays are unpacked."""
        first = {"for": 2, "while": 0, "cond": 1}[op.op]
        operands = [self.whole(x) for x in op.operands[:first]]
        for x in op.operands[first:]:
            operands += [self.entry(x, place) for place in places(x.type)] if is_small(x.type) else [self.whole(x)]
        regions = []
        for region in op.regions:
            with self.builder.region() as out:
                for a in region.arguments:
                    self.name(a, self.builder.blocks[-1][0])
                self.block(region.operations, inside=True)
                for y in region.yields:
                    out += [self.entry(y, place) for place in places(y.type)] if is_small(y.type) else [self.whole(y)]
            regions.append(out[0])
        results: list[Value] = []
        for r in op.results:
            self.name(r, results)
        self.builder.append(Operation(op.op, tuple(operands), tuple(results), op.attributes, tuple(regions), op.location))

    def name(self, value: Value, into: list[Value]) -> None:
        """The scalars that stand for a value that a region takes or yields, or the value itself."""
        if not is_small(value.type):
            into.append(value)
            return
        stem = re.sub(r"_\d+$", "", value.name)
        scalars = {place: self.builder.value(f"{stem}_{'_'.join(map(str, place))}", value.type.with_dims(()))
                   for place in places(value.type)}
        self.entries[value] = dict(scalars)
        into.extend(scalars.values())
