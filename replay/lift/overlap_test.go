package lift_test

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A kernel that begins beside the end of the one in front of it on its stream waits for that one's results, where GPUs
// launch so; what ended first did not.
func TestProgrammaticLaunch(t *testing.T) {
	for _, c := range []struct {
		capability int
		ends       [2]trace.Time // of the kernel in front, and of the one that starts at 90
		want       trace.Time    // start of that one
	}{{9, [2]trace.Time{100, 150}, 100}, {9, [2]trace.Time{100, 95}, 90}, {8, [2]trace.Time{100, 150}, 90}, {0, [2]trace.Time{100, 150}, 90}} {
		var b trace.Builder
		rank := b.AddRank(trace.Rank{NodeGPUs: 1, Device: trace.Device{ComputeMajor: c.capability}})
		lane := b.Lane(trace.Lane{Rank: rank, Kind: trace.Queue, ID: 7, Peer: trace.None})
		for i, name := range []string{"allreduce_like", "gemm"} {
			s := trace.Span{Start: trace.Time(90 * i), End: c.ends[i], Name: b.Intern(name), Lane: lane, Parent: trace.None, Kind: trace.Compute}
			s.Attr = b.AddKernel(trace.Kernel{Launch: trace.None, Comm: trace.None, Op: trace.None, Origin: trace.None})
			b.Add(s)
		}
		w := must.Have(lift.Workload(b.Finish(trace.Options{}), lift.Options{}))(t)
		if op := w.Ops[1]; op.Start != c.want || len(op.After) != map[bool]int{true: 1}[c.want == 100] {
			t.Errorf("capability %d, ends %v: starts at %d behind %v, want %d", c.capability, c.ends, op.Start, op.After, c.want)
		}
	}
}

// Of two kernels that begin together before the end of the one in front of them, the same one overlaps it whichever
// was recorded first.
func TestOverlapsDoNotShowRecording(t *testing.T) {
	type kernel struct {
		name       string
		start, end trace.Time
	}
	lifted := func(kernels ...kernel) string {
		var b trace.Builder
		rank := b.AddRank(trace.Rank{NodeGPUs: 1, Device: trace.Device{ComputeMajor: 9}})
		lane := b.Lane(trace.Lane{Rank: rank, Kind: trace.Queue, ID: 7, Peer: trace.None})
		for _, k := range kernels {
			s := trace.Span{Start: k.start, End: k.end, Name: b.Intern(k.name), Lane: lane, Parent: trace.None, Kind: trace.Compute}
			s.Attr = b.AddKernel(trace.Kernel{Launch: trace.None, Comm: trace.None, Op: trace.None, Origin: trace.None})
			b.Add(s)
		}
		w := must.Have(lift.Workload(b.Finish(trace.Options{}), lift.Options{}))(t)
		text := ""
		for i := range w.Ops {
			text += fmt.Sprintln(w.Ops[i].Name, w.Ops[i].Start, w.Ops[i].End)
		}
		return text
	}
	front, a, b := kernel{"front", 0, 100}, kernel{"a", 90, 150}, kernel{"b", 90, 150}
	if x, y := lifted(front, a, b), lifted(front, b, a); x != y {
		t.Errorf("recorded in one order:\n%sin the other:\n%s", x, y)
	}
}
