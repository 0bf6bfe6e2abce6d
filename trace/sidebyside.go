package trace

import (
	"cmp"
	"slices"
)

// SideBySide puts several runs into one, to compare strategies. Each run keeps its
// times and has separate rank rows labelled with its name.
func SideBySide(runs []*Run, name string) *Run {
	m := merger{name: name, start: make([]Time, len(runs))}
	for i, r := range runs {
		for row := range r.Ranks {
			m.ranks = append(m.ranks, alignment{run: i, row: row, known: true})
		}
	}
	m.reserve(runs)
	simulated, estimated := true, ""
	for i, r := range runs {
		first := len(m.b.run.Ranks)
		m.add(r, i)
		for k := first; k < len(m.b.run.Ranks); k++ {
			m.b.run.Ranks[k].Run = r.Name
		}
		simulated, estimated = simulated && r.Simulated, cmp.Or(estimated, r.Estimated)
	}
	m.interleave()
	return m.b.Finish(Options{Name: name, Simulated: simulated, Estimated: estimated, KeepZero: true})
}

// Split is the inverse of SideBySide: the runs by name, in order of their first
// rank row. A single run is returned unchanged.
func Split(r *Run) []*Run {
	var names []string
	for _, k := range r.Ranks {
		if !slices.Contains(names, k.Run) {
			names = append(names, k.Run)
		}
	}
	if len(names) < 2 {
		return []*Run{r}
	}
	runs := make([]*Run, len(names))
	for i, n := range names {
		runs[i] = r.only(n)
	}
	return runs
}

// only returns the part of a run whose rank rows have the name. It shares the side
// tables, except those that refer to spans.
func (r *Run) only(name string) *Run {
	part := *r
	part.Name, part.Ranks, part.Lanes, part.Spans, part.End = name, nil, nil, nil, 0
	ranks := make([]int32, len(r.Ranks))
	for i, k := range r.Ranks {
		ranks[i] = None
		if k.Run == name {
			ranks[i] = int32(len(part.Ranks))
			k.Run = ""
			part.Ranks = append(part.Ranks, k)
		}
	}
	part.Waits = nil
	for _, w := range r.Waits {
		if w.Rank = ranks[w.Rank]; w.Rank != None {
			part.Waits = append(part.Waits, w)
		}
	}
	lanes := make([]LaneID, len(r.Lanes))
	for i, l := range r.Lanes {
		lanes[i] = None
		if l.Rank = ranks[l.Rank]; l.Rank == None {
			continue
		}
		if l.Peer != None {
			l.Peer = ranks[l.Peer]
		}
		lanes[i] = LaneID(len(part.Lanes))
		part.Lanes = append(part.Lanes, l)
	}
	spans := make([]SpanID, len(r.Spans))
	for i, s := range r.Spans {
		spans[i] = None
		if s.Lane = lanes[s.Lane]; s.Lane == None {
			continue
		}
		if s.Parent != None {
			s.Parent = spans[s.Parent] // parents precede their children
		}
		spans[i] = SpanID(len(part.Spans))
		part.Spans = append(part.Spans, s)
		part.End = max(part.End, s.End)
	}
	part.refer(spans)
	return &part
}

// refer copies the side tables that refer to spans and updates them: at maps each span
// of the whole run to its new id, or None.
func (r *Run) refer(at []SpanID) {
	r.Kernels, r.Copies, r.Comms = slices.Clone(r.Kernels), slices.Clone(r.Copies), slices.Clone(r.Comms)
	mapLaunches(r.Kernels, r.Copies, r.Waits, at)
	r.matchCollectives()
}

// After returns the kernels and copies of a run from a time on, by rank row; work in
// progress at that time starts then. Host calls and waits are left out, and ranks without
// a time: GPUs of a machine that the job does not use.
func (r *Run) After(from []Time) *Run {
	part := *r
	part.Spans, part.Waits = nil, nil
	for _, s := range r.Spans {
		row := r.RankOf(s)
		if row >= len(from) || !s.Kind.OnDevice() {
			continue
		}
		if at := from[row]; s.End > at {
			s.Start, s.Parent = max(s.Start, at), None
			part.Spans = append(part.Spans, s)
		}
	}
	slices.SortStableFunc(part.Spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	part.refer(slices.Repeat([]SpanID{None}, len(r.Spans)))
	return &part
}
