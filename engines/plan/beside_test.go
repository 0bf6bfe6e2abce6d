package plan

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Workgroups that all run at once are not slower where channels hold compute units: what each moves does not fill a unit. Of a
// kernel of unknown bytes the most workgroups on a unit decide.
func TestOneRoundByItsBytes(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, c := range []struct {
		bytes float64
		want  float64 // of the time alone, with 24 of 132 units held
	}{{0, 1.5}, {400e6, 1}} {
		op, w := streamer(256)
		op.Read, op.Write = c.bytes, 0
		op.Kernel = &workload.Kernel{Moves: true, Tiling: workload.Tiling{WGs: 256}, Footprint: program.Footprint{Threads: 512}}
		holder := &program.Kernel{
			Name: "holder", Kind: trace.Collective, WGs: 24, Footprint: program.Footprint{Exclusive: true},
			Each: []program.Phase{{Op: program.Sleep, Time: 10 * op.End}},
		}
		p := program.Program{GPUs: []program.GPU{{Streams: []program.Stream{
			{Queue: 2, Commands: []program.Command{{Kernel: holder, Origin: -1}}},
			{Queue: 1, Commands: []program.Command{{Kernel: (&Planner{Machine: m, Workload: w}).whole(op), Origin: -1}}},
		}}}}
		r, err := replay.Simulate(m, &p, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Run.Spans {
			if r.Run.NameOf(s) != "holder" {
				if got := float64(s.End-s.Start) / float64(op.End); math.Abs(got-c.want) > 0.01 {
					t.Errorf("of %.0f MB: %.2f of the time alone, want %.2f", c.bytes/1e6, got, c.want)
				}
			}
		}
	}
}
