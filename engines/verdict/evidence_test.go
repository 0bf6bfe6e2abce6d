package verdict

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Each caveat has its reason and widens the error, and none of them looks at a measured time of a strategy.
func TestEvidence(t *testing.T) {
	h100 := must.Have(machine.Load("h100x4"))(t)
	mi300x := must.Have(machine.Load("mi300x:4"))(t)
	guessed := plantest.H200(t, 4)
	guessed.Fabric.StoreCU.Mark = machine.Assumed
	unknown := plantest.H200(t, 4)
	unknown.Guess = "no GPU in the trace"
	for _, c := range []struct {
		name     string
		sample   string
		m        machine.Machine
		strategy string
		poor     int // caveats that widen the error
		why      string
	}{
		{"as captured", "llama70b-fc2-allreduce", plantest.H200(t, 4), "captured", 0, "as it was measured"},
		{"in sequence", "llama70b-fc2-allreduce", plantest.H200(t, 4), "bulk", 0, "as captured"},
		{"a race", "llama70b-fc2-allreduce", plantest.H200(t, 4), "decompose:chunks=4", 0, "dispatch order varies"},
		{"chunks nobody measured", "llama70b-fc2-allreduce", plantest.H200(t, 4), "decompose:chunks=1024", 2, "8x8192x7168: the nearest one measured is 64x10240x8192"},
		{"more chunks than a host issues", "llama70b-fc2-allreduce", plantest.H200(t, 4), "decompose:chunks=128", 1, "issuing an iteration takes"},
		{"channels nobody measured", "llama70b-fc2-allreduce", plantest.H200(t, 4), "bulk:channels=100", 1, "100 channels, recorded were 1 to 32"},
		{"a library's kernel fused", "llama70b-fc2-allreduce", plantest.H200(t, 4), "fused", 2, "another build"},
		{"a kernel fused", "moe-down-triton", plantest.H200(t, 4), "fused", 0, "another build"},
		{"a number assumed", "moe-down-triton", guessed, "fused", 0, "another build"},
		{"a profile off a data sheet", "llama70b-fc2-allreduce", h100, "bulk", 1, "no benchmark of h100"},
		{"a trace of another GPU", "llama70b-fc2-allreduce", mi300x, "captured", 2, "the trace is of another GPU than mi300x:4: nvjet"},
		{"a GPU that is a guess", "llama70b-fc2-allreduce", unknown, "captured", 0, "h200:4 is a guess: no GPU in the trace"},
		{"a bound", "llama70b-fc2-allreduce", plantest.H200(t, 4), "ideal", 0, "a bound"},
		{"hardware nobody has", "llama70b-fc2-allreduce", plantest.H200(t, 4), "trigger", 2, "no GPU has"},
		{"a long iteration", "moe-ep4", plantest.H200(t, 4), "bulk", 0, "power limit"},
		{"one rank of four", "llama70b-fc2-allreduce/rank0.json.gz", plantest.H200(t, 4), "bulk", 0, "1 of 4 ranks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := must.Have(format.Open(filepath.Join("../../samples", c.sample), format.Options{}))(t)
			w := must.Have(lift.Workload(run, lift.Options{
				World:  4,
				Shapes: map[string]workload.Shape{"gemm_k": {Kind: workload.GEMM, M: 8192, N: 4096, K: 3584, ElemSize: 2}},
			}))(t)
			sel := must.Have(engines.ParseSelection(c.strategy))(t)
			out := enginetest.Ran(engines.Run(w, c.m, sel[0], plan.Scenario{}, replay.Options{}))(t)
			if got := EvidenceOf(w, out); got.Poor+2*got.Unproven != c.poor || !strings.Contains(got.Why, c.why) {
				t.Errorf("%+v, want %d: ...%s...", got, c.poor, c.why)
			}
		})
	}
}

// Durations that are scaled to another GPU, or to more ranks, have caveats: a
// capture of H200 on a GPU that is as well known, and a group of twice and of eight times the ranks.
func TestEvidenceOfRescaled(t *testing.T) {
	sel := must.Have(engines.ParseSelection("captured"))(t)
	captured := plantest.MoeDown.Build(t)
	for i := range captured.Ops {
		captured.Ops[i].Issued = captured.Ops[i].Start // as if the trace had launches
	}
	m := plantest.H200(t, captured.World)
	other := m
	other.Name, other.Profile = "other:4", "other"
	other.GPU.CUs.Value, other.GPU.Groups = 264, machine.Table{Mark: machine.Unknown}
	guessed := *captured
	guessed.Ops = slices.Clone(captured.Ops)
	for i := range guessed.Ops {
		if op := &guessed.Ops[i]; op.Collective < 0 {
			op.Kernel = &workload.Kernel{Name: "mine", Footprint: op.Footprint}
		}
	}
	grown := edit.To(captured, m, m)
	grown.Rescaled.Was, grown.Rescaled.Ranks = 2, 4
	more := edit.To(captured, m, m)
	more.Rescaled.Was, more.Rescaled.Ranks = 2, 16
	for _, c := range []struct {
		name string
		w    *workload.Workload
		m    machine.Machine
		poor int
		why  string
	}{
		{"as captured", captured, m, 0, "as it was measured"},
		{"the same GPU", edit.To(captured, m, m), m, 0, "as it was measured"},
		{"another GPU", edit.To(captured, m, other), other, 1, "captured on h200x4 and scaled to other:4 by laws"},
		{"kernels of unknown sizes", edit.To(&guessed, m, other), other, 2, "of the captured time the trace does not show which law holds"},
		{"twice the ranks", grown, m, 1, "2 ranks were captured, not 4"},
		{"eight times the ranks", more, m, 2, "2 ranks were captured, not 16"},
	} {
		out, err := engines.Run(c.w, c.m, sel[0], plan.Scenario{}, replay.Options{})
		if err != nil || out.Result == nil {
			t.Fatal(c.name, err, out.Why)
		}
		if got := EvidenceOf(c.w, out); got.Poor+2*got.Unproven != c.poor || !strings.Contains(strings.ReplaceAll(got.Why, "h200:4", "h200x4"), c.why) {
			t.Errorf("%s: %+v, want %d: ...%s...", c.name, got, c.poor, c.why)
		}
	}
}

// What does not apply has no confidence.
func TestConfidenceOfNothing(t *testing.T) {
	if c := Predict(nil, engines.Outcome{}, engines.Outcome{Why: "does not apply"}).Confidence; c != (Confidence{}) {
		t.Errorf("%+v", c)
	}
}

// A program's library is the one whose ranges are in the trace; FSDP1's and FSDP2's arguments have other names.
func TestFrameworks(t *testing.T) {
	for name, want := range map[string]string{
		"FSDP::pre_forward (layers.0)":          plan.FSDP,
		"FullyShardedDataParallel._pre_forward": plan.FSDP1,
		"DistributedDataParallel.forward":       plan.DDP,
		"Optimizer.step#AdamW.step":             "",
	} {
		if got := frameworkOf(&trace.Run{Names: []string{"aten::mm", name}}); got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}
