package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/viz/html"
)

// A Table is rows under named columns: one description for the terminal, Markdown and HTML. A
// cell is text, a number or a trace.Time. Columns in which every cell is empty or zero are left
// out. Times of a column have one unit, which its header names.
type Table struct {
	Title   string // above it
	Note    string // on a page, what it shows
	Columns []string
	Rows    [][]any
	OneUnit bool // for the times of all columns: the header of the first names it
	Top     int  // rows to print; 0: all
}

// Add adds a row. Cells beyond the columns are left out.
func (t *Table) Add(cells ...any) {
	cells = cells[:min(len(cells), len(t.Columns))]
	for i, cell := range cells {
		if s, ok := cell.(string); ok {
			cells[i] = guard.Line(s)
		}
	}
	t.Rows = append(t.Rows, cells)
}

// shown is a table as it is written.
type shown struct {
	header []string
	rows   [][]string
	number []bool // by column
	left   int    // rows that are not shown
}

// shown writes the cells; text writes those that are text.
func (t *Table) shown(text func(string) string) shown {
	out := shown{}
	all := t.Rows
	if t.Top > 0 && len(all) > t.Top+1 { // a line for one more is no shorter
		all, out.left = all[:t.Top], len(all)-t.Top
	}
	out.rows = make([][]string, len(all))
	named := false
	for i, name := range t.Columns {
		if len(all) > 0 && vacant(all, i) {
			continue
		}
		unit, timed := t.unitOf(all, i)
		if timed && !named {
			name += ", " + unit.Name
			named = t.OneUnit
		}
		numbers := true
		for j, row := range all {
			var written string
			switch cell := row[i].(type) {
			case nil:
			case trace.Time:
				written = unit.Number(cell)
			case string:
				written = text(cell)
			default:
				written = fmt.Sprint(cell)
			}
			numbers = numbers && isNumber(written)
			out.rows[j] = append(out.rows[j], written)
		}
		out.header, out.number = append(out.header, name), append(out.number, numbers)
	}
	return out
}

// writer gives the rows to go-pretty.
func (s *shown) writer() (table.Writer, []table.ColumnConfig) {
	w := table.NewWriter()
	row := func(cells []string) (r table.Row) {
		for _, c := range cells {
			r = append(r, c)
		}
		return r
	}
	w.AppendHeader(row(s.header))
	for _, cells := range s.rows {
		w.AppendRow(row(cells))
	}
	configs := make([]table.ColumnConfig, len(s.header))
	for i := range configs {
		configs[i].Number = i + 1
		if s.number[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	w.SetColumnConfigs(configs)
	return w, configs
}

// Show prints a table below its title, no wider than the terminal: long texts are cut, the last
// column and headers wrap, and columns for which there is no room are left out.
func (c *Console) Show(t *Table) {
	if t.Title != "" {
		fmt.Fprintf(c.Out, "\n%s\n", guard.Line(t.Title))
	}
	s := t.shown(func(s string) string { return s })
	w, configs := s.writer()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	if c.Width > 0 && !c.Wide {
		s.fit(w, configs, c.Width)
	}
	w.SetOutputMirror(c.Out)
	w.Render()
	if s.left > 0 {
		fmt.Fprintf(c.Out, " and %d more (--top 0 lists all)\n", s.left)
	}
}

// fit makes a table no wider than a width.
func (s *shown) fit(w table.Writer, configs []table.ColumnConfig, width int) {
	longest := make([]int, len(s.header))
	for _, row := range s.rows {
		for i, cell := range row {
			longest[i] = max(longest[i], text.LongestLineLen(cell))
		}
	}
	var hidden []string
	for i, room := range fitColumns(s.header, longest, width) {
		c := &configs[i]
		c.WidthMax, c.WidthMaxEnforcer, c.Hidden = room, cut, room == 0
		if i == len(configs)-1 || room >= longest[i] {
			c.WidthMaxEnforcer = text.WrapSoft
		}
		if c.Hidden {
			hidden = append(hidden, s.header[i])
		}
	}
	if len(hidden) > 0 {
		w.SetCaption("--wide adds: %s", strings.Join(hidden, ", "))
	}
	w.SetColumnConfigs(configs)
}

// Markdown is the table in Markdown. Names of traces are no markup.
func (t *Table) Markdown() string {
	s := t.shown(Markdown)
	w, _ := s.writer()
	md := w.RenderMarkdown()
	if s.left > 0 {
		md += fmt.Sprintf("\n\nand %d more", s.left)
	}
	return md
}

// HTML is the table of a page, which is folded.
func (t *Table) HTML() html.Table {
	s := t.shown(func(s string) string { return s })
	page := html.Table{Title: t.Title, Note: t.Note, Rows: s.rows, Folded: true}
	if t.Title != "" {
		page.Title = strings.ToUpper(t.Title[:1]) + t.Title[1:]
	}
	for i, name := range s.header {
		page.Columns = append(page.Columns, html.Column{Name: name, Number: s.number[i]})
	}
	if s.left > 0 {
		page.Note = strings.TrimSpace(fmt.Sprintf("%s %d of %d rows (--top 0 has all).", t.Note, len(s.rows), len(t.Rows)))
	}
	return page
}

// vacant reports whether all cells of a column are empty or zero.
func vacant(rows [][]any, column int) bool {
	return !slices.ContainsFunc(rows, func(row []any) bool {
		cell := row[column]
		return cell != nil && cell != "" && cell != 0 && cell != trace.Time(0)
	})
}

// unitOf is the unit of a column with times.
func (t *Table) unitOf(rows [][]any, column int) (unit Unit, timed bool) {
	var times []trace.Time
	for _, row := range rows {
		for i, cell := range row {
			if at, ok := cell.(trace.Time); ok && (i == column || t.OneUnit) {
				times, timed = append(times, at), timed || i == column
			}
		}
	}
	return UnitOf(times...), timed
}

// isNumber reports whether a cell is a number, a percentage, or no value.
func isNumber(cell string) bool {
	cell = strings.TrimSuffix(strings.TrimLeft(cell, "<>"), " %")
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil || cell == "" || cell == "-" || cell == "?"
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
