package replay

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// drawRun simulates a drawn program; a program that deadlocks is drawn anew.
func drawRun(t *rapid.T, o Options) (*Program, machine.Machine, *Result) {
	p := drawProgram(t)
	m := drawMachine(t, len(p.GPUs))
	r, err := Simulate(m, p, o)
	var deadlock *DeadlockError
	if errors.As(err, &deadlock) {
		if len(deadlock.Chain) == 0 {
			t.Fatal("a deadlock without an explanation")
		}
		t.Skip("deadlock")
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, m, r
}

// At every instant no pool carries more than it can, and no CU holds more
// than fits; at the end every pool has carried what the phases demanded.
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
		s.flows.crowd.few = rapid.SampledFrom([]int{few, 1}).Draw(t, "few")
		ends := 0
		for more := true; more; more = s.next() {
			ends += len(s.queue)
			s.instant()
			checkPools(t, s)
			checkCUs(t, s)
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

// eachPhase changes the phases of a program's recipes.
func eachPhase(p *Program, change func(*Phase)) {
	for g := range p.GPUs {
		for _, st := range p.GPUs[g].Streams {
			for _, c := range st.Commands {
				if c.Kernel == nil {
					continue
				}
				recipe := c.Kernel.Recipe
				c.Kernel.Recipe = func(tile int, buf []Phase) []Phase {
					buf = recipe(tile, buf)
					for i := range buf {
						change(&buf[i])
					}
					return buf
				}
			}
		}
	}
}

func checkPools(t *rapid.T, s *sim) {
	for i := range s.flows.pools {
		p := &s.flows.pools[i]
		used := 0.0
		for id := range s.flows.paths {
			way := &s.flows.paths[id]
			sends := 0.0
			for _, b := range way.stairs {
				for _, x := range b.steps {
					c := &s.flows.classes[x.class]
					sends += float64(c.n) * s.flows.rateOf(c)
				}
			}
			for at, w := range way.quiet {
				if !s.isHushed(int32(id), int32(at), w) {
					continue
				}
				var k classKey
				s.phaseFlow(s.wgs.at(w), &k)
				sends += k.limit
			}
			for at, id := range way.pools {
				if int(id) == i {
					used += way.weights[at] * sends
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

func checkCUs(t *rapid.T, s *sim) {
	for g := range s.gpus {
		for c := range s.gpus[g].cus {
			u := &s.gpus[g].cus[c]
			free := roomOf(&s.machine.GPU)
			for _, w := range u.wgs {
				free = free.minus(s.kernels.at(s.wgs.at(w).launch).need)
			}
			if !free.holds(room{}) || free != u.free {
				t.Fatalf("at %d: GPU %d CU %d: %d workgroups leave %v free, accounted %v", s.now, g, c, len(u.wgs), free, u.free)
			}
		}
	}
}

// Nothing is faster than its bytes through the narrowest pool, or than any of its phases alone.
func TestNotFasterThanPhysics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, m, r := drawRun(t, Options{})
		capacity := map[Resource]float64{
			Memory: m.GPU.Memory.Value, Egress: m.Fabric.Egress.Value, Ingress: m.Fabric.Ingress.Value,
			Cache: m.GPU.CacheRate.Value, NICEgress: m.Network.Egress.Value, NICIngress: m.Network.Ingress.Value,
		}
		type at struct {
			gpu int
			r   Resource
		}
		bytes := map[at]float64{}
		for _, x := range r.Traffic {
			bytes[at{x.GPU, x.Resource}] += x.Bytes
		}
		for a, b := range bytes {
			if c := capacity[a.r]; c > 0 && float64(r.Makespan) < b/c*1e9*(1-1e-9)-1 {
				t.Fatalf("GPU %d: %g bytes through a %s of %g in %d ns", a.gpu, b, a.r, c, r.Makespan)
			}
		}
		for _, u := range r.Use {
			if u.Fraction > 1+1e-9 || u.Saturated > r.Makespan {
				t.Fatalf("use of %s: %g of capacity, saturated %d of %d ns", u.Resource, u.Fraction, u.Saturated, r.Makespan)
			}
		}
		for _, c := range r.CUs {
			if c.Working > c.Held || c.Held > 1 {
				t.Fatalf("GPU %d: CUs held %g, working %g of the time", c.GPU, c.Held, c.Working)
			}
		}
	})
}

// The kernels and copies of a stream and its idle intervals cover the time
// until the makespan without gap or overlap, and every interval has a cause.
func TestEveryIdleIntervalHasACause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _, r := drawRun(t, Options{})
		type interval struct{ start, end Time }
		for g := range p.GPUs {
			for i := range p.GPUs[g].Streams {
				at := map[Time]interval{}
				for _, idle := range r.Idle {
					if idle.Rank == g && idle.Stream == i {
						at[idle.Start] = interval{idle.Start, idle.End}
					}
				}
				if p.GPUs[g].Streams[i].Host {
					if len(at) > 0 {
						t.Fatalf("a host stream is idle: %v", at)
					}
					continue
				}
				for _, s := range r.Run.Spans {
					lane := r.Run.Lanes[s.Lane]
					if s.Kind.OnDevice() && s.End > s.Start && int(lane.Rank) == g && lane.ID == p.GPUs[g].Streams[i].Queue {
						if _, taken := at[s.Start]; taken {
							t.Fatalf("GPU %d stream %d: busy and idle from %d", g, i, s.Start)
						}
						at[s.Start] = interval{s.Start, s.End}
					}
				}
				now := Time(0)
				for range at {
					next, ok := at[now]
					if !ok {
						t.Fatalf("GPU %d stream %d: neither busy nor idle from %d: %v", g, i, now, at)
					}
					now = next.end
				}
				if now < r.Makespan {
					t.Fatalf("GPU %d stream %d: nothing known from %d to %d", g, i, now, r.Makespan)
				}
			}
		}
	})
}

// Whatever the numbers, a simulation ends, in a result or in an error.
func TestExtremesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		number := func(what string) float64 {
			return rapid.SampledFrom([]float64{0, 5e-324, 1e-300, 1e-6, 1, math.Pi, 1e9, 1e18}).Draw(t, what)
		}
		rate := func(what string) machine.Quantity {
			return q(rapid.SampledFrom([]float64{0, 1, math.Pi, 1e9, 1e18}).Draw(t, what))
		}
		m.GPU.Memory, m.Fabric.Egress, m.Fabric.Ingress = rate("memory"), rate("egress"), rate("ingress")
		var odd []Phase
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			odd = append(odd, Phase{
				Op:    rapid.SampledFrom([]PhaseOp{Work, Store, Put}).Draw(t, "op"),
				Bytes: number("bytes"), Read: number("read"), Write: number("write"),
				Beside: rapid.SampledFrom([]float64{0, 1e-300, 1.5, 1e6}).Draw(t, "beside"),
				Favor:  rapid.SampledFrom([]float64{0, 1e-6, 1, 1e6}).Draw(t, "favor"),
				Time:   rapid.SampledFrom([]Time{0, 1, 1 << 30, lastTime - 1}).Draw(t, "time"),
			})
		}
		for g := range p.GPUs {
			for _, st := range p.GPUs[g].Streams {
				for _, c := range st.Commands {
					if c.Kernel != nil {
						c.Kernel.Recipe = func(tile int, buf []Phase) []Phase {
							x := odd[tile%len(odd)]
							x.Peer = int32((g + tile) % len(p.GPUs))
							return append(buf, x)
						}
					}
				}
			}
		}
		if r, err := Simulate(m, p, Options{}); err == nil && r.Makespan < 0 {
			t.Fatalf("makespan %d", r.Makespan)
		}
	})
}

// What workgroups spent is the time for which they were resident.
func TestSlotTimesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _, r := drawRun(t, Options{Level: Workgroups})
		free := map[string]bool{}
		for g := range p.GPUs {
			for _, st := range p.GPUs[g].Streams {
				for _, c := range st.Commands {
					if c.Kernel != nil && c.Kernel.Free {
						free[c.Kernel.Name] = true // not recorded below kernels
					}
				}
			}
		}
		type at struct {
			gpu  int
			name string
		}
		resident := map[at]Time{}
		for _, s := range r.Run.Spans {
			if s.Kind == trace.Workgroup {
				resident[at{r.Run.RankOf(s), r.Run.NameOf(s)}] += s.Dur()
			}
		}
		for _, s := range r.Slots {
			if sum := s.Working + s.Slowed + s.Waiting + s.Sleeping; !free[s.Name] && sum != resident[at{s.GPU, s.Name}] {
				t.Fatalf("GPU %d %s: %+v add up to %d, resident %d", s.GPU, s.Name, s, sum, resident[at{s.GPU, s.Name}])
			}
		}
	})
}

func TestRepeatsAreIdentical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m, first := drawRun(t, Options{Level: Phases})
		again, err := Simulate(m, p, Options{Level: Phases})
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("the same program on the same machine gave two results (error %v)", err)
		}
	})
}

// What is recorded does not change what happens.
func TestRecordingObservesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m, deep := drawRun(t, Options{Level: Phases})
		shallow, err := Simulate(m, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if shallow.Makespan != deep.Makespan || !reflect.DeepEqual(shallow.Idle, deep.Idle) || !reflect.DeepEqual(shallow.Traffic, deep.Traffic) {
			t.Fatalf("makespan %d recording kernels, %d recording phases", shallow.Makespan, deep.Makespan)
		}
	})
}

// A machine with faster memory and links is not slower on a program that does
// one thing at a time.
func TestFasterMachineIsNotSlower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		p.GPUs = p.GPUs[:1]
		p.GPUs[0].Streams = p.GPUs[0].Streams[:1]
		var one []Command
		for _, c := range p.GPUs[0].Streams[0].Commands {
			if c.Op == Launch {
				k := *c.Kernel
				k.WGs, k.Tiles, k.Cluster = 1, 0, 0
				c.Kernel = &k
				k.Recipe = atHome(k.Recipe)
			}
			if c.Op == Start {
				cp := *c.Copy
				cp.From, cp.Peer = 0, 0
				c.Copy = &cp
			}
			if c.Op != Wait {
				one = append(one, c)
			}
		}
		p.GPUs[0].Streams[0].Commands = one
		m := drawMachine(t, 1)
		m.GPU.Memory = q(40e9)
		fast := m
		fast.GPU.Memory = q(40e9 * rapid.Float64Range(1, 10).Draw(t, "factor"))
		slow := mustRun(t, m, p)
		if quick := mustRun(t, fast, p); quick > slow {
			t.Fatalf("%d ns, on the faster machine %d", slow, quick)
		}
	})
}

// atHome turns a recipe into one that waits for nobody and sends nothing away.
func atHome(recipe func(int, []Phase) []Phase) func(int, []Phase) []Phase {
	return func(tile int, buf []Phase) []Phase {
		for _, p := range recipe(tile, nil) {
			p.Peer = 0
			if p.Op != WaitFor && p.Op != Put {
				buf = append(buf, p)
			}
		}
		return buf
	}
}

func mustRun(t *rapid.T, m machine.Machine, p *Program) Time {
	r, err := Simulate(m, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Makespan
}

// With all times and bytes a thousand times as large everything takes a
// thousand times as long, but for rounding up to nanoseconds. Priorities,
// waits and tickets could turn on one: the program has none that matter.
func TestScaledProgramScales(t *testing.T) {
	const factor = 1000
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 3).Draw(t, "gpus")
		m := drawMachine(t, gpus)
		phases := drawPhases(t, gpus)
		build := func(scale Time) *Program {
			p := &Program{}
			for i := range 3 {
				p.NewFlag(string(rune('a' + i)))
			}
			for range gpus {
				k := kernel("k", 4, nil, threads(1), pipe(.3))
				k.Kernel.Recipe = atHome(func(int, []Phase) []Phase {
					var scaled []Phase
					for _, p := range phases {
						p.Time *= scale
						p.Bytes, p.Read, p.Write = p.Bytes*float64(scale), p.Read*float64(scale), p.Write*float64(scale)
						scaled = append(scaled, p)
					}
					return scaled
				})
				p.GPUs = append(p.GPUs, GPU{Streams: []Stream{{Commands: []Command{k}}}})
			}
			return p
		}
		one, many := mustRun(t, m, build(1)), mustRun(t, m, build(factor))
		if many > one*factor || many < (one-Time(2*len(phases)))*factor {
			t.Fatalf("%d ns, scaled by %d %d ns", one, factor, many)
		}
	})
}

// Workgroups of a kernel of lower priority that run when one of higher
// priority comes run on; only what has not been placed stands back.
func TestPriorityNeverPreempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(1, 12).Draw(t, "low")
		high := rapid.IntRange(1, 12).Draw(t, "high")
		cus := rapid.IntRange(1, 4).Draw(t, "cus")
		at := Time(rapid.IntRange(1, 25).Draw(t, "at"))
		p := prog([]Stream{
			{Name: "low", Commands: []Command{kernel("low", low, work(10))}},
			{Name: "high", Priority: 1, Commands: []Command{{Op: Delay, Delay: at}, kernel("high", high, work(7))}},
		})
		r, err := Simulate(small(1, cus), p, Options{Level: Workgroups})
		if err != nil {
			t.Fatal(err)
		}
		lastHigh := Time(0)
		for _, s := range r.Run.Spans {
			if s.Kind == trace.Workgroup && r.Run.NameOf(s) == "high" {
				lastHigh = max(lastHigh, s.Start)
			}
		}
		for _, s := range r.Run.Spans {
			if s.Kind != trace.Workgroup || r.Run.NameOf(s) != "low" {
				continue
			}
			if s.Dur() != 10 {
				t.Fatalf("a workgroup of low ran from %d to %d", s.Start, s.End)
			}
			if s.Start > at && s.Start < lastHigh {
				t.Fatalf("low started at %d, high had workgroups waiting from %d to %d", s.Start, at, lastHigh)
			}
		}
	})
}
