"""Parts of arrays without gaps, and which of them make up a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dims import Dim

ZERO = Dim.of(0)
MOST = 32                                # boxes that are looked at


@dataclass(frozen=True)
class Box:
    """`dims` entries from `starts` on."""

    starts: tuple[Dim, ...]
    dims: tuple[Dim, ...]

    @staticmethod
    def whole(dims: tuple[Dim, ...]) -> Box:
        """All of an array."""
        return Box((ZERO,) * len(dims), dims)

    def part(self, starts: Sequence[Dim], dims: tuple[Dim, ...]) -> Box:
        """A part of this part."""
        return Box(tuple(a + b for a, b in zip(self.starts, starts, strict=True)), dims)

    def joined(self, other: Box) -> Box | None:
        """Both together, if they lie side by side."""
        differ = [k for k, (a, b) in enumerate(zip(self.starts, other.starts, strict=True)) if a != b]
        if len(differ) != 1 or any(a != b for k, (a, b) in enumerate(zip(self.dims, other.dims, strict=True)) if k != differ[0]):
            return None
        (along,) = differ
        for first, second in ((self, other), (other, self)):
            if first.starts[along] + first.dims[along] == second.starts[along]:
                return Box(first.starts, tuple(d + second.dims[k] if k == along else d for k, d in enumerate(first.dims)))
        return None

    def is_inside(self, other: Box, dims: tuple[Dim, ...]) -> bool:
        """Whether this is surely a part of another part of an array."""
        return all((other.starts[k] == ZERO or not_negative(self.starts[k] - other.starts[k]))
                   and (other.end(k) == dims[k] or not_negative(other.end(k) - self.end(k))) for k in range(len(dims)))

    def is_apart(self, other: Box) -> bool:
        """Whether the two surely have no entry in common."""
        return any(not_negative(self.starts[k] - other.end(k)) or not_negative(other.starts[k] - self.end(k))
                   for k in range(len(self.dims)))

    def end(self, axis: int) -> Dim:
        """The first index behind it."""
        return self.starts[axis] + self.dims[axis]

    def without(self, hole: Box, dims: tuple[Dim, ...]) -> list[Box]:
        """What is surely left of it without a hole: below and above along the first axis, and so on."""
        if self.is_apart(hole):
            return [self]
        if not hole.is_inside(self, dims):
            return []
        found: list[Box] = []
        for k in range(len(dims)):
            starts, sizes = hole.starts[:k] + self.starts[k:], hole.dims[:k] + self.dims[k:]
            below = Box(starts, (*sizes[:k], hole.starts[k] - self.starts[k], *sizes[k + 1:]))
            above = Box((*starts[:k], hole.end(k), *starts[k + 1:]), (*sizes[:k], self.end(k) - hole.end(k), *sizes[k + 1:]))
            found += [box for box in (below, above) if box.dims[k] != ZERO]
        return found


def not_negative(dim: Dim) -> bool:
    """Whether a difference is a number that is not negative."""
    return dim.constant is not None and dim.constant >= 0


def in_both(a: Sequence[Box], b: Sequence[Box], dims: tuple[Dim, ...]) -> tuple[Box, ...]:
    """Parts that are surely in one of the first boxes and in one of the second."""
    found = [x if x.is_inside(y, dims) else y for x in a for y in b if x.is_inside(y, dims) or y.is_inside(x, dims)]
    return tuple(dict.fromkeys(found))


def joined(boxes: Sequence[Box]) -> list[Box]:
    """Boxes, and those that some of them make up side by side; without those that were put together."""
    found = dict.fromkeys(boxes)
    used: set[Box] = set()
    new = list(found)
    while new and len(found) <= MOST:
        pairs = [(a, b, a.joined(b)) for a in new for b in found]
        used.update(x for a, b, c in pairs if c is not None for x in (a, b))
        new = list(dict.fromkeys(c for _, _, c in pairs if c is not None and c not in found))
        found.update(dict.fromkeys(new))
    return [box for box in found if box not in used]
