package svg

import (
	"fmt"
	"math"
)

// Heat is a table of values in colours from low to high.
type Heat struct {
	Title, Desc   string
	Across, Down  string // names of the axes
	Columns, Rows []string
	Values        [][]float64 // by row, then column; NaN: none
	Width         float64     // px; 0: 1200
}

const cellHeight = 26.0

// The colours of the lowest and the highest value, mixed in between, light enough for black text.
var low, high = [3]float64{0x3a, 0xb5, 0x8f}, [3]float64{0xe0, 0x84, 0x40}

// HeatMap draws a heat map.
func HeatMap(h Heat) *Drawing {
	width := h.Width
	if width == 0 {
		width = 1200
	}
	label := textWidth(h.Down, "small")
	for _, r := range h.Rows {
		label = max(label, textWidth(r, "small"))
	}
	label = min(label, 0.3*width)
	left := label + 14
	cell := min((width-left)/max(1, float64(len(h.Columns))), 160)
	least, most := math.Inf(1), math.Inf(-1)
	for _, row := range h.Values {
		for _, v := range row {
			if !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	d := New(h.Title, h.Desc, width)
	d.Text(left, 14, "small soft", h.Across, width-left)
	d.Text(label, 34, "small soft end", h.Down, label)
	for i, c := range h.Columns {
		d.Text(left+cell*(float64(i)+0.5), 34, "small mid", c, cell-4)
	}
	const top = 42
	for i, r := range h.Rows {
		y := top + cellHeight*float64(i)
		d.Text(label, y+17, "small end", r, label)
		for k, v := range h.Values[i] {
			if math.IsNaN(v) {
				continue
			}
			share := 0.0
			if most > least {
				share = (v - least) / (most - least)
			}
			x := left + cell*float64(k)
			d.Rect(x, y, cell-1, cellHeight-1, mixed(share), fmt.Sprintf("%s %s, %s %s: %s", h.Down, r, h.Across, h.Columns[k], Value(v, "")))
			d.Text(x+cell/2, y+17, "small mid dark", Value(v, ""), cell-2)
		}
	}
	d.height = top + cellHeight*float64(len(h.Rows)) + 4
	return d
}

// mixed is a colour between low and high.
func mixed(share float64) string {
	var c [3]int
	for i := range c {
		c[i] = int(math.Round(low[i] + share*(high[i]-low[i])))
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2])
}
