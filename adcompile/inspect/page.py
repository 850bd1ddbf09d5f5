"""A graph as one HTML page that needs nothing else: hover for values, click to fold, wheel and drag to move."""

from __future__ import annotations

import json
from collections import Counter
from html import escape
from importlib.resources import files
from typing import Any

from .graph import CONSTANT, INACTIVE, LEAF, OPERATION, Group, Node
from .layout import GAP, PADDING, ROW_GAP, SWEEPS, THIN, TITLE, every
from .picture import FILL, STYLE, Picture

KINDS = {CONSTANT: "constant: takes no gradient", LEAF: "leaf: differentiated", OPERATION: "operation",
         INACTIVE: "inactive: no gradient goes through it"}
SIZES = {"gap": GAP, "thin": THIN, "row": ROW_GAP, "padding": PADDING, "title": TITLE, "sweeps": SWEEPS}


def resource(name: str) -> str:
    """A file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def graph_style() -> str:
    """What a page with graphs has in its head, once."""
    return f"<style>{STYLE}\n{resource('page.css')}</style>\n<script>{resource('page.js')}</script>"


def graph_part(picture: Picture, name: str) -> str:
    """A graph as part of a page; `name` is the element's id."""
    model = picture.model
    kinds = (LEAF, OPERATION, CONSTANT, INACTIVE)
    keys = "".join(f'<span class="key" style="background:{FILL[kind]}">{kind}</span>' for kind in kinds)
    values = "value left, <span style='color:#8a1c1c'>cotangent</span> right; " if model.has_values else ""
    notes = "".join(f'<p class="notes">{escape(note)}</p>' for note in model.notes)
    data = json.dumps(layout_data(picture), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return (f'<div class="graph" id="{name}"><div class="bar"><b>{escape(model.name)}</b>{keys}<span>{values}'
            f'edges: local derivatives</span><input class="search" placeholder="find" aria-label="find">'
            f'<button class="fold">fold all</button><button class="open">open all</button><button class="fit">fit</button></div>'
            f'{notes}<div class="body"><div class="canvas">{picture.svg(hidden=True)}</div>'
            f'<div class="panel"><p>Hover over a node for its line, value, cotangent and cost.</p>'
            f'<p>Click a frame to fold or open it.</p>'
            f'</div></div></div>\n<script>computationGraph(document.getElementById("{name}"), {data});</script>')


def graph_page(picture: Picture) -> str:
    """The whole page."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(picture.model.name)}: computation graph'
            f'</title>{graph_style()}<style>html, body {{ height: 100%; margin: 0; }}</style></head>\n'
            f'<body>{graph_part(picture, "graph")}</body></html>\n')


def layout_data(picture: Picture) -> dict[str, Any]:
    """What the script needs: items, boxes with their rows and wires, and what to say of each node."""
    boxes = picture.all_boxes()
    number = {box: k for k, box in enumerate(boxes)}
    group = {box: g.key for g, box in picture.boxes.items()}
    node = {item: n.key for n, item in picture.items.items()}
    items = [item for box in boxes for item in every(box)]
    place = {item: k for k, item in enumerate(items)}
    wires = {wire.edge: picture.numbers[wire] for box in boxes for wire in box.wires if wire.edge is not None}

    def box_data(box: Any) -> dict[str, Any]:
        found = [{"items": [place[i] for i in w.items], "edge": w.edge, "id": picture.numbers[w],
                  "leaves": place.get(w.leaves), "enters": place.get(w.enters)} for w in box.wires]
        return {"group": group.get(box), "folded": box.folded, "title": box.title_width, "low": box.folded_height, "w": 0, "h": 0,
                "rows": [[place[i] for i in row] for row in box.rows], "wires": found}

    return {
        "sizes": SIZES,
        "items": [{"w": round(i.width, 1), "h": round(i.height, 1), "wire": i.wire, "end": i.end, "node": node.get(i),
                   "box": None if i.inside is None else number[i.inside], "x": 0, "y": 0} for i in items],
        "boxes": [box_data(box) for box in boxes],
        "nodes": [node_data(n) for n in picture.model.nodes],
        "groups": group_data(picture),
        "edges": [{"start": e.start.key, "end": e.end.key, "active": e.active, "label": e.label, "wire": wires[k]}
                  for k, e in enumerate(picture.model.edges)],
    }


def node_data(node: Node) -> dict[str, Any]:
    """What is said of a node."""
    return {"key": node.key, "name": node.name, "text": node.text, "label": node.label, "kind": KINDS[node.kind],
            "type": node.type, "value": node.value, "cotangent": node.cotangent, "turns": ", ".join(node.turns),
            "cost": node.cost, "source": node.location.source if node.location else "", "place": place_text(node)}


def place_text(thing: Node | Group) -> str:
    """Where in the user's code it is."""
    return f"line {thing.location.line} of {thing.location.function}" if thing.location else ""


def group_data(picture: Picture) -> list[dict[str, Any]]:
    """What is said of groups."""
    count: Counter[Group] = Counter()
    for node in picture.model.nodes:
        group = node.group
        while group is not None:
            count[group] += 1
            group = group.parent
    return [{"key": g.key, "title": g.title, "place": place_text(g), "count": count[g]} for g in picture.boxes]
