package svg

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// Sizes in px: of an Axis above the rows, of the labels left of them, of a heading between rows.
const (
	AxisHeight   = 24.0
	LabelWidth   = 190.0
	HeaderHeight = 24.0
)

// An Axis is the time axis of a drawing.
type Axis struct {
	Left, Right float64 // px
	From, To    trace.Time
}

// NewAxis leaves room for labels on the left of a drawing of a given width.
func NewAxis(from, to trace.Time, width float64) Axis {
	return Axis{LabelWidth, width - 10, from, max(to, from+1)}
}

// X is the place of a time in px.
func (a Axis) X(at trace.Time) float64 {
	return a.Left + float64(at-a.From)*(a.Right-a.Left)/float64(a.To-a.From)
}

// Span is the place of an interval in px, cut to the axis.
func (a Axis) Span(from, to trace.Time) (x0, x1 float64) {
	return max(a.X(from), a.Left), min(a.X(to), a.Right)
}

// Draw draws lines at round times down to bottom, with their labels above.
func (a Axis) Draw(d *Drawing, bottom float64) {
	ticks := layout.Ticks(layout.Window{From: a.From, To: a.To}, int((a.Right-a.Left)/110))
	var lines strings.Builder
	if ticks.Label != "" {
		d.Text(a.Left-6, 16, "small soft end", ticks.Label, a.Left)
	}
	for _, tick := range ticks.Ticks {
		x := a.X(tick.At)
		Box(&lines, x, AxisHeight-4, 1, bottom-AxisHeight+4)
		if room := a.Right - x; room > 30 {
			d.Text(x+3, 16, "small soft", tick.Label, room)
		}
	}
	d.Path("grid", lines.String())
}
