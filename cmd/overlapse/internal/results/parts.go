package results

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// Parts are the pairs whose workgroups the report compares, one of each kind: the first
// that the most strategies recorded workgroups of; nil if nothing was recorded.
func (r *Replayed) Parts() (parts []layout.Part) {
	recorded := recordedOps(r.runs())
	count := func(row int) (n int) {
		for _, op := range opsOf(r.workload, row) {
			n += recorded[op]
		}
		return n
	}
	for _, k := range workload.Pairs(r.workload) {
		row := slices.MaxFunc(k.Rows, func(a, b int) int { return count(a) - count(b) })
		if count(row) == 0 {
			continue
		}
		name := fmt.Sprintf("pair %d: %s → %s", k.Number, cli.Shorten(trace.Short(k.First), 40), cli.Shorten(trace.Short(k.Second), 40))
		if k.Bytes > 0 {
			name += ", " + trace.Bytes(k.Bytes)
		}
		parts = append(parts, layout.Part{Name: name, Ops: opsOf(r.workload, row)})
	}
	return parts
}

// opsOf are the operations of a pair on all ranks.
func opsOf(w *workload.Workload, row int) []int32 {
	return slices.Concat(w.Pairs[row].First, w.Pairs[row].Second)
}

// recordedOps counts by operation the runs that recorded its workgroups.
func recordedOps(runs []*trace.Run) map[int32]int {
	recorded := map[int32]int{}
	for _, run := range runs {
		in := map[int32]bool{}
		for _, s := range run.Spans {
			if s.Kind != trace.Workgroup || s.Parent == trace.None {
				continue
			}
			if k := run.Kernel(run.Spans[s.Parent]); k != nil && k.Origin >= 0 && !in[k.Origin] {
				in[k.Origin] = true
				recorded[k.Origin]++
			}
		}
	}
	return recorded
}
