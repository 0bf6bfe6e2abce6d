package trace

import (
	"cmp"
	"math"
	"slices"
)

// An Index finds rows by a number that is unique within a rank only, such as
// a correlation. Fill it with Add, then call Sort once, then Find.
type Index struct {
	entries []indexEntry
	last    int // index of the last row found: look-ups mostly come in order
}

type indexEntry struct {
	rank int32
	row  int32
	key  int64
}

// Reserve allocates space for n rows.
func (x *Index) Reserve(n int) { x.entries = slices.Grow(x.entries, n) }

// Add adds a row under a number of a rank.
func (x *Index) Add(rank int32, key int64, row int32) {
	x.entries = append(x.entries, indexEntry{rank, row, key})
}

// Sort sorts the rows by rank and number, then by row.
func (x *Index) Sort() { x.sort(cmp.Compare[int32]) }

// sort sorts by rank and number, then by the given order of rows.
func (x *Index) sort(rows func(a, b int32) int) {
	order := func(a, b indexEntry) int {
		if c := compareEntries(a, b); c != 0 {
			return c
		}
		return rows(a.row, b.row)
	}
	if !slices.IsSortedFunc(x.entries, order) {
		slices.SortFunc(x.entries, order)
	}
}

func compareEntries(a, b indexEntry) int {
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Compare(a.key, b.key)
}

// Find returns the first row with the number, or None. Number 0 has no rows.
func (x *Index) Find(rank int32, key int64) int32 {
	if key == 0 {
		return None
	}
	want := indexEntry{rank, math.MinInt32, key}
	const near = 8
	for i := max(x.last, 1); i < min(x.last+near, len(x.entries)); i++ {
		if compareEntries(x.entries[i-1], want) < 0 && compareEntries(x.entries[i], want) >= 0 {
			return x.found(i, want)
		}
	}
	i, _ := slices.BinarySearchFunc(x.entries, want, compareEntries)
	return x.found(i, want)
}

// found returns the row at i, which is the first entry not below want, if it has the number.
func (x *Index) found(i int, want indexEntry) int32 {
	x.last = i
	if i == len(x.entries) || compareEntries(x.entries[i], want) != 0 {
		return None
	}
	return x.entries[i].row
}

// Link sets Kernel.Launch, CopyAttr.Launch and the calls of waits from the
// correlations, and sets the kind of calls that launched something to Launch. Readers
// that need launches before Finish call it when all spans have their lanes; otherwise
// Finish calls it. If several calls have one correlation, the first to start is taken.
func (b *Builder) Link() {
	b.Run.Link(true)
	b.linked = true
}

// Link is Builder.Link of a run; without mark it leaves the kinds of calls alone.
func (r *Run) Link(mark bool) {
	for i := range r.Kernels {
		r.Kernels[i].Launch = None
	}
	for i := range r.Copies {
		r.Copies[i].Launch = None
	}
	calls := r.numberedCalls()
	rows := r.hostRows(calls)
	find := func(rank int32, correlation int64) SpanID { return SpanID(calls.Find(rows[rank], correlation)) }
	for i := range r.Waits {
		w := &r.Waits[i]
		w.Call, w.Recorded = find(w.Rank, w.Correlation), find(w.Rank, w.Record)
	}
	if len(calls.entries) == 0 {
		return
	}
	calls.last = 0
	for i := range r.Spans {
		s := &r.Spans[i]
		launch := r.launchAt(s)
		if launch == nil {
			continue
		}
		if *launch = find(r.Lanes[s.Lane].Rank, r.correlation(s)); mark && *launch != None {
			r.Spans[*launch].Kind = Launch
		}
	}
}

// launchAt returns a pointer to the Launch of a kernel or copy; nil for other spans.
func (r *Run) launchAt(s *Span) *SpanID {
	switch {
	case s.Attr == None:
	case s.Kind == Compute || s.Kind == Collective:
		return &r.Kernels[s.Attr].Launch
	case s.Kind == Copy || s.Kind == Transfer:
		return &r.Copies[s.Attr].Launch
	}
	return nil
}

// correlation returns the correlation of a kernel or copy.
func (r *Run) correlation(s *Span) int64 {
	if s.Kind == Compute || s.Kind == Collective {
		return r.Kernels[s.Attr].Correlation
	}
	return r.Copies[s.Attr].Correlation
}

// numberedCalls indexes the host calls that have a correlation.
func (r *Run) numberedCalls() *Index {
	n := 0
	for i := range r.Calls {
		if r.Calls[i].Correlation != 0 {
			n++
		}
	}
	x := &Index{}
	if n == 0 {
		return x
	}
	x.Reserve(n)
	for i := range r.Spans {
		s := &r.Spans[i]
		if s.Kind != HostCall && s.Kind != Launch || s.Attr == None {
			continue
		}
		if c := r.Calls[s.Attr].Correlation; c != 0 {
			x.Add(r.Lanes[s.Lane].Rank, c, int32(i))
		}
	}
	x.sort(func(i, j int32) int {
		p, q := &r.Spans[i], &r.Spans[j]
		return cmp.Or(cmp.Compare(p.Start, q.Start), cmp.Compare(q.End, p.End), cmp.Compare(i, j))
	})
	return x
}

// hostRows returns, by rank row, the row whose host threads launched its work: if ranks
// share a process, the first has all host threads.
func (r *Run) hostRows(calls *Index) []int32 {
	ranks := r.Ranks
	has := make([]bool, len(ranks))
	for _, e := range calls.entries {
		has[e.rank] = true
	}
	type process struct {
		id                int64
		source, host, run string
	}
	keyOf := func(r *Rank) process { return process{r.Process, r.Source, r.Host, r.Run} }
	first := map[process]int32{}
	for i := range slices.Backward(ranks) {
		if has[i] {
			first[keyOf(&ranks[i])] = int32(i)
		}
	}
	rows := make([]int32, len(ranks))
	for i := range ranks {
		rows[i] = int32(i)
		if row, ok := first[keyOf(&ranks[i])]; ok && !has[i] && ranks[i].Process != 0 {
			rows[i] = row
		}
	}
	return rows
}
