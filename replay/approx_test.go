package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// exactPaths is the size of a component up to which rates are exact.
var exactPaths = fluid.New(nil).ExactPaths

// drawExchangeProgram is an exchange by puts, or by stores of so many workgroups.
func drawExchangeProgram(t *rapid.T) (machine.Machine, *program.Program) {
	m, bytes := drawExchange(t)
	share := func(from, to int) float64 { return bytes[from][to] }
	if rapid.Bool().Draw(t, "stores") {
		return m, storeToAll(m.GPUs, rapid.IntRange(1, 4).Draw(t, "workgroups"), share)
	}
	return m, allToAll(m.GPUs, share)
}

// While no path of a large component is stale, all rates are max-min fair. Every path has a timer for its next completion.
func TestApproxIsFairOnceSolved(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m, p := drawExchangeProgram(t)
		for _, paths := range []int{1, 2, 3, 5, 10} {
			checkApprox(t, &m, p, paths)
		}
	})
}

// A path may begin again in the instant in which its component changes. Links of a ring of 16 carry 25 bytes a nanosecond.
func TestApproxPathsBeginAgain(t *testing.T) {
	type put struct {
		at    program.Time
		to    int32
		bytes float64
	}
	for name, c := range map[string]struct {
		ingress float64
		puts    map[int][]put
	}{
		// From 8 to 10, alongside three others, alone until 2600, when another begins, and
		// alongside that one. The large component of that time has always been elsewhere.
		"component elsewhere": {0, map[int][]put{
			0: {{0, 2, 1e6}, {2000, 3, 1e6}, {6000, 4, 1e6}},
			1: {{0, 2, 1e6}, {0, 3, 1e6}},
			7: {{0, 9, 5000}},
			8: {{0, 10, 50_000}, {0, 9, 10_000}, {2600, 9, 1e5}, {6000, 10, 1e5}},
			9: {{0, 10, 1000}},
		}},
		// From 15 to 1, alongside two others on the link from 0 to 1, until 1200, when others
		// begin on the link to 0, and again at 3000, when one of the two ends.
		"another's resource": {20e9, map[int][]put{
			0:  {{0, 1, 1e6}, {0, 2, 32_500}},
			14: {{1200, 0, 1e6}},
			15: {{0, 1, 10_000}, {1200, 0, 1e6}, {3000, 1, 10_000}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := torus(16)
			m.Network.Topology, m.Network.Egress, m.Network.Ingress = machine.Ring, q(0), q(c.ingress)
			p := &program.Program{GPUs: make([]program.GPU, 16)}
			for from, puts := range c.puts {
				var phases []program.Phase
				at := program.Time(0)
				for _, x := range puts {
					phases = append(phases, program.Phase{Op: program.Sleep, Time: x.at - at}, program.Phase{Op: program.Put, Peer: x.to, Bytes: x.bytes})
					at = x.at
				}
				p.GPUs[from].Streams = []program.Stream{{Commands: []program.Command{kernel("puts", 1, phases)}}}
			}
			checkApprox(t, &m, p, 2)
		})
	}
}

// checkApprox runs a program in which components of more than so many paths are
// solved approximately.
func checkApprox(t rapid.TB, m *machine.Machine, p *program.Program, paths int) {
	s := newSim(m, p, Options{})
	s.flows.ExactPaths = paths
	for more := true; more; more = s.next() {
		s.instant()
		checkFlows(t, s)
	}
	if s.err != nil {
		t.Fatalf("%v", s.err)
	}
}

// approxShare is the part of the time that approximate rates may cost.
const approxShare = 256

// tookWith is the makespan where components of more than so many paths are solved
// approximately, and what is said about them.
func tookWith(t rapid.TB, m *machine.Machine, p *program.Program, paths int) (program.Time, Approximation) {
	s := newSim(m, p, Options{})
	s.flows.ExactPaths = paths
	s.run(Options{})
	if s.err != nil {
		t.Fatalf("%v", s.err)
	}
	return s.makespan, s.flows.Approximation(int64(s.makespan))
}

// Whatever is sent over whatever network, approximate rates cost at most one part
// in approxShare of the time with exact ones, and save at most a hundredth, but for
// the nanoseconds to which ends are rounded up, one after another.
func TestApproxErrorIsBounded(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m, p := drawExchangeProgram(t)
		exact, a := tookWith(t, &m, p, m.GPUs*m.GPUs)
		if a != (Approximation{}) {
			t.Fatalf("exact, but %+v", a)
		}
		got, _ := tookWith(t, &m, p, 1)
		if rounding := program.Time(m.GPUs); got < exact-exact/100-rounding || got > exact+exact/approxShare+rounding {
			t.Fatalf("%s of %d: %d ns, exactly %d", m.Network.Topology, m.GPUs, got, exact)
		}
	})
}

// On a ring of 16 everyone sends to the next and to the one after it, so that
// each link has three puts. Two of them end at once, a small part of the component:
// the third has the link to itself soon.
func TestApproxIsSolvedInTime(t *testing.T) {
	const gpus, each = 16, 1e6
	m := torus(gpus)
	m.Network.Topology = machine.Ring
	p := allToAll(gpus, func(from, to int) float64 {
		switch further := (to - from + gpus) % gpus; {
		case from == 0 && further == 1:
			return 3 * each
		case further == 1 || further == 2 && from != 0 && from != gpus-1:
			return each
		case further == 2:
			return 100
		}
		return 0
	})
	exact, _ := tookWith(t, &m, p, gpus*gpus)
	if got, _ := tookWith(t, &m, p, 1); got < exact || got > exact+exact/approxShare {
		t.Errorf("takes %d, with exact rates %d", got, exact)
	}
}

// mostOff is by how much the time of an exchange may differ from that with exact rates.
const mostOff = .003

// An all-to-all with approximate rates takes at least as long as its fullest link
// is busy, and hardly longer than with exact ones, whatever the network and however much
// the shares differ.
func TestApproxIsNearlyExact(t *testing.T) {
	for _, c := range []struct {
		topology machine.Topology
		gpus     int
	}{{machine.Ring, 17}, {machine.Ring, 40}, {machine.Torus2D, 32}, {machine.Torus2D, 48}, {machine.Torus3D, 40}, {machine.Switch, 32}} {
		for _, spread := range []float64{.02, .2, 1.9} {
			m := torus(c.gpus)
			m.Network.Topology = c.topology
			share := uneven(c.gpus, 1e6, spread)
			exact, _ := tookWith(t, &m, allToAll(c.gpus, share), c.gpus*c.gpus)
			got, a := tookWith(t, &m, allToAll(c.gpus, share), exactPaths)
			if bound := program.Time(least(m, share)); got < bound || exact < bound {
				t.Errorf("%+v: %d ns, exactly %d; the fullest link is busy for %d", c, got, exact, bound)
			}
			if off := math.Abs(float64(got-exact)) / float64(exact); off > mostOff {
				t.Errorf("%+v, spread %g: %d ns, exactly %d", c, spread, got, exact)
			}
			if a.Paths != c.gpus*(c.gpus-1) || a.Error < 0 || a.Error > .05 {
				t.Errorf("%+v, spread %g: approximation %+v", c, spread, a)
			}
		}
	}
}

// putSlices puts a slice to every other GPU one after another, once it has been computed, so
// that paths begin and end all the time and many that begin find their links full.
func putSlices(gpus, slices int, each float64, compute program.Time) *program.Program {
	p := &program.Program{}
	arrived := make([]program.Flag, gpus)
	for g := range arrived {
		arrived[g] = p.NewFlag("arrived")
	}
	for g := range gpus {
		var phases []program.Phase
		for i := range slices * (gpus - 1) {
			to := (g + 1 + i%(gpus-1)) % gpus
			phases = append(phases,
				program.Phase{Op: program.Sleep, Time: compute + program.Time(jitter(g*gpus+i, int(compute)))},
				program.Phase{Op: program.Put, Peer: int32(to), Bytes: each, Flag: arrived[to], Count: 1})
		}
		phases = append(phases, program.Phase{Op: program.WaitFor, Flag: arrived[g], Count: int64(slices * (gpus - 1))})
		p.GPUs = append(p.GPUs, program.GPU{Streams: []program.Stream{{Commands: []program.Command{kernel("slices", 1, phases)}}}})
	}
	return p
}

// Where paths begin and end all the time, the run comes to its end, and takes as
// long as with exact rates to mostOff. A path that was given a rounding error
// once had its timer beyond the last representable time: when it had been given more
// and all else was done, that timer failed the run.
func TestApproxServesNewPaths(t *testing.T) {
	for _, c := range []struct {
		gpus, slices int
		each         float64
		compute      program.Time
	}{{32, 2, 30_000, 500}, {32, 4, 10_000, 100}, {24, 4, 100_000, 2000}} {
		m, p := torus(c.gpus), putSlices(c.gpus, c.slices, c.each, c.compute)
		exact, _ := tookWith(t, &m, p, c.gpus*c.gpus)
		got, a := tookWith(t, &m, p, exactPaths)
		if a.Paths <= exactPaths {
			t.Fatalf("%+v: components of %d paths at most", c, a.Paths)
		}
		if off := math.Abs(float64(got-exact)) / float64(exact); off > mostOff || off > a.Error || a.Error > .05 {
			t.Errorf("%+v: %d ns, exactly %d; %+v", c, got, exact, a)
		}
	}
}

// With arbiters, interference, copies, puts and whatever else a program has, all
// rates are fair while no path is stale, no path is forgotten, and no resource carries
// more than its capacity. Who meets whom may differ from a run with exact rates, and
// one run in a hundred then takes over a percent more or less; all together take as
// long to two percent.
func TestApproxOfRandomPrograms(t *testing.T) {
	large := 0
	var exactly, off program.Time
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		if rapid.Bool().Draw(t, "to everyone") {
			replicate(p, &m)
		}
		enlarge(p, rapid.SampledFrom([]float64{1, 1000}).Draw(t, "bytes"))
		exact := newSim(&m, p, Options{})
		exact.run(Options{})
		for _, paths := range []int{1, 2, 4} {
			s := newSim(&m, p, Options{})
			s.flows.ExactPaths = paths
			for more := true; more; more = s.next() {
				s.instant()
				checkFlows(t, s)
			}
			a := s.flows.Approximation(int64(s.makespan))
			if a.Paths > 0 {
				large++
			}
			if s.err != nil {
				t.Fatal(s.err)
			}
			if (exact.deadlock() == nil) != (s.deadlock() == nil) {
				t.Fatalf("%v, exactly %v", s.deadlock(), exact.deadlock())
			}
			exactly += exact.makespan
			off += max(s.makespan-exact.makespan, exact.makespan-s.makespan)
		}
	})
	if large == 0 {
		t.Error("no run with a large component")
	}
	if off > exactly/50 {
		t.Errorf("runs of %d ns are off by %d", exactly, off)
	}
}
