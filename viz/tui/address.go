package tui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// address is what is shown now.
func (m *model) address() layout.Address {
	p := m.page()
	a := layout.Address{Strategy: m.strategy, Find: p.sought}
	switch {
	case m.together:
		a.Show = "all"
	case m.tab > 0:
		a.Show = cmp.Or(m.views[m.tab].Name, m.views[m.tab].Run.Name)
	}
	if m.figure {
		a.Rank, a.Kernel = int(m.chosen.Rank), "figure11"
		if len(m.parts) > 0 {
			a.Kernel = m.parts[m.part].Name
		}
	}
	if *p.window != p.bounds {
		a.Window = *p.window
	}
	if len(p.t.Rows) > 0 {
		a.Row = pathOf(p.t, p.row())
	}
	if p.sel.span != trace.None {
		a.Row, a.Selected = pathOf(p.t, p.sel.row), true
		a.At, _ = p.times(p.sel)
	}
	return a
}

func (m *model) copyAddress() {
	m.effect.Copy = m.address().String()
	m.message = m.effect.Copy
}

// goToAddress shows what an address says, as far as the runs have it.
func (m *model) goToAddress(a layout.Address) {
	m.together = a.Show == "all" && len(m.views) > 1
	for i, v := range m.views {
		if a.Show != "" && (a.Show == v.Name || a.Show == v.Run.Name) || a.Show == "" && i == 0 {
			m.tab = i
		}
	}
	m.figure = false
	if a.Kernel != "" {
		m.chosen.Rank = max(0, int32(min(a.Rank, len(m.views[m.tab].Run.Ranks)-1)))
		m.toggleFigure()
		if at := slices.IndexFunc(m.parts, func(p layout.Part) bool { return p.Name == a.Kernel }); at >= 0 {
			m.part = at
		}
		m.refigure(func(*layout.Figure) {})
	}
	p := m.page()
	window := p.bounds
	if a.Window != (layout.Window{}) {
		window = a.Window.Zoom(1, a.Window.From, p.bounds, 1)
	}
	*p.window, p.sel.span = window, trace.None
	m.search(a.Find)
	if row := rowAt(p.t, a.Row); row != trace.None && len(p.t.Rows) > 0 {
		p.reveal(row)
		p.sel = selection{row, trace.None}
		if a.Selected {
			p.sel.span = p.t.At(row, a.At)
		}
	}
	if a.Window != (layout.Window{}) {
		*p.window = window // the search may have moved it
	}
}

// run goes to the time or the address that was typed after ":".
func (m *model) run(text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	if !strings.Contains(text, "=") {
		m.goTo(text)
		return
	}
	a, err := layout.ParseAddress(text)
	if err != nil {
		m.message = err.Error()
		return
	}
	m.goToAddress(a)
}

// pathOf is the labels of a row and of the headings above it.
func pathOf(t *layout.Timeline, row int) string {
	path := t.Rows[row].Label
	for i := t.Rows[row].Parent; i != trace.None; i = t.Rows[i].Parent {
		path = t.Rows[i].Label + "/" + path
	}
	return path
}

// rowAt is the row of a path, or None.
func rowAt(t *layout.Timeline, path string) int {
	for i := range t.Rows {
		if strings.HasSuffix(path, t.Rows[i].Label) && pathOf(t, i) == path {
			return i
		}
	}
	return trace.None
}
