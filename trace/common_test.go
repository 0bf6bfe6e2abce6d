package trace

import (
	"slices"
	"testing"
)

// Equal sequences are paired whole; beyond the bound only what is equal at both ends is.
func TestLongestCommon(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int
		want [][2]int
	}{
		{"abc", "abc", 0, [][2]int{{0, 0}, {1, 1}, {2, 2}}},
		{"", "abc", 9, nil},
		{"abxcd", "abycd", 9, [][2]int{{0, 0}, {1, 1}, {3, 3}, {4, 4}}},
		{"axbycz", "abcz", 9, [][2]int{{0, 0}, {2, 1}, {4, 2}, {5, 3}}},
		{"axbycz", "abcz", 1, [][2]int{{0, 0}, {4, 2}, {5, 3}}},
	} {
		if got := LongestCommon(len(c.a), len(c.b), c.most, func(i, j int) bool { return c.a[i] == c.b[j] }); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q, at most %d apart: %v, want %v", c.a, c.b, c.most, got, c.want)
		}
	}
}
