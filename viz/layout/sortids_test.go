package layout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

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
