package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// facts caches the facts of a selection.
type facts struct {
	page *page
	sel  selection
	list []layout.Fact
}

// collectFacts collects facts of the selected span, else of the gap under the pointer, else
// of the row under the cursor and the window.
func (m *model) collectFacts() (title string, list []layout.Fact) {
	p := m.page()
	row := p.row()
	switch {
	case row >= len(p.t.Rows):
		return "no lanes", nil
	case p.sel.span != trace.None:
		if m.facts.page != p || m.facts.sel != p.sel {
			m.facts = facts{p, p.sel, p.t.Facts(p.sel.row, p.sel.span)}
		}
		span := p.t.Span(p.sel.row, p.sel.span)
		list = m.facts.list
		if m.pinned != nil {
			from, _ := p.times(p.sel)
			list = append(list[:len(list):len(list)], layout.Fact{Name: "since mark", Value: layout.Exact(from - *m.pinned)})
		}
		return p.t.Run(p.sel.row).NameOf(span), list
	case p.pointed != nil:
		for _, g := range p.t.Stalls(row) {
			if g.Start <= *p.pointed && *p.pointed < g.End {
				return "idle: " + g.Cause, []layout.Fact{
					{Name: "duration", Value: layout.Exact(g.End - g.Start)},
					{Name: "start", Value: layout.Exact(g.Start)},
					{Name: "waits for", Value: g.Note},
				}
			}
		}
	}
	return p.t.Rows[row].Label, rowFacts(p, row)
}

// rowFacts is the time of each class of a row in the window.
func rowFacts(p *page, row int) []layout.Fact {
	tally := p.t.Tally(row, p.window.From, p.window.To)
	lanes := p.t.Rows[row].Lanes
	list := []layout.Fact{{Name: "spans in view", Value: strconv.Itoa(tally.Hits)}}
	if lanes > 1 {
		list = append(list, layout.Fact{Name: "lanes", Value: strconv.Itoa(lanes)})
	}
	for _, gap := range p.t.Rows[row].Largest {
		list = append(list, layout.Fact{Name: "large gap", Value: gap.String()})
	}
	whole := float64(p.window.Len()) * float64(lanes)
	for _, c := range layout.Classes() {
		if d := tally.Time[c]; d > 0 {
			list = append(list, layout.Fact{Name: p.t.ClassName(row, c), Value: fmt.Sprintf("%s, %.1f %%", layout.Short(d), 100*float64(d)/whole)})
		}
	}
	if l := p.t.Rows[row].Lane; l != trace.None {
		r := p.t.Run(row)
		switch off := r.Ranks[r.Lanes[l].Rank].Uncertainty; off {
		case 0:
		case trace.None:
			list = append(list, layout.Fact{Name: "clock", Value: "± unknown"})
		default:
			list = append(list, layout.Fact{Name: "clock", Value: "± " + layout.Exact(off)})
		}
	}
	return list
}

// drawDetails lists facts in columns below a title.
func (m *model) drawDetails(c canvas, r regions) {
	title, list := m.collectFacts()
	if m.full {
		c.wrapped(r.details.y, r.details.h, r.width, clean(title))
		return
	}
	c.text(0, r.details.y, r.width, title, c.strong())
	lines := r.details.h - 1
	x := 0
	for i := 0; i < len(list) && lines > 0; i += lines {
		column := list[i:min(i+lines, len(list))]
		names, width, most := 0, 0, 48
		if i+lines >= len(list) {
			most = max(most, r.width-x) // the last column
		}
		for _, f := range column {
			names = max(names, utf8.RuneCountInString(f.Name))
		}
		for _, f := range column {
			width = max(width, min(names+2+utf8.RuneCountInString(clean(f.Value)), most))
		}
		for j, f := range column {
			y := r.details.y + 1 + j
			c.text(x, y, r.width, f.Name, c.faint())
			c.text(x+names+2, y, min(x+width, r.width), c.words(f.Value), c.plain())
		}
		x += width + 3
	}
}

// describe is the details as text, for the clipboard: safe to paste into a shell.
func (m *model) describe() string {
	title, list := m.collectFacts()
	var b strings.Builder
	fmt.Fprintln(&b, guard.Line(title))
	for _, f := range list {
		fmt.Fprintf(&b, "%s\t%s\n", f.Name, guard.Line(f.Value))
	}
	return b.String()
}

func (m *model) drawStatus(c canvas, p *page, r regions) {
	if m.prompt != nil {
		x := c.text(0, r.status.y, r.width-1, m.prompt.sign+m.prompt.text, c.plain())
		c.Put(x, r.status.y, " ", c.cursor())
		if m.prompt.sign == "/" && m.prompt.text != "" {
			c.text(x+3, r.status.y, r.width-1, p.named(m.prompt.text), c.faint())
		}
		return
	}
	if m.message != "" {
		c.text(0, r.status.y, r.width, c.words(m.message), c.strong())
		return
	}
	if len(p.filter.text) > 0 {
		c.text(0, r.status.y, r.width, "only "+strings.Join(p.filter.text, ", ")+"  (& and Enter: all)", c.strong())
		return
	}
	help := "? help  q quit  w/s zoom  a/d pan  Enter select  / search"
	if len(m.views) > 1 {
		help += "  Tab next  x compare"
	}
	if len(m.choices) > 0 {
		help += "  : strategies"
	}
	c.text(0, r.status.y, r.width, help, c.faint())
	if n := len(p.visible); n > r.rows.h {
		text := fmt.Sprintf(" row %d of %d", p.cursor+1, n)
		c.text(max(0, r.width-len(text)), r.status.y, r.width, text, c.faint())
	}
}

// helpWidth is how many columns a command takes in the help, helpKeys those of its keys.
const helpWidth, helpKeys = 50, 14

// A helpLine is a command in the help, or with bold alone the title of a group, or nothing.
type helpLine struct{ bold, plain string }

// helpColumns are the groups in columns of a height: a group that fits a column is in one.
func helpColumns(height int) (columns [][]helpLine) {
	var column []helpLine
	for _, g := range groups() {
		lines := []helpLine{{bold: g.title}}
		for _, b := range g.commands {
			keys := slices.DeleteFunc(slices.Clone(b.keys), func(key string) bool { // W does what w does
				small := strings.ToLower(key)
				return small != key && slices.Contains(b.keys, small)
			})
			lines = append(lines, helpLine{"  " + strings.Join(keys[:min(2, len(keys))], " "), b.help})
		}
		switch g.title {
		case "Time":
			lines = append(lines, helpLine{"  mouse", "wheel zooms, drag pans, click picks"})
		case "Runs":
			lines = append(lines, helpLine{"  1-9", "the run of that number"})
		}
		switch room := height - len(column); {
		case len(column) > 0 && room > len(lines):
			column = append(column, helpLine{})
		case len(column) > 0 && len(lines) <= height:
			columns, column = append(columns, column), nil
		}
		for _, l := range lines {
			if len(column) == height {
				columns, column = append(columns, column), nil
			}
			column = append(column, l)
		}
	}
	return append(columns, column)
}

// drawHelp lists the commands by task, a screen at a time.
func (m *model) drawHelp(c canvas) {
	columns := helpColumns(max(1, m.height-1))
	most := max(1, m.width/helpWidth)
	m.helpPages = (len(columns) + most - 1) / most
	first := min(m.helpPage*most, len(columns))
	width := max(1, m.width/min(most, len(columns)))
	for i, column := range columns[first:min(first+most, len(columns))] {
		x, limit := i*width, min((i+1)*width-1, m.width)
		for y, l := range column {
			c.text(x, y, limit, l.bold, c.strong())
			if l.plain != "" {
				c.text(x+min(helpKeys, width/3), y, limit, l.plain, c.plain())
			}
		}
	}
	text := "any key goes back"
	if m.helpPages > 1 {
		text = fmt.Sprintf("%d of %d: Space, j, k turn the page, others go back", m.helpPage+1, m.helpPages)
	}
	c.text(0, m.height-1, m.width, text, c.faint())
}

// helpKey turns a page of the help, or closes it.
func (m *model) helpKey(name string) {
	switch name {
	case "Space", "j", "Down", "PgDn":
		m.helpPage++
	case "k", "Up", "PgUp":
		m.helpPage = max(0, m.helpPage-1)
	default:
		m.help, m.helpPage = false, 0
	}
	if m.helpPage > 0 && m.helpPage >= m.helpPages {
		m.help, m.helpPage = false, 0
	}
}

// follow goes along the critical path if that is shown, else along an edge: from a call to what it launched and from a put or a kernel to
// what waited for its flag, or back.
func (m *model) follow(forward bool) {
	p := m.page()
	if m.critical {
		m.alongPath(forward)
		return
	}
	if p.sel.span == trace.None || p.t.Rows[p.sel.row].Strip {
		m.message = "select a call, a kernel or a wait first (Enter)"
		return
	}
	view := p.t.Rows[p.sel.row].View
	for _, to := range m.edgesOf(&p.t.Views[view]).ends(p.sel.span, forward) {
		if row := p.t.RowOf(view, to); row != trace.None {
			p.choose(selection{row, to})
			return
		}
	}
	m.message = "the run does not say what it waited for"
	if forward {
		m.message = "the run does not say what waited for it"
	}
}

// mostEdges bounds the memory that the edges of a run take.
const mostEdges = 1 << 20

// edges are what the spans of a run waited for.
type edges struct{ byFrom, byTo []overlap.Edge }

// edgesOf finds the edges of a run when they are first asked for.
func (m *model) edgesOf(v *layout.View) *edges {
	if e := m.edges[v.Run]; e != nil {
		return e
	}
	e := &edges{byTo: overlap.Edges(v.Run, v.Gaps, mostEdges)}
	e.byFrom = slices.Clone(e.byTo)
	slices.SortStableFunc(e.byFrom, func(a, b overlap.Edge) int { return cmp.Compare(a.From, b.From) })
	if m.edges == nil {
		m.edges = map[*trace.Run]*edges{}
	}
	m.edges[v.Run] = e
	return e
}

// ends are the other ends of a span's edges.
func (e *edges) ends(id trace.SpanID, forward bool) []trace.SpanID {
	list, here, there := e.byTo, func(x overlap.Edge) trace.SpanID { return x.To }, func(x overlap.Edge) trace.SpanID { return x.From }
	if forward {
		list, here, there = e.byFrom, there, here
	}
	at, _ := slices.BinarySearchFunc(list, id, func(x overlap.Edge, id trace.SpanID) int { return cmp.Compare(here(x), id) })
	var found []trace.SpanID
	for ; at < len(list) && here(list[at]) == id; at++ {
		found = append(found, there(list[at]))
	}
	return found
}
