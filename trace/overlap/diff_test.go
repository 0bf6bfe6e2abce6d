package overlap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

// drawn makes a run of one rank: C is compute, X a collective, a column a nanosecond.
func drawn(lines ...string) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0})
	for id, line := range lines {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: int64(id), Peer: trace.None})
		for at := 0; at < len(line); at++ {
			from := at
			for at+1 < len(line) && line[at+1] == line[from] {
				at++
			}
			s := trace.Span{Kind: trace.Compute, Start: trace.Time(from), End: trace.Time(at + 1), Lane: lane, Parent: trace.None, Attr: trace.None}
			switch line[from] {
			case 'C':
				s.Name = b.Intern("gemm")
			case 'X':
				s.Kind, s.Name = trace.Collective, b.Intern("ring")
			default:
				continue
			}
			b.Add(s)
		}
	}
	return b.Finish(trace.Options{KeepZero: true})
}

func TestDiff(t *testing.T) {
	before := drawn("CCCC    CC", "    XXX   ")
	after := drawn("CCCC CC", " XXX   ")
	var got strings.Builder
	for _, c := range Diff(Items(before, nil, nil), Items(after, nil, nil)) {
		fmt.Fprintf(&got, "%s: %s %d > %d %+d, %d > %d\n", c.Group, c.Name, c.A, c.B, c.Diff, c.CountA, c.CountB)
	}
	want := `state: compute alone 6 > 3 -3, 0 > 0
state: overlapped 0 > 3 +3, 0 > 0
state: transfer 3 > 0 -3, 0 > 0
state: idle 1 > 1 +0, 0 > 0
cause of idle: unknown 1 > 1 +0, 0 > 0
rank: rank 0 transfer 3 > 0 -3, 0 > 0
rank: rank 0 compute 6 > 6 +0, 0 > 0
rank: rank 0 idle 1 > 1 +0, 0 > 0
kernel class: collective 3 > 3 +0, 1 > 1
kernel class: compute 6 > 6 +0, 2 > 2
kernel or copy: gemm 6 > 6 +0, 2 > 2
kernel or copy: ring 3 > 3 +0, 1 > 1
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// Two iterations from 4 to 10; their time is a median, of which a part is idle.
	each := []Times{{Compute: 1, Transfer: 1, Idle: 2}}
	got.Reset()
	for _, x := range Items(before, nil, &Iteration{In: []Interval{{Start: 4, End: 10}}, Of: 2, Each: each, Mean: each[0]}) {
		fmt.Fprintf(&got, "%s: %s %d, %d\n", x.Group, x.Name, x.Time, x.Count)
	}
	want = `state: compute alone 1, 0
state: transfer 1, 0
state: idle 2, 0
cause of idle: unknown 0, 0
rank: rank 0 compute 1, 0
rank: rank 0 transfer 1, 0
rank: rank 0 idle 2, 0
kernel class: collective 1, 0
kernel class: compute 1, 0
kernel or copy: ring 1, 0
kernel or copy: gemm 1, 0
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("an iteration: -want +got\n%s", diff)
	}
}
