package machine_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Large collectives across nodes take what their fullest wire takes, and not
// much more: 2·(R-1)/R of an all-reduce through the 8 NICs of a node, or, where that is less, 7/8 of
// the bytes at the 160 GB/s of a GPU's NVLink; of an all-to-all the part for other nodes
// through one NIC a rank; on the torus 256 of 128·128 pairs through one link.
func TestTimeAcrossNodes(t *testing.T) {
	const bytes = 1 << 30
	for _, c := range []struct {
		machine string
		op      trace.CollectiveOp
		wire    float64 // seconds
	}{
		{"h800:16", trace.AllReduce, 9. / 8 * bytes / (0.85 * 160e9)}, // added in the switches
		{"h800:16", trace.AllGather, 7. / 8 * 15. / 16 * bytes / 160e9},
		{"mi300x:16", trace.AllReduce, 2 * 15. / 16 * bytes / 376e9}, // 8 NICs; the links of a GPU carry 336 GB/s
		{"h800:16", trace.AllToAll, 8. / 16 * bytes / 50e9},
		{"h800:256", trace.AllToAll, 248. / 256 * bytes / 50e9},
		{"a100:16", trace.AllReduce, 2 * bytes / 240e9}, // a tree of two nodes: NVLink is slower than the NICs
		{"a100:64", trace.AllReduce, 2 * 63. / 64 * bytes / 192e9},
		{"a100:16", trace.AllToAll, 8. / 16 * bytes / 24e9},
		{"v100:16", trace.AllToAll, 8. / 16 * bytes / 5.875e9}, // two GPUs a NIC
		{"mi210ib:2", trace.AllToAll, 1. / 2 * bytes / 20e9},
		{"mi210ib:2", trace.AllReduce, 1. * bytes / 20e9},
		{"torus128", trace.AllToAll, 256. / 128 * bytes / 25e9},
		{"torus128", trace.ReduceScatter, 127. / 128 * bytes / 50e9},
	} {
		m := machinetest.Load(t, c.machine)
		got := m.Library.Time(c.op, bytes, m.GPUs, 0)
		if got < c.wire || got > 1.3*c.wire {
			t.Errorf("%s, %v: %.2f ms, the wire alone %.2f", c.machine, c.op, got*1e3, c.wire*1e3)
		}
	}
}

// Of few bytes, the latency of the steps counts, by the tuner's numbers.
func TestLatencyAcrossNodes(t *testing.T) {
	m := machinetest.Load(t, "h800")
	alpha, hop := m.Library.AllReduce.Alpha.Value, m.Library.AllReduce.Hop.Value
	for _, c := range []struct {
		gpus int
		want float64
	}{
		{8, alpha + 14*hop},
		{16, alpha + 0.2e-6 + 2*7*hop + 2*1*5e-6},  // a tree of two nodes, chains inside
		{64, alpha + 0.2e-6 + 2*7*hop + 2*3*5e-6},  // three steps deep
		{256, alpha + 0.2e-6 + 2*7*hop + 2*5*5e-6}, // a ring would take 64 steps of 2.7 us from node to node
	} {
		if got := m.Library.Time(trace.AllReduce, 0, c.gpus, 0); machinetest.Off(got, c.want) > 1e-9 {
			t.Errorf("%d GPUs: %.2f us, want %.2f", c.gpus, got*1e6, c.want*1e6)
		}
	}
}

// LL carries half, and is left for Simple where its bytes cost more than Simple's latency.
func TestProtocolBySize(t *testing.T) {
	m := machinetest.Load(t, "a100")
	c := &m.Library.AllReduce
	for _, x := range []struct {
		bytes float64
		want  int // protocol
	}{{8 << 10, 0}, {1 << 30, 2}} {
		p := machine.NcclProtocols[x.want]
		body := c.Law(trace.AllReduce, 8, c.Channels.Value, x.bytes) - c.Alpha.Value - 14*c.Hop.Value
		want := c.Alpha.Value + p.Base - 6.6e-6 + 14*(c.Hop.Value+p.Hop-0.6e-6) + body/p.Rate
		if got := m.Library.Expected(trace.AllReduce, 8, c.Channels.Value, x.bytes); machinetest.Off(got, want) > 1e-9 {
			t.Errorf("%g bytes: %.2f us, want %.2f of protocol %d", x.bytes, got*1e6, want*1e6, x.want)
		}
	}
}

// More bytes never take less time once all channels have some, and a faster
// network never takes longer.
func TestTimeAcrossNodesGrows(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"h800", "mi210ib", "torus128", "v100", "a100", "a40", "h200", "b200", "gb200", "l40s", "mi300x"}).Draw(t, "machine")
		m := must.Have(machine.Load(name))(t)
		op := rapid.SampledFrom(machine.RecordedOps[:]).Draw(t, "op")
		most := m.Most.Value
		if m.Network.Topology == machine.Switch {
			most = max(most, 8*m.Network.Node.Value)
		}
		ranks := rapid.IntRange(2, int(most)).Draw(t, "ranks")
		bytes := rapid.Int64Range(1<<20, 1<<32).Draw(t, "bytes")
		lib := m.Library
		if per := int(lib.Network.Node.Value); per > 0 && ranks > per {
			lib.Switch.Value = 0 // between nodes the library also sums in the switch where a tree would be sooner (rule C26)
		}
		took := lib.Time(op, bytes, ranks, 0)
		if more := lib.Time(op, bytes+bytes/7+1, ranks, 0); more < took*(1-1e-12) {
			t.Errorf("%v of %d bytes on %d: %g s, of more %g s", op, bytes, ranks, took, more)
		}
		by := rapid.Float64Range(1, 10).Draw(t, "factor")
		lib.Network.Egress.Value *= by
		lib.Network.Pair.Value *= by
		if fast := lib.Time(op, bytes, ranks, 0); fast > took*(1+1e-12) {
			t.Errorf("%v of %d bytes on %d: %g s, on a faster network %g s", op, bytes, ranks, took, fast)
		}
	})
}
