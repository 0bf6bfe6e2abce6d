package tiles_test

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A GEMM that gathered blocks start is never faster than the links carry what a rank receives, than the GEMM alone with all
// compute units, or, where the library's latency is no part of it, than the bound of ideal (rule K13).
func TestTriggeredGEMMIsBounded(t *testing.T) {
	const latency = 60_000 // ns, of the library's collectives
	bounded := func(t *testing.T, w *workload.Workload, m machine.Machine) {
		pair := w.Pairs[0]
		gemm := w.Ops[pair.Second[0]].DurAlone()
		n := float64(len(pair.First))
		link := trace.Time((n - 1) / n * float64(w.Collectives[pair.Collective].Bytes) / m.Fabric.Egress.Value * 1e9)
		ideal := enginetest.Outcome(t, w, m, "ideal", nil).Simulated
		for _, set := range []map[string]string{nil, {"mapping": "ring"}, {"mapping": "direct"}, {"entries": "1"}, {"arbitration": "mca"}} {
			if set["mapping"] == "direct" && m.Fabric.Topology == machine.Ring {
				continue
			}
			got := enginetest.Outcome(t, w, m, "trigger", set).Simulated
			if got < link*99/100 || got < gemm*99/100 || got < ideal && ideal > latency {
				t.Errorf("%v: %d ns; the links take %d, the GEMM %d, ideal %d", set, got, link, gemm, ideal)
			}
		}
	}
	for _, mib := range []int64{1, 16, 64, 512} {
		for _, top := range []machine.Topology{machine.Switch, machine.Mesh} {
			t.Run(fmt.Sprint(top, " ", mib), func(t *testing.T) {
				s := plantest.Gathered
				s.Bytes = mib << 20
				bounded(t, s.Build(t), plantest.Bare(t, s.Ranks, top))
			})
		}
	}
	for _, name := range []string{"h200:4", "h800:8", "mi300x:8", "t3:4"} {
		for _, k := range []int{512, 4096, 32768} {
			t.Run(fmt.Sprint(name, " ", k), func(t *testing.T) {
				w, m := plantest.OperatorOf(t, fmt.Sprintf("operator: all_gather+gemm\nmachine: %s\nranks: %s\niterations: 3\ntype: bf16\nshape: {m: 4096, n: 2048, k: %d}\n",
					name, name[len(name)-1:], k))
				bounded(t, w, m)
			})
		}
	}
}
