"""Index expressions: where a statement reads or writes, in terms of the loop axes around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from ..ir.core import Literal, Value
from ..ir.dims import Dim
from ..ir.loops import SizeOf

ONE, ZERO = Dim.of(1), Dim.of(0)


@dataclass(eq=False)
class Axis:
    """Something a loop runs over: 0, 1, ..., length - 1. Axes that may share a loop are united into one class.

    An axis may be split in two: its *tiles*, of `lanes` elements each (the last one may be shorter), and the elements of a
    tile. An axis over the elements (`tile` is then the axis of its tiles) stands for the element itself, though its loop
    counts from the start of the tile. It is run over last, as lanes, or, as `rows`, first."""

    length: Dim
    number: int
    parent: Axis | None = field(default=None, repr=False)
    lanes: int = 0
    tile: Axis | None = None
    rows: bool = False

    @property
    def extent(self) -> Dim:
        """How many elements a value has along this axis where it is kept."""
        return self.length if self.tile is None else Dim.of(self.tile.lanes)

    def root(self) -> Axis:
        """The axis that stands for the class of this one."""
        axis = self
        while axis.parent is not None:
            axis = axis.parent
        return axis


@dataclass(frozen=True)
class Affine:
    """`sum(coefficient * index) + offset`."""

    terms: tuple[tuple[Index, Dim], ...]
    offset: Dim


@dataclass(frozen=True)
class Quotient:
    """`index // divisor`."""

    index: Index
    divisor: Dim


@dataclass(frozen=True)
class Remainder:
    """`index % divisor`."""

    index: Index
    divisor: Dim


@dataclass(frozen=True)
class Read:
    """An element of a value: the same value wherever two reads are equal."""

    value: Value
    index: tuple[Index, ...]


@dataclass(frozen=True)
class Lookup:
    """An index that is itself read from an integer value."""

    read: Operand


@dataclass(frozen=True)
class IndexValue:
    """An index used as a number."""

    index: Index


Index = Union[Axis, Affine, Quotient, Remainder, Lookup]
Operand = Union[Read, Literal, IndexValue, SizeOf]


def affine(index: Index, step: Dim, offset: Dim) -> Index:
    """`step * index + offset`, flattened."""
    if step == ONE and offset == ZERO:
        return index
    if isinstance(index, Affine):
        return tidy(tuple((i, c * step) for i, c in index.terms), index.offset * step + offset)
    return tidy(((index, step),), offset)


def weighted_sum(parts: list[tuple[Index, Dim]]) -> Index:
    """`sum(index * weight)`, flattened."""
    terms: list[tuple[Index, Dim]] = []
    offset = ZERO
    for index, weight in parts:
        if isinstance(index, Affine):
            terms += [(i, c * weight) for i, c in index.terms]
            offset = offset + index.offset * weight
        else:
            terms.append((index, weight))
    return tidy(tuple(terms), offset)


def tidy(terms: tuple[tuple[Index, Dim], ...], offset: Dim) -> Index:
    """An affine index with like terms collected; the bare index where it is nothing more."""
    collected: dict[Index, Dim] = {}
    for index, coefficient in terms:
        collected[index] = collected.get(index, ZERO) + coefficient
    kept = tuple((i, c) for i, c in collected.items() if c != ZERO)
    if len(kept) == 1 and kept[0][1] == ONE and offset == ZERO:
        return kept[0][0]
    return Affine(kept, offset)


def split_flat(index: Index, inner: Dim) -> tuple[Index, Index]:
    """`(index // inner, index % inner)`, simplified where the index was put together as `outer * inner + rest`."""
    if inner == ONE:
        return index, Affine((), ZERO)
    if isinstance(index, Affine):
        outer = [(i, c) for i, c in index.terms if c // inner * inner == c]
        rest = [(i, c) for i, c in index.terms if c // inner * inner != c]
        if (
            index.offset == ZERO
            and len(rest) == 1
            and rest[0][1] == ONE
            and isinstance(rest[0][0], Axis)
            and rest[0][0].length == inner
        ):
            return tidy(tuple((i, c // inner) for i, c in outer), ZERO), rest[0][0]
        if index.offset == ZERO and not rest:
            return tidy(tuple((i, c // inner) for i, c in outer), ZERO), Affine((), ZERO)
    if isinstance(index, Axis) and index.length == inner:
        return Affine((), ZERO), index
    return Quotient(index, inner), Remainder(index, inner)


def substitute(index: Index, axes: Mapping[Axis, Index]) -> Index:
    """The index with axes replaced."""
    if isinstance(index, Axis):
        return axes.get(index, index)
    if isinstance(index, Affine):
        replaced = weighted_sum([(substitute(i, axes), c) for i, c in index.terms]) if index.terms else index
        return affine(replaced, ONE, index.offset) if index.terms else index
    if isinstance(index, Quotient):
        return split_flat(substitute(index.index, axes), index.divisor)[0]
    if isinstance(index, Remainder):
        return split_flat(substitute(index.index, axes), index.divisor)[1]
    return Lookup(substitute_operand(index.read, axes))


def substitute_operand(operand: Operand, axes: Mapping[Axis, Index]) -> Operand:
    """The operand with axes replaced in its indices."""
    if isinstance(operand, Read):
        return Read(operand.value, tuple(substitute(i, axes) for i in operand.index))
    if isinstance(operand, IndexValue):
        return IndexValue(substitute(operand.index, axes))
    return operand


def axes_of(index: Index) -> Iterator[Axis]:
    """The axes that occur in an index."""
    if isinstance(index, Axis):
        yield index
    elif isinstance(index, Affine):
        for i, _ in index.terms:
            yield from axes_of(i)
    elif isinstance(index, (Quotient, Remainder)):
        yield from axes_of(index.index)
    else:
        yield from operand_axes(index.read)


def operand_axes(operand: Operand) -> Iterator[Axis]:
    """The axes that an operand moves with."""
    if isinstance(operand, Read):
        for index in operand.index:
            yield from axes_of(index)
    elif isinstance(operand, IndexValue):
        yield from axes_of(operand.index)


def dims_in(operand: Operand | Index) -> Iterator[Dim]:
    """The sizes that occur in an operand or an index."""
    if isinstance(operand, SizeOf):
        yield operand.dim
    elif isinstance(operand, Axis):
        yield operand.length
    elif isinstance(operand, Affine):
        yield operand.offset
        for i, c in operand.terms:
            yield c
            yield from dims_in(i)
    elif isinstance(operand, (Quotient, Remainder)):
        yield operand.divisor
        yield from dims_in(operand.index)
    elif isinstance(operand, (Lookup, IndexValue)):
        yield from dims_in(operand.read if isinstance(operand, Lookup) else operand.index)
    elif isinstance(operand, Read):
        for i in operand.index:
            yield from dims_in(i)


def lookups(index: Index) -> Iterator[Operand]:
    """What is read to find the place."""
    if isinstance(index, Affine):
        for i, _ in index.terms:
            yield from lookups(i)
    elif isinstance(index, (Quotient, Remainder)):
        yield from lookups(index.index)
    elif isinstance(index, Lookup):
        yield index.read
