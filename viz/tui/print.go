package tui

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// Print writes the runs as text, so wide, on one axis, for logs and pipes.
// With o.At set it writes the rows and the window of that view. With o.Figure set it writes
// that Figure 11 of each run that has the workgroups, and names those without; it is an error
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

func (o Options) figures(out *bufio.Writer, views []layout.View, width int) error {
	var first error
	found := false
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(out)
		}
		t, err := layout.Figure11(v, *o.Figure)
		if err != nil {
			err = fmt.Errorf("%s: %w", clean(nameOf(v)), err)
			fmt.Fprintln(out, err)
			first = cmp.Or(first, err)
			continue
		}
		found = true
		fmt.Fprintf(out, "%s: %s\n", clean(nameOf(v)), clean(t.Title))
		window := t.Bounds()
		o.print(out, newPage(t, &window, window), width)
	}
	if !found {
		return first
	}
	return nil
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
