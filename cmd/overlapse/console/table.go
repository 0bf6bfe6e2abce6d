package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	words "github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// fittingTable is a table whose cells cannot break a line, and which is no wider than the
// terminal: long texts are cut, the last column and headers wrap, and columns for which
// there is no room are left out. Columns in which every cell is empty or zero are left out
// too. Times of a column (cells of type trace.Time) have one unit, which its header names.
type fittingTable struct {
	table.Writer
	columns []string
	rows    []table.Row
	width   int  // of the terminal; 0: no limit
	oneUnit bool // for the times of all columns: the header of the first names it
}

// OneUnit makes all columns of a table show times in one unit, so that they can be compared.
func OneUnit(t table.Writer) { t.(*fittingTable).oneUnit = true }

// AppendRow implements table.Writer. The cells of a row are as many as the columns.
func (f *fittingTable) AppendRow(row table.Row, _ ...table.RowConfig) {
	for i, cell := range row {
		if s, ok := cell.(string); ok {
			row[i] = plain.Line(s)
		}
	}
	f.rows = append(f.rows, row)
}

// Render implements table.Writer.
func (f *fittingTable) Render() string {
	f.prepare()
	return f.Writer.Render()
}

// RenderMarkdown implements table.Writer.
func (f *fittingTable) RenderMarkdown() string {
	for _, row := range f.rows {
		for i, cell := range row {
			if s, ok := cell.(string); ok {
				row[i] = words.Markdown(s)
			}
		}
	}
	f.prepare()
	return f.Writer.RenderMarkdown()
}

// prepare gives the rows to the writer.
func (f *fittingTable) prepare() {
	var header table.Row
	var columns []string
	var cells []int // the longest cell of each column
	var configs []table.ColumnConfig
	named := false
	rows := make([]table.Row, len(f.rows))
	for i, name := range f.columns {
		if len(f.rows) > 0 && f.vacant(i) {
			continue
		}
		unit, timed := f.unitOf(i)
		if timed && !named {
			name += ", " + unit.Name
			named = f.oneUnit
		}
		longest, numbers := 0, true
		for j, row := range f.rows {
			cell := row[i]
			if t, ok := cell.(trace.Time); ok {
				cell = unit.Number(t)
			}
			rows[j] = append(rows[j], cell)
			written := fmt.Sprint(cell)
			numbers = numbers && isNumber(written)
			longest = max(longest, text.LongestLineLen(written))
		}
		c := table.ColumnConfig{Number: len(columns) + 1}
		if numbers {
			c.Align, c.AlignHeader = text.AlignRight, text.AlignRight
		}
		header, columns, cells, configs = append(header, name), append(columns, name), append(cells, longest), append(configs, c)
	}
	if f.width > 0 {
		var hidden []string
		for i, w := range fitColumns(columns, cells, f.width) {
			c := &configs[i]
			c.WidthMax, c.WidthMaxEnforcer, c.Hidden = w, cut, w == 0
			if i == len(columns)-1 || w >= cells[i] {
				c.WidthMaxEnforcer = text.WrapSoft
			}
			if c.Hidden {
				hidden = append(hidden, columns[i])
			}
		}
		if len(hidden) > 0 {
			f.SetCaption("--wide adds: %s", strings.Join(hidden, ", "))
		}
	}
	f.SetColumnConfigs(configs)
	f.AppendHeader(header)
	f.AppendRows(rows)
}

// vacant reports whether all cells of a column are empty or zero.
func (f *fittingTable) vacant(column int) bool {
	return !slices.ContainsFunc(f.rows, func(row table.Row) bool {
		cell := row[column]
		return cell != nil && cell != "" && cell != 0 && cell != trace.Time(0)
	})
}

// unitOf is the unit of a column with times.
func (f *fittingTable) unitOf(column int) (unit words.Unit, timed bool) {
	var times []trace.Time
	for _, row := range f.rows {
		for i, cell := range row {
			if t, ok := cell.(trace.Time); ok && (i == column || f.oneUnit) {
				times, timed = append(times, t), timed || i == column
			}
		}
	}
	return words.UnitOf(times...), timed
}

// isNumber reports whether a cell is a number, a percentage, or no value.
func isNumber(cell string) bool {
	cell = strings.TrimSuffix(strings.TrimLeft(cell, "<>"), " %")
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil || cell == "" || cell == "-"
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
