// From the spans of a row to rectangles on the screen, a list a kind.

const gap = 0.6; // px left free after a wide span, so that equal neighbours can be told apart
const markEvery = 24; // px that a row has for each mark of a kind at least, or no row shows them
const faint = 0; // the kind of spans that a search did not find

const bin = 4; // px of a bar that counts marks

// crowded finds the kinds of marks of which some row has too many between two times: on all
// rows alike, or a reader would take rows without marks for rows without puts. Bars count them.
function crowded(kinds, spans, rows, start, end, width) {
  const hidden = kinds.map(() => false), most = Math.max(1, width / markEvery);
  for (const row of rows) {
    const counts = kinds.map(() => 0);
    for (let i = firstEnding(spans, row.to, row.last, start - 1); i < row.last && spans.start[i] <= end; i++) {
      if (++counts[spans.kind[i]] > most) hidden[spans.kind[i]] = true;
    }
  }
  return hidden;
}

// A Painter gathers the rectangles of one frame.
class Painter {
  // hidden are the kinds of marks that bars count instead.
  constructor(kinds, spans, hidden) {
    this.kinds = kinds;
    this.spans = spans;
    this.hidden = hidden;
    this.rects = kinds.map(() => []); // x, y, width, height, ...
    this.marks = kinds.map(() => []); // x, y, size, ...
    this.bars = kinds.map(() => []); // x, y, width, height, ...
    this.texts = []; // {x, y, width, name, kind}
    this.cover = new Float64Array(kinds.length);
    this.seen = 0;
  }

  // row draws the spans of a row that lie in [left, right] px. x = origin + time·scale.
  row(row, top, height, left, right, origin, scale, dim) {
    const { spans } = this;
    const until = (right - origin) / scale;
    this.pixel = null;
    this.run = null;
    for (let i = firstEnding(spans, row.from, row.to, (left - origin) / scale - 1); i < row.to && spans.start[i] <= until; i++) {
      this.seen++;
      const kind = dim && !dim(i) ? faint : spans.kind[i];
      const x0 = origin + spans.start[i] * scale, x1 = origin + spans.end[i] * scale;
      if (x1 - x0 < 1) {
        this.sliver(kind, Math.floor(x0), x1 - x0, top, height);
      } else {
        this.flush(top, height);
        this.wide(i, kind, Math.max(x0, left), Math.min(x1, right), top, height);
      }
    }
    this.flush(top, height);
    const counts = this.kinds.map(() => new Map());
    for (let i = firstEnding(spans, row.to, row.last, (left - origin) / scale - 1); i < row.last && spans.start[i] <= until; i++) {
      this.mark(spans.kind[i], origin + spans.start[i] * scale, top, height, counts);
    }
    counts.forEach((bins, kind) => {
      const most = Math.max(...bins.values());
      for (const [at, n] of bins) this.bars[kind].push(at * bin, top + height - (height / 2) * (n / most), bin - 1, (height / 2) * (n / most));
    });
  }

  wide(i, kind, x0, x1, top, height) {
    const style = this.kinds[kind];
    const width = x1 - x0 > 4 ? x1 - x0 - gap : x1 - x0;
    const h = height * style.height;
    this.rects[kind].push(x0, top + (height - h) / 2, width, h);
    if (width >= 12 && h > 7) this.texts.push({ x: x0, y: top + height / 2, width, span: i, kind });
  }

  // sliver adds a span narrower than a pixel to what its pixel holds. The pixel
  // gets the colour of the kind that fills most of it, as high as it is full.
  sliver(kind, x, width, top, height) {
    if (this.pixel !== x) {
      this.flushPixel(top, height);
      this.pixel = x;
    }
    this.cover[kind] += Math.max(width, 1e-3);
  }

  flushPixel(top, height) {
    if (this.pixel === null) return;
    let most = 0, total = 0;
    for (let k = 0; k < this.cover.length; k++) {
      total += this.cover[k];
      if (this.cover[k] > this.cover[most]) most = k;
    }
    this.cover.fill(0);
    const level = Math.max(1, Math.ceil(4 * Math.min(1, total)));
    const run = this.run;
    if (run && run.kind === most && run.level === level && run.x + run.width === this.pixel) {
      run.width++;
    } else {
      this.flushRun(top, height);
      this.run = { kind: most, level, x: this.pixel, width: 1 };
    }
    this.pixel = null;
  }

  flushRun(top, height) {
    const run = this.run;
    if (!run) return;
    const h = (height * this.kinds[run.kind].height * run.level) / 4;
    this.rects[run.kind].push(run.x, top + (height - h) / 2, run.width, h);
    this.run = null;
  }

  flush(top, height) {
    this.flushPixel(top, height);
    this.flushRun(top, height);
  }

  mark(kind, x, top, height, counts) {
    this.seen++;
    const at = Math.floor(x / bin);
    if (this.hidden[kind]) counts[kind].set(at, (counts[kind].get(at) || 0) + 1);
    else this.marks[kind].push(x, top + height / 2, Math.min(height * 0.46, 6));
  }
}

// shapes draws triangles or diamonds in one path, because a path costs far more than its parts.
function shapes(pen, form, parts, fill, stroke, width) {
  Object.assign(pen, { fillStyle: fill, strokeStyle: stroke, lineWidth: width });
  pen.beginPath();
  for (let i = 0; i < parts.length; i += 3) {
    const [x, y, r] = [parts[i], parts[i + 1], parts[i + 2]];
    pen.moveTo(x, y - r);
    pen.lineTo(x + r, form === "diamond" ? y : y + r);
    if (form === "diamond") pen.lineTo(x, y + r);
    pen.lineTo(x - r, form === "diamond" ? y : y + r);
    pen.closePath();
  }
  pen.fill();
  pen.stroke();
}
