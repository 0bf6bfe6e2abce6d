package tui

import (
	"fmt"

	"github.com/overlapse/overlapse/viz/layout"
)

// A command is what keys do. Help and keys are this one table.
type command struct {
	keys []string
	help string
	do   func(*model)
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
			{[]string{"w", "W", "+", "="}, "zoom in", func(m *model) { m.zoom(0.6) }},
			{[]string{"s", "S", "-", "_"}, "zoom out", func(m *model) { m.zoom(1 / 0.6) }},
			{[]string{"a", "Left", "A", "h"}, "pan left", func(m *model) { m.pan(-0.2) }},
			{[]string{"d", "Right", "D", "l"}, "pan right", func(m *model) { m.pan(0.2) }},
			{[]string{"0"}, "show all", func(m *model) { m.fit(false) }},
			{[]string{"f", "F", "z", "Z"}, "fit the selection", func(m *model) { m.fit(true) }},
			{[]string{"Home"}, "start of the axis", func(m *model) { p := m.page(); p.pan(p.bounds.From - p.window.From) }},
			{[]string{"End"}, "end of the axis", func(m *model) { p := m.page(); p.pan(p.bounds.To - p.window.To) }},
			{[]string{"u", "Backspace"}, "undo zoom and pan", (*model).undo},
		}},
		{"Rows", []command{
			{[]string{"k", "Up"}, "row up", func(m *model) { m.rows(-1) }},
			{[]string{"j", "Down"}, "row down", func(m *model) { m.rows(1) }},
			{[]string{"Ctrl-U", "PgUp"}, "half a screen up", func(m *model) { m.rows(-m.halfScreen()) }},
			{[]string{"Ctrl-D", "PgDn"}, "half a screen down", func(m *model) { m.rows(m.halfScreen()) }},
			{[]string{"g"}, "first row", func(m *model) { m.rows(-1 << 30) }},
			{[]string{"G"}, "last row", func(m *model) { m.rows(1 << 30) }},
			{[]string{"Space", "o"}, "open or close a heading", func(m *model) { p := m.page(); p.toggle(p.row()) }},
			{[]string{"&"}, "class waiting, rank 0, name gemm", func(m *model) { m.ask("&", (*model).setFilterText) }},
		}},
		{"Search and select", []command{
			{[]string{"/"}, "search names, operators (regexp)", func(m *model) { m.ask("/", (*model).search) }},
			{[]string{"n"}, "next hit", func(m *model) { m.hit(1) }},
			{[]string{"N"}, "previous hit", func(m *model) { m.hit(-1) }},
			{[]string{"L"}, "list of hits", func(m *model) { m.hits = !m.hits }},
			{[]string{"Enter"}, "select; on a heading: open or close", (*model).enter},
			{[]string{"."}, "next slice", func(m *model) { m.page().step(1) }},
			{[]string{","}, "previous slice", func(m *model) { m.page().step(-1) }},
			{[]string{"]"}, "to what it launched or released", func(m *model) { m.follow(true) }},
			{[]string{"["}, "to what launched or released it", func(m *model) { m.follow(false) }},
			{[]string{"Esc"}, "forget selection and search", (*model).escape},
		}},
		{"Read", []command{
			{[]string{"C"}, "critical path; ] [ L go along it", (*model).toggleCritical},
			{[]string{"m"}, "measure from the selection", (*model).pin},
			{[]string{"t", "T"}, "statistics, from a mark or in view", func(m *model) { m.stats = !m.stats }},
			{[]string{"i"}, "details", func(m *model) { m.details = !m.details }},
			{[]string{"I"}, "the full name instead of details", func(m *model) { m.full = !m.full }},
			{[]string{"c"}, "copy the details", (*model).copyDetails},
			{[]string{"O"}, "the whole axis, when zoomed in", func(m *model) { m.overview = !m.overview }},
			{[]string{"M"}, "marks of puts and slices", func(m *model) { m.marks = !m.marks }},
		}},
		{"Runs", []command{
			{[]string{"Tab"}, "next run", func(m *model) { m.show(m.tab + 1) }},
			{[]string{"Backtab"}, "previous run", func(m *model) { m.show(m.tab - 1) }},
			{[]string{"x", "X"}, "all runs on one axis", (*model).compare},
		}},
		{"Workgroups", []command{
			{[]string{"v", "V"}, "workgroups of a kernel or pair", (*model).toggleFigure},
			{[]string{"p"}, "next kernel or pair", func(m *model) { m.choosePart(1) }},
			{[]string{"P"}, "kernel or pair before", func(m *model) { m.choosePart(-1) }},
			{[]string{"r", "R"}, "workgroups of the next rank", func(m *model) { m.refigure(func(f *layout.Figure) { m.nextRank(f) }) }},
			{[]string{">"}, "Figure 11: next launch", func(m *model) { m.refigure(func(f *layout.Figure) { f.Launch++ }) }},
			{[]string{"<"}, "Figure 11: launch before", func(m *model) { m.refigure(func(f *layout.Figure) { f.Launch-- }) }},
			{[]string{"e", "E"}, "all workgroups, or some", func(m *model) { m.refigure(allRows) }},
		}},
		{"Views and commands", []command{
			{[]string{":"}, "strategies; go to a time or address", func(m *model) { m.ask(":", (*model).run) }},
			{[]string{"y"}, "show and copy this view's address", (*model).copyAddress},
			{[]string{"?"}, "this help", func(m *model) { m.help = true }},
			{[]string{"Ctrl-L"}, "draw the screen anew", func(m *model) { m.effect.Redraw = true }},
			{[]string{"Ctrl-Z"}, "suspend (fg in the shell resumes)", (*model).leave},
			{[]string{"q", "Ctrl-C"}, "quit", func(m *model) { m.effect.Quit = true }},
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
func (m *model) key(name string) {
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
func (m *model) leave() {
	if m.effect.Leave = m.suspends; !m.suspends {
		m.message = "there is no shell to go back to"
	}
}

func (m *model) copyDetails() {
	m.message, m.effect.Copy = "copied", m.describe()
}
