package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What modelled kernels gain by themselves is no strategy's.
func TestGainIsBeyondBulk(t *testing.T) {
	sel := enginetest.MustParse(t, "bulk,bulk:channels=8,decompose,bulk:protocol=simple") // the last is experimental
	for _, c := range []struct {
		times [4]trace.Time
		best  int
	}{{[4]trace.Time{997, 996, 993, 900}, -1}, {[4]trace.Time{1003, 1003, 994, 900}, 2}, {[4]trace.Time{997, 990, 993, 900}, 1}} {
		var p engines.PairChoice
		for i, s := range sel {
			p.Outcomes = append(p.Outcomes, taking(s, c.times[i], ""))
		}
		if p.Choose(1000, false); p.Best != c.best {
			t.Errorf("times %v: chose %d, want %d", c.times, p.Best, c.best)
		}
	}
}

// Of every engine the defaults come first, no combination comes twice, given
// settings stay, and a setting varies only where it means something.
func TestCandidates(t *testing.T) {
	for _, e := range engines.All() {
		sel := must.Have(e.Candidates(nil))(t)
		if set := e.String(sel[0].Values); set != "" {
			t.Errorf("%s: first are not the defaults but %q", e.Name, set)
		}
		seen := map[string]bool{}
		for _, s := range sel {
			set := e.String(s.Values)
			if seen[set] {
				t.Errorf("%s: %q twice", e.Name, set)
			}
			seen[set] = true
			for _, p := range e.Params {
				if s.Values[p.Name] != p.Default && !p.Matters(s.Values) {
					t.Errorf("%s: %q varies %s, which means nothing there", e.Name, set, p.Name)
				}
			}
		}
		for _, p := range e.Params {
			if name, values, ok := strings.Cut(p.For, "="); ok {
				for _, v := range strings.Split(values, "|") {
					if _, err := e.Values(map[string]string{name: v}); err != nil {
						t.Errorf("%s: %s is for %s: %v", e.Name, p.Name, p.For, err)
					}
				}
			}
		}
	}
	sel := must.Have(tiles.Decompose.Candidates(map[string]string{"chunks": "3", "variant": "chunks"}))(t)
	for _, s := range sel {
		if s.Values["chunks"] != "3" {
			t.Errorf("chunks=3 was given, %s tried", s.Values["chunks"])
		}
	}
}

// taking is the outcome of a selection that takes a time, or does not run.
func taking(s plan.Selection, t trace.Time, why string) engines.Outcome {
	out := engines.Outcome{Selection: s, Why: why}
	out.Time, out.Expected = t, t
	return out
}
