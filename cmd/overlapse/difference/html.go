package difference

import (
	"fmt"
	"io"
	"slices"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/svg"
)

// WriteHTML writes a difference as a page: the two times by state, every group as a chart and
// a table, and the timelines of both from their first iterations.
func (d *Difference) WriteHTML(w io.Writer, top int) error {
	rep := html.Report{
		Title:    "overlapse: " + d.A.Name + " and " + d.B.Name,
		Verdict:  []string{d.Explanation},
		Facts:    []html.Fact{{Name: "A", Value: d.A.Name}, {Name: "B", Value: d.B.Name}, {Name: "times", Value: d.unit() + ", means over ranks"}},
		Captured: d.A.Time,
		Base:     "A",
		Heading:  "Time of a rank",
	}
	for i, s := range []Side{d.A, d.B} {
		name := string(rune('A'+i)) + ": " + s.Name
		rep.Strategies = append(rep.Strategies, html.Bar{Name: name, Time: s.Time, Times: s.times()})
		if s.run != nil {
			rep.Runs = append(rep.Runs, html.Named{Name: name, Run: s.run, Start: s.start, Gaps: s.gaps})
		}
	}
	for group := range d.groups() {
		rep.Tables = append(rep.Tables, diffTable(group, d.A.Time, top))
	}
	return html.Write(w, rep)
}

// times are the states of a side.
func (s *Side) times() overlap.Times {
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

// diffTable has a group of changes, at most top of them; top 0: all.
func diffTable(group []overlap.Change, whole trace.Time, top int) html.Table {
	u := unitOf(group)
	t := html.Table{
		Title: "By " + group[0].Group,
		Columns: []html.Column{
			{Name: "name"}, {Name: "A, " + u.Name, Number: true}, {Name: "B, " + u.Name, Number: true}, {Name: "B − A", Number: true}, {Name: "share of A", Number: true},
		},
	}
	counted := slices.ContainsFunc(group, func(c overlap.Change) bool { return c.CountA+c.CountB > 0 })
	if counted {
		t.Columns = append(t.Columns, html.Column{Name: "count in A", Number: true}, html.Column{Name: "count in B", Number: true})
	}
	chart := svg.Deltas{Title: "Differences by " + group[0].Group, Write: func(v float64) string { return u.Signed(trace.Time(v)) + " " + u.Name }}
	for i, c := range group {
		if top > 0 && i == top {
			t.Note = fmt.Sprintf("The %d rows with the largest differences of %d (--top 0 has all).", top, len(group))
			break
		}
		row := []string{layout.ShortName(c.Name), u.Number(c.A), u.Number(c.B), u.Signed(c.Diff), text.Percent(float64(c.Diff) / float64(max(1, whole)))}
		if counted {
			row = append(row, fmt.Sprint(c.CountA), fmt.Sprint(c.CountB))
		}
		t.Rows = append(t.Rows, row)
		if i < charted && c.Diff != 0 {
			chart.Rows = append(chart.Rows, svg.Delta{Name: layout.ShortName(c.Name), Value: float64(c.Diff)})
		}
	}
	if len(chart.Rows) > 0 {
		chart.Desc = chart.Describe()
		t.Drawing = svg.Differences(chart)
	}
	return t
}
