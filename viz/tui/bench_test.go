package tui

import (
	"fmt"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// tenMillion is a run of ten million spans on so many streams.
func tenMillion(streams int) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0})
	name := b.Intern("void at::native::vectorized_elementwise_kernel<4>(int)")
	each := 10_000_000 / streams
	for s := range streams {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: int64(s), Peer: trace.None})
		for i := range trace.Time(each) {
			kind := trace.Compute
			if i%7 == 0 {
				kind = trace.Collective
			}
			from := i*trace.Time(streams)*1000 + trace.Time(s)*10
			b.Add(trace.Span{Kind: kind, Start: from, End: from + trace.Time(streams)*700, Name: name, Lane: lane, Parent: trace.None, Attr: trace.None})
		}
	}
	return b.Finish(trace.Options{})
}

// BenchmarkDraw draws a frame of 200 × 60 cells, from far out to close up.
func BenchmarkDraw(b *testing.B) {
	if testing.Short() {
		b.Skip("makes two runs of ten million spans")
	}
	for _, streams := range []int{50, 1000} {
		m := newModel([]layout.View{{Run: tenMillion(streams)}}, Options{Colors: 256})
		var cells tcell.CellBuffer
		cells.Resize(200, 60)
		m.Draw(&cells)
		for _, shown := range []trace.Time{1, 100, 1_000_000} {
			w := m.bounds()
			w.To = w.From + w.Len()/shown
			*m.page().window = w
			b.Run(fmt.Sprintf("streams=%d/shown=1:%d", streams, shown), func(b *testing.B) {
				for b.Loop() {
					cells.Fill(' ', tcell.StyleDefault)
					m.Draw(&cells)
				}
			})
		}
	}
}
