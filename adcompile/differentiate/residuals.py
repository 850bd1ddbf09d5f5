"""Residuals: which primal values of a region its adjoint needs, and for each where it comes from a second time.

The adjoint of a loop runs after the loop. The loop index and values from outside are still there. In this order:

* what an array holds at the end of the loop is read from that (see alive.py);
* carried values are saved, one entry per turn; what is carried on to the next turn is the next entry;
* what is computed from those is computed again, except where that is dear or impossible: contractions and reductions
  (their result is smaller than what they read), results of inner loops that are scalars, and whatever reads an array that
  the loop updates in place, for which the value that was read is saved and not the array;
* what an inner loop has to save for itself is saved for all turns of the outer loop if it is no more than four times as
  large as an argument of the function; else the inner loop runs again, forwards, before its adjoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.analysis import defined_symbol, has_effect, operands_in, symbols_in, symbols_of
from ..ir.builder import Builder
from ..ir.core import Block, Operand, Operation, Value
from ..ir.dims import Dim
from ..ir.prune import clean
from ..ir.rebuild import map_dims
from ..ir.types import Type
from .alive import UPDATES

DEAR = frozenset({"contract", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})
LARGE_AS = 4                             # saved arrays may be this many times as large as an argument of the function
SMALL = 4096                             # or have this many entries

Reads = Mapping[Value, Operation]


@dataclass(frozen=True)
class Plan:
    """`saved`: values to keep for every turn; `following`: values that are saved as the next turn's carried value;
    `given`: carried values that never change; `recomputed`: operations to do again, in order."""

    saved: tuple[Value, ...] = ()
    following: Mapping[Value, Value] = field(default_factory=dict)
    given: Mapping[Value, Operand] = field(default_factory=dict)
    recomputed: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Turns:
    """The loop whose region is planned for: its index and what it carries from outside; `may_save(value)`: whether a value
    of an inner loop is small enough to be saved for all turns; `again`: indices of inner loops that run again in any case."""

    index: Value
    initial: Sequence[Operand]
    may_save: Callable[[Value], bool]
    again: set[Value]


class Planner:
    """How to provide the values of one region to its adjoint. `turns` is None for the branch of a cond, which has no turns:
    there everything is computed again."""

    def __init__(self, body: Block, turns: Turns | None, reads: Reads, stores: Reads) -> None:
        self.body, self.turns, self.reads, self.stores = body, turns, reads, stores
        self.producers = {result: operation for operation in body.operations for result in operation.results}
        self.carried = body.arguments[1:] if turns is not None else ()
        self.given = {a: x for a, x, y in zip(self.carried, turns.initial, body.yields, strict=True) if y is a} if turns else {}
        self.updated = updated_arrays(self.carried, body)     # versions of carried arrays, and which array that is
        self.local = {s: o.result for o in body.operations for s in [defined_symbol(o)] if s is not None}
        self.variant = self.find_variant()
        self.saved: dict[Value, None] = {}
        self.recomputed: dict[Operation, Operation] = {}      # what is done again of an operation
        self.wanted: dict[Operation, list[Value]] = defaultdict(list)

    def plan(self, needed: Sequence[Value]) -> Plan:
        """How to provide the `needed` values. Where large parts of an array that is updated in place would be saved, the array
        itself is saved instead."""
        found = self.plan_once(needed)
        whole = {self.updated[x] for v in found.saved if v in self.producers and not self.producers[v].regions
                 for x in self.producers[v].operands if x in self.updated and v.type.rank == x.type.rank}
        if not whole:
            return found
        self.updated = {version: a for version, a in self.updated.items() if a not in whole}
        self.saved, self.recomputed, self.wanted = {}, {}, defaultdict(list)
        return self.plan_once(needed)

    def plan_once(self, needed: Sequence[Value]) -> Plan:
        """The plan as long as values that are read from `updated` arrays are saved."""
        postponed: list[Value] = []
        self.provide(needed, postponed)
        following: dict[Value, Value] = {}
        for value in postponed:
            places = [a for a, y in zip(self.carried, self.body.yields, strict=True) if y is value and a in self.saved]
            if places:
                following[value] = places[0]
            else:
                self.provide_last(value)
        again = {y for o in self.recomputed.values() for y in o.results}
        order = {value: k for k, value in enumerate((*self.carried, *self.producers))}
        saved = sorted((v for v in self.saved if v not in again), key=order.__getitem__)
        return Plan(tuple(saved), following, self.given, tuple(self.ordered(order)))

    def provide(self, needed: Iterable[Value], postponed: list[Value] | None) -> None:
        """Decide on values and all that is needed for them. Values carried on to the next turn are added to `postponed`."""
        seen: set[Value] = set()
        stack = list(needed)
        while stack:
            value = stack.pop()
            if value in seen or value in self.given:
                continue
            seen.add(value)
            if postponed is not None and value in self.producers and value not in self.stores and value in self.body.yields \
                    and self.turns is not None and not self.is_local(value):
                postponed.append(value)
            elif self.is_saved(value):
                self.saved[value] = None
            else:
                stack.extend(self.compute_again(value))

    def provide_last(self, value: Value) -> None:
        """Compute a value again if that needs nothing more to be saved; else save it."""
        saved, recomputed = dict(self.saved), dict(self.recomputed)
        self.provide([value], None)
        if set(self.saved) != set(saved):
            self.saved, self.recomputed = {**saved, value: None}, recomputed

    def compute_again(self, value: Value) -> Iterable[Value]:
        """Do again what gives a value. Returns what that reads; nothing for values from outside."""
        operation = self.producers.get(value)
        if operation is None:
            return ()
        operation = self.reads.get(value) or self.stores.get(value) or operation
        self.wanted[operation].append(value)
        self.recomputed[operation] = self.part(operation, self.wanted[operation])
        return self.read_by(self.recomputed[operation])

    def read_by(self, operation: Operation) -> list[Value]:
        """What an operation reads, with the values that define its sizes."""
        found = [x for x in operands_in(operation) if isinstance(x, Value)]
        if self.local:
            found += [self.local[s] for s in sorted(symbols_of(operation)) if s in self.local]
        return found

    def part(self, operation: Operation, wanted: Sequence[Value]) -> Operation:
        """What must be done of an operation to get some of its results."""
        if not operation.regions:
            return operation
        (found,) = clean([without_effects(with_reads(operation, self.reads))], wanted)
        return found

    def is_saved(self, value: Value) -> bool:
        """Whether a value is to be saved."""
        if self.turns is None or value in self.reads or value in self.stores:
            return False
        operation = self.producers.get(value)
        if operation is None:
            return value in self.carried
        if value not in self.variant or self.is_local(value):
            return False
        if operation.op == "for" and operation.regions[0].arguments[0] in self.turns.again:
            return False
        if any(x in self.updated for x in operands_in(self.part(operation, [value]))):
            return True
        if operation.op in ("for", "while"):
            return not value.type.dims or self.turns.may_save(value)
        return operation.op in DEAR

    def is_local(self, value: Value) -> bool:
        """Whether a value has a length that is known inside the region only."""
        return any(s in self.local for s in symbols_in(value.type.dims)) if self.local else False

    def find_variant(self) -> set[Value]:
        """The values that may differ between turns."""
        found = {*self.body.arguments} - set(self.given)
        for operation in self.body.operations:
            if any(x in found for x in operands_in(operation)):
                found.update(operation.results)
        return found

    def ordered(self, order: Mapping[Value, int]) -> list[Operation]:
        """The recomputed operations, each after what it reads, else in the order of the region."""
        done: dict[Operation, None] = {}
        makers = {y: o for o in self.recomputed.values() for y in o.results}

        def put(operation: Operation) -> None:
            if operation not in done:
                for x in self.read_by(operation):
                    if x in makers and makers[x] is not operation:
                        put(makers[x])
                done[operation] = None

        for operation in sorted(self.recomputed.values(), key=lambda o: order[o.results[0]]):
            put(operation)
        return list(done)


def with_reads(operation: Operation, reads: Reads) -> Operation:
    """An operation in whose regions gathers are done in other arrays."""
    if not operation.regions or not reads:
        return operation
    regions = tuple(Block(r.arguments, tuple(reads.get(o.results[0]) or with_reads(o, reads) for o in r.operations), r.yields)
                    for r in operation.regions)
    return Operation(operation.op, operation.operands, operation.results, operation.attributes, regions, operation.location)


def without_effects(operation: Operation) -> Operation:
    """An operation that is done again: it has not raised the first time."""
    if not has_effect(operation):
        return operation
    regions = tuple(Block(r.arguments, tuple(without_effects(o) for o in r.operations if o.op != "raise_if"), r.yields)
                    for r in operation.regions)
    return Operation(operation.op, operation.operands, operation.results, operation.attributes, regions, operation.location)


def updated_arrays(carried: Sequence[Value], body: Block) -> dict[Operand, Value]:
    """The carried arrays that the body updates in place: all their versions, with the argument that they are versions of."""
    found: dict[Operand, Value] = {}
    for argument, result in zip(carried, body.yields, strict=False):
        if argument.type.dims and result is not argument:
            versions = {argument}
            spread_versions(body, versions)
            found.update((v, argument) for v in versions if result in versions)
    return found


def spread_versions(block: Block, versions: set[Value]) -> None:
    """Add what an array becomes by updates in a block."""
    for operation in block.operations:
        if operation.op in UPDATES and operation.operands[0] in versions:
            versions.add(operation.result)
        elif operation.op in ("for", "while"):
            carried = operation.operands[len(operation.operands) - len(operation.results):]
            for k, x in enumerate(carried):
                if x in versions:
                    versions.add(operation.results[k])
                    versions.update(r.arguments[len(r.arguments) - len(carried) + k] for r in operation.regions)
            spread_versions(operation.regions[-1], versions)
        elif operation.op == "cond":
            for region in operation.regions:
                spread_versions(region, versions)
                versions.update(y for x, y in zip(region.yields, operation.results, strict=True) if x in versions)


def is_small(total: Dim, arguments: Iterable[Type]) -> bool:
    """Whether this many entries may be saved: few, or not many more than some argument of the function has."""
    if total.constant is not None:
        return total.constant <= SMALL
    return any(covers(count(t), total) for t in arguments)


def covers(large: Dim, small: Dim) -> bool:
    """Whether `small <= 4 * large` for sizes of at least 1, seen from the polynomials' terms."""
    return sum(c for _, c in small.terms if c > 0) <= LARGE_AS and all(
        any(set(m) <= set(other) and len(m) <= len(other) for other, k in large.terms if k > 0) for m, c in small.terms if c > 0)


def count(type: Type) -> Dim:
    """The number of entries."""
    total = Dim.of(1)
    for d in type.dims:
        total = total * d
    return total


# ------------------------------------------------------------------------------------------------------- copies
class Copy:
    """Copies of operations with all values new, and all size symbols that they define. `values` maps what is read, and gets
    the new values added."""

    def __init__(self, values: dict[Value, Operand], builder: Builder, new_symbol: Callable[[], str]) -> None:
        self.values, self.builder, self.new_symbol = values, builder, new_symbol
        self.symbols: dict[str, Dim] = {}

    def new(self, value: Value) -> Value:
        """A new value for one that is defined."""
        fresh = self.builder.value(value.name, value.type.with_dims(tuple(map(self.dim, value.type.dims))))
        self.values[value] = fresh
        return fresh

    def dim(self, dim: Dim) -> Dim:
        """A size in terms of the new symbols."""
        return dim.substitute(lambda s: self.symbols.get(s, Dim.symbol(s))) if self.symbols else dim

    def operand(self, x: Operand) -> Operand:
        """What is read in the place of x."""
        return self.values.get(x, x) if isinstance(x, Value) else x

    def block(self, region: Block) -> Block:
        """A copy of a region."""
        arguments = tuple(map(self.new, region.arguments))
        operations = tuple(map(self.operation, region.operations))
        return Block(arguments, operations, tuple(map(self.operand, region.yields)))

    def operation(self, old: Operation) -> Operation:
        """A copy of an operation."""
        operands = tuple(map(self.operand, old.operands))
        attributes = {key: map_dims(a, self.dim) for key, a in old.attributes.items()}
        symbol = defined_symbol(old)
        if symbol is not None:
            attributes["symbol"] = self.new_symbol()
            self.symbols[symbol] = Dim.symbol(attributes["symbol"])
        regions = tuple(map(self.block, old.regions))
        return Operation(old.op, operands, tuple(map(self.new, old.results)), attributes, regions, old.location)

    def adjoint(self, operation: Operation) -> Operation:
        """An adjoint operation that reads the copies. What it defines stays, except where its size has a new symbol."""
        return self.operation(operation) if self.symbols else substituted(operation, self.values)


def substituted(operation: Operation, values: Mapping[Value, Operand]) -> Operation:
    """An operation that reads other values; what it defines stays."""
    def old(x: Operand) -> Operand:
        return values.get(x, x) if isinstance(x, Value) else x

    regions = tuple(Block(r.arguments, tuple(substituted(o, values) for o in r.operations), tuple(map(old, r.yields)))
                    for r in operation.regions)
    return Operation(operation.op, tuple(map(old, operation.operands)), operation.results, operation.attributes, regions,
                     operation.location)
