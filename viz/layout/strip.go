package layout

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// stripName is the name of the lanes of strips.
const stripName = "overlap"

// The strip of a rank is the heading of its rows: what the rank did over time, which is
// compute, overlapped, exposed communication or copies, or idle with the cause.
//
//	rank 0      |CCCCCOOOOXX--CCCC|   C compute, O overlapped, X exposed, - idle
//	  stream 7  |CCCCCCCCC    CCCC|
//	  stream 20 |     XXXXXX      |
//
// A strip is the states of a run's ranks, as spans of a run of their own.
type strip struct {
	run     *trace.Run // nil if the run has no device work
	classes []Class
	ranks   [][]trace.SpanID // by rank row
}

// largestGaps are the n largest intervals of a rank in [from, to) without computation,
// largest first.
func (s *strip) largestGaps(rank int32, from, to trace.Time, n int) []Interval {
	if s.run == nil || int(rank) >= len(s.ranks) {
		return nil
	}
	var found []Interval
	for _, id := range s.ranks[rank] {
		x := s.run.Spans[id]
		gap := Interval{max(x.Start, from), min(x.End, to), s.classes[id], s.run.NameOf(x)}
		if gap.From < gap.To && gap.Class != Local && gap.Class != Overlap {
			found = append(found, gap)
		}
	}
	slices.SortStableFunc(found, func(a, b Interval) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	return found[:min(n, len(found))]
}

// reasons are the gaps.
func (v View) reasons() []overlap.Reason {
	var reasons []overlap.Reason
	for _, g := range v.Gaps {
		reasons = append(reasons, overlap.Reason{Rank: g.Rank, Queue: g.Queue, Start: g.From, End: g.To, Cause: g.Cause, Note: g.Note})
	}
	return reasons
}

// An Edge is a span that another one waited for.
type Edge = overlap.Edge

// Edges finds the edges of a run by To, at most most of each kind.
func Edges(v View, most int) []Edge { return overlap.Edges(v.Run, v.reasons(), most) }

// CriticalPath is the critical path of a run from the first start to the last end of device
// work: its steps follow each other without holes, in the run's time.
func CriticalPath(v View) overlap.Path { return overlap.CriticalPath(v.Run, v.reasons()) }

func newStrip(v View) strip {
	s := strip{run: &trace.Run{Name: v.Run.Name, Simulated: true, Names: []string{""}, Ranks: v.Run.Ranks}, ranks: make([][]trace.SpanID, len(v.Run.Ranks))}
	for row := range v.Run.Ranks {
		s.run.Lanes = append(s.run.Lanes, trace.Lane{Kind: trace.Annotation, Rank: int32(row), Peer: trace.None, Name: stripName})
	}
	type state struct {
		is    overlap.Is
		cause string
	}
	names := map[state]trace.NameID{}
	overlap.States(v.Run, v.reasons(), func(x overlap.State) {
		name, ok := names[state{x.Is, x.Cause}]
		if !ok {
			name = trace.NameID(len(s.run.Names))
			names[state{x.Is, x.Cause}] = name
			text := x.Is.String()
			if x.Is == overlap.Idle {
				text += ": " + x.Cause
			}
			s.run.Names = append(s.run.Names, text)
		}
		s.run.Spans = append(s.run.Spans, trace.Span{
			Kind: trace.Marker, Start: x.Start, End: x.End, Name: name, Lane: trace.LaneID(x.Rank), Parent: trace.None, Attr: trace.None,
		})
		s.run.End = max(s.run.End, x.End)
	})
	if len(s.run.Spans) == 0 {
		return strip{}
	}
	slices.SortFunc(s.run.Spans, func(a, b trace.Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Lane, b.Lane)) })
	s.classes = classify(s.run)
	for i := range s.run.Spans {
		rank := s.run.Spans[i].Lane
		s.ranks[rank] = append(s.ranks[rank], trace.SpanID(i))
	}
	return s
}
