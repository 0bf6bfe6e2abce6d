package layout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

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
