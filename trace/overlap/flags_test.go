package overlap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// steps writes a path, a line a step.
func steps(p Path) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%d-%d rank %d %s %s\n", s.Start, s.End, s.Rank, s.Label(), s.Name)
	}
	return b.String()
}

// The path goes from a workgroup's wait to the put that ended it, and from a stream's wait
// to the kernel that posted the flag.
func TestCriticalPathFollowsFlags(t *testing.T) {
	var b trace.Builder
	for r := range 2 {
		b.AddRank(trace.Rank{ID: r})
	}
	queue := func(rank int32, id int64) trace.LaneID {
		return b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: id, Peer: trace.None, Name: fmt.Sprintf("stream %d", id)})
	}
	slot := func(rank int32, id int64) trace.LaneID {
		return b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: id, Peer: trace.None})
	}
	add := func(k trace.Kind, name string, lane trace.LaneID, parent trace.SpanID, start, end trace.Time) trace.SpanID {
		return b.Add(trace.Span{Kind: k, Start: start, End: end, Name: b.Intern(name), Lane: lane, Parent: parent, Attr: trace.None})
	}
	add(trace.Compute, "early", queue(0, 7), trace.None, 0, 12)
	add(trace.Compute, "first", queue(1, 7), trace.None, 5, 30) // ends before "A" starts, which waits for "early"
	a := add(trace.Compute, "A", queue(1, 8), trace.None, 40, 90)
	w := add(trace.Workgroup, "A", slot(1, 0), a, 40, 90)
	add(trace.PhasePut, "put", slot(1, 0), w, 60, 62)
	c := add(trace.Compute, "B", queue(0, 7), trace.None, 14, 100)
	w = add(trace.Workgroup, "B", slot(0, 0), c, 14, 100)
	add(trace.PhaseWait, `slice 0, posted by GPU 1 "A"`, slot(0, 0), w, 20, 70)
	w = add(trace.Workgroup, "B", slot(0, 1), c, 14, 95)
	add(trace.PhaseWait, `slice 1, posted by GPU 1 "A"`, slot(0, 1), w, 20, 94)
	run := b.Finish(trace.Options{Simulated: true, KeepZero: true})
	got := steps(CriticalPath(run, []Reason{
		{Rank: 1, Queue: 8, Start: 0, End: 38, Cause: "flag", Note: `posted by GPU 0 "early"`},
		{Rank: 1, Queue: 8, Start: 38, End: 39, Cause: "launch"},
	}))
	want := `0-12 rank 0 compute early
12-38 rank 1 flag A
38-39 rank 1 launch A
39-40 rank 1 unknown gap A
40-62 rank 1 compute A
62-70 rank 0 flag B
70-100 rank 0 compute B
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The path of any run, measured or simulated, goes from the first start to the last end of
// device work. Its steps follow each other: work lies in its operation, a flag ends in it or
// before it, other gaps before it, and every step starts where work could let go of it.
func TestCriticalPathCoversTheRun(t *testing.T) {
	flagged := 0
	rapidtest.Check(t, func(rt *rapid.T) {
		run, reasons := drawFlags(rt)
		if rapid.Bool().Draw(rt, "measured") {
			run, reasons = timeline(t, drawTimeline(rt)), nil
		}
		p := CriticalPath(run, reasons)
		first, last := trace.Infinity, trace.Time(0)
		for _, s := range run.Spans {
			if run.Class(s) != trace.NoClass {
				first, last = min(first, s.Start), max(last, s.End)
			}
		}
		if first >= last {
			if len(p.Steps) > 0 {
				rt.Fatalf("a path of %d steps without work", len(p.Steps))
			}
			return
		}
		at, sum := first, trace.Time(0)
		for i, s := range p.Steps {
			op := run.Spans[s.Span]
			inside := s.Start >= op.Start && s.End <= op.End
			switch {
			case s.Start != at || s.End <= s.Start:
				rt.Fatalf("step %d %+v does not follow on %d", i, s, at)
			case !s.Gap() && !inside, s.Kind == stepFlag && s.End > op.End, s.Gap() && s.Kind != stepFlag && s.End > op.Start:
				rt.Fatalf("step %d %+v does not belong to its operation %+v", i, s, op)
			case s.Gap() != (s.Kind == stepFlag || s.Kind == stepHost || s.Kind == stepSync || s.Kind == stepLaunch || s.Kind == stepQueued || s.Kind == stepUnknown):
				rt.Fatalf("step %d %+v is a gap: %v", i, s, s.Gap())
			}
			if s.Kind == stepFlag {
				flagged++
			}
			at = s.End
			sum += s.End - s.Start
		}
		if at != last || sum != p.Total || p.Total != last-first {
			rt.Fatalf("a path of %d, to %d, for a run from %d to %d", p.Total, at, first, last)
		}
	})
	if flagged == 0 {
		t.Error("no path followed a flag")
	}
}

// drawFlags draws a simulated run of three ranks: streams of kernels with a workgroup each,
// whose waits and streams name posters at random, so that flags cross and form circles.
func drawFlags(t *rapid.T) (*trace.Run, []Reason) {
	var b trace.Builder
	var reasons []Reason
	names := []string{"A", "B", "C"}
	for rank := range int32(3) {
		b.AddRank(trace.Rank{ID: int(rank)})
	}
	note := func() string {
		return fmt.Sprintf("posted by GPU %d %q", rapid.IntRange(0, 2).Draw(t, "poster"), rapid.SampledFrom(names).Draw(t, "name"))
	}
	for rank := range int32(3) {
		queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None, Name: "stream 7"})
		slot := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
		at := trace.Time(0)
		for range rapid.IntRange(0, 4).Draw(t, "kernels") {
			gap := trace.Time(rapid.IntRange(0, 9).Draw(t, "gap"))
			if gap > 0 && rapid.Bool().Draw(t, "waits") {
				reasons = append(reasons, Reason{Rank: rank, Queue: 7, Start: at, End: at + gap, Cause: "flag", Note: note()})
			}
			start := at + gap
			end := start + trace.Time(rapid.IntRange(0, 40).Draw(t, "length"))
			s := trace.Span{Kind: trace.Compute, Start: start, End: end, Name: b.Intern(rapid.SampledFrom(names).Draw(t, "name")), Lane: queue, Parent: trace.None, Attr: trace.None}
			kernel := b.Add(s)
			s.Kind, s.Lane, s.Parent = trace.Workgroup, slot, kernel
			wg := b.Add(s)
			for from := start; from < end; {
				to := min(end, from+trace.Time(rapid.IntRange(1, 20).Draw(t, "phase")))
				s.Kind, s.Parent, s.Start, s.End = rapid.SampledFrom([]trace.Kind{trace.PhaseCompute, trace.PhasePut, trace.PhaseWait}).Draw(t, "kind"), wg, from, to
				s.Name = b.Intern("put")
				if s.Kind == trace.PhaseWait {
					s.Name = b.Intern(note())
				}
				b.Add(s)
				from = to
			}
			at = end
		}
	}
	return b.Finish(trace.Options{Simulated: true, KeepZero: true}), reasons
}
