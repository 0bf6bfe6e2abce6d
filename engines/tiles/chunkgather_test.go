package tiles_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A GEMM whose gather is long done starts right behind the GEMM before it, and
// takes the CUs that the gather after that is about to leave, so that the next one has
// to wait for its tail: 3072x8192x12288 in four chunks, where the gather went first on
// both ranks, takes 997 to 1004 us in all four such iterations of
// a run on two H200 (2026-11-22). Its gathers start 57, 258 and 430 us
// after the first, its GEMMs 326, 529 and 796 us. Predicted are 966 us: gathers
// alongside the tail of a GEMM, on a few CUs, are slowed by little where interference
// grows with the CUs that compute (rule I1).
func TestGatherBehindGEMM(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-22-h200x2-fourth/traces/bulk_command_r_in_all_gather_w2", format.Options{}))(t)
	w := must.Have(lift.Workload(run, lift.Options{Unprofiled: true}))(t)
	sel := must.Have(engines.ParseSelection("decompose:chunks=4"))(t)
	m := plantest.H200(t, 2)
	l := &m.Launch
	l.Host.Value, l.Compiled.Value, l.HostEvent.Value, l.HostCollective.Value = 0, 0, 0, 0
	out, err := engines.Run(w, m, sel[0], plan.Scenario{Race: plan.CommFirst}, replay.Options{})
	if err != nil || out.Result == nil {
		t.Fatal(err, out.Why)
	}
	if got := float64(plan.StepsOf(w, out.Result.Run).Time()) / 1e3; math.Abs(got/1000-1) > 0.04 {
		t.Errorf("%.0f us, measured 997 to 1004", got)
	}
	of, _ := workload.IterationsOf(w)
	sim := out.Result.Run
	var gathers, gemms []trace.Span // of rank 0 in the second iteration
	for _, s := range sim.Spans {
		op := plan.OriginOf(sim, s)
		if op < 0 || of[op] != 1 || w.Ops[op].Rank != 0 {
			continue
		}
		if s.Kind == trace.Collective {
			gathers = append(gathers, s)
		} else if w.Ops[op].Shape.Kind == workload.GEMM {
			gemms = append(gemms, s)
		}
	}
	if len(gathers) != 4 || len(gemms) != 4 {
		t.Fatalf("%d gathers and %d GEMMs", len(gathers), len(gemms))
	}
	if gap := gemms[1].Start - gemms[0].End; gap > 2000 {
		t.Errorf("the second GEMM starts %d ns after the first", gap)
	}
	if gathers[3].Start < gemms[1].Start+50_000 || gathers[3].Start > gemms[1].End {
		t.Errorf("the last gather starts at %d, the second GEMM from %d to %d", gathers[3].Start, gemms[1].Start, gemms[1].End)
	}
}
