package layout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
)

// parts is a run of one operation on one lane of workgroups, in kernels that end at the times.
func parts(name string, ends ...trace.Time) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None})
	lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: 4, Peer: trace.None})
	start := trace.Time(0)
	for _, end := range ends {
		s := trace.Span{Kind: trace.Compute, Name: b.Intern("gemm"), Lane: queue, Parent: trace.None, Start: start, End: end}
		s.Attr = b.AddKernel(trace.Kernel{Origin: 3, Op: trace.None, Comm: trace.None})
		s.Parent = b.Add(s)
		s.Kind, s.Lane = trace.Workgroup, lane
		s.Attr = b.AddWorkgroup(trace.WorkgroupAttr{ID: 9, Persistent: 4, CU: 2, Peer: trace.None, Row: trace.None, Col: trace.None})
		b.Add(s)
		start = end
	}
	return b.Finish(trace.Options{Name: name, Simulated: true})
}

// An operation in parts is compared by its last part, with the first run that has workgroups.
func TestDifferencesOfParts(t *testing.T) {
	views := []View{{Run: capturedOnly()}, {Run: parts("bulk", 100)}, {Run: parts("decompose", 40, 130)}, {Run: parts("fused", 85)}}
	tl, err := Compared(views, 0, Part{Name: "gemm", Ops: []int32{3}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []trace.Time
	for _, d := range tl.Differences() {
		if v := tl.Views[tl.Rows[d.Than].View].Run.Name; v != "bulk" {
			t.Errorf("compared with %s", v)
		}
		got = append(got, d.Later)
	}
	if len(got) != 2 || got[0] != 30 || got[1] != -15 {
		t.Errorf("the differences are %v, want 30 and -15", got)
	}
}

// Marking ids sorts them as slices.Sort does.
func TestSortIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(t, "spans")
		got := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) trace.SpanID { return trace.SpanID(rapid.IntRange(0, n-1).Draw(t, "id")) }), rapid.ID).Draw(t, "ids")
		want := slices.Sorted(slices.Values(got))
		if sortIDs(got, n); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
