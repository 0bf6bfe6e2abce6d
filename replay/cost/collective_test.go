package cost_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// An eighth of a small all-reduce takes most of its time, by the profile 8.9 of 9.9 us: latency counts, not bytes.
func TestPartOfSmallCollective(t *testing.T) {
	l := lawsOf(plantest.H200(t, 4))
	l.Workload.Ops = make([]workload.Op, 4)
	c := &workload.Collective{Op: trace.AllReduce, Bytes: 128 << 10, Channels: 4, Times: workload.Times{Depart: 14_000}, Members: []int32{0, 1, 2, 3}}
	if e := l.Collective(c, c.Bytes/8, 0); e.Alone < 12_000 || e.Alone > 13_000 || e.Channels != 1 {
		t.Errorf("an eighth of %d ns takes %d on %d channels", c.Transfer(), e.Alone, e.Channels)
	}
}

// A setting with which the library runs on the captured channels changes nothing: NCCL rounds channels of all-to-alls
// up to a power of two.
func TestChannelsOfTheCapture(t *testing.T) {
	l := lawsOf(plantest.H200(t, 2))
	l.Workload.Ops = make([]workload.Op, 2)
	c := &workload.Collective{Op: trace.AllToAll, Bytes: 128 << 20, Channels: 17, Times: workload.Times{Depart: 700_000}, Members: []int32{0, 1}}
	for _, n := range []int{17, 24} {
		if e := l.Collective(c, c.Bytes, n); e.Alone != c.Transfer() || e.Channels != c.Channels {
			t.Errorf("%d channels: %d ns on %d, captured %d on %d", n, e.Alone, e.Channels, c.Transfer(), c.Channels)
		}
	}
	if e := l.Collective(c, c.Bytes, 4); e.Alone <= c.Transfer() {
		t.Errorf("4 channels: %d ns, captured %d", e.Alone, c.Transfer())
	}
}

// An all-gather in place takes less by the copy that others make of what they send: a fifth where two ranks' channels
// limit, little where the link does, never more, and nothing of other operations. On two H200 gathers of 386 MiB of
// fully_shard took 772 us (24 channels, nothing alongside, median of 26 in
// fsdp_h4096_channels0_priorityFalse_overlapFalse_reshardTrue of 2026-11-22-h200x2-steps).
func TestGathersInPlace(t *testing.T) {
	const bytes = 404_766_720
	timeOf := func(m machine.Machine, op trace.CollectiveOp, ranks, channels int, inPlace bool) float64 {
		l, c := lawsOf(m.Resize(ranks)), &workload.Collective{Op: op}
		for i := range ranks {
			c.Members = append(c.Members, int32(i))
			l.Workload.Ops = append(l.Workload.Ops, workload.Op{Rank: i, InPlace: inPlace})
		}
		return l.Time(c, op, bytes, channels)
	}
	for _, name := range machine.Names() {
		m := must.Have(machine.Load(name))(t)
		for _, ranks := range []int{2, 3, 8, 4 * m.GPUs} {
			for _, channels := range []int{0, 1, 4, 8, 24, 32} {
				for _, op := range machine.RecordedOps {
					got, from := timeOf(m, op, ranks, channels, true), timeOf(m, op, ranks, channels, false)
					if !(got > from/2) || got > from || op != trace.AllGather && got != from {
						t.Fatalf("%s %v, %d ranks, %d channels: %v s in place, %v s", name, op, ranks, channels, got, from)
					}
				}
			}
		}
	}
	m := plantest.H200(t, 2)
	for _, x := range []struct {
		ranks, channels int
		least, most     float64
	}{{2, 4, 0.8, 0.84}, {2, 24, 0.96, 0.99}, {8, 4, 0.95, 0.98}} {
		by := timeOf(m, trace.AllGather, x.ranks, x.channels, true) / timeOf(m, trace.AllGather, x.ranks, x.channels, false)
		if by < x.least || by > x.most {
			t.Errorf("%d ranks, %d channels: %.3f of the time of a gather from another buffer, want %v to %v", x.ranks, x.channels, by, x.least, x.most)
		}
	}
	if got := 1e6 * timeOf(m, trace.AllGather, 2, 24, true); math.Abs(got/772-1) > 0.02 {
		t.Errorf("%.0f us, measured 772", got)
	}
}

// Fewer channels slow a gather in place less than one from another buffer: they write once what it sends.
func TestChannelsOfGathersInPlace(t *testing.T) {
	var took [2]trace.Time
	for i := range took {
		l := lawsOf(plantest.H200(t, 2))
		l.Workload.Ops = []workload.Op{{InPlace: i == 1}, {InPlace: i == 1}}
		c := &workload.Collective{Op: trace.AllGather, Bytes: 404_766_720, Channels: 24, Times: workload.Times{Depart: 772_000}, Members: []int32{0, 1}}
		took[i] = l.Collective(c, c.Bytes, 4).Alone
		if same := l.Collective(c, c.Bytes, 24).Alone; same != c.Transfer() {
			t.Errorf("%d ns through the captured channels, captured %d", same, c.Transfer())
		}
	}
	if by := float64(took[1]) / float64(took[0]); by < 0.82 || by > 0.86 {
		t.Errorf("4 channels: %d ns in place, %d from another buffer", took[1], took[0])
	}
}

// A collective as captured takes the captured time. A part takes no longer than the whole, on no more channels, and
// parts together no less than the whole but for the latency of each.
func TestBoundsOfCollectives(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"h200", "a100", "mi300x", "b200"}).Draw(t, "machine")
		m := must.Have(machine.Load(name))(t)
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
		e := l.Collective(c, c.Bytes/n, 0)
		part, on := e.Alone, e.Channels
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
