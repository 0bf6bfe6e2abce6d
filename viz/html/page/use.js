// Draws quantities over time as SVG: an axis, and a row for each quantity, in groups.

function drawUse(graph) {
  const width = 1200, left = 190, right = width - 10, axis = 24, heading = 24, high = 30, pitch = high + 6; // px
  const x = (ns) => Math.min(right, left + (ns / graph.end) * (right - left)), px = (v) => +v.toFixed(1);
  const parts = [];
  const rect = (x, y, width, height, name) => parts.push(node("rect", { x: px(x), y, width: px(width), height, class: name }));
  const text = (x, y, name, words, room) => {
    const most = Math.floor(room / (name.includes("small") ? 6.3 : 7.8)); // characters
    if (words.length <= most) parts.push(node("text", { x: px(x), y, class: name }, words));
    else if (most >= 3) parts.push(node("text", { x: px(x), y, class: name }, node("title", {}, words), words.slice(0, most - 1) + "…"));
  };
  const bottom = axis + graph.groups.reduce((sum, group) => sum + heading + group.rows.length * pitch, 0);
  for (const [ns, label] of ticks({ start: 0, end: graph.end }, right - left)) {
    rect(x(ns), axis - 4, 1, bottom - axis + 4, "grid");
    if (right - x(ns) > 30) text(x(ns) + 3, 16, "small soft", label, right - x(ns));
  }
  let y = axis;
  for (const group of graph.groups) {
    rect(0, y, width, heading - 4, "panel");
    text(8, y + 14, "bold", group.name, right);
    y += heading;
    for (const row of group.rows) {
      text(left - 8, y + 14, "small end", row.name, left - 14);
      text(left - 8, y + high - 2, "small soft end", row.scale, left - 14);
      rect(left, y + high, right - left, 1, "line");
      parts.push(node("path", { fill: row.color, d: area(row, y + high) }));
      y += pitch;
    }
  }

  function area(row, base) {
    let path = "", open = false;
    row.at.forEach((at, i) => {
      const from = Math.max(left, x(at)), to = x(row.at[i + 1] ?? graph.end), top = base - Math.min(1, row.share[i]) * high;
      if (to <= from) return;
      if (row.share[i] > 0) path += open ? `V${px(top)}H${px(to)}` : `M${px(from)} ${base}V${px(top)}H${px(to)}`;
      else if (open) path += `V${base}z`;
      open = row.share[i] > 0;
    });
    return open ? path + `V${base}z` : path;
  }

  return node("svg", { viewBox: `0 0 ${width} ${bottom + 4}`, width, height: bottom + 4, role: "img" },
    node("title", {}, `Utilisation over time, ${graph.name}`), node("desc", {}, "One row a resource, below each strategy."), ...parts);
}
