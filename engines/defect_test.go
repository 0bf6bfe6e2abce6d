package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A strategy that panics is a row of its own; the others keep their times.
func TestDefectIsARow(t *testing.T) {
	w, m := plantest.Vector.Build(t), plantest.H200(t, 4)
	sel := enginetest.MustParse(t, "captured,multistream,bulk")
	sel[1].Strategy.Plan = func(*plan.Planner, plan.Values) (plan.Emitter, string) { panic("no such tile") }
	out := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
	for i, want := range []bool{true, false, true} {
		if got := out[i].Result != nil && out[i].Time > 0; got != want {
			t.Errorf("%s: %v: %s", sel[i].Strategy.Name, got, out[i].Why)
		}
	}
	if err := engines.Defect(out...); err == nil || !strings.HasPrefix(out[1].Why, engines.DefectPrefix+"no such tile at ") {
		t.Errorf("%v: %q", err, out[1].Why)
	}
	if err := engines.Defect(out[0], out[2]); err != nil {
		t.Error(err)
	}
}
