package machine_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Between ways of one library only what the rules say differs: a direct
// all-reduce of four has two hops where a ring has six, and in one pass reads four
// slices and writes one where the ring's last step reads two and writes one; LL
// carries twice the bytes; the best of all ways is the library's own choice.
func TestWays(t *testing.T) {
	m := must.Have(machine.Load("h200"))(t)
	l := &m.Library
	for _, c := range []struct {
		op   trace.CollectiveOp
		hops float64 // that direct saves
		sums bool
	}{{trace.AllReduce, 4, true}, {trace.ReduceScatter, 2, true}, {trace.AllGather, 2, false}} {
		own, of := l.Expected(c.op, 4, 24, 1<<20), l.Of(c.op)
		seconds := func(w machine.AlgoProto) float64 { return own * l.Relative(c.op, 1<<20, 4, 24, w) }
		ring, direct := seconds(machine.AlgoProto{"ring", "simple"}), seconds(machine.AlgoProto{"direct", "simple"})
		want := c.hops * (of.Hop.Value + 2.8e-6) // Simple's hop is 3.4 µs, LL's 0.6
		if c.sums {
			slice := float64(1<<20) / 4 / 24 // of a channel
			want -= (5.0/3 - 1) * slice / of.Receive.Value
		}
		if math.Abs(ring-direct-want) > 1e-9 {
			t.Errorf("%s: ring %.2f µs, direct %.2f µs: %.2f apart, want %.2f", c.op, ring*1e6, direct*1e6, (ring-direct)*1e6, want*1e6)
		}
	}
	least := math.Inf(1)
	for _, p := range machine.Protocols {
		least = min(least, l.Relative(trace.AllReduce, 1<<20, 4, 24, machine.AlgoProto{"ring", p}))
	}
	if math.Abs(least-1) > 1e-9 {
		t.Errorf("the best ring takes %.3f of what the library chooses", least)
	}
	if a, b := l.Carried(machine.AlgoProto{"", "ll"}), l.Carried(machine.AlgoProto{"", "ll128"}); a != 2 || math.Abs(b-128./120) > 1e-9 || l.Carried(machine.AlgoProto{}) != 1 {
		t.Errorf("a byte takes %g on the wire with LL and %g with LL128", a, b)
	}
	// Large buffers: LL loses what its flags take.
	if r := l.Relative(trace.AllReduce, 1<<30, 4, 24, machine.AlgoProto{"ring", "ll"}); r < 1.9 || r > 2.1 {
		t.Errorf("1 GiB by LL takes %.2f times the library's choice, want 2", r)
	}
}

// Sums in the switch: NCCL on one node of 8 H200 (stas00/ml-engineering, network/README.md, NCCL
// 2.30) gains 1.14 over a ring with 5 GPUs and 1.29 with 8, and does not take it with 4. Small
// buffers do not gain.
func TestSumsInTheSwitch(t *testing.T) {
	m := must.Have(machine.Load("h100"))(t)
	l := &m.Library
	for _, c := range []struct {
		ranks, channels int
		bytes           int64
		want            float64 // ring over the library's choice
	}{{4, 24, 4 << 30, 1}, {5, 24, 4 << 30, 1.14}, {8, 24, 4 << 30, 1.29}, {8, 24, 1 << 20, 1}} {
		if got := l.Relative(trace.AllReduce, c.bytes, c.ranks, c.channels, machine.AlgoProto{"ring", ""}); machinetest.Off(got, c.want) > 0.08 {
			t.Errorf("%d GPUs, %d bytes, %d channels: a ring takes %.3f times the library's choice, want %.2f", c.ranks, c.bytes, c.channels, got, c.want)
		}
	}
	if _, inside := l.WireShares(trace.AllReduce, 4<<30, 8, 24, machine.AlgoProto{}); machinetest.Off(inside, 9./14) > 1e-9 {
		t.Errorf("8 GPUs send %.3f of a ring's bytes, want 9/14: the buffer and the part that was added", inside)
	}
	if r := l.Refuses(trace.AllGather, machine.Switch, machine.AlgoProto{"nvls", ""}); !strings.Contains(r, "is for all-reduces") {
		t.Errorf("an all-gather in the switch: %q", r)
	}
	l.Switch.Value = 0
	if r := l.Refuses(trace.AllReduce, machine.Switch, machine.AlgoProto{"nvls", ""}); !strings.Contains(r, "a switch that adds") {
		t.Errorf("no switch that adds: %q", r)
	}
}

func TestWaysRefused(t *testing.T) {
	m := must.Have(machine.Load("h200"))(t)
	for _, c := range []struct {
		op   trace.CollectiveOp
		top  machine.Topology
		w    machine.AlgoProto
		want string
	}{
		{trace.AllToAll, machine.Switch, machine.AlgoProto{"ring", ""}, "is not one of all_to_all"},
		{trace.AllReduce, machine.Switch, machine.AlgoProto{"pairwise", ""}, "is not one of all_reduce"},
		{trace.AllGather, machine.Switch, machine.AlgoProto{"tree", ""}, "is for all-reduces"},
		{trace.AllGather, machine.Torus2D, machine.AlgoProto{"direct", ""}, "needs links between all"},
		{trace.AllGather, machine.Mesh, machine.AlgoProto{"direct", "ll"}, ""},
		{trace.AllReduce, machine.Switch, machine.AlgoProto{"tree", "ll128"}, ""},
		{trace.AllToAll, machine.Switch, machine.AlgoProto{"pairwise", "simple"}, ""},
	} {
		if got := m.Library.Refuses(c.op, c.top, c.w); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v %v: %q, want %q", c.op, c.w, got, c.want)
		}
	}
	m.Library.Name = "ours"
	if got := m.Library.Refuses(trace.AllReduce, machine.Switch, machine.AlgoProto{"", "ll"}); !strings.Contains(got, "no protocols") {
		t.Errorf("a library without protocols: %q", got)
	}
}
