package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

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
