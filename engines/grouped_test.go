package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// Four experts' products become one kernel that goes by shard, and take as long
// as one product of all rows: 1024 tiles of 38 µs on 132 compute units, the last
// shard's two rounds behind its arrival.
func TestGroupedProducts(t *testing.T) {
	for _, c := range []struct {
		name    string
		op      trace.CollectiveOp
		reverse bool
		bytes   int64
		want    trace.Time
	}{
		// What the products read is 56 MiB: a shard takes 87.5 µs, the last arrives at 262.5.
		{"all-gather + grouped", trace.AllGather, true, 56 << 20, 338_500},
		{"all-to-all + grouped", trace.AllToAll, true, 56 << 20, 338_500},
		// The first shard of all experts is computed at 76, and three copies of 100 follow.
		{"grouped + reduce-scatter", trace.ReduceScatter, false, 64 << 20, 376_000},
	} {
		s := spec{ranks: 4, steps: 3, op: c.op, bytes: c.bytes, gemm: 304_000, comm: 153_000, channels: 24, reverse: c.reverse, experts: 4}
		w := s.build(t)
		got := outcome(t, w, bare(t, 4, machine.Switch), "onesided", settings("graph=on"))
		if abs(got.Time-c.want) > 300 {
			t.Fatalf("%s: %d ns, want %d (%s)", c.name, got.Time, c.want, got.Why)
		}
		launched := 0
		for _, x := range got.Result.Run.Spans {
			if got.Result.Run.RankOf(x) == 0 && got.Result.Run.NameOf(x) == "gemm_256x128" && got.Result.Run.Kernel(x) != nil {
				launched++
			}
		}
		if launched != s.steps {
			t.Errorf("%s: %d products launched in %d steps", c.name, launched, s.steps)
		}
		s.bytes = 60 << 20
		if out := outcome(t, s.build(t), bare(t, 4, machine.Switch), "onesided", nil); out.Result != nil || !strings.Contains(out.Why, "was found") {
			t.Errorf("%s: products that do not make what is sent: %q", c.name, out.Why)
		}
	}
}

// Per-shard signals count the tiles of every expert: no copy leaves before all of
// them have computed its shard, and the bytes are those of one collective.
func TestGroupedBytes(t *testing.T) {
	s := scattered
	s.experts = 4
	got := outcome(t, s.build(t), h200(t, 4), "onesided", nil)
	if got.Result == nil {
		t.Fatal(got.Why)
	}
	if b, want := sum(sent(got)), float64(s.steps)*0.75*float64(s.bytes); !near(b, want) {
		t.Errorf("rank 0 sent %.0f bytes, want %.0f", b, want)
	}
	base := outcome(t, s.build(t), h200(t, 4), "bulk", nil)
	if got.Time >= base.Time {
		t.Errorf("%d ns, one after another %d", got.Time, base.Time)
	}
}
