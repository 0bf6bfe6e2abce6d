package layout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

func TestStats(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0})
	group := b.AddGroup(trace.Group{Name: "tp", Size: 4})
	mm := b.AddOperator(trace.Operator{Name: "aten::addmm", Dims: [][]int64{{10}, {1000, 100}, {100, 10}}})
	gemm := b.AddKernel(trace.Kernel{Op: mm, Comm: trace.None, Origin: trace.None})
	ring := b.AddKernel(trace.Kernel{Op: trace.None, Origin: trace.None, Comm: b.AddComm(trace.Comm{Op: trace.AllGather, Group: group, Out: 4000, Peer: trace.None})})
	add := func(k trace.Kind, name string, queue int64, attr int32, start, end trace.Time) {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: queue, Peer: trace.None})
		b.Add(trace.Span{Kind: k, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: attr, Start: start, End: end})
	}
	for i := range trace.Time(10) {
		add(trace.Compute, "gemm", 7, gemm, i*100, i*100+10+i)
	}
	add(trace.Compute, "other", 7, trace.None, 1000, 1100)
	add(trace.Collective, "ring", 20, ring, 905, 1005)
	tl := New([]View{{Run: b.Finish(trace.Options{KeepZero: true})}})
	show := func(row int, from, to trace.Time) string {
		var out strings.Builder
		for _, s := range tl.Stats(row, from, to) {
			fmt.Fprintf(&out, "%s %s %d %d %d/%d/%d %s\n", s.Name, s.Class, s.Count, s.Time, s.P50, s.P90, s.Max, s.Rate)
		}
		return out.String()
	}
	// The heading: states of the rank, then every kernel. The last GEMM and the ring overlap.
	want := `idle: unknown idle 9 774 86/89/90 
compute alone compute 11 226 14/18/95 
gemm compute 10 145 14/18/19 137.9 TFLOP/s
other compute 1 100 100/100/100 
ring communication 1 100 100/100/100 30.0 GB/s
transfer communication 1 81 81/81/81 
overlapped overlapped 2 19 5/5/14 
`
	if diff := cmp.Diff(want, show(0, 0, 1100)); diff != "" {
		t.Errorf("all: -want +got\n%s", diff)
	}
	if got, want := show(1, 905, 1010), "gemm compute 1 14 19/19/19 105.3 TFLOP/s\nother compute 1 10 100/100/100 \n"; got != want {
		t.Errorf("a lane in a range: %q, want %q", got, want)
	}
}
