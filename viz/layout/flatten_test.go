package layout

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func TestFlatten(t *testing.T) {
	// A column is a nanosecond. Spans of a row nest; what is seen is the innermost.
	for _, c := range []struct{ name, outer, inner, deepest, seen string }{
		{"alone", "aaaa", "", "", "aaaa"},
		{"phases", "wwwwwwww", "ccc.sss.", "", "cccwsssw"},
		{"exactly covered", "wwww", "ccss", "", "ccss"},
		{"two tiles", "wwww.vvvv", "cc...dddd", "", "ccww.dddd"},
		{"three levels", "wwwwwwww", ".cccccc.", "..xx.y..", "wcxxcycw"},
	} {
		b := new(trace.Builder)
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
		var levels [3][]trace.SpanID
		for n, line := range []string{c.outer, c.inner, c.deepest} {
			for start := 0; start < len(line); {
				end := start
				for end < len(line) && line[end] == line[start] {
					end++
				}
				if line[start] != '.' {
					s := trace.Span{Start: trace.Time(start), End: trace.Time(end), Name: b.Intern(line[start:end][:1]), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Marker}
					levels[n] = append(levels[n], b.Add(s))
				}
				start = end
			}
		}
		run := &trace.Run{}
		*run = *b.Finish(trace.Options{KeepZero: true})
		ids := make([]trace.SpanID, len(run.Spans))
		for i := range ids {
			ids[i] = trace.SpanID(i)
		}
		seen := []byte(strings.Repeat(".", int(run.End)))
		Flatten(run, ids, func(id trace.SpanID, from, to trace.Time) {
			for at := from; at < to; at++ {
				if seen[at] != '.' {
					t.Errorf("%s: two segments at %d", c.name, at)
				}
				seen[at] = run.NameOf(run.Spans[id])[0]
			}
		})
		if string(seen) != c.seen {
			t.Errorf("%s: %s, want %s", c.name, seen, c.seen)
		}
	}
}

func TestFlattenKeepsInstants(t *testing.T) {
	b := new(trace.Builder)
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
	for _, at := range []trace.Time{5, 5, 9} {
		b.Add(trace.Span{Start: at, End: at, Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Compute})
	}
	run := b.Finish(trace.Options{KeepZero: true})
	n := 0
	Flatten(run, []trace.SpanID{0, 1, 2}, func(trace.SpanID, trace.Time, trace.Time) { n++ })
	if n != 3 {
		t.Errorf("%d segments for 3 kernels of no length", n)
	}
}

// Marking ids sorts them as slices.Sort does.
func TestSortIDs(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(t, "spans")
		got := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) trace.SpanID { return trace.SpanID(rapid.IntRange(0, n-1).Draw(t, "id")) }), rapid.ID).Draw(t, "ids")
		want := slices.Sorted(slices.Values(got))
		if sortIDs(got, n); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
