package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/viz/tui"
)

// The view of a trace that is replayed and that of the folder that replay -o writes say the
// same, of one strategy and of several.
func TestViewsOfAFolder(t *testing.T) {
	for _, strategy := range []string{"bulk,multistream:channels=4,onesided", "multistream:channels=4"} {
		dir := filepath.Join(t.TempDir(), "out")
		if code := run([]string{"replay", "../../samples/moe-ep4", "--strategy", strategy, "-o", dir, "-q"}, newApp(&cli.Console{Out: io.Discard, Err: io.Discard})); code != cli.OK {
			t.Fatal(code)
		}
		var of [2]tui.Options
		for i, path := range []string{"../../samples/moe-ep4", dir} {
			o := viewOptions{Flags: cli.Flags{Path: path}}
			if i == 0 {
				o.Strategy = strategy
			}
			a := newApp(&cli.Console{Out: io.Discard, Err: io.Discard})
			if _, _, err := a.views(context.Background(), o, &of[i]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(of[0].Times[1:], of[1].Times, cmpopts.IgnoreFields(tui.Time{}, "Step")); diff != "" || of[0].Verdict != of[1].Verdict || of[1].Verdict == "" {
			t.Errorf("%s: verdicts %q and %q, times %s", strategy, of[0].Verdict, of[1].Verdict, diff)
		}
	}
}
