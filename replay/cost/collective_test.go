package cost_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// An eighth of a small all-reduce takes most of its time, by the profile 8.9 of 9.9 us: latency counts, not bytes.
func TestPartOfSmallCollective(t *testing.T) {
	l := lawsOf(plantest.H200(t, 4))
	l.Workload.Ops = make([]workload.Op, 4)
	c := &workload.Collective{Op: trace.AllReduce, Bytes: 128 << 10, Channels: 4, Depart: 14_000, Members: []int32{0, 1, 2, 3}}
	if alone, on := l.Collective(c, c.Bytes/8, 0); alone < 12_000 || alone > 13_000 || on != 1 {
		t.Errorf("an eighth of %d ns takes %d on %d channels", c.Transfer(), alone, on)
	}
}

// A setting with which the library runs on the captured channels changes nothing: NCCL rounds channels of all-to-alls
// up to a power of two.
func TestChannelsOfTheCapture(t *testing.T) {
	l := lawsOf(plantest.H200(t, 2))
	l.Workload.Ops = make([]workload.Op, 2)
	c := &workload.Collective{Op: trace.AllToAll, Bytes: 128 << 20, Channels: 17, Depart: 700_000, Members: []int32{0, 1}}
	for _, n := range []int{17, 24} {
		if alone, on := l.Collective(c, c.Bytes, n); alone != c.Transfer() || on != c.Channels {
			t.Errorf("%d channels: %d ns on %d, captured %d on %d", n, alone, on, c.Transfer(), c.Channels)
		}
	}
	if alone, _ := l.Collective(c, c.Bytes, 4); alone <= c.Transfer() {
		t.Errorf("4 channels: %d ns, captured %d", alone, c.Transfer())
	}
}

// A collective as captured takes the captured time. A part takes no longer than the whole, on no more channels, and
// parts together no less than the whole but for the latency of each.
func TestBoundsOfCollectives(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"h200", "a100", "mi300x", "b200"}).Draw(t, "machine")
		m, err := profile.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		ranks := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "ranks")
		l := lawsOf(m.Resize(ranks))
		l.Workload.Ops = make([]workload.Op, ranks)
		c := &workload.Collective{Op: rapid.SampledFrom([]trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter, trace.AllGather, trace.AllToAll}).Draw(t, "operation")}
		for i := range ranks {
			c.Members = append(c.Members, int32(i))
			l.Workload.Ops[i].Rank = i
		}
		n := rapid.Int64Range(1, 16).Draw(t, "parts")
		c.Bytes = n << rapid.IntRange(10, 26).Draw(t, "bytes of a part")
		c.Channels = rapid.IntRange(1, 32).Draw(t, "channels")
		c.Depart = trace.Time(rapid.IntRange(5_000, 10_000_000).Draw(t, "ns"))
		part, on := l.Collective(c, c.Bytes/n, 0)
		if n == 1 && (part != c.Transfer() || on != c.Channels) {
			t.Errorf("as captured: %d ns on %d channels", part, on)
		}
		if part > c.Transfer() || on > c.Channels {
			t.Errorf("one of %d parts of %d ns on %d channels takes %d on %d", n, c.Transfer(), c.Channels, part, on)
		}
		if sum := n * int64(part); float64(sum) < 0.7*float64(c.Transfer()) { // times of the profile by size differ so much from a line
			t.Errorf("%d parts together take %d ns, the whole %d", n, sum, c.Transfer())
		}
	})
}
