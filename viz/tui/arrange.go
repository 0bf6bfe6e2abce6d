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

// A filter leaves out rows, and time of other classes. The zero value leaves out nothing.
type filter struct {
	classes layout.ClassSet
	ranks   []int // ids; nil: all
	name    *regexp.Regexp
	text    []string // what was typed, by kind
}

// setFilterText reads "class compute,waiting", "rank 0,2" or a regular expression for names,
// which may follow the word name. Filters of different kinds hold together; an empty text
// removes all.
func (m *model) setFilterText(text string) {
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
