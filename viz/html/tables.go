package html

// cells is a Table as page.html lays it out.
type cells struct {
	Title, Note string
	Columns     []Column
	Cells       [][]cell
	Chart       *Chart
	Nth         int // of the page's charts
	Folded      bool
}

type cell struct{ Text, Class string }

func (t Table) cells() cells {
	c := cells{Title: t.Title, Note: t.Note, Columns: t.Columns, Folded: t.Folded}
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
