package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/overlapse/overlapse/viz/layout"
)

// A tab is a run's name in the header.
type tab struct {
	from, to int
	text     string
}

// A tabStyle is how much the header says.
type tabStyle struct {
	name         int // characters of a name at most; 0: none, but of the current run
	time, change bool
}

// tabStyles are the ways to write the header, the longest first.
var tabStyles = []tabStyle{
	{60, true, true},
	{60, false, true},
	{24, true, true},
	{12, true, true},
	{24, false, true},
	{12, false, true},
	{8, false, true},
	{24, false, false},
	{12, false, false},
	{8, false, false},
	{},
}

// header is the tabs and the time range beside them: the longest that fit the width.
func (m *model) header() (tabs []tab, shown string) {
	w := *m.page().window
	short := layout.Short(w.Len())
	full := fmt.Sprintf("%s – %s (%s)", layout.Short(w.From), layout.Short(w.To), short)
	for _, style := range tabStyles {
		for _, shown = range []string{full, short} {
			for _, title := range []string{"overlapse  ", ""} {
				tabs = m.tabsOf(style, utf8.RuneCountInString(title))
				if tabs[len(tabs)-1].to+2+utf8.RuneCountInString(shown) <= m.width {
					return tabs, shown
				}
			}
		}
	}
	return tabs, shown
}

// tabsOf lists the runs in a style, from a column on.
func (m *model) tabsOf(style tabStyle, x int) []tab {
	var out []tab
	for i, v := range m.views {
		words, room := []string{strconv.Itoa(i + 1)}, style.name
		if i == m.tab && !m.together {
			room = max(room, 8)
		}
		name := []rune(clean(nameOf(v)))
		if len(name) > room && room > 0 {
			end := 0
			if strings.ContainsRune(string(name), '/') { // paths of captures often differ in their ends
				end = (room - 1) / 2
			}
			name = []rune(string(name[:room-1-end]) + m.theme.ellipsis() + string(name[len(name)-end:]))
		}
		if room > 0 {
			words = append(words, string(name))
		}
		if i < len(m.times) {
			t := &m.times[i]
			if t.Time != "" && (style.time || style.change && t.Change == "") {
				words = append(words, clean(t.Time))
			}
			if t.Change != "" && style.change {
				words = append(words, clean(t.Change))
			}
		}
		text := m.theme.words(strings.Join(words, " "))
		out = append(out, tab{x, x + utf8.RuneCountInString(text), text})
		x = out[i].to + min(2, 1+style.name)
	}
	return out
}

// nameOf is what a run is called, with a note if its times are estimated.
func nameOf(v layout.View) string {
	name := cmp.Or(v.Name, v.Run.Name)
	if v.Run.Estimated != "" {
		name += ", not measured"
	}
	return name
}

func (m *model) tabAt(x int) int {
	tabs, _ := m.header()
	return slices.IndexFunc(tabs, func(t tab) bool { return x >= t.from && x < t.to })
}

func (m *model) drawHeader(c canvas, p *page, r regions) {
	y := r.header.y
	tabs, shown := m.header()
	c.text(0, y, tabs[0].from, "overlapse", c.strong())
	x, at := 0, r.width-utf8.RuneCountInString(shown)
	for i, t := range tabs {
		style := c.plain()
		if i == m.tab || m.together {
			style = c.cursor()
		}
		x = c.text(t.from, y, max(t.from, min(t.to, at-2)), t.text, style)
	}
	if at >= x+2 {
		c.text(at, y, r.width, c.words(shown), c.plain())
		c.text(x+2, y, at-2, p.t.Title, c.faint())
	}
}
