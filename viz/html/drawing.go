package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/svg"
)

// A Picture says what Draw shows. The zero value shows the queues of rank row 0.
type Picture struct {
	Title  string
	From   trace.Time // of the axis
	To     trace.Time // not after From: all that is drawn
	Width  float64    // px; 0: 1200
	Path   bool       // mark the critical path of every run
	Rank   int32      // row; negative: all
	Kernel string     // show the workgroups of the part, or of the kernel that the name contains; "": queues
}

// Draw draws a timeline of the report: all runs' queues, engines and links, or their workgroups.
func (r Report) Draw(o Picture) (*svg.Drawing, error) {
	d := newDictionary()
	p := r.lanes(d)
	if o.Kernel != "" {
		p = r.workgroups(d, o.Kernel)
	}
	p.Sections = slices.DeleteFunc(p.Sections, func(s section) bool {
		return o.Rank >= 0 && s.Group != fmt.Sprintf("rank %d", r.rankID(o.Rank)) || o.Kernel != "" && s.Kernel != "" && s.Kernel != o.Kernel
	})
	if len(p.Sections) == 0 {
		return nil, fmt.Errorf("nothing to draw on rank %d: no queues or workgroups of %q", r.rankID(max(0, o.Rank)), o.Kernel)
	}
	if o.To <= o.From {
		o.From, o.To = trace.Infinity, -trace.Infinity
		p.each(0, func(r *row) {
			for _, g := range slices.Concat(r.spans, r.marks) {
				o.From, o.To = min(o.From, g.start), max(o.To, g.end)
			}
		})
	}
	return p.draw(d, o), nil
}

// figure is what the page shows of a panel until its script has drawn it.
func (r Report) figure(p *panel, d *dictionary, title string) *svg.Drawing {
	shown := *p
	shown.Sections = slices.DeleteFunc(slices.Clone(p.Sections), func(s section) bool {
		return !slices.Contains(p.Shown, s.Run) || p.Pick != "" && s.Group != p.Pick || s.Kernel != p.Kernel
	})
	return shown.draw(d, Picture{Title: title})
}

const (
	gapHeight  = 16.0 // px of a heading for the labels of gaps
	markEvery  = 24.0 // px that a row has for each mark of a kind at least, or no row shows the kind
	pathHeight = 3.0
)

// A drawer gathers what is drawn alike, because an element costs more than a rectangle in a path.
type drawer struct {
	*svg.Drawing
	axis  svg.Axis
	kinds []kind
	names *dictionary
	boxes []strings.Builder // by kind
	seen  []bool            // likewise
	texts []func()          // above the boxes
}

// A hop is a stretch of the critical path, in which something ran unless it is a gap.
type hop struct {
	from, to trace.Time
	gap      bool
	y        float64
}

// draw draws the rows of all sections that are not hidden at first.
func (p *panel) draw(names *dictionary, o Picture) *svg.Drawing {
	width := cmp.Or(o.Width, 1200)
	var end trace.Time
	var rows []*row // in sight
	var titles []string
	bottom := svg.AxisHeight
	for i := range p.Sections {
		s := &p.Sections[i]
		end = max(end, s.End)
		if i == 0 || s.Run != p.Sections[i-1].Run {
			bottom += s.heading()
			titles = append(titles, s.Title)
		}
		for k := range s.Rows {
			if row := &s.Rows[k]; p.shown(row) {
				rows = append(rows, row)
				bottom += float64(p.RowHeight)
			}
		}
	}
	if o.To <= o.From {
		o.To = end
	}
	list := kinds()
	w := &drawer{
		Drawing: svg.New(o.Title, fmt.Sprintf("%d rows over %s: %s", len(rows), layout.Short(o.To-o.From), strings.Join(titles, "; ")), width),
		axis:    svg.NewAxis(o.From, o.To, width), kinds: list, names: names, boxes: make([]strings.Builder, len(list)), seen: make([]bool, len(list)),
	}
	w.axis.Draw(w.Drawing, bottom)
	hidden := w.crowded(rows)
	paths, y := map[int][]hop{}, svg.AxisHeight
	for i := range p.Sections {
		s := &p.Sections[i]
		if i == 0 || s.Run != p.Sections[i-1].Run {
			w.heading(s, y, width)
			y += s.heading()
		}
		first := true
		for k := range s.Rows {
			row := &s.Rows[k]
			if !p.shown(row) {
				continue
			}
			label := row.Label
			if first {
				label, first = s.Group+" · "+label, false
			}
			height := float64(p.RowHeight)
			w.Text(w.axis.Left-8, y+height/2+3.5, "small soft end", label, w.axis.Left-14)
			w.row(row, y+1, height-2, hidden)
			for n := 0; n < len(row.Path); n += 3 {
				paths[s.Run] = append(paths[s.Run], hop{row.Path[n], row.Path[n] + row.Path[n+1], row.Path[n+2] > 0, y + height - pathHeight})
			}
			y += height
		}
	}
	w.flush()
	if first := &p.Sections[0]; first.Kernel != "" && first.End < o.To {
		w.base(first.End, bottom)
	}
	if o.Path {
		for _, run := range slices.Sorted(maps.Keys(paths)) {
			w.path(paths[run])
		}
	}
	w.legend(bottom+20, o.Path)
	return w.Drawing
}

// shown reports whether a row is shown at first.
func (p *panel) shown(r *row) bool {
	return !r.Detail && (p.FirstRows == 0 || r.Nth < p.FirstRows)
}

func (s *section) heading() float64 {
	if len(s.Gaps) > 0 {
		return svg.HeaderHeight + gapHeight
	}
	return svg.HeaderHeight
}

// heading names a run above a line as long as the run, and its largest gaps.
func (w *drawer) heading(s *section, top, width float64) {
	height := s.heading()
	w.Rect(0, top, width, height, "panel", "")
	w.Text(8, top+16, "bold", s.Title, w.axis.Right)
	if from, to := w.axis.Span(w.axis.From, s.End); to > from {
		w.Rect(from, top+height-2, to-from, 1.5, "faint", "")
		w.Rect(to-1.5, top+height-8, 1.5, 8, "ink", "")
	}
	x := w.axis.Left
	for _, g := range s.Gaps {
		if from, to := w.axis.Span(g.From, g.To); to > from {
			w.Rect(from, top+height-5, max(1, to-from), 3, g.Color, g.Text)
			w.Text(x, top+height-8, "small soft", g.Text, 0)
			x += svg.TextWidth(g.Text, "small") + 12
		}
	}
}

// crowded finds the kinds of marks of which some row has too many: on all rows alike, or a
// reader would take rows without marks for rows without puts. Bars count them.
func (w *drawer) crowded(rows []*row) []bool {
	hidden, most := make([]bool, len(w.kinds)), max(1, int((w.axis.Right-w.axis.Left)/markEvery))
	for _, r := range rows {
		counts := make([]int, len(w.kinds))
		for _, m := range r.marks {
			if m.start >= w.axis.From && m.start < w.axis.To {
				counts[m.kind]++
			}
		}
		for k, n := range counts {
			hidden[k] = hidden[k] || n > most
		}
	}
	return hidden
}

// row draws spans, those narrower than a pixel merged with their neighbours, and marks.
func (w *drawer) row(r *row, top, height float64, hidden []bool) {
	pixel := trace.Time(float64(w.axis.To-w.axis.From) / (w.axis.Right - w.axis.Left))
	first, _ := slices.BinarySearchFunc(r.spans, w.axis.From, func(s segment, t trace.Time) int { return cmp.Compare(s.end, t) })
	last, _ := slices.BinarySearchFunc(r.spans, w.axis.To, func(s segment, t trace.Time) int { return cmp.Compare(s.start, t) })
	for _, s := range merge(r.spans[first:last], max(1, pixel), w.names) {
		k := &w.kinds[s.kind]
		x0, x1 := w.axis.Span(s.start, s.end)
		width, h := max(x1-x0, 1), height*k.Height
		if width > 4 {
			width -= 0.6 // so that equal neighbours can be told apart
		}
		w.seen[s.kind] = true
		svg.Box(&w.boxes[s.kind], x0, top+(height-h)/2, width, h)
		if width < 12 || h <= 7 {
			continue
		}
		style, text := "small dark", names.Short(w.names.names[s.name])
		if k.Ink == white {
			style = "small light"
		}
		if width < 50 && svg.TextWidth(text, style) > width-6 || text == "" {
			text = k.Glyph
		}
		w.texts = append(w.texts, func() { w.Text(x0+3, top+height/2+3.5, style, text, width-6) })
	}
	counts, most := map[[2]int]int{}, 0
	for _, m := range r.marks {
		switch {
		case m.start < w.axis.From || m.start >= w.axis.To:
		case hidden[m.kind]:
			at := [2]int{int(m.kind), int(w.axis.X(m.start) / markBin)}
			counts[at]++
			most = max(most, counts[at])
		default:
			w.mark(m.kind, w.axis.X(m.start), top+height/2, min(height*0.46, 6))
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		h := height / 2 * float64(counts[at]) / float64(most)
		w.seen[at[0]] = true
		svg.Box(&w.boxes[at[0]], float64(at[1])*markBin, top+height-h, markBin-1, h)
	}
}

// markBin is the px of a bar that counts crowded marks.
const markBin = 4.0

// mark adds a triangle or a diamond.
func (w *drawer) mark(kind uint8, x, y, r float64) {
	w.seen[kind] = true
	b := &w.boxes[kind]
	b.WriteString("M" + svg.Num(x) + " " + svg.Num(y-r))
	if w.kinds[kind].Mark == "diamond" {
		b.WriteString("l" + svg.Num(r) + " " + svg.Num(r) + "l" + svg.Num(-r) + " " + svg.Num(r) + "l" + svg.Num(-r) + " " + svg.Num(-r) + "z")
		return
	}
	b.WriteString("l" + svg.Num(r) + " " + svg.Num(2*r) + "h" + svg.Num(-2*r) + "z")
}

// fill is the colour of a kind: a translucent one is that of lines.
func (k *kind) fill() string {
	switch len(k.Color) {
	case 0:
		return "ink"
	case len("#rrggbb"):
		return k.Color
	}
	return "faint"
}

// flush draws what was gathered.
func (w *drawer) flush() {
	for k := range w.kinds {
		if w.kinds[k].Mark == "" {
			w.Path(w.kinds[k].fill(), w.boxes[k].String())
		}
	}
	for _, draw := range w.texts {
		draw()
	}
	for k := range w.kinds {
		if w.kinds[k].Mark != "" {
			w.Path(w.kinds[k].fill(), w.boxes[k].String())
		}
	}
}

// base is a dashed line down from the end of the first run of a part, which the others are compared with.
func (w *drawer) base(end trace.Time, bottom float64) {
	var b strings.Builder
	for y := svg.AxisHeight; y < bottom; y += 7 {
		svg.Box(&b, w.axis.X(end)-0.5, y, 1, min(4, bottom-y))
	}
	w.Path("faint", b.String())
}

// path draws the critical path of a run: a line below what it consists of, thinner where
// nothing ran, and lines from row to row.
func (w *drawer) path(hops []hop) {
	slices.SortStableFunc(hops, func(a, b hop) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	last := -1.0
	for _, h := range hops {
		x0, x1 := w.axis.Span(h.from, h.to)
		if x1 <= x0 {
			continue
		}
		height := pathHeight
		if h.gap {
			height = 1
		}
		svg.Box(&b, x0, h.y, x1-x0, height)
		if last >= 0 && last != h.y {
			svg.Box(&b, x0, min(last, h.y), 1, max(last, h.y)-min(last, h.y)+pathHeight)
		}
		last = h.y
	}
	w.Path("path", b.String())
}

// legend names the colours and marks below the rows.
func (w *drawer) legend(y float64, path bool) {
	x := w.axis.Left
	item := func(name string, draw func()) {
		width := 30 + svg.TextWidth(name, "small")
		if x+width > w.axis.Right && x > w.axis.Left {
			x, y = w.axis.Left, y+18
		}
		draw()
		w.Text(x+22, y, "small soft", name, 0)
		x += width + 10
	}
	for i := range w.kinds {
		if k := &w.kinds[i]; w.seen[i] {
			item(k.Label, func() {
				w.boxes[i].Reset()
				if h := 10 * k.Height; k.Mark == "" {
					svg.Box(&w.boxes[i], x, y-4-h/2, 18, h)
				} else {
					w.mark(uint8(i), x+9, y-4, 5)
				}
				w.Path(k.fill(), w.boxes[i].String())
			})
		}
	}
	if path {
		item("critical path", func() { w.Rect(x, y-5, 18, pathHeight, "path", "") })
	}
	w.Height = y + 10
}
