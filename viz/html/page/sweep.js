// Curves and heat maps of a sweep over two axes. Where several cells of one scenario fall
// together, the fastest counts; scenarios are never mixed. Colours are changes against the
// captured schedule of the same scenario.
const data = JSON.parse(document.getElementById("data").textContent);
const metrics = [["change, %", 1], ["time, µs", 0], ["exposed communication, µs", 2]];
const CHANGE = 1;
const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8b8b86", "#000000"];

function choose(label, options) {
  const s = node("select", {}, ...options.map((text, i) => node("option", { value: i }, text)));
  s.addEventListener("change", draw);
  document.getElementById("controls").append(node("label", {}, label, s));
  return s;
}

const names = data.axes.map(a => a.name);
const kind = choose("chart", ["heat map", "curves"]);
const across = choose("across", names);
const down = choose("down", names);
const metric = choose("value", metrics.map(m => m[0]));
const only = data.axes.map(a => choose(a.name, (a.each ? ["each"] : a.scenario ? [] : ["best of all"]).concat(a.values)));
const byName = name => Math.max(0, names.indexOf(name));
across.value = byName("strategy");
down.value = data.axes.findIndex((a, i) => i !== Number(across.value) && !a.each);
if (Number(down.value) < 0) down.value = across.value;

// picked is the value of an axis that is shown; -1: every one.
const picked = axis => Number(only[axis].value) - (data.axes[axis].scenario && !data.axes[axis].each ? 0 : 1);

// table is the fastest cell for each pair of values: best[row][column] is an index or -1.
// each is the value of the axis that has a chart for each of its values, or -1.
function table(x, y, each) {
  const best = data.axes[y].values.map(() => data.axes[x].values.map(() => -1));
  data.at.forEach((at, i) => {
    if (data.cells[i][0] === 0 || at[x] < 0 || at[y] < 0) return;
    if (data.axes.some((a, axis) => {
      if ((axis === x || axis === y) && a.scenario) return false;
      const want = a.each && picked(axis) < 0 ? each : picked(axis);
      return want >= 0 && at[axis] !== want;
    })) return;
    const was = best[at[y]][at[x]];
    if (was < 0 || data.cells[i][0] < data.cells[was][0]) best[at[y]][at[x]] = i;
  });
  return best;
}

const says = i => data.axes.map((a, j) => data.at[i][j] < 0 ? "" : `${a.name} ${a.values[data.at[i][j]]}`).filter(Boolean).join("\n");
const shown = v => Math.abs(v) >= 1000 ? v.toFixed(0) : v.toPrecision(3);

function draw() {
  const x = Number(across.value), y = Number(down.value), m = metrics[Number(metric.value)][1];
  const chart = document.getElementById("chart");
  chart.replaceChildren();
  if (!names.length) {
    chart.append("Every axis has one value: there is nothing to compare.");
    return;
  }
  const axis = data.axes.findIndex((a, i) => a.each && i !== x && i !== y && picked(i) < 0);
  const charts = axis < 0 ? [-1] : data.axes[axis].values.map((_, k) => k);
  let text = "";
  for (const each of charts) {
    const best = table(x, y, each);
    const found = best.flat().filter(i => i >= 0), values = found.map(i => data.cells[i][m]);
    if (each >= 0) chart.append(node("h3", {}, `${names[axis]} ${data.axes[axis].values[each]}`));
    if (!values.length) {
      chart.append("No cell has these values.");
      continue;
    }
    const low = Math.min(...values), high = Math.max(...values);
    text += `${each < 0 ? "" : `${data.axes[axis].values[each]} `}${shown(low)} to ${shown(high)}. `;
    chart.append(Number(kind.value) === 0 ? heat(x, y, m, best, Math.max(...found.map(i => Math.abs(data.cells[i][CHANGE])))) : curves(x, y, m, best, low, high));
  }
  document.getElementById("about").textContent = `${metrics[Number(metric.value)][0]}: ${text}Colours: change against the captured schedule of the same input and scenario; green is faster. Empty: no strategy applies.`;
}

function heat(x, y, m, best, most) {
  const head = node("tr", {}, node("th", {}, `${names[y]} \\ ${names[x]}`), ...data.axes[x].values.map(v => node("th", { scope: "col" }, v)));
  const rows = best.map((row, j) => node("tr", {}, node("th", { scope: "row" }, data.axes[y].values[j]), ...row.map(i => {
    if (i < 0) return node("td", {}, "");
    const change = data.cells[i][CHANGE], cell = node("td", { title: says(i) }, shown(data.cells[i][m]));
    cell.style.background = `color-mix(in srgb, ${change > 0 ? "#d55e00" : "#009e73"} ${Math.round(85 * Math.abs(change) / (most || 1))}%, #ffffff)`;
    cell.style.color = "#000000";
    return cell;
  })));
  return node("div", { class: "table" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...rows)));
}

function curves(x, y, m, best, low, high) {
  const words = data.axes[x].values, numbers = words.map(Number), numeric = numbers.every(v => Number.isFinite(v));
  const W = 900, H = 420, left = 70, right = 230, top = 16, bottom = 44;
  const from = numeric ? Math.min(...numbers) : 0, to = numeric ? Math.max(...numbers) : words.length - 1;
  const px = k => left + (W - left - right) * ((numeric ? numbers[k] : k) - from) / (to - from || 1);
  const py = v => H - bottom - (H - top - bottom) * (v - low) / (high - low || 1);
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${metrics[Number(metric.value)][0]} over ${names[x]}` });
  for (let k = 0; k <= 4; k++) {
    const v = low + (high - low) * k / 4;
    svg.append(node("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }), node("text", { x: left - 8, y: py(v) + 4, "text-anchor": "end" }, shown(v)));
  }
  words.forEach((v, k) => svg.append(node("text", { x: px(k), y: H - bottom + 18, "text-anchor": "middle" }, v.length > 14 ? v.slice(0, 13) + "…" : v)));
  svg.append(node("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, names[x]));
  const order = words.map((_, k) => k).sort((a, b) => numeric ? numbers[a] - numbers[b] : a - b);
  best.forEach((row, j) => {
    const at = order.filter(k => row[k] >= 0);
    if (!at.length) return;
    const colour = colours[j % colours.length];
    svg.append(node("path", { class: "curve", stroke: colour, d: at.map((k, n) => `${n ? "L" : "M"}${px(k).toFixed(1)} ${py(data.cells[row[k]][m]).toFixed(1)}`).join("") }));
    for (const k of at) svg.append(node("circle", { cx: px(k), cy: py(data.cells[row[k]][m]), r: 4, fill: colour }, node("title", {}, `${says(row[k])}\n${shown(data.cells[row[k]][m])}`)));
    svg.append(node("text", { x: W - right + 14, y: top + 14 + 18 * j, fill: colour }, `● ${data.axes[y].values[j]}`.slice(0, 34)));
  });
  return svg;
}

draw();
tables();
window.overlapse = {}; // for tests: the page is ready
