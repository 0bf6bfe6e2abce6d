package machine

import "testing"

func TestSuggestion(t *testing.T) {
	known := []string{"captured", "bulk", "decompose", "multistream", "fused", "h200x4"}
	for typed, want := range map[string]string{
		"decompse": "decompose", "multistraem": "multistream", "bluk": "bulk", "fuse": "fused", "h20x4": "h200x4",
		"nothing": "", "": "", "x": "", "all": "",
	} {
		if want != "" {
			want = ": did you mean " + want + "?"
		}
		if got := Suggestion(typed, known); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
