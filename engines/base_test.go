package engines_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Captures in which nothing overlaps.
var serialCaptures = []string{"llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "moe-ep4"}

// If nothing overlaps in a capture, the captured schedule and bulk take the same time within
// 1 %: as captured, at another clock, on another GPU and with more ranks.
func TestOneBase(t *testing.T) {
	for _, name := range serialCaptures {
		w := plantest.LiftSample(t, name)
		m := plantest.H200(t, w.World)
		agree(t, name, w, m, plan.Scenario{})
		agree(t, name+" at full clock", w, m, plan.Scenario{Clock: plan.FullClock})
		agree(t, name+" at the settled clock", w, m, plan.Scenario{Clock: plan.SettledClock})
		for _, gpu := range []string{"h100", "mi300x"} {
			to := machinetest.Load(t, gpu)
			alone := must.Have(engines.Isolate(w, m, nil))(t)
			to = to.Resize(w.World)
			agree(t, name+" on "+gpu, edit.To(alone, m, to), to, plan.Scenario{})
		}
		more, on := withRanks(t, w, 8)
		agree(t, name+" on 8 ranks", more, on, plan.Scenario{})
	}
}

// Kernels of a captured graph stay in the graph: no schedule of the same operations adds
// launches or events.
func TestGraphStaysGraph(t *testing.T) {
	for _, batch := range []string{"b1", "b32"} {
		w := plantest.LiftSample(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_decode_tp_"+batch+"_allreducenccl_graphTrue")
		m := plantest.H200(t, w.World)
		outs := must.Have(engines.Compare(w, m, enginetest.MustParse(t, "captured,bulk,multistream"), plan.Scenario{}, replay.Options{}, nil))(t)
		for _, out := range outs[1:] {
			if off := engines.Abs(out.Time - outs[0].Time); off*100 > outs[0].Time {
				t.Errorf("%s: %s takes %d ns, captured %d", batch, out, out.Time, outs[0].Time)
			}
		}
	}
}

// withRanks is the workload with another number of ranks of its largest group.
func withRanks(t *testing.T, w *workload.Workload, n int) (*workload.Workload, machine.Machine) {
	t.Helper()
	run, resized, err := edit.Ranks(w.Run, w.World, "", n)
	if err != nil {
		t.Fatal(err)
	}
	lifted := must.Have(lift.Workload(run, lift.Options{}))(t)
	from, to := plantest.H200(t, w.World), plantest.H200(t, resized.World)
	alone := must.Have(engines.Isolate(w, from, nil))(t)
	return resized.Lifted(lifted, alone, from, to), to
}

func agree(t *testing.T, name string, w *workload.Workload, m machine.Machine, sc plan.Scenario) {
	t.Helper()
	outs, err := engines.Compare(w, m, enginetest.MustParse(t, "captured,bulk"), sc, replay.Options{}, nil)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", name, err))
	}
	captured, bulk := outs[0].Expected, outs[1].Expected
	if off := engines.Abs(captured - bulk); outs[0].Why != "" || outs[1].Why != "" || off*100 > captured {
		t.Errorf("%s: captured %d ns (%s), bulk %d ns (%s)", name, captured, outs[0].Why, bulk, outs[1].Why)
	}
}

// inSequence writes a pair as it was captured, with what strategies have that write pairs.
func inSequence(r *plan.Rank, p *plan.Pair) {
	w := r.Planner.Workload
	compute, comm := r.Split(p)
	ops := []*workload.Op{compute, comm}
	if p.Direction == workload.CollectiveThenCompute {
		ops = []*workload.Op{comm, compute}
	}
	for _, id := range p.Between[r.ID] {
		ops = slices.Insert(ops, len(ops)-1, &w.Ops[id])
	}
	r.BeginPair(p)
	for _, op := range ops {
		s := r.Stream(op.Queue)
		gap := r.WaitUntilReady(s, op, r.Dependencies(p, op))
		if op == compute {
			gap = r.WriteFills(s, p.FillsBefore[r.ID], gap)
		}
		s.Launch(gap, r.Planner.CommandOf(op))
		r.WriteTail(s, op)
		r.Written(s, op)
	}
	r.EndPair()
}

// A strategy that replaces each pair by itself takes as long as the captured schedule, with the profiler and without: what it
// writes is issued as everything else is, and in a captured graph it starts as the other kernels do.
func TestPairsInPlaceOfThemselves(t *testing.T) {
	const decode = "measurements/2026-11-22-h200x2-steps/traces/h200x2_decode_tp_"
	for _, of := range []string{
		decode + "b1_allreducenccl_graphFalse", decode + "b32_allreducenccl_graphFalse", decode + "b1_allreducenccl_graphTrue", decode + "b32_allreducenccl_graphTrue",
		"fsdp-step", "ddp-step", "moe-ep4", "llama70b-fc2-allreduce",
	} {
		for _, unprofiled := range []bool{true, false} {
			if of == "fsdp-step" && !unprofiled {
				continue
			}
			w := plantest.LiftSample(t, of)
			w.Unprofiled = unprofiled
			m, taken := plantest.H200(t, w.World), 0
			itself := plan.Strategy{
				Name: "captured pairs",
				Plan: func(pl *plan.Planner, _ plan.Values) (emit plan.Emitter, why string) {
					pl.Take(plan.WithCollective)
					taken = len(pl.Pairs)
					return inSequence, ""
				},
			}
			captured := enginetest.Outcome(t, w, m, "captured", nil)
			out := must.Have(engines.Run(w, m, plan.Selection{Strategy: itself}, plan.Scenario{}, replay.Options{}))(t)
			if off := engines.Abs(out.Time - captured.Time); taken == 0 || off*200 > captured.Time {
				t.Errorf("%s, unprofiled %t: %d pairs take %d ns, captured %d", of, unprofiled, taken, out.Time, captured.Time)
			}
		}
	}
}

// A strategy that is limited to all pairs of a loop plans what it plans for the loop: settings hold for pairs in their places.
func TestLimitedToAllPairs(t *testing.T) {
	w := plantest.LiftSample(t, "llama70b-fc2-allreduce")
	m, rows := plantest.H200(t, w.World), []int{}
	for i := range w.Pairs {
		rows = append(rows, i)
	}
	for _, whole := range enginetest.MustParse(t, "bulk,bulk:channels=8,bulk:programs=100,bulk:graph=on,onesided:impl=oneshot") {
		limited := plan.Selection{Strategy: engines.On(whole.Strategy, rows), Values: whole.Values}
		var took [2]trace.Time
		for i, s := range []plan.Selection{whole, limited} {
			took[i] = must.Have(engines.Run(w, m, s, plan.Scenario{}, replay.Options{}))(t).Time
		}
		if off := engines.Abs(took[1] - took[0]); took[0] == 0 || off*1000 > took[0] {
			t.Errorf("%s: %d ns, limited to its pairs %d", whole, took[0], took[1])
		}
	}
}
