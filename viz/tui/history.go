package tui

import "github.com/overlapse/overlapse/viz/layout"

// mostPast is how many changes of windows can be undone.
const mostPast = 200

// A moved is a window and where it was.
type moved struct {
	window *layout.Window
	was    layout.Window
	panned bool // without a change of length
}

// remember keeps where a window was before an event. Panning several times in sequence is
// one step back.
func (m *model) remember(window *layout.Window, was layout.Window) {
	if *window == was || m.undone {
		m.undone = false
		return
	}
	panned := window.Len() == was.Len()
	if n := len(m.past); n > 0 && panned && m.past[n-1].panned && m.past[n-1].window == window {
		return
	}
	if m.past = append(m.past, moved{window, was, panned}); len(m.past) > mostPast {
		m.past = m.past[1:]
	}
}

// undo goes back to the window before the last zoom or pan.
func (m *model) undo() {
	n := len(m.past) - 1
	if n < 0 {
		m.message = "nothing to undo"
		return
	}
	*m.past[n].window = m.past[n].was
	m.past, m.undone = m.past[:n], true
}
