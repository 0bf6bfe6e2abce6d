package validate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// The errors of every strategy on measured rows, as goldens: a change that
// worsens a prediction shows in the diff. Run with -update after looking at it.
func TestErrorsAgainstHardware(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 800 rows")
	}
	for _, set := range []struct{ rows, golden string }{
		{"../../../shared/data/h200/validate.jsonl", "testdata/errors.golden"},
		{"../../samples/measurements/2026-11-21-h200x2/rows.jsonl", "testdata/errors-h200x2.golden"},
		{"../../samples/measurements/2026-11-21-h200x2-second/rows.jsonl", "testdata/errors-h200x2-second.golden"},
		{"../../samples/measurements/2026-11-21-h200x2-third/rows.jsonl", "testdata/errors-h200x2-third.golden"},
		{"../../samples/measurements/2026-11-22-h200x2-fourth/rows.jsonl", "testdata/errors-h200x2-fourth.golden"},
		{"../../samples/measurements/2026-11-22-h200x4-fifth/rows.jsonl", "testdata/errors-h200x4-fifth.golden"},
		{"../../samples/measurements/2026-11-22-h200x4-fifth/clock.jsonl", "testdata/errors-h200x4-clock.golden"},
		{"../../samples/measurements/2026-11-21-h200x2-models/rows.jsonl", "testdata/errors-h200x2-models.golden"},
		{"../../samples/measurements/2026-11-22-h200x4-models/rows.jsonl", "testdata/errors-h200x4-models.golden"},
		{"../../samples/measurements/2026-11-22-h200x2-flags/rows.jsonl", "testdata/errors-h200x2-flags.golden"},
	} {
		t.Run(strings.TrimSuffix(filepath.Base(set.golden), ".golden"), func(t *testing.T) { testErrors(t, set.rows, set.golden) })
	}
}

func testErrors(t *testing.T, file, golden string) {
	f, err := os.Open(file)
	if os.IsNotExist(err) && strings.HasPrefix(file, "../../../shared") {
		t.Skip("no measurements in the folder shared beside the checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := calibrate.ReadRows(f, filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]*trace.Run{}
	for _, row := range rows {
		if runs[row.Trace] == nil && row.Trace != "" {
			if runs[row.Trace], err = format.Open(filepath.Join(filepath.Dir(file), row.Trace), format.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	checks := make([]Check, len(rows))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, same := range InTurn(rows) {
		g.Go(func() error {
			warm := 0.0
			for _, i := range same {
				checks[i] = Check{Row: rows[i], Why: "no trace"}
				if run := runs[rows[i].Trace]; run != nil {
					checks[i] = CheckRow(rows[i], run, plantest.H200(t, rows[i].World), 0, warm)
					warm = checks[i].Warm
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	classes := ByConfidence(checks)
	for i := 1; i < len(classes); i++ {
		if better, worse := classes[i-1], classes[i]; worse.N >= 10 && (better.Median > worse.Median || better.P90 > worse.P90) { // fewer are no class
			t.Errorf("confidence tells nothing: %+v is no better than %+v", better, worse)
		}
	}
	got := errorTable(checks)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("errors against hardware changed:\n%s\nbefore:\n%s", got, want)
	}
}

func errorTable(checks []Check) string {
	var s strings.Builder
	skipped := 0
	for _, c := range checks {
		if c.Why != "" {
			skipped++
		}
	}
	fmt.Fprintf(&s, "%-12s %5s %8s %8s\n", "strategy", "rows", "median", "p90")
	for _, x := range Scores(checks) {
		fmt.Fprintf(&s, "%-12s %5d %7.1f%% %7.1f%%\n", x.Strategy, x.N, 100*x.Median, 100*x.P90)
	}
	for _, x := range ByConfidence(checks) {
		fmt.Fprintf(&s, "%-12s %5d %7.1f%% %7.1f%%\n", x.Level+" conf.", x.N, 100*x.Median, 100*x.P90)
	}
	choices, regret := Choices(checks), 0.0
	for _, c := range choices {
		regret += c.Regret
	}
	fmt.Fprintf(&s, "regret over %d workloads: %.1f%%; %d rows not predicted\n\n", len(choices), 100*regret/float64(max(1, len(choices))), skipped)
	for _, c := range checks {
		if c.Why == "" {
			fmt.Fprintf(&s, "%s %-44s %+6.1f%% %s\n", c.Row.ID, RowName(c.Row), 100*c.Error(), c.Confidence.Level)
		}
	}
	return s.String()
}

// A row tells by how long it was measured at which clock: its GPUs get warm while
// the rows before it are measured.
func TestMeasuredIn(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	m := plantest.H200(t, w.World)
	m.Clock.Knee.Value = 0.4
	out := enginetest.OutcomeIn(t, w, m, "bulk", nil, plan.Scenario{Clock: plan.FullClock})
	for _, c := range []struct {
		name string
		set  calibrate.Params
		warm float64
		want plan.ClockRegime
	}{
		{"some milliseconds", calibrate.Params{}, 0, plan.FullClock},
		{"of a warm GPU", calibrate.Params{}, 0.4, plan.SettledClock},
		{"of one that had a pause", calibrate.Params{Cool: true}, 0.4, plan.FullClock},
		{"seconds", calibrate.Params{Iterations: 1000}, 0, plan.SettledClock},
		{"said to be sustained", calibrate.Params{Sustained: true}, 0, plan.SettledClock},
	} {
		check := Check{Row: calibrate.Row{Params: c.set}, Warm: c.warm}
		if got := check.measuredIn(w, &m, out); got != c.want {
			t.Errorf("%s: regime %d, want %d", c.name, got, c.want)
		}
		if check.Warm <= c.warm && c.warm < 0.4 {
			t.Errorf("%s: average draw %v after it, %v before", c.name, check.Warm, c.warm)
		}
	}
}
