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
// compute, overlapped, transfer, waiting or copies, or idle with the cause.
//
//	rank 0      |CCCCCOOOOXX--CCCC|   C compute, O overlapped, X transfer, - idle
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
	type kind struct {
		is    overlap.Is
		cause string
	}
	names := map[kind]trace.NameID{}
	ranks := make([]rankStates, len(v.Run.Ranks))
	overlap.States(v.Run, v.reasons(), func(x overlap.State) {
		name, ok := names[kind{x.Is, x.Cause}]
		if !ok {
			name = trace.NameID(len(s.run.Names))
			names[kind{x.Is, x.Cause}] = name
			text := x.Is.String()
			if x.Is == overlap.Idle {
				text += ": " + x.Cause
			}
			s.run.Names = append(s.run.Names, text)
		}
		ranks[x.Rank].add(rankState{x.Start, x.End, name})
		s.run.End = max(s.run.End, x.End)
	})
	s.merge(ranks)
	if len(s.run.Spans) == 0 {
		return strip{}
	}
	s.classes = classify(s.run)
	return s
}

// A rankState is a state of a rank.
type rankState struct {
	start, end trace.Time
	name       trace.NameID
}

// rankStates are the states of a rank by start, in pieces: there may be millions, and a
// growing slice would be copied many times.
type rankStates struct {
	rank   int32
	n      int
	pieces [][]rankState
}

func (r *rankStates) add(x rankState) {
	const piece = 4096
	if r.n%piece == 0 {
		r.pieces = append(r.pieces, make([]rankState, 0, piece))
	}
	last := &r.pieces[len(r.pieces)-1]
	*last = append(*last, x)
	r.n++
}

// next removes the first state.
func (r *rankStates) next() rankState {
	x := r.pieces[0][0]
	if r.pieces[0] = r.pieces[0][1:]; len(r.pieces[0]) == 0 {
		r.pieces[0] = nil // free it
		r.pieces = r.pieces[1:]
	}
	return x
}

// compare is the order of first states, by start, then rank.
func (r *rankStates) compare(t *rankStates) int {
	return cmp.Or(cmp.Compare(r.pieces[0][0].start, t.pieces[0][0].start), cmp.Compare(r.rank, t.rank))
}

// merge makes spans of the states of all ranks, by start.
func (s *strip) merge(ranks []rankStates) {
	var heads []*rankStates // that have states, in their order
	n := 0
	for row := range ranks {
		r := &ranks[row]
		r.rank = int32(row)
		if r.n > 0 {
			heads = append(heads, r)
			s.ranks[row] = make([]trace.SpanID, 0, r.n)
			n += r.n
		}
	}
	slices.SortFunc(heads, (*rankStates).compare)
	s.run.Spans = make([]trace.Span, 0, n)
	for len(heads) > 0 {
		r := heads[0]
		x := r.next()
		s.ranks[r.rank] = append(s.ranks[r.rank], trace.SpanID(len(s.run.Spans)))
		s.run.Spans = append(s.run.Spans, trace.Span{
			Kind: trace.Marker, Start: x.start, End: x.end, Name: x.name, Lane: trace.LaneID(r.rank), Parent: trace.None, Attr: trace.None,
		})
		if len(r.pieces) == 0 {
			heads = heads[1:]
			continue
		}
		at, _ := slices.BinarySearchFunc(heads[1:], r, (*rankStates).compare)
		copy(heads, heads[1:at+1])
		heads[at] = r
	}
}
