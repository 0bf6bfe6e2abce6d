package svg

import (
	"math"
	"strings"
)

// A Chart is horizontal bars, each a stack of parts of the same units.
type Chart struct {
	Title, Desc string
	Parts       []Part
	Bars        []Bar
	Mark        float64              // a line across all bars; 0: none
	Write       func(float64) string // a value with its unit
	Tick        func(float64) string // a value of the axis; nil: Write
	Legend      bool                 // name the parts below the axis
	Width       float64              // px; 0: 1200
}

// A Part is one colour of the bars, "#rrggbb".
type Part struct{ Name, Color string }

// A Bar is one line of a chart.
type Bar struct {
	Name, Under string // Under is printed smaller below the name; may be ""
	Values      []float64
	Note        string // printed behind the bar
	Faint       bool   // a bound, not a result
}

const barHeight, barLine = 22.0, 38.0

// Bars draws a chart.
func Bars(c Chart) *Drawing {
	width := c.Width
	if width == 0 {
		width = 1200
	}
	d := New(c.Title, c.Desc, width)
	most, label, note := c.Mark, 60.0, 60.0
	for _, b := range c.Bars {
		most = max(most, sum(b.Values))
		label = max(label, textWidth(b.Name, "bold"), textWidth(b.Under, "small"))
		note = max(note, textWidth(b.Note, ""))
	}
	label, note = min(label, width*0.28), min(note, width*0.4)
	left, right := label+14, width-note-12
	bottom := barLine * float64(len(c.Bars))
	x := func(v float64) float64 { return left + v*(right-left)/max(most, math.SmallestNonzeroFloat64) }
	c.ticks(d, x, most, bottom)
	for i, b := range c.Bars {
		c.bar(d, b, x, barLine*float64(i), left)
	}
	if c.Mark > 0 {
		var dashes strings.Builder
		for y := 0.0; y < bottom; y += 7 {
			box(&dashes, x(c.Mark)-0.5, y, 1, min(4, bottom-y))
		}
		d.Path("ink", dashes.String())
	}
	for i, b := range c.Bars { // above the line
		at, middle := x(sum(b.Values))+6, barLine*(float64(i)+0.5)
		d.Rect(at-3, middle-9, min(note, textWidth(b.Note, ""))+6, 18, "paper", "")
		d.Text(at, middle+4, "", b.Note, note)
	}
	d.height = bottom + 22
	if c.Legend {
		d.legend(left, bottom+40, right, c.Parts)
	}
	return d
}

func (c *Chart) ticks(d *Drawing, x func(float64) float64, most, bottom float64) {
	step, write := niceStep(most, 6), c.Tick
	if write == nil {
		write = c.Write
	}
	var lines strings.Builder
	for i := 0; step > 0 && float64(i)*step <= most*1.0001; i++ {
		v := float64(i) * step
		box(&lines, x(v), 0, 1, bottom)
		d.Text(x(v), bottom+15, "small soft mid", write(v), 0)
	}
	d.Path("grid", lines.String())
}

func (c *Chart) bar(d *Drawing, b Bar, x func(float64) float64, top, left float64) {
	middle := top + barLine/2
	if b.Under == "" {
		d.Text(left-10, middle+4, "bold end", b.Name, left-12)
	} else {
		d.Text(left-10, middle-3, "bold end", b.Name, left-12)
		d.Text(left-10, middle+11, "small soft end", b.Under, left-12)
	}
	if b.Faint {
		d.Open(0.5)
	}
	at := 0.0
	for i, v := range b.Values {
		if v > 0 {
			d.Rect(x(at), middle-barHeight/2, x(at+v)-x(at), barHeight, c.Parts[i].Color, strings.TrimSpace(b.Name+" "+b.Under)+": "+c.Parts[i].Name+" "+c.Write(v))
			at += v
		}
	}
	if b.Faint {
		d.Close()
	}
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// niceStep is 1, 2 or 5 times a power of ten such that at most most steps fit up to a value.
func niceStep(to float64, most int) float64 {
	if to <= 0 || math.IsInf(to, 0) || math.IsNaN(to) {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(to/float64(most))))
	for _, m := range []float64{1, 2, 5, 10} {
		if to <= m*power*float64(most) {
			return m * power
		}
	}
	return 10 * power
}
