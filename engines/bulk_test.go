package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// The library told how to move its bytes: LL puts twice as many on the wire,
// direct sends to all peers, what has no meaning is refused in a line.
func TestBulkWays(t *testing.T) {
	large := spec{ranks: 4, steps: 2, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	w, m := large.build(t), h200(t, 4)
	base := outcome(t, w, m, "bulk", nil)
	ll := outcome(t, w, m, "bulk", settings("protocol=ll"))
	if a, b := sum(sent(base)), sum(sent(ll)); !near(b, 2*a) {
		t.Errorf("LL sends %.0f bytes, the library %.0f: want twice", b, a)
	}
	if ll.Time <= base.Time {
		t.Errorf("128 MiB by LL: %d ns, the library's choice %d: it should lose", ll.Time, base.Time)
	}
	small := vector.build(t)
	own, direct := outcome(t, small, m, "bulk", settings("algorithm=ring:protocol=simple")), outcome(t, small, m, "bulk", settings("algorithm=direct:protocol=simple"))
	if direct.Time >= own.Time {
		t.Errorf("64 KiB: direct takes %d ns, a ring of the same protocol %d", direct.Time, own.Time)
	}
	// On a mesh a ring uses one link of three, direct all.
	mesh := bare(t, 4, machine.Mesh)
	mesh.Library.AllGather.Link.Value = 3 * mesh.Fabric.Pair.Value
	g := gathered.build(t)
	ring, spread := outcome(t, g, mesh, "bulk", settings("algorithm=ring")), outcome(t, g, mesh, "bulk", settings("algorithm=direct"))
	if ring.Time <= spread.Time {
		t.Errorf("on a mesh a ring takes %d ns, direct %d", ring.Time, spread.Time)
	}
	for set, want := range map[string]string{
		"algorithm=tree": "is for all-reduces", "algorithm=pairwise": "is not one of all_gather",
	} {
		if got := outcome(t, g, mesh, "bulk", settings(set)); got.Result != nil || !strings.Contains(got.Why, want) {
			t.Errorf("%s: %q, want %q", set, got.Why, want)
		}
	}
}
