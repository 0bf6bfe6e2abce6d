package tui

import (
	"math"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// shortest is the minimum length of a window.
const shortest trace.Time = 16

// A model is the state of browsing runs.
type model struct {
	views []layout.View
	theme theme
	keys  map[string]*command

	tab      int  // which run is shown
	together bool // all runs on one axis instead
	comparing
	pages  []*page       // by tab; the last shows all runs. nil until first shown
	window layout.Window // of all pages that are no figures
	area
	panels
	prompt  *prompt
	message string // until the next key
	effect  effect // of the event at hand
	history
	answer
	touched bool        // there was input
	pinned  *trace.Time // a time to measure from
	drag    *drag
	following

	bars []bar // of the rows on the screen; kept for their memory
}

// A history is the windows to go back to.
type history struct {
	past   []moved // windows to go back to, the last one last
	undone bool    // the event was an undo
}

// following is what is known of the selection, and where arrows from it were followed.
type following struct {
	facts    facts                 // of the selection
	edges    map[*trace.Run]*edges // of runs in which one was followed
	critical bool                  // the critical path is drawn
	paths    map[*trace.Run]*path  // of runs for which it was
}

// panels are what is shown beside the rows of the window.
type panels struct {
	details   bool
	hits      bool // the list of hits instead of details
	full      bool // names in full in the details
	stats     bool // statistics of the range instead of details
	overview  bool // of the whole axis, when the window is a part of it
	marks     bool
	markKinds [layout.NumMarks]bool // marks that are drawn in this frame
	help      bool
	helpPage  int // of helpPages
	helpPages int
}

// comparing is the comparison of workgroups.
type comparing struct {
	figure  bool    // Figure 11 instead of lanes
	figures []*page // by tab, of workgroups; the last shows all runs
	chosen  layout.Figure
	parts   []layout.Part // that workgroups are compared on; none: Figure 11
	part    int
	close   layout.Window // of the pages that compare a part
}

// An answer is what was replayed, and what is said of it.
type answer struct {
	strategy string // what was replayed, for addresses
	verdict  string // below the header
	times    []Time // by view, in its tab
	choices  []Time // that the list of ":" has
}

// An area is where the model is drawn.
type area struct {
	width    int
	height   int
	suspends bool // there is a shell to go back to
}

// newModel starts on the first run, at its work. Views must not be empty.
func newModel(views []layout.View, o Options) *model {
	m := &model{
		views: layout.Indexed(views), theme: theme{colors: o.Colors, ascii: o.ASCII},
		pages:     make([]*page, len(views)+1),
		comparing: comparing{figures: make([]*page, len(views)+1), parts: o.Parts},
		answer:    answer{strategy: o.Strategy, verdict: o.Verdict, times: o.Times, choices: o.Choices},
		panels:    panels{details: true, overview: true, marks: true, stats: o.Stats},
		area:      area{width: 80, height: 24, suspends: o.Suspend != nil},
	}
	if o.Figure != nil {
		m.chosen, m.figure, m.parts = *o.Figure, true, nil
	}
	m.keys = map[string]*command{}
	for _, c := range commands() {
		for _, k := range c.keys {
			m.keys[k] = &c
		}
	}
	bounds := m.bounds()
	m.window = opening(views, bounds)
	if o.First != nil {
		m.pages[0] = newPage(o.First, &m.window, bounds)
	}
	if m.figure {
		m.firstFigure()
	}
	if o.At != (layout.Address{}) {
		m.goToAddress(o.At)
	}
	return m
}

// firstFigure goes to the first run that has the requested Figure 11.
func (m *model) firstFigure() {
	for m.tab = range m.views {
		if m.figurePage() != nil {
			m.message = ""
			return
		}
	}
	m.tab, m.figure = 0, false
}

// bounds is the axis that all runs share, so that going from one to the next
// compares them.
func (m *model) bounds() layout.Window { return layout.RangeOf(m.views) }

// opening is the window to begin with: all, or device work if hosts and profilers begin or end long before or behind it.
func opening(views []layout.View, all layout.Window) layout.Window {
	start, end := all.To, all.From
	for _, v := range views {
		for _, s := range v.Run.Spans {
			if k := v.Run.Lanes[s.Lane].Kind; k != trace.HostThread && k != trace.Annotation {
				start, end = min(start, s.Start+v.Offset), max(end, s.End+v.Offset)
			}
		}
	}
	early, late, room := start-all.From, all.To-end, max(1, (end-start)/50)
	switch {
	case start >= end:
	case early > all.Len()/4:
		return layout.Window{From: start - min(early, room), To: end + min(late, room)}
	case late > all.Len()/8:
		all.To = end + room
	}
	return all
}

// page is what is shown now. A figure that the run does not have leaves a
// message and gives the lanes.
func (m *model) page() *page {
	if m.figure {
		if p := m.figurePage(); p != nil {
			return p
		}
		m.figure = false
	}
	at, views := m.tab, m.views[m.tab:m.tab+1]
	if m.together {
		at, views = len(m.views), m.views
	}
	if m.pages[at] == nil {
		m.pages[at] = newPage(layout.New(views), &m.window, m.bounds())
	}
	return m.pages[at]
}

func (m *model) figurePage() *page {
	if len(m.parts) > 0 {
		return m.partPage()
	}
	if m.figures[m.tab] == nil {
		t, err := layout.Figure11(m.views[m.tab], m.chosen)
		if err != nil {
			m.message = err.Error()
			return nil
		}
		window := t.Bounds()
		m.figures[m.tab] = newPage(t, &window, window)
	}
	return m.figures[m.tab]
}

// partPage compares a part of the step: one run, or all, on the same axis from its start.
func (m *model) partPage() *page {
	at, views := m.tab, m.views[m.tab:m.tab+1]
	if m.together {
		at, views = len(m.views), m.views
	}
	if m.figures[at] == nil {
		part := m.parts[m.part]
		t, err := layout.Compared(views, m.chosen.Rank, part, m.chosen.Rows)
		if err != nil {
			m.message = err.Error()
			return nil
		}
		bounds := layout.Window{To: max(1, part.Length(m.views, m.chosen.Rank))}
		if m.close == (layout.Window{}) {
			m.close = bounds
		}
		m.figures[at] = newPage(t, &m.close, bounds)
	}
	return m.figures[at]
}

// Update handles one event. It never blocks, and depends only on the model and the
// event.
func (m *model) Update(ev tcell.Event) effect {
	m.effect = effect{}
	p := m.page()
	was := *p.window
	switch ev := ev.(type) {
	case *tcell.EventResize:
		m.width, m.height = ev.Size()
	case *tcell.EventMouse:
		m.touched = true
		m.mouse(ev)
	case *tcell.EventInterrupt:
		m.effect.Quit = true
	case *tcell.EventKey:
		m.touched = true
		m.key(keyName(ev))
	}
	m.remember(p.window, was)
	return m.effect
}

// zoom changes the window around the selection if it is in view, else around the middle.
func (m *model) zoom(factor float64) {
	p := m.page()
	around := p.window.From + p.window.Len()/2
	if p.sel.span != trace.None {
		from, to := p.times(p.sel)
		if mid := from + (to-from)/2; mid >= p.window.From && mid < p.window.To {
			around = mid
		}
	}
	*p.window = p.window.Zoom(factor, around, p.bounds, shortest)
}

// pan moves the window by a share of its length, at least a nanosecond.
func (m *model) pan(share float64) {
	p := m.page()
	by := trace.Time(share * float64(p.window.Len()))
	if by == 0 {
		by = trace.Time(math.Copysign(1, share))
	}
	p.pan(by)
}

// fit shows all of the page's runs, or the selection with some room around it.
func (m *model) fit(selection bool) {
	p := m.page()
	*p.window = p.t.Bounds()
	if !selection || p.sel.span == trace.None {
		return
	}
	from, to := p.times(p.sel)
	room := max((to-from)/10, shortest/2)
	*p.window = layout.Window{From: from - room, To: to + room}.Zoom(1, from, p.bounds, shortest)
}

// show goes to a run; the rows and the window of each run are kept.
func (m *model) show(tab int) {
	n := len(m.views)
	m.tab, m.together = (tab%n+n)%n, false
}

func (m *model) compare() {
	m.together = !m.together && len(m.views) > 1
	m.figure = m.figure && len(m.parts) > 0
	if len(m.views) == 1 {
		m.message = "there is one run only"
		if len(m.choices) > 0 {
			m.message += ": the key : lists what to replay beside it"
		}
	}
}

func (m *model) escape() {
	p := m.page()
	p.sel.span, p.hits, p.sought, p.pointed, m.pinned = trace.None, nil, "", nil, nil
}

// pin remembers a time to measure from: the selection's start.
func (m *model) pin() {
	p := m.page()
	if p.sel.span == trace.None {
		m.message = "select a slice to measure from (Enter)"
		return
	}
	at, _ := p.times(p.sel)
	if m.pinned != nil && *m.pinned == at {
		m.pinned = nil
		return
	}
	m.pinned = &at
}
