package cli

import "testing"

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
