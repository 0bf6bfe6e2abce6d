package tiles

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// TestMeasuredVectorsKeepTime: where the lookup was measured, a vector takes
// its measured time if the same number of workgroups is resident.
func TestMeasuredVectorsKeepTime(t *testing.T) {
	w, m := plantest.OperatorOf(t, "operator: embedding+all_to_all\nmachine: mi210ibx2\ntype: f32\nshape: {batch: 832, tables: 16, dim: 256, pooling: 70}")
	run := *w.Run
	run.Estimated = ""
	w.Run = &run
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	op := &w.Ops[w.Pairs[0].First[0]]
	slots := 104 * 8 // of 256 threads
	want := op.Dur() * trace.Time(slots) / (832 * 16)
	if got := vectorTime(pl, op, slots) - plan.Duration(m.GPU.Post.Value+m.GPU.Poll.Value); got < want-1 || got > want+1 {
		t.Errorf("%d ns a vector, want %d", got, want)
	}
}

// With spread peers every tile is computed once, a rank's own tiles last, and
// neighbouring workgroups begin with different peers.
func TestSpreadReductionTiles(t *testing.T) {
	d := &reduction{
		ranks: []int32{0, 1, 2, 3}, nodes: plan.Cluster{Nodes: 1, Per: 4}, owners: plan.Cut{N: 1023, Parts: 4}, wgs: 64,
		aware: true, spread: true,
	}
	for me := range d.ranks {
		begin := map[int]int{}
		for wg := range d.wgs {
			got := d.turns(me, wg)
			begin[got[0]]++
			if own := slices.Index(got, me); slices.ContainsFunc(got[own:], func(to int) bool { return to != me }) {
				t.Fatalf("rank %d, workgroup %d: %v computes its own tiles before peers'", me, wg, got)
			}
			if slices.Sort(got); !slices.Equal(got, ownersOf(d, wg)) {
				t.Fatalf("rank %d, workgroup %d computes tiles of %v, not of %v", me, wg, got, ownersOf(d, wg))
			}
		}
		for to, n := range begin {
			if n < d.wgs/3 || n > d.wgs/3+1 || to == me {
				t.Errorf("rank %d: %d of %d workgroups begin with %d", me, n, d.wgs, to)
			}
		}
	}
}

// ownersOf are the owners of a column's tiles, in rising order.
func ownersOf(d *reduction, column int) (owners []int) {
	for tile := column; tile < d.owners.N; tile += d.wgs {
		owners = append(owners, d.owners.Of(tile))
	}
	return owners
}

// On every rank a workgroup computes the same tiles, each once: those of the next node first and of its own last, of
// each node those of the next rank first and of its counterpart last.
func TestReductionTiles(t *testing.T) {
	for _, nodes := range []plan.Cluster{{Nodes: 1, Per: 4}, {Nodes: 2, Per: 2}, {Nodes: 4, Per: 1}} {
		for _, tiles := range []int{4, 7, 256, 1023} {
			for _, wgs := range []int{1, 3, 64, 132} {
				wgs = min(wgs, tiles)
				d := &reduction{ranks: []int32{0, 1, 2, 3}, owners: plan.Cut{N: tiles, Parts: 4}, wgs: wgs, aware: true, nodes: nodes}
				for me := range d.ranks {
					places := order(d.from(me), false)
					for wg := range wgs {
						got, at := d.turns(me, wg), []int(nil)
						for _, to := range got {
							at = append(at, slices.Index(places, to))
						}
						if places[3] != me || !slices.IsSorted(at) {
							t.Fatalf("%v, %d tiles, %d workgroups: rank %d computes %v for places %v", nodes, tiles, wgs, me, got, at)
						}
						if slices.Sort(got); !slices.Equal(got, ownersOf(d, wg)) {
							t.Fatalf("%v, %d tiles, %d workgroups: %d computes %v, not %v", nodes, tiles, wgs, wg, got, ownersOf(d, wg))
						}
					}
				}
			}
		}
	}
}
