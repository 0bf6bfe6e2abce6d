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

// A column is 10 ns. The path is compute on stream 7, the all-to-all on stream 20 after a gap
// of 10 ns, then compute on stream 7 after a gap of 30 ns.
//
//	stream 7   |AABB          CC|
//	stream 20  |     XXXXXX     |
func TestHops(t *testing.T) {
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{World: 1})
	add := func(queue int64, kind trace.Kind, from, to trace.Time) {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: queue, Peer: trace.None})
		b.Add(trace.Span{Start: 10 * from, End: 10 * to, Name: b.Intern("k"), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: kind})
	}
	add(7, trace.Compute, 0, 2)
	add(7, trace.Compute, 2, 4)
	add(20, trace.Collective, 5, 11)
	add(7, trace.Compute, 14, 16)
	tl := New([]View{{Run: b.Finish(trace.Options{}), Offset: 1000}})
	hops := func(grain trace.Time) (out []Hop) {
		for _, h := range tl.Hops(0, grain) {
			h.Label = map[bool]string{true: "gap"}[h.Label != ""]
			out = append(out, h)
		}
		return out
	}
	first, second := tl.RowOf(0, 0), tl.RowOf(0, 2)
	want := []Hop{{first, 1000, 1040, ""}, {second, 1040, 1110, ""}, {first, 1110, 1140, "gap"}, {first, 1140, 1160, ""}}
	if diff := cmp.Diff(want, hops(20)); diff != "" {
		t.Errorf("grain 20: -want +got\n%s", diff)
	}
	if n := len(hops(1)); n != 5 {
		t.Errorf("grain 1: %d hops, want the gap of 10 ns too", n)
	}
	if n := len(hops(1000)); n != 3 {
		t.Errorf("grain 1000: %d hops, want no gaps", n)
	}
}
