package tui

import (
	"fmt"

	"github.com/overlapse/overlapse/viz/layout"
)

// A command is what keys do, and what can be typed after ":". Help, palette and keys are
// this one table.
type command struct {
	name string // as it is typed
	keys []string
	help string
	do   func(*Model)
	with func(*Model, string) // what follows the name when it is typed; nil: it takes nothing
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
			{"zoom in", []string{"w", "W", "+", "="}, "zoom in", func(m *Model) { m.zoom(0.6) }, nil},
			{"zoom out", []string{"s", "S", "-", "_"}, "zoom out", func(m *Model) { m.zoom(1 / 0.6) }, nil},
			{"left", []string{"a", "A", "h", "Left"}, "pan left", func(m *Model) { m.pan(-0.2) }, nil},
			{"right", []string{"d", "D", "l", "Right"}, "pan right", func(m *Model) { m.pan(0.2) }, nil},
			{"all", []string{"0"}, "show all", func(m *Model) { m.fit(false) }, nil},
			{"fit", []string{"f", "F", "z", "Z"}, "fit the selection", func(m *Model) { m.fit(true) }, nil},
			{"start", []string{"Home"}, "start of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.From - p.window.From) }, nil},
			{"end", []string{"End"}, "end of the axis", func(m *Model) { p := m.page(); p.pan(p.bounds.To - p.window.To) }, nil},
			{"undo", []string{"u", "Backspace"}, "undo zoom and pan", (*Model).undo, nil},
		}},
		{"Rows", []command{
			{"up", []string{"k", "Up"}, "row up", func(m *Model) { m.rows(-1) }, nil},
			{"down", []string{"j", "Down"}, "row down", func(m *Model) { m.rows(1) }, nil},
			{"page up", []string{"Ctrl-U", "PgUp"}, "half a screen up", func(m *Model) { m.rows(-m.halfScreen()) }, nil},
			{"page down", []string{"Ctrl-D", "PgDn"}, "half a screen down", func(m *Model) { m.rows(m.halfScreen()) }, nil},
			{"first", []string{"g"}, "first row", func(m *Model) { m.rows(-1 << 30) }, nil},
			{"last", []string{"G"}, "last row", func(m *Model) { m.rows(1 << 30) }, nil},
			{"open", []string{"Space", "o"}, "open or close a heading", func(m *Model) { p := m.page(); p.toggle(p.row()) }, nil},
			{"row up", []string{"K"}, "move the row up", func(m *Model) { m.moveRow(-1) }, nil},
			{"row down", []string{"J"}, "move the row down", func(m *Model) { m.moveRow(1) }, nil},
			{"pin", []string{"*"}, "keep the row at the top, or no more", (*Model).pinRow, nil},
			{"filter", []string{"&"}, "class wait, rank 0,2 or name gemm", func(m *Model) { m.ask("&", (*Model).setFilterText) }, (*Model).setFilterText},
		}},
		{"Search and select", []command{
			{"find", []string{"/"}, "search names, operators (regexp)", func(m *Model) { m.ask("/", (*Model).search) }, (*Model).search},
			{"next hit", []string{"n"}, "next hit", func(m *Model) { m.hit(1) }, nil},
			{"previous hit", []string{"N"}, "previous hit", func(m *Model) { m.hit(-1) }, nil},
			{"hits", []string{"L"}, "list of hits", func(m *Model) { m.hits = !m.hits }, nil},
			{"select", []string{"Enter"}, "select; on a heading: open or close", (*Model).enter, nil},
			{"next", []string{"."}, "next slice", func(m *Model) { m.page().step(1) }, nil},
			{"previous", []string{","}, "previous slice", func(m *Model) { m.page().step(-1) }, nil},
			{"follow", []string{"]"}, "to what it launched or released", func(m *Model) { m.follow(true) }, nil},
			{"back", []string{"["}, "to what launched or released it", func(m *Model) { m.follow(false) }, nil},
			{"forget", []string{"Esc"}, "forget selection and search", (*Model).escape, nil},
		}},
		{"Read", []command{
			{"critical path", []string{"C"}, "critical path; ] and [ follow it", (*Model).toggleCritical, nil},
			{"measure", []string{"m"}, "measure from the selection", (*Model).pin, nil},
			{"statistics", []string{"t", "T"}, "statistics, from a mark or in view", func(m *Model) { m.stats = !m.stats }, nil},
			{"details", []string{"i"}, "details", func(m *Model) { m.details = !m.details }, nil},
			{"names", []string{"I"}, "the full name instead of details", func(m *Model) { m.full = !m.full }, nil},
			{"copy", []string{"c"}, "copy the details", (*Model).copyDetails, nil},
			{"overview", []string{"O"}, "the whole axis, when zoomed in", func(m *Model) { m.overview = !m.overview }, nil},
			{"marks", []string{"M"}, "marks of puts and slices", func(m *Model) { m.marks = !m.marks }, nil},
		}},
		{"Runs", []command{
			{"next run", []string{"Tab"}, "next run", func(m *Model) { m.show(m.tab + 1) }, nil},
			{"previous run", []string{"Backtab"}, "previous run", func(m *Model) { m.show(m.tab - 1) }, nil},
			{"compare", []string{"x", "X"}, "all runs on one axis", (*Model).compare, nil},
		}},
		{"Workgroups", []command{
			{"workgroups", []string{"v", "V"}, "workgroups of a kernel or pair", (*Model).toggleFigure, nil},
			{"next kernel", []string{"p"}, "next kernel or pair", func(m *Model) { m.choosePart(1) }, nil},
			{"previous kernel", []string{"P"}, "kernel or pair before", func(m *Model) { m.choosePart(-1) }, nil},
			{"next rank", []string{"r", "R"}, "workgroups of the next rank", func(m *Model) { m.refigure(func(f *layout.Figure) { m.nextRank(f) }) }, nil},
			{"next launch", []string{">"}, "Figure 11: next launch", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch++ }) }, nil},
			{"previous launch", []string{"<"}, "Figure 11: launch before", func(m *Model) { m.refigure(func(f *layout.Figure) { f.Launch-- }) }, nil},
			{"all workgroups", []string{"e", "E"}, "all workgroups, or some", func(m *Model) { m.refigure(allRows) }, nil},
			{"difference", []string{"}"}, "next largest difference of ends", func(m *Model) { m.difference(1) }, nil},
			{"larger difference", []string{"{"}, "the difference before", func(m *Model) { m.difference(-1) }, nil},
			{"sort", []string{"|"}, "sort workgroups in the next order", func(m *Model) { m.sortRows("") }, (*Model).sortRows},
		}},
		{"Views and commands", []command{
			{"command", []string{":"}, "time (12.5 ms), address or command", func(m *Model) { m.ask(":", (*Model).run) }, nil},
			{"address", []string{"y"}, "show and copy this view's address", (*Model).copyAddress, nil},
			{"bookmark", []string{"b"}, "set a bookmark here", func(m *Model) { m.bookmark("") }, (*Model).bookmark},
			{"go", []string{"B"}, "next bookmark; typed: of that name", func(m *Model) { m.toBookmark("") }, (*Model).toBookmark},
			{"help", []string{"?"}, "this help", func(m *Model) { m.help = true }, nil},
			{"redraw", []string{"Ctrl-L"}, "draw the screen anew", func(m *Model) { m.effect.Redraw = true }, nil},
			{"suspend", []string{"Ctrl-Z"}, "suspend (fg in the shell resumes)", (*Model).leave, nil},
			{"quit", []string{"q", "Ctrl-C"}, "quit", func(m *Model) { m.effect.Quit = true }, nil},
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
