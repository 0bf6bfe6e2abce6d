package pprof

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Time is divided as by the obvious way, to the nanosecond, and all of it.
func TestSweep(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		run := &trace.Run{End: 60}
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			start := trace.Time(rapid.IntRange(0, 50).Draw(t, "start"))
			run.Spans = append(run.Spans, trace.Span{Start: start, End: start + trace.Time(rapid.IntRange(1, 10).Draw(t, "dur"))})
		}
		slices.SortFunc(run.Spans, func(a, b trace.Span) int { return cmp.Compare(a.Start, b.Start) })
		ids := make([]trace.SpanID, len(run.Spans))
		for i := range ids {
			ids[i] = trace.SpanID(i)
		}
		got, want := wall{busy: make([]trace.Time, len(ids))}, wall{busy: make([]trace.Time, len(ids))}
		idle, wantIdle := got.sweep(run, ids), want.naiveSweep(run, ids)
		if idle != wantIdle || !slices.Equal(got.busy, want.busy) {
			t.Fatalf("%v: idle %d busy %v, want %d %v", run.Spans, idle, got.busy, wantIdle, want.busy)
		}
		for _, b := range got.busy {
			idle += b
		}
		if idle != run.End {
			t.Fatalf("busy and idle add up to %d of %d", idle, run.End)
		}
	})
}

// A hundred thousand kernels at once, each on a queue of its own.
func BenchmarkSweep(b *testing.B) {
	const n = 100_000
	run := &trace.Run{End: 2 * n, Spans: make([]trace.Span, n)}
	ids := make([]trace.SpanID, n)
	for i := range ids {
		ids[i] = trace.SpanID(i)
		run.Spans[i] = trace.Span{Start: trace.Time(i), End: trace.Time(n + i)}
	}
	for b.Loop() {
		w := wall{busy: make([]trace.Time, n)}
		w.sweep(run, ids)
	}
}

// naiveSweep asks every span that runs at every event.
func (w *wall) naiveSweep(run *trace.Run, ids []trace.SpanID) (idle trace.Time) {
	var running []trace.SpanID
	var now, left trace.Time
	advance := func(to trace.Time) {
		n := trace.Time(len(running))
		if n == 0 {
			idle += to - now
			now = to
			return
		}
		left += to - now
		for _, id := range running {
			w.busy[id] += left / n
		}
		now, left = to, left%n
	}
	finish := func(until trace.Time) {
		for len(running) > 0 {
			first := slices.MinFunc(running, func(a, b trace.SpanID) int {
				return cmp.Compare(run.Spans[a].End, run.Spans[b].End)
			})
			end := run.Spans[first].End
			if end > until {
				return
			}
			advance(end)
			running = slices.DeleteFunc(running, func(id trace.SpanID) bool { return id == first })
			if len(running) == 0 {
				w.busy[first], left = w.busy[first]+left, 0
			}
		}
	}
	for _, id := range ids {
		start := run.Spans[id].Start
		finish(start)
		advance(start)
		running = append(running, id)
	}
	finish(run.End)
	advance(run.End)
	return idle
}
