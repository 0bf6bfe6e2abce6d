package layout

import (
	"cmp"
	"slices"
	"sort"

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
// A strip is the states of a run's ranks: each ends where the next one of its rank starts. There
// may be millions, so they are no spans.
type strip struct {
	run     *trace.Run     // their names and lanes; nil if the run has no device work
	classes []Class        // by name
	starts  []trace.Time   // of states by rank; behind the last of a rank is its end, as a state without name
	names   []trace.NameID // of these
	first   []trace.SpanID // by rank row: its first state; at the end how many there are
	ids     []trace.SpanID // 0, 1, 2, ...
}

func (s *strip) add(start trace.Time, name trace.NameID) {
	s.starts, s.names = append(s.starts, start), append(s.names, name)
}

func (s *strip) start(id trace.SpanID) trace.Time { return s.starts[id] }

func (s *strip) name(id trace.SpanID) trace.NameID { return s.names[id] }

// span is a state as a span of the strip's run.
func (s *strip) span(id trace.SpanID) trace.Span {
	rank := sort.Search(len(s.run.Ranks), func(r int) bool { return s.first[r+1] > id })
	return trace.Span{
		Kind: trace.Marker, Start: s.start(id), End: s.start(id + 1), Name: s.name(id), Lane: trace.LaneID(rank),
		Parent: trace.None, Attr: trace.None,
	}
}

// of are the states of a rank.
func (s *strip) of(rank int32) []trace.SpanID {
	if s.run == nil || int(rank) >= len(s.run.Ranks) || s.first[rank] == s.first[rank+1] {
		return nil
	}
	return s.ids[s.first[rank] : s.first[rank+1]-1]
}

// largestGaps are the n largest intervals of a rank in [from, to) without computation,
// largest first.
func (s *strip) largestGaps(rank int32, from, to trace.Time, n int) []interval {
	var found []interval
	for _, id := range s.of(rank) {
		name := s.name(id)
		gap := interval{max(s.start(id), from), min(s.start(id+1), to), s.classes[name], s.run.Names[name]}
		if gap.From < gap.To && gap.Class != Local && gap.Class != Overlap {
			found = append(found, gap)
		}
	}
	slices.SortStableFunc(found, func(a, b interval) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	return found[:min(n, len(found))]
}

// IsChanges reports whether a run is what another changes of a third (overlap.ChangesOf).
func IsChanges(r *trace.Run) bool { return len(r.Lanes) > 0 && r.Lanes[0].Kind == trace.Changed }

func newStrip(v View) strip {
	s := strip{run: &trace.Run{Name: v.Run.Name, Simulated: true, Names: []string{""}, Ranks: v.Run.Ranks}, classes: []Class{Idle}}
	for row := range v.Run.Ranks {
		s.run.Lanes = append(s.run.Lanes, trace.Lane{Kind: trace.Annotation, Rank: int32(row), Peer: trace.None, Name: stripName})
	}
	if IsChanges(v.Run) { // its spans are of two runs: no states
		return strip{}
	}
	type kind struct {
		is    overlap.Is
		cause string
	}
	names := map[kind]trace.NameID{}
	var last overlap.State
	inside := insideUnseen(v.Run)
	add := func(x overlap.State) {
		name := trace.Memo(names, kind{x.Is, x.Cause}, func() trace.NameID {
			text := x.Is.String()
			if x.Is == overlap.Idle {
				text += ": " + x.Cause
			}
			s.classes = append(s.classes, stateOf(text))
			return trace.NameID(trace.Push(&s.run.Names, text))
		})
		if len(s.starts) > 0 && x.Rank != last.Rank {
			s.add(last.End, 0)
		}
		for len(s.first) <= int(x.Rank) {
			s.first = append(s.first, trace.SpanID(len(s.starts)))
		}
		s.add(x.Start, name)
		last = x
	}
	overlap.States(v.Run, v.Gaps, func(x overlap.State) {
		if x.Is == overlap.Computing {
			inside[x.Rank] = splitAt(inside[x.Rank], x, add)
		} else {
			add(x)
		}
	})
	if len(s.starts) == 0 {
		return strip{}
	}
	s.add(last.End, 0)
	for len(s.first) <= len(v.Run.Ranks) {
		s.first = append(s.first, trace.SpanID(len(s.starts)))
	}
	s.ids = make([]trace.SpanID, len(s.starts))
	for i := range s.ids {
		s.ids[i] = trace.SpanID(i)
	}
	return s
}

// splitAt adds a state of computing in parts: within kernels it is Overlap. It returns the kernels that end later.
func splitAt(kernels []trace.Span, x overlap.State, add func(overlap.State)) (later []trace.Span) {
	part := func(end trace.Time, is overlap.Is) {
		if x.Start < end {
			add(overlap.State{Rank: x.Rank, Start: x.Start, End: end, Is: is})
			x.Start = end
		}
	}
	for ; len(kernels) > 0 && kernels[0].Start < x.End; kernels = kernels[1:] {
		part(kernels[0].Start, x.Is)
		part(min(kernels[0].End, x.End), overlap.Overlapping)
		if kernels[0].End > x.End {
			return kernels
		}
	}
	part(x.End, x.Is)
	return kernels
}

// insideUnseen are the kernels, by rank and start, that compute and communicate at once, of ranks without a
// record of what they send: whether one of them computes or sends at an instant is not known.
func insideUnseen(r *trace.Run) [][]trace.Span {
	fused, kernels, seen := sendsInside(r), make([][]trace.Span, len(r.Ranks)), make([]bool, len(r.Ranks))
	for _, l := range r.Lanes {
		if l.Kind == trace.Link {
			seen[l.Rank] = true
		}
	}
	for _, s := range r.Spans {
		if rank := r.Lanes[s.Lane].Rank; s.Kind == trace.Compute && !seen[rank] && fused(s.Name) {
			kernels[rank] = append(kernels[rank], s)
		}
	}
	for row, like := range r.Like {
		kernels[row] = kernels[like]
	}
	return kernels
}
