package trace

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func twoRanks(name string, scale Time) *Run {
	var b Builder
	for r := range int32(2) {
		b.AddRank(Rank{ID: int(r), World: 2})
		for i := range Time(3) {
			k := b.AddKernel(Kernel{Comm: None, Op: None, Origin: int32(i)})
			id := b.Add(Span{
				Start: 10 + i*scale, End: 10 + i*scale + scale/2, Name: b.Intern(fmt.Sprintf("k%d", i)), Kind: Compute, Attr: k, Parent: None,
				Lane: b.Lane(Lane{Kind: Queue, Rank: r, ID: 7, Peer: None}),
			})
			w := b.AddWorkgroup(WorkgroupAttr{ID: int32(i), Persistent: 0, CU: None, Peer: 1 - r, Row: None, Col: None})
			b.Add(Span{
				Start: 10 + i*scale, End: 11 + i*scale, Name: b.Intern("wg"), Kind: Workgroup, Attr: w, Parent: id,
				Lane: b.Lane(Lane{Kind: Persistent, Rank: r, ID: 0, Peer: None}),
			})
		}
	}
	return b.Finish(Options{Name: name, Simulated: true, KeepZero: true})
}

// Split is the inverse of SideBySide.
func TestBesideSplit(t *testing.T) {
	runs := []*Run{twoRanks("bulk", 100), twoRanks("fused", 60)}
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
func describe(r *Run) []string {
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
