package tiles_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// gradients is an all-to-all of 64·33 gradient vectors of 1 KiB a rank and the backward of the embedding.
func gradients(on string, ranks, batch int) string {
	return fmt.Sprintf(`machine: %s
ranks: %d
type: f32
shape: {batch: %d, tables: 33, dim: 256, pooling: 7}
graph:
  - {op: elementwise, bytes: 1024*batch}
  - {op: all_to_all, count: batch*tables*dim}
  - {op: embedding_backward, batch: batch, tables: tables, dim: dim, pooling: pooling}
`, on, ranks, batch)
}

// Every vector is added once, in any slices and orders, also a partial last one; every slice for
// another rank leaves once, and nothing is moved twice: each vector is read by the sender's NIC,
// written by the receiver's and read once; its rows are read and written.
func TestGradientsAreAddedOnce(t *testing.T) {
	const vector, sums = 1024, 64 * 33
	for on, c := range map[string]struct {
		ranks  int
		memory float64 // bytes moved for each one that leaves a rank, beyond what the backward moves
		wire   replay.Resource
	}{
		"mi210ibx2": {2, 2, replay.NICEgress},
		"mi210x4":   {4, 1, replay.Egress},
	} {
		w, m := plantest.OperatorOf(t, gradients(on, c.ranks, 64))
		for _, set := range []map[string]string{{"slice": "1"}, {"slice": "7"}, {"slice": "600"}, {"slice": "32", "order": "oblivious"}} {
			r := enginetest.Detailed(t, w, m, "fused", set, replay.Options{}).Result
			added := map[int]int{}
			for _, s := range r.Run.Spans {
				if k := r.Run.Workgroup(s); s.Kind == trace.PhaseCompute && k != nil {
					added[r.Run.RankOf(s)]++
				}
			}
			leaves := float64(c.ranks-1) / float64(c.ranks) * sums * vector
			for gpu := range c.ranks {
				if added[gpu] < sums {
					t.Errorf("%s %v: %d vectors added on rank %d, want %d", on, set, added[gpu], gpu, sums)
				}
				if got := traffic(r, gpu, c.wire); math.Abs(got/leaves-1) > 1e-3 {
					t.Errorf("%s %v: %.0f bytes left rank %d, want %.0f", on, set, got, gpu, leaves)
				}
				backward := float64(sums * vector * (7 + 1 + 7))
				if got := traffic(r, gpu, replay.Memory) - backward - 64*1024; math.Abs(got/leaves-c.memory) > 0.02 {
					t.Errorf("%s %v: memory of rank %d moved %.3f bytes for each that leaves, want %v", on, set, gpu, got/leaves, c.memory)
				}
			}
		}
	}
}

// With slices that arrive one after another the backward runs alongside the all-to-all: the two
// take little longer than the longer one. They may take a little less than it does alone: fewer
// workgroups are resident, which MI210's memory serves faster.
func TestGradientsAreAddedAsTheyArrive(t *testing.T) {
	w, m := plantest.OperatorOf(t, gradients("mi210ibx2", 2, 4096))
	var longer, both trace.Time
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Rank == 0 && (op.Collective >= 0 || op.Shape.M == 4096*33) {
			longer, both = max(longer, op.Dur()), both+op.Dur()
		}
	}
	bulk := enginetest.Outcome(t, w, m, "bulk", nil).Time
	got := enginetest.Outcome(t, w, m, "fused", map[string]string{"slice": "32"}).Time
	if saved := bulk - got; got < longer*9/10 || saved < (both-longer)/2 {
		t.Errorf("takes %d, in bulk %d: the longer of the two takes %d, both %d", got, bulk, longer, both)
	}
}

// One training step of DLRM on 128 nodes, as given and fused. Target: 60 s and 4 GB; memory is
// that of the process at its end.
func BenchmarkTrainingStep128(b *testing.B) {
	w, m := plantest.SampleOperator(b, "sc24-dlrm-training")
	for b.Loop() {
		for _, name := range []string{"captured", "fused"} {
			if out := enginetest.Outcome(b, w, m, name, nil); out.Result == nil {
				b.Fatal(out.Why)
			}
		}
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	b.ReportMetric(float64(s.Sys)/1e9, "GB")
}
