package console

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/viz/plain"
)

// fittingTable is a table whose cells cannot break a line, and which is no wider than the
// terminal: long texts are cut, the last column and headers wrap, and columns for which
// there is no room are left out.
type fittingTable struct {
	table.Writer
	columns []string
	cells   []int // the longest cell of each column
	width   int   // of the terminal; 0: no limit
}

// AppendRow implements table.Writer.
func (f *fittingTable) AppendRow(row table.Row, configs ...table.RowConfig) {
	for i, cell := range row {
		if s, ok := cell.(string); ok {
			row[i] = plain.Line(s)
		}
		f.cells[i] = max(f.cells[i], text.LongestLineLen(fmt.Sprint(row[i])))
	}
	f.Writer.AppendRow(row, configs...)
}

// Render implements table.Writer.
func (f *fittingTable) Render() string {
	if f.width == 0 {
		return f.Writer.Render()
	}
	widths := fitColumns(f.columns, f.cells, f.width)
	var configs []table.ColumnConfig
	var hidden []string
	for i, w := range widths {
		c := table.ColumnConfig{Number: i + 1, WidthMax: w, WidthMaxEnforcer: cut, Hidden: w == 0}
		if i == len(widths)-1 || w >= f.cells[i] {
			c.WidthMaxEnforcer = text.WrapSoft
		}
		if c.Hidden {
			hidden = append(hidden, f.columns[i])
		}
		configs = append(configs, c)
	}
	f.SetColumnConfigs(configs)
	if len(hidden) > 0 {
		f.SetCaption("--wide adds: %s", strings.Join(hidden, ", "))
	}
	return f.Writer.Render()
}

// cut shortens a cell; headers, which have no longer words, wrap.
func cut(s string, width int) string {
	for _, word := range strings.Fields(s) {
		if text.LongestLineLen(word) > width {
			return text.Snip(s, width, "…")
		}
	}
	if text.LongestLineLen(s) > 2*width {
		return text.Snip(s, width, "…")
	}
	return text.WrapSoft(s, width)
}

// The least widths of a column of text that is cut, and of the last column, which wraps.
const (
	leastText = 14
	leastLast = 24
)

// fitColumns divides the width of a terminal among columns, given the longest cell of
// each. A column that gets 0 is left out: the last ones but one first.
func fitColumns(headers []string, cells []int, width int) []int {
	n := len(headers)
	natural, least := make([]int, n), make([]int, n)
	for i, h := range headers {
		word := 1
		for _, w := range strings.Fields(h) {
			word = max(word, text.LongestLineLen(w))
		}
		natural[i] = max(cells[i], text.LongestLineLen(h))
		least[i] = max(word, min(cells[i], leastText))
		if i == n-1 {
			least[i] = max(word, min(cells[i], leastLast))
		}
	}
	for last := n - 2; last > 0 && total(least) > width; last-- {
		natural[last], least[last] = 0, 0
	}
	if over := total(least) - width; over > 0 {
		least[n-1] = max(4, least[n-1]-over)
	}
	for total(natural) > width {
		at := 0
		for i := range natural { // the one that can give most
			if natural[i]-least[i] > natural[at]-least[at] {
				at = i
			}
		}
		if natural[at] == least[at] {
			break
		}
		natural[at]--
	}
	return natural
}

// total is the width of a table without borders: a blank on each side of each column.
func total(widths []int) (sum int) {
	for _, w := range widths {
		if w > 0 {
			sum += w + 2
		}
	}
	return sum
}

// AtMost calls add for the first rows, and says how many are left out; top 0 is all.
func (c *Console) AtMost(t table.Writer, rows, top int, add func(i int)) {
	shown := rows
	if top > 0 && rows > top+1 { // a line for one more is no shorter
		shown = top
	}
	for i := range shown {
		add(i)
	}
	t.Render()
	if shown < rows {
		fmt.Fprintf(c.Out, " and %d more (--top 0 lists all)\n", rows-shown)
	}
}
