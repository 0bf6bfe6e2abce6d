package tui

import (
	"fmt"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

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

func (m *model) rows(by int) {
	p := m.page()
	p.move(max(-len(p.visible), min(by, len(p.visible))) + p.cursor)
}

func (m *model) halfScreen() int { return max(1, m.regions().rows.h/2) }

// enter opens or closes a heading, and selects on a lane.
func (m *model) enter() {
	p := m.page()
	row := p.row()
	if row < len(p.t.Rows) && p.t.Rows[row].Kind < layout.LaneRow {
		p.toggle(row)
		return
	}
	p.enter(row)
}

func (m *model) toggleFigure() {
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
func (m *model) refigure(change func(*layout.Figure)) {
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
func (m *model) choosePart(by int) {
	if !m.figure || len(m.parts) == 0 {
		m.toggleFigure()
		return
	}
	m.part = (m.part + by + len(m.parts)) % len(m.parts)
	m.refigure(func(*layout.Figure) {})
	m.message = fmt.Sprintf("%d of %d: %s", m.part+1, len(m.parts), clean(m.parts[m.part].Name))
}

func (m *model) nextRank(f *layout.Figure) {
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
