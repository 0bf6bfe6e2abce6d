package trace

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestMain fixes the seed of random tests, unless the command line sets one.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// validRun has a kernel with a workgroup of two phases, launched by a call, and a
// collective.
func validRun() *Run {
	var b Builder
	b.AddRank(Rank{ID: 0, World: 2})
	b.AddRank(Rank{ID: 1, World: 2})
	op := b.AddOperator(Operator{Name: "mm"})
	group := b.AddGroup(Group{Ranks: []int{0, 1}, Size: 2})
	queue := b.Lane(Lane{Kind: Queue, Peer: None})
	slot := b.Lane(Lane{Kind: Slot, Peer: None})
	thread := b.Lane(Lane{Kind: HostThread, Peer: None})
	b.Lane(Lane{Kind: Queue, Rank: 1, Peer: None})
	b.Add(Span{Start: 0, End: 5, Lane: thread, Parent: None, Kind: Launch, Attr: b.AddCall(Call{Op: op})})
	k := b.Add(Span{Start: 10, End: 20, Lane: queue, Parent: None, Kind: Compute, Attr: b.AddKernel(Kernel{Comm: None, Op: op, Origin: None})})
	w := b.Add(Span{Start: 11, End: 19, Lane: slot, Parent: k, Kind: Workgroup, Attr: b.AddWorkgroup(WorkgroupAttr{Persistent: None, Peer: None})})
	b.Add(Span{Start: 11, End: 15, Lane: slot, Parent: w, Kind: PhaseCompute, Attr: 0})
	b.Add(Span{Start: 15, End: 19, Lane: slot, Parent: w, Kind: PhaseStore, Attr: 0})
	b.Add(Span{Start: 20, End: 30, Lane: queue, Parent: None, Kind: Collective, Attr: b.AddKernel(Kernel{Comm: b.AddComm(Comm{Op: AllReduce, Group: group, Peer: None}), Op: None, Origin: None})})
	b.Add(Span{Start: 30, End: 31, Lane: queue, Parent: None, Kind: Copy, Attr: b.AddCopy(CopyAttr{Bytes: 1, Peer: None, Op: None, Origin: None})})
	b.AddWait(Wait{Start: 1, End: 2})
	return b.Finish(Options{})
}

// TestValidate breaks one invariant at a time.
func TestValidate(t *testing.T) {
	must.Do(t, Validate(validRun()))
	must.Do(t, Validate(&Run{}))
	for _, c := range []struct {
		want  string
		spoil func(r *Run)
	}{
		{"name 0 is \"x\"", func(r *Run) { r.Names[0] = "x" }},
		{"time 0 is at", func(r *Run) { r.Epoch = 1 << 62 }},
		{"time 0 is at", func(r *Run) { r.Clock = -1 << 63 }},
		{"rank row 1: rank -2 of 2", func(r *Run) { r.Ranks[1].ID = -2 }},
		{"rank row 0: negative property", func(r *Run) { r.Ranks[0].Device.CUs = -1 }},
		{"rank row 0: clock shifted by 0 ± -5", func(r *Run) { r.Ranks[0].Uncertainty = -5 }},
		{"lane 1: kind 2 of rank row 2", func(r *Run) { r.Lanes[1].Rank = 2 }},
		{"lane 1: kind 2 of rank row 0, peer 9", func(r *Run) { r.Lanes[1].Peer = 9 }},
		{"lane 0: kind 200", func(r *Run) { r.Lanes[0].Kind = 200 }},
		{"kernel 0: collective 1", func(r *Run) { r.Kernels[0].Comm = 1 }},
		{"setup 0: grid [-1 0 0]", func(r *Run) { r.Setups = []Setup{{Grid: [3]int32{-1}}} }},
		{"kernel 0: collective -1, operator 0, setup 2", func(r *Run) { r.Kernels[0].Setup = 2 }},
		{"copy 0: operator -1, -1 bytes", func(r *Run) { r.Copies[0].Bytes = -1 }},
		{"workgroup 0: {ID:-2", func(r *Run) { r.Workgroups[0].ID = -2 }},
		{"call 0: operator 7 of 1", func(r *Run) { r.Calls[0].Op = 7 }},
		{"collective 0: operation 1 in group 4", func(r *Run) { r.Comms[0].Group = 4 }},
		{"group 0: 2 ranks, size 1", func(r *Run) { r.Groups[0].Size = 1 }},
		{"group 0: rank 0 after others", func(r *Run) { r.Groups[0].Ranks = []int{1, 0} }},
		{"wait 0: from 3 to 2", func(r *Run) { r.Waits[0].Start = 3 }},
		{"wait 0: from 1 to 2 on rank row 2", func(r *Run) { r.Waits[0].Rank = 2 }},
		{"span 0: lane 9 of 4", func(r *Run) { r.Spans[0].Lane = 9 }},
		{"span 1: row 2 of 2 for kind compute", func(r *Run) { r.Spans[1].Attr = 2 }},
		{"span 3: ends at 3, before its start 11", func(r *Run) { r.Spans[3].End = 3 }},
		{"span 6: from 30ns to 2562047h47m16.854775807s", func(r *Run) { r.Spans[6].End = Infinity }},
		{"span 6: starts at 15, before its predecessor's 20", func(r *Run) { r.Spans[6].Start = 15 }},
		{"span 2: parent 3 does not precede", func(r *Run) { r.Spans[2].Parent = 3 }},
		{"span 2: from 11 to 21, its parent 1 from 10 to 20", func(r *Run) { r.Spans[2].End = 21 }},
		{"span 4: its parent 2 is of another rank", func(r *Run) { r.Spans[4].Lane = 3 }},
		{"span 5: starts at 20, its lane 0 is free at 25", func(r *Run) { r.Spans[1].End = 25 }},
		{"the run ends at 40", func(r *Run) { r.End = 40 }},
	} {
		r := validRun()
		c.spoil(r)
		if err := Validate(r); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Validate runs after every reader and every merge: it must not allocate per span.
func TestValidateAllocatesPerLaneOnly(t *testing.T) {
	r := validRun()
	for len(r.Spans) < 1<<12 {
		r.Spans = append(r.Spans, Span{Start: 31, End: 31, Lane: 0, Parent: None, Attr: None})
	}
	if n := testing.AllocsPerRun(10, func() {
		must.Do(t, Validate(r))
	}); n > 8 {
		t.Errorf("%v allocations", n)
	}
}

// Spans nested deeper than maxDepth come after their parents.
func TestDeepNesting(t *testing.T) {
	var b Builder
	b.AddRank(Rank{})
	parent := SpanID(None)
	for i := range 3 * maxDepth {
		lane := b.Lane(Lane{Kind: HostThread, ID: int64(i % 2), Peer: None})
		if i > maxDepth {
			lane = b.Lane(Lane{Kind: HostThread, ID: int64(-i), Peer: None})
		}
		parent = b.Add(Span{Start: 0, End: 9, Lane: lane, Parent: parent, Attr: None})
	}
	for i := range 2 { // the later lane is added first
		parent = b.Add(Span{Start: 0, End: 9, Lane: LaneID(1 - i), Parent: parent, Attr: None})
	}
	must.Do(t, Validate(b.Finish(Options{})))
}

// TestCheckQueues refuses a queue on which all kernels run at the same time.
func TestCheckQueues(t *testing.T) {
	for n, refused := range map[Time]bool{4096: false, 4097: true} {
		var b Builder
		b.AddRank(Rank{})
		for i := range n {
			k := b.AddKernel(Kernel{Comm: None, Op: None, Origin: None})
			b.Add(Span{Kind: Compute, Start: 0, End: 100 + i, Lane: b.Lane(Lane{Kind: Queue, Peer: None}), Parent: None, Attr: k})
		}
		if err := Check(b.Finish(Options{Name: "t.json"})); (err != nil) != refused || refused && !strings.Contains(err.Error(), "t.json: over 4096 kernels run at the same time") {
			t.Errorf("%d kernels: %v", n, err)
		}
	}
}
