package score

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

const samples = "../../samples"

func opened(t *testing.T, path string) *trace.Run {
	t.Helper()
	return must.Have(format.Open(filepath.Join(samples, path), format.Options{}))(t)
}

// rowsOf are the rows of a file, nil where it is absent.
func rowsOf(t *testing.T, file string) []dataset.Row {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	return must.Have(dataset.OpenRows(file))(t).Sets[0].Rows
}

func TestInTurn(t *testing.T) {
	rows := make([]dataset.Row, 7)
	for i, trace := range []string{"a", "a", "b", "", "", "a", "a"} {
		rows[i].Trace = trace
	}
	want := [][]int{{0, 1}, {2}, {3}, {4}, {5, 6}}
	if got := groupRows(rows); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A row tells by how long it was measured at which clock: its GPUs get warm while
// the rows before it are measured.
func TestMeasuredIn(t *testing.T) {
	w := must.Have(lift.Workload(opened(t, "llama70b-fc2-allreduce"), lift.Options{}))(t)
	m := plantest.H200(t, w.World)
	m.Clock.Knee.Value = 0.4
	bulk, why := selectionOf(&dataset.Row{Strategy: "bulk"})
	out, err := engines.Run(w, m, bulk, plan.Scenario{Clock: plan.FullClock}, replay.Options{})
	if err != nil || out.Result == nil {
		t.Fatal(why, err, out.Why)
	}
	for _, c := range []struct {
		name string
		set  dataset.Params
		warm float64
		want plan.ClockRegime
	}{
		{"some milliseconds", dataset.Params{}, 0, plan.FullClock},
		{"of a warm GPU", dataset.Params{}, 0.4, plan.SettledClock},
		{"of one that had a pause", dataset.Params{State: dataset.State{Cool: true}}, 0.4, plan.FullClock},
		{"seconds", dataset.Params{Iterations: 1000}, 0, plan.SettledClock},
		{"said to be sustained", dataset.Params{State: dataset.State{Sustained: true}}, 0, plan.SettledClock},
	} {
		check := Check{Row: dataset.Row{Params: c.set}, warm: c.warm}
		if got := check.measuredIn(w, &m, out); got != c.want {
			t.Errorf("%s: regime %v, want %v", c.name, got, c.want)
		}
		if check.warm <= c.warm && c.warm < 0.4 {
			t.Errorf("%s: average draw %v after it, %v before", c.name, check.warm, c.warm)
		}
	}
}

// A row that was measured behind other work waits for no host; the same without
// that takes at least what its two launches take the host.
func TestQueuedRows(t *testing.T) {
	row := dataset.Row{ID: "r", Machine: "h200x2", World: 2, Strategy: "bulk", Us: 1, Workload: dataset.Workload{Kind: "gemv+collective", Collective: "all_reduce"}, Trace: "t"}
	run := opened(t, "measurements/2026-11-22-h200x2-flags/traces/bulk_gemv_n8192_k2048_w2")
	m := plantest.H200(t, 2)
	queued := row
	queued.Params.Queued = true
	checks, err := predictRows([]dataset.Row{row, queued}, Inputs{
		Trace:   func(dataset.Row) (*trace.Run, error) { return run, nil },
		Machine: func(dataset.Row) (machine.Machine, error) { return m, nil },
	})
	if err != nil || checks[0].Why != "" || checks[1].Why != "" {
		t.Fatal(err, checks[0].Why, checks[1].Why)
	}
	if least := 1e6 * (m.Launch.Host.Value + m.Launch.HostCollective.Value); checks[0].Predicted < least {
		t.Errorf("%.1f us, launching takes %.1f", checks[0].Predicted, least)
	}
	if checks[1].Predicted > 25 { // kernels of 8.3 and 5.7 us, and what lies between
		t.Errorf("behind other work %.1f us", checks[1].Predicted)
	}
}

// Rows whose trace is not there count for no sign; those whose trace is broken count as wrong ones.
func TestSignsOfAbsentTraces(t *testing.T) {
	rows := []dataset.Row{
		{ID: "a", Machine: "h200x2", World: 2, Strategy: "bulk", Us: 100, Trace: "t"},
		{ID: "b", Machine: "h200x2", World: 2, Strategy: "decompose", Us: 80, Trace: "t"},
	}
	for why, want := range map[error]int{fs.ErrNotExist: 0, errAbsent: 0, fs.ErrPermission: 1} {
		checks := must.Have(predictRows(rows, Inputs{
			Trace: func(dataset.Row) (*trace.Run, error) { return nil, fmt.Errorf("t: %w", why) },
		}))(t)
		if got := ChangesOf(checks, everything); got.Over != want || got.Right != 0 {
			t.Errorf("%v: %d of %d signs, want 0 of %d", why, got.Right, got.Over, want)
		}
	}
}
