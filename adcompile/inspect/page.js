"use strict";
// Places containers anew when one is folded (step 4 of layout.py), and shows what is under the pointer.
function computationGraph(host, data) {
  const svg = host.querySelector("svg"), panel = host.querySelector(".panel"), byId = id => svg.querySelector("#" + id);
  const { items, boxes, nodes, groups, edges, sizes } = data;

  // ---- positions: as in layout.py
  const offset = (wire, k) => {
    const item = items[wire.items[k]], port = k === 0 ? wire.leaves : k === wire.items.length - 1 ? wire.enters : null;
    if (port === null || item.box === null || boxes[item.box].folded) return 0;
    return items[port].x - boxes[item.box].w / 2;
  };
  function apart(wanted, row, weights) {
    const offsets = [], blocks = [];
    row.forEach((i, k) => {
      const item = items[i], last = k ? items[row[k - 1]] : null;
      offsets.push(k ? offsets[k - 1] + (last.w + item.w) / 2 + (item.wire && last.wire ? sizes.thin : sizes.gap) : 0);
      blocks.push([wanted[k] - offsets[k], weights[k], 1]);
      while (blocks.length > 1 && blocks[blocks.length - 2][0] >= blocks[blocks.length - 1][0]) {
        const [mean, weight, count] = blocks.pop(), before = blocks[blocks.length - 1];
        before[0] = (before[0] * before[1] + mean * weight) / (before[1] + weight);
        before[1] += weight; before[2] += count;
      }
    });
    const means = blocks.flatMap(([mean, , count]) => Array(count).fill(mean));
    return means.map((mean, k) => mean + offsets[k]);
  }
  function straighten(box) {
    const above = new Map(), below = new Map();
    const note = (map, key, value) => { if (!map.has(key)) map.set(key, []); map.get(key).push(value); };
    for (const wire of box.wires) for (let k = 0; k + 1 < wire.items.length; k++) {
      const aside = offset(wire, k + 1) - offset(wire, k);
      note(below, wire.items[k], [wire.items[k + 1], aside]);
      note(above, wire.items[k + 1], [wire.items[k], -aside]);
    }
    const set = (row, xs) => row.forEach((i, k) => { items[i].x = xs[k]; });
    for (const row of box.rows) set(row, apart(row.map(() => 0), row, row.map(() => 1)));
    for (let sweep = 0; sweep < sizes.sweeps; sweep++) {
      const near = sweep % 2 ? below : above;
      for (const row of sweep % 2 ? [...box.rows].reverse() : box.rows) {
        const wanted = row.map(i => near.has(i)
          ? near.get(i).reduce((sum, [n, aside]) => sum + items[n].x + aside, 0) / near.get(i).length : items[i].x);
        set(row, apart(wanted, row, row.map(i => (items[i].wire ? 4 : 1) * (near.has(i) ? near.get(i).length : 0.1))));
      }
    }
  }
  function measure(box) {
    for (const row of box.rows) for (const i of row) if (items[i].box !== null) {
      measure(boxes[items[i].box]);
      items[i].w = boxes[items[i].box].w; items[i].h = boxes[items[i].box].h;
    }
    if (box.folded) { box.w = box.title + 2 * sizes.padding; box.h = box.low; return; }
    let top = box.group === null ? sizes.padding : sizes.padding + sizes.title;
    for (const row of box.rows) {
      const height = Math.max(0, ...row.map(i => items[i].h));
      for (const i of row) { items[i].y = top + height / 2; items[i].tall = items[i].wire ? height : items[i].h; }
      top += height + sizes.row;
    }
    straighten(box);
    const all = box.rows.flat().map(i => items[i]);
    const left = Math.min(0, ...all.map(i => i.x - i.w / 2));
    const least = all.length ? Math.min(...all.map(i => i.x - i.w / 2)) : 0;
    for (const i of all) i.x += sizes.padding - Math.min(left, least);
    box.w = Math.max(Math.max(0, ...all.map(i => i.x + i.w / 2)) + sizes.padding, box.title + 2 * sizes.padding);
    box.h = top - sizes.row + sizes.padding;
  }

  // ---- drawing: moves the elements that are there
  const f = x => x.toFixed(1);
  function wirePath(box, wire, left, top) {
    const last = wire.items.length - 1, points = [];
    wire.items.forEach((i, k) => {
      const item = items[i];
      if (k === 0) points.push([item.x + offset(wire, 0), item.end < 0 ? 0 : item.y + item.h / 2]);
      else if (k === last) points.push([item.x + offset(wire, last), item.end > 0 ? box.h : item.y - item.h / 2]);
      else points.push([item.x, item.y - item.tall / 2], [item.x, item.y + item.tall / 2]);
    });
    let [x, y] = [points[0][0] + left, points[0][1] + top], path = `M${f(x)},${f(y)}`;
    for (const [a, b] of points.slice(1)) {
      const nx = a + left, ny = b + top, middle = (y + ny) / 2;
      path += nx === x ? `L${f(nx)},${f(ny)}` : `C${f(x)},${f(middle)} ${f(nx)},${f(middle)} ${f(nx)},${f(ny)}`;
      [x, y] = [nx, ny];
    }
    return path;
  }
  const show = element => { if (element) element.style.display = ""; };
  function place(box, left, top) {
    for (const i of box.rows.flat()) {
      const item = items[i], x = left + item.x, y = top + item.y;
      if (item.node !== null) {
        const element = byId("n" + item.node);
        element.setAttribute("transform", `translate(${f(x)},${f(y)})`); show(element);
      } else if (item.box !== null) {
        const inner = boxes[item.box], element = byId("g" + inner.group), rect = element.querySelector("rect");
        element.setAttribute("transform", `translate(${f(x - item.w / 2)},${f(y - item.h / 2)})`); show(element);
        rect.setAttribute("width", f(inner.w)); rect.setAttribute("height", f(inner.h));
        element.querySelector(".sign").textContent = inner.folded ? "▸" : "▾";
        if (!inner.folded) place(inner, x - item.w / 2, y - item.h / 2);
      }
    }
    for (const wire of box.wires) {
      const element = byId("w" + wire.id);
      element.setAttribute("d", wirePath(box, wire, left, top)); show(element);
      const label = wire.edge === null || wire.items.length < 3 ? null : byId("l" + wire.edge);
      if (label) {
        const at = items[wire.items[wire.items.length - 2]];
        label.setAttribute("x", f(left + at.x)); label.setAttribute("y", f(top + at.y + 3.5)); show(label);
      }
    }
  }
  function redraw() {
    for (const element of svg.querySelectorAll(".node, .group, .wire, .label")) element.style.display = "none";
    measure(boxes[0]);
    place(boxes[0], 0, 0);
  }

  // ---- folding, moving, zooming
  const view = { x: 0, y: 0, w: 0, h: 0 };
  const apply = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
  function fit() {
    const shown = svg.getBoundingClientRect(), root = boxes[0];
    const scale = Math.max(root.w / shown.width, Math.min(root.h / shown.height, 1.6), 1);
    view.w = shown.width * scale; view.h = shown.height * scale;
    view.x = (root.w - view.w) / 2; view.y = root.h < view.h ? (root.h - view.h) / 2 : 0;
    apply();
  }
  function toggle(group) {
    const box = boxes.find(b => b.group === group), before = byId("g" + group).getCTM();
    box.folded = !box.folded;
    redraw();
    const after = byId("g" + group).getCTM();                      // what was clicked stays where it is
    view.x += (after.e - before.e) / after.a; view.y += (after.f - before.f) / after.d;
    apply();
  }
  host.querySelector(".fold").onclick = () => { for (const b of boxes) if (b.group !== null) b.folded = true; redraw(); fit(); };
  host.querySelector(".open").onclick = () => { for (const b of boxes) b.folded = false; redraw(); fit(); };
  host.querySelector(".fit").onclick = fit;
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    const shown = svg.getBoundingClientRect(), scale = Math.exp(event.deltaY * 0.0015);
    const px = view.x + (event.clientX - shown.left) / shown.width * view.w;
    const py = view.y + (event.clientY - shown.top) / shown.height * view.h;
    view.x = px + (view.x - px) * scale; view.y = py + (view.y - py) * scale; view.w *= scale; view.h *= scale;
    apply();
  }, { passive: false });
  let drag = null, moved = false;
  svg.addEventListener("pointerdown", event => { drag = [event.clientX, event.clientY, view.x, view.y]; moved = false; });
  window.addEventListener("pointerup", () => { drag = null; });
  svg.addEventListener("pointermove", event => {
    if (!drag) return;
    const scale = view.w / svg.getBoundingClientRect().width;
    moved = moved || Math.hypot(event.clientX - drag[0], event.clientY - drag[1]) > 3;
    view.x = drag[2] - (event.clientX - drag[0]) * scale; view.y = drag[3] - (event.clientY - drag[1]) * scale;
    apply();
  });

  // ---- what is under the pointer
  const escape = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const line = (word, text) => text ? `<dt>${word}</dt><dd>${escape(text)}</dd>` : "";
  function describe(node) {
    const into = edges.filter(e => e.end === node.key && e.active), out = edges.filter(e => e.start === node.key && e.active);
    const named = key => nodes[key].name || nodes[key].text;
    panel.innerHTML = `<h3>${escape(node.label)}</h3><p class="code">${escape(node.source)}</p><dl>`
      + line("where", node.place) + line("kind", node.kind) + line("type", node.type) + line("value", node.value)
      + line("in turns", node.turns) + line("cotangent", node.cotangent) + line("cost", node.cost)
      + into.map(e => line("∂ / ∂ " + named(e.start), e.label)).join("")
      + out.map(e => line("∂ " + named(e.end) + " / ∂", e.label)).join("") + "</dl>";
  }
  for (const node of nodes) {
    const element = byId("n" + node.key);
    element.addEventListener("pointerenter", () => {
      describe(node);
      for (const e of edges) if (e.start === node.key || e.end === node.key) {
        const wire = byId("w" + e.wire); if (wire) wire.classList.add("lit");
      }
    });
    element.addEventListener("pointerleave", () => svg.querySelectorAll(".lit").forEach(w => w.classList.remove("lit")));
  }
  for (const group of groups) {
    const element = byId("g" + group.key);
    if (!element) continue;
    element.addEventListener("click", () => { if (!moved) toggle(group.key); });
    element.addEventListener("pointerenter", () => {
      panel.innerHTML = `<h3>${escape(group.title)}</h3><dl>` + line("where", group.place) + line("inside", group.count + " values")
        + "</dl><p>click folds and unfolds it</p>";
    });
  }
  host.querySelector(".search").oninput = event => {
    const text = event.target.value.trim().toLowerCase();
    for (const node of nodes) byId("n" + node.key).classList.toggle("found",
      text !== "" && (node.label + " " + node.source).toLowerCase().includes(text));
  };
  redraw();
  fit();
  return { toggle, boxes, redraw };
}
