package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A prompt is a line being typed.
type prompt struct {
	sign string // what it starts with: "/" or ":"
	text string
	done func(*Model, string)
}

func (m *Model) promptKey(name string) {
	p := m.prompt
	switch {
	case name == "Esc" || name == "Backspace" && p.text == "":
		m.prompt = nil
	case name == "Enter":
		m.prompt = nil
		p.done(m, p.text)
	case name == "Backspace":
		_, n := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-n]
	case name == "Space":
		p.text += " "
	case utf8.RuneCountInString(name) == 1 && len(p.text) < maxText:
		p.text += name
	}
}

// goTo moves the window so that a time is in its middle.
func (m *Model) goTo(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	at, err := layout.ParseTime(text)
	if err != nil {
		m.message = err.Error()
		return
	}
	p := m.page()
	p.pan(at - (p.window.From + p.window.Len()/2))
	if at < p.bounds.From || at >= p.bounds.To {
		m.message = fmt.Sprintf("%s is outside %s – %s", layout.Exact(at), layout.Exact(p.bounds.From), layout.Exact(p.bounds.To))
	}
}

// search finds the spans whose name contains the text in any case, in order of
// time, and goes to the first from the window's start on. Empty text clears the hits.
func (m *Model) search(text string) {
	p := m.page()
	p.hits = nil
	if text == "" {
		return
	}
	p.hits = find(p.t, text)
	if len(p.hits) == 0 {
		m.message = fmt.Sprintf("no name contains %q", clean(text))
		return
	}
	at, _ := slices.BinarySearchFunc(p.hits, p.window.From, func(s selection, t trace.Time) int {
		from, _ := p.times(s)
		return cmp.Compare(from, t)
	})
	m.goToHit(at % len(p.hits))
}

// find lists spans by name, in order of start, then row.
func find(t *layout.Timeline, text string) []selection {
	text = strings.ToLower(text)
	matches := make([][]bool, len(t.Views))
	for v, view := range t.Views {
		matches[v] = make([]bool, len(view.Run.Names))
		for n, name := range view.Run.Names {
			matches[v][n] = strings.Contains(strings.ToLower(name), text)
		}
	}
	var hits []selection
	for i, row := range t.Rows {
		if row.Kind < layout.LaneRow {
			continue
		}
		for _, id := range row.Spans {
			if matches[row.View][t.Span(i, id).Name] {
				hits = append(hits, selection{i, id})
			}
		}
	}
	slices.SortFunc(hits, func(a, b selection) int {
		return cmp.Or(cmp.Compare(t.Span(a.row, a.span).Start+t.Offset(a.row), t.Span(b.row, b.span).Start+t.Offset(b.row)),
			cmp.Compare(a.row, b.row), cmp.Compare(a.span, b.span))
	})
	return hits
}

// hit goes to the next or the previous hit from the selection.
func (m *Model) hit(by int) {
	p := m.page()
	if len(p.hits) == 0 {
		m.message = "nothing searched for (/)"
		return
	}
	at := slices.Index(p.hits, p.sel)
	if at < 0 && by < 0 {
		at = 0
	}
	m.goToHit((at + by + len(p.hits)) % len(p.hits))
}

func (m *Model) goToHit(at int) {
	p := m.page()
	p.choose(p.hits[at])
	m.message = fmt.Sprintf("%d of %d", at+1, len(p.hits))
}
