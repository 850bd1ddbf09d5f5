"""Decides how sizes relate while a function is captured, and records every decision.

Each size symbol has a hint, its actual value in the call that is being captured. `equal(a, b)` answers with the actual
lengths; where the answer is not plain from the polynomials it becomes an assumption: equal ones are unified (one symbol
is replaced by the other's expression everywhere, so that later code sees one axis), other relations become guards.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ShapeError
from .core import RELATIONS, Guard, Location
from .dims import Dim, DimLike
from .types import Type


class Sizes:
    """The size symbols of one capture, with their hints, unifications and guards."""

    def __init__(self) -> None:
        self.assume = False                         # lengths are made up: those that must agree are taken to
        self.integers: set[str] = set()             # symbols that stand for integer arguments: may be negative
        self.hints: dict[str, int] = {}
        self.replaced: dict[str, Dim] = {}          # symbol -> what it was unified with (resolve() follows chains)
        self.guards: list[Guard] = []
        self.computed: dict[str, tuple[Dim, Dim]] = {}      # sizes that the function computes: least and greatest value
        self.where: Callable[[], Location | None] = lambda: None

    def symbol(self, name: str, hint: int, *, integer: bool = False) -> Dim:
        """A new size symbol whose actual value now is `hint`; `integer`: an integer argument, not an axis length."""
        if name in self.hints:
            raise ValueError(f"size symbol {name!r} exists")
        self.hints[name] = int(hint)
        if integer:
            self.integers.add(name)
        return Dim.symbol(name)

    def resolve(self, dim: DimLike) -> Dim:
        """`dim` in terms of the symbols that are left after unification."""
        dim = Dim.of(dim)
        if not self.replaced or dim.symbols.isdisjoint(self.replaced):
            return dim
        return self.resolve(dim.substitute(lambda s: self.replaced.get(s, Dim.symbol(s))))

    def actual(self, dim: DimLike) -> int:
        """The value of `dim` in the call being captured."""
        dim = Dim.of(dim)
        if self.is_computed(dim):
            raise ShapeError(f"the length {dim} is computed from traced values: it is not known while the function is captured",
                             self.where(), "use operations that do not need to know it, or a loop")
        return dim.evaluate(self.hints)

    def estimate(self, dim: DimLike) -> int:
        """What `dim` may be in the call being captured, for questions of speed."""
        greatest = self.bound(Dim.of(dim), True)
        return 1 if greatest is None else self.actual(greatest)

    def text(self, dim: DimLike) -> str:
        """A size in a message: its actual value where there is one."""
        dim = self.resolve(dim)
        return str(dim) if self.is_computed(dim) else str(self.actual(dim))

    # ------------------------------------------------------------------------------------------------ computed sizes
    def compute(self, name: str, least: DimLike, greatest: DimLike) -> Dim:
        """A new symbol for a size that an `extent` defines, and what is known of its values."""
        self.computed[name] = Dim.of(least), Dim.of(greatest)
        return Dim.symbol(name)

    def is_computed(self, dim: DimLike) -> bool:
        """Whether a size depends on values that only the running function knows."""
        return bool(self.computed) and not Dim.of(dim).symbols.isdisjoint(self.computed)

    def bound(self, dim: Dim, upper: bool) -> Dim | None:
        """The greatest (or least) value of a size in terms of sizes that are known; None where that cannot be said."""
        dim = self.resolve(dim)
        while self.is_computed(dim):
            total = Dim.of(0)
            for monomial, coefficient in dim.terms:
                inner = [a for a in monomial if self.is_computed(Dim((((a,), 1),)))]
                others = list(monomial)
                if not inner:
                    total = total + Dim(((monomial, coefficient),))
                    continue
                others.remove(inner[0])
                if not isinstance(inner[0], str) or any(not isinstance(a, str) or a in self.integers for a in others):
                    return None
                least, greatest = self.computed[inner[0]]
                total = total + (greatest if (coefficient > 0) == upper else least) * Dim(((tuple(others), coefficient),))
            dim = self.resolve(total)
        return dim

    def surely(self, dim: Dim) -> bool:
        """Whether a size is never negative, as far as this call can tell; guarded where it depends on known sizes."""
        least = self.bound(dim, False)
        return least is not None and self.actual(least) >= 0 and self.compare(least, ">=", 0)

    def decide(self, a: DimLike, relation: str, b: DimLike, location: Location | None = None) -> bool | None:
        """As `compare`; None where the answer depends on values that only the running function knows."""
        difference = self.resolve(a) - self.resolve(b)
        if difference.constant is not None or not self.is_computed(difference):
            return self.compare(a, relation, b, location)
        if relation in ("==", "!="):
            return relation == "!=" if self.surely(difference - 1) or self.surely(-difference - 1) else None
        excess = {">=": difference, ">": difference - 1, "<=": -difference, "<": -difference - 1}[relation]
        if self.surely(excess):
            return True
        return False if self.surely(-excess - 1) else None

    # ------------------------------------------------------------------------------------------------ relations
    def equal(self, a: DimLike, b: DimLike, location: Location | None = None) -> bool:
        """Whether two sizes are equal now. If they are, and not for all sizes, they are unified from here on (a guard, in
        effect); if not, the inequality is recorded where it is not plain."""
        if self.is_computed(self.resolve(a)) or self.is_computed(self.resolve(b)):
            return self.decide(a, "==", b, location) is True
        if self.assume and (self.resolve(a) - self.resolve(b)).constant is None:
            self.unify(self.resolve(a), self.resolve(b), location)
            return True
        return self.compare(a, "==", b, location)

    def is_one(self, dim: DimLike, location: Location | None = None) -> bool:
        """Whether an axis has length 1 now; if so it is pinned. "Not 1" needs no guard: code that treats an axis as
        full length is right for length 1 too, and where it meets another axis `equal` speaks."""
        dim = self.resolve(dim)
        if self.is_computed(dim) or self.actual(dim) != 1:
            return False
        self.equal(dim, 1, location)
        return True

    def compare(self, a: DimLike, relation: str, b: DimLike, location: Location | None = None) -> bool:
        """The truth of `a relation b` now; recorded unless it holds (or fails) for all sizes."""
        a, b = self.resolve(a), self.resolve(b)
        if self.is_computed(a) and not self.is_computed(a - b):
            a, b = a - b, Dim.of(0)
        if self.is_computed(a - b):
            known = self.decide(a, relation, b, location)
            if known is None:
                raise ShapeError(f"whether {a} {relation} {b} depends on traced values, which are not known while the function "
                                 "is captured", self.where(), "write the part of the code that depends on it as a loop")
            return known
        truth = RELATIONS[relation](self.actual(a), self.actual(b))
        difference = a - b
        if difference.constant is not None:
            return truth
        if not truth:
            relation = NEGATION[relation]
        if relation == "==":
            self.unify(a, b, location)
        else:
            guard = Guard(a, relation, b, location)
            if guard not in self.guards and not self.always(difference, relation):
                self.guards.append(guard)
        return truth

    def broadcast(self, a: DimLike, b: DimLike, location: Location | None = None) -> Dim | None:
        """The length of two axes broadcast against each other, None where they do not fit. Assumes either that they are
        equal or that one of them is 1; never records that a length is not 1 (see `is_one`)."""
        a, b = self.resolve(a), self.resolve(b)
        if self.is_computed(a) or self.is_computed(b):
            ones = [other for one, other in ((a, b), (b, a)) if self.is_one(one, location)]
            return a if a == b else ones[0] if ones else None
        if self.actual(a) == self.actual(b):
            self.equal(a, b, location)
            return self.resolve(a)
        for one, other in ((a, b), (b, a)):
            if self.is_one(one, location):
                return other
        return self.resolve(a) if self.assume and self.equal(a, b, location) else None

    def resolve_type(self, type: Type) -> Type:
        """`type` with resolved dims."""
        return type.with_dims(tuple(self.resolve(d) for d in type.dims)) if type.dims and self.replaced else type

    def pin(self, dim: DimLike, location: Location | None = None) -> int:
        """The actual value of `dim`, made a constant from here on."""
        value = self.actual(dim)
        self.equal(dim, value, location)
        return value

    def unify(self, a: Dim, b: Dim, location: Location | None) -> None:
        """Make `a == b` hold for the rest of the capture: solve for a symbol where one occurs alone, else keep a guard."""
        difference = a - b
        candidates = [b.bare_symbol, a.bare_symbol] + [m[0] for m, c in difference.terms if len(m) == 1 and abs(c) == 1]
        for symbol in candidates:
            if not isinstance(symbol, str):
                continue
            coefficient = dict(difference.terms).get((symbol,))
            rest = difference - Dim.symbol(symbol) * (coefficient or 0)
            if coefficient in (1, -1) and symbol not in rest.symbols:
                self.replaced[symbol] = rest * -coefficient
                return
        guard = Guard(a, "==", b, location)
        if guard not in self.guards:
            self.guards.append(guard)

    def always(self, difference: Dim, relation: str) -> bool:
        """Whether `difference relation 0` holds for all sizes >= 0: a sum of products of sizes with positive coefficients.
        Integer arguments may be negative, so their symbols never count."""
        positive = all(c >= 0 for m, c in difference.terms) and all(
            isinstance(atom, str) and atom not in self.integers for m, _ in difference.terms for atom in m)
        constant = dict(difference.terms).get((), 0)
        return positive and (relation == ">=" or relation in (">", "!=") and constant > 0)


NEGATION = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
