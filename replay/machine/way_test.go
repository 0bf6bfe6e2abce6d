package machine_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
)

// Between ways of one library only what the rules say differs: a direct
// all-reduce of four has two hops where a ring has six, and in one pass reads four
// slices and writes one where the ring's last step reads two and writes one; LL
// carries twice the bytes; the best of all ways is the library's own choice.
func TestWays(t *testing.T) {
	m, err := profile.Load("h200")
	if err != nil {
		t.Fatal(err)
	}
	l := &m.Library
	for _, c := range []struct {
		op   trace.CollectiveOp
		hops float64 // that direct saves
		sums bool
	}{{trace.AllReduce, 4, true}, {trace.ReduceScatter, 2, true}, {trace.AllGather, 2, false}} {
		own, of := l.Expected(c.op, l.Spread(4), 24, 1<<20), l.Of(c.op)
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

func TestWaysRefused(t *testing.T) {
	m, err := profile.Load("h200")
	if err != nil {
		t.Fatal(err)
	}
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
