package plan

import (
	"slices"
	"testing"
)

// Parts hold all things, in order, each as many as its size says and none fewer than the number of parts allows.
func TestCuts(t *testing.T) {
	for _, c := range []Cut{{2, 1}, {3, 3}, {17, 8}, {100, 3}, {513, 32}, {4, 8}} {
		counts := make([]int, c.Parts)
		for i := range c.N {
			part := c.Of(i)
			counts[part]++
			if i < c.From(part) || i >= c.From(part+1) {
				t.Errorf("%+v: %d is in part %d from %d to %d", c, i, part, c.From(part), c.From(part+1))
			}
		}
		for part, n := range counts {
			if n != c.From(part+1)-c.From(part) || n < c.N/c.Parts {
				t.Errorf("%+v: part %d has %d, not those from %d to %d", c, part, n, c.From(part), c.From(part+1))
			}
		}
	}
}

func TestAround(t *testing.T) {
	for _, c := range []struct {
		from, step int
		want       []int
	}{{0, 1, []int{0, 1, 2, 3}}, {3, 1, []int{3, 0, 1, 2}}, {-1, -1, []int{3, 2, 1, 0}}, {4, -1, []int{0, 3, 2, 1}}} {
		if got := Around(4, c.from, c.step); !slices.Equal(got, c.want) {
			t.Errorf("from %d by %d: %v, want %v", c.from, c.step, got, c.want)
		}
	}
}
