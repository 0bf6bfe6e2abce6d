// What the page draws from. Spans of one panel stand in flat columns, row after
// row, sorted by start within a row; a row is a range of indices, [from, to) of spans and [to, last) of marks.

async function bytesOf(base64) {
  const text = atob(base64), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

// decode reads what panel.go encoded: five columns of numbers of seven bits a byte, low bits
// first: start less the previous end of the row, duration, kind, name, detail less the previous detail.
async function decode(panel) {
  const bytes = await bytesOf(panel.spans);
  let at = 0;
  const number = () => {
    let byte = bytes[at++];
    let value = byte & 127;
    for (let scale = 128; byte & 128; scale *= 128) { // no shifts: times exceed 32 bits
      byte = bytes[at++];
      value += (byte & 127) * scale;
    }
    return value;
  };
  const signed = () => {
    const value = number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const rows = panel.sections.flatMap((s) => s.rows.map((row) => Object.assign(row, { section: s })));
  const first = new Uint8Array(rows.reduce((n, row) => n + row.spans + row.marks, 0) + 1), count = first.length - 1;
  let i = 0;
  for (const row of rows) {
    row.from = i;
    row.to = i + row.spans;
    row.last = i = row.to + row.marks;
    first[row.from] = first[row.to] = 1;
  }
  const spans = {
    start: new Float64Array(count), end: new Float64Array(count),
    kind: new Uint8Array(count), name: new Int32Array(count), detail: new Int32Array(count),
  };
  for (i = 0; i < count; i++) spans.start[i] = signed();
  for (i = 0; i < count; i++) {
    if (!first[i]) spans.start[i] += spans.end[i - 1];
    spans.end[i] = spans.start[i] + number();
  }
  for (i = 0; i < count; i++) spans.kind[i] = number();
  for (i = 0; i < count; i++) spans.name[i] = number();
  for (i = 0; i < count; i++) spans.detail[i] = signed() + (first[i] ? 0 : spans.detail[i - 1]);
  return { rows, spans };
}

// firstEnding returns the first index in [from, to) whose end is after t.
// Ends ascend as starts do, because spans of a row do not overlap.
function firstEnding(spans, from, to, t) {
  while (from < to) {
    const mid = (from + to) >>> 1;
    if (spans.end[mid] > t) to = mid;
    else from = mid + 1;
  }
  return from;
}

const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// time writes nanoseconds with four significant digits.
function time(ns) {
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) || units[3];
  const value = ns / size;
  const digits = unit === "ns" ? 0 : Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(digits) + " " + unit;
}

// tick writes an axis position in the unit that suits the whole axis, with the digits that tell ticks apart.
function tick(ns, view) {
  const width = view.end - view.start;
  const [size, unit] = units.find(([size]) => Math.max(Math.abs(view.end), 1) >= size && width >= size / 100) || units[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / width)) + 1));
  const text = (ns / size).toFixed(digits);
  return (digits ? text.replace(/\.?0+$/, "") : text) + " " + unit;
}

// ticks are the round times of a view, about 110 px apart, with their labels.
function ticks(view, width) {
  const least = (view.end - view.start) / Math.max(1, width / 110), power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, [1, 2, 5, 10].find((m) => m * power >= least) * power), list = [];
  for (let ns = Math.ceil(view.start / step) * step; ns <= view.end; ns += step) list.push([ns, tick(ns, view)]);
  return list;
}

// oneLine makes a name fit for a canvas, whatever is in it.
function oneLine(text) {
  return text.slice(0, 200).replace(/\s+/g, " ");
}
