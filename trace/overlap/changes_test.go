package overlap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
)

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
