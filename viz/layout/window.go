package layout

import (
	"math"
	"math/bits"

	"github.com/overlapse/overlapse/trace"
)

// A Window is the part of the axis that is shown: [From, To), never empty.
type Window struct{ From, To trace.Time }

// Len is how much time the window shows.
func (w Window) Len() trace.Time { return w.To - w.From }

// Edge is the left edge of cell i when the window is cut into so many cells,
// rounded down; Edge(cells, cells) is To.
func (w Window) Edge(i, cells int) trace.Time {
	hi, lo := bits.Mul64(uint64(w.Len()), uint64(i))
	q, _ := bits.Div64(hi, lo, uint64(cells))
	return w.From + trace.Time(q)
}

// Cell is the cell that shows the time, the first if several share its
// nanosecond; it is negative or at least cells for a time outside the window.
func (w Window) Cell(at trace.Time, cells int) int {
	if at < w.From {
		return -1
	}
	if at >= w.To {
		return cells
	}
	hi, lo := bits.Mul64(uint64(at-w.From), uint64(cells))
	q, _ := bits.Div64(hi, lo, uint64(w.Len()))
	i := int(q)
	for i+1 < cells && w.Edge(i+1, cells) <= at { // Edge rounds down
		i++
	}
	for i > 0 && w.Edge(i-1, cells) == w.Edge(i, cells) {
		i--
	}
	return i
}

// Zoom changes the length by the factor (below 1: closer) such that the time
// stays where it is in the window. It stays inside bounds and shows at least
// shortest.
func (w Window) Zoom(factor float64, around trace.Time, bounds Window, shortest trace.Time) Window {
	length := trace.Time(math.Round(min(float64(w.Len())*factor, float64(bounds.Len()))))
	length = min(max(length, shortest, 1), bounds.Len())
	left := float64(around-w.From) / float64(w.Len())
	from := around - trace.Time(math.Round(left*float64(length)))
	return Window{from, from + length}.inside(bounds)
}

// Pan moves the window by a time, inside bounds.
func (w Window) Pan(by trace.Time, bounds Window) Window {
	by = max(-bounds.Len(), min(by, bounds.Len())) // further is outside anyway, and may overflow
	return Window{w.From + by, w.To + by}.inside(bounds)
}

// inside shifts the window into bounds, and cuts it only if it is longer.
func (w Window) inside(bounds Window) Window {
	if w.Len() >= bounds.Len() {
		return bounds
	}
	if w.From < bounds.From {
		return Window{bounds.From, bounds.From + w.Len()}
	}
	if w.To > bounds.To {
		return Window{bounds.To - w.Len(), bounds.To}
	}
	return w
}

// Bounds is the window that shows the whole axis, of a Figure 11 until the slowest rank's end.
func (t *Timeline) Bounds() Window { return Window{t.Start, t.End + t.late} }
