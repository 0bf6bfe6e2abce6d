package plan

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Waiting for all compute is waiting for the last kernel of each stream since the last
// communication, in the order in which they were written.
func TestSeparation(t *testing.T) {
	w := &workload.Workload{Ops: make([]workload.Op, 6)}
	pl := &Planner{Workload: w}
	one, two := &Stream{}, &Stream{}
	r := &Rank{Planner: pl, where: map[int32]*Stream{0: one, 1: two, 2: one, 3: one, 4: two, 5: one}, Separation: separation{comm: -1}}
	after := func(id int32) (ops []int32) {
		for _, d := range r.separatedFrom(&w.Ops[id]) {
			ops = append(ops, d.Op)
		}
		r.Separation.Wrote(r, &w.Ops[id])
		return ops
	}
	for i, kind := range []trace.Kind{trace.Compute, trace.Compute, trace.Compute, trace.Collective, trace.Compute, trace.Collective} {
		w.Ops[i] = workload.Op{ID: int32(i), Kind: kind, Collective: -1}
		want := [][]int32{nil, nil, nil, {1, 2}, {3}, {3, 4}}[i]
		if got := after(int32(i)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("operation %d waits for %v, want %v", i, got, want)
		}
	}
}

// BenchmarkStreams shows that the time to write a kernel does not grow with the number of
// streams: ns/kernel.
func BenchmarkStreams(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				r := &Rank{Planner: &Planner{}, where: map[int32]*Stream{}, byQueue: map[int64][]*Stream{}, Separation: separation{comm: -1}}
				for i := range int32(n) {
					op := &workload.Op{ID: i, Queue: int64(i), Kind: trace.Compute, Collective: -1}
					r.where[i] = r.free(op.Queue, 0)
					r.Separation.Wrote(r, op)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/kernel")
		})
	}
}
