package tiles_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The lookups of 32 tables and their all-to-all are one kernel, captured in one part or in four:
// what prepares the lookups still runs, the concatenation and the collective do not, every byte for
// the peer is sent, and the step takes less time than the lookups and the all-to-all in sequence.
func TestFusedLookups(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, captured := range []string{"chunks1_channels0", "chunks4_channels0"} {
		w := plantest.LiftSample(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_dlrm_d256_b32768_"+captured)
		got := enginetest.Outcome(t, w, m, "fused", nil)
		if got.Result == nil {
			t.Fatalf("%s: %s", captured, got.Why)
		}
		runs := map[string]int{}
		for _, s := range got.Result.Run.Spans {
			name := got.Result.Run.NameOf(s)
			switch {
			case s.Kind == trace.Collective:
				runs["collective"]++
			case s.Kind == trace.Compute && strings.Contains(name, "EmbeddingBag"):
				runs["lookup"]++
			case s.Kind == trace.Compute && strings.Contains(name, "_with_index"):
				runs["preparation"]++
			}
		}
		if runs["collective"] != 0 || runs["lookup"] != 4 || runs["preparation"] != 4*32 {
			t.Errorf("%s: %v", captured, runs)
		}
		c := w.Collectives[0]
		if sent, want := enginetest.Sum(enginetest.Sent(got)), 2*float64(c.In)/2*m.Fabric.StoreCost(machine.ToNext); captured == "chunks1_channels0" && (c.Op != trace.AllToAll || !plantest.Near(sent, want)) {
			t.Errorf("%s: %s, %.0f bytes sent, want %.0f", captured, c.Op, sent, want)
		}
		bulk := enginetest.Outcome(t, w, m, "bulk", nil)
		if change := float64(got.Time)/float64(bulk.Time) - 1; change > -0.015 || change < -0.06 || len(got.Changed.Never) != 1 {
			t.Errorf("%s: %.3f of bulk, never run %v", captured, change, got.Changed.Never)
		}
	}
}

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
	out := enginetest.Ran(engines.Run(w, m, sel[0], plan.Scenario{Race: plan.CommFirst}, replay.Options{}))(t)
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

const steps = "measurements/2026-11-22-h200x2-steps/traces/h200x2_dlrm_d256_b32768_"

// Lookups of 32 tables and their all-to-all are cut together, from a capture in one part
// or in four: each all-to-all runs alongside the lookups of the next part. Measured: 39.93
// ms in one part, 39.75, 40.55 and 42.32 in 2, 4 and 8.
func TestLookupsInChunks(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, captured := range []string{"chunks1_channels0", "chunks4_channels0"} {
		w := plantest.LiftSample(t, steps+captured)
		for _, c := range []struct {
			strategy, chunks string
			ms               float64
			collectives      int // of both ranks and steps
		}{{"bulk", "", 39.93, 4}, {"decompose", "2", 39.75, 8}, {"decompose", "4", 40.55, 16}, {"decompose", "8", 42.32, 32}} {
			set := map[string]string{}
			if c.chunks != "" {
				set["chunks"] = c.chunks
			}
			out := enginetest.Outcome(t, w, m, c.strategy, set)
			if out.Result == nil {
				t.Fatalf("%s %s: %s", c.strategy, c.chunks, out.Why)
			}
			n := 0
			for _, s := range out.Result.Run.Spans {
				if s.Kind == trace.Collective {
					n++
				}
			}
			if off := float64(out.Time)/1e6/c.ms - 1; math.Abs(off) > 0.03 || n != c.collectives {
				t.Errorf("%s: %s %s: %.2f ms and %d collectives, measured %.2f and %d", captured, c.strategy, c.chunks, float64(out.Time)/1e6, n, c.ms, c.collectives)
			}
		}
	}
}
