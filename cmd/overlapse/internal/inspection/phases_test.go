package inspection

import (
	"bytes"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
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
	Of(w, &m).Print(&console.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 120})
	for _, want := range []string{
		"bound by  prefill steps: compute 71.4 %, transfer 28.6 %; 0 % of communication", "          decode steps: compute 100.0 %\n",
		"where the time of prefill steps goes", "where the time of decode steps goes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "of an iteration") {
		t.Errorf("a mean of phases in\n%s", out.String())
	}
}

// Damage of more than one percent stands before what is measured of the rest.
func TestDamageStandsFirst(t *testing.T) {
	w := plantest.Step(t, 2, "7 G1 500\n9 AR1 400 G1")
	w.Damage = trace.Damage{Kernels: 10, Odd: 5, Sentences: []string{"5 of 10 kernels are twice in the input"}}
	var out bytes.Buffer
	m := plantest.H200(t, 2)
	Of(w, &m).Print(&console.Console{Out: &out, Err: &out, Bar: &out, Quiet: true, Width: 120})
	if text := out.String(); !strings.Contains(text, "\ndamaged   5 of 10 kernels are twice in the input\nbound by") {
		t.Error(text)
	}
}
