package results

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A chart of states has compute as a whole: what is merely no longer overlapped is neither more nor less. Other groups stay as they are.
func TestChartOfStates(t *testing.T) {
	change := func(group string, is string, d trace.Time) overlap.Change {
		return overlap.Change{Group: group, Name: is, Diff: d}
	}
	u := cli.UnitOf(5_000_000)
	c := chart([]overlap.Change{
		change(overlap.ByState, overlap.Overlapping.String(), -3_000_000), change(overlap.ByState, overlap.Computing.String(), 2_900_000),
		change(overlap.ByState, overlap.Transferring.String(), 400_000),
	}, u)
	if len(c.Bars) != 2 || c.Bars[0].Name != "transfer" || c.Bars[1].Name != "compute" || c.Bars[1].Note != "-100.0 µs" {
		t.Errorf("bars %+v", c.Bars)
	}
	if c := chart([]overlap.Change{change(overlap.ByKernel, "gemm", 0)}, u); c != nil {
		t.Errorf("no difference has a chart: %+v", c)
	}
}

// Two strategies on a capture of prefill and decode differ by phase: the changes are those of the replay's table, in the text, in
// JSON and in the checks, and no number is of both phases.
func TestPhasesDiffer(t *testing.T) {
	w := plantest.Served(t, 1)
	sel := must.Have(engines.ParseSelection("captured,multistream:interleave=2"))(t)
	var out bytes.Buffer
	con := &cli.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 200}
	r := must.Have(Of(t.Context(), con, "served", w, plantest.H200(t, 2), sel, plan.Scenario{}, replay.Options{}, true, false))(t)
	changes := map[string]float64{}
	for _, row := range r.Rows {
		if row.Strategy == "multistream" {
			changes[row.Phase] = row.Change
		}
	}
	d := Simulated(r, w, &r.Outcomes[0], &r.Outcomes[1])
	d.Check(0.03)
	if len(d.Phases) != 2 || d.Change != 0 || d.A.Time != 0 || len(d.Rows) != 0 || changes["prefill"] > -0.01 || changes["decode"] < 0.03 {
		t.Fatalf("%d phases, %+.3f, changes of the table %v", len(d.Phases), d.Change, changes)
	}
	for _, p := range d.Phases {
		if p.Change != changes[p.Phase] || len(p.Rows) == 0 || p.A.Time != map[string]trace.Time{"prefill": 2_800_000, "decode": 280_000}[p.Phase] {
			t.Errorf("%s: %+.3f, the table has %+.3f; %d rows, %d ns", p.Phase, p.Change, changes[p.Phase], len(p.Rows), p.A.Time)
		}
	}
	d.Print(con, 2)
	for _, want := range []string{"prefill steps: B is ", " faster.", "\ndecode steps: B is ", " slower.", "captured: 2800.0 µs per prefill step", "captured: 280.0 µs per decode step", "decode steps: by state"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if failed := d.Failed(); !strings.HasPrefix(failed, "decode steps: step time +") || strings.Contains(failed, "prefill steps: step time") {
		t.Error(failed)
	}

	// So do results that were written.
	folder := t.TempDir()
	text := must.Have(json.Marshal(r))(t)
	must.Do(t, os.WriteFile(filepath.Join(folder, "result.json"), text, 0o600))
	same, err := ofFolders(folder, folder)
	if err != nil || len(same.Phases) != 2 || same.Phases[0].A.Time != 2_800_000 || same.Phases[1].A.Time != 280_000 {
		t.Fatalf("%v %+v", err, same)
	}
}

// Captures are compared by the phases that both have.
func TestPhasesOfCaptures(t *testing.T) {
	both, prefill := plan.MeasuredSteps(plantest.Served(t, 1)), plan.MeasuredSteps(plantest.Iterations(t, 2,
		plantest.Iteration{Text: plantest.Layers(1, 10), Batch: workload.Batch{Phase: workload.Prefill, Tokens: 8192}}))
	plain := plan.MeasuredSteps(plantest.Iterations(t, 2, plantest.Iteration{Text: plantest.Layers(1, 10)}))
	for _, c := range []struct {
		name   string
		a, b   *plan.Steps
		phases []string
		note   string
	}{
		{"both", both, both, []string{"prefill", "decode"}, ""},
		{"one of them", both, prefill, []string{"prefill"}, "not compared: only A has decode steps."},
		{"none", plain, both, []string{""}, "A and B have steps of different phases: times are means over different work."},
		{"one phase", prefill, prefill, []string{""}, ""},
	} {
		pairs, note := phasesOf([2]*plan.Steps{c.a, c.b}, true)
		var got []string
		for _, pair := range pairs {
			got = append(got, pair[0].Phase().Phase)
		}
		if strings.Join(got, ",") != strings.Join(c.phases, ",") || note != c.note {
			t.Errorf("%s: %q, %q", c.name, got, note)
		}
	}
}

// FSDP2 marks on the host which block it gathers and reduces for: every collective of a block has its name. Products of one kernel
// are told apart by their sizes.
func TestLayersAndPairs(t *testing.T) {
	w := plantest.LiftSample(t, "fsdp-step")
	layers, count := layersOf(w), map[string]int{}
	for i := range w.Collectives {
		for _, id := range w.Collectives[i].Members {
			count[layers[id]]++
		}
	}
	for _, block := range []string{"blocks.0", "blocks.5"} {
		if count[block] != 6 { // a gather in forward, one in backward, a reduction, on two ranks
			t.Errorf("%d collectives of %s", count[block], block)
		}
	}
	seen := map[string]bool{}
	for _, p := range workload.Pairs(w)[:4] {
		first, second := pairNames(w, p.Rows)
		if seen[first+second] {
			t.Errorf("two pairs are %s → %s", first, second)
		}
		seen[first+second] = true
	}
}
