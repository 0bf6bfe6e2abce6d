package verdict

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// explained runs every engine that applies, with causes.
func explained(t testing.TB, s plantest.Spec) (outs []engines.Outcome, all []Explanation) {
	t.Helper()
	w, m := s.Build(t), plantest.H200(t, s.Ranks)
	for _, e := range engines.All() {
		v := must.Have(e.Values(nil))(t)
		out := must.Have(engines.Run(w, m, plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{Causes: true}))(t)
		if out.Result != nil {
			outs, all = append(outs, out), append(all, Explain(w, out))
		}
	}
	return outs, all
}

// A machine may have more GPUs than the job: those that run nothing have no part in what limits it.
func TestLimitOfPartOfAMachine(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 2*plantest.MoeDown.Ranks)
	sel := must.Have(engines.ParseSelection("fused"))(t)
	out := must.Have(engines.Run(w, m, sel[0], plan.Scenario{}, replay.Options{Causes: true, Limits: true}))(t)
	l := TimesOf(w, out)
	if whole := l.Total(); l.Compute == 0 || engines.Abs(whole-out.Time) > out.Time/1000 {
		t.Errorf("%+v add up to %d of %d", l, whole, out.Time)
	}
}

// What an iteration is expected to take less than the simulated one, ranks wait less for each other, then for kernels and
// bytes: no part is negative, and they add up.
func TestTimesOfAnEarlierRace(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, plantest.MoeDown.Ranks)
	sel := must.Have(engines.ParseSelection("bulk"))(t)
	out := must.Have(engines.Run(w, m, sel[0], plan.Scenario{}, replay.Options{}))(t)
	out.Expected = out.Time
	was := TimesOf(w, out)
	less := was.Waiting + was.Idle + 1000
	out.Expected -= less
	is := TimesOf(w, out)
	if is.Compute != was.Compute || is.Waiting != 0 || is.Idle != 0 || is.Transfer != was.Transfer-1000 {
		t.Errorf("%d less: %+v, was %+v", less, is, was)
	}
}

// The lines of a critical path and what the time went to both add up to the
// iteration that the table shows.
func TestExplanationsAddUp(t *testing.T) {
	for name, s := range map[string]plantest.Spec{
		"all_to_all": plantest.MoeDown,
		"late rank":  {Ranks: 4, Steps: 2, Op: trace.AllToAll, Bytes: 64 << 20, Gemm: 304_000, Comm: 153_000, Channels: 32, Late: 50_000},
		"one step":   {Ranks: 4, Steps: 1, Op: trace.AllReduce, Bytes: 1 << 20, Gemm: 20_000, Comm: 25_000, Channels: 8},
		"all_gather": {Ranks: 8, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 170_000, Channels: 32, Reverse: true},
	} {
		outs, all := explained(t, s)
		for i, e := range all {
			what := fmt.Sprintf("%s: %s", name, outs[i].Strategy.Name)
			if one := cmp.Or(outs[i].Simulated, outs[i].Time); engines.Abs(e.Time/trace.Time(e.Rounds)-one) > 1 {
				t.Errorf("%s: %d iterations take %d, one takes %d", what, e.Rounds, e.Time, one)
			}
			if n := len(e.Path); n == 0 || n > maxLinks {
				t.Errorf("%s: %d links", what, n)
			}
			var links, parts trace.Time
			for _, l := range e.Path {
				var of, names trace.Time
				for _, p := range l.Parts {
					of += p.Time
				}
				for _, p := range l.Names {
					names += p.Time
				}
				if of != l.Time || names != l.Time || l.Time <= 0 || len(l.Ranks) == 0 {
					t.Errorf("%s: a link of %d on ranks %v has parts of %d and names of %d", what, l.Time, l.Ranks, of, names)
				}
				links += l.Time
			}
			for _, p := range e.Parts {
				parts += p.Time
			}
			if links != e.Time || parts != e.Time {
				t.Errorf("%s: links add up to %d, parts to %d, want %d", what, links, parts, e.Time)
			}
			e.Against("other", all[0])
			var change trace.Time
			for _, p := range e.Versus.Parts {
				change += p.Time
			}
			if n := trace.Time(len(e.Parts) + len(all[0].Parts)); engines.Abs(change-e.Versus.Change) > n { // one iteration of several is rounded
				t.Errorf("%s: differences add up to %d, want %d", what, change, e.Versus.Change)
			}
		}
	}
}

// Windows that follow each other share out the run: what each says of the
// critical path, of idle streams and of limits adds up to what the whole run's
// window says, and lies within it.
func TestExplanationsOfWindows(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, plantest.MoeDown.Ranks)
	v := must.Have(tiles.Decompose.Values(nil))(t)
	explain := func(from, to trace.Time) (Explanation, trace.Time) {
		out := enginetest.Ran(engines.Run(w, m, plan.Selection{Strategy: tiles.Decompose, Values: v}, plan.Scenario{}, replay.Options{Causes: true, Limits: true, From: from, To: to}))(t)
		return Explain(w, out), out.Result.Makespan
	}
	sum := func(into sums, e Explanation) sums {
		for _, p := range e.Parts {
			into.add("path: "+p.What, p.Time)
		}
		for _, i := range e.Idle {
			into.add("idle: "+i.Cause, i.Time)
		}
		for _, l := range e.Limits {
			into.add("limit: "+l.By, l.End-l.Start)
		}
		return into
	}
	whole, end := explain(0, trace.Infinity)
	if whole.Start != 0 || whole.Time != end || whole.Rounds != 1 {
		t.Fatalf("the whole run of %d is explained from %d for %d, as %d iterations", end, whole.Start, whole.Time, whole.Rounds)
	}
	want := sum(nil, whole)
	var got sums
	cuts := []trace.Time{0, end / 7, end / 2, end - end/9, end + 1000}
	for i, from := range cuts[:len(cuts)-1] {
		e, _ := explain(from, cuts[i+1])
		if to := min(cuts[i+1], end); e.Start != from || e.Start+e.Time != to || e.Rounds != 0 {
			t.Errorf("from %d to %d is explained from %d to %d, as %d iterations", from, to, e.Start, e.Start+e.Time, e.Rounds)
		}
		for _, l := range e.Limits {
			if l.Start < e.Start || l.End > e.Start+e.Time || l.Start >= l.End {
				t.Errorf("window %d to %d has a limit from %d to %d", e.Start, e.Start+e.Time, l.Start, l.End)
			}
		}
		got = sum(got, e)
	}
	for _, p := range difference(want, got) {
		t.Errorf("%s: windows say %d less than the whole run", p.What, p.Time)
	}
	if e, _ := explain(end+1, end+2); e.Time != 0 || len(e.Path)+len(e.Idle)+len(e.Limits) > 0 {
		t.Errorf("behind the run: %+v", e)
	}
}

// Bulk is its GEMM and its collective, one after the other.
func TestBulkIsExplained(t *testing.T) {
	outs, all := explained(t, plantest.MoeDown)
	for i, e := range all {
		if outs[i].Strategy.Name != "bulk" {
			continue
		}
		want := map[string]trace.Time{"computation": plantest.MoeDown.Gemm, "communication": plantest.MoeDown.Comm}
		for _, p := range e.Parts {
			if w := want[p.What]; w > 0 && engines.Abs(p.Time-w)*50 > w {
				t.Errorf("%s takes %d of the critical path, want about %d", p.What, p.Time, w)
			}
			delete(want, p.What)
		}
		if len(want) > 0 {
			t.Errorf("the critical path has no %v: %v", want, e.Parts)
		}
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		v    versus
		want string
	}{
		{
			versus{"bulk", -30_000, []Part{{"communication", -50_000}, {"computation", 20_000}}, []Part{{"nccl", -50_000}, {"gemm<half>(float*)", 20_000}}, 0},
			"saves 50.0 µs of communication, but pays 20.0 µs of computation (above all gemm, 20.0 µs longer)",
		},
		{
			versus{"bulk", 70_000, []Part{{"copies", -100}, {"the host", 30_000}, {"computation", 40_100}}, nil, 0},
			"pays 40.1 µs of computation and 30.0 µs of the host",
		},
		{versus{"captured", 100, nil, nil, 0}, "the critical path of the captured schedule"},
		{
			versus{"bulk", 5_000, []Part{{"computation", 5_000}}, []Part{{"gemm", 5_000}}, 2_500},
			"pays 5.0 µs of computation (above all gemm, 5.0 µs longer: its workgroups found slots up to 2.5 µs late)",
		},
	} {
		if got := c.v.Sentence(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
