package tui

import (
	"fmt"

	"github.com/overlapse/overlapse/viz/layout"
)

// A command is what keys do. Help and keys are this one table.
type command struct {
	keys []string
	help string
	do   func(*Model)
}

// A group is commands for one task.
type group struct {
	title    string
	commands []command
}

// groups are all commands, in the order of the help.
func groups() []group {
	return []group{
		{"Time", []command{
			{[]string{"w", "W", "+", "="}, "zoom in", func(m *Model) { m.zoom(0.6) }},
			{[]string{"s", "S", "-", "_"}, "zoom out", func(m *Model) { m.zoom(1 / 0.6) }},
			{[]string{"a", "A", "h", "Left"}, "pan left", func(m *Model) { m.pan(-0.2) }},
			{[]string{"d", "D", "l", "Right"}, "pan right", func(m *Model) { m.pan(0.2) }},
			{[]string{"0"}, "show all", func(m *Model) { m.fit(false) }},
			{[]string{"f", "F", "z", "Z"}, "fit the selection", func(m *Model) { m.fit(true) }},
			{[]string{"Home"}, "start of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.From - p.window.From) }},
			{[]string{"End"}, "end of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.To - p.window.To) }},
			{[]string{"u", "Backspace"}, "undo zoom and pan", (*Model).undo},
		}},
		{"Rows", []command{
			{[]string{"k", "Up"}, "row up", func(m *Model) { m.rows(-1) }},
			{[]string{"j", "Down"}, "row down", func(m *Model) { m.rows(1) }},
			{[]string{"Ctrl-U", "PgUp"}, "half a screen up", func(m *Model) { m.rows(-m.halfScreen()) }},
			{[]string{"Ctrl-D", "PgDn"}, "half a screen down", func(m *Model) { m.rows(m.halfScreen()) }},
			{[]string{"g"}, "first row", func(m *Model) { m.rows(-1 << 30) }},
			{[]string{"G"}, "last row", func(m *Model) { m.rows(1 << 30) }},
			{[]string{"Space", "o"}, "open or close a heading", func(m *Model) { p := m.page(); p.toggle(p.row()) }},
			{[]string{"&"}, "class wait, rank 0,2 or name gemm", func(m *Model) { m.ask("&", (*Model).setFilterText) }},
		}},
		{"Search and select", []command{
			{[]string{"/"}, "search names, operators (regexp)", func(m *Model) { m.ask("/", (*Model).search) }},
			{[]string{"n"}, "next hit", func(m *Model) { m.hit(1) }},
			{[]string{"N"}, "previous hit", func(m *Model) { m.hit(-1) }},
			{[]string{"L"}, "list of hits", func(m *Model) { m.hits = !m.hits }},
			{[]string{"Enter"}, "select; on a heading: open or close", (*Model).enter},
			{[]string{"."}, "next slice", func(m *Model) { m.page().step(1) }},
			{[]string{","}, "previous slice", func(m *Model) { m.page().step(-1) }},
			{[]string{"]"}, "to what it launched or released", func(m *Model) { m.follow(true) }},
			{[]string{"["}, "to what launched or released it", func(m *Model) { m.follow(false) }},
			{[]string{"Esc"}, "forget selection and search", (*Model).escape},
		}},
		{"Read", []command{
			{[]string{"C"}, "critical path; ] and [ follow it", (*Model).toggleCritical},
			{[]string{"m"}, "measure from the selection", (*Model).pin},
			{[]string{"t", "T"}, "statistics, from a mark or in view", func(m *Model) { m.stats = !m.stats }},
			{[]string{"i"}, "details", func(m *Model) { m.details = !m.details }},
			{[]string{"I"}, "the full name instead of details", func(m *Model) { m.full = !m.full }},
			{[]string{"c"}, "copy the details", (*Model).copyDetails},
			{[]string{"O"}, "the whole axis, when zoomed in", func(m *Model) { m.overview = !m.overview }},
			{[]string{"M"}, "marks of puts and slices", func(m *Model) { m.marks = !m.marks }},
		}},
		{"Runs", []command{
			{[]string{"Tab"}, "next run", func(m *Model) { m.show(m.tab + 1) }},
			{[]string{"Backtab"}, "previous run", func(m *Model) { m.show(m.tab - 1) }},
			{[]string{"x", "X"}, "all runs on one axis", (*Model).compare},
		}},
		{"Workgroups", []command{
			{[]string{"v", "V"}, "workgroups of a kernel or pair", (*Model).toggleFigure},
			{[]string{"p"}, "next kernel or pair", func(m *Model) { m.choosePart(1) }},
			{[]string{"P"}, "kernel or pair before", func(m *Model) { m.choosePart(-1) }},
			{[]string{"r", "R"}, "workgroups of the next rank", func(m *Model) { m.refigure(func(f *layout.Figure) { m.nextRank(f) }) }},
			{[]string{">"}, "Figure 11: next launch", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch++ }) }},
			{[]string{"<"}, "Figure 11: launch before", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch-- }) }},
			{[]string{"e", "E"}, "all workgroups, or some", func(m *Model) { m.refigure(allRows) }},
		}},
		{"Views and commands", []command{
			{[]string{":"}, "strategies; go to a time or address", func(m *Model) { m.ask(":", (*Model).run) }},
			{[]string{"y"}, "show and copy this view's address", (*Model).copyAddress},
			{[]string{"?"}, "this help", func(m *Model) { m.help = true }},
			{[]string{"Ctrl-L"}, "draw the screen anew", func(m *Model) { m.effect.Redraw = true }},
			{[]string{"Ctrl-Z"}, "suspend (fg in the shell resumes)", (*Model).leave},
			{[]string{"q", "Ctrl-C"}, "quit", func(m *Model) { m.effect.Quit = true }},
		}},
	}
}

// commands are all commands.
func commands() (all []command) {
	for _, g := range groups() {
		all = append(all, g.commands...)
	}
	return all
}

// key does what a key is bound to.
func (m *Model) key(name string) {
	m.message = ""
	urgent := name == "Ctrl-C" || name == "Ctrl-Z" // whatever is open
	switch {
	case m.prompt != nil && !urgent:
		m.promptKey(name)
	case m.help && !urgent:
		m.helpKey(name)
	case name >= "1" && name <= "9" && len(name) == 1:
		if n := int(name[0] - '1'); n < len(m.views) {
			m.show(n)
		}
	default:
		if c := m.keys[name]; c != nil {
			c.do(m)
		} else {
			m.message = fmt.Sprintf("no key %s (? lists them)", clean(name))
		}
	}
}

// leave suspends the process where there is a shell to continue it.
func (m *Model) leave() {
	if m.effect.Leave = m.suspends; !m.suspends {
		m.message = "there is no shell to go back to"
	}
}

func (m *Model) copyDetails() {
	m.message, m.effect.Copy = "copied", m.describe()
}
