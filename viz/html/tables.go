package html

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// cells is a Table as page.html lays it out.
type cells struct {
	Title, Note string
	Columns     []Column
	Cells       [][]cell
	Drawing     template.HTML
	Chart       *Chart
	Nth         int // of the page's charts
	Folded      bool
}

type cell struct{ Text, Class string }

func (t Table) cells() cells {
	c := cells{Title: t.Title, Note: t.Note, Columns: t.Columns, Folded: t.Folded}
	if t.Drawing != nil {
		c.Drawing = template.HTML(t.Drawing.Inline())
	}
	for _, row := range t.Rows {
		line := make([]cell, len(row))
		for i, text := range row {
			line[i].Text = text
			if i < len(t.Columns) && t.Columns[i].Number {
				line[i].Class = "number"
			}
		}
		c.Cells = append(c.Cells, line)
	}
	return c
}

// strategyCells holds every number of the bars.
func (r Report) strategyCells() *cells {
	if len(r.Strategies) == 0 {
		return nil
	}
	c := &cells{Columns: []Column{{"strategy", false}}}
	if r.Base != "" {
		c.Columns[0].Name = "run"
	}
	if r.parametrized() {
		c.Columns = append(c.Columns, Column{"parameters", false})
	}
	c.Columns = append(c.Columns, Column{"time", true})
	if r.Captured > 0 {
		c.Columns = append(c.Columns, Column{"against " + cmp.Or(r.Base, "captured"), true})
	}
	if r.chances() {
		c.Columns = append(c.Columns, Column{"likely", true})
	}
	for _, s := range r.columns() {
		c.Columns = append(c.Columns, Column{s.Name, true})
	}
	if r.noted() {
		c.Columns = append(c.Columns, Column{"time breakdown", false})
	}
	for _, b := range r.Strategies {
		c.Cells = append(c.Cells, r.strategyRow(b))
	}
	return c
}

func (r Report) strategyRow(b Bar) []cell {
	row := []cell{{b.Name, "name"}}
	if r.parametrized() {
		row = append(row, cell{b.Params, ""})
	}
	row = append(row, cell{duration(b.Time), "number"})
	if r.Captured > 0 {
		change := r.change(b.Time)
		if b.Error > 0 {
			change += fmt.Sprintf(" ± %.1f", 100*b.Error)
		}
		row = append(row, cell{change, "number" + r.mood(b)})
	}
	if r.chances() {
		row = append(row, cell{b.Chance, "number"})
	}
	for _, s := range r.columns() {
		row = append(row, cell{duration(s.of(b.Times)), "number"})
	}
	if !r.noted() {
		return row
	}
	note := b.Note
	if b.Bound {
		note = "a bound, no schedule need reach it"
	}
	return append(row, cell{note, "prose"})
}

// columns are the states, and what of the transfers compute hides.
func (r Report) columns() []state {
	return append(r.used(), state{Part{Name: "overlapped"}, func(t overlap.Times) trace.Time { return t.Hidden }})
}

func (r Report) chances() bool {
	return slices.ContainsFunc(r.Strategies, func(b Bar) bool { return b.Chance != "" })
}

func (r Report) parametrized() bool {
	return slices.ContainsFunc(r.Strategies, func(b Bar) bool { return b.Params != "" })
}

func (r Report) noted() bool {
	return slices.ContainsFunc(r.Strategies, func(b Bar) bool { return b.Note != "" || b.Bound })
}

// mood is the class of a change that its error does not hide.
func (r Report) mood(b Bar) string {
	change := float64(b.Time)/float64(max(1, r.Captured)) - 1
	switch least := max(0.005, b.Error); {
	case b.Time <= 0 || b.Bound:
		return ""
	case change < -least:
		return " good"
	case change > least:
		return " bad"
	}
	return ""
}

func duration(t trace.Time) string {
	if t <= 0 {
		return "–"
	}
	return layout.Short(t)
}
