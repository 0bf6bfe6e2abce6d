package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Use is what one rank of a run uses over time, in the run's time.
type Use struct {
	Rank   int32 // row of Run.Ranks
	Name   string
	Color  string  // "#rrggbb"
	Most   float64 // the value at full height
	Unit   string  // "%", "GB/s"
	Points []Point // by time; each holds until the next
}

// A Point is a value from a time on.
type Point struct {
	At    trace.Time
	Value float64
}

// valueText writes a value with three digits and its unit.
func valueText(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(text + " " + unit)
}

// usePoints is how many points a row of the use over time has at most, and mostUse how many all
// rows have when no further rank is added.
const usePoints, mostUse = 300, 25_000

// useGraphs are the use over time that page/use.js draws, a graph a rank; Left says how many more there were.
type useGraphs struct {
	List []useGraph
	Left string
}

// A useGraph is rows over one time axis, which begins at 0, below the name of their run.
type useGraph struct {
	Name   string     `json:"name"`
	End    trace.Time `json:"end"`
	Groups []useGroup `json:"groups"`
}

type useGroup struct {
	Name string   `json:"name"`
	Rows []useRow `json:"rows"`
}

type useRow struct {
	Name  string       `json:"name"`
	Color string       `json:"color"`
	Scale string       `json:"scale"` // "0 to 100 %"
	At    []trace.Time `json:"at"`
	Share []float64    `json:"share"` // of the full height, from that time on
}

// useGraphs show what the runs that timelines show at first use over time: the shares that a simulation recorded, else what
// counts of kernels and copies tell.
func (r Report) useGraphs() *useGraphs {
	views, origin := r.views()
	f, points, more := &useGraphs{}, 0, 0
	uses := make([][]Use, len(r.Runs))
	most := map[string]float64{}
	for _, i := range r.firstShown() {
		n := r.Runs[i]
		if layout.IsChanges(n.Run) {
			continue
		}
		uses[i] = slices.Concat(n.Use, counted(n.Run, n.Use != nil))
		for _, u := range uses[i] {
			most[u.Name] = max(most[u.Name], u.Most)
		}
	}
	for rank := range r.ranks() {
		g, before := useGraph{Name: fmt.Sprintf("rank %d", r.rankID(rank)), End: 1}, points
		for i, n := range r.Runs {
			shift := views[i].Offset - origin
			g.End = max(g.End, n.Run.End+shift)
			group := useGroup{Name: n.title()}
			for _, u := range uses[i] {
				if u.Rank == rank {
					u.Most = most[u.Name]
					row := u.row(n.Run.End, shift)
					points += len(row.At)
					group.Rows = append(group.Rows, row)
				}
			}
			if len(group.Rows) > 0 {
				g.Groups = append(g.Groups, group)
			}
		}
		switch {
		case len(g.Groups) == 0:
		case before > mostUse:
			more++
		default:
			f.List = append(f.List, g)
		}
	}
	if more > 0 {
		f.Left = fmt.Sprintf("%d more are left out", more)
	}
	if len(f.List) == 0 {
		return nil
	}
	return f
}

// row shifts points and leaves out those that a reader could not tell from the one before.
func (u *Use) row(end, shift trace.Time) useRow {
	row := useRow{Name: u.Name, Color: u.Color, Scale: "0 to " + valueText(u.Most, u.Unit)}
	add := func(at trace.Time, share float64) {
		row.At, row.Share = append(row.At, at+shift), append(row.Share, math.Round(1000*share)/1000)
	}
	last := math.Inf(1)
	for _, p := range u.Points {
		if math.Abs(last-p.Value) > u.Most/100 || (p.Value == 0) != (last == 0) {
			last = p.Value
			add(p.At, p.Value/max(u.Most, math.SmallestNonzeroFloat64))
		}
	}
	add(end, 0)
	return row
}

// counted are the counters of a run; of one with recorded shares only what these lack.
func counted(run *trace.Run, shares bool) []Use {
	colors := map[string]layout.Class{overlap.RunningComm: layout.Comm, overlap.Bandwidth: layout.Comm, overlap.RunningCopies: layout.Copy}
	var all []Use
	for _, c := range overlap.Counters(run, usePoints) {
		if shares && c.Name != overlap.RunningCopies {
			continue
		}
		class, ok := colors[c.Name]
		if !ok {
			class = layout.Local
		}
		u := Use{Rank: c.Rank, Name: c.Name, Color: class.CSS()}
		for _, p := range c.Points {
			u.Points = append(u.Points, Point{At: p.At, Value: p.Value})
			u.Most = max(u.Most, p.Value)
		}
		all = append(all, u)
	}
	return all
}
