// What keys and the mouse do to a timeline.

const panStep = 0.18, zoomStep = 0.72; // of the view, a key press

Object.assign(Timeline.prototype, {
  listen() {
    this.scroller.addEventListener("scroll", () => {
      this.draw();
      this.hide();
    }, { passive: true });
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    this.stage.addEventListener("mousemove", (e) => this.move(e));
    this.stage.addEventListener("mouseleave", () => this.hide());
    this.stage.addEventListener("mousedown", (e) => this.press(e));
    window.addEventListener("mouseup", (e) => this.release(e));
    // What is not handled scrolls the rows, then the page.
    this.stage.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.stage.addEventListener("dblclick", () => this.fit());
  },

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const { start, end } = this.view, width = end - start;
    const at = this.pointer ?? (start + end) / 2;
    const keys = {
      w: () => this.zoom(zoomStep, at), s: () => this.zoom(1 / zoomStep, at),
      "+": () => this.zoom(zoomStep, at), "-": () => this.zoom(1 / zoomStep, at),
      a: () => this.zoomTo(start - width * panStep, end - width * panStep),
      d: () => this.zoomTo(start + width * panStep, end + width * panStep),
      f: () => this.fit(), 0: () => this.zoomTo(this.begin, this.end),
      ".": () => this.step(1), ",": () => this.step(-1),
      "/": () => this.find?.focus(), n: () => this.next(1), N: () => this.next(-1),
      Escape: () => this.select(null),
    };
    keys.ArrowLeft = keys.a;
    keys.ArrowRight = keys.d;
    const act = keys[e.key] || keys[e.key.toLowerCase()];
    if (!act) return;
    e.preventDefault();
    act();
  },

  // wheel zooms with Ctrl, pans with Shift or sideways, and else scrolls.
  wheel(e) {
    const unit = e.deltaMode === 1 ? 33 : e.deltaMode === 2 ? 400 : 1; // lines, pages, px
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
    if (!e.ctrlKey && !e.metaKey && !sideways) return;
    e.preventDefault();
    this.at(e);
    const { start, end } = this.view, by = ((sideways * unit) / this.stage.clientWidth) * (end - start);
    if (e.ctrlKey || e.metaKey) this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY * unit * 0.0025))), this.pointer);
    else this.zoomTo(start + by, end + by);
  },

  // at finds what is under the pointer: {i, line}, or null.
  at(e) {
    const box = this.stage.getBoundingClientRect(), g = this.geometry;
    if (!g) return null;
    const x = e.clientX - box.left, y = e.clientY - box.top;
    this.pointer = Math.min(this.view.end, Math.max(this.view.start, (x - g.origin) / g.scale));
    if (x < g.left || x > g.right || y < g.top || y > g.top + g.height) return null;
    const inner = y - g.top + this.scroller.scrollTop;
    const line = this.lines.find((l) => inner >= l.top && inner < l.top + l.height);
    if (!line || line.section) return null;
    const i = this.nearest(line.row, this.pointer, 3 / g.scale);
    return i === null ? null : { i, line };
  },

  // nearest is the mark or span of the row at t, or the closest within slack ns.
  nearest(row, t, slack) {
    const { start, end } = this.spans;
    let best = null, least = slack;
    const look = (from, to, bias) => {
      const first = firstEnding(this.spans, from, to, t - slack);
      for (let i = first; i < to && start[i] <= t + slack; i++) {
        const away = Math.max(start[i] - t, t - end[i], 0) + bias;
        if (away < least) [best, least] = [i, away];
      }
    };
    look(row.to, row.last, -slack); // marks lie on top of spans
    look(row.from, row.to, 0);
    return best;
  },

  move(e) {
    if (this.from !== undefined) return this.stretch(e);
    if (this.down && e.buttons) return this.pan(e);
    const hit = e.buttons ? null : this.at(e);
    this.hide();
    if (!hit) return;
    this.outline(hit);
    this.tip.replaceChildren(...this.describe(hit.i, hit.line.row).map((text, n) => {
      const line = document.createElement(n ? "span" : "b");
      line.textContent = text;
      return line;
    }));
    this.tip.style.display = "block";
    const { width, height } = this.tip.getBoundingClientRect();
    const x = Math.min(e.clientX + 14, window.innerWidth - width - 8);
    const y = e.clientY + 18 + height > window.innerHeight ? e.clientY - height - 12 : e.clientY + 18;
    this.tip.style.left = Math.max(4, x) + "px";
    this.tip.style.top = Math.max(4, y) + "px";
  },

  outline({ i, line }) {
    const g = this.geometry;
    const x0 = Math.max(g.left, g.origin + this.spans.start[i] * g.scale), x1 = Math.min(g.right, g.origin + this.spans.end[i] * g.scale);
    const y = g.top + line.top - this.scroller.scrollTop;
    if (x1 < x0 || y < g.top - line.height) return void (this.hover.style.display = "none");
    this.hover.style.cssText = `display:block;left:${x0 - 1.5}px;top:${y - 0.5}px;width:${Math.max(3, x1 - x0 + 3)}px;height:${line.height + 1}px`;
  },

  hide() {
    this.hover.style.display = this.tip.style.display = "none";
    if (this.selected) this.outline(this.selected);
  },

  press(e) {
    this.scroller.focus({ preventScroll: true });
    const below = e.clientY - this.stage.getBoundingClientRect().top > margin.top + this.geometry.height;
    this.down = { x: e.clientX, y: e.clientY, view: this.view, below };
    this.at(e);
    if (below) this.pan(e);
    if (!e.shiftKey || below) return;
    e.preventDefault();
    this.from = this.pointer;
  },

  // pan moves what is shown with the pointer, or below the rows to where the pointer is.
  pan(e) {
    const { view, below, x } = this.down, width = view.end - view.start;
    if (!below) return this.zoomTo(view.start - (e.clientX - x) / this.geometry.scale, view.end - (e.clientX - x) / this.geometry.scale);
    const share = (e.clientX - this.stage.getBoundingClientRect().left) / this.geometry.right;
    const middle = this.begin + share * (this.end - this.begin);
    this.zoomTo(middle - width / 2, middle + width / 2);
  },

  stretch(e) {
    this.at(e);
    const g = this.geometry, x = (t) => g.origin + t * g.scale;
    const a = Math.min(this.from, this.pointer), b = Math.max(this.from, this.pointer);
    this.range.style.cssText = `display:block;left:${x(a)}px;top:${g.top}px;width:${x(b) - x(a)}px;height:${g.height}px`;
    this.picked.textContent = `${time(b - a)} from ${time(a)} to ${time(b)}`;
  },

  release(e) {
    if (!this.down) return;
    const still = Math.hypot(e.clientX - this.down.x, e.clientY - this.down.y) < 4;
    this.down = undefined;
    if (this.from !== undefined) {
      const a = Math.min(this.from, this.pointer), b = Math.max(this.from, this.pointer);
      this.from = undefined;
      this.range.style.display = "none";
      if (!still) this.measure(a, b);
      return;
    }
    if (still && this.stage.contains(e.target)) this.select(this.at(e));
  },

  // select pins a span: its description stays below the timeline, to be copied.
  select(hit) {
    this.selected = hit;
    this.chosen = null;
    this.hide();
    const lines = hit ? this.describe(hit.i, hit.line.row) : [];
    this.picked.replaceChildren(...lines.map((text, n) => {
      const part = document.createElement(n ? "span" : "b");
      part.textContent = n ? " · " + text : text;
      return part;
    }));
  },

  // measure shows statistics of what lies in [a, b) on the rows shown, and keeps the range for F. Two runs stand side by side.
  measure(a, b) {
    this.select(null);
    this.chosen = [a, b];
    const { start, end, kind, name } = this.spans, sums = new Map();
    const runs = [...new Map(this.lines.filter((l) => l.row && !l.row.section.changes).map(({ row: { section } }) => [section.run, section.name]))];
    const sides = runs.length === 2 ? runs.map(([run]) => run) : [];
    for (const { row } of this.lines) {
      if (!row || (sides.length && row.section.changes)) continue;
      for (let i = firstEnding(this.spans, row.from, row.to, a); i < row.to && start[i] < b; i++) {
        const key = `${row.strip ? 0 : 1} ${kind[i]} ${name[i]}`, side = Math.max(0, sides.indexOf(row.section.run));
        let s = sums.get(key);
        if (!s) {
          s = { name: (row.strip ? "ranks: " : "") + (this.captions[name[i]] || this.kinds[kind[i]].label), strip: !!row.strip, rows: new Set(), durations: [[], []], sum: [0, 0] };
          sums.set(key, s);
        }
        s.rows.add(row);
        s.sum[side] += Math.min(end[i], b) - Math.max(start[i], a);
        s.durations[side].push(end[i] - start[i]);
      }
    }
    const size = ({ sum: [one, other] }) => (sides.length ? Math.abs(other - one) : one);
    const all = [...sums.values()].sort((x, y) => y.strip - x.strip || size(y) - size(x));
    const table = document.createElement("table");
    const add = (row, texts, head) => texts.forEach((text, i) => {
      const cell = row.appendChild(document.createElement(head ? "th" : "td"));
      cell.textContent = text;
      if (i) cell.className = "number";
    });
    add(table.createTHead().insertRow(), sides.length
      ? ["", ...runs.flatMap(([, run]) => [`${run}: count`, "time"]), "difference"]
      : ["", "count", "time", "share of its rows", "median", "90 %", "longest"], true);
    const body = table.createTBody();
    for (const { name, rows, sum, durations } of all.slice(0, 40)) {
      const [only] = durations, at = (q) => time(only[Math.floor((only.length - 1) * q)]), by = sum[1] - sum[0];
      only.sort((x, y) => x - y);
      add(body.insertRow(), sides.length
        ? [name, ...[0, 1].flatMap((side) => [durations[side].length, time(sum[side])]), (by > 0 ? "+" : "") + time(by)]
        : [name, only.length, time(sum[0]), `${((100 * sum[0]) / ((b - a) * rows.size)).toFixed(1)} %`, at(0.5), at(0.9), at(1)]);
    }
    const title = document.createElement("b");
    title.textContent = `${time(b - a)} from ${time(a)} to ${time(b)} (F zooms to it)`;
    this.picked.replaceChildren(title, table);
  },

  fit() {
    if (this.chosen) {
      const [a, b] = this.chosen;
      this.chosen = null;
      return this.zoomTo(a, b);
    }
    if (!this.selected) return this.zoomTo(this.begin, this.end);
    const { i } = this.selected, { start, end } = this.spans;
    const pad = Math.max((end[i] - start[i]) * 0.15, leastView / 2);
    this.zoomTo(start[i] - pad, end[i] + pad);
  },

  // step selects the next or the previous span of the selected row.
  step(by) {
    if (!this.selected) return;
    const { i, line } = this.selected, { row } = line;
    const [from, to] = i < row.to ? [row.from, row.to] : [row.to, row.last];
    if (i + by < from || i + by >= to) return;
    this.reveal({ i: i + by, line });
  },

  // reveal selects a span and moves the view until it is in sight.
  reveal(hit) {
    const { start, end } = this.spans, { line, i } = hit;
    const width = this.view.end - this.view.start;
    if (start[i] < this.view.start || end[i] > this.view.end) {
      const middle = (start[i] + end[i]) / 2, half = Math.max(width, (end[i] - start[i]) * 1.3) / 2;
      this.zoomTo(middle - half, middle + half);
    }
    const sight = this.geometry.height;
    if (line.top < this.scroller.scrollTop || line.top + line.height > this.scroller.scrollTop + sight) {
      this.scroller.scrollTop = line.top - sight / 2;
      this.draw();
    }
    this.select(hit);
  },

  // seek dims what is not called by the text, and returns how many spans in sight are.
  seek(text) {
    const wanted = text.trim().toLowerCase();
    const named = wanted && this.names.map((name) => name.toLowerCase().includes(wanted));
    this.search = wanted ? (i) => named[this.spans.name[i]] : null;
    this.hits = [];
    for (const line of wanted ? this.lines : []) {
      for (let i = line.row?.from; i < line.row?.to; i++) if (this.search(i)) this.hits.push({ i, line });
    }
    this.hit = -1;
    this.draw();
    return this.hits.length;
  },

  next(by) {
    if (!this.hits?.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    this.reveal(this.hits[this.hit]);
  },
});
