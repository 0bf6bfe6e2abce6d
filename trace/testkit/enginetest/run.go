// Package enginetest runs strategies for tests, by the names that users type.
package enginetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Ran gives what a run returned, which must have a result:
//
//	out := enginetest.Ran(engines.Run(w, m, sel, plan.Scenario{}, replay.Options{}))(t)
func Ran(out engines.Outcome, err error) func(t testing.TB) engines.Outcome {
	return func(t testing.TB) engines.Outcome {
		t.Helper()
		if err != nil || out.Result == nil {
			t.Fatal(err, out.Why)
		}
		return out
	}
}

// Outcome runs a strategy with settings, which must apply.
func Outcome(t testing.TB, w *workload.Workload, m machine.Machine, name string, set map[string]string) engines.Outcome {
	t.Helper()
	return OutcomeIn(t, w, m, name, set, plan.Scenario{})
}

// OutcomeIn is Outcome in a scenario.
func OutcomeIn(t testing.TB, w *workload.Workload, m machine.Machine, name string, set map[string]string, sc plan.Scenario) engines.Outcome {
	t.Helper()
	return run(t, w, m, name, set, sc, replay.Options{})
}

func run(t testing.TB, w *workload.Workload, m machine.Machine, name string, set map[string]string, sc plan.Scenario, o replay.Options) engines.Outcome {
	t.Helper()
	e := EngineNamed(t, name)
	v, err := e.Values(set)
	if err != nil {
		t.Fatal(err)
	}
	out, err := engines.Run(w, m, plan.Selection{Strategy: e, Values: v}, sc, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// EngineNamed is the strategy of a name.
func EngineNamed(t testing.TB, name string) plan.Strategy {
	t.Helper()
	e, ok := engines.Named(name)
	if !ok {
		t.Fatalf("no engine %s", name)
	}
	return e
}

// Detailed runs an engine and records phases.
func Detailed(t testing.TB, w *workload.Workload, m machine.Machine, name string, set map[string]string, o replay.Options) engines.Outcome {
	t.Helper()
	o.Level = replay.Phases
	out := run(t, w, m, name, set, plan.Scenario{}, o)
	if out.Result == nil {
		t.Fatalf("%s: %s", name, out.Why)
	}
	return out
}

// MustParse reads selections as --strategy does.
func MustParse(t *testing.T, s string) []plan.Selection {
	t.Helper()
	sel, err := engines.ParseSelection(s)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

// Sent is the bytes that rank 0's GPU sent, by name.
func Sent(out engines.Outcome) map[string]float64 { return moved(out, replay.Egress) }

// Memory is the bytes that rank 0's memory moved, by name.
func Memory(out engines.Outcome) map[string]float64 { return moved(out, replay.Memory) }

func moved(out engines.Outcome, through replay.Resource) map[string]float64 {
	by := map[string]float64{}
	for _, tr := range out.Result.Traffic {
		if tr.GPU == 0 && tr.Resource == through {
			by[tr.Name] += tr.Bytes
		}
	}
	return by
}

// Sum adds up bytes by destination.
func Sum(by map[string]float64) (all float64) {
	for _, b := range by {
		all += b
	}
	return all
}

// Settings are a selection's, without its engine.
func Settings(s string) map[string]string {
	set := map[string]string{}
	for _, p := range strings.Split(s, ":") {
		if name, value, ok := strings.Cut(p, "="); ok {
			set[name] = value
		}
	}
	return set
}

// A Residual is the difference between a replay of the captured schedule and the trace.
type Residual struct {
	Ops     int // compared
	Outside int // off by more than 1 µs and 1 % of their duration
	Worst   trace.Time
	WorstOp string
}

// ResidualOf compares a replay of the captured schedule with the trace op by op, both
// start and end.
func ResidualOf(w *workload.Workload, run *trace.Run) Residual {
	var r Residual
	base := trace.Infinity
	for i := range w.Ops {
		base = min(base, beginsAt(w, &w.Ops[i]))
	}
	var shift trace.Time
	if i := slices.IndexFunc(run.Spans, func(s trace.Span) bool { return s.Kind.OnDevice() }); i >= 0 {
		shift = base - run.Spans[i].Start
	}
	for _, s := range run.Spans {
		id := plan.OriginOf(run, s)
		if id < 0 {
			continue
		}
		op := &w.Ops[id]
		r.Ops++
		off := max(engines.Abs(s.Start+shift-beginsAt(w, op)), engines.Abs(s.End+shift-op.End))
		if off > max(1000, op.Dur()/100) {
			r.Outside++
		}
		if off > r.Worst {
			r.Worst, r.WorstOp = off, op.Name
		}
	}
	return r
}

// beginsAt is when an op begins in a replay of the captured schedule, which waits in front of a collective for ranks that
// nobody captured.
func beginsAt(w *workload.Workload, op *workload.Op) trace.Time {
	if op.Collective < 0 {
		return op.Start
	}
	return op.Start + w.Collectives[op.Collective].Late
}
