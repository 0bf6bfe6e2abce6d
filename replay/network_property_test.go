package replay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// drawExchange draws a machine of single GPUs, and how much each puts to each other one.
func drawExchange(t *rapid.T) (machine.Machine, [][]float64) {
	gpus := rapid.IntRange(2, 12).Draw(t, "gpus")
	m := torus(gpus)
	m.Network.Topology = drawTopology(t)
	m.Network.Latency, m.Network.Hop = q(0), q(0)
	m.Network.Egress = q(rapid.SampledFrom([]float64{0, 30e9, 100e9}).Draw(t, "NIC egress"))
	m.GPU.Memory = q(0)
	bytes := make([][]float64, gpus)
	for from := range bytes {
		bytes[from] = make([]float64, gpus)
		for to := range bytes[from] {
			if from != to && rapid.Bool().Draw(t, "puts") {
				bytes[from][to] = float64(rapid.IntRange(1, rapid.SampledFrom([]int{100, 100_000, 1_000_000}).Draw(t, "most")).Draw(t, "bytes"))
			}
		}
	}
	return m, bytes
}

func exchange(t *rapid.T, m machine.Machine, bytes [][]float64) program.Time {
	return mustRun(t, m, allToAll(m.GPUs, func(from, to int) float64 { return bytes[from][to] }))
}

// Whatever is sent, what crosses the middle of a ring or torus crosses two
// links of each of the rings that are cut.
func TestBisectionIsNeverBeaten(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m, bytes := drawExchange(t)
		took := float64(exchange(t, m, bytes))
		shape := m.Network.Topology.Shape(m.GPUs)
		if m.Network.Topology == machine.Switch || m.Network.Topology == machine.Mesh {
			shape = [3]int{1, 1, 1}
		}
		below := 1
		for _, size := range shape {
			upper := func(g int) bool { return g/below%size >= size/2 }
			up, down := 0.0, 0.0
			for from := range bytes {
				for to, b := range bytes[from] {
					switch {
					case !upper(from) && upper(to):
						up += b
					case upper(from) && !upper(to):
						down += b
					}
				}
			}
			if cut := float64(2*m.GPUs/size) * 25; size > 1 && took < max(up, down)/cut*(1-1e-9)-1 {
				t.Fatalf("%s of %d: %g and %g bytes over a cut of %g bytes a nanosecond in %g ns", m.Network.Topology, m.GPUs, up, down, cut, took)
			}
			below *= size
		}
	})
}

// With all links faster alike, nothing that they limit takes longer; and a
// single put is not slower on any faster link or card.
func TestFasterLinksAreNotSlower(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m, bytes := drawExchange(t)
		by := rapid.Float64Range(1, 10).Draw(t, "factor")
		fast := m
		fast.Network.Egress.Value *= by
		fast.Network.Ingress.Value *= by
		fast.Network.Pair.Value *= by
		// Ends are rounded up to nanoseconds, one after another at most once a put.
		if slow, quick := exchange(t, m, bytes), exchange(t, fast, bytes); quick > slow+program.Time(m.GPUs*m.GPUs) {
			t.Fatalf("%d ns, with links faster by %g %d", slow, by, quick)
		}
		to := rapid.IntRange(1, m.GPUs-1).Draw(t, "to")
		one := make([][]float64, m.GPUs)
		for i := range one {
			one[i] = make([]float64, m.GPUs)
		}
		one[0][to] = 50_000
		only := m
		rate := rapid.SampledFrom([]*machine.Quantity{&only.Network.Egress, &only.Network.Ingress, &only.Network.Pair}).Draw(t, "which")
		rate.Value *= by
		if slow, quick := exchange(t, m, one), exchange(t, only, one); quick > slow {
			t.Fatalf("one put: %d ns, with one rate higher by %g %d", slow, by, quick)
		}
	})
}
