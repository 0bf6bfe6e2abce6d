package html

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/svg"
)

// A figure is a chart as SVG: what the page shows until its script has drawn the chart to be
// zoomed, and all that it shows without scripts or without ECharts.
type figure struct {
	Name string
	SVG  template.HTML
}

// mostFigures is the size of the figures of one section, in bytes, from which on no more are added.
const mostFigures = 1 << 20

// figures are those of a section; left says how many more there were.
type figures struct {
	List []figure
	Left string
	size int
	more int
	most int  // size from which on no more are added; 0: mostFigures
	all  bool // else the first only
}

// add draws one more figure if there is room.
func (f *figures) add(name string, draw func() *svg.Drawing) {
	if len(f.List) > 0 && (!f.all || f.size > cmp.Or(f.most, mostFigures)) {
		f.more++
		return
	}
	text := draw().Inline()
	f.size += len(text)
	f.List = append(f.List, figure{name, template.HTML(text)})
}

func (f *figures) finish() *figures {
	if len(f.List) == 0 {
		return nil
	}
	if f.all && f.more > 0 {
		f.Left = fmt.Sprintf("%d more are left out", f.more)
	}
	return f
}

// barFigure is the chart of the strategies.
func (r Report) barFigure() template.HTML {
	used := r.used(parts())
	c := svg.Chart{
		Title: "Time of every strategy", Desc: "The table below has the numbers.", Mark: float64(r.Captured),
		Write: func(v float64) string { return layout.Short(trace.Time(v)) },
		Tick:  func(v float64) string { return layout.Exact(trace.Time(math.Round(v))) },
	}
	for _, p := range used {
		c.Parts = append(c.Parts, svg.Part{Name: p.Label, Color: p.Color})
	}
	for _, b := range r.Strategies {
		bar := svg.Bar{Name: b.Name, Under: b.Params, Note: r.barLabel(b), Faint: b.Bound}
		for _, p := range used {
			bar.Values = append(bar.Values, float64(p.of(b)))
		}
		c.Bars = append(c.Bars, bar)
	}
	return template.HTML(svg.Bars(c).Inline())
}

// shownViews are the runs that a page shows at first, or all, with their starts at 0.
func (r Report) shownViews(all bool) []layout.View {
	views, origin := r.views()
	var shown []layout.View
	for run, v := range views {
		if all || slices.Contains(r.firstShown(), run) {
			v.Offset -= origin
			shown = append(shown, v)
		}
	}
	return shown
}

// laneFigures are the timelines of queues, engines and links: of all ranks together if
// they are few, else of each.
func (r Report) laneFigures(all bool) *figures {
	views := r.shownViews(all)
	t := layout.New(views)
	lanes := 0
	for _, row := range t.Rows {
		if row.Kind == layout.LaneRow && onPage(views[row.View].Run.Lanes[row.Lane].Kind) {
			lanes++
		}
	}
	f := &figures{all: all}
	if lanes == 0 {
		return nil
	}
	if lanes <= mostLanes {
		f.add("", func() *svg.Drawing {
			return svg.Timeline(t, svg.Options{Title: "Timeline of queues", To: t.End, Path: all})
		})
		return f.finish()
	}
	for rank := range r.ranks() {
		name := fmt.Sprintf("rank %d", r.rankID(rank))
		f.add(name, func() *svg.Drawing {
			return svg.Timeline(t, svg.Options{Title: "Timeline of queues, " + name, To: t.End, Path: all, Show: func(row int) bool {
				return t.Rows[row].Rank == rank || t.Rows[row].Rank == trace.None
			}})
		})
	}
	return f.finish()
}

// rankID is the job's number of a rank row.
func (r Report) rankID(rank int32) int {
	for _, n := range r.Runs {
		if int(rank) < len(n.Run.Ranks) {
			return n.Run.RankID(rank)
		}
	}
	return int(rank)
}

// figureRows is how many workgroups a figure shows of a kernel.
const figureRows = 8

// partFigures compare the workgroups of runs, or show Figure 11 of runs without operations.
func (r Report) partFigures(all bool) *figures {
	f := &figures{all: all}
	var views []layout.View
	for i, v := range r.layoutViews() {
		if all || slices.Contains(r.firstShown(), i) {
			views = append(views, v)
		}
	}
	for rank := range r.ranks() {
		for _, part := range r.partsOn(views, rank) {
			t, err := layout.Compared(views, rank, part, figureRows)
			if err != nil || !hasWorkgroups(t) {
				continue
			}
			name := fmt.Sprintf("%s, rank %d", part.Name, r.rankID(rank))
			f.add(name, func() *svg.Drawing { return svg.Timeline(t, svg.Options{Title: name}) })
		}
	}
	if len(f.List) == 0 {
		r.figures11(func(run int, t *layout.Timeline) {
			name := r.Runs[run].Name + ": " + t.Title
			f.add(name, func() *svg.Drawing { return svg.Timeline(t, svg.Options{Title: name}) })
		}, 2*figureRows)
	}
	return f.finish()
}

func hasWorkgroups(t *layout.Timeline) bool {
	return slices.ContainsFunc(t.Rows, func(row layout.Row) bool { return row.Kind == layout.LaneRow })
}
