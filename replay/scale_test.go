package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// latencies are the times of a machine, rates what it can carry.
func latencies(m *machine.Machine) []*machine.Quantity {
	return []*machine.Quantity{
		&m.Fabric.Latency, &m.Fabric.Hop, &m.Fabric.Message, &m.Network.Latency, &m.Network.Hop, &m.Network.Message, &m.Engines.Latency, &m.Engines.Queued,
	}
}

func rates(m *machine.Machine) []*machine.Quantity {
	return []*machine.Quantity{
		&m.GPU.Memory, &m.GPU.CacheRate, &m.Fabric.Egress, &m.Fabric.Ingress, &m.Fabric.Pair,
		&m.Network.Egress, &m.Network.Ingress, &m.Network.Pair, &m.Engines.Rate,
	}
}

// scale makes all times, bytes and latencies so many times as large; rates stay.
func scale(p *program.Program, m *machine.Machine, by program.Time) {
	for g := range p.GPUs {
		for s := range p.GPUs[g].Streams {
			for i := range p.GPUs[g].Streams[s].Commands {
				c := &p.GPUs[g].Streams[s].Commands[i]
				c.Delay *= by
				if c.Copy != nil {
					c.Copy.Time *= by
				}
			}
		}
	}
	eachPhase(p, func(x *program.Phase) { x.Time *= by })
	enlarge(p, float64(by))
	for _, q := range latencies(m) {
		q.Value *= float64(by)
	}
}

// The rules know no unit of time. A program of which everything ends at whole
// nanoseconds takes exactly a thousand times as long when it is a thousand times
// as large: every workgroup, copy and kernel, whatever it contends for, waits
// for or takes by ticket.
func TestScaledProgramScales(t *testing.T) {
	const factor = 1000
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		enlarge(p, rapid.SampledFrom([]float64{1, 12_600}).Draw(t, "bytes")) // a multiple of most rates
		m := drawMachine(t, len(p.GPUs))
		if n := runNaive(m, p); n.stuck || n.rounded {
			return
		}
		one := mustRecord(t, m, p)
		want := logOf(p, one.Run, 1)
		scale(p, &m, factor)
		many := mustRecord(t, m, p)
		if got := logOf(p, many.Run, factor); !slices.Equal(got, want) || many.Makespan != factor*one.Makespan {
			t.Fatalf("%d ns, scaled by %d %d ns\n%s", one.Makespan, factor, many.Makespan, differences(got, want))
		}
	})
}

func mustRecord(t *rapid.T, m machine.Machine, p *program.Program) *Result {
	return must.Have(Simulate(m, p, Options{Level: Workgroups}))(t)
}

// One thing at a time is rounded up to a nanosecond once for each that ends,
// and no more: n of them take less than n nanoseconds longer than exactly.
func TestRoundingCostsANanosecondEach(t *testing.T) {
	const factor = 1000
	rapidtest.Check(t, func(t *rapid.T) {
		p, n := drawChain(t)
		m := drawMachine(t, len(p.GPUs))
		one := mustRun(t, m, p)
		scale(p, &m, factor)
		many := mustRun(t, m, p)
		if many < (one-n)*factor || many > one*factor+2*n { // slack of a thousandth, and its own rounding
			t.Fatalf("%d ns for %d things, scaled by %d %d ns", one, n, factor, many)
		}
	})
}

// A machine that is better in whatever respects is not slower on a program that
// does one thing at a time. But for a nanosecond a copy: one that only its engine
// limits is rounded up each time, where links that hold it back let the next go
// on between two.
func TestFasterMachineIsNotSlower(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, _ := drawChain(t)
		m := drawMachine(t, len(p.GPUs))
		better := m
		factor := func(what string) float64 {
			return rapid.SampledFrom([]float64{1, 1, 1, 1.01, 1.7, 4}).Draw(t, what)
		}
		for i, q := range rates(&better) {
			q.Value *= factor(fmt.Sprint("rate ", i))
		}
		for i, q := range latencies(&better) {
			q.Value /= factor(fmt.Sprint("latency ", i))
		}
		copies := program.Time(0)
		for _, c := range p.GPUs[0].Streams[0].Commands {
			if c.Op == program.Start {
				copies++
			}
		}
		if slow, quick := mustRun(t, m, p), mustRun(t, better, p); quick > slow+copies {
			t.Fatalf("%d ns, on the better machine %d", slow, quick)
		}
	})
}

// drawChain draws a program that does one thing at a time, all from GPU 0, and
// how many things at most take time.
func drawChain(t *rapid.T) (p *program.Program, things program.Time) {
	gpus := rapid.SampledFrom([]int{1, 2, 3, 4, 6, 8}).Draw(t, "gpus")
	p = &program.Program{GPUs: make([]program.GPU, gpus)}
	var commands []program.Command
	for i := range rapid.IntRange(1, 5).Draw(t, "commands") {
		c := drawCommand(t, gpus, fmt.Sprint(i))
		if c.Op == program.Wait || c.Op == program.Post {
			continue
		}
		if k := c.Kernel; k != nil {
			k.WGs, k.Tiles, k.Cluster, k.Footprint = 1, 0, 0, program.Footprint{Threads: 1}
			var phases []program.Phase
			for _, x := range k.Phases(rapid.IntRange(0, 3).Draw(t, "tile"), nil) {
				switch x.Last = 0; x.Op {
				case program.WaitFor:
					continue
				case program.PostTo, program.Put:
					x.Flag, x.Count = p.NewFlag("done"), 1
					phases = append(phases, x, program.Phase{Op: program.WaitFor, Flag: x.Flag, Count: 1})
				default:
					phases = append(phases, x)
				}
			}
			k.Recipe = func(_ int, buf []program.Phase) []program.Phase { return append(buf, phases...) }
			things += 2 * program.Time(len(phases)) // a put's flag follows it
		}
		commands = append(commands, c)
		things += 3 // a gap, a latency, a copy
	}
	p.GPUs[0].Streams = []program.Stream{{Commands: commands}}
	return p, things
}

func mustRun(t *rapid.T, m machine.Machine, p *program.Program) program.Time {
	r := must.Have(Simulate(m, p, Options{}))(t)
	return r.Makespan
}
