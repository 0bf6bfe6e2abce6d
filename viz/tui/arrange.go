package tui

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// below are the rows directly below a heading, or those at the top, as they are ordered.
func (p *page) below(heading int) []int {
	if rows := p.order[heading]; rows != nil {
		return rows
	}
	first, after := 0, len(p.t.Rows)
	if heading != trace.None {
		first, after = heading+1, p.t.Rows[heading].After
	}
	var rows []int
	for i := first; i < after; i = p.t.Rows[i].After {
		rows = append(rows, i)
	}
	return rows
}

// setOrder orders the rows below a heading.
func (p *page) setOrder(heading int, rows []int) {
	if p.order == nil {
		p.order = map[int][]int{}
	}
	p.order[heading] = rows
}

// moveRow exchanges the row under the cursor with its neighbour that is shown.
func (m *Model) moveRow(by int) {
	p := m.page()
	if len(p.visible) == 0 {
		return
	}
	row := p.row()
	parent := p.t.Rows[row].Parent
	rows := slices.Clone(p.below(parent))
	at := slices.Index(rows, row)
	to := at + by
	for to >= 0 && to < len(rows) && !slices.Contains(p.visible, rows[to]) {
		to += by
	}
	if to < 0 || to >= len(rows) {
		m.message = "there is no row to exchange it with"
		return
	}
	rows[at], rows[to] = rows[to], rows[at]
	p.setOrder(parent, rows)
	p.refresh()
}

// sortRows sorts the rows of workgroups below every heading.
func (m *Model) sortRows(by string) {
	p, key := m.page(), layout.SortKey(strings.TrimSpace(by))
	if key == "" { // the next one
		at := slices.Index(layout.SortKeys(), p.sorted)
		key = layout.SortKeys()[(max(at, 0)+1)%len(layout.SortKeys())]
	}
	if !slices.Contains(layout.SortKeys(), key) {
		m.message = fmt.Sprintf("cannot sort by %q (by lane, cu, id or completion)", clean(string(key)))
		return
	}
	found := false
	for heading := range p.t.Rows {
		rows := p.below(heading)
		if len(rows) > 0 && p.t.OnWorkgroups(rows[0]) {
			p.setOrder(heading, p.t.Sorted(rows, key))
			found = true
		}
	}
	m.message = "workgroups by " + string(key)
	if !found {
		m.message = "there are no workgroups here (v)"
	}
	p.sorted = key
	p.refresh()
}

// pinRow shows the row under the cursor at the top as well, or no more.
func (m *Model) pinRow() {
	p := m.page()
	if len(p.visible) == 0 {
		return
	}
	if at := slices.Index(p.pins, p.row()); at >= 0 {
		p.pins = slices.Delete(p.pins, at, at+1)
		return
	}
	p.pins = append(p.pins, p.row())
}

// A filter leaves out rows, and time of other classes. The zero value leaves out nothing.
type filter struct {
	classes layout.ClassSet
	ranks   []int // ids; nil: all
	name    *regexp.Regexp
	text    []string // what was typed, by kind
}

// setFilterText reads "class compute,wait", "rank 0,2" or a regular expression for names,
// which may follow the word name. Filters of different kinds hold together; an empty text
// removes all.
func (m *Model) setFilterText(text string) {
	p := m.page()
	f := p.filter
	kind, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch kind {
	case "":
		f = filter{}
	case "class":
		f.classes = 0
		for _, word := range strings.Split(rest, ",") {
			at := slices.IndexFunc(p.classes, func(c layout.Class) bool { return strings.EqualFold(c.String(), strings.TrimSpace(word)) })
			if at < 0 {
				m.message = fmt.Sprintf("no class %q here (the legend lists them)", clean(word))
				return
			}
			f.classes = f.classes.With(p.classes[at])
		}
	case "rank":
		f.ranks = nil
		for _, word := range strings.Split(rest, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil {
				m.message = fmt.Sprintf("no rank %q", clean(word))
				return
			}
			f.ranks = append(f.ranks, n)
		}
	case "name":
		f.name = pattern(rest)
	default:
		kind, rest = "name", strings.TrimSpace(text)
		f.name = pattern(rest)
	}
	f.text = slices.DeleteFunc(slices.Clone(f.text), func(s string) bool { return strings.HasPrefix(s, kind+" ") })
	if kind != "" {
		f.text = append(f.text, kind+" "+rest)
	}
	was := p.filter
	if p.setFilter(f); len(p.visible) == 0 {
		p.setFilter(was)
		m.message = fmt.Sprintf("no row has %s", clean(text))
	}
}

// setFilter hides the rows that a filter leaves out, and headings with nothing else below.
func (p *page) setFilter(f filter) {
	p.filter, p.hidden = f, nil
	if len(f.text) > 0 {
		var names *matcher
		if f.name != nil {
			names = newMatcher(p.t, f.name)
		}
		p.hidden = make([]bool, len(p.t.Rows))
		for row := len(p.t.Rows) - 1; row >= 0; row-- {
			p.hidden[row] = !p.passes(row, names)
			for i := row + 1; i < p.t.Rows[row].After; i = p.t.Rows[i].After {
				p.hidden[row] = p.hidden[row] && p.hidden[i]
			}
		}
	}
	p.refresh()
}

// passes reports whether the filter leaves a row.
func (p *page) passes(row int, names *matcher) bool {
	r, f := &p.t.Rows[row], &p.filter
	if r.Kind < layout.LaneRow {
		return false // those below say
	}
	run := p.t.Run(row)
	switch {
	case f.ranks != nil && !slices.Contains(f.ranks, run.RankID(r.Rank)):
		return false
	case !p.t.HasClass(row, f.classes):
		return false
	case names == nil:
		return true
	}
	return slices.ContainsFunc(r.Spans, func(id trace.SpanID) bool { return names.matches(r.View, id) })
}
