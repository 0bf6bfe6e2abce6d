// One timeline: labels of rows on the left, a canvas that stays in sight on the right
// while the labels scroll, and only rows in sight are drawn.

const margin = { top: 28, right: 14, bottom: 22 }; // px around the rows
const mostMapped = 160; // px: of the map of all rows
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
    this.pen = this.canvas.appendChild(document.createElement("canvas")).getContext("2d");
    this.moved = []; // called with every change of the view
  }

  // show lays out the sections and rows that the filters let through.
  show(sections, most, detail) {
    if (this.panel.firstRows) this.until(Math.max(1, ...sections.map((s) => s.end))); // kernels of workgroups are compared one by one
    this.lines = []; // {top, height, row} or {top, height, section, titles}
    this.shown = { width: this.stage.clientWidth, again: () => this.show(sections, most, detail) };
    let top = 0, run = null;
    for (const section of sections) {
      if (section.run !== run || this.panel.firstRows) {
        const titles = this.wrapped(section.title), height = 26 + 16 * ((section.gaps ? 1 : 0) + titles.length - 1);
        this.lines.push({ top, height, section, titles });
        top += height;
        run = section.run;
      }
      section.rows.filter((row) => (detail || !row.detail) && (row.nth ?? 0) < most).forEach((row, i) => {
        this.lines.push({ top, height: this.panel.rowHeight, row, first: i === 0 });
        top += this.panel.rowHeight;
      });
    }
    this.height = top;
    this.all = sections.flatMap((s) => s.rows);
    this.bottom = margin.bottom + (this.panel.firstRows && this.all.length > this.lines.length ? Math.min(this.all.length, mostMapped) + 6 : 0);
    this.layPath();
    this.labels.replaceChildren(...this.lines.map((line) => this.label(line)));
    this.labels.style.cssText = `padding:${margin.top}px 0 ${this.bottom}px`;
    this.layout(true);
  }

  // until sets where the axis ends: all of it stays in sight.
  until(end) {
    if (this.view.end === this.end || this.view.end > end) this.view = { start: Math.min(this.view.start, end - 1), end };
    this.end = end;
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
    const place = [line.first ? line.row.section.group : "", line.row.of].filter(Boolean).join(" · ");
    if (place) span("rank", place);
    span("lane", line.row.label);
    return div;
  }

  layout(fresh) {
    if (!fresh && this.stage.clientWidth !== this.shown.width) return this.shown.again(); // titles are wrapped elsewhere
    const css = getComputedStyle(document.documentElement), printing = document.documentElement.hasAttribute("data-print");
    const most = Number(css.getPropertyValue("--tallest")) // px: of a picture, of a sheet of paper or of the window
      || (printing ? 560 : Math.max(260, Math.round(window.innerHeight * 0.78)));
    const height = Math.min(most, this.height + margin.top + this.bottom);
    this.scroller.style.height = height + 2 + "px";
    this.stage.style.height = height + "px";
    this.canvas.style.height = height + "px";
    this.size = { width: this.stage.clientWidth, height };
    if (!this.size.width) return; // folded
    const names = ["ink", "soft", "faint", "line", "grid", "panel", "paper", "bad", "accent", "sans"];
    this.inks = Object.fromEntries(names.map((name) => [name, css.getPropertyValue("--" + name).trim()]));
    this.font = "10.5px " + this.inks.sans;
    this.draw();
  }

  ink(name) {
    return this.inks[name];
  }

  // draw paints everything: the axis above the rows, and below them which part is shown.
  draw() {
    if (!this.size?.width) return;
    const { pen } = this, ratio = window.devicePixelRatio || 1;
    pen.canvas.width = Math.round(this.size.width * ratio);
    pen.canvas.height = Math.round(this.size.height * ratio);
    pen.canvas.style.cssText = `display:block;width:${this.size.width}px;height:${this.size.height}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.textBaseline = "middle";
    const left = 0, { top } = margin, height = this.size.height - top - this.bottom;
    const summed = this.panel.firstRows && this.size.width > 640, width = this.size.width - (summed ? 136 : margin.right), right = left + width;
    const scale = width / (this.view.end - this.view.start), origin = left - this.view.start * scale;
    this.geometry = { left, right, top, height, scale, origin };
    const { scrollTop } = this.scroller; // beside the axis and the map there are no rows
    this.labels.style.clipPath = `inset(${scrollTop + top}px 0 ${Math.max(0, this.height + this.bottom - scrollTop - height)}px)`;
    this.axis();
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    this.paint(left, right, top, height, scale, origin);
    pen.restore();
    if (summed) this.sums(right + 8);
    if (this.bottom > margin.bottom) this.map();
  }

  // sums writes behind each row what its workgroup computed, stored or put, and waited, of the time of its run.
  sums(x) {
    for (const { top, height, row, section } of this.lines) {
      const y = margin.top + top - this.scroller.scrollTop + height / 2, of = [0, 0, 0, 0];
      if (y < margin.top || y > margin.top + this.geometry.height ) continue;
      for (let i = row?.from; i < row?.to; i++) of[this.kinds[this.spans.kind[i]].sum ?? 0] += this.spans.end[i] - this.spans.start[i];
      this.text(section ? "compute, put, waiting" : of.slice(1).map((d) => `${Math.round((100 * d) / row.section.end)} %`).join("   "), x, y, "soft");
    }
  }

  // map draws all rows below those that are listed, a pixel or less each.
  map() {
    const { left, right, top, height } = this.geometry, painter = new Painter(this.kinds, this.spans, this.kinds.map(() => true));
    const scale = (right - left) / (this.end - this.begin), each = Math.min(1, mostMapped / this.all.length);
    this.all.forEach((row, i) => painter.row(row, top + height + margin.bottom + i * each, each, left, right, left - this.begin * scale, scale));
    painter.rects.forEach((parts, kind) => this.rects(parts, this.kinds[kind].color));
  }

  // paint draws the rows in sight.
  paint(left, right, top, height, scale, origin) {
    const scrolled = this.scroller.scrollTop;
    const rowsInSight = this.lines.filter((l) => l.row && l.row.last > l.row.to && l.top - scrolled + l.height >= 0 && l.top - scrolled <= height).map((l) => l.row);
    const hidden = crowded(this.kinds, this.spans, rowsInSight, this.view.start, this.view.end, right - left);
    this.hint(hidden);
    const painter = new Painter(this.kinds, this.spans, hidden);
    let rows = 0;
    this.labelled = 0;
    for (const line of this.lines) {
      const y = top + line.top - scrolled;
      if (y + line.height < top || y > top + height) continue;
      if (line.section) {
        this.header(line, y);
        continue;
      }
      rows++;
      const edge = line.row.cluster ? 2 : 0;
      painter.row(line.row, y + 1 + edge, line.height - 2 - edge, left, right, origin, scale, this.search);
    }
    painter.rects.forEach((parts, kind) => this.rects(parts, this.kinds[kind].color));
    for (const t of painter.texts) this.caption(t);
    painter.bars.forEach((parts, kind) => this.rects(parts, this.kinds[kind].color || this.ink("ink")));
    painter.marks.forEach((parts, kind) => {
      const k = this.kinds[kind], color = k.color || this.ink("ink"), paper = this.ink("paper");
      if (parts.length) shapes(this.pen, k.mark, parts, k.hollow ? paper : color, k.hollow ? color : paper, k.hollow ? 1.2 : 0.8);
    });
    this.base(top, height, left, right, origin, scale);
    const arrows = [], path = this.showPath ? this.path(left, right, top, scrolled, origin, scale, arrows) : [];
    this.rects(path, this.ink("bad"));
    if (arrows.length) shapes(this.pen, "arrow", arrows, this.ink("bad"), this.ink("paper"), 0.8);
    this.drawn = {
      path: path.length / 4, labels: this.labelled, rows, spans: painter.seen, texts: painter.texts.length,
      rects: painter.rects.reduce((n, r) => n + r.length / 4, 0), marks: painter.marks.reduce((n, m) => n + m.length / 3, 0),
    };
  }

  // axis draws lines at round times with their labels, and below the rows which part of the whole is shown.
  axis() {
    const { left, right, top, height, scale, origin } = this.geometry, { start, end } = this.view;
    const lines = [];
    for (const [ns, label] of ticks(this.view, right - left)) {
      const x = origin + ns * scale;
      lines.push(x, top - 4, 1, height + 4);
      if (x + label.length * 6.2 < right) this.text(label, x + 3, top - 12, "soft");
    }
    this.rects(lines, this.ink("grid"));
    const whole = this.end - this.begin, place = (ns) => left + ((ns - this.begin) / whole) * (right - left), y = top + height + 7;
    this.rects([left, y, right - left, 8], this.ink("panel"));
    this.rects([place(start), y, Math.max(3, place(end) - place(start)), 8], this.ink(end - start < whole ? "faint" : "line"));
  }

  rects(parts, color) {
    if (!parts.length) return;
    const { pen } = this;
    pen.fillStyle = color;
    pen.beginPath();
    for (let i = 0; i < parts.length; i += 4) pen.rect(parts[i], parts[i + 1], parts[i + 2], parts[i + 3]);
    pen.fill();
  }

  text(text, x, y, color, font = this.font) {
    this.pen.font = font;
    this.pen.fillStyle = this.inks[color] ?? color;
    this.pen.fillText(text, x, y);
  }

  // base is a line down from the end of the first run, which the others are compared with.
  base(top, height, left, right, origin, scale) {
    const first = this.lines[0]?.section, x = first?.kernel ? origin + first.end * scale : right;
    if (x <= left || x >= right) return;
    const dashes = [];
    for (let y = top; y < top + height; y += 7) dashes.push(x - 0.5, y, 1, 4);
    this.rects(dashes, this.ink("faint"));
  }

  // path is the critical path of the runs shown: a line below what it consists of, thinner
  // where nothing ran, and arrows from row to row.
  path(left, right, top, scrolled, origin, scale, arrows) {
    const rects = [], x = (t) => Math.min(right, Math.max(left, origin + t * scale));
    for (const hops of this.hops) {
      let last = null;
      for (const hop of hops) {
        const x0 = x(hop.start), x1 = x(hop.end), y = top + hop.line.top + hop.line.height - scrolled - 3;
        if (x1 - x0 >= 0.5) rects.push(x0, y, x1 - x0, hop.gap ? 1 : 3);
        if (last !== null && last !== y && x0 > left && x0 < right) {
          rects.push(x0, Math.min(last, y), 1, Math.abs(last - y) + 3);
          arrows.push(x0 + 0.5, y, last < y ? -4 : 4);
        }
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

  // hint says in the legend which marks are single ones only closer up.
  hint(hidden) {
    const text = this.kinds.filter((_, k) => hidden[k]).map((kind) => kind.label).join(", ");
    if (this.hinted && this.hinted.textContent !== (text && `bars count: ${text}`)) this.hinted.textContent = text && `bars count: ${text}`;
  }

  // header names a run above a line as long as the run, which a post ends.
  header({ section, height, titles }, y) {
    const { left, right, scale, origin } = this.geometry;
    const end = origin + section.end * scale, x = Math.min(end, right);
    this.rects([left, y, right - left, height], this.ink("panel"));
    if (x > left) this.rects([left, y + height - 3.5, x - left, 1.5], this.ink("faint"));
    const beside = end - left > 16 + 8 * Math.max(...titles.map((t) => t.length)); // not through text
    if (end <= right && end >= left) this.rects([end - 1.5, beside ? y + 6 : y + height - 8, 1.5, beside ? height - 8 : 6], this.ink("ink"));
    this.gaps(section.gaps ?? [], y + height);
    titles.forEach((text, n) => this.text(text, left + 8, y + 12 + 16 * n, "ink", "600 12px " + this.ink("sans")));
  }

  // wrapped is a title in lines as wide as the timeline, at most three.
  wrapped(title) {
    const width = (this.stage.clientWidth || 1e4) - 30, lines = [];
    this.pen.font = "600 12px " + getComputedStyle(this.host).fontFamily;
    const fits = (text) => this.pen.measureText(text).width < width;
    for (const word of title.slice(0, 2000).split(/\s+/)) {
      const last = lines.length - 1, longer = lines.length ? `${lines[last]} ${word}` : word;
      if (lines.length && fits(longer)) lines[last] = longer;
      else lines.push(oneLine(word));
    }
    if (lines.length > 3) lines[2] += " …";
    return lines.slice(0, 3);
  }

  // gaps labels the largest gaps of a run above the line of its heading, such that no label covers another.
  gaps(gaps, bottom) {
    const { left, right, scale, origin } = this.geometry, between = 12, labels = [];
    let next = left;
    for (const gap of gaps) {
      const x0 = Math.max(left, origin + gap.from * scale), x1 = Math.min(right, origin + gap.to * scale);
      if (x1 <= x0) continue;
      this.rects([x0, bottom - 6, Math.max(1, x1 - x0), 4], gap.color);
      const room = gap.text.length * 6.2;
      labels.push({ x: Math.max(x0, next), room, text: gap.text });
      next = Math.max(x0, next) + room + between;
    }
    let edge = right;
    for (const l of labels.reverse()) {
      l.x = Math.min(l.x, edge - l.room);
      edge = l.x - between;
      this.text(oneLine(l.text), l.x, bottom - 13, "soft");
    }
    this.labelled += labels.length;
  }

  caption({ x, y, width, span, kind }) {
    const style = this.kinds[kind], name = oneLine(this.captions[this.spans.name[span]]);
    const inset = style.height < 1 ? 9 : 3; // room for the mark that stands where a store begins
    const room = Math.floor((width - inset - 3) / 6); // characters
    const short = name.length <= room ? name : name.slice(0, room - 1) + "…";
    const layer = { "=": /(\d+)$/, X: /(\d+)\S* \S+ · / }[style.glyph]; // alone, or in front of a collective
    const number = layer?.exec(oneLine(this.names[this.spans.name[span]]))?.[1];
    const little = number && number.length <= room ? number : style.glyph;
    this.text(name && room >= Math.min(10, name.length) ? short : little, x + inset, y + 0.5, style.ink);
  }

  zoomTo(start, end) {
    const width = Math.min(Math.max(end - start, leastView), this.end - this.begin);
    start = Math.min(Math.max(this.begin, (start + end - width) / 2), this.end - width);
    this.view = { start, end: start + width };
    this.draw();
    this.hide(); // the outline of what is selected is where that is drawn now
    for (const call of this.moved) call();
  }

  zoom(factor, at) {
    const { start, end } = this.view;
    this.zoomTo(at - (at - start) * factor, at + (end - at) * factor);
  }
}
