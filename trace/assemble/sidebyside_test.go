package assemble

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

func twoRanks(name string, scale trace.Time) *trace.Run {
	var b trace.Builder
	for r := range int32(2) {
		b.AddRank(trace.Rank{ID: int(r), World: 2})
		for i := range trace.Time(3) {
			k := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: int32(i)})
			id := b.Add(trace.Span{
				Start: 10 + i*scale, End: 10 + i*scale + scale/2, Name: b.Intern(fmt.Sprintf("k%d", i)), Kind: trace.Compute, Attr: k, Parent: trace.None,
				Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: r, ID: 7, Peer: trace.None}),
			})
			w := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(i), Persistent: 0, CU: trace.None, Peer: 1 - r, Row: trace.None, Col: trace.None})
			b.Add(trace.Span{
				Start: 10 + i*scale, End: 11 + i*scale, Name: b.Intern("wg"), Kind: trace.Workgroup, Attr: w, Parent: id,
				Lane: b.Lane(trace.Lane{Kind: trace.Persistent, Rank: r, ID: 0, Peer: trace.None}),
			})
		}
	}
	return b.Finish(trace.Options{Name: name, Simulated: true, KeepZero: true})
}

// Split is the inverse of SideBySide.
func TestBesideSplit(t *testing.T) {
	runs := []*trace.Run{twoRanks("bulk", 100), twoRanks("fused", 60)}
	got := Split(SideBySide(runs, "both"))
	if len(got) != 2 {
		t.Fatalf("%d runs", len(got))
	}
	for i, r := range got {
		if d := cmp.Diff(describe(runs[i]), describe(r)); d != "" {
			t.Errorf("%s:\n%s", runs[i].Name, d)
		}
	}
	if alone := Split(runs[0]); len(alone) != 1 || alone[0] != runs[0] {
		t.Error("a run that stands alone is not returned as it is")
	}
}

// describe prints every span with the values that its ids refer to.
func describe(r *trace.Run) []string {
	out := []string{fmt.Sprint(r.Name, r.End, len(r.Ranks), len(r.Lanes))}
	for _, s := range r.Spans {
		line := fmt.Sprint(s.Start, s.End, s.Kind, r.NameOf(s), r.Lanes[s.Lane])
		if k := r.Kernel(s); k != nil {
			line += fmt.Sprint(*k)
		}
		if w := r.Workgroup(s); w != nil {
			line += fmt.Sprint(*w, r.NameOf(r.Spans[s.Parent]))
		}
		out = append(out, line)
	}
	return out
}
