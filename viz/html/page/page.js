// Puts the page together: bars, timelines with their controls, sortable tables.

function legend(host, kinds) {
  for (const kind of kinds) {
    const item = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.cssText = `background:${kind.color};color:${kind.ink};font-style:normal`;
    swatch.textContent = kind.glyph || "";
    if (kind.height < 0.8) {
      swatch.classList.add("thin");
      swatch.textContent = "";
    }
    if (kind.mark) {
      swatch.style.cssText = `color:${kind.color || "var(--ink)"};font-style:normal;font-size:14px;width:auto`;
      swatch.textContent = kind.glyph;
    }
    item.append(swatch, kind.label);
    host.append(item);
  }
}

// theme has the page's colours and fonts for ECharts.
function theme() {
  const css = getComputedStyle(document.documentElement), ink = (name) => css.getPropertyValue("--" + name).trim();
  const text = (color, fontSize) => ({ color: ink(color), fontSize, fontFamily: ink("sans") });
  const axis = { axisLine: { lineStyle: { color: ink("line") } }, splitLine: { lineStyle: { color: ink("grid") } }, axisTick: { show: false } };
  return {
    textStyle: text("ink", 12), legend: { textStyle: text("soft", 12) },
    categoryAxis: { ...axis, axisLabel: { ...text("ink", 12), interval: 0 } }, valueAxis: { ...axis, axisLabel: { ...text("soft", 11), hideOverlap: true } },
    bar: { markLine: { silent: true, lineStyle: { color: ink("ink") }, itemStyle: { color: ink("ink") } } },
    // renderMode: a name in a trace must not become HTML
    tooltip: { renderMode: "richText", confine: true, backgroundColor: ink("paper"), borderColor: ink("line"), textStyle: text("ink", 12) },
  };
}

// A Bars is a chart that ECharts draws once it is in sight.
class Bars {
  constructor(host, option) {
    Object.assign(this, { host, option });
    host.closest("details")?.addEventListener("toggle", () => this.draw());
    this.draw();
  }

  draw() {
    this.chart?.dispose();
    this.chart = null;
    if (!this.host.clientWidth) return;
    this.chart = echarts.init(this.host, theme());
    const { keys, ...option } = this.option;
    this.chart.setOption(option);
    if (!keys?.some((key) => key)) return;
    this.chart.getZr().on("click", ({ offsetY }) => { // anywhere in a row
      const key = keys[this.chart.convertFromPixel({ yAxisIndex: 0 }, offsetY)];
      if (key) this.clicked?.(key);
    });
  }
}

// Controls choose the sections that a timeline shows: runs by chips, ranks and kernels by lists.
class Controls {
  constructor(timeline, host, fields) {
    this.timeline = timeline;
    this.sections = timeline.panel.sections;
    this.bar = document.createElement("div");
    this.bar.className = "controls";
    host.prepend(this.bar);
    this.runs = this.chips();
    this.lists = fields.map(({ key, name, all, pick }) => this.list(key, name, all, pick));
    this.rows = this.rowList();
    this.detail = this.box("annotations", (row) => row.detail);
    this.path = this.box("critical path", (row) => row.path);
    this.finder();
    this.apply();
  }

  chips() {
    const titles = new Map(this.sections.map((s) => [s.run, s]));
    if (titles.size < 2) return null;
    const set = document.createElement("fieldset");
    const boxes = [...titles].map(([run, { name, key }]) => {
      const box = this.chip(name, this.timeline.panel.shown.includes(run));
      box.value = run;
      box.dataset.name = key;
      box.defaultChecked = box.checked;
      box.parentElement.classList.toggle("rare", !box.checked && !this.timeline.panel.main.includes(run));
      set.append(box.parentElement);
      return box;
    });
    const rare = set.querySelectorAll(".rare").length;
    if (rare < 3) set.classList.add("all");
    else set.append(this.more(rare, () => set.classList.toggle("all")));
    this.bar.append(set);
    return boxes;
  }

  // more is a button that shows the chips of schedules that are neither shown nor in the chart of changes, and hides them again.
  more(count, toggle) {
    const button = document.createElement("button"), label = (all) => (all ? "fewer ◂" : `${count} more ▸`);
    Object.assign(button, { type: "button", className: "chip", textContent: label(false) });
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const all = toggle();
      button.setAttribute("aria-expanded", String(all));
      button.textContent = label(all);
    });
    return button;
  }

  // only shows a run, beside the first one.
  only(key) {
    for (const box of this.runs ?? []) box.checked = box === this.runs[0] || box.dataset.name === key;
    this.apply();
    this.timeline.scroller.scrollIntoView({ block: "center" });
    this.timeline.scroller.focus({ preventScroll: true });
  }

  chip(title, checked) {
    const label = document.createElement("label"), box = document.createElement("input");
    label.className = "chip";
    label.title = title;
    Object.assign(box, { type: "checkbox", checked });
    box.addEventListener("change", () => this.apply());
    label.append(box, title.length > 60 ? title.slice(0, 59) + "…" : title);
    return box;
  }

  list(key, name, all, pick) {
    const values = [...new Set(this.sections.map((s) => s[key]))];
    if (values.length < 2) return null;
    const select = this.select(name, [...(all ? [[all, ""]] : []), ...values.map((v) => [v, v])]);
    select.value = pick ?? "";
    return { key, name, pick, select };
  }

  select(name, choices) {
    const label = document.createElement("label"), select = document.createElement("select");
    for (const [text, value] of choices) select.add(new Option(text, value));
    select.addEventListener("change", () => this.apply());
    label.append(name, select);
    this.bar.append(label);
    return select;
  }

  rowList() {
    const few = this.timeline.panel.firstRows;
    if (!few || this.sections.every((s) => s.rows.every((row) => (row.nth ?? 0) < few))) return null;
    return this.select("rows", [[`first ${few}`, few], ["all", Infinity]]);
  }

  // box switches on what some rows have.
  box(title, has) {
    if (!this.sections.some((s) => s.rows.some(has))) return null;
    const set = document.createElement("fieldset"), box = this.chip(title, false);
    set.append(box.parentElement);
    this.bar.append(set);
    return box;
  }

  finder() {
    const label = document.createElement("label"), input = document.createElement("input"), found = document.createElement("span");
    Object.assign(input, { type: "search", placeholder: "find a name", spellcheck: false });
    found.className = "found";
    this.found = found;
    input.addEventListener("input", () => this.search());
    input.addEventListener("keydown", (e) => {
      if (e.key === "Enter") this.timeline.next(e.shiftKey ? -1 : 1);
      if (e.key === "Escape") this.timeline.scroller.focus();
    });
    this.timeline.find = input;
    label.append(input, found);
    this.bar.append(label);
  }

  apply() {
    const runs = this.runs && new Set(this.runs.filter((b) => b.checked).map((b) => Number(b.value)));
    const shown = this.sections.filter((s) =>
      (!runs || runs.has(s.run)) && this.lists.every((l) => !l || !l.select.value || s[l.key] === l.select.value));
    this.timeline.select(null);
    this.timeline.showPath = this.path?.checked;
    this.timeline.show(shown, this.rows ? Number(this.rows.value) : Infinity, this.detail?.checked);
    this.search();
  }

  search() {
    const { value } = this.timeline.find, n = this.timeline.seek(value);
    this.found.textContent = value.trim() ? `${n} found` : "";
    this.changed?.();
  }
}

async function timeline(id, panel, data, describe, fields) {
  if (!panel) return null;
  const host = document.getElementById(id), key = document.createElement("div");
  const captions = data.names.map((name, i) => data.short[i] ?? name);
  const t = new Timeline(host, panel, await decode(panel), data.kinds, data.names, captions, describe);
  t.controls = new Controls(t, host, fields);
  key.className = "legend";
  legend(key, panel.legend.map((k) => data.kinds[k]));
  t.hinted = document.createElement("span");
  key.append(t.hinted);
  t.scroller.after(key);
  t.layout();
  host.closest("details")?.addEventListener("toggle", () => t.layout());
  if (panel.note) {
    const note = document.createElement("p");
    note.className = "about";
    note.textContent = panel.note;
    host.prepend(note);
  }
  return t;
}

// library runs ECharts, which the page carries compressed. The page's policy knows its hash.
async function library(packed) {
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(await bytesOf(packed));
  document.head.append(script);
}

// painted ends when what the page shows without ECharts is on the screen.
const painted = () => new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done));
  setTimeout(done, 200); // of a page in the background
});

// copyable gives code a button that copies it. Pages opened from a file have no clipboard but this one.
function copyable(pre) {
  const button = document.createElement("button"), code = pre.textContent;
  Object.assign(button, { type: "button", className: "copy", textContent: "copy" });
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(pre.firstElementChild);
    button.textContent = document.execCommand("copy") ? "copied" : "selected";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  pre.replaceChildren(Object.assign(document.createElement("code"), { textContent: code }), button);
}

async function boot() {
  tables();
  document.querySelectorAll("#how pre").forEach(copyable);
  await painted();
  await library(document.getElementById("echarts").textContent);
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [...document.querySelectorAll("[data-chart]")].map((host) => new Bars(host, data.charts[host.dataset.chart]));
  for (const host of document.querySelectorAll("[data-use]")) host.append(drawUse(data.use[host.dataset.use]));
  const span = (t, i, row) => [`${time(t.spans.start[i])} + ${time(t.spans.end[i] - t.spans.start[i])}`, `${row.section.name}, ${row.section.group}, ${row.label}`];
  const lanes = await timeline("lanes", data.lanes, data, (i, row) => {
    const s = lanes.spans;
    return [data.names[s.name[i]] || data.kinds[s.kind[i]].label, data.kinds[s.kind[i]].label, ...span(lanes, i, row), ...(s.detail[i] ? [data.details[s.detail[i]]] : [])];
  }, [{ key: "group", name: "rank", all: "all", pick: data.lanes?.pick }]);
  const wgs = await timeline("wgs", data.workgroups, data, (i, row) => {
    const s = wgs.spans, kind = data.kinds[s.kind[i]];
    return [kind.label + (s.name[i] ? ", " + data.names[s.name[i]] : ""), ...(s.detail[i] ? [`tile ${s.detail[i] - 1}`] : []), ...span(wgs, i, row)];
  }, [{ key: "kernel", name: "kernel", pick: data.workgroups?.kernel }, { key: "group", name: "rank", all: "all", pick: data.workgroups?.pick }]);
  const all = [lanes, wgs].filter(Boolean);
  for (const chart of charts) chart.clicked = (key) => lanes?.controls.only(key);
  const redraw = () => {
    [...all, ...charts].forEach((t) => (t.layout ?? t.draw).call(t));
  };
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("keydown", (e) => { // keys act on the first timeline in sight where nothing else takes them
    const inSight = (t) => t.size?.width && t.scroller.getBoundingClientRect().top < innerHeight && t.scroller.getBoundingClientRect().bottom > 0;
    if (e.target === document.body) all.find(inSight)?.key(e);
  });
  let folded = []; // what is opened to be printed
  const paper = (on) => {
    document.documentElement.toggleAttribute("data-print", on);
    if (on) folded = [...document.querySelectorAll("details.more:not([open])")];
    for (const part of folded) part.open = on;
    redraw();
    for (const c of charts) c.chart?.getZr().flush(); // printing waits for no frame
  };
  window.addEventListener("beforeprint", () => paper(true));
  window.addEventListener("afterprint", () => paper(false));
  const address = new Address([["", lanes], ["wg.", wgs]].filter(([, t]) => t));
  // For tests and for the curious: timelines say in drawn what they drew.
  window.overlapse = { lanes, workgroups: wgs, bars: charts[0], address };
}

boot();
