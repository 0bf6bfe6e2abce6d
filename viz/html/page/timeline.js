// One timeline: labels of rows on the left, an ECharts canvas that stays in
// sight on the right while the labels scroll, and only rows in sight are drawn.

const margin = { top: 28, right: 14, bottom: 34 }; // px around the rows
const leastView = 40; // ns, the furthest one can zoom in

class Timeline {
  // describe(i, row) gives the lines of a span's tooltip, the first in bold.
  constructor(host, panel, decoded, kinds, names, captions, describe) {
    Object.assign(this, decoded, { host, panel, kinds, names, captions, describe });
    this.end = Math.max(1, ...panel.sections.map((s) => s.end));
    this.begin = panel.begin; // 0 is the start of the first iteration; some ranks may begin before
    this.view = { start: 0, end: this.end };
    this.search = null;
    this.build();
    this.listen();
  }

  build() {
    const element = (name, parent) => {
      const e = document.createElement("div");
      e.className = name;
      parent.append(e);
      return e;
    };
    this.scroller = element("scroller", this.host);
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "application");
    this.scroller.setAttribute("aria-roledescription", "timeline");
    this.scroller.setAttribute("aria-label", `${this.host.dataset.label}: ${this.panel.sections.length} ranks of runs over ${time(this.end)}. Keys: W S zoom, A D move, comma and period step, slash finds`);
    this.labels = element("labels", this.scroller);
    this.stage = element("stage", this.scroller);
    this.canvas = element("canvas", this.stage);
    this.hover = element("hover", this.stage);
    this.range = element("range", this.stage);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", this.host.dataset.label);
    this.picked = element("picked", this.host);
    this.picked.setAttribute("role", "status"); // reads the selected span aloud
    this.tip = element("tip", document.body);
    this.chart = echarts.init(this.canvas, null, { renderer: "canvas" });
    this.chart.setOption(this.panel.option);
    this.chart.setOption({
      xAxis: { min: this.begin, max: this.end, minInterval: 1, axisLabel: { formatter: (ns, index) => this.tick(ns, index), hideOverlap: true, showMaxLabel: false, alignMinLabel: "left" } },
      dataZoom: [
        { startValue: 0, endValue: this.end, minValueSpan: leastView, zoomOnMouseWheel: false, moveOnMouseWheel: false, moveOnMouseMove: true, throttle: 16 },
        { startValue: 0, endValue: this.end, minValueSpan: leastView, labelFormatter: time, top: "auto", bottom: 8, height: 16, left: 8, moveHandleSize: 0, right: margin.right, showDataShadow: false, brushSelect: false, throttle: 16 },
      ],
      series: [{ clip: true, renderItem: (params, api) => this.paint(params, api) }],
    });
  }

  // tick writes a place on the axis. ECharts puts the first at the left edge, which is at no round time unless it is 0.
  tick(ns, index) {
    const { startValue, endValue } = this.chart.getOption().dataZoom[0];
    return index > 0 || ns === 0 ? tick(ns, { start: startValue ?? 0, end: endValue ?? this.end }) : "";
  }

  // show lays out the sections and rows that the filters let through.
  show(sections, most, detail) {
    this.lines = []; // {top, height, row} or {top, height, section}
    let top = 0, run = null;
    for (const section of sections) {
      if (section.run !== run) {
        const height = section.gaps ? 42 : 26;
        this.lines.push({ top, height, section });
        top += height;
        run = section.run;
      }
      section.rows.filter((row) => (detail || !row.detail) && (row.nth ?? 0) < most).forEach((row, i) => {
        this.lines.push({ top, height: this.panel.rowHeight, row, first: i === 0 });
        top += this.panel.rowHeight;
      });
    }
    this.height = top;
    this.layPath();
    this.labels.replaceChildren(...this.lines.map((line) => this.label(line)));
    this.labels.style.cssText = `padding:${margin.top}px 0 ${margin.bottom}px`;
    this.layout();
  }

  label(line) {
    const div = document.createElement("div");
    div.style.cssText = `height:${line.height}px;line-height:${line.height}px`;
    const span = (name, text) => {
      const s = document.createElement("span");
      s.className = name;
      s.textContent = s.title = text;
      div.append(s);
    };
    if (line.section) {
      div.className = "run";
      span("", line.section.time);
      return div;
    }
    if (line.first || line.row.cluster) div.className = "top";
    if (line.first) span("rank", line.row.section.group);
    span("lane", line.row.label);
    return div;
  }

  layout() {
    const printing = document.documentElement.hasAttribute("data-print");
    const most = printing ? 560 : Math.max(260, Math.round(window.innerHeight * 0.78)); // px, of a sheet of paper or of the window
    const height = Math.min(most, this.height + margin.top + margin.bottom);
    this.scroller.style.height = height + 2 + "px";
    this.stage.style.height = height + "px";
    this.canvas.style.height = height + "px";
    this.chart.resize({ height, width: this.stage.clientWidth });
    this.retheme();
  }

  retheme() {
    const css = getComputedStyle(document.documentElement);
    this.ink = (name) => css.getPropertyValue("--" + name).trim();
    const text = { color: this.ink("soft"), fontSize: 11 };
    this.font = "10.5px " + this.ink("sans");
    this.chart.setOption({
      xAxis: { axisLabel: text, axisLine: { lineStyle: { color: this.ink("line") } }, splitLine: { lineStyle: { color: this.ink("grid") } } },
      dataZoom: [{}, { textStyle: text, borderColor: this.ink("line"), fillerColor: this.ink("accent") + "30", backgroundColor: this.ink("panel") }],
    });
    this.draw();
  }

  draw() {
    this.chart.setOption({ series: [{ data: [[0, 0]] }] });
  }

  // paint is the renderItem of the only series: it returns one group with a path a kind.
  paint(params, api) {
    const { x: left, y: top, width, height } = params.coordSys;
    const right = left + width;
    const origin = api.coord([0, 0])[0];
    const scale = (api.coord([this.end, 0])[0] - origin) / this.end;
    this.view = { start: (left - origin) / scale, end: (right - origin) / scale };
    this.geometry = { left, right, top, height, scale, origin };
    const scrolled = this.scroller.scrollTop;
    const rowsInSight = this.lines.filter((l) => l.row && l.row.last > l.row.to && top + l.top - scrolled + l.height >= top && l.top - scrolled <= height).map((l) => l.row);
    const hidden = crowded(this.kinds, this.spans, rowsInSight, this.view.start, this.view.end, width);
    this.hint(hidden);
    const painter = new Painter(this.kinds, this.spans, hidden);
    const children = [];
    let rows = 0;
    this.labelled = 0;
    for (const line of this.lines) {
      const y = top + line.top - scrolled;
      if (y + line.height < top || y > top + height) continue;
      if (line.section) {
        this.header(children, line.section, y, line.height);
        continue;
      }
      rows++;
      const edge = line.row.cluster ? 2 : 0;
      painter.row(line.row, y + 1 + edge, line.height - 2 - edge, left, right, origin, scale, this.search);
    }
    const before = children.length;
    painter.rects.forEach((parts, kind) => {
      if (parts.length) children.push(this.shape("rects", parts, { fill: this.kinds[kind].color }));
    });
    for (const t of painter.texts) children.push(this.text(t));
    painter.marks.forEach((parts, kind) => {
      const k = this.kinds[kind];
      const color = k.color || this.ink("ink"), paper = this.ink("paper");
      if (parts.length) children.push(this.shape(k.mark, parts, k.hollow ? { fill: paper, stroke: color, lineWidth: 1.2 } : { fill: color, stroke: paper, lineWidth: 0.8 }));
    });
    this.base(children, top, height, left, right, origin, scale);
    const path = this.showPath ? this.path(left, right, top, scrolled, origin, scale) : [];
    if (path.length) children.push(this.shape("rects", path, { fill: this.ink("bad") }));
    this.drawn = {
      path: path.length / 4, labels: this.labelled, rows, spans: painter.seen, paths: children.length - before - painter.texts.length, texts: painter.texts.length,
      rects: painter.rects.reduce((n, r) => n + r.length / 4, 0), marks: painter.marks.reduce((n, m) => n + m.length / 3, 0),
    };
    return { type: "group", silent: true, children };
  }

  // base is a line down from the end of the first run, which the others are compared with.
  base(children, top, height, left, right, origin, scale) {
    const first = this.lines[0]?.section, x = first?.kernel ? origin + first.end * scale : right;
    if (x <= left || x >= right) return;
    const dashes = [];
    for (let y = top; y < top + height; y += 7) dashes.push(x - 0.5, y, 1, 4);
    children.push(this.shape("rects", dashes, { fill: this.ink("ink"), opacity: 0.6 }));
  }

  // path is the critical path of the runs shown: a line below what it consists of, thinner
  // where nothing ran, and lines from row to row.
  path(left, right, top, scrolled, origin, scale) {
    const rects = [], x = (t) => Math.min(right, Math.max(left, origin + t * scale));
    for (const hops of this.hops) {
      let last = null;
      for (const hop of hops) {
        const x0 = x(hop.start), x1 = x(hop.end), y = top + hop.line.top + hop.line.height - scrolled - 3;
        if (x1 - x0 >= 0.5) rects.push(x0, y, x1 - x0, hop.gap ? 1 : 3);
        if (last !== null && last !== y && x0 > left && x0 < right) rects.push(x0, Math.min(last, y), 1, Math.abs(last - y) + 3);
        last = y;
      }
    }
    return rects;
  }

  // layPath puts the critical path, which rows have in parts, in order of time, run by run.
  layPath() {
    const runs = new Map();
    for (const line of this.lines) {
      const { path, section } = line.row || {};
      if (!path) continue;
      if (!runs.has(section.run)) runs.set(section.run, []);
      for (let i = 0; i < path.length; i += 3) runs.get(section.run).push({ start: path[i], end: path[i] + path[i + 1], gap: path[i + 2], line });
    }
    this.hops = [...runs.values()];
    for (const hops of this.hops) hops.sort((a, b) => a.start - b.start);
  }

  // hint says in the legend which marks are shown only closer up.
  hint(hidden) {
    const text = this.kinds.filter((_, k) => hidden[k]).map((kind) => kind.label).join(", ");
    if (this.hinted && this.hinted.textContent !== (text && `zoom in for: ${text}`)) this.hinted.textContent = text && `zoom in for: ${text}`;
  }

  shape(type, parts, style) {
    return { type, shape: { parts }, style, silent: true, transition: [] };
  }

  // header names a run above a line as long as the run, which a post ends.
  header(children, section, y, height) {
    const { left, right, scale, origin } = this.geometry;
    const end = origin + section.end * scale, x = Math.min(end, right);
    children.push(this.shape("rects", [left, y, right - left, height], { fill: this.ink("panel") }));
    if (x > left) children.push(this.shape("rects", [left, y + height - 3.5, x - left, 1.5], { fill: this.ink("faint") }));
    if (end <= right && end >= left) children.push(this.shape("rects", [end - 1.5, y + 6, 1.5, height - 8], { fill: this.ink("ink") }));
    this.gaps(children, section.gaps ?? [], y + height);
    children.push({
      type: "text", silent: true,
      style: {
        text: oneLine(section.title), x: left + 8, y: y + 12, verticalAlign: "middle", width: right - left - 16, overflow: "truncate",
        fill: this.ink("ink"), font: "600 12px " + this.ink("sans"),
      },
    });
  }

  // gaps labels the largest gaps of a run above the line of its heading, such that no label covers another.
  gaps(children, gaps, bottom) {
    const { left, right, scale, origin } = this.geometry, between = 12, labels = [];
    let next = left;
    for (const gap of gaps) {
      const x0 = Math.max(left, origin + gap.from * scale), x1 = Math.min(right, origin + gap.to * scale);
      if (x1 <= x0) continue;
      children.push(this.shape("rects", [x0, bottom - 6, Math.max(1, x1 - x0), 4], { fill: gap.color }));
      const room = gap.text.length * 6.2;
      labels.push({ x: Math.max(x0, next), room, text: gap.text });
      next = Math.max(x0, next) + room + between;
    }
    let edge = right;
    for (const l of labels.reverse()) {
      l.x = Math.min(l.x, edge - l.room);
      edge = l.x - between;
      children.push({ type: "text", silent: true, style: { text: oneLine(l.text), x: l.x, y: bottom - 13, verticalAlign: "middle", fill: this.ink("soft"), font: this.font } });
    }
    this.labelled += labels.length;
  }

  text({ x, y, width, span, kind }) {
    const style = this.kinds[kind], name = this.captions[this.spans.name[span]];
    const inset = style.height < 1 ? 9 : 3; // room for the mark that stands where a store begins
    const room = width - inset - 3, long = name.length * 6;
    const drawn = { x: x + inset, y: y + 0.5, verticalAlign: "middle", fill: style.ink, font: this.font };
    if (!name || room < Math.min(50, long)) drawn.text = style.glyph;
    else if (long < room) drawn.text = oneLine(name);
    else Object.assign(drawn, { text: oneLine(name), width: room, overflow: "truncate", ellipsis: "…" }); // measures: slow
    return { type: "text", silent: true, style: drawn };
  }

  zoomTo(start, end) {
    const width = Math.min(Math.max(end - start, leastView), this.end - this.begin);
    start = Math.min(Math.max(this.begin, (start + end - width) / 2), this.end - width);
    this.chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: start, endValue: start + width });
  }

  zoom(factor, at) {
    const { start, end } = this.view;
    this.zoomTo(at - (at - start) * factor, at + (end - at) * factor);
  }
}
