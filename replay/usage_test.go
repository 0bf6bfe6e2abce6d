package replay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
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

// The parts of a resource add up to its mean use; recording them changes nothing.
func TestUsageAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m, r, with := drawTwice(t, Options{Usage: true})
		type key struct {
			gpu int
			of  string
		}
		want, got := map[key]float64{}, map[key]float64{}
		for _, u := range r.Use {
			want[key{u.GPU, u.Resource.String()}] = u.Fraction
		}
		for _, c := range r.CUs {
			want[key{c.GPU, ComputeUnits}] = c.Working
		}
		for _, u := range with.Usage {
			sum := 0.0
			for i, share := range u.Shares {
				sum += share * float64(min(u.Width, with.Makespan-program.Time(i)*u.Width))
			}
			got[key{u.GPU, u.Of}] = sum / float64(max(1, with.Makespan))
		}
		for g := range p.GPUs { // under an arbiter
			a, b := key{g, MemoryOfComputation}, key{g, MemoryOfCommunication}
			if whole := want[key{g, "memory"}]; p.Arbiter.Policy != program.Fair && m.GPU.Memory.Value > 0 && r.Makespan > 0 && math.Abs(got[a]+got[b]-whole) > 1e-6 {
				t.Errorf("GPU %d: %v of the memory by computation, %v by communication, %v by all", g, got[a], got[b], whole)
			}
			delete(got, a)
			delete(got, b)
		}
		if r.Makespan > 0 {
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" {
				t.Errorf("mean use, -want +got:\n%s", diff)
			}
		}
	})
}
