package tui

import (
	"fmt"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// A binding is what some keys do.
type binding struct {
	keys []string
	help string
	do   func(*Model) // nil: Model.key answers itself
}

// bindings are all keys.
func bindings() []binding {
	return []binding{
		{[]string{"w", "W", "+", "="}, "zoom in", func(m *Model) { m.zoom(0.6) }},
		{[]string{"s", "S", "-", "_"}, "zoom out", func(m *Model) { m.zoom(1 / 0.6) }},
		{[]string{"a", "A", "h", "Left"}, "pan left", func(m *Model) { m.pan(-0.2) }},
		{[]string{"d", "D", "l", "Right"}, "pan right", func(m *Model) { m.pan(0.2) }},
		{[]string{"0"}, "show all", func(m *Model) { m.fit(false) }},
		{[]string{"f", "F", "z", "Z"}, "fit the selection", func(m *Model) { m.fit(true) }},
		{[]string{"Home"}, "start of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.From - p.window.From) }},
		{[]string{"End"}, "end of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.To - p.window.To) }},

		{[]string{"k", "Up"}, "row up", func(m *Model) { m.rows(-1) }},
		{[]string{"j", "Down"}, "row down", func(m *Model) { m.rows(1) }},
		{[]string{"Ctrl-U", "PgUp"}, "half a screen up", func(m *Model) { m.rows(-m.halfScreen()) }},
		{[]string{"Ctrl-D", "PgDn"}, "half a screen down", func(m *Model) { m.rows(m.halfScreen()) }},
		{[]string{"g"}, "first row", func(m *Model) { m.rows(-1 << 30) }},
		{[]string{"G"}, "last row", func(m *Model) { m.rows(1 << 30) }},
		{[]string{"Space", "o"}, "open or close a heading", func(m *Model) { p := m.page(); p.toggle(p.row()) }},

		{[]string{"Enter"}, "select; on a heading: open or close", (*Model).enter},
		{[]string{"."}, "next slice", func(m *Model) { m.page().step(1) }},
		{[]string{","}, "previous slice", func(m *Model) { m.page().step(-1) }},
		{[]string{"]"}, "to what it launched or released", func(m *Model) { m.follow(true) }},
		{[]string{"["}, "to what launched or released it", func(m *Model) { m.follow(false) }},
		{[]string{"/"}, "search names", func(m *Model) { m.prompt = &prompt{sign: "/", done: (*Model).search} }},
		{[]string{"n"}, "next hit", func(m *Model) { m.hit(1) }},
		{[]string{"N"}, "previous hit", func(m *Model) { m.hit(-1) }},
		{[]string{":"}, "go to a time (12.5 ms)", func(m *Model) { m.prompt = &prompt{sign: ":", done: (*Model).goTo} }},

		{[]string{"Tab"}, "next run", func(m *Model) { m.show(m.tab + 1) }},
		{[]string{"Backtab"}, "previous run", func(m *Model) { m.show(m.tab - 1) }},
		{[]string{"1-9"}, "run of that number", nil},
		{[]string{"x", "X"}, "all runs on one axis", (*Model).compare},
		{[]string{"v", "V"}, "workgroups of a kernel or pair", (*Model).toggleFigure},
		{[]string{"p"}, "workgroups: next kernel or pair", func(m *Model) { m.choosePart(1) }},
		{[]string{"P"}, "workgroups: the one before", func(m *Model) { m.choosePart(-1) }},
		{[]string{"r", "R"}, "workgroups: next rank", func(m *Model) { m.refigure(func(f *layout.Figure) { m.nextRank(f) }) }},
		{[]string{">"}, "Figure 11: next launch", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch++ }) }},
		{[]string{"<"}, "Figure 11: launch before", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch-- }) }},
		{[]string{"e", "E"}, "workgroups: all", func(m *Model) { m.refigure(allRows) }},
		{[]string{"m"}, "measure from the selection", (*Model).pin},
		{[]string{"t", "T"}, "statistics from mark to selection, or in view", func(m *Model) { m.stats = !m.stats }},
		{[]string{"M"}, "marks of puts and slices", func(m *Model) { m.marks = !m.marks }},
		{[]string{"i", "I"}, "details", func(m *Model) { m.details = !m.details }},
		{[]string{"c", "y"}, "copy the details", nil},
		{[]string{"?"}, "this help", func(m *Model) { m.help = true }},
		{[]string{"Esc"}, "forget selection and search", (*Model).escape},
		{[]string{"Ctrl-L"}, "draw the screen anew", nil},
		{[]string{"Ctrl-Z"}, "suspend, where a shell can resume it", nil},
		{[]string{"q", "Ctrl-C"}, "quit", nil},
	}
}

// keyName is the name that bindings use for a key.
func keyName(ev *tcell.EventKey) string {
	switch k := ev.Key(); k {
	case tcell.KeyRune:
		if ev.Rune() == ' ' {
			return "Space"
		}
		return string(ev.Rune())
	case tcell.KeyBackspace2:
		return "Backspace"
	case tcell.KeyBacktab:
		return "Backtab"
	default:
		return tcell.KeyNames[k]
	}
}

func (m *Model) rows(by int) {
	p := m.page()
	p.move(max(-len(p.visible), min(by, len(p.visible))) + p.cursor)
}

func (m *Model) halfScreen() int { return max(1, m.regions().rows.h/2) }

// enter opens or closes a heading, and selects on a lane.
func (m *Model) enter() {
	p := m.page()
	row := p.row()
	if row < len(p.t.Rows) && p.t.Rows[row].Kind < layout.LaneRow {
		p.toggle(row)
		return
	}
	p.enter(row)
}

func (m *Model) toggleFigure() {
	m.figure = !m.figure
	if m.figure && len(m.parts) == 0 && m.chosen == (layout.Figure{}) {
		m.parts = layout.PartsOf(m.views, 0)
	}
	m.together = m.together && len(m.parts) > 0
	if m.figure && len(m.parts) > 0 && m.figurePage() == nil { // such as a captured run
		m.firstFigure()
	}
	m.page() // finds out whether the run has one
}

// refigure shows another Figure 11, or the reason why there is none.
func (m *Model) refigure(change func(*layout.Figure)) {
	was := m.chosen
	change(&m.chosen)
	m.figure, m.together = true, m.together && len(m.parts) > 0
	clear(m.figures)
	m.close = layout.Window{}
	if m.figurePage() == nil {
		m.chosen = was
	}
}

// choosePart shows the workgroups of another part of the step.
func (m *Model) choosePart(by int) {
	if !m.figure || len(m.parts) == 0 {
		m.toggleFigure()
		return
	}
	m.part = (m.part + by + len(m.parts)) % len(m.parts)
	m.refigure(func(*layout.Figure) {})
	m.message = fmt.Sprintf("%d of %d: %s", m.part+1, len(m.parts), clean(m.parts[m.part].Name))
}

func (m *Model) nextRank(f *layout.Figure) {
	f.Rank = (f.Rank + 1) % int32(max(1, len(m.views[m.tab].Run.Ranks)))
	f.Launch = 0
}

// allRows shows all workgroups instead of the paper's 32, or goes back.
func allRows(f *layout.Figure) {
	if f.Rows < 0 {
		f.Rows = 0
	} else {
		f.Rows = -1
	}
}
