package engines

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// On a mesh, aware order keeps all links busy. Workgroups that stay in step store
// a third of a wave over each link, 44 tiles of 64 KiB in 17 µs, six times beside a
// product of 200 µs; to one peer at a time it would be three times that.
func TestFusedOnMesh(t *testing.T) {
	s := spec{ranks: 4, steps: 2, op: trace.AllToAll, bytes: 64 << 20, gemm: 200_000, comm: 640_000, channels: 24}
	one := outcome(t, s.build(t), bare(t, 4, machine.Mesh), "fused", nil)
	if one.Result == nil {
		t.Fatal(one.Why)
	}
	if least, most := s.gemm, s.gemm+trace.Time(103_000); one.Time < least || one.Time > most {
		t.Errorf("%d ns, not %d to %d", one.Time, least, most)
	}
	if turn := outcome(t, s.build(t), bare(t, 4, machine.Mesh), "fused", map[string]string{"order": "oblivious"}); turn.Time < one.Time+50_000 {
		t.Errorf("shares one behind the other take %d ns, all at once %d", turn.Time, one.Time)
	}
}

// Where peers are spread every tile is still computed once, the own ones last,
// and neighbouring workgroups begin with different peers.
func TestSpreadReductionTiles(t *testing.T) {
	d := &reduction{ranks: []int32{0, 1, 2, 3}, tiles: 1023, wgs: 64, aware: true, spread: true}
	for me := range d.ranks {
		begin := map[int]int{}
		for wg := range d.wgs {
			var got, want []int
			for i := range d.turns(wg) {
				got, want = append(got, d.tile(me, wg, i)), append(want, wg+i*d.wgs)
			}
			begin[d.owner(got[0])]++
			if own := slices.IndexFunc(got, func(t int) bool { return d.owner(t) == me }); slices.ContainsFunc(got[own:], func(t int) bool { return d.owner(t) != me }) {
				t.Fatalf("rank %d, workgroup %d: %v computes its own tiles before peers'", me, wg, got)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("rank %d, workgroup %d computes %v, not %v", me, wg, got, want)
			}
		}
		for to, n := range begin {
			if n < d.wgs/3 || n > d.wgs/3+1 || to == me {
				t.Errorf("rank %d: %d of %d workgroups begin with %d", me, n, d.wgs, to)
			}
		}
	}
}
