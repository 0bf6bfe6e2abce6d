package engines

import (
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A strategy starts from times alone and adds modelled interference, gaps and waits. What the model
// does to the captured schedule it does to others too, so the captured schedule is simulated in the
// same way, and the new schedule's time is scaled by the captured schedule's time over that (rule L6,
// a control variate): a strategy that changes nothing takes the captured time.

// Control is the captured schedule as strategies simulate it, with nothing changed and not scaled: its distance
// from the captured time is the error of the simulation.
func Control(w *workload.Workload, m machine.Machine, sc plan.Scenario, o replay.Options) (Outcome, error) {
	out := Outcome{Selection: plan.Selection{Strategy: schedule.InPlace, Values: plan.Values{}}, Machine: m}
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return out, err
	}
	_, err = out.settleClock(w, sc, o)
	for _, t := range out.eachTime() {
		t.Expected, t.Best, t.Worst = t.Time, t.Time, t.Time
	}
	return out, err
}

// A simulatedBase is the simulation of the captured schedule that strategies are relative to.
type simulatedBase struct {
	ratios []float64 // of the captured time over the simulated one: of all iterations, then of those of each phase
	ran    []ran     // by operation
	urgent int       // urgentStreams
}

// urgentStreams counts the streams of a program with a priority, which may change nothing in one simulation.
func urgentStreams(p *program.Program) (n int) {
	for i := range p.GPUs {
		for j := range p.GPUs[i].Streams {
			if p.GPUs[i].Streams[j].Priority > 0 {
				n++
			}
		}
	}
	return n
}

// A ran is when the kernels of an operation run in a simulation, and how many they are.
type ran struct {
	start, end trace.Time
	kernels    int
}

// ranOf is when each operation of a workload runs; own reports whether something else runs on the devices.
func ranOf(w *workload.Workload, run *trace.Run) (ops []ran, own bool) {
	ops = make([]ran, len(w.Ops))
	for _, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		id := plan.OriginOf(run, s)
		if id < 0 {
			return nil, true
		}
		op := &ops[id]
		if op.kernels++; op.kernels == 1 {
			op.start = s.Start
		}
		op.start, op.end = min(op.start, s.Start), max(op.end, s.End)
	}
	return ops, false
}

// sameProgram reports whether every operation that runs in both of two simulations runs at the same time.
func sameProgram(w *workload.Workload, base []ran, run *trace.Run) bool {
	ops, own := ranOf(w, run)
	if own || base == nil {
		return false
	}
	for i, op := range ops {
		if op.kernels > 0 && base[i].kernels > 0 && op != base[i] {
			return false
		}
	}
	return true
}

// isRelative reports whether the time of the outcome is relative to the simulated captured schedule's.
func (o *Outcome) isRelative(w *workload.Workload) bool {
	k := o.Strategy.Kind
	return k != plan.Exact && k != plan.Bound && plan.WasMeasured(w) && w.Isolation != nil && w.Isolation.Memo != nil
}

// base simulates the captured schedule as measured and with interference, once for a scenario.
func (o *Outcome) base(w *workload.Workload, sc plan.Scenario, stop func() bool) (simulatedBase, error) {
	type key struct {
		plan.Scenario
		unprofiled bool
	}
	sc.Race, sc.Pace, sc.Shared, sc.HostBound = plan.MedianRace, 0, false, false
	found, err := w.Isolation.Memo.Get(key{sc, w.Unprofiled}, func() (any, error) {
		var times [2][]*stepTime
		var is simulatedBase
		for i, s := range []plan.Strategy{schedule.Captured, schedule.InPlace} {
			v, _ := s.Values(nil)
			out := Outcome{Selection: plan.Selection{Strategy: s, Values: v}, Machine: o.Machine}
			written, err := out.settleClock(w, sc, replay.Options{Like: true, Estimated: w.Run.Estimated, Stop: stop})
			if err != nil {
				return nil, err
			}
			times[i] = out.eachTime()
			if i == 1 && out.Result != nil {
				is.ran, _ = ranOf(w, out.Result.Run)
				is.urgent = urgentStreams(written)
			}
		}
		for i, was := range times[0] {
			ratio := 1.0
			if i < len(times[1]) && was.Time != 0 && times[1][i].Time != 0 {
				ratio = float64(was.Time) / float64(times[1][i].Time)
			}
			is.ratios = append(is.ratios, ratio)
		}
		return is, nil
	})
	is, _ := found.(simulatedBase)
	return is, err
}

// relativeTo scales the outcome's times by the ratio of the base, those of each phase by the phase's own, and notes whether the plan
// changes nothing.
func (o *Outcome) relativeTo(w *workload.Workload, p *program.Program, sc plan.Scenario, stop func() bool) error {
	if !o.isRelative(w) || o.Result == nil || o.Changed.Workload.Origins != nil {
		return nil // Origins: the workload was cut anew, and other operations ran in the captured schedule
	}
	is, err := o.base(w, sc, stop)
	if err != nil {
		return err
	}
	ratios, unchanged, least := is.ratios, urgentStreams(p) == is.urgent && sameProgram(w, is.ran, o.Result.Run), longestGEMM(w)
	for i, t := range o.eachTime() {
		if i < len(ratios) {
			scaled := trace.Time(float64(t.Time)*ratios[i] + 0.5)
			t.Time, t.Noise, t.Unchanged = max(scaled, min(t.Time, least)), math.Abs(1/ratios[i]-1), unchanged
		}
	}
	return nil
}

// longestGEMM is the time alone of the longest GEMM of an iteration, of the iteration in which it is shortest; 0 without one. A
// simulation that is longer is not scaled below it: what is wrong with a collective, say, is not wrong with a GEMM (rule L6).
func longestGEMM(w *workload.Workload) trace.Time {
	longest := map[int32]trace.Time{} // by iteration
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Step >= 0 && op.Shape.Kind == workload.GEMM {
			longest[op.Step] = max(longest[op.Step], op.DurAlone())
		}
	}
	if len(longest) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(longest)))
}
