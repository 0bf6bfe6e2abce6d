package svg

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
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
	p := &painter{window: layout.Window{From: g.From, To: max(g.To, g.From+1)}, left: labelWidth, width: 1200}
	if g.Width > 0 {
		p.width = g.Width
	}
	p.right = p.width - 10
	p.scale = (p.right - p.left) / float64(p.window.Len())
	p.d = New(g.Title, g.Desc, p.width)
	p.bottom = axisHeight
	for _, group := range g.Groups {
		p.bottom += headerHeight + float64(len(group.Rows))*(graphHeight+graphGap)
	}
	p.axis()
	y := axisHeight
	for _, group := range g.Groups {
		p.d.Rect(0, y, p.width, headerHeight-4, "panel", "")
		p.d.Text(8, y+14, "bold", group.Name, p.right)
		y += headerHeight
		for _, q := range group.Rows {
			p.quantity(q, y)
			y += graphHeight + graphGap
		}
	}
	p.d.height = p.bottom + 4
	return p.d
}

// quantity draws a row as an area.
func (p *painter) quantity(q Quantity, top float64) {
	base := top + graphHeight
	p.d.Text(p.left-8, top+14, "small end", q.Name, p.left-14)
	p.d.Text(p.left-8, base-2, "small soft end", fmt.Sprintf("0 to %s", Value(q.Most, q.Unit)), p.left-14)
	p.d.Rect(p.left, base, p.right-p.left, 1, "line", "")
	var path strings.Builder
	open := false
	for i, point := range q.Points {
		to := p.window.To
		if i+1 < len(q.Points) {
			to = q.Points[i+1].At
		}
		x0, x1 := max(p.x(point.At), p.left), min(p.x(to), p.right)
		if x1 <= x0 {
			continue
		}
		h := 0.0
		if q.Most > 0 {
			h = min(max(point.Value/q.Most, 0), 1) * graphHeight
		}
		switch {
		case h == 0 && open:
			path.WriteString("V" + num(base) + "z")
			open = false
		case h > 0 && !open:
			path.WriteString("M" + num(x0) + " " + num(base) + "V" + num(base-h) + "H" + num(x1))
			open = true
		case h > 0:
			path.WriteString("V" + num(base-h) + "H" + num(x1))
		}
	}
	if open {
		path.WriteString("V" + num(base) + "z")
	}
	p.d.Path(q.Color, path.String())
}

// Value writes a value with three digits and its unit.
func Value(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(text + " " + unit)
}
