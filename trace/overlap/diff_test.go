package overlap

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// operations are those of a timeline, a letter and its columns each, of 1 ms: upper case computes, lower case communicates.
func operations(lines ...string) (list []Operation) {
	for _, line := range lines {
		for i := 0; i < len(line); i++ {
			if line[i] == '.' || i > 0 && line[i-1] == line[i] {
				continue
			}
			end := i
			for end < len(line) && line[end] == line[i] {
				end++
			}
			o := Operation{Name: string(line[i]), Kind: trace.Compute, Start: trace.Time(i) * 1e6, End: trace.Time(end) * 1e6}
			if line[i] >= 'a' {
				o.Kind = trace.Collective
			}
			list = append(list, o)
		}
	}
	return list
}

// changesDrawn are the spans of changes, as lane, name and milliseconds.
func changesDrawn(c *trace.Run, _ string) (list []string) {
	for _, s := range c.Spans {
		list = append(list, fmt.Sprintf("%s %s %d-%d", c.LaneLabel(s.Lane), c.NameOf(s), s.Start/1e6, s.End/1e6))
	}
	slices.Sort(list)
	return list
}

// The modules of kernels have a lane, one span for those in a row; kernels of no module and of other lanes, and collectives have none.
func TestLayersOfChanges(t *testing.T) {
	a := operations("AABBCCDDAA", "..gg......", "....E.....")
	for i, layer := range map[int]string{0: "h.0", 1: "h.0", 3: "h.1", 4: "h.0", 5: "h.1", 6: "h.1"} {
		a[i].Layer = layer
	}
	a[6].Lane = 1
	want := []string{"layers h.0 0-4", "layers h.0 8-10", "layers h.1 6-8"}
	if got := changesDrawn(ChangesOf([]trace.Rank{{ID: 0}}, a, a, 10e6)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A step against itself has no change; what is removed and added accounts for every difference in number; every operation is in one pair.
func TestChangesAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ABCgh.")), 0, 40, -1)
		a, b := operations(text.Draw(t, "a")), operations(text.Draw(t, "b"))
		if d := changesDrawn(ChangesOf([]trace.Rank{{}}, a, a, 40e6)); d != nil {
			t.Errorf("against itself: %q", d)
		}
		seen := map[*Operation]int{}
		gone := 0
		for _, p := range counterparts(a, b, 0) {
			if p.a == nil {
				gone--
			} else if seen[p.a]++; p.b == nil {
				gone++
			}
			if p.b != nil {
				seen[p.b]++
			}
			if p.a != nil && p.b != nil && p.a.Name != p.b.Name {
				t.Errorf("%s is no %s", p.a.Name, p.b.Name)
			}
		}
		if len(seen) != len(a)+len(b) || gone != len(a)-len(b) {
			t.Errorf("%d of %d operations paired, %d fewer of %d", len(seen), len(a)+len(b), gone, len(a)-len(b))
		}
	})
}
