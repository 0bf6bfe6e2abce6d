package verdict_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Collectives that take several times the machine's law come first. A strategy that is too large to simulate is none that does
// not apply.
func TestWhatVerdictsBeginWith(t *testing.T) {
	w := *plantest.LiftSample(t, "llama70b-fc2-allreduce")
	w.Slow = []workload.SlowCollective{{Op: trace.AllReduce, Iterations: 3, Took: 11_400_000, Law: 216_700, Bus: 3.6e9, Links: 336e9, Machine: "mi300x:8"}}
	sel := must.Have(engines.ParseSelection("captured,decompose"))(t)
	captured := engines.Outcome{Selection: sel[0]}
	captured.Time, captured.Expected = 1000, 1000
	large := verdict.Prediction{Outcome: engines.Outcome{Selection: sel[1], Why: "cannot run here: 72443616 workgroups on 8 ranks take too long to simulate"}}
	got := verdict.Judge(&w, captured, []verdict.Prediction{large}, nil).Sentences
	if len(got) == 0 || !strings.HasPrefix(got[0], "all_reduce runs at 3.6 GB/s, 1.1 % of the links of mi300x:8: 11.40 ms an iteration instead of 216.7 µs by the law, in each of 3;") ||
		strings.Contains(strings.Join(got, " "), "to this trace (") {
		t.Errorf("%q", got)
	}
}
