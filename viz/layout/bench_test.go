package layout

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// manySpans is a run of n spans: one queue of n/10 kernels, and n·9/10 tiles
// with a store each on the given number of workgroups.
func manySpans(n, lanes int) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
	name := b.Intern("kernel")
	for i := range trace.Time(n / 10) {
		kind := trace.Compute
		if i%5 == 0 {
			kind = trace.Collective
		}
		b.Add(trace.Span{Start: 1000 * i, End: 1000*i + 900, Kind: kind, Name: name, Lane: queue, Parent: trace.None, Attr: trace.None})
	}
	attr := b.AddWorkgroup(trace.WorkgroupAttr{Peer: 1})
	tiles := n * 9 / 20 / lanes
	for l := range lanes {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(l), Peer: trace.None})
		for i := range trace.Time(tiles) {
			at := trace.Time(n/10*1000/tiles) * i
			wg := b.Add(trace.Span{Start: at, End: at + 200, Kind: trace.Workgroup, Name: name, Lane: lane, Parent: trace.None, Attr: attr})
			b.Add(trace.Span{Start: at + 150, End: at + 200, Kind: trace.PhaseStore, Lane: lane, Parent: wg, Attr: attr})
		}
	}
	return b.Finish(trace.Options{})
}

func BenchmarkNew(b *testing.B) {
	if testing.Short() {
		b.Skip("makes two runs of ten million spans")
	}
	for _, lanes := range []int{1, 1000} {
		run := manySpans(10_000_000, lanes)
		b.Run(fmt.Sprintf("spans=10M/lanes=%d", lanes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				New([]View{{Run: run}})
			}
		})
	}
}

// BenchmarkMerge merges fifty rows of a run of a million spans into a
// terminal's or a browser's width, far out and close up.
func BenchmarkMerge(b *testing.B) {
	for _, lanes := range []int{1, 50, 1000} {
		tl := New([]View{{Run: manySpans(1_000_000, lanes)}})
		for _, cells := range []int{200, 2000} {
			for _, shown := range []trace.Time{1, 1000} {
				b.Run(fmt.Sprintf("lanes=%d/cells=%d/shown=1:%d", lanes, cells, shown), func(b *testing.B) {
					var dst []Cell
					from := (tl.End - tl.Start) / 2
					for b.Loop() {
						for i := range 50 {
							dst = tl.Merge(dst[:0], i%len(tl.Rows), from-from/shown, from+from/shown, cells, 0)
						}
					}
				})
			}
		}
	}
}
