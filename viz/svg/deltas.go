package svg

import (
	"math"
	"strings"
)

// Deltas are differences of one quantity, drawn from zero: increases to the right.
type Deltas struct {
	Title, Desc string
	Rows        []Delta
	Write       func(float64) string // a difference with its sign and unit
	Width       float64              // px; 0: 1200
}

// A Delta is one line.
type Delta struct {
	Name  string
	Value float64
}

const deltaHeight = 20.0

// The colours of differences are told apart by their sides too.
const more, less = "#d55e00", "#009e73"

// Differences draws differences, one line each.
func Differences(c Deltas) *Drawing {
	width := c.Width
	if width == 0 {
		width = 1200
	}
	label, note, low, high := 60.0, 0.0, 0.0, 0.0
	for _, r := range c.Rows {
		label = max(label, TextWidth(r.Name, "small")+2)
		note = max(note, TextWidth(c.Write(r.Value), "small")+8)
		low, high = min(low, r.Value), max(high, r.Value)
	}
	label = min(label, 0.35*width)
	left, right := label+14+note, width-note-6
	if low >= 0 { // no bar needs room on the left of zero
		left = label + 14
	}
	if high <= 0 {
		right = width - 10
	}
	scale := (right - left) / max(high-low, math.SmallestNonzeroFloat64)
	if high == low {
		scale = 0
	}
	zero := left - low*scale
	d := New(c.Title, c.Desc, width)
	d.Height = deltaHeight*float64(len(c.Rows)) + 4
	d.Rect(zero-0.5, 0, 1, d.Height, "line", "")
	for i, r := range c.Rows {
		top := deltaHeight * float64(i)
		d.Text(label, top+14, "small end", r.Name, label)
		text, size := c.Write(r.Value), math.Abs(r.Value)*scale
		if r.Value < 0 {
			d.Rect(zero-size, top+3, size, deltaHeight-6, less, r.Name+": "+text)
			d.Text(zero-size-4, top+14, "small soft end", text, 0)
			continue
		}
		d.Rect(zero, top+3, size, deltaHeight-6, more, r.Name+": "+text)
		d.Text(zero+size+4, top+14, "small soft", text, 0)
	}
	return d
}

// Describe lists the lines in words.
func (c *Deltas) Describe() string {
	var words []string
	for _, r := range c.Rows {
		words = append(words, r.Name+" "+c.Write(r.Value))
	}
	return strings.Join(words, "; ")
}
