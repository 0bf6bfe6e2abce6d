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
	ranks := make([][]rankState, len(v.Run.Ranks))
	overlap.States(v.Run, v.Gaps, func(x overlap.State) {
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
		ranks[x.Rank] = append(ranks[x.Rank], rankState{x.Start, x.End, name, x.Rank})
		s.run.End = max(s.run.End, x.End)
	})
	s.merge(ranks)
	if len(s.run.Spans) == 0 {
		return strip{}
	}
	s.classes = classify(s.run)
	return s
}

// A rankState is a state of a rank: half of a span, as there may be millions.
type rankState struct {
	start, end trace.Time
	name       trace.NameID
	rank       int32
}

// merge makes spans of the states of all ranks, by start, then rank.
func (s *strip) merge(ranks [][]rankState) {
	var heads [][]rankState // that are left of ranks with any, in their order
	n := 0
	for row, states := range ranks {
		if len(states) > 0 {
			heads = append(heads, states)
			s.ranks[row] = make([]trace.SpanID, 0, len(states))
			n += len(states)
		}
	}
	order := func(a, b []rankState) int {
		return cmp.Or(cmp.Compare(a[0].start, b[0].start), cmp.Compare(a[0].rank, b[0].rank))
	}
	slices.SortFunc(heads, order)
	s.run.Spans = make([]trace.Span, 0, n)
	for len(heads) > 0 {
		x, rest := heads[0][0], heads[0][1:]
		s.ranks[x.rank] = append(s.ranks[x.rank], trace.SpanID(len(s.run.Spans)))
		s.run.Spans = append(s.run.Spans, trace.Span{
			Kind: trace.Marker, Start: x.start, End: x.end, Name: x.name, Lane: trace.LaneID(x.rank), Parent: trace.None, Attr: trace.None,
		})
		if len(rest) == 0 {
			heads = heads[1:]
			continue
		}
		at, _ := slices.BinarySearchFunc(heads[1:], rest, order)
		copy(heads, heads[1:at+1])
		heads[at] = rest
	}
}
