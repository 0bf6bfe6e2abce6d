package overlap

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The states of a rank cover its time without gaps, and their sums are its times.
func TestStatesAreTheBreakdown(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var b trace.Builder
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		for r := range ranks {
			b.AddRank(trace.Rank{ID: r})
		}
		for range rapid.IntRange(0, 30).Draw(t, "spans") {
			kind := rapid.SampledFrom([]trace.Kind{trace.Compute, trace.Collective, trace.Copy}).Draw(t, "kind")
			start := trace.Time(rapid.IntRange(0, 100).Draw(t, "start"))
			lane := b.Lane(trace.Lane{
				Kind: trace.Queue, Rank: int32(rapid.IntRange(0, ranks-1).Draw(t, "rank")),
				ID: int64(rapid.IntRange(0, 3).Draw(t, "queue")), Peer: trace.None,
			})
			end := start + trace.Time(rapid.IntRange(1, 20).Draw(t, "length"))
			attr := int32(trace.None)
			if kind == trace.Collective {
				attr = b.AddKernel(trace.Kernel{Op: trace.None, Origin: trace.None, Comm: b.AddComm(trace.Comm{
					Op: trace.AllReduce, Group: trace.None, Seq: int64(rapid.IntRange(0, 3).Draw(t, "collective")), Peer: trace.None,
				})})
			}
			b.Add(trace.Span{Kind: kind, Start: start, End: end, Name: b.Intern("k"), Lane: lane, Parent: trace.None, Attr: attr})
		}
		run := b.Finish(trace.Options{KeepZero: true})
		m := Measure(run)
		var reasons []Reason
		if rapid.Bool().Draw(t, "simulated") {
			reasons = []Reason{{Rank: 0, Queue: 1, Start: 0, End: 50, Cause: "flag"}, {Rank: 0, Queue: 1, Start: 50, End: 51, Cause: "host"}, {Rank: 7, Cause: "none"}}
		}
		got, at := make([]Breakdown, ranks), make([]trace.Time, ranks)
		States(run, reasons, func(s State) {
			g := &got[s.Rank]
			if s.End <= s.Start || g.Total > 0 && s.Start != at[s.Rank] {
				t.Fatalf("%+v follows %d", s, at[s.Rank])
			}
			at[s.Rank] = s.End
			d := s.End - s.Start
			g.Total += d
			switch s.Is {
			case Computing:
				g.Compute += d
			case Overlapping:
				g.Compute, g.Hidden = g.Compute+d, g.Hidden+d
			case Transferring:
				g.Transfer += d
			case Waiting:
				g.Waiting += d
			case Copying:
				g.Copies += d
			case Idle:
				g.Idle += d
				if s.Cause == "" {
					t.Fatalf("%+v has no cause", s)
				}
			}
		})
		for r := range got {
			if want := m.Ranks[r]; got[r].Times != want.Times || got[r].Total != want.Total {
				t.Fatalf("rank %d: states add up to %+v, the breakdown is %+v", r, got[r], want.Breakdown)
			}
		}
	})
}
