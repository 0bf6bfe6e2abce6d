package replay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// At every instant no resource carries more than it can, what is sent is fair, no path
// that will be done is forgotten, and no CU holds more than fits; at the end every
// resource has carried what the phases demanded.
func TestCapacityHoldsAndBytesAreMoved(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		enlarge(p, 1e4)
		m := drawMachine(t, len(p.GPUs))
		if rapid.Bool().Draw(t, "to everyone") {
			replicate(p, &m)
		}
		m.GPU.Update = q(1) // a byte of memory is a byte
		must.Do(t, program.Check(&m, p))
		s := newSim(&m, p, Options{})
		s.flows.ExactPaths = rapid.SampledFrom([]int{exactPaths, 1}).Draw(t, "exact paths")
		n := newNaive(m, p)
		ends := 0
		for more := true; more; more = s.next() {
			ends += len(s.queue)
			s.instant()
			checkFlows(t, s)
			checkCUs(t, s, n)
		}
		if s.deadlock() != nil {
			return
		}
		want := make([]float64, len(s.flows.capacities))
		for _, x := range s.ledger.traffics() {
			if x.Resource != dma {
				want[s.flows.resource(x.GPU, x.Resource)] += x.Bytes
			}
		}
		for g := range p.GPUs {
			for r := range numResources {
				id := s.flows.resource(g, r)
				if id == none {
					continue
				}
				moved := s.flows.Used(id, int64(s.now))
				got, want, capacity := moved, want[id], s.flows.capacities[id]
				// A flow is taken to go on until the whole nanosecond at which it ends.
				late := capacity * float64(ends)
				if capacity > 0 && (got < want*(1-1e-9)-fluid.Slack*late || got > want+late) {
					t.Fatalf("GPU %d %s: moved %g bytes, want %g", g, r, got, want)
				}
			}
		}
	})
}

// What is left of a large component once it has fallen apart is accounted as well. Two of
// four workgroups, one after the other on one CU, store to other GPUs, read here
// and store, and put; a workgroup elsewhere writes.
func TestRestOfLargeComponentIsAccounted(t *testing.T) {
	m := small(6, 1)
	m.GPU.WGs, m.GPU.Memory, m.Fabric = q(2), q(40e9), machine.Fabric{Topology: machine.Switch, Pair: q(7e9)}
	send := kernel("send", 4, nil, threads(1))
	send.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		if tile%2 == 0 {
			return buf
		}
		to := int32(tile)
		return append(buf,
			program.Phase{Op: program.Store, Peer: (4 + to) % 6, Bytes: 10_000},
			program.Phase{Op: program.Store, Peer: to, Bytes: 10_000, Read: 10_000},
			program.Phase{Op: program.Put, Peer: to, Bytes: 10_000, Time: 1})
	}
	first := program.Command{Op: program.Start, Copy: &program.Copy{Name: "first", From: 0, Peer: 3, Bytes: 10_000}}
	writes := kernel("writes", 1, []program.Phase{{Op: program.Work, Write: 10_000}})
	p := prog(nil, nil, []program.Stream{{Commands: []program.Command{first, send}}}, []program.Stream{{Commands: []program.Command{writes}}}, nil, nil)
	s := newSim(&m, p, Options{})
	s.flows.ExactPaths = 1
	for more := true; more; more = s.next() {
		s.instant()
		checkFlows(t, s)
	}
}

// enlarge multiplies the bytes of a program.
func enlarge(p *program.Program, factor float64) {
	for g := range p.GPUs {
		for _, st := range p.GPUs[g].Streams {
			for _, c := range st.Commands {
				if c.Copy != nil {
					c.Copy.Bytes *= factor
				}
			}
		}
	}
	eachPhase(p, func(x *program.Phase) {
		x.Bytes, x.Read, x.Write = x.Bytes*factor, x.Read*factor, x.Write*factor
	})
}

// replicate makes the program's stores to GPU 0 stores to everyone, on a machine that can.
func replicate(p *program.Program, m *machine.Machine) {
	m.Fabric.Topology = machine.Switch
	eachPhase(p, func(x *program.Phase) {
		if x.Op == program.Store && x.Peer == 0 {
			x.Peer = program.Everyone
		}
	})
}

// eachKernel changes a program's kernels.
func eachKernel(p *program.Program, change func(*program.Kernel)) {
	for g := range p.GPUs {
		for _, st := range p.GPUs[g].Streams {
			for _, c := range st.Commands {
				if c.Kernel != nil {
					change(c.Kernel)
				}
			}
		}
	}
}

// eachPhase changes the phases of a program's kernels.
func eachPhase(p *program.Program, change func(*program.Phase)) {
	changed := func(phases func(int, []program.Phase) []program.Phase) func(int, []program.Phase) []program.Phase {
		if phases == nil {
			return nil
		}
		return func(of int, buf []program.Phase) []program.Phase {
			from := len(buf)
			buf = phases(of, buf)
			for i := range buf[from:] {
				change(&buf[from+i])
			}
			return buf
		}
	}
	eachKernel(p, func(k *program.Kernel) {
		k.Recipe, k.Prologue, k.Epilogue = changed(k.Recipe), changed(k.Prologue), changed(k.Epilogue)
	})
}

// checkFlows reports uncontended flows that the resources do not account. That rates are fair
// TestEqualsNaive and the tests of fluid check.
func checkFlows(t rapid.TB, s *sim) {
	for path := range s.flows.uncontended {
		n := 0
		for at, w := range s.flows.uncontended[path].wgs {
			if s.isUncontended(int32(path), int32(at), w) {
				n++
			}
		}
		if n != s.flows.uncontended[path].n {
			t.Fatalf("at %d: path %d has %d uncontended flows, not %d", s.now, path, n, s.flows.uncontended[path].n)
		}
	}
}

func checkCUs(t *rapid.T, s *sim, n *naive) {
	for g := range s.gpus {
		for c := range s.gpus[g].cus {
			u := &s.gpus[g].cus[c]
			free := n.empty()
			for _, w := range u.wgs {
				free = free.Minus(n.need(&s.kernels.at(s.wgs.at(w).launch).kernel.Footprint))
			}
			if !free.Holds(program.CUResources{}) || free != u.free {
				t.Fatalf("at %d: GPU %d CU %d: %d workgroups leave %v free, accounted %v", s.now, g, c, len(u.wgs), free, u.free)
			}
		}
	}
}
