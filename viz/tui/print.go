package tui

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// Print writes the runs as text, so wide, on one axis, for logs and pipes.
// With o.At set it writes the rows and the window of that view. With o.Figure set it writes
// that Figure 11 of each run that has the workgroups, and names those without below; it is an error
// if none has them. There are no colours. Widths outside 1 to maxColumns become the nearest
// of them.
func Print(w io.Writer, views []layout.View, width int, o Options) error {
	width = max(1, min(width, maxColumns))
	out := bufio.NewWriter(w)
	if o.Figure != nil {
		if err := o.figures(out, views, width); err != nil {
			return err
		}
		return out.Flush()
	}
	if o.At != (layout.Address{}) {
		o.print(out, newModel(views, o).page(), width)
		return out.Flush()
	}
	t := o.First
	if t == nil || len(views) > 1 {
		t = layout.New(views)
	}
	bounds := t.Bounds()
	window := opening(views, bounds)
	o.print(out, newPage(t, &window, bounds), width)
	return out.Flush()
}

// maxColumns bounds the memory that printing takes.
const maxColumns = 10_000

// figures writes the figure of each run that has one, then which runs have none; it is an error if none has.
func (o Options) figures(out *bufio.Writer, views []layout.View, width int) error {
	var without []string
	var first error
	drawn := false
	for _, v := range views {
		t, err := layout.Figure11(v, *o.Figure)
		if err != nil {
			without, first = append(without, clean(nameOf(v))), cmp.Or(first, fmt.Errorf("%s: %w", clean(nameOf(v)), err))
			continue
		}
		if drawn {
			fmt.Fprintln(out)
		}
		drawn = true
		fmt.Fprint(out, folded(clean(nameOf(v))+": "+clean(t.Title), width))
		window := t.Bounds()
		o.print(out, newPage(t, &window, window), width)
	}
	if !drawn {
		return first
	}
	if len(without) > 0 {
		fmt.Fprint(out, folded("without workgroups: "+strings.Join(without, "; "), width))
	}
	return nil
}

// folded is a text in lines so wide, broken between words where that is possible.
func folded(text string, width int) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+size > width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += size
	}
	out.WriteByte('\n')
	return out.String()
}

// legendLines is how many lines of legend Print writes at most.
const legendLines = 3

// print writes the axis, the rows of a page, and a legend.
func (o Options) print(out *bufio.Writer, p *page, width int) {
	m := &model{theme: theme{ascii: o.ASCII}, panels: panels{marks: true}, area: area{width: width, height: len(p.visible) + 1 + legendLines}}
	p.cursor, p.top = -1, 0
	var cells tcell.CellBuffer
	cells.Resize(m.width, m.height)
	c := canvas{&cells, m.theme}
	r := regions{width: width, labels: min(p.labels, width*2/5, 36), sums: p.sums(width), rows: region{1, len(p.visible)}}
	m.markKinds = m.shownMarks(p, r)
	m.drawAxis(c, p, r)
	m.drawRows(c, p, r)
	c.legend(p, len(p.visible)+1, width, legendLines, m.markKinds)
	for y := range m.height {
		if text := textLine(&cells, y); text != "" || y <= len(p.visible) {
			fmt.Fprintln(out, text)
		}
	}
}

// textLine is a line of cells as text, without the blanks at its end.
func textLine(cells *tcell.CellBuffer, y int) string {
	var out strings.Builder
	columns, _ := cells.Size()
	for x := 0; x < columns; {
		s, _, wide := cells.Get(x, y)
		out.WriteString(s)
		x += max(1, wide)
	}
	return strings.TrimRight(out.String(), " ")
}
