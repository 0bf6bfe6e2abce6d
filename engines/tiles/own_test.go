package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The paper's policies written as formulas take the same time as the built-in ones, but for the test in
// the loop over K, which rows built in do not have (rule T10). Groups of
// tiles lie between rows and tiles in the number of waits. A policy that lets a consumer read
// too early is refused.
func TestOwnPolicy(t *testing.T) {
	w, m := plantest.Mlp512.Build(t), plantest.H200(t, plantest.Mlp512.Ranks)
	m.GPU.LoopWait = machine.Quantity{}
	outcome := func(settings string) (ns int64, why string) {
		out := enginetest.Outcome(t, w, m, "tilesync", enginetest.Settings(settings))
		return int64(out.Time), out.Why
	}
	for policy, formulas := range map[string]string{
		"row":  "posts=row:waits=row:count=cols*splits",
		"tile": "posts=row*cols+col:waits=row*cols+k:count=splits",
	} {
		want, _ := outcome("policy=" + policy)
		if got, why := outcome("policy=own:" + formulas); got != want {
			t.Errorf("%s: %d ns as formulas (%s), %d built in", policy, got, why, want)
		}
	}
	if groups, why := outcome("policy=own:posts=row*cols+col/8:waits=row*cols+k/8:count=8*splits"); why != "" || groups == 0 {
		t.Errorf("groups of 8 tiles: %d ns, %s", groups, why)
	}
	if back, why := outcome("policy=own:tiles=0-row"); why != "" || back == 0 {
		t.Errorf("last row first: %d ns, %s", back, why)
	}
	for _, c := range []struct{ formulas, why string }{
		{"count=cols*splits-1", "a consumer in row 0 reads column 0 of the producer's tiles after 47 of the 48 posts of semaphore 0"},
		{"posts=row*cols+col:waits=row*cols:count=splits", "a consumer in row 0 reads column 1 of the producer's tiles after 0 of the 1 posts of semaphore 1"},
		{"posts=rows*cols", "posts=rows*cols is semaphore 192 for row 0, column 0, but there are 192"},
		{"count=1/row", "count=1/row has no value for row 0, column 0"},
	} {
		if _, why := outcome("policy=own:" + c.formulas); !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: %q, want %q", c.formulas, why, c.why)
		}
	}
}

func TestFormulas(t *testing.T) {
	for formula, want := range map[string]string{
		"row +":                  "expected operand",
		"(row":                   "expected ')'",
		"row col":                "expected 'EOF'",
		"height":                 "position 1: a formula has whole numbers, [row col k rows cols splits], + - * / % and parentheses",
		"1/0 + len(row)":         "position 7: a formula has",
		"":                       "expected operand",
		strings.Repeat("1", 201): "formula of 201 bytes (at most 200)",
		"row*cols+(col%4)/2-k":   "",
	} {
		_, err := tiles.Tilesync.Values(map[string]string{"posts": formula})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", formula, err, want)
		}
	}
}
