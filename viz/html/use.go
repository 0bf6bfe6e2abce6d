package html

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/svg"
)

// A figure is a chart as SVG.
type figure struct {
	Name string
	SVG  template.HTML
}

// figures are those of a section; Left says how many more there were.
type figures struct {
	List []figure
	Left string
}

// A Use is what one rank of a run uses over time, in the run's time.
type Use struct {
	Rank int32 // row of Run.Ranks
	svg.Quantity
}

// usePoints is how many points a row of the use over time has at most, and mostUse the size
// of all rows, in bytes, from which on no further rank is added.
const usePoints, mostUse = 300, 256 << 10

// useFigures show what runs use over time, a figure a rank: the shares that a simulation
// recorded, else what counts of kernels and copies tell.
func (r Report) useFigures() *figures {
	views, origin := r.views()
	f, size, more := &figures{}, 0, 0
	uses := make([][]Use, len(r.Runs))
	most := map[string]float64{}
	for i, n := range r.Runs {
		uses[i] = slices.Concat(n.Use, counted(n.Run, n.Use != nil))
		for _, u := range uses[i] {
			most[u.Name] = max(most[u.Name], u.Most)
		}
	}
	for rank := range r.ranks() {
		g := svg.Graph{Title: fmt.Sprintf("Utilisation over time, rank %d", r.rankID(rank)), Desc: "One row a resource, below each strategy."}
		for i, n := range r.Runs {
			shift := views[i].Offset - origin
			g.To = max(g.To, n.Run.End+shift)
			group := svg.Group{Name: n.title()}
			for _, u := range uses[i] {
				if u.Rank == rank {
					q := u.Quantity
					q.Points, q.Most = coarse(u.Points, n.Run.End, shift, most[u.Name]), most[u.Name]
					group.Rows = append(group.Rows, q)
				}
			}
			if len(group.Rows) > 0 {
				g.Groups = append(g.Groups, group)
			}
		}
		switch {
		case len(g.Groups) == 0:
		case size > mostUse:
			more++
		default:
			text := svg.Rows(g).Inline()
			size += len(text)
			f.List = append(f.List, figure{fmt.Sprintf("rank %d", r.rankID(rank)), template.HTML(text)})
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

// coarse shifts points and leaves out those that a reader could not tell from the one before.
func coarse(points []svg.Point, end, shift trace.Time, most float64) []svg.Point {
	var out []svg.Point
	for _, p := range points {
		p.At += shift
		if n := len(out); n == 0 || math.Abs(out[n-1].Value-p.Value) > most/100 || (p.Value == 0) != (out[n-1].Value == 0) {
			out = append(out, p)
		}
	}
	return append(out, svg.Point{At: end + shift})
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
		u := Use{c.Rank, svg.Quantity{Name: c.Name, Color: class.CSS()}}
		for _, p := range c.Points {
			u.Points = append(u.Points, svg.Point{At: p.At, Value: p.Value})
			u.Most = max(u.Most, p.Value)
		}
		all = append(all, u)
	}
	return all
}
