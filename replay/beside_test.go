package replay

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A fill for which nothing waits may run alongside any kernel. Kernels that it does not run alongside
// are one phase, and the times are those of all workgroups:
//
//	stream 7   |K0______|K1______|K2______|...
//	stream 20  |    delay     |fill|
func TestTakenToRunAlone(t *testing.T) {
	m := machine.Machine{GPUs: 1, GPU: machine.GPU{CUs: machine.Quantity{Value: 4}, WGs: machine.Quantity{Value: 1}}}
	const kernels, wgs = 40, 400
	of := func(delay program.Time) *program.Program {
		p := &program.Program{}
		var one []program.Command
		for range kernels {
			one = append(one, program.Command{Name: "K", Origin: -1, Kernel: &program.Kernel{
				Name: "K", Kind: trace.Compute, WGs: wgs,
				Each: []program.Phase{{Op: program.Work, Time: 10}}, Solo: program.Phase{Op: program.Work, Time: wgs / 4 * 10},
			}})
		}
		fill := &program.Kernel{Name: "fill", Kind: trace.Compute, WGs: 1, Each: []program.Phase{{Op: program.Work, Time: 100}}}
		p.GPUs = []program.GPU{{Streams: []program.Stream{
			{Queue: 7, Commands: one},
			{Queue: 20, Commands: []program.Command{{Op: program.Delay, Delay: delay}, {Name: "fill", Origin: -1, Kernel: fill}}},
		}}}
		return p
	}
	for _, c := range []struct {
		delay  program.Time
		beside bool
	}{{0, true}, {5500, true}, {5950, true}, {kernels*1000 + 1, false}} {
		first := newSim(&m, of(c.delay), Options{Solo: true})
		if first.beside.assumed != kernels {
			t.Fatalf("fill at %d: %d kernels are taken to run alone, want all", c.delay, first.beside.assumed)
		}
		if first.run(Options{}); (first.beside.found > 0) != c.beside {
			t.Errorf("fill at %d: %d kernels did not run alone", c.delay, first.beside.found)
		}
		a, errA := Simulate(m, of(c.delay), Options{Solo: true})
		b, errB := Simulate(m, of(c.delay), Options{})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		for i, s := range b.Run.Spans {
			if x := a.Run.Spans[i]; x.Start != s.Start || x.End != s.End {
				t.Errorf("fill at %d: span %d is %d to %d, want %d to %d", c.delay, i, x.Start, x.End, s.Start, s.End)
			}
		}
		if b.Makespan <= kernels*1000 {
			t.Errorf("fill at %d: makespan %d, as if it had slowed nothing", c.delay, b.Makespan)
		}
	}
}
