package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Kernel sums up the device work of one name over all ranks.
type Kernel struct {
	Name  string     `json:"name"`
	Kind  string     `json:"kind"` // of trace.Kind
	Count int        `json:"count"`
	Total trace.Time `json:"total_ns"` // of durations, overlapping or not
	Min   trace.Time `json:"min_ns"`
	Max   trace.Time `json:"max_ns"`
}

// kernels sums up by name and kind; the longest in total comes first.
func kernels(run *trace.Run, work []rankWork) []Kernel {
	type key struct {
		name trace.NameID
		kind trace.Kind
	}
	rows := map[key]int32{}
	var all []Kernel
	for _, w := range work {
		for _, id := range w.ops {
			s := run.Spans[id]
			at := trace.Memo(rows, key{s.Name, s.Kind}, func() int32 {
				return trace.Push(&all, Kernel{Name: run.NameOf(s), Kind: s.Kind.String(), Min: s.Dur()})
			})
			k := &all[at]
			k.Count++
			k.Total += s.Dur()
			k.Min, k.Max = min(k.Min, s.Dur()), max(k.Max, s.Dur())
		}
	}
	slices.SortFunc(all, func(a, b Kernel) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
