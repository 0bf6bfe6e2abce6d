package plan_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// An all-reduce of two nodes that runs a tree sends its buffer once out of each node; a
// ring sends it 2·15/16 times.
func TestTreeBetweenNodes(t *testing.T) {
	s := plantest.Vector
	s.Ranks, s.Steps, s.Channels, s.Bytes = 16, 1, 8, 64<<10
	w, m := s.Build(t), machinetest.Load(t, "a100:16")
	for set, want := range map[string]float64{"": 1, "algorithm=ring": 2 * 15. / 16} {
		got := enginetest.Outcome(t, w, m, "bulk", enginetest.Settings(set))
		sent := 0.0
		for _, tr := range got.Result.Traffic {
			if tr.Resource == replay.NICEgress {
				sent += tr.Bytes
			}
		}
		if !plantest.Near(sent, 2*want*float64(s.Bytes)) {
			t.Errorf("%s %q: the nodes sent %.0f bytes, want %.0f", trace.AllReduce, set, sent, 2*want*float64(s.Bytes))
		}
	}
}
