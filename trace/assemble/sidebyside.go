package assemble

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// SideBySide puts several runs into one, to compare strategies. Each run keeps its
// times and has separate rank rows labelled with its name.
func SideBySide(runs []*trace.Run, name string) *trace.Run {
	m := merger{name: name, start: make([]trace.Time, len(runs))}
	for i, r := range runs {
		for row := range r.Ranks {
			m.ranks = append(m.ranks, alignment{run: i, row: row, known: true})
		}
	}
	m.reserve(runs)
	simulated, estimated := true, ""
	for i, r := range runs {
		first := len(m.b.Run.Ranks)
		m.add(r, i)
		for k := first; k < len(m.b.Run.Ranks); k++ {
			m.b.Run.Ranks[k].Run = r.Name
		}
		simulated, estimated = simulated && r.Simulated, cmp.Or(estimated, r.Estimated)
	}
	return m.b.Finish(trace.Options{Name: name, Simulated: simulated, Estimated: estimated, KeepZero: true, Linked: true})
}

// Split is the inverse of SideBySide: the runs by name, in order of their first
// rank row. A single run is returned unchanged.
func Split(r *trace.Run) []*trace.Run {
	var names []string
	for _, k := range r.Ranks {
		if !slices.Contains(names, k.Run) {
			names = append(names, k.Run)
		}
	}
	if len(names) < 2 {
		return []*trace.Run{r}
	}
	runs := make([]*trace.Run, len(names))
	for i, n := range names {
		runs[i] = only(r, n)
	}
	return runs
}

// only returns the part of a run whose rank rows have the name. It shares the side
// tables, except those that refer to spans.
func only(r *trace.Run, name string) *trace.Run {
	part := *r
	part.Name, part.Ranks, part.Lanes, part.Spans, part.End = name, nil, nil, nil, 0
	ranks := make([]int32, len(r.Ranks))
	for i, k := range r.Ranks {
		ranks[i] = trace.None
		if k.Run == name {
			ranks[i] = int32(len(part.Ranks))
			k.Run = ""
			part.Ranks = append(part.Ranks, k)
		}
	}
	part.Waits = nil
	for _, w := range r.Waits {
		if w.Rank = ranks[w.Rank]; w.Rank != trace.None {
			part.Waits = append(part.Waits, w)
		}
	}
	lanes := make([]trace.LaneID, len(r.Lanes))
	for i, l := range r.Lanes {
		lanes[i] = trace.None
		if l.Rank = ranks[l.Rank]; l.Rank == trace.None {
			continue
		}
		if l.Peer != trace.None {
			l.Peer = ranks[l.Peer]
		}
		lanes[i] = trace.LaneID(len(part.Lanes))
		part.Lanes = append(part.Lanes, l)
	}
	spans := make([]trace.SpanID, len(r.Spans))
	for i, s := range r.Spans {
		spans[i] = trace.None
		if s.Lane = lanes[s.Lane]; s.Lane == trace.None {
			continue
		}
		if s.Parent != trace.None {
			s.Parent = spans[s.Parent] // parents precede their children
		}
		spans[i] = trace.SpanID(len(part.Spans))
		part.Spans = append(part.Spans, s)
		part.End = max(part.End, s.End)
	}
	refer(&part, spans)
	return &part
}

// refer copies the side tables that refer to spans and updates them: at maps each span
// of the whole run to its new id, or None.
func refer(r *trace.Run, at []trace.SpanID) {
	r.Kernels, r.Copies, r.Comms = slices.Clone(r.Kernels), slices.Clone(r.Copies), slices.Clone(r.Comms)
	r.Depends, r.Nodes = slices.Clone(r.Depends), slices.Clone(r.Nodes)
	r.Move(at)
	r.MatchCollectives()
}
