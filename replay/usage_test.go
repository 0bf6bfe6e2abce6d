package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// A workgroup works on the only compute unit for 100 ns, then stores for 200 ns.
func TestUsage(t *testing.T) {
	p := prog([]program.Stream{{Commands: []program.Command{
		kernel("A", 1, []program.Phase{{Op: program.Work, Time: 100}, {Op: program.Store, Peer: 1, Bytes: 20_000}}),
	}}}, nil)
	r := mustSimulate(t, small(2, 1), p, Options{Usage: true})
	mean := func(gpu int, of string, from, to program.Time) float64 {
		for _, u := range r.Usage {
			if u.GPU == gpu && u.Of == of {
				sum := 0.0
				for i, share := range u.Shares {
					at := program.Time(i) * u.Width
					sum += share * float64(max(0, min(at+u.Width, to)-max(at, from)))
				}
				return sum / float64(to-from)
			}
		}
		t.Fatalf("nothing of the %s of GPU %d", of, gpu)
		return 0
	}
	for _, c := range []struct {
		gpu      int
		of       string
		from, to program.Time
		want     float64
	}{
		{0, ComputeUnits, 0, 300, 1},
		{0, "egress", 0, 100, 0},
		{0, "egress", 100, 300, 1},
		{1, "ingress", 100, 300, 1},
		{1, ComputeUnits, 0, 300, 0},
	} {
		if got := mean(c.gpu, c.of, c.from, c.to); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s of GPU %d from %d to %d: %v, want %v", c.of, c.gpu, c.from, c.to, got, c.want)
		}
	}
}

// Under an arbiter, the memory that computation and communication use is all that is used;
// recording it changes nothing.
func TestUsageAddsUp(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, m, r, with := drawTwice(t, Options{Usage: true})
		share := used(with)
		for g := range p.GPUs {
			sides := share[useKey{g, MemoryOfComputation}] + share[useKey{g, memoryOfCommunication}]
			if whole := share[useKey{g, "memory"}]; p.Arbiter.Policy != program.Fair && m.GPU.Memory.Value > 0 && r.Makespan > 0 && math.Abs(sides-whole) > 1e-6 {
				t.Errorf("GPU %d: %v of the memory by both sides, %v by all", g, sides, whole)
			}
		}
	})
}

type useKey struct {
	gpu int
	of  string
}

// used is the mean share of each resource that was in use, from Options.Usage.
func used(r *Result) map[useKey]float64 {
	all := map[useKey]float64{}
	for _, u := range r.Usage {
		sum := 0.0
		for i, share := range u.Shares {
			sum += share * float64(min(u.Width, r.Makespan-program.Time(i)*u.Width))
		}
		all[useKey{u.GPU, u.Of}] = sum / float64(r.Makespan)
	}
	return all
}

// The series of every GPU covers the makespan without gap, in a bounded number
// of pieces, and changes nothing else.
func TestLimitsCoverTheRun(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, _, r, with := drawTwice(t, Options{Limits: true})
		next := 0
		for g := range p.GPUs {
			at, n := program.Time(0), 0
			for ; next < len(with.Limits) && with.Limits[next].GPU == g; next++ {
				l := with.Limits[next]
				if l.Start != at || l.End <= at || l.By == "" {
					t.Fatalf("GPU %d: %+v after %d", g, l, at)
				}
				at, n = l.End, n+1
			}
			if at != r.Makespan || n > maxParts {
				t.Fatalf("GPU %d: %d pieces until %d, the makespan is %d", g, n, at, r.Makespan)
			}
		}
	})
}

// Whatever is added in whatever order, no time is lost, and each part holds
// what lies in it.
func TestParts(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var p parts
		type interval struct{ start, end program.Time }
		var all []interval
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			start := program.Time(rapid.IntRange(0, 1<<rapid.IntRange(0, 20).Draw(t, "bits")).Draw(t, "start"))
			end := start + program.Time(rapid.IntRange(1, 5000).Draw(t, "length"))
			all = append(all, interval{start, end})
			p.add(start, end)
		}
		width := p.width << rapid.IntRange(0, 3).Draw(t, "wider")
		for i := range maxParts {
			var want program.Time
			for _, x := range all {
				want += max(0, min(x.end, program.Time(i+1)*width)-max(x.start, program.Time(i)*width))
			}
			if got := p.at(i, width); got != want {
				t.Fatalf("part %d of %d: %d, want %d", i, width, got, want)
			}
		}
	})
}

// drawTwice simulates a program, and once more with something recorded, which must change
// no time.
func drawTwice(t *rapid.T, o Options) (p *program.Program, m machine.Machine, r, with *Result) {
	p, m, _ = drawRun(t, Options{})
	enlarge(p, float64(rapid.SampledFrom([]int{1, 100, 10_000}).Draw(t, "larger")))
	r, err := Simulate(m, p, Options{})
	skipDeadlock(t, err)
	if with, err = Simulate(m, p, o); err != nil || with.Makespan != r.Makespan {
		t.Fatalf("makespan %d, recorded %d (error %v)", r.Makespan, with.Makespan, err)
	}
	return p, m, r, with
}
