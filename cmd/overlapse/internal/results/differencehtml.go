package results

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/html"
)

// WriteHTML writes a difference as a page: the two times by state, every group as a chart and
// a table, and the timelines of both from their first iterations.
func (d *Difference) WriteHTML(w io.Writer, top int) error {
	rep := html.Report{
		Title:    "overlapse: " + d.A.Name + " and " + d.B.Name,
		Verdict:  append([]string{d.Explanation}, d.Notes...),
		Facts:    []html.Fact{{Name: "A", Value: d.A.Name}, {Name: "B", Value: d.B.Name}, {Name: "times", Value: d.unit() + ", means over ranks"}},
		Captured: d.Each()[0].A.Time,
		Heading:  "Time of a rank",
	}
	numbers := cli.Table{Columns: append([]string{"run", "time", "against A"}, stateNames...), OneUnit: true}
	for at, p := range d.Each() {
		for i, s := range []side{p.A, p.B} {
			name := p.title() + string(rune('A'+i)) + ": " + s.Name
			change := trace.Percent(float64(s.Time)/float64(max(1, p.A.Time)) - 1)
			rep.Strategies = append(rep.Strategies, html.Bar{Name: name, Note: trace.Micros(s.Time) + "  " + change, Time: s.Time, Times: s.times()})
			numbers.Add(append([]any{name, s.Time, change}, states(s.times())...)...)
			if s.run != nil && at == 0 {
				rep.Runs = append(rep.Runs, html.Named{
					Name: strings.TrimPrefix(name, p.title()), Time: trace.Micros(s.Time), Run: s.run, Start: s.start, Gaps: s.gaps,
				})
				if i == 0 && p.lane != nil {
					rep.Runs = append(rep.Runs, html.Named{Name: p.lane.Name, Note: p.Changed, Run: p.lane, Start: s.start})
				}
			}
		}
		for group := range p.groups() {
			t, u := p.table(group, top, true)
			page := t.HTML()
			of := group[0].Group // the table has the numbers of the bars: one of both is open
			page.Folded, page.Chart = of != overlap.ByState && of != overlap.ByKernel, chart(group, u)
			rep.Tables = append(rep.Tables, page)
		}
	}
	page := numbers.HTML()
	rep.Numbers = &page
	return html.Write(w, rep)
}

// times are the states of a side.
func (s *side) times() overlap.Times {
	in := func(is overlap.Is) trace.Time {
		i := slices.IndexFunc(s.items, func(x overlap.Item) bool { return x.Group == overlap.ByState && x.Name == is.String() })
		if i < 0 {
			return 0
		}
		return s.items[i].Time
	}
	hidden := in(overlap.Overlapping)
	t := overlap.Times{
		Compute: in(overlap.Computing) + hidden, Hidden: hidden, Transfer: in(overlap.Transferring),
		Waiting: in(overlap.Waiting), Copies: in(overlap.Copying),
	}
	t.Idle = max(0, s.Time-t.Total())
	return t
}

// charted is how many rows of a group the chart above its table shows.
const charted = 12

// whole puts compute of a group of states together: compute that is merely no longer overlapped is not more of it.
func whole(group []overlap.Change) (all []overlap.Change) {
	compute := overlap.Change{Group: overlap.ByState, Name: "compute"}
	for _, g := range group {
		if g.Name == overlap.Computing.String() || g.Name == overlap.Overlapping.String() {
			compute.Diff += g.Diff
		} else {
			all = append(all, g)
		}
	}
	all = append(all, compute)
	slices.SortStableFunc(all, func(a, b overlap.Change) int { return cmp.Compare(max(b.Diff, -b.Diff), max(a.Diff, -a.Diff)) })
	return all
}

// chart has the differences of a group; nil: there are none.
func chart(group []overlap.Change, u cli.Unit) *html.Chart {
	if group[0].Group == overlap.ByState {
		group = whole(group)
	}
	c := &html.Chart{Unit: u.Name, Parts: []html.Part{{Name: "more in B", Color: "#d55e00"}, {Name: "less in B", Color: "#009e73"}}}
	for _, g := range group[:min(charted, len(group))] {
		if g.Diff == 0 {
			continue
		}
		name, note := trace.Short(g.Name), u.Signed(g.Diff)+" "+u.Name
		c.Bars = append(c.Bars, html.Line{Name: name, Values: []float64{u.Value(max(0, g.Diff)), u.Value(min(0, g.Diff))}, Note: note, Tip: name + ": " + note})
	}
	if len(c.Bars) == 0 {
		return nil
	}
	return c
}
