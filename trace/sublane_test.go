package trace

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// TestSubLanes draws spans that overlap on one queue; a column is 1 ns.
func TestSubLanes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"AA.BB.CC", "AA.BB.CC"},
		{"AABBCC", "AABBCC"},
		{"AAAA|.BB.|..CC|....DD", "AAAADD|.BB|..CC"},
		{"AAAAA|.BB|....CC|.....DD", "AAAAADD|.BB.CC"}, // reuses the lowest free sub-lane
	} {
		var b Builder
		b.AddRank(Rank{})
		lane := b.Lane(Lane{Kind: Queue, Peer: None, Name: "q"})
		drawn := map[string]Span{}
		for _, line := range strings.Split(c.in, "|") {
			for _, name := range []string{"A", "B", "C", "D"} {
				if start := strings.Index(line, name); start >= 0 {
					drawn[name] = Span{Start: Time(start), End: Time(strings.LastIndex(line, name) + 1), Name: b.Intern(name), Lane: lane, Parent: None, Attr: None}
				}
			}
		}
		for _, name := range []string{"D", "B", "A", "C"} {
			if s, ok := drawn[name]; ok {
				b.Add(s)
			}
		}
		run := b.Finish(Options{})
		rows := make([]string, len(run.Lanes))
		for _, s := range run.Spans {
			l := run.Lanes[s.Lane]
			if l.Name != "q" {
				t.Errorf("%s: sub-lane %d is called %q", c.in, l.Sub, l.Name)
			}
			rows[l.Sub] += strings.Repeat(".", int(s.Start)-len(rows[l.Sub])) + strings.Repeat(run.NameOf(s), int(s.Dur()))
		}
		if got := strings.Join(rows, "|"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

// TestSubLanesAgainstNaive compares with a linear search for a free sub-lane.
func TestSubLanesAgainstNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var b Builder
		b.AddRank(Rank{})
		lane := b.Lane(Lane{Kind: Queue, Peer: None})
		for range rapid.IntRange(1, 30).Draw(t, "spans") {
			start := rapid.Int64Range(0, 40).Draw(t, "start")
			b.Add(Span{Start: Time(start), End: Time(start + rapid.Int64Range(0, 20).Draw(t, "dur")), Lane: lane, Parent: None, Attr: None})
		}
		run := b.Finish(Options{})
		var free []Time
		subs := map[int32]int{}
		for _, s := range run.Spans {
			l := run.Lanes[s.Lane]
			subs[l.Sub]++
			if int(l.Sub) < len(free) && free[l.Sub] > s.Start {
				t.Fatalf("%+v overlaps on sub-lane %d", s, l.Sub)
			}
			for int(l.Sub) >= len(free) {
				free = append(free, 0)
			}
			free[l.Sub] = s.End
		}
		if most := deepest(run.Spans); len(subs) != most {
			t.Fatalf("%d sub-lanes for %d spans at once", len(subs), most)
		}
	})
}

// deepest returns the largest number of spans that are open at one start.
func deepest(spans []Span) int {
	most := 0
	for i, s := range spans {
		n := 1
		for _, o := range spans[:i] { // sorted: these do not start later
			if o.End > s.Start {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
