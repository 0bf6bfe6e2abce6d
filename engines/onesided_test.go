package engines

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

var (
	scattered = spec{ranks: 4, steps: 3, op: trace.ReduceScatter, bytes: 64 << 20, gemm: 304_000, comm: 153_000, channels: 24}
	gathered  = spec{ranks: 4, steps: 3, op: trace.AllGather, bytes: 64 << 20, gemm: 304_000, comm: 170_000, channels: 24, reverse: true}
	vector    = spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 64 << 10, gemm: 30_000, comm: 28_000, channels: 4}
)

// sent is the bytes that rank 0's GPU sent, by name.
func sent(out Outcome) map[string]float64 {
	by := map[string]float64{}
	for _, tr := range out.Result.Traffic {
		if tr.GPU == 0 && tr.Resource == replay.Egress {
			by[tr.Name] += tr.Bytes
		}
	}
	return by
}

func sum(by map[string]float64) (all float64) {
	for _, b := range by {
		all += b
	}
	return all
}

func near(got, want float64) bool { return got > 0.999*want && got < 1.001*want }

// Every way of moving and computing sends each shard once, and beats one after
// the other where communication can hide.
func TestOnesidedPipelines(t *testing.T) {
	for _, s := range []spec{scattered, gathered} {
		w, m := s.build(t), h200(t, s.ranks)
		base := outcome(t, w, m, "bulk", nil)
		for _, impl := range []string{"pull", "push"} {
			for _, product := range []string{"whole", "chunks"} {
				got := outcome(t, w, m, "onesided", map[string]string{"impl": impl, "product": product})
				if got.Result == nil {
					t.Fatalf("%s %s %s: %s", s.op, impl, product, got.Why)
				}
				if got.Time >= base.Time {
					t.Errorf("%s %s %s: %d ns, bulk %d", s.op, impl, product, got.Time, base.Time)
				}
				want := float64(s.steps) * float64(s.bytes) * float64(s.ranks-1) / float64(s.ranks)
				if b := sum(sent(got)); !near(b, want) {
					t.Errorf("%s %s %s: rank 0 sent %.0f bytes, want %.0f", s.op, impl, product, b, want)
				}
			}
		}
	}
}

// A copy costs an engine's latency, whatever its size.
func TestOnesidedLoses(t *testing.T) {
	s := scattered
	s.bytes, s.gemm, s.comm = 256<<10, 20_000, 12_000
	w, m := s.build(t), h200(t, s.ranks)
	base := outcome(t, w, m, "bulk", nil)
	if got := outcome(t, w, m, "onesided", nil); got.Time <= base.Time {
		t.Errorf("copies of 64 KiB take %d ns, the library %d: they should lose", got.Time, base.Time)
	}
}

// One shot is for small vectors: it sends N-1 times as much as it has, in one step.
func TestOneShot(t *testing.T) {
	set := map[string]string{"impl": "oneshot"}
	w, m := vector.build(t), h200(t, 4)
	got := outcome(t, w, m, "onesided", set)
	if base := outcome(t, w, m, "bulk", nil); got.Time >= base.Time {
		t.Errorf("64 KiB: %d ns, library %d", got.Time, base.Time)
	}
	if b, want := sum(sent(got)), float64(vector.steps)*3*float64(vector.bytes); !near(b, want) {
		t.Errorf("rank 0 sent %.0f bytes, want %.0f", b, want)
	}
	large := vector
	large.bytes, large.comm, large.channels = 128<<20, 640_000, 24
	w = large.build(t)
	base := outcome(t, w, m, "bulk", nil)
	if got := outcome(t, w, m, "onesided", set); got.Time <= base.Time {
		t.Errorf("128 MiB: %d ns, library %d: it should lose", got.Time, base.Time)
	}
}

// On a mesh a link serves one peer, so all are used at once: a gather takes
// the time of one shard over one link, not of three.
func TestOnesidedOnMesh(t *testing.T) {
	const pair = 50e9
	m := h200(t, 4)
	m.Fabric.Topology = machine.Mesh
	m.Fabric.Pair.Value = pair
	w := gathered.build(t)
	got := outcome(t, w, m, "onesided", map[string]string{"impl": "push"})
	shard := trace.Time(float64(gathered.bytes) / 4 / pair * 1e9)
	if got.Time < shard || got.Time > gathered.gemm+2*shard {
		t.Errorf("%d ns; a shard over a link takes %d", got.Time, shard)
	}
}

func TestUnits(t *testing.T) {
	b := &board{ranks: []int32{0, 1, 2}, cuts: 2}
	first := []unit{{1, 0}, {1, 1}, {2, 0}, {0, 0}, {2, 1}, {0, 1}} // own, then first pieces of the others, then second
	if got := b.units(1, true); !slices.Equal(got, first) {
		t.Errorf("own first: %v", got)
	}
	if got := b.units(1, false); !slices.Equal(got, append(first[2:], first[:2]...)) {
		t.Errorf("own last: %v", got)
	}
	for tiles := 6; tiles < 40; tiles++ {
		covered := 0
		for i := range tiles {
			lo, hi := span(i, tiles, 6)
			if lo > covered || hi < covered-1 {
				t.Fatalf("%d tiles: tile %d covers %d to %d, %d were covered", tiles, i, lo, hi, covered)
			}
			covered = hi + 1
		}
		if covered != 6 {
			t.Errorf("%d tiles cover %d units of 6", tiles, covered)
		}
	}
}
