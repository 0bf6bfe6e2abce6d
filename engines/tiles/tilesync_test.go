package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A kernel with one workgroup per tile takes its measured time when it runs alone.
func TestSynchronisedGridKeepsTime(t *testing.T) {
	for _, s := range []plantest.Mlp{plantest.Mlp512, {Ranks: 1, Steps: 1, Batch: 128, Hidden: 12288, Ffn: 6144, Up: 91_400, Down: 53_500}} {
		w, m := s.Build(t), plantest.H200(t, s.Ranks)
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		for _, op := range w.Ops[:2] {
			c, ok := plan.CoverOf(&op)
			if !ok {
				t.Fatal("no tiles")
			}
			k := pl.KernelOf(&op, pl.ApartGrid(&op, c.Tiles()*c.Splits))
			p := &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}
			res := must.Have(replay.Simulate(m, p, replay.Options{}))(t)
			if d := res.Makespan - op.Dur(); d < -op.Dur()/100 || d > op.Dur()/100 {
				t.Errorf("%s of batch %d takes %d ns, measured %d", op.Name, s.Batch, res.Makespan, op.Dur())
			}
		}
	}
}
