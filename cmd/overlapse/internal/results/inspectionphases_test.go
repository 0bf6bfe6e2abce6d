package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

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
