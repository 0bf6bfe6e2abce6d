package results

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A capture of prefill and decode has a table, rows of CSV and JSON, and a verdict for each; no time is of both.
func TestRowsOfPhases(t *testing.T) {
	w := plantest.Served(t, 1)
	sel := must.Have(engines.ParseSelection("captured,bulk,multistream:interleave=2,onesided:impl=oneshot,ideal"))(t)
	var out bytes.Buffer
	con := &cli.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 120}
	r := must.Have(Of(t.Context(), con, "served", w, plantest.H200(t, 2), sel, plan.Scenario{}, replay.Options{Like: true}, true, false))(t)
	Print(con, r, "served", true, true)
	page := r.HTML()
	must.Do(t, WriteMarkdown(&out, r))
	for _, want := range []string{
		"1 prefill step of 2800.0 µs (8192 tokens), 2 decode steps of 280.0 µs (32 tokens)", "time      prefill steps: compute 71 %", "\nprefill steps\n", "\ndecode steps\n",
		"prefill steps: pass --enable-two-batch-overlap: ", "prefill steps: strategy: multistream interleave=2", "though decode steps take ", "decode steps: keep the captured schedule: ",
		"prefill step 0.0 %, decode step 0.0 %", "| captured | 2800.0 |", "| captured | 280.0 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "1120.0") { // the mean of the three
		t.Errorf("a mean of phases in\n%s", out.String())
	}
	times := map[string][]int64{}
	recommended := ""
	for _, row := range r.all() {
		times[row.Phase] = append(times[row.Phase], row.Time)
		if captured := map[string]int64{"prefill": 2_800_000, "decode": 280_000}[row.Phase]; row.Applies && (int64(r.reference.Of(row.phase).Expected) != captured || math.Abs(float64(row.Time)/float64(captured)-1-row.Change) > 1e-9) {
			t.Errorf("%s %s %s: %d of %d ns, %+.3f", row.Strategy, row.Settings, row.Phase, row.Time, captured, row.Change)
		}
		if row.Strategy == "bulk" && math.Abs(row.Change) > 0.0005 {
			t.Errorf("bulk changes nothing: %+.4f of %s", row.Change, row.Phase)
		}
		if r.recommended(row) && row.Strategy != "captured" {
			recommended += row.Strategy + " " + row.Settings + " of " + row.Phase
		}
	}
	if len(times["prefill"]) != 5 || len(times["decode"]) != 5 || len(times[""]) != 1 || recommended != "multistream interleave=2 of prefill" {
		t.Errorf("rows %v, recommended %q", times, recommended)
	}
	text := must.Have(json.Marshal(r))(t)
	var result struct {
		Measured   int64 `json:"measured_ns"`
		Phases     []plan.PhaseTime
		Verdict    verdict.Verdict
		Strategies []struct {
			Phase  string
			Phases []plan.PhaseTime
			Time   int64 `json:"time_ns"`
		}
	}
	must.Do(t, json.Unmarshal(text, &result))
	if result.Measured != 0 || len(result.Phases) != 2 || len(result.Verdict.Phases) != 2 || result.Verdict.Strategy != "" {
		t.Errorf("measured %d, phases %v, verdict %+v", result.Measured, result.Phases, result.Verdict)
	}
	for _, row := range result.Strategies {
		if row.Time > 0 && (len(row.Phases) != 1 || row.Phases[0].Phase != row.Phase || int64(row.Phases[0].Time) != row.Time) {
			t.Errorf("%+v", row)
		}
	}
	if page.Captured != 2_800_000 || len(page.Strategies) != 4 || len(page.Runs) != 5 {
		t.Errorf("captured %d, %d bars, %d runs", page.Captured, len(page.Strategies), len(page.Runs))
	}
}
