"""Symbolic axis lengths: integer polynomials over size symbols and floor quotients.

    Dim.symbol("X_0") * Dim.symbol("X_1") + 2          prints as    X_0*X_1 + 2

A `Dim` is immutable, hashable and canonical: two that are equal as polynomials are equal objects. Its text is a Python
expression, so it can be evaluated, parsed back and printed into generated code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Union


@dataclass(frozen=True)
class FloorDiv:
    """The atom `numerator // denominator`, where it does not simplify to a polynomial."""

    numerator: Dim
    denominator: Dim

    def __str__(self) -> str:
        return f"({self.numerator})//({self.denominator})"


Atom = Union[str, FloorDiv]
Monomial = tuple[Atom, ...]
DimLike = Union["Dim", int]


@dataclass(frozen=True, eq=True)
class Dim:
    """A polynomial: `terms` maps sorted tuples of atoms to non-zero integer coefficients, in canonical order."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: DimLike) -> Dim:
        """A Dim from an int (or a Dim itself)."""
        if isinstance(value, Dim):
            return value
        return Dim((((), int(value)),)) if value else Dim(())

    @staticmethod
    def symbol(name: str) -> Dim:
        """The size symbol `name`, a Python identifier."""
        return Dim((((name,), 1),))

    @staticmethod
    def parse(text: str) -> Dim:
        """The Dim whose text is `text`."""
        return parse_dim(ast.parse(text, mode="eval").body)

    @cached_property
    def constant(self) -> int | None:
        """The value, if it does not depend on any symbol."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @cached_property
    def bare_symbol(self) -> str | None:
        """The symbol's name, if this is a symbol and nothing else."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                return monomial[0]
        return None

    @cached_property
    def symbols(self) -> frozenset[str]:
        """All size symbols that occur."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found |= atom.numerator.symbols | atom.denominator.symbols
        return frozenset(found)

    def __add__(self, other: DimLike) -> Dim:
        return collect([*self.terms, *Dim.of(other).terms])

    def __neg__(self) -> Dim:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: DimLike) -> Dim:
        return self + (-Dim.of(other))

    def __mul__(self, other: DimLike) -> Dim:
        right = Dim.of(other)
        return collect([(sort_atoms(a + b), c * d) for a, c in self.terms for b, d in right.terms])

    def __radd__(self, other: int) -> Dim:
        return self + other

    def __rsub__(self, other: int) -> Dim:
        return Dim.of(other) - self

    def __rmul__(self, other: int) -> Dim:
        return self * other

    def __floordiv__(self, other: DimLike) -> Dim:
        return floor_divide(self, Dim.of(other))

    def __rfloordiv__(self, other: int) -> Dim:
        return floor_divide(Dim.of(other), self)

    def __mod__(self, other: DimLike) -> Dim:
        return self - (self // other) * other

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The integer for given sizes. Raises `KeyError` for a symbol that `sizes` lacks."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    product *= sizes[atom]
                else:
                    product *= atom.numerator.evaluate(sizes) // atom.denominator.evaluate(sizes)
            total += product
        return total

    def substitute(self, replace: Callable[[str], Dim]) -> Dim:
        """This polynomial with every symbol s replaced by `replace(s)`."""
        if not self.symbols:
            return self
        total = Dim(())
        for monomial, coefficient in self.terms:
            product = Dim.of(coefficient)
            for atom in monomial:
                if isinstance(atom, str):
                    product = product * replace(atom)
                else:
                    product = product * (atom.numerator.substitute(replace) // atom.denominator.substitute(replace))
            total = total + product
        return total

    @cached_property
    def text(self) -> str:
        """A Python expression."""
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            alone = len(monomial) == 1 and (coefficient == 1 or coefficient == -1 and bool(parts))
            factors = [str(atom) if alone or isinstance(atom, str) else f"({atom})" for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            joined = "*".join(factors)
            parts.append(f"{sign} {joined}" if parts else ("-" + joined if coefficient < 0 else joined))
        return " ".join(parts)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Dim({self.text})"


def sort_atoms(atoms: Monomial) -> Monomial:
    return tuple(sorted(atoms, key=str))


def collect(terms: list[tuple[Monomial, int]]) -> Dim:
    """The canonical polynomial: like terms added, zeros dropped, higher degrees first, the constant last."""
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in sums.items() if c]
    kept.sort(key=lambda term: (-len(term[0]), tuple(map(str, term[0]))))
    return Dim(tuple(kept))


def floor_divide(numerator: Dim, denominator: Dim) -> Dim:
    """`numerator // denominator`, simplified where every coefficient (or a common monomial) divides exactly."""
    divisor = denominator.constant
    if divisor == 0:
        raise ZeroDivisionError("a size is divided by zero")
    if numerator.constant is not None and divisor is not None:
        return Dim.of(numerator.constant // divisor)
    if numerator == denominator:
        return Dim.of(1)
    if divisor is not None:
        exact = [(m, c) for m, c in numerator.terms if c % divisor == 0]
        rest = [(m, c) for m, c in numerator.terms if c % divisor]
        whole = Dim(tuple((m, c // divisor) for m, c in exact))
        if not rest:
            return whole
        if len(rest) == 1 and rest[0][0] == ():                  # a constant remainder
            whole = whole + rest[0][1] // divisor
            remainder = rest[0][1] % divisor
            if 0 <= remainder < abs(divisor) and divisor > 0:
                return whole
        if exact and divisor > 0:
            return whole + quotient_atom(collect(rest), denominator)
        return quotient_atom(numerator, denominator)
    if len(denominator.terms) == 1:
        monomial, coefficient = denominator.terms[0]
        quotient = [(remove_atoms(m, monomial), c // coefficient) for m, c in numerator.terms
                    if c % coefficient == 0 and remove_atoms(m, monomial) is not None]
        if len(quotient) == len(numerator.terms):
            return collect([(m, c) for m, c in quotient if m is not None])
    return quotient_atom(numerator, denominator)


def remove_atoms(atoms: Monomial, removed: Monomial) -> Monomial | None:
    """`atoms` without `removed`, or None where they do not all occur."""
    left = list(atoms)
    for atom in removed:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def quotient_atom(numerator: Dim, denominator: Dim) -> Dim:
    return Dim((((FloorDiv(numerator, denominator),), 1),))


OPERATORS: dict[type, Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def parse_dim(node: ast.expr) -> Dim:
    """The Dim of a parsed expression. Raises `ValueError` for anything that a Dim's text never holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Dim.of(node.value)
    if isinstance(node, ast.Name):
        return Dim.symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -parse_dim(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](parse_dim(node.left), parse_dim(node.right))
    raise ValueError(f"not a size expression: {ast.unparse(node)}")
