package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/viz/layout"
)

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
func (m *Model) remember(window *layout.Window, was layout.Window) {
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
func (m *Model) undo() {
	n := len(m.past) - 1
	if n < 0 {
		m.message = "nothing to undo"
		return
	}
	*m.past[n].window = m.past[n].was
	m.past, m.undone = m.past[:n], true
}

// A bookmark is a view with a name.
type bookmark struct {
	name string
	at   layout.Address
}

// bookmark gives the view a name: the next number if it is empty.
func (m *Model) bookmark(name string) {
	if name = strings.TrimSpace(name); name == "" {
		name = fmt.Sprint(len(m.bookmarks) + 1)
	}
	m.bookmarks = slices.DeleteFunc(m.bookmarks, func(b bookmark) bool { return b.name == name })
	m.bookmarks = append(m.bookmarks, bookmark{name, m.address()})
	m.message = fmt.Sprintf("bookmark %s (B goes to the next one)", clean(name))
}

// toBookmark goes to the bookmark of a name, or to the one set or gone to least recently.
func (m *Model) toBookmark(name string) {
	name = strings.TrimSpace(name)
	at := slices.IndexFunc(m.bookmarks, func(b bookmark) bool { return name == "" || b.name == name })
	if at < 0 {
		m.message = "no bookmark (b sets one)"
		return
	}
	b := m.bookmarks[at]
	m.bookmarks = append(slices.Delete(m.bookmarks, at, at+1), b)
	m.goToAddress(b.at)
	m.message = "bookmark " + clean(b.name)
}
