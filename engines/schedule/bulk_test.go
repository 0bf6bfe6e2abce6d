package schedule_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The library told how to move its bytes: LL puts twice as many on the wire,
// direct sends to all peers, what has no meaning is refused in a line.
func TestBulkSettings(t *testing.T) {
	large := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}
	w, m := large.Build(t), plantest.H200(t, 4)
	base := enginetest.Outcome(t, w, m, "bulk", nil)
	ll := enginetest.Outcome(t, w, m, "bulk", enginetest.Settings("protocol=ll"))
	if a, b := enginetest.Sum(enginetest.Sent(base)), enginetest.Sum(enginetest.Sent(ll)); !plantest.Near(b, 2*a) {
		t.Errorf("LL sends %.0f bytes, the library %.0f: want twice", b, a)
	}
	if ll.Time <= base.Time {
		t.Errorf("128 MiB by LL: %d ns, the library's choice %d: it should lose", ll.Time, base.Time)
	}
	small := plantest.Vector.Build(t)
	own, direct := enginetest.Outcome(t, small, m, "bulk", enginetest.Settings("algorithm=ring:protocol=simple")), enginetest.Outcome(t, small, m, "bulk", enginetest.Settings("algorithm=direct:protocol=simple"))
	if direct.Time >= own.Time {
		t.Errorf("64 KiB: direct takes %d ns, a ring of the same protocol %d", direct.Time, own.Time)
	}
	// On a mesh a ring uses one link of three, direct all.
	mesh := plantest.Bare(t, 4, machine.Mesh)
	mesh.Library.AllGather.Link.Value = 3 * mesh.Fabric.Pair.Value
	g := plantest.Gathered.Build(t)
	ring, spread := enginetest.Outcome(t, g, mesh, "bulk", enginetest.Settings("algorithm=ring")), enginetest.Outcome(t, g, mesh, "bulk", enginetest.Settings("algorithm=direct"))
	if ring.Time <= spread.Time {
		t.Errorf("on a mesh a ring takes %d ns, direct %d", ring.Time, spread.Time)
	}
	for set, want := range map[string]string{
		"algorithm=tree": "is for all-reduces", "algorithm=pairwise": "is not one of all_gather",
	} {
		if got := enginetest.Outcome(t, g, mesh, "bulk", enginetest.Settings(set)); got.Result != nil || !strings.Contains(got.Why, want) {
			t.Errorf("%s: %q, want %q", set, got.Why, want)
		}
	}
}
