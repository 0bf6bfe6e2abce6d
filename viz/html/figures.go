package html

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/overlapse/overlapse/trace"
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

// shownViews are the runs that a page shows at first, with their starts at 0.
func (r Report) shownViews() []layout.View {
	views, origin := r.views()
	var shown []layout.View
	for run, v := range views {
		if slices.Contains(r.firstShown(), run) {
			v.Offset -= origin
			shown = append(shown, v)
		}
	}
	return shown
}

// laneFigure is the timeline of queues, engines and links that the page shows until its script
// has drawn the one to be zoomed, and all that it shows without scripts.
func (r Report) laneFigure() template.HTML {
	views := r.shownViews()
	t := layout.New(views)
	lanes := 0
	for _, row := range t.Rows {
		if row.Kind == layout.LaneRow && onPage(views[row.View].Run.Lanes[row.Lane].Kind) {
			lanes++
		}
	}
	if lanes == 0 {
		return ""
	}
	return template.HTML(svg.Timeline(t, svg.Options{Title: "Timeline of queues", To: t.End, Show: func(row int) bool {
		rank := t.Rows[row].Rank
		return lanes <= r.mostLanes() || rank == trace.None || r.rankID(rank) == r.Rank
	}}).Inline())
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

// partFigure compares the workgroups of runs on the first part that has some, or shows
// Figure 11 of runs without operations.
func (r Report) partFigure() (figure template.HTML) {
	draw := func(t *layout.Timeline, name string) {
		if figure == "" {
			figure = template.HTML(svg.Timeline(t, svg.Options{Title: name}).Inline())
		}
	}
	views := r.layoutViews()
	for rank := range r.ranks() {
		for _, part := range r.partsOn(views, rank) {
			if t, err := layout.Compared(slices.DeleteFunc(slices.Clone(views), func(v layout.View) bool { return !hasWorkgroups(v, rank, part) }), rank, part, figureRows); err == nil {
				draw(t, fmt.Sprintf("%s, rank %d", part.Name, r.rankID(rank)))
				return figure
			}
		}
	}
	r.figures11(func(run int, t *layout.Timeline) { draw(t, r.Runs[run].Name+": "+t.Title) }, 2*figureRows)
	return figure
}

// hasWorkgroups reports whether a run has workgroups of a part.
func hasWorkgroups(v layout.View, rank int32, part layout.Part) bool {
	if int(rank) >= len(v.Run.Ranks) {
		return false
	}
	t, err := layout.Compared([]layout.View{v}, rank, part, 1)
	return err == nil && slices.ContainsFunc(t.Rows, func(row layout.Row) bool { return row.Kind == layout.LaneRow })
}
