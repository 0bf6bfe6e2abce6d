package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// bareNodes is the bare machine as nodes of so many GPUs, each with a NIC of its
// own through which a shard takes 100 µs too.
func bareNodes(t testing.TB, gpus, node int) machine.Machine {
	m := bare(t, gpus, machine.Switch)
	rate := m.Fabric.Pair
	m.Network.Node.Value, m.Network.NICs.Value, m.Network.Topology = float64(node), float64(node), machine.Switch
	m.Network.Egress, m.Network.Ingress = rate, rate
	return m
}

// Two nodes of two. The product leaves 5 of 132 compute units: 127 workgroups on
// 1024 tiles of 38 µs, so that the first eight have nine tiles.
func TestOnesidedBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		spec spec
		node int
		set  string
		want trace.Time
	}{
		// Shard 1 comes from the neighbour and shard 2 through the NIC at 100, shard 3 is passed on
		// by 200. Behind the own shard workgroups 2 to 7 have seven tiles left, from 100 on.
		{"all-gather", gathered, 2, "reserve=5", 366_000},
		// One GPU a node: three puts share a NIC, and all are there at 300; one sends, none passes on.
		// 129 workgroups: the last eight tiles of the own shard are the second round's, and the
		// first 121 have eight tiles: six of other shards behind 300.
		{"all-gather, a node each", gathered, 1, "reserve=3", 528_000},
		// The other node's shards are computed at 114 and 190: scattered by 214, sent by 314.
		// The own node's at 266 and 342: scattered by 366.
		{"reduce-scatter", scattered, 2, "reducers=4", 366_000},
	} {
		w := c.spec.build(t)
		got := outcome(t, w, bareNodes(t, 4, c.node), "onesided", settings("graph=on:"+c.set))
		if abs(got.Time-c.want) > 300 {
			t.Errorf("%s: %d ns, want %d (%s)", c.name, got.Time, c.want, got.Why)
		}
	}
}

// Shards cross between nodes once a pair of counterparts, whatever their number
// in a node: partial results are added before they are sent, and what is
// gathered is passed on within the node.
func TestBytesBetweenNodes(t *testing.T) {
	for _, s := range []spec{gathered, scattered} {
		s.ranks, s.steps = 8, 1
		got := outcome(t, s.build(t), bareNodes(t, 8, 4), "onesided", settings("graph=on"))
		if got.Result == nil {
			t.Fatalf("%s: %s", s.op, got.Why)
		}
		shard := float64(s.bytes) / 8
		want := map[replay.Resource]float64{replay.Egress: 6 * shard, replay.NICEgress: shard} // two shards to each of three peers, one to the other node
		sent := map[replay.Resource]float64{}
		for _, tr := range got.Result.Traffic {
			if tr.GPU == 5 {
				sent[tr.Resource] += tr.Bytes
			}
		}
		for r, bytes := range want {
			if !near(sent[r], bytes) {
				t.Errorf("%s: rank 5 sent %.0f bytes by %v, want %.0f", s.op, sent[r], r, bytes)
			}
		}
	}
}

// The orders that the rules state for two nodes of four.
func TestOrderBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		rank   int
		gather bool
		want   string
	}{
		{0, false, "5 6 7 4 1 2 3 0"},
		{4, false, "1 2 3 0 5 6 7 4"},
		{1, true, "1 0 3 2 5 4 7 6"},
	} {
		var got []string
		for _, s := range (cluster{nodes: 2, per: 4, node: c.rank / 4, local: c.rank % 4}).order(c.gather) {
			got = append(got, string(rune('0'+s)))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("rank %d: %s, want %s", c.rank, s, c.want)
		}
	}
}

// Adding beside the product takes as few workgroups as keep up, or as many as
// are given; the last sum, beside which nothing computes, takes them all.
func TestReducers(t *testing.T) {
	s := scattered
	s.steps = 1
	for _, set := range []string{"reducers=3", ""} {
		m := bareNodes(t, 4, 2)
		m.GPU.Memory.Value = 132e12 // a compute unit adds a shard of 16 MiB in 50 µs; a copy of it and sending it take 100 each
		if set == "" {
			m.Network.Egress.Value *= 2 // 50 are left
		}
		run := outcome(t, s.build(t), m, "onesided", settings("graph=on:"+set)).Result.Run
		var grids []int
		for _, x := range run.Spans {
			if k := run.Kernel(x); k != nil && run.RankOf(x) == 0 && run.NameOf(x) == "sum of 2 partial results" {
				grids = append(grids, int(k.Grid[0]))
			}
		}
		want := 3
		if set == "" {
			want = 2 // (2+1)·16 MiB in 50 µs is one TB/s: more than one compute unit's
		}
		if len(grids) != 2 || grids[0] != want || grids[1] <= 132 {
			t.Errorf("%q: sums on %v workgroups, want %d and then all", set, grids, want)
		}
	}
}

func TestBetweenNodesRefuses(t *testing.T) {
	six := gathered
	six.ranks = 6
	for _, c := range []struct {
		spec spec
		node int
		set  string
		want string
	}{
		{gathered, 2, "impl=pull", "impl=push, product=whole"},
		{moeDown, 2, "", "impl=ll"},
		{six, 4, "", "not equally many ranks of each node"},
	} {
		got := outcome(t, c.spec.build(t), bareNodes(t, c.spec.ranks, c.node), "onesided", settings(c.set))
		if got.Result != nil || !strings.Contains(got.Why, c.want) {
			t.Errorf("%s: %q, want %q", c.spec.op, got.Why, c.want)
		}
	}
}

// A library's rings over two nodes of four leave from another GPU each: with
// twice as many channels as GPUs in a node, every NIC carries two of them.
func TestRingsUseAllNICs(t *testing.T) {
	s := scattered
	s.ranks, s.steps, s.channels = 8, 1, 8
	got := outcome(t, s.build(t), bareNodes(t, 8, 4), "bulk", settings("graph=on"))
	wire := float64(s.bytes) * 7 / 8
	for gpu := range 8 {
		sent := map[replay.Resource]float64{}
		for _, tr := range got.Result.Traffic {
			if tr.GPU == gpu {
				sent[tr.Resource] += tr.Bytes
			}
		}
		if !near(sent[replay.NICEgress], wire/4) || !near(sent[replay.Egress], wire*3/4) {
			t.Errorf("rank %d sent %.0f bytes to the other node and %.0f within, want %.0f and %.0f", gpu, sent[replay.NICEgress], sent[replay.Egress], wire/4, wire*3/4)
		}
	}
}
