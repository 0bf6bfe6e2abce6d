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
	last    int // where Find found something last: look-ups mostly come in order
}

type indexEntry struct {
	rank int32
	row  int32
	key  int64
}

// Reserve makes room for n rows.
func (x *Index) Reserve(n int) { x.entries = slices.Grow(x.entries, n) }

// Add adds a row under a number of a rank.
func (x *Index) Add(rank int32, key int64, row int32) {
	x.entries = append(x.entries, indexEntry{rank, row, key})
}

// Sort sorts the rows by rank and number, then by row.
func (x *Index) Sort() { x.sort(cmp.Compare[int32]) }

// sort takes the order of rows that have the same number.
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

// linkTables gives access to the spans and side tables of a run that is being
// built, whether they are still in pieces or not.
type linkTables struct {
	run *Run // lanes, ranks and waits

	spans, callRows, kernels, copies int

	span   func(SpanID) *Span
	call   func(int32) *Call
	kernel func(int32) *Kernel
	copy   func(int32) *CopyAttr
}

// Link sets Kernel.Launch, CopyAttr.Launch and the calls of waits from the
// correlations, and gives the calls that launched something the kind Launch.
// Readers that need launches before the end call it when all spans have their
// lanes; Finish calls it otherwise. Of several calls with one correlation, the
// first to start is taken.
func (b *Builder) Link() {
	t := linkTables{&b.run, b.Len(), b.calls.rows, b.kernels.rows, b.copies.rows, b.Span, b.Call, b.Kernel, b.Copy}
	t.link(true)
	b.linked = true
}

// link sets launches. If mark is set it also gives calls that launched something their kind.
func (t *linkTables) link(mark bool) {
	for i := range t.kernels {
		t.kernel(int32(i)).Launch = None
	}
	for i := range t.copies {
		t.copy(int32(i)).Launch = None
	}
	calls := t.calls()
	rows := t.hostRows(calls)
	find := func(rank int32, correlation int64) SpanID { return SpanID(calls.Find(rows[rank], correlation)) }
	for i := range t.run.Waits {
		w := &t.run.Waits[i]
		w.Call, w.Recorded = find(w.Rank, w.Correlation), find(w.Rank, w.Record)
	}
	if len(calls.entries) == 0 {
		return
	}
	calls.last = 0
	for i := range t.spans {
		s := t.span(SpanID(i))
		if s.Attr == None {
			continue
		}
		launch := SpanID(None)
		switch s.Kind {
		case Compute, Collective:
			k := t.kernel(s.Attr)
			k.Launch = find(t.run.Lanes[s.Lane].Rank, k.Correlation)
			launch = k.Launch
		case Copy, Transfer:
			c := t.copy(s.Attr)
			c.Launch = find(t.run.Lanes[s.Lane].Rank, c.Correlation)
			launch = c.Launch
		}
		if mark && launch != None {
			t.span(launch).Kind = Launch
		}
	}
}

// calls indexes the host calls that have a correlation.
func (t *linkTables) calls() *Index {
	n := 0
	for i := range t.callRows {
		if t.call(int32(i)).Correlation != 0 {
			n++
		}
	}
	x := &Index{}
	if n == 0 {
		return x
	}
	x.Reserve(n)
	for i := range t.spans {
		s := t.span(SpanID(i))
		if s.Kind != HostCall && s.Kind != Launch || s.Attr == None {
			continue
		}
		if c := t.call(s.Attr).Correlation; c != 0 {
			x.Add(t.run.Lanes[s.Lane].Rank, c, int32(i))
		}
	}
	x.sort(func(a, b int32) int {
		p, q := t.span(SpanID(a)), t.span(SpanID(b))
		return cmp.Or(cmp.Compare(p.Start, q.Start), cmp.Compare(q.End, p.End), cmp.Compare(a, b))
	})
	return x
}

// hostRows returns, by rank row, the row whose host threads launched its work:
// of the ranks of one process, the first has them all.
func (t *linkTables) hostRows(calls *Index) []int32 {
	has := make([]bool, len(t.run.Ranks))
	for _, e := range calls.entries {
		has[e.rank] = true
	}
	type process struct {
		id                int64
		source, host, run string
	}
	first := map[process]int32{}
	rows := make([]int32, len(t.run.Ranks))
	for i := range t.run.Ranks {
		r := &t.run.Ranks[i]
		key := process{r.Process, r.Source, r.Host, r.Run}
		if _, ok := first[key]; !ok && has[i] {
			first[key] = int32(i)
		}
	}
	for i := range t.run.Ranks {
		r := &t.run.Ranks[i]
		rows[i] = int32(i)
		if row, ok := first[process{r.Process, r.Source, r.Host, r.Run}]; ok && !has[i] && r.Process != 0 {
			rows[i] = row
		}
	}
	return rows
}

// mark gives the calls that launched something their kind.
func (t *linkTables) mark() {
	for i := range t.spans {
		if id := t.launch(SpanID(i)); id != None {
			t.span(id).Kind = Launch
		}
	}
}

// launch returns the call that launched a span, or None.
func (t *linkTables) launch(id SpanID) SpanID {
	switch s := t.span(id); {
	case s.Attr == None:
	case s.Kind == Compute || s.Kind == Collective:
		return t.kernel(s.Attr).Launch
	case s.Kind == Copy || s.Kind == Transfer:
		return t.copy(s.Attr).Launch
	}
	return None
}

// mapLaunches rewrites the ids of calls after spans moved: at gives the new id of each.
func mapLaunches(kernels []Kernel, copies []CopyAttr, waits []Wait, at []SpanID) {
	to := func(id SpanID) SpanID {
		if id == None {
			return None
		}
		return at[id]
	}
	for i := range kernels {
		kernels[i].Launch = to(kernels[i].Launch)
	}
	for i := range copies {
		copies[i].Launch = to(copies[i].Launch)
	}
	for i := range waits {
		waits[i].Call, waits[i].Recorded = to(waits[i].Call), to(waits[i].Recorded)
	}
}
