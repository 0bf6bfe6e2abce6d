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
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
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

// What bounds a capture of prefill and decode is said of each, as is where the time of ranks goes: here decode steps
// communicate nothing.
func TestPhasesApart(t *testing.T) {
	prefill, decode := workload.Batch{Phase: workload.Prefill, Tokens: 8192}, workload.Batch{Phase: workload.Decode, Tokens: 32}
	w := plantest.Iterations(t, 2,
		plantest.Iteration{Text: "7 D1 90\n7 E1 90", Batch: decode}, plantest.Iteration{Text: plantest.Layers(2, 10), Batch: prefill},
		plantest.Iteration{Text: "7 D3 90\n7 E3 90", Batch: decode})
	var out bytes.Buffer
	m := plantest.H200(t, 2)
	v := Inspect(w, &m)
	v.Print(&cli.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 120})
	for _, want := range []string{
		"bound by  prefill steps: compute 71.4 %, transfer 28.6 %; 0 % of communication", "          decode steps: compute 100.0 %\n",
		"where the time of prefill steps goes", "where the time of decode steps goes", "of prefill  of decode", "nvjet_E      8     2360.0      35.7 %     50.0 %",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "of an iteration") {
		t.Errorf("a mean of phases in\n%s", out.String())
	}
	r := v.JSON()
	if len(r.Times) != 0 || len(r.Phases) != 2 || r.Phases[0].Phase != "prefill" || r.Phases[0].Time != 2_800_000 || r.Phases[1].Time != 180_000 {
		t.Fatalf("iteration %+v, phases %+v", r.Times, r.Phases)
	}
	for i, want := range []overlap.Times{{Compute: 2_000_000, Transfer: 800_000}, {Compute: 180_000}} {
		if got := r.Phases[i].Times; len(got) != 2 || got[0] != want {
			t.Errorf("%s steps consist of %+v, want %+v on each rank", r.Phases[i].Phase, got, want)
		}
	}
	if k := r.Workload.Kernels[0]; k.InNs != 0 || len(k.PhasesNs) != 2 {
		t.Errorf("%+v", k)
	}
}

// Damage of more than one percent stands before what is measured of the rest.
func TestDamageStandsFirst(t *testing.T) {
	w := plantest.Step(t, 2, "7 G1 500\n9 AR1 400 G1")
	w.Damage = trace.Damage{Kernels: 10, Odd: 5, Sentences: []string{"5 of 10 kernels are twice in the input"}}
	var out bytes.Buffer
	m := plantest.H200(t, 2)
	Inspect(w, &m).Print(&cli.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 120})
	if text := out.String(); !strings.Contains(text, "\ndamaged   5 of 10 kernels are twice in the input\nbound by") {
		t.Error(text)
	}
}

// Where kernels are missing, no time is called idle: devices may have run them then.
func TestMissingKernelsMayBeIdle(t *testing.T) {
	w := plantest.Step(t, 1, "7 G1 500\n9 G2 100 G1\n7 G3 100 G2")
	for i := range w.Ops {
		if w.Ops[i].Start > 0 {
			w.Ops[i].Start, w.Ops[i].End = w.Ops[i].Start+1_000_000, w.Ops[i].End+1_000_000
		}
	}
	w.Damage = trace.Damage{Kernels: 3, Skipped: 97, Sentences: []string{"97 kernels and copies cannot be read and are left out"}}
	m := plantest.H200(t, 2)
	v := Inspect(w, &m)
	v.each[0].of.Mean.Idle = 1_000_000
	if text := v.boundText(&v.each[0]); !strings.Contains(text, "idle or one of 97 kernels and copies that are missing 62.5 %") || strings.Contains(text, "host") {
		t.Error(text)
	}
	for _, x := range v.improvements() {
		if strings.Contains(x.Worth, "devices are idle") {
			t.Errorf("%+v", x)
		}
	}
}
