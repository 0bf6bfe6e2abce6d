package layout

import (
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

func newStrip(v View) strip {
	var reasons []overlap.Reason
	for _, g := range v.Gaps {
		reasons = append(reasons, overlap.Reason{Rank: g.Rank, Queue: g.Queue, Start: g.From, End: g.To, Cause: g.Cause})
	}
	states := overlap.States(v.Run, reasons)
	if len(states) == 0 {
		return strip{}
	}
	b := new(trace.Builder)
	for row := range v.Run.Ranks {
		b.AddRank(v.Run.Ranks[row])
		b.Lane(trace.Lane{Kind: trace.Annotation, Rank: int32(row), Peer: trace.None, Name: stripName})
	}
	for _, s := range states {
		name := s.Is.String()
		if s.Is == overlap.Idle {
			name += ": " + s.Cause
		}
		b.Add(trace.Span{Kind: trace.Marker, Start: s.Start, End: s.End, Name: b.Intern(name), Lane: trace.LaneID(s.Rank), Parent: trace.None, Attr: trace.None})
	}
	s := strip{run: b.Finish(trace.Options{Name: v.Run.Name, Simulated: true, KeepZero: true})}
	s.classes, s.ranks = classify(s.run), make([][]trace.SpanID, len(v.Run.Ranks))
	for i := range s.run.Spans {
		rank := s.run.RankOf(s.run.Spans[i])
		s.ranks[rank] = append(s.ranks[rank], trace.SpanID(i))
	}
	return s
}
