package svg

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A Graph is quantities over one time axis, a row each, in groups.
type Graph struct {
	Title, Desc string
	Groups      []Group
	From, To    trace.Time // of the axis
	Width       float64    // px; 0: 1200
}

// A Group is rows under a heading.
type Group struct {
	Name string
	Rows []Quantity
}

// A Quantity is a value over time.
type Quantity struct {
	Name   string
	Color  string  // "#rrggbb"
	Most   float64 // the value at full height, of all rows that are to be compared
	Unit   string  // "%", "GB/s"
	Points []Point // by time; each holds until the next
}

// A Point is a value from a time on.
type Point struct {
	At    trace.Time
	Value float64
}

const graphHeight, graphGap = 30.0, 6.0

// Rows draws a graph.
func Rows(g Graph) *Drawing {
	width := g.Width
	if width == 0 {
		width = 1200
	}
	d, axis := New(g.Title, g.Desc, width), NewAxis(g.From, g.To, width)
	bottom := AxisHeight
	for _, group := range g.Groups {
		bottom += HeaderHeight + float64(len(group.Rows))*(graphHeight+graphGap)
	}
	axis.Draw(d, bottom)
	y := AxisHeight
	for _, group := range g.Groups {
		d.Rect(0, y, width, HeaderHeight-4, "panel", "")
		d.Text(8, y+14, "bold", group.Name, axis.Right)
		y += HeaderHeight
		for _, q := range group.Rows {
			q.draw(d, axis, y)
			y += graphHeight + graphGap
		}
	}
	d.Height = bottom + 4
	return d
}

// draw draws a row as an area.
func (q *Quantity) draw(d *Drawing, axis Axis, top float64) {
	base := top + graphHeight
	d.Text(axis.Left-8, top+14, "small end", q.Name, axis.Left-14)
	d.Text(axis.Left-8, base-2, "small soft end", fmt.Sprintf("0 to %s", Value(q.Most, q.Unit)), axis.Left-14)
	d.Rect(axis.Left, base, axis.Right-axis.Left, 1, "line", "")
	var path strings.Builder
	open := false
	for i, point := range q.Points {
		to := axis.To
		if i+1 < len(q.Points) {
			to = q.Points[i+1].At
		}
		x0, x1 := axis.Span(point.At, to)
		if x1 <= x0 {
			continue
		}
		h := 0.0
		if q.Most > 0 {
			h = min(max(point.Value/q.Most, 0), 1) * graphHeight
		}
		switch {
		case h == 0 && open:
			path.WriteString("V" + Num(base) + "z")
			open = false
		case h > 0 && !open:
			path.WriteString("M" + Num(x0) + " " + Num(base) + "V" + Num(base-h) + "H" + Num(x1))
			open = true
		case h > 0:
			path.WriteString("V" + Num(base-h) + "H" + Num(x1))
		}
	}
	if open {
		path.WriteString("V" + Num(base) + "z")
	}
	d.Path(q.Color, path.String())
}

// Value writes a value with three digits and its unit.
func Value(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(text + " " + unit)
}
