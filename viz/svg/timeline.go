package svg

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// Options say what a timeline shows. The zero value shows everything that is not hidden by default.
type Options struct {
	Title string
	From  trace.Time         // of the axis
	To    trace.Time         // not after From: the end
	Width float64            // px; 0: 1200
	Path  bool               // mark the critical path of every run
	Show  func(row int) bool // nil: every row
}

const (
	labelWidth   = 190.0 // px left of the rows
	axisHeight   = 24.0
	headerHeight = 24.0
	laneHeight   = 18.0
	wgHeight     = 13.0
	markEvery    = 24.0 // px that a row has for each mark of a kind at least, or no row shows the kind
	least        = 1.0  // px from which on a segment is drawn on its own
)

// Timeline draws the rows of a timeline: lanes, states of ranks, or the workgroups of a part
// under several strategies.
func Timeline(t *layout.Timeline, o Options) *Drawing {
	w := layout.Window{From: o.From, To: o.To}
	if w.To <= w.From {
		w = t.Bounds()
	}
	p := &painter{t: t, window: w, left: labelWidth, width: 1200}
	if o.Width > 0 {
		p.width = o.Width
	}
	p.right = p.width - 10
	p.scale = (p.right - p.left) / float64(w.Len())
	for i := range t.Rows {
		if !t.Rows[i].Detail && p.drawn(i) && (o.Show == nil || o.Show(i)) {
			p.rows = append(p.rows, i)
		}
	}
	d := New(o.Title, p.describe(), p.width)
	p.d = d
	p.layout()
	p.axis()
	p.dropMarks()
	for k, row := range p.rows {
		p.row(row, p.tops[k])
	}
	p.flush()
	p.base()
	if o.Path {
		p.path()
	}
	p.legend(o.Path)
	return d
}

// A painter gathers what is drawn alike, because an element costs more than a rectangle in a path.
type painter struct {
	t      *layout.Timeline
	d      *Drawing
	window layout.Window
	rows   []int
	tops   []float64 // of the rows

	width, left, right, bottom float64
	scale                      float64 // px per ns

	boxes  [64]strings.Builder // by class
	stall  strings.Builder
	marks  [layout.NumMarks]strings.Builder
	hidden [layout.NumMarks]bool // too many to be told apart
	texts  []caption
	seen   [64]bool
}

type caption struct {
	x, y  float64
	room  float64
	class string
	text  string
}

// drawn reports whether a row takes a line: of a whole run ranks, queues, engines and links;
// of a part kernels and workgroups.
func (p *painter) drawn(i int) bool {
	r := &p.t.Rows[i]
	part := p.t.Title != ""
	switch r.Kind {
	case layout.RunHeading, layout.RankHeading:
		return true
	case layout.GroupHeading:
		return part && len(r.Spans) == 1 // a kernel
	case layout.LaneRow:
		kind := p.t.Run(i).Lanes[r.Lane].Kind
		return part || kind == trace.Queue || kind == trace.Engine || kind == trace.Link || kind == trace.NIC
	}
	return false
}

// workgroups reports whether the spans of a row are workgroups.
func (p *painter) workgroups(i int) bool {
	k := p.t.Run(i).Lanes[p.t.Rows[i].Lane].Kind
	return k == trace.Persistent || k == trace.Slot
}

func (p *painter) height(i int) float64 {
	r := &p.t.Rows[i]
	switch {
	case r.Kind == layout.RunHeading:
		if len(r.Largest) > 0 {
			return headerHeight + 16
		}
		return headerHeight
	case r.Kind == layout.LaneRow && p.workgroups(i):
		return wgHeight
	}
	return laneHeight
}

func (p *painter) layout() {
	y := axisHeight
	for _, i := range p.rows {
		p.tops = append(p.tops, y)
		y += p.height(i)
	}
	p.bottom = y
	p.d.height = y + 8
}

// describe says in words what the drawing shows.
func (p *painter) describe() string {
	var parts []string
	for _, i := range p.rows {
		if r := &p.t.Rows[i]; r.Kind == layout.RunHeading {
			text := r.Label
			if r.Gaps != "" {
				text += " (" + r.Gaps + ")"
			}
			parts = append(parts, text)
		}
	}
	text := fmt.Sprintf("%d rows over %s", len(p.rows), layout.Short(p.window.Len()))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	return text
}

func (p *painter) x(at trace.Time) float64 {
	return p.left + float64(at-p.window.From)*p.scale
}

func (p *painter) axis() {
	a := layout.Ticks(p.window, int((p.right-p.left)/110))
	var lines strings.Builder
	if a.Label != "" {
		p.d.Text(p.left-6, 16, "small soft end", a.Label, p.left)
	}
	for _, tick := range a.Ticks {
		x := p.x(tick.At)
		box(&lines, x, axisHeight-4, 1, p.bottom-axisHeight+4)
		if room := p.right - x; room > 30 {
			p.d.Text(x+3, 16, "small soft", tick.Label, room)
		}
	}
	p.d.Path("grid", lines.String())
}

// dropMarks finds the kinds of marks of which some row has too many: on all rows alike, or a
// reader would take rows without marks for rows without puts.
func (p *painter) dropMarks() {
	most := max(1, int((p.right-p.left)/markEvery))
	for _, i := range p.rows {
		var counts [layout.NumMarks]int
		for _, m := range p.t.Rows[i].Marks {
			if at := m.At + p.t.Offset(i); at >= p.window.From && at < p.window.To {
				counts[m.Kind]++
			}
		}
		for k, n := range counts {
			p.hidden[k] = p.hidden[k] || n > most
		}
	}
}

func (p *painter) row(i int, top float64) {
	r := &p.t.Rows[i]
	height := p.height(i)
	if r.Kind == layout.RunHeading {
		p.heading(i, top, height)
		return
	}
	label, class := r.Label, "small soft end"
	if r.Kind == layout.RankHeading || r.Kind == layout.GroupHeading {
		class = "small end"
	}
	p.d.Text(p.left-8, top+height/2+3.5, class, label, p.left-14)
	if r.Kind == layout.RankHeading && !r.Strip {
		return
	}
	p.stalls(i, top, height)
	p.segments(i, top, height)
	for _, m := range r.Marks {
		if at := m.At + p.t.Offset(i); !p.hidden[m.Kind] && at >= p.window.From && at < p.window.To {
			p.mark(m.Kind, p.x(at), top+height/2, min(height*0.46, 6))
		}
	}
}

// heading names a run above a line as long as the run, and labels its largest gaps.
func (p *painter) heading(i int, top, height float64) {
	r := &p.t.Rows[i]
	p.d.Rect(0, top, p.width, height, "panel", "")
	p.d.Text(8, top+16, "bold", r.Label, p.right)
	first, last := p.extent(i)
	from, to := max(p.x(first), p.left), min(p.x(last), p.right)
	if to > from {
		p.d.Rect(from, top+height-2, to-from, 1.5, "faint", "")
		p.d.Rect(to-1.5, top+height-8, 1.5, 8, "ink", "")
	}
	p.gaps(i, top, height)
}

// gaps labels the largest gaps of a run, such that no label covers another.
func (p *painter) gaps(i int, top, height float64) {
	const between = 12 // px
	var labels []caption
	largest, next := slices.Clone(p.t.Rows[i].Largest), p.left
	slices.SortFunc(largest, func(a, b layout.Interval) int { return cmp.Compare(a.From, b.From) })
	for _, g := range largest {
		x0, x1 := max(p.x(g.From+p.t.Offset(i)), p.left), min(p.x(g.To+p.t.Offset(i)), p.right)
		if x1 <= x0 {
			continue
		}
		p.d.Rect(x0, top+height-5, max(1, x1-x0), 3, g.Class.CSS(), g.String())
		room := textWidth(g.String(), "small")
		labels = append(labels, caption{max(x0, next), top + height - 8, room, "small soft", g.String()})
		next = max(x0, next) + room + between
	}
	edge := p.right
	for k := range slices.Backward(labels) {
		labels[k].x = min(labels[k].x, edge-labels[k].room)
		edge = labels[k].x - between
	}
	for _, l := range labels {
		p.d.Text(l.x, l.y, l.class, l.text, 0)
	}
}

// extent is when the first and the last span below a heading are drawn.
func (p *painter) extent(i int) (first, last trace.Time) {
	first, last = trace.Infinity, -trace.Infinity
	run, shift := p.t.Run(i), p.t.Offset(i)
	for _, id := range p.t.Rows[i].Spans {
		s := run.Spans[id]
		first, last = min(first, s.Start+shift), max(last, s.End+shift)
	}
	return first, last
}

// stalls draws a thin line where a queue was stalled for a known reason.
func (p *painter) stalls(i int, top, height float64) {
	r := &p.t.Rows[i]
	if r.Kind != layout.LaneRow {
		return
	}
	lane := p.t.Run(i).Lanes[r.Lane]
	if lane.Kind != trace.Queue || lane.Sub != 0 {
		return
	}
	for _, g := range p.t.Views[r.View].Gaps {
		if g.Rank != lane.Rank || g.Queue != lane.ID {
			continue
		}
		x0, x1 := max(p.x(g.From+p.t.Offset(i)), p.left), min(p.x(g.To+p.t.Offset(i)), p.right)
		if x1-x0 > 0.5 {
			box(&p.stall, x0, top+height/2-1, x1-x0, 2)
		}
	}
}
