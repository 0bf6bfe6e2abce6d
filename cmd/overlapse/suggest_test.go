package main

import (
	"runtime/debug"
	"strings"
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

func TestVersion(t *testing.T) {
	b := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.3.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "8d10c13"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-22T00:00:00Z"},
	}}
	bare := &debug.BuildInfo{GoVersion: "go1.26.0"}
	for _, c := range []struct {
		build  *debug.BuildInfo
		linked release
		want   string
	}{
		{b, release{}, "v0.3.0, commit 8d10c13, with local changes, 2026-11-22T00:00:00Z, go1.26.0 "},
		{bare, release{}, "(devel), go1.26.0 "},
		{bare, release{"v0.4.0", "9e21d24", "2026-11-23T00:00:00Z"}, "v0.4.0, commit 9e21d24, 2026-11-23T00:00:00Z, go1.26.0 "},
	} {
		if got := versionOf(c.build, c.linked); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
