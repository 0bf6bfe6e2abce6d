package onesided_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// Four experts' GEMMs become one kernel ordered by shard, and take as long
// as one GEMM of all rows: 1024 tiles of 38 µs on 132 compute units, the last
// shard's two rounds behind its arrival.
func TestGroupedGEMMs(t *testing.T) {
	for _, c := range []struct {
		name    string
		op      trace.CollectiveOp
		reverse bool
		bytes   int64
		want    trace.Time
	}{
		// What the GEMMs read is 56 MiB: a shard takes 87.5 µs, the last arrives at 262.5.
		{"all-gather + grouped", trace.AllGather, true, 56 << 20, 338_500},
		{"all-to-all + grouped", trace.AllToAll, true, 56 << 20, 338_500},
		// The first shard of all experts is computed at 76, and three copies of 100 follow.
		{"grouped + reduce-scatter", trace.ReduceScatter, false, 64 << 20, 376_000},
	} {
		s := plantest.Spec{Ranks: 4, Steps: 3, Op: c.op, Bytes: c.bytes, Gemm: 304_000, Comm: 153_000, Channels: 24, Reverse: c.reverse, Experts: 4}
		w := s.Build(t)
		got := enginetest.Outcome(t, w, plantest.Bare(t, 4, machine.Switch), "onesided", enginetest.Settings("graph=on"))
		if compare.Abs(got.Time-c.want) > 300 {
			t.Fatalf("%s: %d ns, want %d (%s)", c.name, got.Time, c.want, got.Why)
		}
		launched := 0
		for _, x := range got.Result.Run.Spans {
			if got.Result.Run.RankOf(x) == 0 && got.Result.Run.NameOf(x) == "gemm_256x128" && got.Result.Run.Kernel(x) != nil {
				launched++
			}
		}
		if launched != s.Steps {
			t.Errorf("%s: %d GEMMs launched in %d steps", c.name, launched, s.Steps)
		}
		s.Bytes = 60 << 20
		if out := enginetest.Outcome(t, s.Build(t), plantest.Bare(t, 4, machine.Switch), "onesided", nil); out.Result != nil || !strings.Contains(out.Why, "was found") {
			t.Errorf("%s: GEMMs that do not make what is sent: %q", c.name, out.Why)
		}
	}
}

// Per-shard signals count the tiles of every expert: no copy leaves before all of
// them have computed its shard, and the bytes are those of one collective.
func TestGroupedBytes(t *testing.T) {
	s := plantest.Scattered
	s.Experts = 4
	got := enginetest.Outcome(t, s.Build(t), plantest.H200(t, 4), "onesided", nil)
	if got.Result == nil {
		t.Fatal(got.Why)
	}
	if b, want := enginetest.Sum(enginetest.Sent(got)), float64(s.Steps)*0.75*float64(s.Bytes); !plantest.Near(b, want) {
		t.Errorf("rank 0 sent %.0f bytes, want %.0f", b, want)
	}
	base := enginetest.Outcome(t, s.Build(t), plantest.H200(t, 4), "bulk", nil)
	if got.Time >= base.Time {
		t.Errorf("%d ns, one after another %d", got.Time, base.Time)
	}
}
