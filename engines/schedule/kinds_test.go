package schedule_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Workgroups of one kind of collectives slow that kind alone; both kinds set alike are what channels sets. A kind that a step
// has not changes nothing.
func TestChannelsOfKinds(t *testing.T) {
	w := plantest.Step(t, 2, `
7 G1    500
9 RS1   300 G1 waits G1
7 G2    900 G1
8 copy1 350 waits G1
8 AG1   300 copy1
7 G3    300 AG1 G2 waits AG1
7 opt   100 RS1 waits RS1`)
	took := func(set string) (gather, sum, step float64) {
		out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings(set))
		at := spans(t, w, out)
		return float64(at["AG1"][0].End - at["AG1"][0].Start), float64(at["RS1"][0].End - at["RS1"][0].Start), float64(out.Time)
	}
	gather, sum, _ := took("channels=0")
	slowGather, slowSum, both := took("channels=4")
	if g, s, _ := took("gather_channels=4"); g < 0.95*slowGather || math.Abs(s-sum) > 0.02*sum {
		t.Errorf("gathers by 4: gather %.0f ns of %.0f, sum %.0f of %.0f", g, slowGather, s, sum)
	}
	if g, s, _ := took("sum_channels=4"); s < 0.95*slowSum || math.Abs(g-gather) > 0.02*gather {
		t.Errorf("sums by 4: sum %.0f ns of %.0f, gather %.0f of %.0f", s, slowSum, g, gather)
	}
	if _, _, step := took("gather_channels=4:sum_channels=4"); step != both {
		t.Errorf("both kinds by 4: %.0f ns, channels=4 %.0f", step, both)
	}
	if _, _, step := took("channels=8:gather_channels=4:sum_channels=4"); step != both {
		t.Errorf("kinds come before channels: %.0f ns, want %.0f", step, both)
	}
	sums := plantest.Step(t, 2, "7 G1 500\n9 AR1 400 G1 waits G1\n7 G2 900 G1\n7 opt 100 AR1 G2 waits AR1")
	out := enginetest.Outcome(t, sums, plantest.H200(t, 2), "multistream", enginetest.Settings("gather_channels=4"))
	if want := float64(plan.MeasuredSteps(sums).Time()); math.Abs(float64(out.Time)/want-1) > 0.001 {
		t.Errorf("gathers of a step without: %d ns, captured %.0f", out.Time, want)
	}
	if _, list := schedule.Settings(sums); list != nil {
		t.Errorf("tried for a step without gathers: %v", list)
	}
	if _, list := schedule.Settings(w); len(list) != 15 || fmt.Sprint(list[:3]) != "[gather_channels=4 sum_channels=4 gather_channels=4:sum_channels=4]" {
		t.Errorf("tried: %v", list)
	}
}
