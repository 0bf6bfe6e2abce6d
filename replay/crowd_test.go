package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
)

// drawCrowd is an exchange by puts, or by stores of so many workgroups, of which
// all components are crowds.
func drawCrowd(t *rapid.T) (machine.Machine, *Program) {
	m, bytes := drawExchange(t)
	share := func(from, to int) float64 { return bytes[from][to] }
	if rapid.Bool().Draw(t, "stores") {
		return m, storeToAll(m.GPUs, rapid.IntRange(1, 4).Draw(t, "workgroups"), share)
	}
	return m, allToAll(m.GPUs, share)
}

// Whenever no path of a crowd has changed since it was solved, what every path
// sends is max-min fair, however often the roll was called, whoever has come or
// gone since it was drawn up, and into whatever parts the crowd has fallen. And
// no path is forgotten: each is due when its next is done, or looked at again before.
func TestCrowdIsFairOnceSolved(t *testing.T) {
	called := 0
	rapid.Check(t, func(t *rapid.T) {
		m, p := drawCrowd(t)
		for _, few := range []int{1, 2, 3, 5, 10} {
			called += checkCrowd(t, &m, p, few)
		}
	})
	if called == 0 {
		t.Error("no roll was called")
	}
}

// A path that has ended is none of a crowd's when it begins again, in the instant
// in which the crowd changes. Links of a ring of 16 carry 25 bytes a nanosecond.
func TestCrowdForgetsWhoHasEnded(t *testing.T) {
	type put struct {
		at    Time
		to    int32
		bytes float64
	}
	for name, c := range map[string]struct {
		ingress float64
		puts    map[int][]put
	}{
		// From 8 to 10, beside three others, alone until 2600, when another begins, and
		// beside that one. The crowd that then is has always been elsewhere.
		"crowd elsewhere": {0, map[int][]put{
			0: {{0, 2, 1e6}, {2000, 3, 1e6}, {6000, 4, 1e6}},
			1: {{0, 2, 1e6}, {0, 3, 1e6}},
			7: {{0, 9, 5000}},
			8: {{0, 10, 50_000}, {0, 9, 10_000}, {2600, 9, 1e5}, {6000, 10, 1e5}},
			9: {{0, 10, 1000}},
		}},
		// From 15 to 1, beside two others on the link from 0 to 1, until 1200, when others
		// begin on the link to 0, and again at 3000, when one of the two ends.
		"another's pool": {20e9, map[int][]put{
			0:  {{0, 1, 1e6}, {0, 2, 32_500}},
			14: {{1200, 0, 1e6}},
			15: {{0, 1, 10_000}, {1200, 0, 1e6}, {3000, 1, 10_000}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := torus(16)
			m.Network.Topology, m.Network.Egress, m.Network.Ingress = machine.Ring, q(0), q(c.ingress)
			p := &Program{GPUs: make([]GPU, 16)}
			for from, puts := range c.puts {
				var phases []Phase
				at := Time(0)
				for _, x := range puts {
					phases = append(phases, Phase{Op: Sleep, Time: x.at - at}, Phase{Op: Put, Peer: x.to, Bytes: x.bytes})
					at = x.at
				}
				p.GPUs[from].Streams = []Stream{{Commands: []Command{kernel("puts", 1, phases)}}}
			}
			if checkCrowd(t, &m, p, 2) == 0 {
				t.Error("no roll was called")
			}
		})
	}
}

// checkCrowd runs a program in which components of more than so many paths are
// crowds, and returns how often a roll was called.
func checkCrowd(t rapid.TB, m *machine.Machine, p *Program, few int) (called int) {
	s := newSim(m, p, Options{})
	s.flows.crowd.few = few
	for more := true; more; more = s.next() {
		s.instant()
		checkPools(t, s)
		checkDue(t, &s.flows, s.now)
		if len(s.flows.crowd.stale) > 0 {
			continue
		}
		if s.flows.crowd.roll.called {
			called++
		}
		checkFair(t, s)
	}
	if s.err != nil {
		t.Fatalf("%v", s.err)
	}
	return called
}

// checkDue reports paths that no alarm will end in time.
func checkDue(t rapid.TB, f *flows, now Time) {
	h := &f.crowd.horizon
	for id := range f.paths {
		p := &f.paths[id]
		due := p.dueAt(now)
		put := p.beyond && h.at <= due && h.alarm == h.at
		if due < lastTime && p.alarm != due && !put {
			t.Fatalf("%d ns: path %d is done at %d; its alarm is %d, the horizon's %d", now, id, due, p.alarm, h.at)
		}
	}
}

// checkFair compares what paths send with what is max-min fair.
func checkFair(t rapid.TB, s *sim) {
	for id, want := range fair(&s.flows) {
		if got := s.flows.rises[id].sends; math.Abs(got-want) > 1e-6*want {
			t.Fatalf("%d ns: path %d sends %g bytes a nanosecond, fair are %g", s.now, id, got, want)
		}
	}
}

// fair is what each path with classes sends: all steps rise together until a
// limit or a full pool stops them.
func fair(f *flows) map[int32]float64 {
	type riser struct {
		step
		path int32
		done bool
	}
	var all []riser
	for id := range f.paths {
		for _, b := range f.paths[id].stairs {
			for _, x := range b.steps {
				all = append(all, riser{step: x, path: int32(id)})
			}
		}
	}
	sends := map[int32]float64{}
	for open := len(all); open > 0; {
		left, load := map[int32]float64{}, map[int32]float64{}
		level := math.Inf(1)
		for _, x := range all {
			pools, weights := f.crossed(&f.rises[x.path])
			for i, id := range pools {
				p := &f.pools[id]
				if _, ok := left[id]; !ok {
					left[id] = p.capacity - p.quiet
				}
				if !x.done {
					load[id] += weights[i] * x.mass
				}
			}
			if !x.done {
				level = min(level, x.level)
			}
		}
		for path, rate := range sends {
			pools, weights := f.crossed(&f.rises[path])
			for i, id := range pools {
				left[id] -= weights[i] * rate
			}
		}
		for id, mass := range load {
			level = min(level, left[id]/mass)
		}
		for i := range all {
			x := &all[i]
			full := x.level <= level*(1+1e-9)
			pools, _ := f.crossed(&f.rises[x.path])
			for _, id := range pools {
				full = full || left[id] <= level*load[id]*(1+1e-9)
			}
			if full && !x.done {
				x.done = true
				sends[x.path] += x.mass * level
				open--
			}
		}
	}
	return sends
}

// Whatever is sent over whatever network, a crowd takes at most one part in
// crowdPart longer than with rates that are found anew at every end, and no less
// but for the nanoseconds to which ends are rounded up, one after another.
func TestCrowdErrorIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, p := drawCrowd(t)
		took := func(few int) Time {
			s := newSim(&m, p, Options{})
			s.flows.crowd.few = few
			s.run(nil)
			return s.makespan
		}
		exact, crowded := took(m.GPUs*m.GPUs), took(1)
		if rounding := Time(m.GPUs); crowded < exact-exact/100-rounding || crowded > exact+exact/crowdPart+rounding {
			t.Fatalf("%s of %d: %d ns, exactly %d", m.Network.Topology, m.GPUs, crowded, exact)
		}
	})
}

// On a ring of 16 everyone sends to the next and to the one after it, so that
// each link has three puts. Where two of them end at once, too few of a crowd to
// find its rates anew, the third has the link to itself soon: with three times
// the bytes of the others it takes about as long as they.
func TestCrowdIsSolvedInTime(t *testing.T) {
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
	s := newSim(&m, p, Options{})
	s.flows.crowd.few = 1
	s.run(nil)
	if exact := Time(3 * each / 25); s.makespan < exact || s.makespan > exact+exact/crowdPart {
		t.Errorf("takes %d, with exact rates %d", s.makespan, exact)
	}
}

// A crowd takes at least as long as its fullest link is busy, and hardly longer
// than with rates that are found anew at every end.
func TestCrowdIsNearlyExact(t *testing.T) {
	const gpus = 32
	m, share := torus(gpus), uneven(gpus, 1e6)
	took := func(few int) Time {
		s := newSim(&m, allToAll(gpus, share), Options{})
		s.flows.crowd.few = few
		s.run(nil)
		return s.makespan
	}
	exact, crowded := took(gpus*gpus), took(few)
	if bound := Time(least(m, share)); crowded < bound || exact < bound {
		t.Errorf("%d ns, exactly %d; the fullest link is busy for %d", crowded, exact, bound)
	}
	if crowded == exact || crowded < exact*99/100 || crowded > exact*102/100 {
		t.Errorf("%d ns, exactly %d", crowded, exact)
	}
}
