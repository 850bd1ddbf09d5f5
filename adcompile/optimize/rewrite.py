"""Patterns, rules, and the driver that applies them.

A rule is one line, both sides written as ordinary expressions of pattern variables:

    rewrite("x + -y", x + neg(y), x - y, EXACT)

The driver rebuilds a function operation by operation. Each new operation is matched once against the rules of its op,
looking down at the definitions of its operands, which are in simplest form already; what a rule builds goes through the
same door. So a pass takes time proportional to the number of operations and of rewrites done.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ..ir.analysis import renamed, use_counts
from ..ir.core import Block, Function, Literal, Location, Operand, Operation, Value
from ..ir.fold import FoldingBuilder, fold_literals
from ..ir.op import TABLE, as_operands, literal_like
from ..ir.types import Type


class Exactness(Enum):
    """How a rule may change a result: not at all; in the sign of a zero (and of a NaN); by rounding, as any other order
    or grouping of the same sums and products would."""

    EXACT = "exact"
    SIGN_OF_ZERO = "sign of zero"
    REASSOCIATES = "reassociates"


EXACT, SIGN_OF_ZERO, REASSOCIATES = Exactness


# ------------------------------------------------------------------------------------------------- patterns
class Pattern:
    """Base of patterns: Python operators build larger ones."""

    def __add__(self, other: Any) -> Use:
        return Use("add", (self, other))

    def __sub__(self, other: Any) -> Use:
        return Use("sub", (self, other))

    def __mul__(self, other: Any) -> Use:
        return Use("mul", (self, other))

    def __truediv__(self, other: Any) -> Use:
        return Use("div", (self, other))

    def __rtruediv__(self, other: Any) -> Use:
        return Use("div", (other, self))

    def __rsub__(self, other: Any) -> Use:
        return Use("sub", (other, self))

    def __rmul__(self, other: Any) -> Use:
        return Use("mul", (other, self))

    def __neg__(self) -> Use:
        return Use("neg", (self,))


@dataclass(frozen=True)
class Any_(Pattern):
    """Matches any operand; the same variable twice matches the same operand."""

    name: str


@dataclass(frozen=True)
class Number(Pattern):
    """Matches a literal; on the right-hand side, the number it matched."""

    name: str


@dataclass(frozen=True)
class Use(Pattern):
    """Matches the result of an op without attributes. `once`: only where nothing else reads that result, for rules that
    would otherwise compute it twice."""

    op: str
    operands: tuple[PatternLike, ...]
    once: bool = False


PatternLike = Pattern | float | int | bool
Bindings = dict[str, Operand]


def use(op: str) -> Callable[..., Use]:
    """The pattern constructor of an op: `exp = use("exp")`."""
    return lambda *operands: Use(op, operands)


def once(pattern: Use) -> Use:
    """The pattern, only where the matched value has no other use."""
    return Use(pattern.op, pattern.operands, True)


@dataclass(frozen=True)
class Rule:
    """One algebraic identity, `left` becomes `right`, applied where `when(bindings)` is true."""

    name: str
    left: Use
    right: PatternLike
    exactness: Exactness
    when: Callable[[Bindings], bool] | None = None

    @cached_property
    def heads(self) -> frozenset[str]:
        """What must be among the operands for the rule to apply at all: op names, and "number" for literals."""
        return frozenset(part.op if isinstance(part, Use) else "number" for part in self.left.operands
                         if not isinstance(part, Any_))

    def apply(self, driver: Rewriter, operation: Operation, heads: frozenset[str]) -> Operand | None:
        """The replacement for the operation's result, None where the rule does not apply. `heads`: those of the operation."""
        if not self.heads <= heads:
            return None
        bindings = match_operands(self.left, operation.operands, driver, {})
        if bindings is None or (self.when is not None and not self.when(bindings)):
            return None
        return build(self.right, bindings, operation.result.type)


@dataclass(frozen=True)
class StructuralRule:
    """A rule written as a function, for ops with attributes: `replacement(driver, operation)` or None."""

    name: str
    ops: tuple[str, ...]
    replacement: Callable[[Rewriter, Operation], Operand | None]
    exactness: Exactness

    def apply(self, driver: Rewriter, operation: Operation, heads: frozenset[str]) -> Operand | None:
        """The replacement for the operation's result, None where the rule does not apply."""
        return self.replacement(driver, operation)


AnyRule = Rule | StructuralRule


def match(pattern: PatternLike, x: Operand, driver: Rewriter, bindings: Bindings) -> Bindings | None:
    """The bindings extended so that the pattern is x, None where it is not."""
    if isinstance(pattern, Any_):
        return bind(pattern.name, x, bindings)
    if isinstance(pattern, Number):
        return bind(pattern.name, x, bindings) if isinstance(x, Literal) else None
    if isinstance(pattern, Use):
        definition = driver.definition(x)
        if definition is None or definition.op != pattern.op or definition.attributes:
            return None
        if pattern.once and isinstance(x, Value) and driver.uses[x] > 1:
            return None
        return match_operands(pattern, definition.operands, driver, bindings)
    return bindings if isinstance(x, Literal) and is_number(x, pattern) else None


def is_number(x: Literal, number: Any) -> bool:
    """Whether a literal is a pattern's number; True and 1 are different things."""
    if isinstance(number, bool) or isinstance(x.value, bool):
        return x.value is number
    return x.same(number)


def bind(name: str, x: Operand, bindings: Bindings) -> Bindings | None:
    """The bindings with name = x, None where name is something else already."""
    known = bindings.get(name)
    if known is None:
        return {**bindings, name: x}
    same = known is x or (isinstance(x, Literal) and repr(known) == repr(x))
    return bindings if same else None


def match_operands(pattern: Use, operands: Sequence[Operand], driver: Rewriter, bindings: Bindings) -> Bindings | None:
    """Match all operands, in both orders where the op is commutative."""
    if len(operands) != len(pattern.operands):
        return None
    orders = [tuple(operands)]
    if TABLE[pattern.op].commutative and len(operands) == 2:
        orders.append((operands[1], operands[0]))
    for order in orders:
        found = match_all(pattern.operands, order, driver, bindings)
        if found is not None:
            return found
    return None


def match_all(parts: Sequence[PatternLike], operands: Sequence[Operand], driver: Rewriter,
              bindings: Bindings) -> Bindings | None:
    """Match patterns with operands one by one."""
    for part, x in zip(parts, operands, strict=True):
        found = match(part, x, driver, bindings)
        if found is None:
            return None
        bindings = found
    return bindings


def build(pattern: PatternLike, bindings: Bindings, like: Type) -> Operand:
    """Emit the right-hand side of a rule. Plain numbers take the dtype of the operands they meet, alone that of `like`."""
    if isinstance(pattern, (Any_, Number)):
        return bindings[pattern.name]
    if not isinstance(pattern, Use):
        return literal_like(pattern, like.dtype)
    operands = [build(p, bindings, like) if isinstance(p, Pattern) else p for p in pattern.operands]
    result: Operand = TABLE[pattern.op](*as_operands(tuple(operands)))
    return result


# --------------------------------------------------------------------------------------------------- driver
TEMPORARY = re.compile(r"t(_\d+)?$")


@dataclass
class Statistics:
    """How often each rule was applied."""

    applied: Counter[str] = field(default_factory=Counter)


class Rewriter(FoldingBuilder):
    """Rebuilds a function through `rules`."""

    def __init__(self, function: Function, rules: Mapping[str, Sequence[AnyRule]]) -> None:
        super().__init__(function)
        self.function, self.rules = function, rules
        self.statistics = Statistics()
        self.uses = use_counts(function)
        self.definitions: dict[Value, Operation] = {}
        self.values: dict[Value, Operand] = {}           # of the old function -> of the new one
        self.names: dict[Value, str] = {}                # user names that a temporary of the new function takes over

    def definition(self, x: Operand) -> Operation | None:
        """The operation that defines x, None for parameters, region arguments and literals."""
        return self.definitions.get(x) if isinstance(x, Value) else None

    def head(self, x: Operand) -> str:
        """The op that defines x, "number" for a literal, empty for parameters."""
        if isinstance(x, Literal):
            return "number"
        definition = self.definitions.get(x)
        return definition.op if definition is not None else ""

    def run(self) -> Function:
        """The rewritten function."""
        with self:
            body = self.rewrite_block(self.function.body)
        result = Function(self.function.name, body, self.function.sizes, self.function.guards)
        return renamed(result, self.names)

    def rewrite_block(self, block: Block) -> Block:
        """A block with all its operations rewritten."""
        with self.region(block.arguments) as out:
            for operation in block.operations:
                self.rewrite(operation)
            out.extend(self.new(x) for x in block.yields)
        result: Block = out[0]
        return result

    def new(self, x: Operand) -> Operand:
        """What an operand of the old function is now."""
        return self.values.get(x, x) if isinstance(x, Value) else x

    def rewrite(self, operation: Operation) -> None:
        """Emit an operation of the old function, simplified; its values keep their identity where nothing changes."""
        self.location = operation.location
        operands = tuple(self.new(x) for x in operation.operands)
        if operation.regions:
            regions = tuple(self.rewrite_block(r) for r in operation.regions)
            self.location = operation.location
            self.append(Operation(operation.op, operands, operation.results, operation.attributes, regions, operation.location))
            return
        candidate = Operation(operation.op, operands, operation.results, operation.attributes, (), operation.location)
        replacement = self.simplified(candidate) if len(operation.results) == 1 else None
        if replacement is None:
            self.append(candidate)
            return
        (old,) = operation.results
        self.values[old] = replacement
        if isinstance(replacement, Value):
            self.uses[replacement] += self.uses[old]
            self.keep_name(old, replacement)

    def keep_name(self, old: Value, new: Value) -> None:
        """Let a temporary that stands for a named value take over the name."""
        if not TEMPORARY.match(old.name) and TEMPORARY.match(new.name) and new in self.definitions and new not in self.names:
            self.names[new] = old.name

    def emit(self, op: str, operands: tuple[Any, ...], attributes: Mapping[str, Any] | None = None, *,
             name: str = "", regions: tuple[Block, ...] = (), location: Location | None = None) -> Any:
        """As `Builder.emit`, through the rules: what rules and row functions build is simplified at once."""
        inputs = as_operands(operands)
        attributes = MappingProxyType(dict(attributes or {}))
        inferred = None if regions else TABLE[op].infer(*[x.type for x in inputs], **attributes)
        if not isinstance(inferred, Type):
            return super().emit(op, inputs, attributes, name=name, regions=regions, location=location)
        candidate = Operation(op, inputs, (Value(name or "t", inferred),), attributes, (), location or self.location)
        replacement = self.simplified(candidate)
        if replacement is not None:
            return replacement
        result = self.value(name, inferred)
        self.append(Operation(op, inputs, (result,), attributes, (), candidate.location))
        self.uses.update(x for x in inputs if isinstance(x, Value) and x not in self.uses)
        return result

    def append(self, operation: Operation) -> None:
        """Append a finished operation and remember what it defines."""
        for result in operation.results:
            self.definitions[result] = operation
        super().append(operation)

    def simplified(self, operation: Operation) -> Operand | None:
        """What replaces the operation's result, None where no rule applies."""
        folded = fold_literals(operation.op, operation.operands, operation.attributes)
        if folded is not None:
            return folded
        heads = frozenset(map(self.head, operation.operands))
        for rule in self.rules.get(operation.op, ()):
            mark = len(self.blocks[-1][1])
            replacement = rule.apply(self, operation, heads)
            if replacement is not None:
                replacement = self.fitted(replacement, operation.result.type)
            if replacement is not None:
                self.statistics.applied[rule.name] += 1
                return replacement
            del self.blocks[-1][1][mark:]
        return None

    def fitted(self, x: Operand, type: Type) -> Operand | None:
        """x as a value of this type: a scalar literal in place of an array is spread over it; None where it cannot be."""
        if x.type == type:
            return x
        if isinstance(x, Literal) and x.type.dtype is type.dtype:
            spread: Operand = self.emit("broadcast", (x,), {"dims": type.dims, "axes": ()})
            return spread
        return None


def index_rules(rules: Iterable[AnyRule]) -> dict[str, list[AnyRule]]:
    """Rules by the op they start at, in order."""
    table: dict[str, list[AnyRule]] = {}
    for rule in rules:
        for op in (rule.left.op,) if isinstance(rule, Rule) else rule.ops:
            table.setdefault(op, []).append(rule)
    return table
