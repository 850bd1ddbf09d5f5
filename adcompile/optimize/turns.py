"""All turns of one loop at once: which of its carried values can be had that way, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ..ir.analysis import CAN_RAISE, has_effect, live_operations
from ..ir.core import Block, Literal, Operand, Operation, Value, walk
from ..ir.dims import Dim
from ..ir.op import TABLE, literal_like
from ..ir.types import DType
from .batch import ONE, ZERO, Along, Batch, Entry, Index, NotBatchable, Uniform, section, starts_at_size
from .carries import TURNWISE, Body, Chain, Term, chosen_by, term_operands, versions_of, with_plain_accesses, without_branches
from .ranges import index_symbol, index_symbols

if TYPE_CHECKING:
    from .raise_loops import Raiser

SHARED_COST = 10.0              # flops up to which a loop may be split though both halves compute them


class Kind(Enum):
    """What a turn does to a carried value."""

    INVARIANT = "invariant"
    COUNTER = "counter"
    TERMS = "terms"
    ROWS = "rows"
    LAST = "last"
    SERIAL = "serial"


HELPFUL = (Kind.INVARIANT, Kind.COUNTER, Kind.ROWS)         # their values in a turn are known without the turns before
OPEN = (Kind.INVARIANT, Kind.COUNTER, Kind.SERIAL)          # what a loop that is left may carry


@dataclass
class Carry:
    """One carried value."""

    kind: Kind
    argument: Value
    initial: Operand
    following: Operand
    result: Value
    terms: tuple[Term, ...] = ()
    axis: int = 0                       # of rows: turn t has the row start + step * t along this axis
    rows: Index | None = None

    @property
    def needs(self) -> tuple[Operand, ...]:
        """The values of the body that the result is made from."""
        return tuple(x for t in self.terms for x in term_operands(t)) if self.kind is Kind.TERMS else (self.following,)


class LoopRaiser:
    """One loop. `run` emits the array operations, or raises `NotBatchable`."""

    def __init__(self, b: Raiser, loop: Operation, low: Dim, high: Dim) -> None:
        if any(o.op == "extent" for o in walk(loop.regions[0])):
            raise NotBatchable("the turns have lengths of their own")
        if index_symbols(low) or index_symbols(high) or not b.ranges.at_least(high, low):
            raise NotBatchable("the number of turns is not a size")
        self.b, self.loop, self.low, self.high = b, loop, low, high
        self.count = b.sizes.resolve(high - low)
        self.body = Body(with_plain_accesses(b, without_branches(b, loop.regions[0])))
        self.symbol = index_symbol(self.body.index)

    def run(self) -> tuple[Operand, ...]:
        """The results of the loop."""
        carries = [self.carry(*parts) for parts in zip(self.body.arguments, self.loop.operands[2:], self.body.yields,
                                                       self.loop.results, strict=True)]
        self.settle(carries)
        serial = [c for c in carries if c.kind is Kind.SERIAL]
        done = [c for c in carries if c.kind not in OPEN]
        effects = sum(map(has_effect, self.body.operations))
        if effects > 1:
            raise NotBatchable("the first turn that raises tells which error it is")
        if serial and (effects or not (done and self.may_split(serial, done))):
            raise NotBatchable("every turn needs the one before")
        batch = LoopBatch(self, carries)
        batch.run(live_operations(self.body.operations, [x for c in done for x in c.needs]))
        results = {c.argument: self.result(batch, c) for c in carries if c.kind is not Kind.SERIAL}
        self.b.wishes.update({new: name for new, name in batch.wishes.items() if new not in self.b.wishes})
        if serial:
            results.update(self.remainder(carries))
        return tuple(results[c.argument] for c in carries)

    # ------------------------------------------------------------------------------------------------ kinds
    def carry(self, argument: Value, initial: Operand, following: Operand, result: Value) -> Carry:
        """A carried value with its kind, as far as it can be told from that value alone."""
        carry = Carry(Kind.SERIAL, argument, initial, following, result)
        form = self.b.ranges.dim(argument)
        if following is argument:
            carry.kind = Kind.INVARIANT
        elif form is not None and self.symbol in form.symbols:
            carry.kind = Kind.COUNTER
        elif argument.type.rank and self.find_rows(carry):
            carry.kind = Kind.ROWS
        else:
            terms = Chain(self.body, argument).terms(following)
            if terms is not None:
                carry.kind, carry.terms = Kind.TERMS, tuple(terms)
            elif not self.body.uses[argument] and (not self.b.uses[result] or self.b.ranges.at_least(self.count, ONE)):
                carry.kind = Kind.LAST
        if carry.kind is Kind.TERMS and carry.terms[0].kind in ("max", "min"):
            plain = argument.type.dtype.is_float or not any(t.conditions for t in carry.terms)
            if not plain or not self.b.ranges.at_least(self.count, ONE):
                carry.kind = Kind.SERIAL
        return carry

    def find_rows(self, carry: Carry) -> bool:
        """Whether every turn works on one row of its own of a carried array; the carry gets to know which."""
        versions = versions_of(self.body, carry.argument)
        if versions is None or not versions.accesses:
            return False
        for axis in range(carry.argument.type.rank):
            indices = [versions.index(access, axis) for access in versions.accesses]
            rows = [None if x is None else self.affine(x) for x in indices]
            if rows[0] is not None and starts_at_size(rows[0]) and all(r == rows[0] for r in rows):
                carry.axis, carry.rows = axis, rows[0]
                return True
        return False

    def affine(self, x: Operand) -> Index | None:
        """An integer of the body as start + step * turn."""
        form = self.b.ranges.dim(x)
        parts = None if form is None else self.b.ranges.linear(form, self.symbol)
        if parts is None or not parts[1].constant:
            return None
        rest, factor = parts
        return Index(rest + factor * self.low, factor.constant or 0)

    def settle(self, carries: Sequence[Carry]) -> None:
        """Make serial what needs, or is needed by, something serial."""
        changed = True
        while changed:
            allowed = {self.body.index, *(c.argument for c in carries if c.kind in HELPFUL)}
            left = {self.body.index, TURNWISE, *(c.argument for c in carries if c.kind in OPEN)}
            needed = {a for c in carries if c.kind is Kind.SERIAL for a in self.body.on(c.following)} - left
            changed = False
            for c in carries:
                reads = {a for x in c.needs for a in self.body.on(x)}
                if c.kind not in OPEN and (c.argument in needed or not reads <= allowed):
                    c.kind, changed = Kind.SERIAL, True

    def may_split(self, serial: Sequence[Carry], done: Sequence[Carry]) -> bool:
        """Whether splitting the loop computes little twice."""
        halves = [live_operations(self.body.operations, [x for c in half for x in c.needs]) for half in (serial, done)]
        if all(c.kind is Kind.LAST for c in done):
            return False
        shared = set(halves[0]) & set(halves[1])
        return not any(o.regions for o in shared) and sum(TABLE[o.op].cost for o in shared) <= SHARED_COST

    # ------------------------------------------------------------------------------------------------ results
    def result(self, batch: LoopBatch, c: Carry) -> Operand:
        """What a carried value is after the loop."""
        self.b.location = self.loop.location
        if c.kind is Kind.INVARIANT:
            return c.initial
        if c.kind is Kind.COUNTER:
            form = self.b.ranges.dim(c.argument)
            assert form is not None
            return self.b.integer(form.substitute(lambda s: self.high if s == self.symbol else Dim.symbol(s)))
        if c.kind is Kind.ROWS:
            return self.placed(batch, c)
        if c.kind is Kind.LAST:
            return self.last(batch, c) if self.b.uses[c.result] else c.initial
        total = c.initial
        for term in c.terms:
            made = self.b.definitions.get(term.value) if isinstance(term.value, Value) else None
            self.b.location = made.location if made is not None else self.loop.location
            total = self.accumulated(batch, total, term, c.argument.type.dims)
        return total

    def last(self, batch: LoopBatch, c: Carry) -> Operand:
        """The value of the last turn."""
        entry = batch.entry(c.following)
        if isinstance(entry, Uniform):
            return entry.value
        dims = c.argument.type.dims
        row = section(batch, batch.along(entry, dims), 0, self.count - 1, 1, ONE)
        return batch.emit("reshape", row, dims=dims)

    def placed(self, batch: LoopBatch, c: Carry) -> Operand:
        """The carried array with the rows of all turns in their places."""
        base, axis = c.initial, c.axis
        assert isinstance(base, Value) and c.rows is not None
        step = c.rows.step
        rows = batch.along(batch.entry(c.following), batch.row_dims(c))
        start, length = self.b.sizes.resolve(c.rows.start), batch.dims(base)[axis]
        first = start if step > 0 else start - self.count + 1
        ranges = self.b.ranges
        if abs(step) != 1 or not (ranges.at_least(first, ZERO) and ranges.at_least(length, first + self.count)):
            places = batch.along(c.rows, ())
            return batch.emit("scatter_set", base, places, rows, axes=(axis,))
        if step < 0:
            rows = section(batch, rows, 0, self.count - 1, -1, self.count)
        pieces = [batch.move(rows, 0, axis)]
        end = self.b.sizes.resolve(first + self.count)
        if first != ZERO:
            pieces.insert(0, section(batch, base, axis, ZERO, 1, first))
        if end != length:
            pieces.append(section(batch, base, axis, end, 1, length - end))
        return pieces[0] if len(pieces) == 1 else batch.emit("concat", *pieces, axis=axis)

    def accumulated(self, batch: LoopBatch, total: Operand, term: Term, dims: tuple[Dim, ...]) -> Operand:
        """The total with one term of all turns."""
        value = self.conditional(batch, term)
        if term.scatter is not None:
            return self.scattered(batch, total, term.scatter, value)
        if term.kind in ("max", "min", "and", "or") and isinstance(value, Uniform):
            reduced: Operand = value.value
        else:
            reduced = self.reduced(batch, term, value, dims)
        if term.negative:
            return batch.emit("neg", reduced) if is_neutral(total, "sum") else batch.emit("sub", total, reduced)
        if is_neutral(total, term.kind) and reduced.type.rank == len(dims):
            return reduced
        return batch.emit(JOIN[term.kind], total, reduced)

    def conditional(self, batch: LoopBatch, term: Term) -> Entry:
        """A term's value, what changes nothing where its conditions do not hold."""
        dtype, dims = term.value.type.dtype, term.value.type.dims
        value = batch.entry(term.value)
        for condition, truth in term.conditions:
            other = Uniform(literal_like(NEUTRAL[term.kind], dtype))
            predicate, shape = batch.entry(condition), condition.type.dims or dims
            if term.scatter is not None and term.scatter.result.type.rank == condition.type.rank:
                scalar = chosen_by(self.body, self.body_choice(condition))
                if scalar is None:
                    raise NotBatchable("a store that depends on an array")
                predicate, shape = batch.entry(scalar), dims
            if isinstance(predicate, Along) and predicate.value.type.rank == 1 and shape:
                predicate = Along(batch.spread(predicate.value, (self.count, *shape), (0,)))
            if isinstance(predicate, Uniform) and isinstance(value, Uniform):
                predicate = Along(batch.along(predicate, shape))
            value = batch.pointwise("select", (predicate, value, other) if truth else (predicate, other, value), shape, {})
        return value

    def body_choice(self, condition: Operand) -> Operation:
        """The select of the body that a condition belongs to."""
        return next(o for o in self.body.operations if o.op == "select" and o.operands[0] is condition)

    def reduced(self, batch: LoopBatch, term: Term, value: Entry, dims: tuple[Dim, ...]) -> Operand:
        """A term over all turns."""
        if term.kind == "sum" and isinstance(value, Uniform) and not value.value.type.dtype.is_float:
            times = self.b.integer(self.count) if value.value.type.dtype is DType.i64 else None
            if times is not None and not value.value.type.dims:
                return self.b.emit("mul", (value.value, times)) if times != Literal(1, DType.i64) else value.value
        array = batch.along(value, term.value.type.dims)
        if term.kind == "sum" and isinstance(term.value, Value) and self.body.uses[term.value] == 1 and not term.conditions:
            product = self.contraction(batch, array)
            if product is not None:
                return product
        return batch.emit(f"reduce_{REDUCTION.get(term.kind, term.kind)}", array, axes=(0,))

    def contraction(self, batch: LoopBatch, array: Value) -> Operand | None:
        """The sum over the first axis of a product of two arrays that are only read, as a contraction."""
        made = self.b.definitions.get(array)
        if made is None or made.op != "mul" or not array.type.dtype.is_float:
            return None
        labels: list[tuple[int, ...]] = []
        factors: list[Operand] = []
        for x in made.operands:
            labels.append(tuple(range(array.type.rank)))
            definition = self.b.definitions.get(x) if isinstance(x, Value) else None
            if definition is not None and definition.op == "broadcast":
                labels[-1], x = definition.attributes["axes"], definition.operands[0]
            factors.append(x)
            if isinstance(x, Literal) or self.is_computed(x):
                return None
        out = tuple(range(1, array.type.rank))
        if any((label in labels[0]) + (label in labels[1]) + (label in out) < 2 for label in range(array.type.rank)):
            return None
        if factors[0] is factors[1] and labels[0] == labels[1]:
            return None
        return batch.emit("contract", *factors, a_labels=labels[0], b_labels=labels[1], out_labels=out)

    def is_computed(self, x: Operand) -> bool:
        """Whether x is the result of arithmetic, not of moving entries."""
        while isinstance(x, Value) and x in self.b.definitions:
            made = self.b.definitions[x]
            if made.op in ("contract", "for", "while", "cond"):
                return False
            if TABLE[made.op].code is not None or TABLE[made.op].kind == "elementwise":
                return True
            if made.op not in ("transpose", "slice", "gather", "reshape", "broadcast"):
                return False
            x = made.operands[0]
        return False

    def scattered(self, batch: LoopBatch, total: Operand, o: Operation, value: Entry) -> Operand:
        """The updates of all turns added at their places."""
        indices = [batch.entry(x) for x in o.operands[1:-1]]
        rest = tuple(d for k, d in enumerate(o.result.type.dims) if k not in o.attributes["axes"])
        lead = next((x.type.dims for x in o.operands[1:-1] if x.type.dims), ())
        updates = batch.along(value, (*lead, *rest))
        if all(isinstance(i, Uniform) for i in indices):
            places = [i.value for i in indices if isinstance(i, Uniform)]
            new = batch.emit("reduce_sum", updates, axes=(0,))
        else:
            places, new = [batch.along(i, lead) for i in indices], updates
        return batch.emit("scatter_add", total, *places, new, axes=o.attributes["axes"])

    # ------------------------------------------------------------------------------------------------ what stays
    def remainder(self, carries: Sequence[Carry]) -> dict[Value, Operand]:
        """Emit the loop for what is serial; the results of those carries."""
        kept = [c for c in carries if c.kind in OPEN]
        operations = live_operations(self.body.operations, [c.following for c in kept])
        block = Block((self.body.index, *(c.argument for c in kept)), tuple(operations), tuple(c.following for c in kept))
        operands = (*self.loop.operands[:2], *(c.initial for c in kept))
        results = tuple(c.result for c in kept)
        self.b.append(Operation("for", operands, results, self.loop.attributes, (block,), self.loop.location))
        return {c.argument: c.result for c in kept}


def is_neutral(x: Operand, kind: str) -> bool:
    """Whether x is the number that changes nothing."""
    return isinstance(x, Literal) and x.value == NEUTRAL[kind]


NEUTRAL = {"sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf"), "and": True, "or": False}
JOIN = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
REDUCTION = {"and": "all", "or": "any"}


class LoopBatch(Batch):
    """The body of a loop for all turns at once."""

    builder: Raiser

    def __init__(self, loop: LoopRaiser, carries: Sequence[Carry]) -> None:
        super().__init__(loop.b, loop.count)
        self.loop, self.raiser = loop, loop.b
        self.versions: dict[Operand, Carry] = {}                # values that stand for one row of a carried array
        index = loop.affine(loop.body.index)
        assert index is not None
        self.entries[loop.body.index] = index
        for c in carries:
            if c.kind is Kind.INVARIANT:
                self.entries[c.argument] = Uniform(c.initial)
            elif c.kind is Kind.COUNTER:
                self.entries[c.argument] = self.affine(c.argument) or Uniform(c.initial)
            elif c.kind is Kind.ROWS:
                self.versions[c.argument] = c
                self.entries[c.argument] = Along(self.first_rows(c))

    def first_rows(self, c: Carry) -> Value:
        """The rows that the turns find."""
        base = c.initial
        assert isinstance(base, Value) and c.rows is not None
        return self.move(section(self, base, c.axis, c.rows.start, c.rows.step, self.count), c.axis, 0)

    def row_dims(self, c: Carry) -> tuple[Dim, ...]:
        """The dims of one row."""
        return tuple(d for k, d in enumerate(c.argument.type.dims) if k != c.axis)

    def scalar(self, dim: Dim) -> Operand:
        """An integer, which may depend on the indices of loops around."""
        return self.raiser.integer(dim)

    def affine(self, x: Value) -> Index | None:
        """Integers whose polynomial is linear in the index."""
        return self.loop.affine(x) if x.type.dtype is DType.i64 and not x.type.dims else None

    def may_leave(self, operation: Operation) -> bool:
        """A check must not be done if there is no turn."""
        return not (operation.op in CAN_RAISE or has_effect(operation)) or self.raiser.ranges.at_least(self.count, ONE)

    def compute(self, operation: Operation) -> None:
        """As any batch, but accesses to carried arrays are accesses to rows."""
        array = operation.operands[1 if operation.op == "select" else 0] if operation.operands else None
        owner = self.versions.get(array) if array is not None else None
        if owner is None:
            super().compute(operation)
            return
        entry = self.row_choice(operation, owner) if operation.op == "select" else self.row_access(operation, owner)
        self.entries[operation.result] = entry
        if operation.op != "gather":
            self.versions[operation.result] = owner

    def row_choice(self, o: Operation, owner: Carry) -> Entry:
        """A choice between two versions of a row."""
        scalar = chosen_by(self.loop.body, o)
        assert scalar is not None
        dims = self.row_dims(owner)
        predicate = self.entry(scalar)
        if dims and not isinstance(predicate, Uniform):
            predicate = Along(self.spread(self.along(predicate, ()), (self.count, *dims), (0,)))
        return self.pointwise("select", (predicate, self.entry(o.operands[1]), self.entry(o.operands[2])), dims, {})

    def row_access(self, o: Operation, owner: Carry) -> Entry:
        """A read of, or store into, the row of the turn."""
        row, dims = self.entry(o.operands[0]), self.row_dims(owner)
        rest = [(a - (a > owner.axis), x) for a, x in zip(o.attributes["axes"], o.operands[1:], strict=False) if a != owner.axis]
        axes, indices = tuple(a for a, _ in rest), tuple(x for _, x in rest)
        if not axes:
            if o.op == "gather":
                return row
            updates = self.entry(o.operands[-1])
            return updates if o.op == "scatter_set" else self.pointwise("add", (row, updates), dims, {})
        one = Value("row", owner.argument.type.with_dims(dims))
        updates_ = () if o.op == "gather" else (o.operands[-1],)
        result = o.result if o.op == "gather" else one
        smaller = Operation(o.op, (one, *indices, *updates_), (result,), {"axes": axes}, (), o.location)
        return self.batched(smaller, [row, *(self.entry(x) for x in (*indices, *updates_))])
