"""From the model of a graph to a picture: what is placed where, and SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from .graph import CONSTANT, INACTIVE, LEAF, OPERATION, Edge, Group, Model, Node
from .layout import Container, Item, Wire, arrange, measure

WIDE, NARROW = 7.3, 6.3             # width of a character of a node's text and of a label
LONGEST, LONGEST_LABEL = 46, 26     # characters
FILL = {CONSTANT: "#ffffff", LEAF: "#c9eec4", OPERATION: "#cfe3fb", INACTIVE: "#e3e3e3"}
STROKE = {CONSTANT: "#777777", LEAF: "#3c8a35", OPERATION: "#3b70b5", INACTIVE: "#9a9a9a"}
GROUP_FILL = {"loop": "#fff6e0", "branch": "#fbeef7", "call": "#eef7f4", "line": "#f5f5f8"}
STYLE = """
.adc text { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px; fill: #1b1b1b; }
.adc .small { font-size: 10.5px; }
.adc .wire { fill: none; stroke: #3b70b5; stroke-width: 1.3; }
.adc .quiet { stroke: #b5b5b5; stroke-width: 1; }
.adc .label { font-size: 10.5px; fill: #8a3a00; text-anchor: middle; }
.adc .value { font-size: 10.5px; fill: #333333; }
.adc .bar { font-size: 10.5px; fill: #8a1c1c; text-anchor: end; }
.adc .title { font-size: 11px; fill: #444444; }
.adc .label, .adc .title { paint-order: stroke; stroke: white; stroke-width: 3px; stroke-opacity: 0.85; stroke-linejoin: round; }
.adc .name { font-weight: bold; }
""".strip()


def clipped(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[:most - 1] + "…"


@dataclass(eq=False)
class Picture:
    """A model with a place for everything in it."""

    model: Model
    root: Container = field(default_factory=lambda: Container(outermost=True))
    boxes: dict[Group, Container] = field(default_factory=dict)
    items: dict[Node, Item] = field(default_factory=dict)
    where: dict[Container, Item] = field(default_factory=dict)
    hidden: bool = False
    leads: dict[Item, Wire] = field(default_factory=dict)          # the wire that leads to an entrance or exit

    def __post_init__(self) -> None:
        for group in self.model.groups:
            box = Container(WIDE * len(clipped(group.title, LONGEST)) + 30, folded=group.folded)
            self.boxes[group] = box
            item = Item(inside=box)
            self.where[box] = item
            self.parent(group).items.append(item)
        for node in self.model.nodes:
            width, height = node_size(node)
            item = self.items[node] = Item(width, height)
            self.container(node).items.append(item)
        for number, edge in enumerate(self.model.edges):
            self.wire(number, edge)
        self.drop_empty()
        arrange(self.root)
        measure(self.root)
        self.numbers = {wire: k for k, wire in enumerate(w for box in self.all_boxes() for w in box.wires)}

    def all_boxes(self) -> list[Container]:
        """All containers, the outermost first."""
        return [self.root, *self.boxes.values()]

    def parent(self, group: Group) -> Container:
        """The container that a group stands in."""
        return self.root if group.parent is None else self.boxes[group.parent]

    def container(self, node: Node) -> Container:
        """The container that a node stands in."""
        return self.root if node.group is None else self.boxes[node.group]

    def drop_empty(self) -> None:
        """Remove containers that nothing is in."""
        for group in reversed(self.model.groups):
            box = self.boxes[group]
            if not box.items:
                parent = self.parent(group)
                parent.items = [item for item in parent.items if item.inside is not box]
                del self.boxes[group]

    def chain(self, node: Node) -> list[Container]:
        """The containers around a node, outermost first."""
        found: list[Container] = []
        group = node.group
        while group is not None:
            found.append(self.boxes[group])
            group = group.parent
        return [self.root, *reversed(found)]

    def wire(self, number: int, edge: Edge) -> None:
        """Lead an edge out of the containers around its start and into those around its end."""
        outside, inside = self.chain(edge.start), self.chain(edge.end)
        common = sum(1 for a, b in zip(outside, inside) if a is b)
        item, leaves = self.items[edge.start], None
        for box in reversed(outside[common:]):
            leaves = self.port(box, edge, 1, box, item, leaves)
            item = self.where[box]
        for box, into in zip(inside[common - 1:], inside[common:]):
            item, leaves = self.port(into, edge, -1, box, item, leaves), None
        label = clipped(edge.label, LONGEST_LABEL)
        width = NARROW * len(label) + 6 if label else 2.0
        inside[-1].wires.append(Wire([item, self.items[edge.end]], number, width, leaves, None, edge.active))

    def port(self, box: Container, edge: Edge, end: int, around: Container, item: Item, leaves: Item | None) -> Item:
        """Where the wires of one value enter a container (`end` -1) or leave it (1), with the wire to there from `item`, in the
        container `around`; one for all edges of the value."""
        key = (edge.start.key, end)
        if key not in box.ports:
            found = box.ports[key] = Item(width=2.0, wire=True, end=end)
            box.items.append(found)
            self.leads[found] = Wire([item, found], None, 2.0, leaves) if end > 0 else \
                Wire([item, self.where[box]], None, 2.0, leaves, found)
            around.wires.append(self.leads[found])
        self.leads[box.ports[key]].active |= edge.active
        return box.ports[key]

    # ------------------------------------------------------------------------------------------------ SVG
    def svg(self, *, hidden: bool = False) -> str:
        """The picture as it is; `hidden`: with what is in folded containers, for a script to show."""
        self.hidden = hidden
        width, height = self.root.width, self.root.height
        body = "\n".join(self.drawn(self.root, 0.0, 0.0))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" class="adc" viewBox="0 0 {width:.0f} {height:.0f}" '
                f'width="{width:.0f}" height="{height:.0f}">\n<title>computation graph of {escape(self.model.name)}</title>\n'
                f'<style>{STYLE}</style>\n<rect class="paper" width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')

    def drawn(self, box: Container, left: float, top: float) -> Iterator[str]:
        """The elements of a container: boxes first, then wires, then nodes and labels, so that no text is crossed out."""
        for group, inner in self.boxes.items():
            item = self.where[inner]
            if self.parent(group) is box:
                x, y = left + item.x - item.width / 2, top + item.y - item.height / 2
                yield group_svg(group, inner, x, y)
                if self.hidden or not inner.folded:
                    yield from self.drawn(inner, x, y)
        for wire in box.wires:
            yield wire_svg(box, wire, self.numbers[wire], left, top)
        for node, item in self.items.items():
            if self.container(node) is box:
                yield node_svg(node, item, left + item.x, top + item.y)
        for wire in box.wires:
            if wire.edge is not None and len(wire.items) > 2 and (text := self.model.edges[wire.edge].label):
                place = wire.items[-2]
                full = f"<title>{escape(text)}</title>" if len(text) > LONGEST_LABEL else ""
                yield (f'<text class="label" id="l{wire.edge}" x="{left + place.x:.1f}" y="{top + place.y + 3.5:.1f}">'
                       f'{escape(clipped(text, LONGEST_LABEL))}{full}</text>')


def node_size(node: Node) -> tuple[float, float]:
    """Width and height of a node's box."""
    label = WIDE * len(clipped(node.label, LONGEST))
    below = NARROW * (len(node.value) + len(node.cotangent) + (3 if node.cotangent else 0)) if shows_value(node) else 0
    return max(label, below, 18) + 16, 40.0 if shows_value(node) else 24.0


def shows_value(node: Node) -> bool:
    """Whether its value stands below its label: not of plain numbers."""
    return bool(node.value) and node.value != node.label


def node_svg(node: Node, item: Item, x: float, y: float) -> str:
    """A node around a point."""
    w, h = item.width, item.height
    thick = 2.6 if node.result else 1.2
    parts = [f'<rect x="{-w / 2:.1f}" y="{-h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="7" fill="{FILL[node.kind]}" '
             f'stroke="{STROKE[node.kind]}" stroke-width="{thick}"/>']
    label = clipped(node.label, LONGEST)
    name = node.name if node.name and label.startswith(node.name) and not node.unnamed else ""
    first = -3.5 if shows_value(node) else 4.0
    parts.append(f'<text y="{first}" text-anchor="middle"><tspan class="name">{escape(name)}</tspan>'
                 f'{escape(label[len(name):])}</text>')
    if shows_value(node):
        anchor = "" if node.cotangent else ' text-anchor="middle"'
        at = -w / 2 + 8 if node.cotangent else 0
        parts.append(f'<text class="value" x="{at:.1f}" y="12.5"{anchor}>{escape(node.value)}</text>')
    if node.cotangent:
        parts.append(f'<text class="bar" x="{w / 2 - 8:.1f}" y="12.5">{escape(node.cotangent)}</text>')
    return f'<g class="node" id="n{node.key}" transform="translate({x:.1f},{y:.1f})">{"".join(parts)}</g>'


def group_svg(group: Group, box: Container, x: float, y: float) -> str:
    """A container's box and title."""
    sign = "▸" if box.folded else "▾"
    dash = "" if group.kind in ("loop", "call") else ' stroke-dasharray="4 3"'
    return (f'<g class="group" id="g{group.key}" transform="translate({x:.1f},{y:.1f})"><rect width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="6" fill="{GROUP_FILL[group.kind]}" stroke="#999999"{dash}/>'
            f'<text class="title" x="8" y="16"><tspan class="sign">{sign}</tspan> {escape(clipped(group.title, LONGEST))}'
            f'</text></g>')


def points(box: Container, wire: Wire, left: float, top: float) -> list[tuple[float, float]]:
    """Where a wire goes, from the bottom of its first item to the top of its last."""
    start, *between, end = wire.items
    found = [(start.x + wire.offset(start), 0.0 if start.end < 0 else start.y + start.height / 2)]
    for item in between:
        found += [(item.x, item.y - item.tall / 2), (item.x, item.y + item.tall / 2)]
    found.append((end.x + wire.offset(end), box.height if end.end > 0 else end.y - end.height / 2))
    return [(left + x, top + y) for x, y in found]


def wire_svg(box: Container, wire: Wire, number: int, left: float, top: float) -> str:
    """A wire as a smooth path."""
    (x, y), *rest = points(box, wire, left, top)
    path = [f"M{x:.1f},{y:.1f}"]
    for nx, ny in rest:
        middle = (y + ny) / 2
        path.append(f"L{nx:.1f},{ny:.1f}" if nx == x else f"C{x:.1f},{middle:.1f} {nx:.1f},{middle:.1f} {nx:.1f},{ny:.1f}")
        x, y = nx, ny
    return f'<path class="wire{"" if wire.active else " quiet"}" id="w{number}" d="{"".join(path)}"/>'
