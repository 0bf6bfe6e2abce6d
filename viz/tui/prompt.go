package tui

import (
	"cmp"
	"fmt"
	"regexp"
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
	at   int // of the list above it
	done func(*model, string)
}

// ask lets a person type a line.
func (m *model) ask(sign string, done func(*model, string)) {
	m.prompt = &prompt{sign: sign, done: done}
}

func (m *model) promptKey(name string) {
	p := m.prompt
	switch {
	case name == "Esc" || name == "Backspace" && p.text == "":
		m.prompt = nil
	case name == "Enter":
		m.prompt = nil
		if list := m.matching(p); p.at < len(list) {
			m.chooseRun(&list[p.at])
			return
		}
		p.done(m, p.text)
	case name == "Down" || name == "Up":
		p.at += map[string]int{"Down": 1, "Up": -1}[name]
		p.at = max(0, min(p.at, len(m.matching(p))-1))
	case name == "Backspace":
		_, n := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-n]
	case name == "Space":
		p.text += " "
	case utf8.RuneCountInString(name) == 1 && len(p.text) < maxText:
		p.text += name
	}
}

// matching are the choices that contain what was typed after ":"; a time is none.
func (m *model) matching(p *prompt) (list []Time) {
	if _, err := layout.ParseTime(p.text); p.sign != ":" || err == nil {
		return nil
	}
	for _, c := range m.choices {
		if strings.Contains(strings.ToLower(c.Name+" "+c.Strategy), strings.ToLower(strings.TrimSpace(p.text))) {
			list = append(list, c)
		}
	}
	return list
}

// chooseRun asks for the replay of a choice.
func (m *model) chooseRun(c *Time) {
	m.effect.Replay, m.message = c.Strategy, "replaying "+clean(c.Name)
}

// goTo moves the window so that a time is in its middle.
func (m *model) goTo(text string) {
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

// search finds the spans whose name or operator matches the regular expression in any case, or
// contains it if it is none, in order of time, and goes to the first from the window's
// start on, on the rank of the cursor if there is one. Empty text clears the hits.
func (m *model) search(text string) {
	p := m.page()
	p.hits, p.hit, p.sought = nil, 0, text
	if text == "" {
		return
	}
	p.hits = kernelsFirst(p.t, find(p.t, pattern(text)))
	if len(p.hits) == 0 {
		m.message = fmt.Sprintf("no name or operator matches %q", clean(text))
		return
	}
	rank := p.t.Rows[p.row()].Rank
	from, _ := slices.BinarySearchFunc(p.hits, p.window.From, func(s selection, t trace.Time) int {
		from, _ := p.times(s)
		return cmp.Compare(from, t)
	})
	here := slices.IndexFunc(p.hits[from:], func(s selection) bool { return p.t.Rows[s.row].Rank == rank })
	m.goToHit((from + max(0, here)) % len(p.hits))
}

// kernelsFirst leaves out hits on ranges that name kernels, where kernels are hit: they have the same names and times.
func kernelsFirst(t *layout.Timeline, hits []selection) []selection {
	on := func(s selection) trace.LaneKind { return t.Run(s.row).Lanes[t.Rows[s.row].Lane].Kind }
	if !slices.ContainsFunc(hits, func(s selection) bool { return on(s) == trace.Queue }) {
		return hits
	}
	return slices.DeleteFunc(hits, func(s selection) bool { return on(s) == trace.Annotation })
}

// pattern is a regular expression in any case, or the text itself if it is none.
func pattern(text string) *regexp.Regexp {
	if expr, err := regexp.Compile("(?i)" + text); err == nil {
		return expr
	}
	return regexp.MustCompile("(?i)" + regexp.QuoteMeta(text))
}

// A matcher says which names and operators of every view match.
type matcher struct {
	t                *layout.Timeline
	names, operators [][]bool
}

func newMatcher(t *layout.Timeline, expr *regexp.Regexp) *matcher {
	m := &matcher{t: t}
	for _, view := range t.Views {
		names, operators := make([]bool, len(view.Run.Names)), make([]bool, len(view.Run.Operators))
		for n, name := range view.Run.Names {
			names[n] = expr.MatchString(name)
		}
		for n, o := range view.Run.Operators {
			operators[n] = expr.MatchString(o.Name)
		}
		m.names, m.operators = append(m.names, names), append(m.operators, operators)
	}
	return m
}

// matches reports whether the name of a span matches, or that of its operator.
func (m *matcher) matches(view int, id trace.SpanID) bool {
	run := m.t.Views[view].Run
	s := run.Spans[id]
	if m.names[view][s.Name] {
		return true
	}
	op := int32(trace.None)
	if k := run.Kernel(s); k != nil {
		op = k.Op
	} else if c := run.Copy(s); c != nil {
		op = c.Op
	}
	return op >= 0 && int(op) < len(m.operators[view]) && m.operators[view][op]
}

// find lists spans by name and operator, in order of start, then row.
func find(t *layout.Timeline, expr *regexp.Regexp) []selection {
	m := newMatcher(t, expr)
	var hits []selection
	for i, row := range t.Rows {
		if row.Kind < layout.LaneRow {
			continue
		}
		for _, id := range row.Spans {
			if m.matches(row.View, id) {
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

// named says which names of the page's runs a search would match, while it is typed.
func (p *page) named(text string) string {
	expr, names := pattern(text), []string{}
	for _, view := range p.t.Views {
		for _, name := range view.Run.Names {
			if name = trace.Short(name); expr.MatchString(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	switch n := len(names); n {
	case 0:
		return "no name matches"
	case 1:
		return clean(names[0])
	default:
		return fmt.Sprintf("%d names: %s", n, clean(strings.Join(names[:min(n, 8)], ", ")))
	}
}

// hit goes to the next or the previous hit from the selection.
func (m *model) hit(by int) {
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

func (m *model) goToHit(at int) {
	p := m.page()
	p.choose(p.hits[at])
	p.hit = at
	m.message = fmt.Sprintf("%d of %d", at+1, len(p.hits))
}
