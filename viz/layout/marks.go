package layout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// marksOf finds the instants to mark among the spans of a workgroup lane. Their
// spans stay spans of the row.
func marksOf(r *trace.Run, spans []trace.SpanID) []Mark {
	var marks []Mark
	for _, id := range spans {
		if k, ok := markKind(r, &r.Spans[id]); ok {
			marks = append(marks, Mark{r.Spans[id].Start, k, id})
		}
	}
	return marks
}

// markKind returns the kind of mark at the start of a span. A simulated run names its
// marks: "put", "slice ready"; what else it posts is marked as other.
func markKind(r *trace.Run, s *trace.Span) (k MarkKind, ok bool) {
	remote := destination(r, *s).remote()
	name := r.Names[s.Name]
	switch {
	case s.Kind == trace.PhaseStore:
		return StoreIssued, remote
	case s.Kind != trace.PhasePut && !(s.Kind == trace.Marker && s.Start == s.End && onWorkgroupLane(r, s)):
		return 0, false
	case strings.Contains(name, "slice") && !remote:
		return SliceDone, true
	case strings.HasPrefix(name, "put"):
		return PutIssued, true
	}
	return OtherMark, true
}

func hasMarks(rows []Row, k MarkKind) bool {
	return slices.ContainsFunc(rows, func(row Row) bool {
		return slices.ContainsFunc(row.Marks, func(m Mark) bool { return m.Kind == k })
	})
}

// markSlices marks where slices that stay here were complete, for a run that
// does not say: the workgroups of a cluster compute a slice together, each one
// tile, so the n-th local tiles of them all are a slice, and it is complete
// when the last of them ends, on that one's row.
func markSlices(r *trace.Run, classes []Class, rows []Row) {
	if !slices.ContainsFunc(rows, func(row Row) bool {
		return slices.ContainsFunc(row.Spans, func(id trace.SpanID) bool { return classes[id].remote() })
	}) {
		return // nothing leaves this rank, so "local" says nothing
	}
	local := make([][]trace.SpanID, len(rows))
	slicesDone := 0
	for i, row := range rows {
		for _, id := range tiles(r, row.Spans) {
			if classes[id] == Local {
				local[i] = append(local[i], id)
			}
		}
		slicesDone = max(slicesDone, len(local[i]))
	}
	for n := range slicesDone {
		last := -1
		for i := range rows {
			if n < len(local[i]) && (last < 0 || r.Spans[local[i][n]].End >= r.Spans[local[last][n]].End) {
				last = i
			}
		}
		id := local[last][n]
		rows[last].Marks = append(rows[last].Marks, Mark{r.Spans[id].End, SliceDone, id})
	}
	for i := range rows {
		slices.SortStableFunc(rows[i].Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	}
}
