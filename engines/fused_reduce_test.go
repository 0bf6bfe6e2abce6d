package engines

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// A reduction inside the kernel wins where communication can hide behind tiles,
// and loses where what is added at the end costs more than the library's collective.
func TestFusedReduction(t *testing.T) {
	vast := spec{ranks: 4, steps: 2, op: trace.AllReduce, bytes: 128 << 20, gemm: 100_000, comm: 640_000, channels: 24}
	slow := vector
	slow.comm = 4 * duration(h200(t, 4).Fabric.Latency.Value) // two exchanges of fences and flags take six
	for _, c := range []struct {
		name string
		spec spec
		set  map[string]string
		wins bool
	}{
		{"scatter behind a product", scattered, nil, true},
		{"small vector", vector, nil, true},
		{"fences cost more than a fast collective", slow, map[string]string{"graph": "on"}, false},
		{"a few workgroups add a large vector", vast, map[string]string{"programs": "16"}, false},
	} {
		w, m := c.spec.build(t), h200(t, c.spec.ranks)
		base, got := outcome(t, w, m, "bulk", c.set), outcome(t, w, m, "fused", c.set)
		if got.Result == nil {
			t.Fatalf("%s: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: fused %d ns, bulk %d", c.name, got.Time, base.Time)
		}
	}
}

// No rank leaves before its peers' sums have come: partial results, then sums,
// each behind a fence and a flag.
func TestFusedReductionWaits(t *testing.T) {
	w, m := vector.build(t), h200(t, 4)
	on := outcome(t, w, m, "fused", nil).Time
	if least := vector.gemm + 6*duration(m.Fabric.Latency.Value); on < least {
		t.Errorf("%d ns: the product and two exchanges of flags take %d", on, least)
	}
}

// On every rank a workgroup computes the same tiles, each once, peers' first,
// the next rank's before the others'.
func TestReductionTiles(t *testing.T) {
	for _, tiles := range []int{4, 7, 256, 1023} {
		for _, wgs := range []int{1, 3, 64, 132} {
			wgs = min(wgs, tiles)
			d := &reduction{ranks: []int32{0, 1, 2, 3}, tiles: tiles, wgs: wgs, aware: true}
			for me := range d.ranks {
				for wg := range wgs {
					var got, want, at []int
					for i := range d.turns(wg) {
						got, want = append(got, d.tile(me, wg, i)), append(want, wg+i*wgs)
						at = append(at, (d.owner(got[i])-me-1+4)%4)
					}
					if !slices.IsSorted(at) {
						t.Fatalf("%d tiles, %d workgroups: rank %d computes %v for places %v", tiles, wgs, me, got, at)
					}
					if slices.Sort(got); !slices.Equal(got, want) {
						t.Fatalf("%d tiles, %d workgroups: %d computes %v, not %v", tiles, wgs, wg, got, want)
					}
				}
			}
		}
	}
}
