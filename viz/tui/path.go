package tui

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// A path is the critical path of a run, for drawing it over the rows.
type path struct {
	overlap.Path
	byLane map[trace.LaneID]*laneSteps
	work   []int // steps that are work
}

// laneSteps are the steps that are work of a lane, or gaps before such work, in time.
type laneSteps struct {
	start, end []trace.Time
	work       []bool
}

// pathOf finds the critical path of a run when it is first asked for.
func (m *model) pathOf(v *layout.View) *path {
	if p := m.paths[v.Run]; p != nil {
		return p
	}
	p := &path{Path: overlap.CriticalPath(v.Run, v.Gaps), byLane: map[trace.LaneID]*laneSteps{}}
	for i, s := range p.Steps {
		lane := v.Run.Spans[s.Span].Lane
		l := p.byLane[lane]
		if l == nil {
			l = &laneSteps{}
			p.byLane[lane] = l
		}
		l.start, l.end, l.work = append(l.start, s.Start), append(l.end, s.End), append(l.work, !s.Gap())
		if !s.Gap() {
			p.work = append(p.work, i)
		}
	}
	if m.paths == nil {
		m.paths = map[*trace.Run]*path{}
	}
	m.paths[v.Run] = p
	return p
}

// toggleCritical shows the critical path over the rows, or no more.
func (m *model) toggleCritical() {
	m.critical = !m.critical
	if !m.critical {
		return
	}
	p := m.pathOf(&m.views[m.tab])
	if len(p.Steps) == 0 {
		m.message, m.critical = "the run has no device work", false
		return
	}
	m.message = fmt.Sprintf("critical path: %d steps", len(p.Steps))
	for i, part := range []trace.Time{p.Compute, p.Collective, p.Copy, p.Flag} {
		if share := 100 * float64(part) / float64(p.Total); share >= 0.5 {
			m.message += fmt.Sprintf(", %s %.0f %%", [...]string{"compute", "communication", "copies", "waiting for flags"}[i], share)
		}
	}
	m.listLongest(p)
}

// mostListed is how many steps of the critical path are listed.
const mostListed = 10

// listLongest makes the longest work on the path the list of hits.
func (m *model) listLongest(p *path) {
	pg, view := m.page(), m.tab
	if !m.together {
		view = 0
	}
	longest := slices.Clone(p.work)
	slices.SortStableFunc(longest, func(a, b int) int {
		return cmp.Compare(p.Steps[b].End-p.Steps[b].Start, p.Steps[a].End-p.Steps[a].Start)
	})
	pg.hits, pg.hit, pg.sought = nil, 0, ""
	for _, at := range longest[:min(mostListed, len(longest))] {
		if row := pg.t.RowOf(view, p.Steps[at].Span); row != trace.None {
			pg.hits = append(pg.hits, selection{row, p.Steps[at].Span})
		}
	}
	if n := len(pg.hits); n > 1 {
		m.message += fmt.Sprintf("; L lists the longest %d, n goes to them", n)
	}
}

// in reports whether steps touch [from, to) of the run's time, and whether work does.
func (l *laneSteps) in(from, to trace.Time) (some, work bool) {
	first := sort.Search(len(l.end), func(i int) bool { return l.end[i] > from })
	for i := first; i < len(l.end) && l.start[i] < to && !work; i++ {
		some, work = true, l.work[i] // gaps of one operation are few
	}
	return some, work
}

// drawPath draws a line through the cells of a row in which the critical path runs, and a
// dotted one where work that is on it has not started yet. It returns the cells with a line,
// or nil.
func (m *model) drawPath(c canvas, pg *page, row, x, y int, cells []layout.Cell) (on []bool) {
	r := &pg.t.Rows[row]
	if !m.critical || r.Lane == trace.None || r.Kind != layout.LaneRow {
		return nil
	}
	on = make([]bool, len(cells))
	lane, shift := m.pathOf(&pg.t.Views[r.View]).byLane[r.Lane], pg.t.Offset(row)
	for k := 0; k < len(cells) && lane != nil; k++ {
		from := pg.window.Edge(k, len(cells)) - shift
		some, work := lane.in(from, max(from+1, pg.window.Edge(k+1, len(cells))-shift))
		switch {
		case work:
			on[k] = true
			c.Put(x+k, y, c.pick("━", "="), c.over(cells[k]).Bold(true).Reverse(c.patterns()))
		case some:
			c.Put(x+k, y, c.pick("╌", "."), c.faint())
		}
	}
	return on
}

// alongPath selects the work before or after the selection on the critical path, or the
// work on it that runs at the selection, or in the middle of the window.
func (m *model) alongPath(forward bool) {
	pg := m.page()
	view := 0
	if row := pg.row(); row < len(pg.t.Rows) {
		view = pg.t.Rows[row].View
	}
	p := m.pathOf(&pg.t.Views[view])
	if len(p.work) == 0 {
		m.message = "the run has no device work"
		return
	}
	at := slices.IndexFunc(p.work, func(i int) bool {
		return pg.sel.span != trace.None && p.Steps[i].Span == pg.sel.span && !pg.t.Rows[pg.sel.row].Strip
	})
	switch {
	case at >= 0 && forward:
		at = min(at+1, len(p.work)-1)
	case at >= 0:
		at = max(at-1, 0)
	default:
		when := pg.window.From + pg.window.Len()/2
		if pg.sel.span != trace.None {
			when, _ = pg.times(pg.sel)
		}
		when -= pg.t.Views[view].Offset
		at = min(sort.Search(len(p.work), func(i int) bool { return p.Steps[p.work[i]].End > when }), len(p.work)-1)
	}
	step := p.Steps[p.work[at]]
	if row := pg.t.RowOf(view, step.Span); row != trace.None {
		pg.choose(selection{row, step.Span})
	}
	m.message = fmt.Sprintf("step %d of %d of the critical path: %s of %s", p.work[at]+1, len(p.Steps), layout.Short(step.End-step.Start), step.Label())
	if before := p.work[at] - 1; before >= 0 && p.Steps[before].Gap() {
		m.message += fmt.Sprintf(", after %s of %s", layout.Short(p.Steps[before].End-p.Steps[before].Start), p.Steps[before].Label())
	}
}
