package engines

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Only a deadlock of the captured schedule is the trace's fault.
func TestCannotRunNamesACure(t *testing.T) {
	deadlock := &replay.DeadlockError{At: 7, Chain: []string{`GPU 0: stream "a" waits`}}
	for _, c := range []struct {
		strategy plan.Strategy
		err      error
		cure     bool
	}{{schedule.Captured, deadlock, true}, {schedule.Bulk, deadlock, false}, {schedule.Captured, errors.New("fits on no compute unit"), false}} {
		out := Outcome{Selection: plan.Selection{Strategy: c.strategy}, Err: c.err}
		why := out.cannotRun()
		if !strings.HasPrefix(why, "cannot run: "+c.err.Error()) || strings.Contains(why, "capture the same steps on all ranks") != c.cure {
			t.Errorf("%s, %v: %s", c.strategy.Name, c.err, why)
		}
	}
}

// In two races the GEMM stays first on at least one of two ranks in 7 of 16 cases, and
// on at least one of four ranks in 175 of 256.
func TestRaceOutcomes(t *testing.T) {
	for _, c := range []struct {
		ranks   int
		gathers bool
		chunks  int
		want    []raceOutcome
	}{
		{2, false, 8, []raceOutcome{{plan.GEMMFirst, 1. / 4}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 1. / 2}}},
		{4, false, 8, []raceOutcome{{plan.GEMMFirst, 1. / 16}, {plan.CommFirst, 1. / 16}, {plan.RanksDiffer, 7. / 8}}},
		{2, true, 2, []raceOutcome{{plan.GEMMFirst, 1. / 4}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 1. / 2}}},
		{2, true, 3, []raceOutcome{{plan.LastGEMMFirst, 7. / 16}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 5. / 16}}},
		{4, true, 4, []raceOutcome{{plan.LastGEMMFirst, 175. / 256}, {plan.CommFirst, 1. / 16}, {plan.RanksDiffer, 65. / 256}}},
	} {
		if got := raceOutcomes(c.ranks, c.gathers, c.chunks, 2); !slices.Equal(got, c.want) {
			t.Errorf("%d ranks, %d chunks, gathers %v: %v, want %v", c.ranks, c.chunks, c.gathers, got, c.want)
		}
	}
}

// What only copies is moved to copy engines where they do not move it yet, and back where they do, on machines that have some.
func TestOfCarriers(t *testing.T) {
	m := plantest.H200(t, 2)
	gather, reduce := workload.Collective{Op: trace.AllGather}, workload.Collective{Op: trace.AllReduce}
	moved := gather
	moved.Engines = true
	for want, c := range map[string][]workload.Collective{
		"carrier=dma": {reduce, gather}, "": {reduce}, "carrier=cu": {reduce, moved}, "carrier=dma, carrier=cu": {moved, gather},
	} {
		sel, err := OfCarriers(&workload.Workload{Collectives: c}, &m, false)
		var got []string
		for _, s := range sel {
			got = append(got, s.Strategy.String(s.Values))
		}
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%q: %v, %v", want, got, err)
		}
	}
	m.Engines = machine.Engines{}
	if sel, _ := OfCarriers(&workload.Workload{Collectives: []workload.Collective{gather}}, &m, true); sel != nil {
		t.Errorf("without engines: %v", sel)
	}
}

// A prediction does not depend on whether its causes can be recorded: of ranks that are too large together, one is simulated.
func TestTooLargeToExplain(t *testing.T) {
	w := plantest.Spec{Ranks: 2, Steps: 2, Op: trace.AllReduce, Bytes: 32 << 20, Gemm: 400_000, Comm: 150_000, Channels: 16}.Build(t)
	v, _ := schedule.Bulk.Values(nil)
	out, err := Run(w, plantest.H200(t, 2), plan.Selection{Strategy: schedule.Bulk, Values: v}, plan.Scenario{}, replay.Options{Causes: true, Limits: true, MostWGs: 300})
	if err != nil || out.Result == nil || out.Program != nil || !strings.Contains(out.Unexplained, "take too long to simulate") {
		t.Errorf("%v: %s, %v, not explained: %q", err, out.Why, out.Result != nil, out.Unexplained)
	}
}

// F takes 100 us in three instances alone and 120 beside an all-reduce.
//
//	stream 7  |F1|F2|F3|F4-|
//	stream 9           |AR---|
func TestSlowdown(t *testing.T) {
	w := plantest.Step(t, 2, `
7 F1 100
7 F2 100
7 F3 100
9 AR1 300 F3 waits F3
7 F4 120`)
	for i := range w.Ops {
		k := *w.Ops[i].Kernel
		k.Name = k.Name[:len(k.Name)-1]
		w.Ops[i].Kernel = &k
	}
	s := SlowdownOf(w)
	if s.Time != 20_000 || s.Kernels != 2 || s.Collectives[trace.AllReduce] != 1 {
		t.Errorf("%+v, want 20 us of a kernel on each of 2 ranks beside 1 all-reduce", s)
	}
	w.Ops[0].Kernel, w.Ops[w.Ranks[1][0]].Kernel = w.Ops[3].Kernel, w.Ops[3].Kernel // of another kernel
	w.Ops[1].Kernel, w.Ops[w.Ranks[1][1]].Kernel = w.Ops[3].Kernel, w.Ops[3].Kernel
	if s := SlowdownOf(w); s.Time != 0 {
		t.Errorf("%+v of too few instances", s)
	}
}
