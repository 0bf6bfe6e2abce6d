package assemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// stampedRun returns a run with a kernel of 400 ns and a workgroup that stores to a
// peer, on a timer that reads at when the kernel starts.
func stampedRun(rank int, at trace.Time, peer int32) *trace.Run {
	var b trace.Builder
	b.AddRank(trace.Rank{ID: rank, Source: fmt.Sprintf("rank%d.csv", rank)})
	k := b.Add(trace.Span{Start: at, End: at + 400, Name: b.Intern("k"), Lane: b.Lane(trace.Lane{Kind: trace.Queue, Peer: trace.None}), Parent: trace.None, Kind: trace.Compute, Attr: b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None})})
	b.Add(trace.Span{Start: at, End: at + 400, Lane: b.Lane(trace.Lane{Kind: trace.Slot, Peer: trace.None}), Parent: k, Kind: trace.Workgroup, Attr: b.AddWorkgroup(trace.WorkgroupAttr{Peer: peer})})
	return b.Finish(trace.Options{Epoch: 1e18})
}

// Each GPU stamps workgroups with its own timer: the offset between ranks is unknown.
func TestMergeStamps(t *testing.T) {
	for _, c := range []struct {
		what  string
		at    trace.Time // of rank 1's kernel; that of rank 0 is at 1000
		peer  int32      // that workgroups of rank 1 store to
		start trace.Time // of rank 1's kernel in the joint run
	}{
		{"timers are apart", 9000, 0, 0},
		{"the other way", 100, 0, 0},
		{"they overlap", 1100, 0, 100},
		{"nothing is exchanged", 9000, trace.None, 8000},
		{"only within the rank", 9000, 1, 8000},
	} {
		run := must.Have(Join([]*trace.Run{stampedRun(0, 1000, 1), stampedRun(1, c.at, c.peer)}, "both"))(t)
		var start trace.Time = trace.None
		for _, s := range run.Spans {
			if s.Kind == trace.Compute && run.RankOf(s) == 1 {
				start = s.Start
			}
		}
		if start != c.start || run.Ranks[0].Uncertainty != 0 || run.Ranks[1].Uncertainty != trace.None {
			t.Errorf("%s: starts at %d, clock %+v", c.what, start, run.Ranks)
		}
		if shifted := strings.Contains(ledger(run), "separate timer"); shifted != (run.Ranks[1].Shift != 0) {
			t.Errorf("%s: %s", c.what, ledger(run))
		}
	}
}
