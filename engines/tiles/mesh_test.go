package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// On a mesh, aware order keeps all links busy. Workgroups in lockstep store a third of a
// wave over each link, 44 tiles of 64 KiB in 17 µs, six times alongside a GEMM of
// 200 µs. With one peer at a time, the stores would take three times as long.
func TestFusedOnMesh(t *testing.T) {
	s := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllToAll, Bytes: 64 << 20, Gemm: 200_000, Comm: 640_000, Channels: 24}
	one := enginetest.Outcome(t, s.Build(t), plantest.Bare(t, 4, machine.Mesh), "fused", nil)
	if one.Result == nil {
		t.Fatal(one.Why)
	}
	if least, most := s.Gemm, s.Gemm+trace.Time(103_000); one.Time < least || one.Time > most {
		t.Errorf("%d ns, not %d to %d", one.Time, least, most)
	}
	if turn := enginetest.Outcome(t, s.Build(t), plantest.Bare(t, 4, machine.Mesh), "fused", map[string]string{"order": "oblivious"}); turn.Time < one.Time+50_000 {
		t.Errorf("shares one behind the other take %d ns, all at once %d", turn.Time, one.Time)
	}
}
