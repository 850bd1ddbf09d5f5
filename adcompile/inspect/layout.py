"""Places boxes in layers, without Graphviz.

A picture is a container of items: nodes, and containers inside it. Each container is laid out for itself:

1. ranks: an item stands below everything it depends on; what depends on nothing stands right above its first reader.
2. Every wire gets an item in each row that it crosses, as wide as its label: so neither labels nor boxes overlap wires.
3. order within the rows: barycentres, the order with the fewest crossings found is kept.
4. positions: each row as close below its neighbours as the widths allow (isotonic regression).

Folding a container changes sizes alone, not ranks and orders: the script of the HTML page repeats step 4 when one is folded.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP = 16.0                          # between boxes of a row
THIN = 6.0                          # between wires of a row
ROW_GAP = 10.0                      # between rows
PADDING = 12.0                      # inside of a container
TITLE = 22.0                        # height of a container's title
SWEEPS = 8


@dataclass(eq=False)
class Item:
    """Something that takes room in a row: a node, a container, a wire on its way, or a wire's entrance or exit (`end`: -1 at
    the top of a container, 1 at its bottom)."""

    width: float = 0.0
    height: float = 0.0
    inside: Container | None = None
    wire: bool = False
    end: int = 0
    rank: int = 0
    x: float = 0.0                  # of the centre, within the container
    y: float = 0.0
    tall: float = 0.0               # its height in its row: a wire goes straight through it


@dataclass(eq=False)
class Wire:
    """A line through items of one container. `edge` numbers the edge whose label it bears; `leaves` and `enters`: where it
    leaves a container that it starts at, and enters one that it ends at."""

    items: list[Item]
    edge: int | None = None
    label_width: float = 2.0
    leaves: Item | None = None
    enters: Item | None = None
    active: bool = False

    def offset(self, item: Item) -> float:
        """How far from the centre of its first or last item it is fastened."""
        port = self.leaves if item is self.items[0] else self.enters if item is self.items[-1] else None
        box = item.inside
        return 0.0 if port is None or box is None or box.folded else port.x - box.width / 2


@dataclass(eq=False)
class Container:
    """Items with wires between them; where it stands in another container it is an item itself."""

    title_width: float = 0.0
    folded_height: float = 26.0
    folded: bool = False
    items: list[Item] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    rows: list[list[Item]] = field(default_factory=list)
    ports: dict[tuple[int, int], Item] = field(default_factory=dict)       # (source number, end) -> entrance or exit
    width: float = 0.0
    height: float = 0.0
    outermost: bool = False

    def children(self) -> list[Container]:
        """The containers directly inside."""
        return [item.inside for item in self.items if item.inside is not None]


# ---------------------------------------------------------------------------------------------------- ranks and order
def arrange(container: Container) -> None:
    """Ranks and order of everything in a container and the containers inside it."""
    for child in container.children():
        arrange(child)
    rank(container)
    rows: dict[int, list[Item]] = defaultdict(list)
    for item in container.items:
        rows[2 * item.rank].append(item)
    for wire in container.wires:
        start, end = wire.items[0], wire.items[-1]
        between = [Item(width=2.0, wire=True) for _ in range(2 * start.rank + 1, 2 * end.rank)]
        if wire.edge is not None and between:
            between[-1].width, between[-1].height = wire.label_width, 15.0
        for k, item in enumerate(between):
            rows[2 * start.rank + 1 + k].append(item)
        wire.items = [start, *between, end]
    container.rows = [rows[k] for k in sorted(rows)]
    order(container)


def rank(container: Container) -> None:
    """The rank of every item: the longest way to it."""
    after: dict[Item, list[Item]] = defaultdict(list)
    before: dict[Item, int] = defaultdict(int)
    for wire in container.wires:
        after[wire.items[0]].append(wire.items[-1])
        before[wire.items[-1]] += 1
    entrances = any(item.end < 0 for item in container.items)
    waiting = dict(before)
    ready = [item for item in container.items if not waiting.get(item)]
    for item in ready:
        item.rank = 0 if item.end < 0 or not entrances else 1
    while ready:
        item = ready.pop()
        for reader in after[item]:
            reader.rank = max(reader.rank, item.rank + 1)
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    for item in container.items:
        if not before[item] and item.end == 0 and after[item]:
            item.rank = min(reader.rank for reader in after[item]) - 1
    bottom = max((item.rank for item in container.items if item.end <= 0), default=0)
    for item in container.items:
        if item.end > 0:
            item.rank = bottom + 1


def order(container: Container) -> None:
    """Order each row so that wires cross little."""
    up: dict[Item, list[Item]] = defaultdict(list)
    down: dict[Item, list[Item]] = defaultdict(list)
    for wire in container.wires:
        for a, b in itertools.pairwise(wire.items):
            down[a].append(b)
            up[b].append(a)
    rows = container.rows
    best, least = [list(row) for row in rows], crossings(rows, down)
    place = {item: float(k) for row in rows for k, item in enumerate(row)}
    for sweep in range(SWEEPS):
        neighbours = up if sweep % 2 == 0 else down
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            middle = {item: barycentre(item, neighbours[item], place) for item in row}
            row.sort(key=middle.__getitem__)
            place.update({item: float(k) for k, item in enumerate(row)})
        found = crossings(rows, down)
        if found < least:
            best, least = [list(row) for row in rows], found
        if not least:
            break
    container.rows = best


def barycentre(item: Item, neighbours: Sequence[Item], place: dict[Item, float]) -> float:
    """The mean place of an item's neighbours; its own where it has none."""
    return sum(place[n] for n in neighbours) / len(neighbours) if neighbours else place[item]


def crossings(rows: Sequence[Sequence[Item]], down: dict[Item, list[Item]]) -> int:
    """How many pairs of wires cross."""
    total = 0
    for row, below in itertools.pairwise(rows):
        place = {item: k for k, item in enumerate(below)}
        seen: list[int] = []
        for item in row:
            ends = sorted(place[b] for b in down[item] if b in place)
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                seen.insert(bisect_right(seen, end), end)
    return total


# ---------------------------------------------------------------------------------------------------- positions
def measure(container: Container) -> None:
    """Sizes of containers, and positions of all items within theirs."""
    for item in container.items:
        if item.inside is not None:
            measure(item.inside)
            item.width, item.height = item.inside.width, item.inside.height
    if container.folded:
        container.width, container.height = container.title_width + 2 * PADDING, container.folded_height
        return
    top = PADDING if container.outermost else PADDING + TITLE
    for row in container.rows:
        height = max((item.height for item in row), default=0.0)
        for item in row:
            item.y = top + height / 2
            item.tall = height if item.wire else item.height
        top += height + ROW_GAP
    straighten(container)
    left = min((item.x - item.width / 2 for item in every(container)), default=0.0)
    for item in every(container):
        item.x += PADDING - left
    right = max((item.x + item.width / 2 for item in every(container)), default=0.0)
    container.width = max(right + PADDING, container.title_width + 2 * PADDING)
    container.height = top - ROW_GAP + PADDING


def every(container: Container) -> list[Item]:
    """All items of the rows."""
    return [item for row in container.rows for item in row]


def straighten(container: Container) -> None:
    """The x of every item: near the mean of its neighbours, above and below in turn."""
    pairs = [(a, b, wire) for wire in container.wires for a, b in itertools.pairwise(wire.items)]
    above: dict[Item, list[tuple[Item, float]]] = defaultdict(list)            # a neighbour, and how far aside of it to be
    below: dict[Item, list[tuple[Item, float]]] = defaultdict(list)
    for a, b, wire in pairs:
        aside = wire.offset(b) - wire.offset(a)
        below[a].append((b, aside))
        above[b].append((a, -aside))
    for row in container.rows:
        for item, x in zip(row, apart([0.0] * len(row), row, [1.0] * len(row))):
            item.x = x
    for sweep in range(SWEEPS):
        for row in container.rows if sweep % 2 == 0 else container.rows[::-1]:
            near = above if sweep % 2 == 0 else below
            wanted = [sum(n.x + aside for n, aside in near[i]) / len(near[i]) if near[i] else i.x for i in row]
            weights = [(4.0 if i.wire else 1.0) * max(len(near[i]), 0.1) for i in row]
            for item, x in zip(row, apart(wanted, row, weights)):
                item.x = x


def apart(wanted: Sequence[float], row: Sequence[Item], weights: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones (in weighted squares) at which the items of a row do not touch."""
    offsets, offset = [], 0.0
    for k, item in enumerate(row):
        if k:
            gap = THIN if item.wire and row[k - 1].wire else GAP
            offset += (row[k - 1].width + item.width) / 2 + gap
        offsets.append(offset)
    blocks: list[list[float]] = []                  # [weighted mean, weight, how many]
    for x, offset, weight in zip(wanted, offsets, weights):
        blocks.append([x - offset, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, weight, count = blocks.pop()
            before = blocks[-1]
            before[0] = (before[0] * before[1] + mean * weight) / (before[1] + weight)
            before[1], before[2] = before[1] + weight, before[2] + count
    means = [mean for mean, _, count in blocks for _ in range(int(count))]
    return [mean + offset for mean, offset in zip(means, offsets)]
