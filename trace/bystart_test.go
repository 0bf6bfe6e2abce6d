package trace

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Buckets of any fill, also of one far span beside many near ones, end in the stable order by start.
func TestByStart(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var b Builder
		scale := rapid.SampledFrom([]int64{1, 1000, 1 << 40}).Draw(t, "scale")
		for _, at := range rapid.SliceOfN(rapid.Int64Range(0, 300), 1, 500).Draw(t, "starts") {
			if at == 300 {
				at *= scale
			}
			b.Add(Span{Start: Time(at - 150)})
		}
		want := make([]SpanID, b.Len())
		for i := range want {
			want[i] = SpanID(i)
		}
		slices.SortStableFunc(want, func(x, y SpanID) int { return cmp.Compare(b.Span(x).Start, b.Span(y).Start) })
		if got := b.byStart(); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
