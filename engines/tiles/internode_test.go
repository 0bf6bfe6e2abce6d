package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two nodes of two, 1024 tiles of 38 µs. Before the all-gather the GEMM leaves 5 of 132 compute
// units: 127 workgroups, of which the first eight have nine tiles.
func TestOnesidedBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		spec plantest.Spec
		node int
		want trace.Time
	}{
		// Shard 1 comes from the neighbour and shard 2 through the NIC at 100, shard 3 is passed on
		// by 200. Behind the own shard workgroups 2 to 7 have seven tiles left, from 100 on.
		{"all-gather", plantest.Gathered, 2, 366_000},
		// One GPU a node: three puts share a NIC, and all are there at 300; one sends, none passes on.
		// 129 workgroups: the last eight tiles of the own shard are the second round's, and the
		// first 121 have eight tiles: six of other shards behind 300.
		{"all-gather, a node each", plantest.Gathered, 1, 528_000},
		// Copying a shard takes as long as sending it, which leaves no time to add: 33 compute units add
		// and one sends, and the GEMM has eleven rounds on the other 98. All else is hidden: the other
		// node's sum is sent from 228 to 328, the last copy to the neighbour ends at 404.
		{"reduce-scatter", plantest.Scattered, 2, 418_000},
	} {
		w := c.spec.Build(t)
		got := enginetest.Outcome(t, w, bareNodes(t, 4, c.node), "onesided", enginetest.Settings("graph=on"))
		if compare.Abs(got.Simulated-c.want) > 300 {
			t.Errorf("%s: %d ns, want %d (%s)", c.name, got.Simulated, c.want, got.Why)
		}
	}
}

// Shards cross between nodes once a pair of counterparts, whatever their number
// in a node: partial results are added before they are sent, and what is
// gathered is passed on within the node.
func TestBytesBetweenNodes(t *testing.T) {
	for _, s := range []plantest.Spec{plantest.Gathered, plantest.Scattered} {
		s.Ranks, s.Steps = 8, 1
		got := enginetest.Outcome(t, s.Build(t), bareNodes(t, 8, 4), "onesided", enginetest.Settings("graph=on"))
		if got.Result == nil {
			t.Fatalf("%s: %s", s.Op, got.Why)
		}
		shard := float64(s.Bytes) / 8
		want := map[replay.Resource]float64{replay.Egress: 6 * shard, replay.NICEgress: shard} // two shards to each of three peers, one to the other node
		sent := map[replay.Resource]float64{}
		for _, tr := range got.Result.Traffic {
			if tr.GPU == 5 {
				sent[tr.Resource] += tr.Bytes
			}
		}
		for r, bytes := range want {
			if !plantest.Near(sent[r], bytes) {
				t.Errorf("%s: rank 5 sent %.0f bytes by %v, want %.0f", s.Op, sent[r], r, bytes)
			}
		}
	}
}

// Adding alongside the GEMM takes as few workgroups as keep up; the last sum, alongside which nothing computes, takes them all.
func TestReducers(t *testing.T) {
	s := plantest.Scattered
	s.Steps = 1
	m := bareNodes(t, 4, 2)
	m.GPU.Memory.Value = 132e12 // a compute unit adds a shard of 16 MiB in 50 µs; a copy of it takes 100
	m.Network.Egress.Value *= 2 // sending it takes 50: 50 are left
	run := enginetest.Outcome(t, s.Build(t), m, "onesided", enginetest.Settings("graph=on")).Result.Run
	var grids []int
	for _, x := range run.Spans {
		if k := run.Kernel(x); k != nil && run.RankOf(x) == 0 && run.NameOf(x) == "sum of 2 partial results" {
			grids = append(grids, run.Setup(k).WGs())
		}
	}
	if len(grids) != 2 || grids[0] != 2 || grids[1] <= 132 { // (2+1)·16 MiB in 50 µs is one TB/s: more than one compute unit's
		t.Errorf("sums on %v workgroups, want 2 and then all", grids)
	}
}

func TestBetweenNodesRefuses(t *testing.T) {
	six := plantest.Gathered
	six.Ranks = 6
	for _, c := range []struct {
		spec plantest.Spec
		node int
		set  string
		want string
	}{
		{plantest.Gathered, 2, "impl=pull", "impl=push, gemm=whole"},
		{plantest.MoeDown, 2, "", "impl=ll"},
		{six, 4, "", "not equally many ranks of each node"},
	} {
		got := enginetest.Outcome(t, c.spec.Build(t), bareNodes(t, c.spec.Ranks, c.node), "onesided", enginetest.Settings(c.set))
		if got.Result != nil || !strings.Contains(got.Why, c.want) {
			t.Errorf("%s: %q, want %q", c.spec.Op, got.Why, c.want)
		}
	}
}

// Over two nodes of a mesh of four the rings of a library take all links of a GPU: its three channels
// of four that stay inside send to all three others, and none of them is slower than through a switch.
func TestRingsOverMeshesUseAllLinks(t *testing.T) {
	s := plantest.Scattered
	s.Ranks, s.Steps, s.Channels = 8, 1, 8
	took := map[machine.Topology]trace.Time{}
	for _, top := range []machine.Topology{machine.Switch, machine.Mesh} {
		m := bareNodes(t, 8, 4)
		m.Fabric.Topology = top
		m.Fabric.Pair.Value = m.Fabric.Egress.Value
		if top == machine.Mesh {
			m.Fabric.Pair.Value /= 3
		}
		took[top] = enginetest.Outcome(t, s.Build(t), m, "bulk", enginetest.Settings("graph=on")).Time
	}
	if mesh, through := float64(took[machine.Mesh]), float64(took[machine.Switch]); mesh > 1.02*through {
		t.Errorf("over a mesh %.1f us, through a switch %.1f", mesh/1e3, through/1e3)
	}
}

// A library's rings over two nodes of four leave from another GPU each: with
// twice as many channels as GPUs in a node, every NIC carries two of them.
func TestRingsUseAllNICs(t *testing.T) {
	s := plantest.Scattered
	s.Ranks, s.Steps, s.Channels = 8, 1, 8
	got := enginetest.Outcome(t, s.Build(t), bareNodes(t, 8, 4), "bulk", enginetest.Settings("graph=on"))
	wire := float64(s.Bytes) * 7 / 8
	for gpu := range 8 {
		sent := map[replay.Resource]float64{}
		for _, tr := range got.Result.Traffic {
			if tr.GPU == gpu {
				sent[tr.Resource] += tr.Bytes
			}
		}
		if !plantest.Near(sent[replay.NICEgress], wire/4) || !plantest.Near(sent[replay.Egress], wire*3/4) {
			t.Errorf("rank %d sent %.0f bytes to the other node and %.0f within, want %.0f and %.0f", gpu, sent[replay.NICEgress], sent[replay.Egress], wire/4, wire*3/4)
		}
	}
}

// bareNodes is the bare machine as nodes of so many GPUs, each with a NIC of its
// own through which a shard takes 100 µs too.
func bareNodes(t testing.TB, gpus, node int) machine.Machine {
	m := plantest.Bare(t, gpus, machine.Switch)
	rate := m.Fabric.Pair
	m.Network, m.Library.Network = machine.Network{}, machine.Network{}
	m.Network.Node.Value, m.Network.NICs.Value, m.Network.Topology = float64(node), float64(node), machine.Switch
	m.Network.Egress, m.Network.Ingress = rate, rate
	return m
}
