package usage

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"captured", "bulk", "decompose", "multistream", "fused", "h200x4"}
	for typed, want := range map[string]string{
		"decompse": "decompose", "multistraem": "multistream", "bluk": "bulk", "fuse": "fused", "h20x4": "h200x4",
		"nothing": "", "": "", "x": "", "all": "",
	} {
		if got := nearest(typed, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}

// Edits is symmetric, 0 for equal words only, and no more than the longer word has letters.
func TestEdits(t *testing.T) {
	word := rapid.StringMatching(`[a-cµ]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := []rune(word.Draw(t, "a")), []rune(word.Draw(t, "b"))
		n := edits(a, b)
		if n != edits(b, a) || (n == 0) != (string(a) == string(b)) || n > max(len(a), len(b)) {
			t.Errorf("%q to %q: %d, back %d", string(a), string(b), n, edits(b, a))
		}
	})
}
