package rocprof

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// checkRun fails unless every index of the run is valid and the spans are as
// trace.Run promises.
func checkRun(t testing.TB, run *trace.Run) {
	t.Helper()
	for i, s := range run.Spans {
		if s.End < s.Start || s.Start < 0 || s.End > run.End {
			t.Fatalf("span %d from %d to %d", i, s.Start, s.End)
		}
		if s.Parent != trace.None && int(s.Parent) >= i {
			t.Fatalf("span %d has parent %d", i, s.Parent)
		}
		_ = run.NameOf(s)
		_ = run.Ranks[run.RankOf(s)]
		if k := run.Kernel(s); k != nil && k.Comm != trace.None {
			if g := run.Comms[k.Comm].Group; g != trace.None {
				_ = run.Groups[g]
			}
		}
		_, _ = run.Copy(s), run.Workgroup(s)
		if i > 0 && run.Spans[i-1].Start > s.Start {
			t.Fatalf("span %d starts before span %d", i, i-1)
		}
	}
}
