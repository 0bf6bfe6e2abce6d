package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
)

// At every instant no pool carries more than it can, what is sent is fair, no path
// that will be done is forgotten, and no CU holds more than fits; at the end every
// pool has carried what the phases demanded.
func TestCapacityHoldsAndBytesAreMoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		enlarge(p, 1e4)
		m := drawMachine(t, len(p.GPUs))
		if rapid.Bool().Draw(t, "to everyone") {
			replicate(p, &m)
		}
		m.GPU.Update = q(1) // a byte of memory is a byte
		if err := check(&m, p); err != nil {
			t.Fatal(err)
		}
		s := newSim(&m, p, Options{})
		s.flows.approx.exactPaths = rapid.SampledFrom([]int{exactPaths, 1}).Draw(t, "exact paths")
		n := newNaive(m, p)
		ends := 0
		for more := true; more; more = s.next() {
			ends += len(s.queue)
			s.instant()
			checkPools(t, s)
			checkCUs(t, s, n)
			checkDue(t, &s.flows, s.now)
			if len(s.flows.approx.stale) == 0 {
				checkFair(t, s)
			}
		}
		if s.deadlock() != nil {
			return
		}
		want := make([]float64, len(s.flows.pools))
		for _, x := range s.ledger.traffics() {
			if x.Resource != DMA {
				want[s.flows.pool(x.GPU, x.Resource)] += x.Bytes
			}
		}
		for g := range p.GPUs {
			for r := range numResources {
				id := s.flows.pool(g, r)
				if id == none {
					continue
				}
				pool := &s.flows.pools[id]
				pool.account(s.now)
				got, want := pool.moved, want[id]
				// A flow is taken to go on until the whole nanosecond at which it ends.
				late := pool.capacity * float64(ends)
				if pool.capacity > 0 && (got < want*(1-1e-9)-slack*late || got > want+late) {
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
	send.Kernel.Recipe = func(tile int, buf []Phase) []Phase {
		if tile%2 == 0 {
			return buf
		}
		to := int32(tile)
		return append(buf,
			Phase{Op: Store, Peer: (4 + to) % 6, Bytes: 10_000},
			Phase{Op: Store, Peer: to, Bytes: 10_000, Read: 10_000},
			Phase{Op: Put, Peer: to, Bytes: 10_000, Time: 1})
	}
	first := Command{Op: Start, Copy: &Copy{Name: "first", From: 0, Peer: 3, Bytes: 10_000}}
	writes := kernel("writes", 1, []Phase{{Op: Work, Write: 10_000}})
	p := prog(nil, nil, []Stream{{Commands: []Command{first, send}}}, []Stream{{Commands: []Command{writes}}}, nil, nil)
	s := newSim(&m, p, Options{})
	s.flows.approx.exactPaths = 1
	for more := true; more; more = s.next() {
		s.instant()
		checkPools(t, s)
	}
}

// enlarge multiplies the bytes of a program.
func enlarge(p *Program, factor float64) {
	for g := range p.GPUs {
		for _, st := range p.GPUs[g].Streams {
			for _, c := range st.Commands {
				if c.Copy != nil {
					c.Copy.Bytes *= factor
				}
			}
		}
	}
	eachPhase(p, func(x *Phase) {
		x.Bytes, x.Read, x.Write = x.Bytes*factor, x.Read*factor, x.Write*factor
	})
}

// replicate makes the program's stores to GPU 0 stores to everyone, on a machine that can.
func replicate(p *Program, m *machine.Machine) {
	m.Fabric.Topology = machine.Switch
	eachPhase(p, func(x *Phase) {
		if x.Op == Store && x.Peer == 0 {
			x.Peer = Everyone
		}
	})
}

// eachKernel changes a program's kernels.
func eachKernel(p *Program, change func(*Kernel)) {
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
func eachPhase(p *Program, change func(*Phase)) {
	changed := func(phases func(int, []Phase) []Phase) func(int, []Phase) []Phase {
		if phases == nil {
			return nil
		}
		return func(of int, buf []Phase) []Phase {
			from := len(buf)
			buf = phases(of, buf)
			for i := range buf[from:] {
				change(&buf[from+i])
			}
			return buf
		}
	}
	eachKernel(p, func(k *Kernel) {
		k.Recipe, k.Prologue, k.Epilogue = changed(k.Recipe), changed(k.Prologue), changed(k.Epilogue)
	})
}

func checkPools(t rapid.TB, s *sim) {
	for i := range s.flows.pools {
		p := &s.flows.pools[i]
		used := 0.0
		for id := range s.flows.paths {
			way := &s.flows.paths[id]
			sends := 0.0
			for _, x := range way.stairs.steps {
				c := &s.flows.classes[x.class]
				sends += float64(c.n) * s.flows.rateOf(c)
			}
			for at, w := range way.quiet {
				if !s.isHushed(int32(id), int32(at), w) {
					continue
				}
				var k classKey
				s.phaseFlow(s.wgs.at(w), &k)
				sends += k.limit
			}
			pools, weights := s.flows.crossed(&s.flows.rises[id])
			for at, id := range pools {
				if int(id) == i {
					used += weights[at] * sends
				}
			}
		}
		if used > p.capacity*(1+1e-9) {
			t.Fatalf("at %d: pool %d carries %g of %g", s.now, i, used, p.capacity)
		}
		if accounted := p.used + p.quiet; math.Abs(used-accounted) > 1e-6*(used+1) {
			t.Fatalf("at %d: pool %d carries %g, but %g is accounted", s.now, i, used, accounted)
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
			if !free.Holds(room{}) || free != u.free {
				t.Fatalf("at %d: GPU %d CU %d: %d workgroups leave %v free, accounted %v", s.now, g, c, len(u.wgs), free, u.free)
			}
		}
	}
}
