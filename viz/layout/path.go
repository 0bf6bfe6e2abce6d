package layout

import (
	"cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Hop is a stretch of a run's critical path on one row, in times of the axis.
type Hop struct {
	Row      int // of the lane on which the work ran, or the gap's next work
	From, To trace.Time
	Label    string // of a gap: why nothing ran; "" for work
}

// Hops lays the critical path of a view on the rows of its lanes. Hops follow each other in
// time without holes. Gaps shorter than the grain count as work, and work on one row that
// only such gaps interrupt is one hop.
func (t *Timeline) Hops(view int, grain trace.Time) []Hop {
	v := t.Views[view]
	rows := map[trace.LaneID]int{}
	for i := range t.Rows {
		if r := &t.Rows[i]; r.View == view && r.Kind == LaneRow {
			rows[r.Lane] = i
		}
	}
	var hops []Hop
	for _, s := range overlap.CriticalPath(v.Run, v.Gaps).Steps {
		row, ok := rows[v.Run.Spans[s.Span].Lane]
		if !ok {
			continue
		}
		hop := Hop{Row: row, From: s.Start + v.Offset, To: s.End + v.Offset}
		if s.Gap() && s.End-s.Start >= grain {
			hop.Label = cmp.Or(s.Label(), "gap")
		}
		if n := len(hops); n > 0 && hops[n-1].Row == hop.Row && hops[n-1].Label == hop.Label {
			hops[n-1].To = hop.To
			continue
		}
		if hop.From < hop.To {
			hops = append(hops, hop)
		}
	}
	return hops
}
