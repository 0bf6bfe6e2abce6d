package machine_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// clusters are machines of nodes with NICs, and numbers of nodes.
var (
	clusters   = []string{"v100", "a100", "h100", "h200", "h800", "mi250x", "mi300x"}
	nodeCounts = []int{2, 3, 4, 8, 16}
)

func nodesOf(t *testing.T, name string, nodes int) machine.Machine {
	t.Helper()
	m := must.Have(machinetest.Load(t, name).Sized(nodes * int(machinetest.Load(t, name).Network.Node.Value)))(t)
	return m
}

// An all-reduce sends each byte out of a node at least once, and takes no more than 1.3
// times what the NICs or the links of a ring, a tree or sums in the nodes' switches need. More nodes
// never take less; where switches add, pieces are smaller from four nodes on, and the tuner takes
// them too soon for small buffers (rule C26).
func TestAllReduceOverNodes(t *testing.T) {
	for _, name := range clusters {
		last, less := map[int64]float64{}, 0.997 // a rank's last sum gets smaller
		if machinetest.Load(t, name).Library.Switch.Value > 0 {
			less = 0.75
		}
		for _, nodes := range nodeCounts {
			m := nodesOf(t, name, nodes)
			out := m.Network.NICs.Value * m.Network.Egress.Value
			for _, bytes := range []int64{0, 1 << 10, 1 << 20, 64 << 20, 1 << 30, 8 << 30} {
				took := m.Library.Time(trace.AllReduce, bytes, m.GPUs, 0)
				if least := float64(bytes) / out; took < least {
					t.Errorf("%s, %d bytes: %.1f us, one crossing of the NICs alone %.1f", m.Name, bytes, took*1e6, least*1e6)
				}
				if took < last[bytes]*less || bytes == 0 && took < last[bytes] {
					t.Errorf("%s, %d bytes: %.2f us, on fewer nodes %.2f", m.Name, bytes, took*1e6, last[bytes]*1e6)
				}
				last[bytes] = took
			}
			const large = 8 << 30
			r, link := float64(m.GPUs), m.Library.AllReduce.Link.Value
			per := float64(m.PerNode())
			ring := 2 * (r - 1) / r * large / min(out, link*per/(per-1))
			tree := max(min(2, float64(nodes)/2)*large/out, 2*large/(0.92*link))
			added := math.Inf(1)
			if s := m.Library.Switch.Value; s > 0 {
				added = max(min(2, float64(nodes)/2)*large/out, large*(1+1/per)/(s*link))
			}
			if took, want := last[large], min(ring, tree, added); took < want*0.95 || took > 1.3*want {
				t.Errorf("%s: 8 GiB take %.1f ms, ring %.1f, tree %.1f", m.Name, took*1e3, ring*1e3, tree*1e3)
			}
		}
	}
}

// Every rank of an all-to-all sends its part for other nodes through its share of the NICs.
func TestAllToAllOverNodes(t *testing.T) {
	for _, name := range clusters {
		for _, nodes := range nodeCounts {
			m := nodesOf(t, name, nodes)
			r, per := float64(m.GPUs), float64(m.PerNode())
			share := m.Network.NICs.Value * m.Network.Egress.Value / per
			for _, bytes := range []int64{1 << 20, 1 << 30} {
				took, least := m.Library.Time(trace.AllToAll, bytes, m.GPUs, 0), float64(bytes)*(r-per)/r/share
				if took < least || bytes == 1<<30 && took > 1.3*least {
					t.Errorf("%s, %d bytes: %.2f ms, the NICs alone %.2f", m.Name, bytes, took*1e3, least*1e3)
				}
			}
		}
	}
}

// In one NVLink domain of 18 hosts a small all-reduce is a tree: three links of a chain in
// each host, five levels over the hosts, up and down.
func TestTreeOverHosts(t *testing.T) {
	m := machinetest.Load(t, "gb200:72")
	c := &m.Library.AllReduce
	want := c.Alpha.Value + 0.2e-6 + 2*(3+5)*c.Hop.Value
	if got := m.Library.Time(trace.AllReduce, 0, 72, 0); machinetest.Off(got, want) > 1e-9 {
		t.Errorf("one domain: %.2f us, want %.2f", got*1e6, want*1e6)
	}
	m = machinetest.Load(t, "gb200:144")
	if got := m.Library.Time(trace.AllReduce, 0, 144, 0); machinetest.Off(got, want+2*5e-6) > 1e-9 {
		t.Errorf("two domains: %.2f us, want %.2f", got*1e6, (want+2*5e-6)*1e6)
	}
	if got, want := m.Library.Time(trace.AllReduce, 8<<30, 72, 0), 73./72*8*(1<<30)/(0.74*c.Link.Value); got < want || got > 1.1*want {
		t.Errorf("8 GiB: %.1f ms, sums in the switch alone %.1f", got*1e3, want*1e3)
	}
	if got, want := m.Library.Time(trace.AllReduce, 0, 4, 0), c.Alpha.Value+6*c.Hop.Value; machinetest.Off(got, want) > 1e-9 {
		t.Errorf("one host: %.2f us, want %.2f", got*1e6, want*1e6)
	}
}

// A channel serves its pairs with other nodes one after another: 32 channels have four
// rounds for the 120 ranks of the other 15 nodes.
func TestRoundsOfPairs(t *testing.T) {
	m := nodesOf(t, "h200", 16)
	c := &m.Library.AllToAll
	for channels, rounds := range map[int]float64{32: 4, 8: 15, 1: 120} {
		want := c.Alpha.Value + 7*c.Hop.Value + rounds*2.7e-6
		if got := m.Library.Time(trace.AllToAll, 0, m.GPUs, channels); machinetest.Off(got, want) > 1e-9 {
			t.Errorf("%d channels: %.2f us, want %.2f", channels, got*1e6, want*1e6)
		}
	}
}

// Where latency counts, the library runs a tree: its steps grow with the logarithm of the
// nodes. Large buffers on four nodes and more run a ring, or are added in the nodes' switches.
func TestTreeForSmallRingForLarge(t *testing.T) {
	for _, name := range clusters {
		for _, nodes := range []int{4, 8, 16} {
			m := nodesOf(t, name, nodes)
			large := "ring"
			if m.Library.Switch.Value > 0 {
				large = "nvls"
			}
			for bytes, want := range map[int64]string{8 << 10: "tree", 8 << 30: large} {
				if got := m.Library.Relative(trace.AllReduce, bytes, m.GPUs, 16, machine.AlgoProto{Algorithm: want}); math.Abs(got-1) > 1e-9 {
					t.Errorf("%s, %d bytes: a %s takes %.2f times the library's choice", m.Name, bytes, want, got)
				}
			}
		}
	}
}

// The tuner's corrections: protocol LL has a limit between nodes, and the latency of a
// ring with Simple is 1.4 times as long from a size on.
func TestTunerBetweenNodes(t *testing.T) {
	m := nodesOf(t, "h200", 4)
	l := &m.Library
	seconds := func(bytes float64, algorithm, protocol string) float64 {
		return l.Expected(trace.AllReduce, 32, 16, bytes) *
			l.Relative(trace.AllReduce, int64(bytes), 32, 16, machine.AlgoProto{Algorithm: algorithm, Protocol: protocol})
	}
	const mib = 1 << 20
	if got, want := seconds(64*mib, "ring", "ll"), 2*31./32*64*mib/35e9; got < want || got > 1.1*want {
		t.Errorf("64 MiB by LL: %.0f us, at 35 GB/s %.0f", got*1e6, want*1e6)
	}
	step := float64(64 * 16 * 32)
	c := &l.AllReduce
	base := c.Alpha.Value + 1.8e-6 + 54*(c.Hop.Value+2.8e-6) + 8*14e-6
	if got := seconds(step, "ring", "simple") - seconds(step-1, "ring", "simple"); machinetest.Off(got, 0.4*base) > 1e-3 {
		t.Errorf("a ring's latency grows by %.1f us, want %.1f", got*1e6, 0.4*base*1e6)
	}
	// Between the sizes of the table a tree's share is interpolated: more bytes take longer.
	for _, protocol := range machine.Protocols {
		last := 0.0
		for bytes := 256. * 1024; bytes < 4<<30; bytes *= 1.05 { // all channels have some
			took := seconds(bytes, "tree", protocol)
			if took < last {
				t.Errorf("%s: a tree takes %.2f us for %.0f bytes, %.2f for fewer", protocol, took*1e6, bytes, last*1e6)
			}
			last = took
		}
	}
}

// A group of one rank a node crosses the network, through one NIC; the ranks of one node
// do not.
func TestLibraryForRanks(t *testing.T) {
	m := nodesOf(t, "h200", 2)
	const bytes = 1 << 30
	time := func(ranks ...int) float64 {
		return m.LibraryFor(ranks).Time(trace.AllReduce, bytes, len(ranks), 0)
	}
	if got, want := time(0, 8), bytes/47e9; got < want || got > 1.2*want {
		t.Errorf("two nodes: %.2f ms, a NIC alone %.2f", got*1e3, want*1e3)
	}
	if got, want := time(0, 1), m.Library.Time(trace.AllReduce, bytes, 2, 0); got != want {
		t.Errorf("one node: %.2f ms, want %.2f", got*1e3, want*1e3)
	}
	if got, want := time(4, 5, 12, 13), time(0, 8)/2; machinetest.Off(got, want) > 0.2 {
		t.Errorf("two ranks a node: %.2f ms, want %.2f", got*1e3, want*1e3)
	}
}

// A tree sends as many bytes as a ring, of which fewer between nodes.
func TestWireShares(t *testing.T) {
	for _, nodes := range nodeCounts {
		m := nodesOf(t, "a100", nodes)
		between, inside := m.Library.WireShares(trace.AllReduce, 8<<10, m.GPUs, 1, machine.AlgoProto{})
		if inside == 1 {
			t.Fatalf("%s: 8 KiB do not run a tree", m.Name)
		}
		n, per, r := float64(nodes), 8.0, float64(m.GPUs)
		ring := 2 * (r - 1) / r
		if total := n * ring * (between + (per-1)*inside); machinetest.Off(total, 2*(r-1)) > 1e-12 {
			t.Errorf("%s: a tree sends %.3f times the buffer, want %.3f", m.Name, total, 2*(r-1))
		}
		if got := n * ring * between; machinetest.Off(got, 2*(n-1)) > 1e-12 {
			t.Errorf("%s: a tree sends %.3f times the buffer between nodes, want %.3f", m.Name, got, 2*(n-1))
		}
	}
	m := nodesOf(t, "a100", 2)
	if a, b := m.Library.WireShares(trace.AllReduce, 1<<30, 8, 24, machine.AlgoProto{}); a != 1 || b != 1 {
		t.Errorf("one node: %g, %g", a, b)
	}
}
