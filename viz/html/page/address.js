// The address of a view: what stands behind the # of the page's address. It follows
// what timelines show, and a page that is opened with one shows it.
//
//	#strategy=bulk,fused&rank=0&t=1.2ms-3ms&find=gemm
//	#wg.strategy=fused&wg.kernel=...            the same of the workgroups' timeline

const inUnits = /^(-?[\d.]+)(ns|us|µs|ms|s)?$/;

// parseTime reads "1.2ms" as nanoseconds; a bare number is microseconds. NaN: no time.
function parseTime(text) {
  const m = inUnits.exec(text.trim());
  return m ? Number(m[1]) * { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 }[m[2] || "us"] : NaN;
}

// exactTime writes nanoseconds such that parseTime reads them back.
function exactTime(ns) {
  const [size, unit] = [[1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([size]) => Math.abs(ns) >= size) || [1, "ns"];
  return String(Number((ns / size).toFixed(Math.log10(size)))) + unit;
}

class Address {
  // timelines are by the prefix of their fields.
  constructor(timelines) {
    this.timelines = timelines;
    this.read();
    for (const [, t] of timelines) {
      t.moved.push(() => this.later());
      t.controls.changed = () => this.later();
    }
    window.addEventListener("hashchange", () => this.read());
  }

  read() {
    const fields = new URLSearchParams(location.hash.slice(1));
    for (const [prefix, t] of this.timelines) {
      const { controls } = t, get = (name) => fields.get(prefix + name) ?? (name === "strategy" || name === "rank" ? fields.get(name) : null);
      const strategies = get("strategy")?.split(",");
      if (strategies) for (const box of controls.runs ?? []) box.checked = strategies.some((s) => s === box.dataset.name || s === box.dataset.name.split(" ")[0]);
      for (const l of controls.lists) {
        const value = l && get(l.name);
        const option = value && [...l.select.options].find((o) => o.value === value || o.value === `${l.name} ${value}`);
        if (option) l.select.value = option.value;
      }
      t.find.value = get("find") ?? t.find.value;
      if (controls.path && get("path")) controls.path.checked = get("path") === "on";
      controls.apply();
      const [from, to] = (fields.get(prefix + "t") ?? "").split(/(?<=[a-zµ\d])-/).map(parseTime);
      if (to > from) t.zoomTo(from, to);
    }
    const shown = fields.size && document.getElementById([...fields.keys()].some((k) => k.startsWith("wg.")) ? "workgroups" : "timeline");
    if (!shown) return;
    shown.open = true; // where it is folded
    shown.scrollIntoView();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), 150);
  }

  write() {
    const fields = new URLSearchParams();
    for (const [prefix, t] of this.timelines) {
      const { controls } = t;
      const set = (name, value) => value && fields.set(prefix + name, value);
      if (controls.runs?.some((b) => b.checked !== b.defaultChecked)) set("strategy", controls.runs.filter((b) => b.checked).map((b) => b.dataset.name.split(" ")[0]).join(","));
      for (const l of controls.lists) if (l && l.select.value !== (l.pick ?? "")) set(l.name, l.select.value.replace(`${l.name} `, ""));
      set("find", t.find.value.trim());
      set("path", controls.path?.checked && "on");
      if (t.view.end - t.view.start < t.end * 0.999) set("t", `${exactTime(Math.round(t.view.start))}-${exactTime(Math.round(t.view.end))}`);
    }
    const hash = fields.toString().replaceAll("%2C", ",");
    try {
      history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
    } catch { /* a page without an address of its own */ }
  }
}
